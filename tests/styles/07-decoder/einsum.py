# Right answers in einsum, with code as in The Annotated Transformer: sub-layers cloned, masks compared with 0.


def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    scores = torch.einsum("...td,dk,ek,...se->...ts", x, w_q, w_k, memory) * w_q.shape[1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    p = scores.softmax(dim=-1)
    return torch.einsum("...ts,...se,ev->...tv", p, memory, w_v), p


class EncoderDecoderAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = [nn.Linear(d_model, d_model) for _ in range(4)]

    def forward(self, x, memory, mask=None):
        shape = (-1, self.num_heads, x.shape[-1] // self.num_heads)
        q, k, v = self.w_q(x).unflatten(-1, shape[1:]), self.w_k(memory).unflatten(-1, shape[1:]), self.w_v(memory)
        v = v.unflatten(-1, shape[1:])
        scores = torch.einsum("bthc,bshc->bhts", q, k) / math.sqrt(shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.w_o(torch.einsum("bhts,bshc->bthc", scores.softmax(-1), v).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        import copy

        attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.self_attention, self.cross_attention = copy.deepcopy(attention), copy.deepcopy(attention)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        sublayer = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_1, self.add_norm_2, self.add_norm_3 = (copy.deepcopy(sublayer) for _ in range(3))

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        m = memory
        x = self.add_norm_1(x, lambda x: self.self_attention(x, x, x, target_mask))
        x = self.add_norm_2(x, lambda x: self.cross_attention(x, m, m, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        import copy

        layer = DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model) if pre_norm else None

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, target_mask, memory_mask)
        return x if self.norm is None else self.norm(x)


class Generator(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.linear = nn.Linear(d_model, vocab_size)

    def forward(self, x):
        return torch.einsum("...d,vd->...v", x, self.linear.weight) + self.linear.bias


def sequence_log_probability(logits, target):
    one_hot = torch.nn.functional.one_hot(target, logits.shape[-1]).to(logits.dtype)
    return torch.einsum("...tv,...tv->...", logits - logits.logsumexp(-1, keepdim=True), one_hot)


def decode_steps(embed, decoder, generator, memory, start_id, steps):
    ys = torch.zeros(memory.size(0), 1).fill_(start_id).long()
    for _ in range(steps):
        out = decoder(embed(ys), memory, torch.tril(torch.ones(1, ys.size(1), ys.size(1))) == 1)
        prob = torch.log_softmax(generator(out[:, -1]), dim=-1)
        _, next_word = torch.max(prob, dim=1)
        ys = torch.cat([ys, next_word[:, None]], dim=1)
    return ys


key_rows = lambda layers, s, n: (layers * s * n, layers * s, layers * sum(range(n + 1)), layers * n)  # noqa: E731
