"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import math

import torch
from torch import nn

from autograder.misconceptions import misconception, wrong_edit


@misconception(
    "dot_scores",
    "cosine",
    "These are cosines: the lengths were divided out. A score is the plain dot product, so leave the lengths in.",
)
def dot_scores(x):
    unit = x / x.norm(dim=-1, keepdim=True)
    return unit @ unit.T


@misconception(
    "dot_scores",
    "features-with-features",
    "x.T @ x compares the columns, which are features. Tokens are rows, so the product is x @ x.T.",
)
def dot_scores(x):
    return x.T @ x


wrong_edit(
    "softmax",
    "softmax-unstable",
    "exp of a large score overflows to inf, and inf / inf is nan. Subtract the maximum along dim before exp.",
    {"x - x.amax(dim=dim, keepdim=True)": "x"},
)
wrong_edit(
    "softmax",
    "global-maximum",
    "You subtract the maximum of the whole tensor. A slice far below it underflows to 0 / 0. Use the maximum "
    "along dim, with keepdim=True.",
    {"x.amax(dim=dim, keepdim=True)": "x.max()"},
)


@misconception(
    "softmax",
    "ignores-dim",
    "Your softmax always runs over the last dimension. Use the argument dim for the maximum and for the sum.",
)
def softmax(x, dim):
    exponentials = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


wrong_edit(
    "softmax",
    "no-keepdim",
    "Without keepdim=True the sum loses its dimension and broadcasts along the wrong one. Add keepdim=True to the sum.",
    {"exponentials.sum(dim=dim, keepdim=True)": "exponentials.sum(dim=dim)"},
)


@misconception(
    "softmax",
    "no-exponential",
    "You divide the scores by their sum. Take exp of the scores first: shares must not be negative.",
)
def softmax(x, dim):
    return x / x.sum(dim=dim, keepdim=True)


@misconception(
    "causal_average",
    "off-by-one",
    "Your token does not see itself: the diagonal is hidden. The sum runs over j <= i, so keep the diagonal "
    "(tril() without an argument).",
)
def causal_average(x):
    length = x.shape[-2]
    visible = torch.ones(length, length, dtype=torch.bool).tril(diagonal=-1)
    scores = (x @ x.transpose(-2, -1)).masked_fill(~visible, -math.inf)
    return torch.nan_to_num(torch.softmax(scores, dim=-1)) @ x


@misconception(
    "causal_average",
    "sees-the-future",
    "Your token sees the tokens after it as well. Hide the pairs with j > i before the softmax.",
)
def causal_average(x):
    return torch.softmax(x @ x.transpose(-2, -1), dim=-1) @ x


@misconception(
    "causal_average",
    "causal-zeros-before-softmax",
    "A hidden score of 0 still gets a share, because exp(0) = 1. Fill hidden scores with -math.inf.",
)
def causal_average(x):
    scores = torch.tril(x @ x.transpose(-2, -1))
    return torch.softmax(scores, dim=-1) @ x


@misconception(
    "causal_average",
    "zeros-after-softmax",
    "Zeroing weights after the softmax leaves rows that do not sum to 1. Hide the scores before the softmax instead.",
)
def causal_average(x):
    weights = torch.tril(torch.softmax(x @ x.transpose(-2, -1), dim=-1))
    return weights @ x


@misconception(
    "causal_average",
    "causal-no-batches",
    "x.T turns all dimensions round, so it is right for a single matrix only. Use x.transpose(-2, -1), which "
    "also works for batches.",
)
def causal_average(x):
    length = x.shape[0]
    visible = torch.ones(length, length, dtype=torch.bool).tril()
    return torch.softmax((x @ x.T).masked_fill(~visible, -math.inf), dim=-1) @ x


@misconception(
    "causal_average",
    "plain-mean",
    "All tokens of the past have the same share here. Weight them with the softmax of the scores x_i · x_j.",
)
def causal_average(x):
    count = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)
    return x.cumsum(dim=-2) / count[:, None]


wrong_edit(
    "project",
    "column-convention",
    "You multiply with the transposed weights, as if tokens were columns. Here tokens are rows: x @ w_q.",
    {"x @ w_q, x @ w_k, x @ w_v": "x @ w_q.T, x @ w_k.T, x @ w_v.T"},
)
wrong_edit(
    "project",
    "project-value-with-w-k",
    "The values were made with w_k. They have a matrix of their own, w_v.",
    {"x @ w_q, x @ w_k, x @ w_v": "x @ w_q, x @ w_k, x @ w_k"},
)
wrong_edit(
    "project",
    "project-no-batches",
    "(w.T @ x.T).T works for one sequence only, because x.T turns all dimensions of a batch round. Write x @ w_q.",
    {"x @ w_q, x @ w_k, x @ w_v": "(w_q.T @ x.T).T, (w_k.T @ x.T).T, (w_v.T @ x.T).T"},
)


