"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

from autograder.misconceptions import misconception, wrong_edit

wrong_edit(
    "layer_shapes",
    "float-d-k",
    "The operator / gives a float. A size is an integer: divide with //.",
    {"d_model // num_heads": "d_model / num_heads"},
)
wrong_edit(
    "layer_shapes",
    "heads-keep-d-model",
    "Each head has d_k = d_model / num_heads features here, not d_model. The heads divide the features.",
    {"d_model // num_heads": "d_model", '"merged": (batch, n, d_model)': '"merged": (batch, n, num_heads * d_model)'},
)
wrong_edit(
    "layer_shapes",
    "output-d-ff",
    "The feed-forward network goes to d_ff and back. The layer gives d_model features.",
    {'"output": (batch, n, d_model)': '"output": (batch, n, d_ff)'},
)

wrong_edit(
    "encoder_block",
    "residual-from-x",
    "The second residual connection starts after the first Add & Norm, not at the input x: add a, not x.",
    {"return a + feed_forward(": "return x + feed_forward(", "norm_2(a + ": "norm_2(x + "},
)
wrong_edit(
    "encoder_block",
    "norm-before-add",
    "You normalise the sub-layer's output and add x afterwards. Post-norm normalises the sum: "
    "norm_1(x + attention(x)).",
    {
        "a = norm_1(x + attention(x))": "a = x + norm_1(attention(x))",
        "return norm_2(a + feed_forward(a))": "return a + norm_2(feed_forward(a))",
    },
)
wrong_edit(
    "encoder_block",
    "residual-of-normalised",
    "With pre-norm you add the normalised input. The residual connection carries the input as it was: "
    "x + attention(norm_1(x)).",
    {
        "a = x + attention(norm_1(x))": "y = norm_1(x)\na = y + attention(y)",
        "return a + feed_forward(norm_2(a))": "b = norm_2(a)\nreturn b + feed_forward(b)",
    },
)


@misconception(
    "encoder_block", "changes-x", "x += … changes the tensor of the caller. Write x = x + …, which makes a new one."
)
def encoder_block(x, attention, feed_forward, norm_1, norm_2, pre_norm=False):
    x = x.detach() if x.requires_grad else x
    if pre_norm:
        x += attention(norm_1(x.clone()))
        return x + feed_forward(norm_2(x))
    x += attention(x.clone())
    a = norm_1(x)
    return norm_2(a + feed_forward(a))


wrong_edit(
    "EncoderLayer",
    "mask-forgotten",
    "The mask never reaches attention. Hand it on: self.attention(y, y, y, mask).",
    {"(y, y, y, mask)": "(y, y, y)"},
)
wrong_edit(
    "EncoderLayer",
    "dropout-forgotten",
    "dropout does not reach the two AddAndNorm. In training they should drop parts of what is added.",
    {"self.add_norm_1 = ": "dropout = 0.0\nself.add_norm_1 = "},
)
wrong_edit(
    "EncoderLayer",
    "closes-over-x",
    "Your sub-layer uses x and ignores its argument. With pre-norm the argument is the normalised input: use y.",
    {"(y, y, y, mask)": "(x, x, x, mask)"},
)
wrong_edit(
    "EncoderLayer",
    "parallel-sublayers",
    "The feed-forward network gets the input of the layer. It should get what the first Add & Norm gives.",
    {"x = self.add_norm_1(": "a = self.add_norm_1(", "(x, self.feed_forward)": "(a, lambda y: self.feed_forward(x))"},
)
wrong_edit(
    "EncoderLayer",
    "inverted-mask",
    "The mask was inverted. In this course True means may be seen, and MultiHeadAttention wants it so.",
    {"(y, y, y, mask)": "(y, y, y, None if mask is None else ~mask)"},
)

wrong_edit(
    "to_pytorch",
    "order-of-projections",
    "The order in in_proj_weight is queries, keys, values. Yours puts them in another order.",
    {'"qkv"': '"qvk"'},
)
wrong_edit(
    "to_pytorch",
    "transposed-output",
    "The weight of out_proj was transposed. Both sides are nn.Linear, so nothing is transposed.",
    {"return result": ('result["self_attn.out_proj.weight"] = result["self_attn.out_proj.weight"].T\nreturn result')},
)
wrong_edit(
    "to_pytorch",
    "side-by-side",
    "The three matrices were put side by side. They belong on top of one another: 3 d_model rows.",
    {'for c in "qkv"])': 'for c in "qkv"], dim=1 if kind == "weight" else 0)'},
)


