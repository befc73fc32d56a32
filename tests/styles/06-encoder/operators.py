# Right answers that lean on PyTorch's own operators, and on the shapes of tensors.


def layer_shapes(batch, n, d_model, num_heads, d_ff):
    x = torch.empty(batch, n, d_model, device="meta")
    q = x.unflatten(-1, (num_heads, -1)).transpose(1, 2)
    weights = q @ q.mT
    hidden = torch.empty(batch, n, d_ff, device="meta")
    merged = (weights @ q).transpose(1, 2).flatten(2)
    shapes = {"queries": q, "weights": weights, "merged": merged, "hidden": hidden, "output": x}
    return {name: tuple(tensor.shape) for name, tensor in shapes.items()}


def encoder_block(x, attention, feed_forward, norm_1, norm_2, pre_norm=False):
    if not pre_norm:
        x = norm_1(torch.add(x, attention(x)))
        return norm_2(torch.add(x, feed_forward(x)))
    x = torch.add(x, attention(norm_1(x)))
    return torch.add(x, feed_forward(norm_2(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        parts = {
            "attention": MultiHeadAttention(d_model, num_heads, dropout),
            "feed_forward": FeedForward(d_model, d_ff, dropout),
            "add_norm_1": AddAndNorm(d_model, dropout, pre_norm),
            "add_norm_2": AddAndNorm(d_model, dropout, pre_norm),
        }
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x, mask=None):
        from functools import partial

        attend = partial(self._attend, mask=mask)
        return self.add_norm_2(self.add_norm_1(x, attend), lambda y: self.feed_forward(y))

    def _attend(self, y, mask):
        return self.attention(query=y, key=y, value=y, mask=mask)


def to_pytorch(state):
    def stacked(kind):
        return torch.stack([state[f"attention.w_{c}.{kind}"] for c in ("q", "k", "v")]).flatten(0, 1).clone()

    names = {
        "attention.w_o": "self_attn.out_proj",
        "feed_forward.linear_1": "linear1",
        "feed_forward.linear_2": "linear2",
        "add_norm_1.norm": "norm1",
        "add_norm_2.norm": "norm2",
    }
    result = {}
    for key, tensor in state.items():
        stem, kind = key.rsplit(".", 1)
        if stem in names:
            result[f"{names[stem]}.{kind}"] = tensor.clone()
    return result | {f"self_attn.in_proj_{kind}": stacked(kind) for kind in ("weight", "bias")}


def encoder_parameters(num_layers, d_model, d_ff, pre_norm=False):
    layer = nn.TransformerEncoderLayer(d_model, 1, d_ff, device="meta")
    return num_layers * sum(p.numel() for p in layer.parameters()) + 2 * d_model * pre_norm


class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(EncoderLayer(d_model, num_heads, d_ff, dropout=dropout, pre_norm=pre_norm))
        if pre_norm:
            self.norm = LayerNorm(d_model)
        self.pre_norm = pre_norm

    def forward(self, x, mask=None):
        import functools

        x = functools.reduce(lambda y, layer: layer(y, mask=mask), self.layers, x)
        if self.pre_norm:
            x = self.norm(x)
        return x


def masked_mean(x, visible):
    weights = visible.to(x.dtype)
    weights = weights / weights.sum(1, keepdim=True).clamp_min(1)
    return torch.bmm(weights[:, None], x)[:, 0]


class TokenClassifier(nn.Module):
    def __init__(self, vocab_size, num_classes, num_layers, d_model, num_heads, d_ff, dropout=0.0, pad_id=0):
        super().__init__()
        self.register_buffer("pad", torch.tensor(pad_id), persistent=False)
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.positions = PositionalEncoding(d_model, dropout=dropout)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, tokens):
        real = tokens.ne(self.pad)
        mask = (real[:, :, None] & real[:, None, :])[:, None]
        x = self.positions(self.embedding(tokens))
        return nn.functional.linear(self.encoder(x, mask), self.head.weight, self.head.bias)
