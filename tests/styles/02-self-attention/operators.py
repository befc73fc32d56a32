# Right answers that lean on PyTorch's own operators, with imports of their own.


def dot_scores(x):
    return torch.nn.functional.linear(x, x)


def softmax(x, dim):
    return torch.nn.functional.softmax(x, dim=dim)


def causal_average(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=1.0)


def project(x, w_q, w_k, w_v):
    joint = x @ torch.cat([w_q, w_k, w_v], dim=-1)
    return joint.split([w_q.shape[1], w_k.shape[1], w_v.shape[1]], dim=-1)


def score_variance(queries, keys):
    return torch.var(torch.linalg.vecdot(queries, keys), correction=0)


def attention_one_query(query, keys, values):
    import torch.nn.functional as F

    return F.scaled_dot_product_attention(query.unsqueeze(0), keys, values).squeeze(0)


def scaled_dot_product_attention(query, key, value, mask=None):
    import numpy as np

    scores = query.matmul(key.mT) / np.sqrt(query.size(-1)).item()
    if mask is not None:
        scores = scores.where(mask, torch.tensor(float("-inf"), dtype=scores.dtype))
        alive = mask.any(-1, keepdim=True)
        scores = scores.where(alive, torch.zeros_like(scores))
        weights = scores.softmax(-1) * alive
        return weights.matmul(value), weights
    weights = scores.softmax(-1)
    return weights.matmul(value), weights


class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        nn.Module.__init__(self)
        self.w_q = nn.Linear(in_features=d_model, out_features=d_k, bias=False)
        self.w_k = nn.Linear(in_features=d_model, out_features=d_k, bias=False)
        self.w_v = nn.Linear(in_features=d_model, out_features=d_v, bias=False)
        nn.init.xavier_uniform_(self.w_q.weight)

    def forward(self, x, mask=None):
        return torch.nn.functional.scaled_dot_product_attention(self.w_q(x), self.w_k(x), self.w_v(x), attn_mask=mask)


def attention_cost(n, d):
    return [3 * n * d * d, 2 * n * n * d]
