"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import math

import torch
from torch import nn

from autograder.misconceptions import misconception


@misconception(
    "diagonal_weight",
    "softmax-of-columns",
    "The softmax runs down the columns. Each row belongs to one query and has to sum to 1: dim=-1.",
)
def diagonal_weight(scores, factor):
    return torch.softmax(factor * scores, dim=0).diagonal().mean()


@misconception(
    "diagonal_weight",
    "factor-after-softmax",
    "The factor was applied after the softmax. It multiplies the scores, before the softmax.",
)
def diagonal_weight(scores, factor):
    return (factor * torch.softmax(scores, dim=-1)).diagonal().mean()


@misconception(
    "diagonal_weight",
    "diagonal-unstable",
    "exp of a large score overflows to inf, and inf / inf is nan. Use torch.softmax, or subtract each row's maximum.",
)
def diagonal_weight(scores, factor):
    powers = torch.exp(factor * scores)
    return (powers / powers.sum(dim=-1, keepdim=True)).diagonal().mean()


@misconception(
    "diagonal_weight",
    "trace",
    "This is the sum of the diagonal. Divide by the number of rows: the mean is asked for.",
)
def diagonal_weight(scores, factor):
    return torch.softmax(factor * scores, dim=-1).trace()


@misconception(
    "loop_over_heads",
    "loop-counts-d-k",
    "w_q.shape[-1] is d_k. The number of heads is w_q.shape[0]. In the lecture's example both happen to be 3.",
)
def loop_over_heads(x, w_q, w_k, w_v, w_o):
    heads = []
    for i in range(w_q.shape[-1]):
        heads.append(scaled_dot_product_attention(x @ w_q[i], x @ w_k[i], x @ w_v[i])[0])
    return torch.cat(heads, dim=-1) @ w_o


@misconception(
    "loop_over_heads",
    "concatenates-dim-one",
    "dim=1 is the last dimension only without a batch. Heads stand side by side along the features: dim=-1.",
)
def loop_over_heads(x, w_q, w_k, w_v, w_o):
    heads = [scaled_dot_product_attention(x @ w_q[i], x @ w_k[i], x @ w_v[i])[0] for i in range(len(w_q))]
    return torch.cat(heads, dim=1) @ w_o


@misconception(
    "loop_over_heads",
    "output-projection-transposed",
    "You multiply by the transposed w_o. Tokens are rows here, so it is the concatenation @ w_o.",
)
def loop_over_heads(x, w_q, w_k, w_v, w_o):
    heads = [scaled_dot_product_attention(x @ w_q[i], x @ w_k[i], x @ w_v[i])[0] for i in range(len(w_q))]
    return torch.cat(heads, dim=-1) @ w_o.T


@misconception(
    "loop_over_heads",
    "forgets-output-projection",
    "The result is the concatenation only. Multiply it by w_o.",
)
def loop_over_heads(x, w_q, w_k, w_v, w_o):
    heads = [scaled_dot_product_attention(x @ w_q[i], x @ w_k[i], x @ w_v[i])[0] for i in range(len(w_q))]
    return torch.cat(heads, dim=-1)


@misconception(
    "loop_over_heads",
    "heads-interleaved",
    "The features of the heads alternate in your result. First come all of head 1, then all of head 2: torch.cat.",
)
def loop_over_heads(x, w_q, w_k, w_v, w_o):
    heads = [scaled_dot_product_attention(x @ w_q[i], x @ w_k[i], x @ w_v[i])[0] for i in range(len(w_q))]
    return torch.stack(heads, dim=-1).flatten(-2) @ w_o


@misconception(
    "sum_over_heads",
    "blocks-of-num-heads",
    "Your blocks of w_o have as many rows as there are heads. Each needs d_v rows, heads.shape[-1].",
)
def sum_over_heads(heads, w_o):
    h = len(heads)
    return sum(heads[i] @ w_o[i * h : (i + 1) * h] for i in range(h))


@misconception(
    "sum_over_heads",
    "every-h-th-row",
    "w_o[i::num_heads] takes every h-th row. The rows of one head are neighbours: w_o[i * d_v : (i + 1) * d_v].",
)
def sum_over_heads(heads, w_o):
    return sum(heads[i] @ w_o[i :: len(heads)] for i in range(len(heads)))


@misconception(
    "sum_over_heads",
    "sum-heads-mean",
    "This is the mean of the heads' shares. The product with the concatenation is their sum.",
)
def sum_over_heads(heads, w_o):
    d_v = heads.shape[-1]
    return torch.stack([heads[i] @ w_o[i * d_v : (i + 1) * d_v] for i in range(len(heads))]).mean(0)


