# Right answers by somebody who writes every product as einsum.


def ffn_one_token(x, w_1, b_1, w_2, b_2):
    inner = torch.maximum(torch.einsum("d,df->f", x, w_1) + b_1, torch.zeros_like(b_1))
    return torch.einsum("f,fd->d", inner, w_2) + b_2


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.linear_1 = nn.Linear(d_model, d_ff)
        self.linear_2 = nn.Linear(d_ff, d_model)
        self.dropout = dropout

    def forward(self, x):
        inner = torch.einsum("...d,fd->...f", x, self.linear_1.weight) + self.linear_1.bias
        inner = nn.functional.dropout(inner.clamp(min=0), self.dropout, training=self.training)
        return torch.einsum("...f,df->...d", inner, self.linear_2.weight) + self.linear_2.bias


def layer_parameters(d_model, d_ff):
    return [4 * d_model * (d_model + 1), d_ff * (d_model + 1) + d_model * (d_ff + 1)]


def path_gradients(slopes):
    return torch.cumprod(slopes, 0)[-1], torch.cumprod(slopes + 1, 0)[-1]


def normalise(x, eps=1e-5):
    centred = x - torch.einsum("d->", x) / x.numel()
    variance = torch.einsum("d,d->", centred, centred) / x.numel()
    return centred * torch.rsqrt(variance + eps)


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.full((d_model,), 1.0))
        self.bias = nn.Parameter(torch.full((d_model,), 0.0))
        self.register_buffer("eps", torch.tensor(eps))

    def forward(self, x):
        d = x.shape[-1]
        centred = x - torch.einsum("...d->...", x)[..., None] / d
        variance = torch.einsum("...d,...d->...", centred, centred)[..., None] / d
        return torch.einsum("...d,d->...d", centred * torch.rsqrt(variance + self.eps), self.weight) + self.bias


def three_means(x):
    b, s, d = x.shape
    return (
        torch.einsum("bsd->bs", x) / d,
        torch.einsum("bsd->d", x) / (b * s),
        torch.einsum("bsd->bd", x) / s,
    )


class AddAndNorm(nn.Module):
    def __init__(self, d_model, dropout=0.0, pre_norm=False):
        super().__init__()
        self.pre_norm, self.p = pre_norm, dropout
        self.norm = LayerNorm(d_model)

    def forward(self, x, sublayer):
        y = sublayer(self.norm(x)) if self.pre_norm else sublayer(x)
        y = x + nn.functional.dropout(y, self.p, self.training)
        return y if self.pre_norm else self.norm(y)
