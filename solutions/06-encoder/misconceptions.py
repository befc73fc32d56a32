"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import torch
from torch import nn

from autograder.misconceptions import misconception
from mytransformer.attention import MultiHeadAttention
from mytransformer.embedding import PositionalEncoding, TokenEmbedding
from mytransformer.layers import AddAndNorm, FeedForward, LayerNorm


@misconception("layer_shapes", "float-d-k", "The operator / gives a float. A size is an integer: divide with //.")
def layer_shapes(batch, n, d_model, num_heads, d_ff):
    return {
        "queries": (batch, num_heads, n, d_model / num_heads),
        "weights": (batch, num_heads, n, n),
        "merged": (batch, n, d_model),
        "hidden": (batch, n, d_ff),
        "output": (batch, n, d_model),
    }


@misconception(
    "layer_shapes",
    "heads-keep-d-model",
    "Each head has d_k = d_model / num_heads features here, not d_model. The heads divide the features.",
)
def layer_shapes(batch, n, d_model, num_heads, d_ff):
    return {
        "queries": (batch, num_heads, n, d_model),
        "weights": (batch, num_heads, n, n),
        "merged": (batch, n, num_heads * d_model),
        "hidden": (batch, n, d_ff),
        "output": (batch, n, d_model),
    }


@misconception(
    "layer_shapes", "output-d-ff", "The feed-forward network goes to d_ff and back. The layer gives d_model features."
)
def layer_shapes(batch, n, d_model, num_heads, d_ff):
    return {
        "queries": (batch, num_heads, n, d_model // num_heads),
        "weights": (batch, num_heads, n, n),
        "merged": (batch, n, d_model),
        "hidden": (batch, n, d_ff),
        "output": (batch, n, d_ff),
    }


@misconception(
    "encoder_block",
    "residual-from-x",
    "The second residual connection starts after the first Add & Norm, not at the input x: add a, not x.",
)
def encoder_block(x, attention, feed_forward, norm_1, norm_2, pre_norm=False):
    if pre_norm:
        a = x + attention(norm_1(x))
        return x + feed_forward(norm_2(a))
    a = norm_1(x + attention(x))
    return norm_2(x + feed_forward(a))


@misconception(
    "encoder_block",
    "norm-before-add",
    "You normalise the sub-layer's output and add x afterwards. Post-norm normalises the sum: "
    "norm_1(x + attention(x)).",
)
def encoder_block(x, attention, feed_forward, norm_1, norm_2, pre_norm=False):
    if pre_norm:
        a = x + attention(norm_1(x))
        return a + feed_forward(norm_2(a))
    a = x + norm_1(attention(x))
    return a + norm_2(feed_forward(a))


@misconception(
    "encoder_block",
    "residual-of-normalised",
    "With pre-norm you add the normalised input. The residual connection carries the input as it was: "
    "x + attention(norm_1(x)).",
)
def encoder_block(x, attention, feed_forward, norm_1, norm_2, pre_norm=False):
    if pre_norm:
        y = norm_1(x)
        a = y + attention(y)
        b = norm_2(a)
        return b + feed_forward(b)
    a = norm_1(x + attention(x))
    return norm_2(a + feed_forward(a))


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


@misconception(
    "EncoderLayer", "mask-forgotten", "The mask never reaches attention. Hand it on: self.attention(y, y, y, mask)."
)
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, mask=None):
        x = self.add_norm_1(x, lambda y: self.attention(y, y, y))
        return self.add_norm_2(x, self.feed_forward)


@misconception(
    "EncoderLayer",
    "dropout-forgotten",
    "dropout does not reach the two AddAndNorm. In training they should drop parts of what is added.",
)
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, pre_norm=pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, pre_norm=pre_norm)

    def forward(self, x, mask=None):
        x = self.add_norm_1(x, lambda y: self.attention(y, y, y, mask))
        return self.add_norm_2(x, self.feed_forward)


@misconception(
    "EncoderLayer",
    "closes-over-x",
    "Your sub-layer uses x and ignores its argument. With pre-norm the argument is the normalised input: use y.",
)
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, mask=None):
        x = self.add_norm_1(x, lambda y: self.attention(x, x, x, mask))
        return self.add_norm_2(x, self.feed_forward)


@misconception(
    "EncoderLayer",
    "parallel-sublayers",
    "The feed-forward network gets the input of the layer. It should get what the first Add & Norm gives.",
)
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, mask=None):
        a = self.add_norm_1(x, lambda y: self.attention(y, y, y, mask))
        return self.add_norm_2(a, lambda y: self.feed_forward(x))


@misconception(
    "EncoderLayer",
    "inverted-mask",
    "The mask was inverted. In this course True means may be seen, and MultiHeadAttention wants it so.",
)
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, mask=None):
        hidden = None if mask is None else ~mask
        x = self.add_norm_1(x, lambda y: self.attention(y, y, y, hidden))
        return self.add_norm_2(x, self.feed_forward)


@misconception(
    "to_pytorch",
    "order-of-projections",
    "The order in in_proj_weight is queries, keys, values. Yours puts them in another order.",
)
def to_pytorch(state):
    result = {
        f"self_attn.in_proj_{kind}": torch.cat([state[f"attention.w_{c}.{kind}"] for c in "qvk"])
        for kind in ("weight", "bias")
    }
    for mine, theirs in [
        ("attention.w_o", "self_attn.out_proj"),
        ("feed_forward.linear_1", "linear1"),
        ("feed_forward.linear_2", "linear2"),
        ("add_norm_1.norm", "norm1"),
        ("add_norm_2.norm", "norm2"),
    ]:
        for kind in ("weight", "bias"):
            result[f"{theirs}.{kind}"] = state[f"{mine}.{kind}"]
    return result