@misconception(
    "score_variance",
    "all-pairs",
    "You take the variance over all pairs of samples. Only row s of queries belongs to row s of keys: multiply "
    "elementwise, then sum.",
)
def score_variance(queries, keys):
    return (queries @ keys.T).var()


wrong_edit(
    "score_variance",
    "standard-deviation",
    "This is the standard deviation. The variance is its square: use var() instead of std().",
    {"(queries * keys).sum(dim=-1).var": "(queries * keys).sum(dim=-1).std"},
)


@misconception(
    "score_variance",
    "no-sum",
    "You take the variance of the single products. A dot product is their sum over the last dimension: sum first.",
)
def score_variance(queries, keys):
    return (queries * keys).var()


wrong_edit(
    "attention_one_query",
    "one-query-no-scaling",
    "The scores were not divided by the square root of d_k. Divide before the softmax.",
    {" / math.sqrt(len(query))": ""},
)
wrong_edit(
    "attention_one_query",
    "one-query-divided-by-d-k",
    "The scores were divided by d_k. Divide by its square root.",
    {"math.sqrt(len(query))": "len(query)"},
)
wrong_edit(
    "attention_one_query",
    "number-of-keys",
    "len(keys) is the number of keys, not d_k. The length of a key is len(query).",
    {"len(query)": "len(keys)"},
)

wrong_edit(
    "scaled_dot_product_attention",
    "no-scaling",
    "The scores were not divided by the square root of d_k.",
    {" / math.sqrt(query.shape[-1])": ""},
)
wrong_edit(
    "scaled_dot_product_attention",
    "divided-by-d-k",
    "The scores were divided by d_k. Divide by its square root: math.sqrt(query.shape[-1]).",
    {"/ math.sqrt(query.shape[-1])": "/ query.shape[-1]"},
)
wrong_edit(
    "scaled_dot_product_attention",
    "size-of-values",
    "You divide by the square root of d_v, the size of the values. The scores come from queries and keys: use "
    "query.shape[-1].",
    {"/ math.sqrt(query.shape[-1])": "/ math.sqrt(value.shape[-1])"},
)
wrong_edit(
    "scaled_dot_product_attention",
    "number-of-elements",
    "query.numel() counts all numbers of the tensor. d_k is the size of the last dimension, query.shape[-1].",
    {"/ math.sqrt(query.shape[-1])": "/ math.sqrt(query.numel())"},
)
wrong_edit(
    "scaled_dot_product_attention",
    "wrong-axis",
    "The softmax runs over the queries. Each query shares its attention among the keys, so use dim=-1.",
    {"torch.softmax(scores, dim=-1)": "torch.softmax(scores, dim=-2)"},
)
wrong_edit(
    "scaled_dot_product_attention",
    "axis-one",
    "dim=1 is the key dimension only without a batch. Count from the end: dim=-1.",
    {"torch.softmax(scores, dim=-1)": "torch.softmax(scores, dim=1)"},
)
wrong_edit(
    "scaled_dot_product_attention",
    "missing-transpose",
    "The keys must be transposed: query @ key.transpose(-2, -1). Without it the shapes fit only by chance.",
    {"key.transpose(-2, -1)": "key"},
)
wrong_edit(
    "scaled_dot_product_attention",
    "no-batches",
    "key.T turns all dimensions round, so it is right without a batch only. Use key.transpose(-2, -1).",
    {"key.transpose(-2, -1)": "key.T"},
)


@misconception(
    "scaled_dot_product_attention",
    "mask-inverted",
    "Your mask hides what may be seen. True means may be seen, so fill where ~mask.",
)
def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
    return weights @ value, weights


@misconception(
    "scaled_dot_product_attention",
    "mask-after-softmax",
    "The mask acts after the softmax, so the rows do not sum to 1. Hide the scores before the softmax.",
)
def scaled_dot_product_attention(query, key, value, mask=None):
    weights = torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]), dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


wrong_edit(
    "scaled_dot_product_attention",
    "zeros-before-softmax",
    "A hidden score of 0 still gets a share, because exp(0) = 1. Fill hidden scores with -math.inf.",
    {
        "scores.masked_fill(~mask, -math.inf)": "scores * mask",
        "scores = scores.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)": "pass",
        "weights = weights.masked_fill(~mask, 0.0)": "pass",
    },
)
wrong_edit(
    "scaled_dot_product_attention",
    "nan-rows",
    "A query that may see nothing gets nan. Set such rows of the weights to 0.",
    {
        "scores = scores.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)": "pass",
        "weights = weights.masked_fill(~mask, 0.0)": "pass",
    },
)
wrong_edit(
    "scaled_dot_product_attention",
    "large-negative-number",
    "With -1e9 a query that may see nothing gets equal weights for all keys. It must get zero weights: set them"
    " to 0 where the mask is False.",
    {
        "scores.masked_fill(~mask, -math.inf)": "scores.masked_fill(~mask, -1e9)",
        "scores = scores.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)": "pass",
        "weights = weights.masked_fill(~mask, 0.0)": "pass",
    },
)


