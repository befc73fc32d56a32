# Right answers by somebody who thinks in loops.


def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    if x.dim() > 2:
        if mask is not None:
            mask = mask.expand(*x.shape[:-1], memory.shape[-2])
        pairs = [
            cross_attention(x[b], memory[b], w_q, w_k, w_v, None if mask is None else mask[b]) for b in range(len(x))
        ]
        return torch.stack([a for a, _ in pairs]), torch.stack([b for _, b in pairs])
    if mask is not None:
        mask = mask.expand(len(x), len(memory))
    keys, values = [h @ w_k for h in memory], torch.stack([h @ w_v for h in memory])
    all_weights = []
    for i, row in enumerate(x):
        q = row @ w_q
        scores = torch.stack([torch.dot(q, k) / len(q) ** 0.5 for k in keys])
        if mask is not None:
            scores = torch.where(mask[i], scores, torch.full_like(scores, -math.inf))
        all_weights.append(torch.softmax(scores, 0))
    weights = torch.stack(all_weights)
    return weights @ values, weights


class EncoderDecoderAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model / num_heads != d_model // num_heads or d_model < num_heads:
            raise ValueError("the heads cannot share the features equally")
        self.h = num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model))

    def forward(self, x, memory, mask=None):
        q, k, v = self.w_q(x), self.w_k(memory), self.w_v(memory)
        d = x.shape[-1] // self.h
        if mask is not None:
            mask = mask.expand(len(x), self.h, x.shape[1], memory.shape[1])
        heads = []
        for h in range(self.h):
            part = slice(h * d, (h + 1) * d)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / d**0.5
            if mask is not None:
                scores = scores.masked_fill(mask[:, h].logical_not(), -1e30)
            heads.append(scores.softmax(-1) @ v[..., part])
        return self.w_o(torch.cat(heads, dim=-1))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        for name in ("self_attention", "cross_attention"):
            self.add_module(name, MultiHeadAttention(d_model, num_heads, dropout))
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        for i in range(1, 4):
            self.add_module(f"add_norm_{i}", AddAndNorm(d_model, dropout, pre_norm))

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        def look_back(y):
            return self.self_attention(query=y, key=y, value=y, mask=target_mask)

        def look_at_source(y):
            return self.cross_attention(query=y, key=memory, value=memory, mask=memory_mask)

        steps = [
            (self.add_norm_1, look_back),
            (self.add_norm_2, look_at_source),
            (self.add_norm_3, lambda y: self.feed_forward(y)),
        ]
        for add_norm, step in steps:
            x = add_norm(x, step)
        return x


class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        layers = []
        for _ in range(num_layers):
            layers.append(DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm))
        self.layers = nn.ModuleList(layers)
        self.pre_norm = pre_norm
        if pre_norm:
            self.norm = LayerNorm(d_model)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for i in range(len(self.layers)):
            x = self.layers[i](x, memory, target_mask=target_mask, memory_mask=memory_mask)
        if self.pre_norm:
            x = self.norm(x)
        return x


class Generator(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.linear = nn.Linear(d_model, vocab_size)

    def forward(self, x):
        if x.dim() == 1:
            return self.linear(x)
        return torch.stack([self.forward(part) for part in x])


def sequence_log_probability(logits, target):
    if target.dim() > 1:
        return torch.stack([sequence_log_probability(a, b) for a, b in zip(logits, target, strict=True)])
    total = torch.zeros((), dtype=logits.dtype)
    for row, word in zip(logits, target, strict=True):
        total = total + row[word] - row.logsumexp(0)
    return total


def decode_steps(embed, decoder, generator, memory, start_id, steps):
    sequences = []
    for h in memory:
        sequence = [start_id]
        while len(sequence) <= steps:
            x = embed(torch.tensor([sequence]))
            n = len(sequence)
            mask = torch.tensor([[[[j <= i for j in range(n)] for i in range(n)]]])
            scores = generator(decoder(x, h.unsqueeze(0), target_mask=mask)[0, -1])
            sequence.append(int(scores.argmax()))
        sequences.append(sequence)
    return torch.tensor(sequences)


def key_rows(num_layers, source, steps):
    cross_anew = cross_once = self_anew = self_once = 0
    for _ in range(num_layers):
        cross_once += source
        for t in range(1, steps + 1):
            cross_anew += source
            self_anew += t
            self_once += 1
    return cross_anew, cross_once, self_anew, self_once
