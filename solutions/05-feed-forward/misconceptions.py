"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import torch

from autograder.misconceptions import misconception, wrong_edit


@misconception(
    "ffn_one_token",
    "one-token-no-relu",
    "The ReLU is missing, so the two maps are one linear map. Replace negative inner numbers by 0.",
)
def ffn_one_token(x, w_1, b_1, w_2, b_2):
    return (x @ w_1 + b_1) @ w_2 + b_2


@misconception(
    "ffn_one_token",
    "one-token-relu-at-the-end",
    "The output goes through a ReLU as well. Only the inner numbers do: an output may be negative.",
)
def ffn_one_token(x, w_1, b_1, w_2, b_2):
    return torch.relu(torch.relu(x @ w_1 + b_1) @ w_2 + b_2)


@misconception(
    "ffn_one_token", "one-token-without-second-bias", "The second bias, b_2, is missing. Add it to the output."
)
def ffn_one_token(x, w_1, b_1, w_2, b_2):
    return torch.relu(x @ w_1 + b_1) @ w_2


@misconception(
    "ffn_one_token",
    "one-token-bias-after-relu",
    "The first bias is added after the ReLU. Add it before: the ReLU acts on x W_1 + b_1.",
)
def ffn_one_token(x, w_1, b_1, w_2, b_2):
    return (torch.relu(x @ w_1) + b_1) @ w_2 + b_2


@misconception(
    "ffn_one_token", "one-token-absolute", "You take the absolute value. A ReLU replaces a negative number by 0."
)
def ffn_one_token(x, w_1, b_1, w_2, b_2):
    return (x @ w_1 + b_1).abs() @ w_2 + b_2


@misconception(
    "ffn_one_token",
    "one-token-in-place",
    "You change the argument b_2 with +=. Begin with a new tensor, or with b_2.clone().",
)
def ffn_one_token(x, w_1, b_1, w_2, b_2):
    inner = torch.relu(x @ w_1 + b_1)
    b_2 += inner @ w_2
    return b_2


wrong_edit(
    "FeedForward",
    "ff-no-relu",
    "The ReLU is missing. Two linear maps in a row are one linear map, so the inner layer gains nothing.",
    {"torch.relu(self.linear_1(x))": "self.linear_1(x)"},
)
wrong_edit(
    "FeedForward",
    "ff-relu-twice",
    "The output goes through a ReLU as well. It stands between the two maps only.",
    {"(self.linear_1(x))))": "(self.linear_1(x)))).relu()"},
)
wrong_edit(
    "FeedForward",
    "ff-gelu",
    "This is GELU, as in newer models. The formula here has ReLU, max(0, x).",
    {"torch.relu(": "nn.functional.gelu("},
)
wrong_edit(
    "FeedForward",
    "ff-dropout-on-output",
    "Dropout acts on the output of the second map. Here it acts on the inner numbers, after the ReLU.",
    {"self.linear_2(self.dropout(": "self.dropout(self.linear_2("},
)
wrong_edit(
    "FeedForward",
    "ff-dropout-on-input",
    "Dropout acts on the input. Here it acts on the inner numbers, after the ReLU.",
    {"self.dropout(torch.relu(self.linear_1(x)))": "torch.relu(self.linear_1(self.dropout(x)))"},
)
wrong_edit(
    "FeedForward",
    "ff-dropout-always",
    "F.dropout drops also after eval(), unless it is told self.training. Use nn.Dropout.",
    {
        "self.dropout(torch.relu(self.linear_1(x)))": (
            "nn.functional.dropout(torch.relu(self.linear_1(x)), self.dropout.p)"
        )
    },
)
wrong_edit(
    "FeedForward",
    "ff-dropout-forgotten",
    "The argument dropout is not used. Apply nn.Dropout(dropout) after the ReLU.",
    {"self.dropout(torch.relu(self.linear_1(x)))": "torch.relu(self.linear_1(x))"},
)
wrong_edit(
    "FeedForward",
    "ff-residual-inside",
    "You add x to the result. The FFN alone has no residual connection: AddAndNorm adds it.",
    {"return self.linear_2": "return x + self.linear_2"},
)
wrong_edit(
    "FeedForward",
    "ff-no-bias",
    "Both maps have a bias. Leave bias=False away.",
    {
        "self.linear_1 = nn.Linear(d_model, d_ff)": "self.linear_1 = nn.Linear(d_model, d_ff, bias=False)",
        "self.linear_2 = nn.Linear(d_ff, d_model)": "self.linear_2 = nn.Linear(d_ff, d_model, bias=False)",
    },
)