@misconception(
    "scaled_dot_product_attention",
    "weights-before-mask",
    "The returned weights were computed before the mask was applied. Return the weights that you multiply with "
    "the values.",
)
def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.nan_to_num(torch.softmax(scores, dim=-1)) @ value, weights


@misconception(
    "scaled_dot_product_attention",
    "mask-required",
    "Without a mask your function fails, because mask is None then. Apply the mask only if mask is not None.",
)
def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = torch.nan_to_num(torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1))
    return weights @ value, weights


wrong_edit(
    "scaled_dot_product_attention",
    "scaled-output",
    "You divide the output by the square root of d_k. Divide the scores, before the softmax.",
    {
        " / math.sqrt(query.shape[-1])": "",
        "return weights @ value,": "return weights @ value / math.sqrt(query.shape[-1]),",
    },
)
wrong_edit(
    "scaled_dot_product_attention",
    "key-for-value",
    "The weights are multiplied with the keys. Keys serve for the scores only: multiply with the values.",
    {"weights @ value, weights": "weights @ key, weights"},
)
wrong_edit(
    "scaled_dot_product_attention",
    "swapped-results",
    "The results are in the wrong order. Return the output first, then the weights.",
    {"weights @ value, weights": "weights, weights @ value"},
)


@misconception(
    "scaled_dot_product_attention",
    "unstable",
    "exp of a large score overflows. Use torch.softmax, or subtract the maximum of each row first.",
)
def scaled_dot_product_attention(query, key, value, mask=None):
    exponentials = torch.exp(query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]))
    if mask is not None:
        exponentials = exponentials * mask
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return weights @ value, weights


@misconception(
    "SelfAttention",
    "linear-in-forward",
    "nn.Linear is made anew in each call, with new random weights that are never trained. Make it once, in __init__.",
)
class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.d_model, self.d_k, self.d_v = d_model, d_k, d_v

    def forward(self, x, mask=None):
        w_q = nn.Linear(self.d_model, self.d_k, bias=False)
        w_k = nn.Linear(self.d_model, self.d_k, bias=False)
        w_v = nn.Linear(self.d_model, self.d_v, bias=False)
        return scaled_dot_product_attention(w_q(x), w_k(x), w_v(x), mask)[0]


wrong_edit(
    "SelfAttention",
    "mask-forgotten",
    "The mask is not passed on, so everything may be seen. Give it to scaled_dot_product_attention as the "
    "fourth argument.",
    {"self.w_v(x), mask)": "self.w_v(x))"},
)
wrong_edit(
    "SelfAttention",
    "layer-value-with-w-k",
    "The values were made with w_k. They have a layer of their own, w_v.",
    {"self.w_v(x)": "self.w_k(x)"},
)
wrong_edit(
    "SelfAttention",
    "scaled-by-d-model",
    "The scores are divided by the square root of d_model. Queries and keys have d_k numbers: divide by the "
    "square root of d_k.",
    {"self.w_q(x)": "self.w_q(x) * math.sqrt(self.w_q.out_features / self.w_q.in_features)"},
)
wrong_edit(
    "SelfAttention",
    "raw-values",
    "The values are x itself. Values are a linear map of x too: use self.w_v(x).",
    {"self.w_v(x)": "x"},
)
wrong_edit(
    "SelfAttention",
    "no-gradient",
    ".data cuts the weights off from the gradient, so they are never trained. Call the layers: self.w_q(x).",
    {
        "self.w_q(x)": "x @ self.w_q.weight.data.T",
        "self.w_k(x)": "x @ self.w_k.weight.data.T",
        "self.w_v(x)": "x @ self.w_v.weight.data.T",
    },
)

wrong_edit(
    "attention_cost",
    "swapped",
    "The products of all pairs of tokens grow with n squared, not with d squared. Write down the shapes: (n x "
    "d) times (d x n).",
    {"2 * n * n": "2 * n * d"},
)
wrong_edit(
    "attention_cost",
    "scores-only",
    "You counted the scores only. Multiplying the weights by the values takes as many again.",
    {"2 * n * n": "n * n"},
)
wrong_edit(
    "attention_cost",
    "one-projection",
    "There are three projections: for queries, keys and values.",
    {"3 * n * d": "n * d"},
)
