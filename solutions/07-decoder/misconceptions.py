"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import math
from collections.abc import Callable

import torch
from torch import nn

from autograder.misconceptions import misconception


@misconception(
    "cross_attention",
    "keys-from-target",
    "This is self-attention: keys and values come from x. They must come from memory; only the queries come from x.",
)
def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    return scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v, mask)


@misconception(
    "cross_attention",
    "queries-from-memory",
    "The roles are exchanged: here the source asks the target. Queries come from x, keys and values from memory.",
)
def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    return scaled_dot_product_attention(memory @ w_q, x @ w_k, x @ w_v, mask)


@misconception(
    "cross_attention",
    "value-with-w-k",
    "Keys and values come from the same memory, but each has a matrix of its own. The values are memory @ w_v.",
)
def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    return scaled_dot_product_attention(x @ w_q, memory @ w_k, memory @ w_k, mask)


@misconception(
    "cross_attention",
    "memory-as-value",
    "The memory itself was averaged. The values are its projection, memory @ w_v.",
)
def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    return scaled_dot_product_attention(x @ w_q, memory @ w_k, memory, mask)


@misconception(
    "cross_attention",
    "cross-no-scaling",
    "The scores were not divided by the square root of d_k.",
)
def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    scores = (x @ w_q) @ (memory @ w_k).transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ (memory @ w_v), weights


@misconception(
    "cross_attention",
    "cross-scaled-by-width",
    "You divide by the square root of the number of features of x. It is the square root of d_k, the size of a query.",
)
def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    scores = (x @ w_q) @ (memory @ w_k).transpose(-2, -1) / math.sqrt(x.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ (memory @ w_v), weights


@misconception(
    "cross_attention",
    "cross-mask-forgotten",
    "The mask is not used. Pass it on to scaled_dot_product_attention.",
)
def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    return scaled_dot_product_attention(x @ w_q, memory @ w_k, memory @ w_v)


@misconception(
    "cross_attention",
    "cross-no-batches",
    "key.T turns all dimensions round, so it is right without a batch only. Use key.transpose(-2, -1).",
)
def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    key = memory @ w_k
    scores = (x @ w_q) @ key.T / math.sqrt(key.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ (memory @ w_v), weights


@misconception(
    "EncoderDecoderAttention",
    "layers-in-forward",
    "The linear layers are still made in forward, so every call draws new random weights. Make them once, in __init__.",
)
class EncoderDecoderAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads

    def forward(self, x, memory, mask=None):
        w_q, w_k, w_v, w_o = (nn.Linear(self.d_model, self.d_model, dtype=x.dtype) for _ in range(4))
        q, k, v = (split_heads(t, self.num_heads) for t in (w_q(x), w_k(memory), w_v(memory)))
        return w_o(merge_heads(scaled_dot_product_attention(q, k, v, mask)[0]))


@misconception(
    "EncoderDecoderAttention",
    "same-projection",
    "The values are still made with w_k. They have a layer of their own: self.w_v(memory).",
)
class EncoderDecoderAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be a multiple of num_heads")
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(t, self.num_heads) for t in (self.w_q(x), self.w_k(memory), self.w_k(memory)))
        return self.w_o(merge_heads(scaled_dot_product_attention(q, k, v, mask)[0]))


@misconception(
    "EncoderDecoderAttention",
    "view-without-transpose",
    "view(batch, num_heads, -1, d_k) cuts through the tokens: a head gets pieces of several words. "
    "Use view(batch, -1, num_heads, d_k) and then transpose(1, 2).",
)
class EncoderDecoderAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be a multiple of num_heads")
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, mask=None):
        batch = x.shape[0]
        q = self.w_q(x).reshape(batch, self.num_heads, -1, self.d_k)
        k = self.w_k(memory).reshape(batch, self.num_heads, -1, self.d_k)
        v = self.w_v(memory).reshape(batch, self.num_heads, -1, self.d_k)
        return self.w_o(merge_heads(scaled_dot_product_attention(q, k, v, mask)[0]))


@misconception(
    "EncoderDecoderAttention",
    "merge-without-transpose",
    "The heads are merged without transposing back, so features of different words are mixed up. "
    "Use transpose(1, 2) before the reshape.",
)
class EncoderDecoderAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be a multiple of num_heads")
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(t, self.num_heads) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory)))
        return self.w_o(scaled_dot_product_attention(q, k, v, mask)[0].reshape(x.shape))