@misconception(
    "layer_parameters",
    "no-biases",
    "The biases are missing. A map from a to b features has a * b weights and b biases.",
)
def layer_parameters(d_model, d_ff):
    return 4 * d_model * d_model, 2 * d_model * d_ff


@misconception(
    "layer_parameters",
    "factor-four",
    "You use 4 * d_model for the inner size. Use the argument d_ff, which can be anything.",
)
def layer_parameters(d_model, d_ff):
    d_ff = 4 * d_model
    return 4 * (d_model * d_model + d_model), 2 * d_model * d_ff + d_ff + d_model


@misconception(
    "layer_parameters",
    "no-output-projection",
    "Attention has four maps: for queries, keys, values, and one for the output.",
)
def layer_parameters(d_model, d_ff):
    return 3 * (d_model * d_model + d_model), 2 * d_model * d_ff + d_ff + d_model


@misconception(
    "layer_parameters",
    "equal-biases",
    "The two biases of the FFN have different sizes: d_ff in the inner layer, d_model at the end.",
)
def layer_parameters(d_model, d_ff):
    return 4 * (d_model * d_model + d_model), 2 * (d_model * d_ff + d_ff)


wrong_edit(
    "path_gradients",
    "around-the-whole",
    "This is one connection around the whole stack. There is one around each layer: every factor becomes 1 + s.",
    {"(1 + slopes).prod()": "1 + slopes.prod()"},
)
wrong_edit(
    "path_gradients",
    "first-slope-only",
    "You take the first slope for all layers. Each layer has its own: use prod().",
    {"slopes.prod(), (1 + slopes).prod()": "slopes[0] ** len(slopes), (1 + slopes[0]) ** len(slopes)"},
)
wrong_edit(
    "path_gradients",
    "sum-of-slopes",
    "Derivatives of layers that follow one another are multiplied, not added.",
    {"slopes.prod(), (1 + slopes).prod()": "slopes.sum(), 1 + slopes.sum()"},
)
wrong_edit(
    "path_gradients",
    "logarithms",
    "The logarithm of a negative slope is nan. Multiply directly, with prod().",
    {"slopes.prod(), (1 + slopes).prod()": "slopes.log().sum().exp(), (1 + slopes).log().sum().exp()"},
)


@misconception(
    "normalise", "one-vector-unbiased", "torch.var divides by d - 1. Layer norm divides by d: use var(correction=0)."
)
def normalise(x, eps=1e-5):
    return (x - x.mean()) / torch.sqrt(torch.nan_to_num(x.var()) + eps)


@misconception(
    "normalise",
    "one-vector-eps-outside",
    "eps is added to the standard deviation. Add it to the variance, under the root.",
)
def normalise(x, eps=1e-5):
    return (x - x.mean()) / (x.std(correction=0) + eps)


@misconception(
    "normalise",
    "one-vector-no-eps",
    "eps is missing, so a vector with equal components gives 0 / 0. Add eps to the variance.",
)
def normalise(x, eps=1e-5):
    return (x - x.mean()) / x.std(correction=0)


@misconception(
    "normalise", "one-vector-fixed-eps", "The argument eps is not used. Add it to the variance, whatever it is."
)
def normalise(x, eps=1e-5):
    return (x - x.mean()) / torch.sqrt(x.var(correction=0) + 1e-5)


@misconception("normalise", "one-vector-by-variance", "You divide by the variance. Divide by its root.")
def normalise(x, eps=1e-5):
    return (x - x.mean()) / (x.var(correction=0) + eps)


@misconception(
    "normalise",
    "length-one",
    "You made the length of the vector 1. Layer norm subtracts the mean and makes the variance 1.",
)
def normalise(x, eps=1e-5):
    return x / (x.norm() + eps)


@misconception(
    "normalise",
    "minimum-maximum",
    "You map the numbers to the range from 0 to 1. Layer norm subtracts the mean and divides by the root "
    "of the variance.",
)
def normalise(x, eps=1e-5):
    return (x - x.min()) / (x.max() - x.min() + eps)


