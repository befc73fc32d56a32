# Right answers by somebody who thinks in loops.


def dot_scores(x):
    rows = []
    for a in x:
        rows.append(torch.stack([torch.dot(a, b) for b in x]))
    return torch.stack(rows)


def softmax(x, dim):
    moved = x.movedim(dim, -1)
    flat = moved.reshape(-1, moved.shape[-1])
    rows = []
    for row in flat:
        powers = [torch.exp(value - max(row)) for value in row]
        total = sum(powers)
        rows.append(torch.stack([power / total for power in powers]))
    return torch.stack(rows).reshape(moved.shape).movedim(-1, dim)


def causal_average(x):
    if x.dim() > 2:
        return torch.stack([causal_average(one) for one in x])
    out = []
    for i in range(x.shape[0]):
        scores = torch.stack([x[i] @ x[j] for j in range(i + 1)])
        alpha = torch.softmax(scores, 0)
        out.append(sum(alpha[j] * x[j] for j in range(i + 1)))
    return torch.stack(out)


def project(x, w_q, w_k, w_v):
    if x.dim() > 2:
        parts = [project(one, w_q, w_k, w_v) for one in x]
        return tuple(torch.stack([part[i] for part in parts]) for i in range(3))
    return tuple(torch.stack([row @ w for row in x]) for w in (w_q, w_k, w_v))


def score_variance(queries, keys):
    dots = [torch.dot(q, k) for q, k in zip(queries, keys, strict=True)]
    mean = sum(dots) / len(dots)
    return sum((d - mean) ** 2 for d in dots) / len(dots)


def attention_one_query(query, keys, values):
    scores = [torch.dot(query, k) / len(query) ** 0.5 for k in keys]
    top = max(scores)
    powers = [torch.exp(s - top) for s in scores]
    total = sum(powers)
    return sum(p / total * v for p, v in zip(powers, values, strict=True))


def scaled_dot_product_attention(query, key, value, mask=None):
    d_k = query.shape[-1]
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    if query.dim() > 2:
        pairs = [
            scaled_dot_product_attention(query[b], key[b], value[b], None if mask is None else mask[b])
            for b in range(query.shape[0])
        ]
        return torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])
    all_weights = []
    for i in range(query.shape[0]):
        scores = torch.stack([torch.dot(query[i], k) for k in key]) / math.sqrt(d_k)
        weights = torch.zeros_like(scores)
        seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask[i]
        if seen.any():
            weights[seen] = torch.softmax(scores[seen], dim=0)
        all_weights.append(weights)
    weights = torch.stack(all_weights)
    return weights @ value, weights


class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        for name, size in (("w_q", d_k), ("w_k", d_k), ("w_v", d_v)):
            self.add_module(name, nn.Linear(d_model, size, bias=False))

    def forward(self, x, mask=None):
        output, _ = scaled_dot_product_attention(self.w_q(x), self.w_k(x), self.w_v(x), mask=mask)
        return output


def attention_cost(n, d):
    projections = 0
    for _ in range(3):
        projections += n * d * d
    products = 0
    for _ in range(n):
        products += n * d + n * d
    return projections, products
