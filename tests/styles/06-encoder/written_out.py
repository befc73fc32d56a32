# Right answers by somebody who writes every step out, with loops where there could be none.


def layer_shapes(batch, n, d_model, num_heads, d_ff):
    shapes = {}
    shapes["output"] = (batch, n, d_model)
    shapes["merged"] = shapes["output"]
    shapes["hidden"] = (batch, n, d_ff)
    shapes["queries"] = (batch, num_heads, n, int(d_model / num_heads))
    shapes["weights"] = (batch, num_heads, n, n)
    return shapes


def encoder_block(x, attention, feed_forward, norm_1, norm_2, pre_norm=False):
    residual = x
    if pre_norm:
        x = norm_1(x)
    x = attention(x)
    x = residual + x
    if not pre_norm:
        x = norm_1(x)
    residual = x
    if pre_norm:
        x = norm_2(x)
    x = feed_forward(x)
    x = residual + x
    if not pre_norm:
        x = norm_2(x)
    return x


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.pre_norm = pre_norm
        self.drop_1 = nn.Dropout(dropout)
        self.drop_2 = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        norm_1, norm_2 = self.add_norm_1.norm, self.add_norm_2.norm
        if self.pre_norm:
            y = norm_1(x)
            x = x + self.drop_1(self.attention(y, y, y, mask))
            x = x + self.drop_2(self.feed_forward(norm_2(x)))
            return x
        x = norm_1(x + self.drop_1(self.attention(x, x, x, mask)))
        return norm_2(x + self.drop_2(self.feed_forward(x)))


def to_pytorch(state):
    result = {}
    for name in state:
        kind = name.split(".")[-1]
        if name.startswith("attention.w_o"):
            result["self_attn.out_proj." + kind] = state[name]
        elif name.startswith("feed_forward.linear_"):
            result["linear" + name.split("_")[2]] = state[name]
        elif name.startswith("add_norm_"):
            result["norm" + name[9] + "." + kind] = state[name]
    for kind in ["weight", "bias"]:
        rows = []
        for letter in ["q", "k", "v"]:
            for row in state["attention.w_" + letter + "." + kind]:
                rows.append(row)
        result["self_attn.in_proj_" + kind] = torch.stack(rows)
    return result


def encoder_parameters(num_layers, d_model, d_ff, pre_norm=False):
    weights = 4 * d_model**2 + 2 * d_model * d_ff
    biases = 4 * d_model + d_ff + d_model
    norms = 4 * d_model
    count = (weights + biases + norms) * num_layers
    return count if not pre_norm else count + 2 * d_model


class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        layers = []
        for _ in range(num_layers):
            layers.append(EncoderLayer(d_model, num_heads, d_ff, dropout, pre_norm))
        self.layers = nn.ModuleList(layers)
        self.num_layers = num_layers
        self.norm = nn.Sequential()
        if pre_norm:
            self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        for i in range(self.num_layers):
            x = self.layers[i](x, mask)
        x = self.norm(x)
        return x


def masked_mean(x, visible):
    means = []
    for vectors, seen in zip(x, visible, strict=True):
        chosen = [vector for vector, real in zip(vectors, seen, strict=True) if real]
        means.append(sum(chosen) / len(chosen) if chosen else torch.zeros_like(x[0, 0]))
    return torch.stack(means)


class TokenClassifier(nn.Module):
    def __init__(self, vocab_size, num_classes, num_layers, d_model, num_heads, d_ff, dropout=0.0, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.head = nn.Linear(d_model, num_classes)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout)
        self.positions = PositionalEncoding(d_model, dropout=dropout)
        self.embedding = TokenEmbedding(vocab_size, d_model)

    def forward(self, tokens):
        n = tokens.shape[1]
        real = tokens != self.pad_id
        mask = real.view(-1, 1, 1, n).expand(-1, 1, n, n)
        x = self.embedding(tokens)
        x = self.positions(x)
        x = self.encoder(x, mask)
        return self.head(x)