wrong_edit(
    "LayerNorm",
    "unbiased",
    "The variance is divided by d - 1 here. Use var(correction=0), or the mean of the squared deviations.",
    {"centred.square().mean(dim=-1, keepdim=True)": "x.var(dim=-1, keepdim=True)"},
)
wrong_edit(
    "LayerNorm",
    "eps-outside",
    "eps is added to the standard deviation. Add it to the variance, under the root.",
    {"torch.sqrt(variance + self.eps)": "(torch.sqrt(variance) + self.eps)"},
)
wrong_edit(
    "LayerNorm",
    "annotated",
    "The standard deviation is divided by d - 1, and eps stands outside the root, as in a well-known "
    "tutorial. PyTorch and this course divide by d and add eps under the root.",
    {
        "centred.square().mean(dim=-1, keepdim=True)": "x.var(dim=-1, keepdim=True)",
        "torch.sqrt(variance + self.eps)": "(torch.sqrt(variance) + self.eps)",
    },
)
wrong_edit(
    "LayerNorm",
    "axis-one",
    "dim=1 is the axis of features only for a matrix. Count from the end: dim=-1.",
    {"x.mean(dim=-1": "x.mean(dim=1", "centred.square().mean(dim=-1": "centred.square().mean(dim=1"},
)
wrong_edit(
    "LayerNorm",
    "batch-statistics",
    "Mean and variance run over the tokens, as in batch norm. They run over the features of one token: dim=-1.",
    {"x.mean(dim=-1": "x.mean(dim=0", "centred.square().mean(dim=-1": "centred.square().mean(dim=0"},
)
wrong_edit(
    "LayerNorm",
    "whole-sentence",
    "Mean and variance run over all tokens of the sentence. Each token has its own: use dim=-1 only.",
    {
        "centred = x - x.mean(dim=-1": (
            "dims = tuple(range(max(x.dim() - 2, 0), x.dim()))\ncentred = x - x.mean(dim=dims"
        ),
        "centred.square().mean(dim=-1": "centred.square().mean(dim=dims",
    },
)
wrong_edit(
    "LayerNorm",
    "fixed-eps",
    "The argument eps is not used. Store it in __init__ and add it to the variance.",
    {"variance + self.eps": "variance + 1e-5"},
)
wrong_edit(
    "LayerNorm",
    "no-mean",
    "The mean is not subtracted. That is RMSNorm; layer norm subtracts the mean first.",
    {"x - x.mean(dim=-1, keepdim=True)": "x"},
)
wrong_edit(
    "LayerNorm",
    "no-gain",
    "Gain and shift are made but not used. Multiply by self.weight and add self.bias at the end.",
    {" * self.weight + self.bias": ""},
)
wrong_edit(
    "LayerNorm",
    "plain-tensors",
    "Gain and shift are plain tensors, so no optimiser can find them. Wrap them in nn.Parameter.",
    {
        "nn.Parameter(torch.ones(d_model))": "torch.ones(d_model)",
        "nn.Parameter(torch.zeros(d_model))": "torch.zeros(d_model)",
    },
)
wrong_edit(
    "LayerNorm",
    "norm-by-variance",
    "You divide by the variance. Divide by its root.",
    {"torch.sqrt(variance + self.eps)": "(variance + self.eps)"},
)
wrong_edit(
    "LayerNorm",
    "norm-in-place",
    "x -= … changes the input of the layer, which the residual path still needs. Make a new tensor.",
    {"centred = x - x.mean(dim=-1, keepdim=True)": "x -= x.mean(dim=-1, keepdim=True)\ncentred = x"},
)
wrong_edit(
    "LayerNorm",
    "detached-statistics",
    "Mean and variance are cut off from the gradient. They depend on the input: leave detach() away.",
    {
        "x - x.mean(dim=-1, keepdim=True)": "x - x.mean(dim=-1, keepdim=True).detach()",
        "centred.square().mean(dim=-1, keepdim=True)": "centred.square().mean(dim=-1, keepdim=True).detach()",
    },
)

wrong_edit(
    "three_means",
    "one-mean-for-all",
    "This is one mean of all numbers. Batch norm has a mean for each feature: average over batch and sequence only.",
    {"x.mean(dim=(0, 1))": "x.mean().expand(x.shape[2])"},
)
wrong_edit(
    "three_means",
    "whole-sentence-mean",
    "You average over the sentence for layer norm. Its unit is the token: average over the features only.",
    {"x.mean(dim=2)": "x.mean(dim=(1, 2))"},
)
wrong_edit(
    "three_means",
    "batch-axis-only",
    "For batch norm you average over the batch only. It averages over batch and sequence.",
    {"x.mean(dim=(0, 1))": "x.mean(dim=0)"},
)
wrong_edit(
    "three_means",
    "exchanged",
    "Batch norm and instance norm are exchanged. Instance norm keeps the batch axis.",
    {"x.mean(dim=2), x.mean(dim=(0, 1)), x.mean(dim=1)": "x.mean(dim=2), x.mean(dim=1), x.mean(dim=(0, 1))"},
)

