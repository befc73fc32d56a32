# Right answers in einsum, with helper functions and lambdas.


def dot_scores(x):
    return torch.einsum("ic,jc->ij", x, x)


def softmax(x, dim):
    return torch.exp(x - torch.logsumexp(x, dim, keepdim=True))


def causal_average(x):
    n = x.size(-2)
    bias = torch.full((n, n), float("-inf"), dtype=x.dtype).triu(1)
    return torch.einsum("...ij,...jc->...ic", (torch.einsum("...ic,...jc->...ij", x, x) + bias).softmax(-1), x)


def project(x, w_q, w_k, w_v):
    return tuple(map(lambda w: torch.einsum("...nd,de->...ne", x, w), (w_q, w_k, w_v)))


def score_variance(queries, keys):
    return torch.einsum("sd,sd->s", queries, keys).var(unbiased=False)


def attention_one_query(query, keys, values):
    return torch.einsum("n,nd->d", (torch.einsum("d,nd->n", query, keys) * query.numel() ** -0.5).softmax(0), values)


def scaled_dot_product_attention(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query * key.size(-1) ** -0.5, key)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        top = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
        powers = torch.where(mask, torch.exp(torch.where(mask, scores - top, 0)), 0)
        weights = powers / powers.sum(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).tiny)
    return torch.einsum("...qk,...kd->...qd", weights, value), weights


class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.w_q, self.w_k = (nn.Linear(d_model, d_k, bias=False) for _ in range(2))
        self.w_v = nn.Linear(d_model, d_v, bias=False)

    def forward(self, x, mask=None):
        q, k, v = (torch.einsum("...nd,ed->...ne", x, layer.weight) for layer in (self.w_q, self.w_k, self.w_v))
        return scaled_dot_product_attention(q, k, v, mask)[0]


attention_cost = lambda n, d: (3 * n * d**2, 2 * d * n**2)  # noqa: E731
