# Right answers in the manner of tutorials and of PyTorch's own operators.


def ffn_one_token(x, w_1, b_1, w_2, b_2):
    import torch.nn.functional as F

    return F.linear(F.relu(F.linear(x, w_1.t(), b_1)), w_2.t(), b_2)


class FeedForward(nn.Module):
    "Implements FFN equation."

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.linear_1 = nn.Linear(d_model, d_ff)
        self.linear_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)
        for linear in (self.linear_1, self.linear_2):
            nn.init.xavier_uniform_(linear.weight)

    def forward(self, x):
        return self.linear_2(self.dropout(self.linear_1(x).relu_()))


def layer_parameters(d_model, d_ff):
    def count(a, b):
        return sum(p.numel() for p in nn.Linear(a, b).parameters())

    return 4 * count(d_model, d_model), count(d_model, d_ff) + count(d_ff, d_model)


def path_gradients(slopes):
    return torch.prod(slopes), torch.prod(slopes.add(1.0))


def normalise(x, eps=1e-5):
    return nn.functional.layer_norm(x, x.shape, eps=eps)


class LayerNorm(nn.Module):
    "Construct a layernorm module."

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        var, mean = torch.var_mean(x, -1, keepdim=True, correction=0)
        return self.weight * (x - mean) / (var + self.eps).sqrt() + self.bias


def three_means(x):
    return x.mean(-1), x.flatten(0, 1).mean(0), x.mean(-2)


class AddAndNorm(nn.Module):
    """
    A residual connection with a layer norm.
    """

    def __init__(self, d_model, dropout=0.0, pre_norm=False):
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.pre_norm = pre_norm

    def forward(self, x, sublayer):
        "Apply residual connection to any sublayer with the same size."
        if self.pre_norm:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(self.dropout(sublayer(x)) + x)