wrong_edit(
    "AddAndNorm",
    "no-residual",
    "x is not added. Without it there is no path around the sub-layer: norm(x + sublayer(x)).",
    {
        "return x + self.dropout(sublayer(self.norm(x)))": "return self.dropout(sublayer(self.norm(x)))",
        "self.norm(x + self.dropout(sublayer(x)))": "self.norm(self.dropout(sublayer(x)))",
    },
)
wrong_edit(
    "AddAndNorm",
    "norm-before-sum",
    "Only the sub-layer's output is normalised. In post-norm the sum is: norm(x + sublayer(x)).",
    {"self.norm(x + self.dropout(sublayer(x)))": "x + self.norm(self.dropout(sublayer(x)))"},
)
wrong_edit(
    "AddAndNorm",
    "pre-norm-ignored",
    "The argument pre_norm is not used. If it is true, the norm stands before the sub-layer.",
    {"if self.pre_norm:": "if False:"},
)
wrong_edit(
    "AddAndNorm",
    "always-pre-norm",
    "This is always pre-norm. Without an argument the order is that of the paper: norm(x + sublayer(x)).",
    {"if self.pre_norm:": "if True:"},
)
wrong_edit(
    "AddAndNorm",
    "pre-norm-adds-normed",
    "In pre-norm you add the normalised x. The residual path carries x itself.",
    {"return x + self.dropout(sublayer(self.norm(x)))": "x = self.norm(x)\nreturn x + self.dropout(sublayer(x))"},
)
wrong_edit(
    "AddAndNorm",
    "dropout-on-sum",
    "Dropout acts on the sum, so it drops numbers of the residual path too. Apply it to sublayer(x) only.",
    {
        "x + self.dropout(sublayer(self.norm(x)))": "self.dropout(x + sublayer(self.norm(x)))",
        "self.norm(x + self.dropout(sublayer(x)))": "self.norm(self.dropout(x + sublayer(x)))",
    },
)
wrong_edit(
    "AddAndNorm",
    "dropout-after-norm",
    "Dropout acts on the result of the norm. Apply it to sublayer(x), before the sum.",
    {"self.norm(x + self.dropout(sublayer(x)))": "self.dropout(self.norm(x + sublayer(x)))"},
)
wrong_edit(
    "AddAndNorm",
    "dropout-missing",
    "The argument dropout is not used. Apply nn.Dropout(dropout) to the output of the sub-layer.",
    {
        "x + self.dropout(sublayer(self.norm(x)))": "x + sublayer(self.norm(x))",
        "self.norm(x + self.dropout(sublayer(x)))": "self.norm(x + sublayer(x))",
    },
)
wrong_edit(
    "AddAndNorm",
    "sum-in-place",
    "x += … changes the input, which somebody else may still need. Write x + ….",
    {
        "return x + self.dropout(sublayer(self.norm(x)))": "x += self.dropout(sublayer(self.norm(x)))\nreturn x",
        "return self.norm(x + self.dropout(sublayer(x)))": "x += self.dropout(sublayer(x))\nreturn self.norm(x)",
    },
)
wrong_edit(
    "AddAndNorm",
    "norm-twice",
    "In pre-norm you normalise the sum as well. There is one norm, before the sub-layer.",
    {"x + self.dropout(sublayer(self.norm(x)))": "self.norm(x + self.dropout(sublayer(self.norm(x))))"},
)
wrong_edit(
    "AddAndNorm",
    "norm-in-forward",
    "The norm is made anew at each call, so its gain and shift are never trained. Make it in __init__.",
    {
        "self.norm = LayerNorm(d_model)": "pass",
        "if self.pre_norm:": ("norm = LayerNorm(x.shape[-1]).to(x.dtype)\nif self.pre_norm:"),
        "x + self.dropout(sublayer(self.norm(x)))": "x + self.dropout(sublayer(norm(x)))",
        "self.norm(x + self.dropout(sublayer(x)))": "norm(x + self.dropout(sublayer(x)))",
    },
)
