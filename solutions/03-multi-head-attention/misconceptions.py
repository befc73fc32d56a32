"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import torch

from autograder.misconceptions import misconception, wrong_edit

wrong_edit(
    "diagonal_weight",
    "softmax-of-columns",
    "The softmax runs down the columns. Each row belongs to one query and has to sum to 1: dim=-1.",
    {"torch.softmax(factor * scores, dim=-1)": "torch.softmax(factor * scores, dim=0)"},
)


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
    "diagonal_weight", "trace", "This is the sum of the diagonal. Divide by the number of rows: the mean is asked for."
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
    "loop_over_heads", "forgets-output-projection", "The result is the concatenation only. Multiply it by w_o."
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


wrong_edit(
    "merge_heads",
    "merge-transpose-one-two",
    "transpose(1, 2) counts from the front, so it is right for one leading dimension only. Use transpose(-3, -2).",
    {"x.transpose(-3, -2)": "x.transpose(1, 2)"},
)
wrong_edit(
    "merge_heads",
    "merge-interleaved",
    "The features of the heads alternate: 1 of head 1, 1 of head 2, … All features of one head must be neighbours, so "
    "only heads and sequence are exchanged.",
    {"x.transpose(-3, -2)": "x.movedim(-3, -1)"},
)
wrong_edit(
    "merge_heads",
    "adds-heads",
    "You add the heads up. They are put side by side, so that d_model = num_heads * d_k.",
    {"x.transpose(-3, -2).flatten(-2)": "x.sum(dim=-3)"},
)

wrong_edit(
    "MultiHeadAttention",
    "scaled-by-d-model",
    "The scores were divided by sqrt(d_model). Each head divides by the root of its own width, sqrt(d_k).",
    {
        "_, weights = scaled_dot_product_attention(q, k, v, mask)": (
            "q = q * math.sqrt(q.shape[-1] / query.shape[-1])\n_, weights = scaled_dot_product_attention(q, k, v, mask)"
        )
    },
)
wrong_edit(
    "MultiHeadAttention",
    "projects-query-three-times",
    "Keys and values were made from the query. They come from the arguments key and value, which are another sequence "
    "in cross-attention.",
    {"self.w_k(key)": "self.w_k(query)", "self.w_v(value)": "self.w_v(query)"},
)
wrong_edit(
    "MultiHeadAttention",
    "value-from-key",
    "The values were made from the argument key. They come from the argument value.",
    {"self.w_v(value)": "self.w_v(key)"},
)
wrong_edit(
    "MultiHeadAttention",
    "no-output-projection",
    "The merged heads are returned as they are. The last step is w_o.",
    {"self.w_o(merge_heads(self.dropout(weights) @ v))": "merge_heads(self.dropout(weights) @ v)"},
)
wrong_edit(
    "MultiHeadAttention",
    "dropout-on-output",
    "Dropout acts on the output here. It belongs on the attention weights: self.dropout(weights) @ v.",
    {"self.w_o(merge_heads(self.dropout(weights) @ v))": "self.dropout(self.w_o(merge_heads(weights @ v)))"},
)
wrong_edit(
    "MultiHeadAttention",
    "no-dropout",
    "Dropout is made or ignored, but never applied. Apply it to the weights: self.dropout(weights) @ v.",
    {"self.dropout(weights) @ v": "weights @ v"},
)
wrong_edit(
    "MultiHeadAttention",
    "keeps-dropped-weights",
    "The attribute weights holds the weights after dropout. Keep them before: pictures need rows that sum to 1.",
    {
        "self.weights = weights.detach()": ("weights = self.dropout(weights)\nself.weights = weights.detach()"),
        "self.dropout(weights) @ v": "weights @ v",
    },
)
wrong_edit(
    "MultiHeadAttention",
    "keeps-the-graph",
    "The attribute weights still hangs on the graph for gradients, and keeps it in memory. Store weights.detach().",
    {"weights.detach()": "weights"},
)
wrong_edit(
    "MultiHeadAttention",
    "mask-with-head-dimension",
    "unsqueeze(1) is right for a mask of shape (batch, query, key) only. Here a mask already broadcasts to "
    "(batch, num_heads, query, key): pass it on as it is.",
    {
        "_, weights = scaled_dot_product_attention(q, k, v, mask)": (
            "if mask is not None and mask.dim() > 2:\n"
            "    mask = mask.unsqueeze(1)\n"
            "_, weights = scaled_dot_product_attention(q, k, v, mask)"
        )
    },
)

wrong_edit(
    "from_pytorch",
    "query-bias-for-all",
    "All three maps got the bias of the queries. in_proj_bias holds three biases one after the other: chunk(3).",
    {'state["in_proj_bias"].chunk(3)': '3 * [state["in_proj_bias"].chunk(3)[0]]'},
)
wrong_edit(
    "from_pytorch",
    "transposed-weights",
    "The weights were transposed. Both layers use the form of nn.Linear, (output features, input features).",
    {'"] = weight, bias': '"] = weight.T, bias', '= state["out_proj.weight"], ': '= state["out_proj.weight"].T, '},
)
wrong_edit(
    "from_pytorch",
    "every-third-row",
    "You take every third row. The three matrices stand one above the other: rows 0 to d_model - 1 are w_q.",
    {
        'state["in_proj_weight"].chunk(3)': '[state["in_proj_weight"][i::3] for i in range(3)]',
        'state["in_proj_bias"].chunk(3)': '[state["in_proj_bias"][i::3] for i in range(3)]',
    },
)

wrong_edit(
    "attention_parameters",
    "four-d-squared",
    "4 * d_model² holds only if num_heads * d_k = num_heads * d_v = d_model. Use d_k and d_v.",
    {"num_heads * d_model * (2 * d_k + d_v) + num_heads * d_v * d_model": "4 * d_model * d_model"},
)
wrong_edit(
    "attention_parameters",
    "output-square",
    "W_O was counted as d_model x d_model. It has num_heads * d_v rows.",
    {"num_heads * d_v * d_model": "d_model * d_model"},
)
wrong_edit(
    "attention_parameters",
    "no-output-matrix",
    "W_O is missing. It adds num_heads * d_v * d_model.",
    {"num_heads * d_model * (2 * d_k + d_v) + num_heads * d_v * d_model": "num_heads * d_model * (2 * d_k + d_v)"},
)

wrong_edit(
    "remove_head",
    "removes-rows",
    "You cleared rows, which are output features in nn.Linear's form. What comes from a head are columns: "
    "weight[:, ...].",
    {":, head * d_k : (head + 1) * d_k": "head * d_k : (head + 1) * d_k"},
)


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
    "remove_head", "width-of-num-heads", "The block of a head is d_k = d_model / num_heads columns wide, not num_heads."
)
def remove_head(weight, num_heads, head):
    result = weight.clone()
    result[:, head * num_heads : (head + 1) * num_heads] = 0
    return result