@misconception(
    "split_heads",
    "view-without-transpose",
    "view (or reshape) alone draws new borders, and mixes tokens. Cut the last dimension into (num_heads, d_k) first, "
    "then transpose sequence and heads.",
)
def split_heads(x, num_heads):
    *batch, n, d_model = x.shape
    if d_model % num_heads:
        raise ValueError("d_model is no multiple of num_heads")
    return x.reshape(*batch, num_heads, n, d_model // num_heads)


@misconception(
    "split_heads",
    "split-without-moving",
    "The dimensions are (sequence, num_heads, d_k). Exchange the first two of these with transpose(-3, -2).",
)
def split_heads(x, num_heads):
    *batch, n, d_model = x.shape
    if d_model % num_heads:
        raise ValueError("d_model is no multiple of num_heads")
    return x.reshape(*batch, n, num_heads, d_model // num_heads)


@misconception(
    "split_heads",
    "features-interleaved",
    "Head 1 gets features 1, 3, 5, …: the cut was (d_k, num_heads). It must be (num_heads, d_k), so that the features "
    "of a head are neighbours.",
)
def split_heads(x, num_heads):
    d_model = x.shape[-1]
    if d_model % num_heads:
        raise ValueError("d_model is no multiple of num_heads")
    return x.unflatten(-1, (d_model // num_heads, num_heads)).transpose(-1, -2).transpose(-3, -2)


@misconception(
    "split_heads",
    "split-transpose-one-two",
    "transpose(1, 2) counts from the front, so it is right for one leading dimension only. Use transpose(-3, -2).",
)
def split_heads(x, num_heads):
    d_model = x.shape[-1]
    if d_model % num_heads:
        raise ValueError("d_model is no multiple of num_heads")
    return x.reshape(*x.shape[:-1], num_heads, d_model // num_heads).transpose(1, 2)


@misconception(
    "split_heads",
    "no-error",
    "If d_model is no multiple of num_heads, // drops features without a word. Raise a ValueError.",
)
def split_heads(x, num_heads):
    d_k = x.shape[-1] // num_heads
    return torch.stack([x[..., i * d_k : (i + 1) * d_k] for i in range(num_heads)], dim=-3)


@misconception(
    "merge_heads",
    "reshape-without-transpose",
    "reshape alone mixes tokens: after one token of head 1 comes the next token, not head 2. Transpose heads and "
    "sequence first.",
)
def merge_heads(x):
    *batch, h, n, d_k = x.shape
    return x.reshape(*batch, n, h * d_k)


@misconception(
    "merge_heads",
    "merge-transpose-one-two",
    "transpose(1, 2) counts from the front, so it is right for one leading dimension only. Use transpose(-3, -2).",
)
def merge_heads(x):
    return x.transpose(1, 2).flatten(-2)


@misconception(
    "merge_heads",
    "merge-interleaved",
    "The features of the heads alternate: 1 of head 1, 1 of head 2, … All features of one head must be neighbours, so "
    "only heads and sequence are exchanged.",
)
def merge_heads(x):
    return x.movedim(-3, -1).flatten(-2)


@misconception(
    "merge_heads",
    "adds-heads",
    "You add the heads up. They are put side by side, so that d_model = num_heads * d_k.",
)
def merge_heads(x):
    return x.sum(dim=-3)


@misconception(
    "MultiHeadAttention",
    "scaled-by-d-model",
    "The scores were divided by sqrt(d_model). Each head divides by the root of its own width, sqrt(d_k).",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
        self.weights = weights.detach()
        return self.w_o(merge_heads(self.dropout(weights) @ v))


@misconception(
    "MultiHeadAttention",
    "projects-query-three-times",
    "Keys and values were made from the query. They come from the arguments key and value, which are another sequence "
    "in cross-attention.",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(query), self.num_heads)
        v = split_heads(self.w_v(query), self.num_heads)
        _, weights = scaled_dot_product_attention(q, k, v, mask)
        self.weights = weights.detach()
        return self.w_o(merge_heads(self.dropout(weights) @ v))


@misconception(
    "MultiHeadAttention",
    "value-from-key",
    "The values were made from the argument key. They come from the argument value.",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(key), self.num_heads)
        _, weights = scaled_dot_product_attention(q, k, v, mask)
        self.weights = weights.detach()
        return self.w_o(merge_heads(self.dropout(weights) @ v))


@misconception(
    "MultiHeadAttention",
    "no-output-projection",
    "The merged heads are returned as they are. The last step is w_o.",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        _, weights = scaled_dot_product_attention(q, k, v, mask)
        self.weights = weights.detach()
        return merge_heads(self.dropout(weights) @ v)


@misconception(
    "MultiHeadAttention",
    "dropout-on-output",
    "Dropout acts on the output here. It belongs on the attention weights: self.dropout(weights) @ v.",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        output, weights = scaled_dot_product_attention(q, k, v, mask)
        self.weights = weights.detach()
        return self.dropout(self.w_o(merge_heads(output)))


@misconception(
    "MultiHeadAttention",
    "no-dropout",
    "Dropout is made or ignored, but never applied. Apply it to the weights: self.dropout(weights) @ v.",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        output, weights = scaled_dot_product_attention(q, k, v, mask)
        self.weights = weights.detach()
        return self.w_o(merge_heads(output))


@misconception(
    "MultiHeadAttention",
    "keeps-dropped-weights",
    "The attribute weights holds the weights after dropout. Keep them before: pictures need rows that sum to 1.",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        _, weights = scaled_dot_product_attention(q, k, v, mask)
        weights = self.dropout(weights)
        self.weights = weights.detach()
        return self.w_o(merge_heads(weights @ v))


@misconception(
    "MultiHeadAttention",
    "keeps-the-graph",
    "The attribute weights still hangs on the graph for gradients, and keeps it in memory. Store weights.detach().",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        _, self.weights = scaled_dot_product_attention(q, k, v, mask)
        return self.w_o(merge_heads(self.dropout(self.weights) @ v))


@misconception(
    "MultiHeadAttention",
    "mask-with-head-dimension",
    "unsqueeze(1) is right for a mask of shape (batch, query, key) only. Here a mask already broadcasts to "
    "(batch, num_heads, query, key): pass it on as it is.",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None and mask.dim() > 2:
            mask = mask.unsqueeze(1)
        q = split_heads(self.w_q(query), self.num_heads)
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        _, weights = scaled_dot_product_attention(q, k, v, mask)
        self.weights = weights.detach()
        return self.w_o(merge_heads(self.dropout(weights) @ v))


@misconception(
    "from_pytorch",
    "query-bias-for-all",
    "All three maps got the bias of the queries. in_proj_bias holds three biases one after the other: chunk(3).",
)
def from_pytorch(state):
    d_model = state["in_proj_weight"].shape[1]
    translated = {}
    for i, name in enumerate(("w_q", "w_k", "w_v")):
        translated[f"{name}.weight"] = state["in_proj_weight"][i * d_model : (i + 1) * d_model]
        translated[f"{name}.bias"] = state["in_proj_bias"][:d_model]
    translated["w_o.weight"], translated["w_o.bias"] = state["out_proj.weight"], state["out_proj.bias"]
    return translated


@misconception(
    "from_pytorch",
    "transposed-weights",
    "The weights were transposed. Both layers use the form of nn.Linear, (output features, input features).",
)
def from_pytorch(state):
    translated = {}
    weights, biases = state["in_proj_weight"].chunk(3), state["in_proj_bias"].chunk(3)
    for name, weight, bias in zip(["w_q", "w_k", "w_v"], weights, biases):
        translated[f"{name}.weight"], translated[f"{name}.bias"] = weight.T, bias
    translated["w_o.weight"], translated["w_o.bias"] = state["out_proj.weight"].T, state["out_proj.bias"]
    return translated


@misconception(
    "from_pytorch",
    "every-third-row",
    "You take every third row. The three matrices stand one above the other: rows 0 to d_model - 1 are w_q.",
)
def from_pytorch(state):
    translated = {}
    for i, name in enumerate(("w_q", "w_k", "w_v")):
        translated[f"{name}.weight"] = state["in_proj_weight"][i::3]
        translated[f"{name}.bias"] = state["in_proj_bias"][i::3]
    translated["w_o.weight"], translated["w_o.bias"] = state["out_proj.weight"], state["out_proj.bias"]
    return translated


@misconception(
    "attention_parameters",
    "four-d-squared",
    "4 * d_model² holds only if num_heads * d_k = num_heads * d_v = d_model. Use d_k and d_v.",
)
def attention_parameters(d_model, num_heads, d_k, d_v):
    return 4 * d_model * d_model


@misconception(
    "attention_parameters",
    "output-square",
    "W_O was counted as d_model x d_model. It has num_heads * d_v rows.",
)
def attention_parameters(d_model, num_heads, d_k, d_v):
    return num_heads * d_model * (2 * d_k + d_v) + d_model * d_model


@misconception(
    "attention_parameters",
    "no-output-matrix",
    "W_O is missing. It adds num_heads * d_v * d_model.",
)
def attention_parameters(d_model, num_heads, d_k, d_v):
    return num_heads * d_model * (2 * d_k + d_v)


@misconception(
    "remove_head",
    "removes-rows",
    "You cleared rows, which are output features in nn.Linear's form. What comes from a head are columns: "
    "weight[:, ...].",
)
def remove_head(weight, num_heads, head):
    d_k = weight.shape[1] // num_heads
    result = weight.clone()
    result[head * d_k : (head + 1) * d_k] = 0
    return result


@misconception(
    "remove_head",
    "removes-in-place",
    "You changed the weight that you were given, so the head cannot be put back. Work on weight.clone().",
)
def remove_head(weight, num_heads, head):
    d_k = weight.shape[1] // num_heads
    weight[:, head * d_k : (head + 1) * d_k] = 0
    return weight


@misconception(
    "remove_head",
    "width-of-num-heads",
    "The block of a head is d_k = d_model / num_heads columns wide, not num_heads.",
)
def remove_head(weight, num_heads, head):
    result = weight.clone()
    result[:, head * num_heads : (head + 1) * num_heads] = 0
    return result
