# Right answers by somebody who thinks in loops.


def ffn_one_token(x, w_1, b_1, w_2, b_2):
    inner = []
    for j in range(w_1.shape[1]):
        total = b_1[j]
        for c in range(len(x)):
            total = total + x[c] * w_1[c, j]
        inner.append(total if total > 0 else torch.zeros_like(total))
    out = torch.zeros_like(x)
    for c in range(len(x)):
        out[c] = b_2[c]
        for j in range(len(inner)):
            out[c] = out[c] + inner[j] * w_2[j, c]
    return out


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.linear_1 = nn.Linear(d_model, d_ff)
        self.linear_2 = nn.Linear(d_ff, d_model)
        self.drop = nn.Dropout(p=dropout)
        self.activation = nn.ReLU()

    def forward(self, x):
        if x.dim() > 1:
            return torch.stack([self.forward(row) for row in x])
        inner = self.activation(self.linear_1(x))
        return self.linear_2(self.drop(inner))


def layer_parameters(d_model, d_ff):
    attention = 0
    for _ in ["query", "key", "value", "output"]:
        attention += d_model**2 + d_model
    ffn = 0
    for a, b in [(d_model, d_ff), (d_ff, d_model)]:
        ffn += a * b + b
    return attention, ffn


def path_gradients(slopes):
    without, with_residual = torch.ones_like(slopes[0]), torch.ones_like(slopes[0])
    for slope in slopes:
        without = without * slope
        with_residual = with_residual * (slope + 1)
    return without, with_residual


def normalise(x, eps=1e-5):
    total = 0
    for number in x:
        total = total + number
    mean = total / len(x)
    squares = 0
    for number in x:
        squares = squares + (number - mean) ** 2
    return torch.stack([(number - mean) / (squares / len(x) + eps) ** 0.5 for number in x])


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.epsilon = eps
        self.register_parameter("weight", nn.Parameter(torch.ones(d_model)))
        self.register_parameter("bias", nn.Parameter(torch.zeros(d_model)))

    def forward(self, x):
        if x.dim() > 1:
            return torch.stack([self(row) for row in x])
        mean = sum(x) / len(x)
        variance = sum((number - mean) ** 2 for number in x) / len(x)
        return self.weight * ((x - mean) / (variance + self.epsilon).sqrt()) + self.bias


def three_means(x):
    batch, length, d = x.shape
    layer = torch.stack([torch.stack([x[b, t].mean() for t in range(length)]) for b in range(batch)])
    per_feature = torch.stack([x[:, :, c].mean() for c in range(d)])
    instance = torch.stack([torch.stack([x[b, :, c].mean() for c in range(d)]) for b in range(batch)])
    return layer, per_feature, instance


class AddAndNorm(nn.Module):
    def __init__(self, d_model, dropout=0.0, pre_norm=False):
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.rate = dropout
        self.first = pre_norm

    def drop(self, x):
        if not self.training or self.rate == 0:
            return x
        keep = torch.rand_like(x) >= self.rate
        return torch.where(keep, x / (1 - self.rate), torch.zeros_like(x))

    def forward(self, x, sublayer):
        residual = x
        if self.first:
            x = self.norm(x)
        x = self.drop(sublayer(x))
        x = residual + x
        if not self.first:
            x = self.norm(x)
        return x
