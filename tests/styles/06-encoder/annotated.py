# Right answers in the style of the Annotated Transformer: clones, small helpers, dictionaries written out.


def layer_shapes(batch, n, d_model, num_heads, d_ff):
    assert d_model % num_heads == 0
    d_k = d_model // num_heads
    return dict(
        queries=(batch, num_heads, n, d_k),
        weights=(batch, num_heads, n, n),
        merged=(batch, n, num_heads * d_k),
        hidden=(batch, n, d_ff),
        output=(batch, n, d_model),
    )


def encoder_block(x, attention, feed_forward, norm_1, norm_2, pre_norm=False):
    def connection(x, sublayer, norm):
        return x + sublayer(norm(x)) if pre_norm else norm(x + sublayer(x))

    for sublayer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        x = connection(x, sublayer, norm)
    return x


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        import copy

        self.attention = MultiHeadAttention(d_model, num_heads, dropout=dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout=dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout=dropout, pre_norm=pre_norm)
        self.add_norm_2 = copy.deepcopy(self.add_norm_1)
        self.size = d_model
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, x, mask=None):
        def self_attn(y):
            return self.attention(y, y, y, mask=mask)

        x = self.add_norm_1(x, self_attn)
        return self.add_norm_2(x, self.feed_forward)


def to_pytorch(state):
    from collections import OrderedDict

    out = OrderedDict()
    out["self_attn.in_proj_weight"] = torch.cat(
        (state["attention.w_q.weight"], state["attention.w_k.weight"], state["attention.w_v.weight"]), dim=0
    )
    out["self_attn.in_proj_bias"] = torch.cat(
        (state["attention.w_q.bias"], state["attention.w_k.bias"], state["attention.w_v.bias"]), dim=0
    )
    out["self_attn.out_proj.weight"] = state["attention.w_o.weight"]
    out["self_attn.out_proj.bias"] = state["attention.w_o.bias"]
    out["linear1.weight"] = state["feed_forward.linear_1.weight"]
    out["linear1.bias"] = state["feed_forward.linear_1.bias"]
    out["linear2.weight"] = state["feed_forward.linear_2.weight"]
    out["linear2.bias"] = state["feed_forward.linear_2.bias"]
    out["norm1.weight"] = state["add_norm_1.norm.weight"]
    out["norm1.bias"] = state["add_norm_1.norm.bias"]
    out["norm2.weight"] = state["add_norm_2.norm.weight"]
    out["norm2.bias"] = state["add_norm_2.norm.bias"]
    return out


def encoder_parameters(num_layers, d_model, d_ff, pre_norm=False):
    def linear(a, b):
        return a * b + b

    total = 0
    for _ in range(num_layers):
        total += 4 * linear(d_model, d_model) + linear(d_model, d_ff) + linear(d_ff, d_model) + 2 * 2 * d_model
    if pre_norm:
        total += 2 * d_model
    return total


class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        import copy

        layer = EncoderLayer(d_model, num_heads, d_ff, dropout, pre_norm)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.norm = LayerNorm(d_model) if pre_norm else None

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


def masked_mean(x, visible):
    visible = visible.unsqueeze(-1).to(x.dtype)
    return (x * visible).sum(1) / (visible.sum(1) + 1e-9)


class TokenClassifier(nn.Module):
    def __init__(self, vocab_size, num_classes, num_layers, d_model, num_heads, d_ff, dropout=0.0, pad_id=0):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.positions = PositionalEncoding(d_model, 5000, dropout)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout)
        self.head = nn.Linear(d_model, num_classes)
        self.pad_id = pad_id

    def forward(self, tokens):
        mask = (tokens != self.pad_id).unsqueeze(1)
        h = self.positions(self.embedding(tokens))
        return self.head(self.encoder(h, mask.unsqueeze(1)))
