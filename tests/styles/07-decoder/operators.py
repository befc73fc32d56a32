# Right answers that lean on PyTorch's own operators, with imports and helper names of their own.


def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    import torch.nn.functional as F

    query, key = F.linear(x, w_q.T), F.linear(memory, w_k.T)
    bias = 0.0 if mask is None else torch.zeros(mask.shape, dtype=x.dtype).masked_fill(~mask, float("-inf"))
    weights = F.softmax(torch.matmul(query, key.mT).div(query.size(-1) ** 0.5) + bias, dim=-1)
    return weights.matmul(memory.matmul(w_v)), weights


class EncoderDecoderAttention(MultiHeadAttention):
    def forward(self, x, memory, mask=None):
        return super().forward(x, memory, memory, mask)


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        nn.Module.__init__(self)
        self.add_norm_3 = AddAndNorm(d_model, dropout=dropout, pre_norm=pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout=dropout, pre_norm=pre_norm)
        self.add_norm_1 = AddAndNorm(d_model, dropout=dropout, pre_norm=pre_norm)
        self.feed_forward = FeedForward(d_model, d_ff, dropout=dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout=dropout)
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout=dropout)
        self.order = "pre" if pre_norm else "post"

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        from functools import partial

        after_self = self.add_norm_1(x, lambda h: self.self_attention(h, h, h, mask=target_mask))
        ask = partial(self.cross_attention, key=memory, value=memory, mask=memory_mask)
        after_cross = self.add_norm_2(after_self, ask)
        return self.add_norm_3(after_cross, self.feed_forward.forward)


class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        options = {"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff, "dropout": dropout, "pre_norm": pre_norm}
        self.layers = nn.ModuleList()
        while len(self.layers) < num_layers:
            self.layers.append(DecoderLayer(**options))
        if pre_norm:
            self.norm = nn.LayerNorm(d_model, eps=1e-5)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        from functools import reduce

        x = reduce(lambda h, layer: layer(h, memory, target_mask, memory_mask), self.layers, x)
        return getattr(self, "norm", nn.Identity())(x)


class Generator(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.linear = nn.Linear(in_features=d_model, out_features=vocab_size)
        nn.init.xavier_uniform_(self.linear.weight)

    def forward(self, x):
        return torch.nn.functional.linear(x, self.linear.weight, self.linear.bias)


def sequence_log_probability(logits, target):
    classes = logits.shape[-1]
    losses = nn.CrossEntropyLoss(reduction="none")(logits.reshape(-1, classes), target.reshape(-1))
    return losses.neg().view(target.shape).sum(-1)


def decode_steps(embed, decoder, generator, memory, start_id, steps):
    batch, longest = memory.shape[0], max(steps, 1)
    tokens = torch.full((batch, steps + 1), start_id, dtype=torch.long)
    mask = torch.ones(longest, longest).tril().bool()
    with torch.no_grad():
        for t in range(steps):  # the whole length each time; the mask hides what is not written yet
            logits = generator(decoder(embed(tokens[:, :longest]), memory, mask[None, None]))
            tokens[:, t + 1] = logits[:, t].topk(1).indices.squeeze(-1)
    return tokens


def key_rows(num_layers, source, steps):
    return [num_layers * n for n in (source * steps, source, (steps * steps + steps) // 2, steps)]