@misconception(
    "encoder_parameters",
    "no-last-norm",
    "With pre-norm there is one more layer normalisation after the last layer: 2 d_model numbers.",
)
def encoder_parameters(num_layers, d_model, d_ff, pre_norm=False):
    return num_layers * (4 * d_model * (d_model + 1) + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model)


@misconception(
    "encoder_parameters", "no-biases", "The biases are missing. A linear map from a to b features has a b + b numbers."
)
def encoder_parameters(num_layers, d_model, d_ff, pre_norm=False):
    layer = 4 * d_model * d_model + 2 * d_model * d_ff + 4 * d_model
    return num_layers * layer + (2 * d_model if pre_norm else 0)


@misconception(
    "encoder_parameters",
    "one-norm",
    "Each layer has two layer normalisations, one after each sub-layer. Only one was counted.",
)
def encoder_parameters(num_layers, d_model, d_ff, pre_norm=False):
    layer = 4 * d_model * (d_model + 1) + 2 * d_model * d_ff + d_ff + d_model + 2 * d_model
    return num_layers * layer + (2 * d_model if pre_norm else 0)


wrong_edit(
    "Encoder",
    "one-layer-shared",
    "All layers are the same object, so they share their weights. Make a new EncoderLayer for each.",
    {
        "EncoderLayer(d_model,": "[EncoderLayer(d_model,",
        "pre_norm) for _ in range(num_layers)": "pre_norm)] * num_layers",
    },
)
wrong_edit(
    "Encoder",
    "mask-in-first-layer",
    "Only the first layer gets the mask. In the others hidden tokens are seen: hand it to every layer.",
    {"x = layer(x, mask)": "x = layer(x, mask)\nmask = None"},
)
wrong_edit(
    "Encoder",
    "stack-dropout-forgotten",
    "dropout is not handed on to the layers, so there is none in training.",
    {"d_ff, dropout, pre_norm)": "d_ff, pre_norm=pre_norm)"},
)
wrong_edit(
    "Encoder",
    "pre-norm-not-handed-on",
    "The layers are post-norm even if pre_norm is True: hand it on to each EncoderLayer.",
    {"d_ff, dropout, pre_norm)": "d_ff, dropout)"},
)
wrong_edit(
    "Encoder",
    "every-layer-gets-x",
    "Each layer gets the input of the stack, so all but the last are wasted. Replace x in the loop.",
    {"x = layer(x, mask)": "output = layer(x, mask)", "self.norm(x)": "self.norm(output)"},
)


@misconception(
    "masked_mean",
    "nothing-visible",
    "0 / 0 is nan for a sequence without real tokens. Divide by at least 1, with clamp(min=1).",
)
def masked_mean(x, visible):
    total = (x * visible[..., None]).sum(dim=1)
    return total / visible.sum(dim=1, keepdim=True)


@misconception(
    "masked_mean",
    "divides-by-length",
    "The sum was divided by the length with padding. Divide by the number of real tokens.",
)
def masked_mean(x, visible):
    return (x * visible[..., None]).mean(dim=1)


@misconception(
    "masked_mean", "plain-mean", "Padding was averaged too. Hide it before the sum, and count real tokens only."
)
def masked_mean(x, visible):
    return x.mean(dim=1)


wrong_edit(
    "TokenClassifier",
    "pad-is-zero",
    "The mask compares with 0, whatever pad_id is. Keep pad_id in __init__ and compare with it.",
    {"tokens != self.pad_id": "tokens != 0"},
)
wrong_edit(
    "TokenClassifier",
    "padding-is-seen",
    "Padding is seen, because the encoder gets no mask. Make one from the tokens.",
    {"self.positions(self.embedding(tokens)), mask)": "self.positions(self.embedding(tokens)))"},
)
wrong_edit(
    "TokenClassifier",
    "scaled-twice",
    "TokenEmbedding has multiplied by the square root of d_model already. Do it once only.",
    {"self.embedding(tokens)": "self.embedding(tokens) * self.head.in_features**0.5"},
)
wrong_edit(
    "TokenClassifier",
    "positions-forgotten",
    "The positions are made and never added: call self.positions on the embedded tokens.",
    {"self.positions(self.embedding(tokens))": "self.embedding(tokens)"},
)