@misconception(
    "to_pytorch",
    "transposed-output",
    "The weight of out_proj was transposed. Both sides are nn.Linear, so nothing is transposed.",
)
def to_pytorch(state):
    result = {
        f"self_attn.in_proj_{kind}": torch.cat([state[f"attention.w_{c}.{kind}"] for c in "qkv"])
        for kind in ("weight", "bias")
    }
    for mine, theirs in [
        ("attention.w_o", "self_attn.out_proj"),
        ("feed_forward.linear_1", "linear1"),
        ("feed_forward.linear_2", "linear2"),
        ("add_norm_1.norm", "norm1"),
        ("add_norm_2.norm", "norm2"),
    ]:
        for kind in ("weight", "bias"):
            result[f"{theirs}.{kind}"] = state[f"{mine}.{kind}"]
    result["self_attn.out_proj.weight"] = result["self_attn.out_proj.weight"].T
    return result


@misconception(
    "to_pytorch",
    "side-by-side",
    "The three matrices were put side by side. They belong on top of one another: 3 d_model rows.",
)
def to_pytorch(state):
    result = {
        "self_attn.in_proj_weight": torch.cat([state[f"attention.w_{c}.weight"] for c in "qkv"], dim=1),
        "self_attn.in_proj_bias": torch.cat([state[f"attention.w_{c}.bias"] for c in "qkv"]),
    }
    for mine, theirs in [
        ("attention.w_o", "self_attn.out_proj"),
        ("feed_forward.linear_1", "linear1"),
        ("feed_forward.linear_2", "linear2"),
        ("add_norm_1.norm", "norm1"),
        ("add_norm_2.norm", "norm2"),
    ]:
        for kind in ("weight", "bias"):
            result[f"{theirs}.{kind}"] = state[f"{mine}.{kind}"]
    return result


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


@misconception(
    "Encoder",
    "one-layer-shared",
    "All layers are the same object, so they share their weights. Make a new EncoderLayer for each.",
)
class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff, dropout, pre_norm)] * num_layers)
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@misconception(
    "Encoder",
    "mask-in-first-layer",
    "Only the first layer gets the mask. In the others hidden tokens are seen: hand it to every layer.",
)
class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            x = layer(x, mask if number == 0 else None)
        return self.norm(x)


@misconception(
    "Encoder",
    "stack-dropout-forgotten",
    "dropout is not handed on to the layers, so there is none in training.",
)
class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, pre_norm=pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@misconception(
    "Encoder",
    "pre-norm-not-handed-on",
    "The layers are post-norm even if pre_norm is True: hand it on to each EncoderLayer.",
)
class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff, dropout) for _ in range(num_layers))
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@misconception(
    "Encoder",
    "every-layer-gets-x",
    "Each layer gets the input of the stack, so all but the last are wasted. Replace x in the loop.",
)
class Encoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, mask=None):
        for layer in self.layers:
            output = layer(x, mask)
        return self.norm(output)


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


@misconception(
    "TokenClassifier",
    "pad-is-zero",
    "The mask compares with 0, whatever pad_id is. Keep pad_id in __init__ and compare with it.",
)
class TokenClassifier(nn.Module):
    def __init__(self, vocab_size, num_classes, num_layers, d_model, num_heads, d_ff, dropout=0.0, pad_id=0):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.positions = PositionalEncoding(d_model, dropout=dropout)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, tokens):
        mask = (tokens != 0)[:, None, None, :]
        return self.head(self.encoder(self.positions(self.embedding(tokens)), mask))


@misconception(
    "TokenClassifier", "padding-is-seen", "Padding is seen, because the encoder gets no mask. Make one from the tokens."
)
class TokenClassifier(nn.Module):
    def __init__(self, vocab_size, num_classes, num_layers, d_model, num_heads, d_ff, dropout=0.0, pad_id=0):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.positions = PositionalEncoding(d_model, dropout=dropout)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout)
        self.head = nn.Linear(d_model, num_classes)

    def forward(self, tokens):
        return self.head(self.encoder(self.positions(self.embedding(tokens))))


@misconception(
    "TokenClassifier",
    "scaled-twice",
    "TokenEmbedding has multiplied by the square root of d_model already. Do it once only.",
)
class TokenClassifier(nn.Module):
    def __init__(self, vocab_size, num_classes, num_layers, d_model, num_heads, d_ff, dropout=0.0, pad_id=0):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.positions = PositionalEncoding(d_model, dropout=dropout)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout)
        self.head = nn.Linear(d_model, num_classes)
        self.pad_id, self.factor = pad_id, d_model**0.5

    def forward(self, tokens):
        mask = (tokens != self.pad_id)[:, None, None, :]
        return self.head(self.encoder(self.positions(self.embedding(tokens) * self.factor), mask))


@misconception(
    "TokenClassifier",
    "positions-forgotten",
    "The positions are made and never added: call self.positions on the embedded tokens.",
)
class TokenClassifier(nn.Module):
    def __init__(self, vocab_size, num_classes, num_layers, d_model, num_heads, d_ff, dropout=0.0, pad_id=0):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.positions = PositionalEncoding(d_model, dropout=dropout)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout)
        self.head = nn.Linear(d_model, num_classes)
        self.pad_id = pad_id

    def forward(self, tokens):
        mask = (tokens != self.pad_id)[:, None, None, :]
        return self.head(self.encoder(self.embedding(tokens), mask))