@misconception(
    "EncoderDecoderAttention",
    "scaled-by-d-model",
    "The scores are divided by the square root of d_model. Each head has d_k = d_model / num_heads numbers: use that.",
)
class EncoderDecoderAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be a multiple of num_heads")
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(t, self.num_heads) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return self.w_o(merge_heads(torch.softmax(scores, dim=-1) @ v))


@misconception(
    "EncoderDecoderAttention",
    "heads-not-checked",
    "A d_model that is no multiple of num_heads must raise a ValueError when the module is made, not a "
    "later error in view.",
)
class EncoderDecoderAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(t, self.num_heads) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory)))
        return self.w_o(merge_heads(scaled_dot_product_attention(q, k, v, mask)[0]))


@misconception(
    "EncoderDecoderAttention",
    "no-output-projection",
    "The output projection is missing: after merging the heads, apply self.w_o.",
)
class EncoderDecoderAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be a multiple of num_heads")
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(t, self.num_heads) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory)))
        return merge_heads(scaled_dot_product_attention(q, k, v, mask)[0])


@misconception(
    "DecoderLayer",
    "target-mask-forgotten",
    "The target mask is not used, so words see the future. Pass target_mask to self_attention.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "memory-mask-forgotten",
    "The memory mask is not used. Pass memory_mask to cross_attention.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "masks-exchanged",
    "The masks are exchanged. target_mask belongs to self_attention, memory_mask to cross_attention.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, memory_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, target_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "cross-attention-first",
    "Cross-attention comes before self-attention here. The order is: self-attention, cross-attention, feed-forward.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        x = self.add_norm_2(x, lambda y: self.self_attention(y, y, y, target_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "query-from-input",
    "The queries of cross-attention are made from the input of the layer. They come from the output of "
    "self-attention, after Add & Norm.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        a = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        a = self.add_norm_2(a, lambda y: self.cross_attention(x, memory, memory, memory_mask))
        return self.add_norm_3(a, self.feed_forward)


@misconception(
    "DecoderLayer",
    "one-attention-for-both",
    "One attention serves twice. self_attention and cross_attention need weights of their own.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = self.self_attention
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "one-norm-for-all",
    "One Add & Norm serves three times. Each sub-layer has its own, with weights of its own.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = self.add_norm_1
        self.add_norm_3 = self.add_norm_1

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "pre-norm-not-passed-on",
    "pre_norm is accepted and then forgotten. Pass it on to the three AddAndNorm.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout)
        self.add_norm_2 = AddAndNorm(d_model, dropout)
        self.add_norm_3 = AddAndNorm(d_model, dropout)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "layer-dropout-not-passed-on",
    "dropout is accepted and then forgotten. Pass it on to all six parts.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.add_norm_1 = AddAndNorm(d_model, 0.0, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, 0.0, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, 0.0, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "attention-dropout-forgotten",
    "The two attentions get no dropout. Pass dropout on to all six parts.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "sublayer-ignores-its-argument",
    "Your self-attention works on x and not on what AddAndNorm hands to it. In pre-norm that is the "
    "normalised tensor: use the argument of the lambda.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(x, x, x, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "memory-normalised",
    "The memory is normalised together with the queries. It comes normalised from the encoder: use it as it is.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, *(2 * [self.add_norm_2.norm(memory)]), memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "always-causal",
    "Your layer hides the future on its own account. Which pairs may be seen is said by target_mask alone.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        length = x.shape[1]
        past = torch.ones(length, length, dtype=torch.bool).tril()
        target_mask = past if target_mask is None else past & target_mask
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "value-from-target",
    "The values of cross-attention are taken from the query side for equal lengths. Keys and values are both memory.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(
            x, lambda y: self.cross_attention(y, memory, y if y.shape == memory.shape else memory, memory_mask)
        )
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "DecoderLayer",
    "no-residual-at-feed-forward",
    "The feed-forward network stands alone. It has Add & Norm around it like the other two.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.add_norm_3.norm(self.feed_forward(x))


@misconception(
    "DecoderLayer",
    "memory-detached",
    "The memory is cut off with detach, so the encoder gets no gradient and is never trained. Use memory as it is.",
)
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        memory = memory.detach()
        x = self.add_norm_1(x, lambda y: self.self_attention(y, y, y, target_mask))
        x = self.add_norm_2(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@misconception(
    "Decoder",
    "one-layer-many-times",
    "The list holds one and the same layer, so all layers share their weights. Make a new DecoderLayer for each place.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm)] * num_layers)
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, target_mask, memory_mask)
        return self.norm(x)


@misconception(
    "Decoder",
    "plain-list",
    "A plain Python list hides the layers from PyTorch: they have no parameters that an optimiser sees. "
    "Use nn.ModuleList.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = [DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)]
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, target_mask, memory_mask)
        return self.norm(x)


@misconception(
    "Decoder",
    "memory-replaced",
    "The memory is replaced by the output of the layer. Every layer sees the same memory.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, target_mask, memory_mask)
            memory = x if x.shape == memory.shape else memory
        return self.norm(x)


@misconception(
    "Decoder",
    "always-normalised",
    "There is a LayerNorm at the end although pre_norm is False. In post-norm each layer ends with one already.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, target_mask, memory_mask)
        return self.norm(x)


@misconception(
    "Decoder",
    "last-norm-forgotten",
    "With pre_norm a last LayerNorm is missing after the stack.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)
        )

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, target_mask, memory_mask)
        return x


@misconception(
    "Decoder",
    "last-norm-not-used",
    "The last norm is made and never called. Return self.norm(x) with pre_norm.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, target_mask, memory_mask)
        return x


@misconception(
    "Decoder",
    "decoder-pre-norm-not-passed-on",
    "pre_norm adds the last norm, but the layers do not get it. Pass it on to each DecoderLayer.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(d_model, num_heads, d_ff, dropout) for _ in range(num_layers))
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, target_mask, memory_mask)
        return self.norm(x)


@misconception(
    "Decoder",
    "decoder-dropout-not-passed-on",
    "dropout is accepted and then forgotten. Pass it on to each DecoderLayer.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, pre_norm=pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, target_mask, memory_mask)
        return self.norm(x)


@misconception(
    "Decoder",
    "memory-mask-not-passed-on",
    "The memory mask does not reach the layers. Pass memory_mask on to each of them.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, target_mask)
        return self.norm(x)


@misconception(
    "Decoder",
    "mask-in-first-layer-only",
    "Only the first layer gets the masks. Every layer needs them.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, target_mask, memory_mask) if i == 0 else layer(x, memory)
        return self.norm(x)


@misconception(
    "Decoder",
    "norm-after-every-layer",
    "The last norm is applied after every layer. It stands once, after the whole stack.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        for layer in self.layers:
            x = self.norm(layer(x, memory, target_mask, memory_mask))
        return x


@misconception(
    "Decoder",
    "two-layers-only",
    "The number of layers is not used when the stack is run. Loop over all of self.layers.",
)
class Decoder(nn.Module):
    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.0, pre_norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, dropout, pre_norm) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.layers[0](x, memory, target_mask, memory_mask)
        x = self.layers[-1](x, memory, target_mask, memory_mask)
        return self.norm(x)


@misconception(
    "Generator",
    "probabilities",
    "These are probabilities. The generator returns logits: leave the softmax to whoever needs it.",
)
class Generator(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.linear = nn.Linear(d_model, vocab_size)

    def forward(self, x):
        return torch.softmax(self.linear(x), dim=-1)


@misconception(
    "Generator",
    "log-probabilities",
    "These are logarithms of probabilities. The generator returns the logits themselves.",
)
class Generator(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.linear = nn.Linear(d_model, vocab_size)

    def forward(self, x):
        return torch.log_softmax(self.linear(x), dim=-1)


@misconception(
    "Generator",
    "generator-without-bias",
    "The bias is missing. nn.Linear(d_model, vocab_size) has one by default.",
)
class Generator(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.linear = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, x):
        return self.linear(x)


@misconception(
    "Generator",
    "last-position-only",
    "Only the last position gets logits. In training all positions need them: apply the layer to the whole of x.",
)
class Generator(nn.Module):
    def __init__(self, d_model, vocab_size):
        super().__init__()
        self.linear = nn.Linear(d_model, vocab_size)

    def forward(self, x):
        return self.linear(x[:, -1] if x.dim() == 3 else x)


@misconception(
    "sequence_log_probability",
    "log-of-softmax",
    "The logarithm of a softmax becomes -inf for improbable words. Use torch.log_softmax, which never "
    "forms the probability.",
)
def sequence_log_probability(logits, target):
    p = torch.softmax(logits, dim=-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return p.log().sum(dim=-1)


@misconception(
    "sequence_log_probability",
    "product-first",
    "The product of many probabilities becomes 0 in a computer. Add the logarithms instead.",
)
def sequence_log_probability(logits, target):
    p = torch.softmax(logits, dim=-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return p.prod(dim=-1).log()


@misconception(
    "sequence_log_probability",
    "mean-over-words",
    "This is the mean over the words. The logarithm of a product is the sum.",
)
def sequence_log_probability(logits, target):
    return torch.log_softmax(logits, dim=-1).gather(-1, target.unsqueeze(-1)).squeeze(-1).mean(dim=-1)


@misconception(
    "sequence_log_probability",
    "raw-logits",
    "You added the logits. They are no logarithms of probabilities: take log_softmax over the vocabulary first.",
)
def sequence_log_probability(logits, target):
    return logits.gather(-1, target.unsqueeze(-1)).squeeze(-1).sum(dim=-1)


@misconception(
    "sequence_log_probability",
    "most-probable-words",
    "This is the probability of the most probable words. The question is about the words of the target.",
)
def sequence_log_probability(logits, target):
    return torch.log_softmax(logits, dim=-1).amax(dim=-1).sum(dim=-1)


@misconception(
    "sequence_log_probability",
    "softmax-over-positions",
    "The softmax runs over the positions. Each position shares 1 among the words of the vocabulary: dim=-1.",
)
def sequence_log_probability(logits, target):
    return torch.log_softmax(logits, dim=-2).gather(-1, target.unsqueeze(-1)).squeeze(-1).sum(dim=-1)


@misconception(
    "sequence_log_probability",
    "negative-log-probability",
    "This is minus the logarithm, which is a loss. The logarithm of a probability is never positive.",
)
def sequence_log_probability(logits, target):
    return -torch.log_softmax(logits, dim=-1).gather(-1, target.unsqueeze(-1)).squeeze(-1).sum(dim=-1)


@misconception(
    "sequence_log_probability",
    "sum-over-the-batch",
    "All sentences of the batch were added up. Each sentence has a number of its own: sum over the last "
    "dimension only.",
)
def sequence_log_probability(logits, target):
    log_p = torch.log_softmax(logits, dim=-1)
    total = log_p.gather(-1, target.unsqueeze(-1)).sum()
    return total.expand(target.shape[:-1])


@misconception(
    "decode_steps",
    "no-causal-mask",
    "Without a mask old words see new ones in the lower layers, so the last row is right for one layer "
    "only. Pass a causal mask.",
)
def decode_steps(embed, decoder, generator, memory, start_id, steps):
    tokens = torch.full((memory.shape[0], 1), start_id)
    for length in range(1, steps + 1):
        logits = generator(decoder(embed(tokens), memory))
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@misconception(
    "decode_steps",
    "mask-upside-down",
    "The mask hides the past and shows the future. Use tril: a word sees itself and what stands before it.",
)
def decode_steps(embed, decoder, generator, memory, start_id, steps):
    tokens = torch.full((memory.shape[0], 1), start_id)
    for length in range(1, steps + 1):
        past = torch.ones(length, length, dtype=torch.bool).triu()
        logits = generator(decoder(embed(tokens), memory, past))
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@misconception(
    "decode_steps",
    "last-token-only",
    "The decoder reads only the newest word and forgets the others. Without a cache it must read all tokens so far.",
)
def decode_steps(embed, decoder, generator, memory, start_id, steps):
    tokens = torch.full((memory.shape[0], 1), start_id)
    for length in range(1, steps + 1):
        past = torch.ones(length, length, dtype=torch.bool).tril()
        logits = generator(decoder(embed(tokens[:, -1:]), memory, past[:1, :1]))
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@misconception(
    "decode_steps",
    "first-position",
    "The logits of the first position were used. The next word is decided at the last position.",
)
def decode_steps(embed, decoder, generator, memory, start_id, steps):
    tokens = torch.full((memory.shape[0], 1), start_id)
    for length in range(1, steps + 1):
        past = torch.ones(length, length, dtype=torch.bool).tril()
        logits = generator(decoder(embed(tokens), memory, past))
        tokens = torch.cat([tokens, logits[:, 0].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@misconception(
    "decode_steps",
    "start-left-out",
    "The start token is missing in the result. It stands first.",
)
def decode_steps(embed, decoder, generator, memory, start_id, steps):
    tokens = torch.full((memory.shape[0], 1), start_id)
    for length in range(1, steps + 1):
        past = torch.ones(length, length, dtype=torch.bool).tril()
        logits = generator(decoder(embed(tokens), memory, past))
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens[:, 1:]


@misconception(
    "decode_steps",
    "one-step-short",
    "One step is missing. The result has 1 + steps tokens.",
)
def decode_steps(embed, decoder, generator, memory, start_id, steps):
    tokens = torch.full((memory.shape[0], 1), start_id)
    for length in range(1, steps):
        past = torch.ones(length, length, dtype=torch.bool).tril()
        logits = generator(decoder(embed(tokens), memory, past))
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@misconception(
    "decode_steps",
    "sampled",
    "The word was drawn at random from the probabilities. Here the one with the largest logit is asked for.",
)
def decode_steps(embed, decoder, generator, memory, start_id, steps):
    tokens = torch.full((memory.shape[0], 1), start_id)
    for length in range(1, steps + 1):
        past = torch.ones(length, length, dtype=torch.bool).tril()
        logits = generator(decoder(embed(tokens), memory, past))
        tokens = torch.cat([tokens, torch.multinomial(torch.softmax(logits[:, -1], dim=-1), 1)], dim=1)
    return tokens


@misconception(
    "decode_steps",
    "first-sequence-for-all",
    "All sequences of the batch get the word of the first one. Take the largest logit of each sequence.",
)
def decode_steps(embed, decoder, generator, memory, start_id, steps):
    tokens = torch.full((memory.shape[0], 1), start_id)
    for length in range(1, steps + 1):
        past = torch.ones(length, length, dtype=torch.bool).tril()
        logits = generator(decoder(embed(tokens), memory, past))
        tokens = torch.cat([tokens, logits[0, -1].argmax().expand(len(memory), 1)], dim=1)
    return tokens


@misconception(
    "decode_steps",
    "strict-mask",
    "Your mask hides the word itself: the diagonal must stay visible.",
)
def decode_steps(embed, decoder, generator, memory, start_id, steps):
    tokens = torch.full((memory.shape[0], 1), start_id)
    for length in range(1, steps + 1):
        past = torch.ones(length, length, dtype=torch.bool).tril(diagonal=-1)
        logits = generator(decoder(embed(tokens), memory, past))
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@misconception("key_rows", "one-layer-counted", "Each layer makes keys of its own. Multiply by the number of layers.")
def key_rows(num_layers, source, steps):
    return source * steps, source, steps * (steps + 1) // 2, steps


@misconception(
    "key_rows", "square", "At step t the decoder reads t tokens, not steps tokens. The sum is 1 + 2 + … + steps."
)
def key_rows(num_layers, source, steps):
    return num_layers * source * steps, num_layers * source, num_layers * steps * steps, num_layers * steps


@misconception(
    "key_rows",
    "cross-keys-for-target",
    "The keys of cross-attention come from the memory: there is one for each source word, not for each target word.",
)
def key_rows(num_layers, source, steps):
    return num_layers * source * steps, num_layers * steps, num_layers * steps * (steps + 1) // 2, num_layers * steps


@misconception(
    "key_rows",
    "without-the-last-step",
    "The sum 1 + 2 + … + steps is steps (steps + 1) / 2. You stopped one step too early.",
)
def key_rows(num_layers, source, steps):
    return num_layers * source * steps, num_layers * source, num_layers * steps * (steps - 1) // 2, num_layers * steps


@misconception(
    "key_rows",
    "memory-once-for-all-layers",
    "The memory is the same for all layers, but each layer has its own matrix for keys. So its keys are "
    "made once in each layer.",
)
def key_rows(num_layers, source, steps):
    return num_layers * source * steps, source, num_layers * steps * (steps + 1) // 2, num_layers * steps


@misconception(
    "key_rows",
    "division-gives-a-float",
    "The operator / gives a number with a decimal point. Counts are integers: divide with //.",
)
def key_rows(num_layers, source, steps):
    return num_layers * source * steps, num_layers * source, num_layers * steps * (steps + 1) / 2, num_layers * steps
