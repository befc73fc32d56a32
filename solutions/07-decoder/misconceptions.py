"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import math

import torch
from torch import nn

from autograder.misconceptions import misconception, wrong_edit


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


wrong_edit(
    "cross_attention",
    "value-with-w-k",
    "Keys and values come from the same memory, but each has a matrix of its own. The values are memory @ w_v.",
    {"memory @ w_v": "memory @ w_k"},
)
wrong_edit(
    "cross_attention",
    "memory-as-value",
    "The memory itself was averaged. The values are its projection, memory @ w_v.",
    {"memory @ w_v": "memory"},
)


@misconception("cross_attention", "cross-no-scaling", "The scores were not divided by the square root of d_k.")
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
    "cross_attention", "cross-mask-forgotten", "The mask is not used. Pass it on to scaled_dot_product_attention."
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


wrong_edit(
    "EncoderDecoderAttention",
    "same-projection",
    "The values are still made with w_k. They have a layer of their own: self.w_v(memory).",
    {"self.w_v(memory)": "self.w_k(memory)"},
)
wrong_edit(
    "EncoderDecoderAttention",
    "view-without-transpose",
    "view(batch, num_heads, -1, d_k) cuts through the tokens: a head gets pieces of several words. "
    "Use view(batch, -1, num_heads, d_k) and then transpose(1, 2).",
    {
        "query = split_heads(": (
            "split_heads = lambda t, heads: t.reshape(len(t), heads, -1, t.shape[-1] // heads)\nquery = split_heads("
        )
    },
)


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


wrong_edit(
    "EncoderDecoderAttention",
    "scaled-by-d-model",
    "The scores are divided by the square root of d_model. Each head has d_k = d_model / num_heads numbers: use that.",
    {
        "output, _ = scaled_dot_product_attention(query, key, value, mask)": (
            "query = query * math.sqrt(query.shape[-1] / x.shape[-1])\n"
            "output, _ = scaled_dot_product_attention(query, key, value, mask)"
        )
    },
)
wrong_edit(
    "EncoderDecoderAttention",
    "heads-not-checked",
    "A d_model that is no multiple of num_heads must raise a ValueError when the module is made, not a "
    "later error in view.",
    {"if d_model % num_heads:": "if False:"},
)
wrong_edit(
    "EncoderDecoderAttention",
    "no-output-projection",
    "The output projection is missing: after merging the heads, apply self.w_o.",
    {"self.w_o(merge_heads(output))": "merge_heads(output)"},
)

wrong_edit(
    "DecoderLayer",
    "target-mask-forgotten",
    "The target mask is not used, so words see the future. Pass target_mask to self_attention.",
    {"(y, y, y, target_mask)": "(y, y, y)"},
)
wrong_edit(
    "DecoderLayer",
    "memory-mask-forgotten",
    "The memory mask is not used. Pass memory_mask to cross_attention.",
    {"(y, memory, memory, memory_mask)": "(y, memory, memory)"},
)
wrong_edit(
    "DecoderLayer",
    "masks-exchanged",
    "The masks are exchanged. target_mask belongs to self_attention, memory_mask to cross_attention.",
    {
        "(y, y, y, target_mask)": "(y, y, y, memory_mask)",
        "(y, memory, memory, memory_mask)": "(y, memory, memory, target_mask)",
    },
)
wrong_edit(
    "DecoderLayer",
    "cross-attention-first",
    "Cross-attention comes before self-attention here. The order is: self-attention, cross-attention, feed-forward.",
    {
        "self.self_attention(y, y, y, target_mask)": "self.cross_attention(y, memory, memory, memory_mask)",
        "self.cross_attention(y, memory, memory, memory_mask)": "self.self_attention(y, y, y, target_mask)",
    },
)
wrong_edit(
    "DecoderLayer",
    "query-from-input",
    "The queries of cross-attention are made from the input of the layer. They come from the output of "
    "self-attention, after Add & Norm.",
    {
        "x = self.add_norm_1(": "given = x\nx = self.add_norm_1(",
        "self.cross_attention(y, memory": "self.cross_attention(given, memory",
    },
)
wrong_edit(
    "DecoderLayer",
    "one-attention-for-both",
    "One attention serves twice. self_attention and cross_attention need weights of their own.",
    {"cross_attention = MultiHeadAttention(d_model, num_heads, dropout)": "cross_attention = self.self_attention"},
)
wrong_edit(
    "DecoderLayer",
    "one-norm-for-all",
    "One Add & Norm serves three times. Each sub-layer has its own, with weights of its own.",
    {
        "self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)": "self.add_norm_2 = self.add_norm_1",
        "self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)": "self.add_norm_3 = self.add_norm_1",
    },
)
wrong_edit(
    "DecoderLayer",
    "pre-norm-not-passed-on",
    "pre_norm is accepted and then forgotten. Pass it on to the three AddAndNorm.",
    {
        "self.add_norm_1 = AddAndNorm(d_model, dropout, pre_norm)": "self.add_norm_1 = AddAndNorm(d_model, dropout)",
        "self.add_norm_2 = AddAndNorm(d_model, dropout, pre_norm)": "self.add_norm_2 = AddAndNorm(d_model, dropout)",
        "self.add_norm_3 = AddAndNorm(d_model, dropout, pre_norm)": "self.add_norm_3 = AddAndNorm(d_model, dropout)",
    },
)
wrong_edit(
    "DecoderLayer",
    "layer-dropout-not-passed-on",
    "dropout is accepted and then forgotten. Pass it on to all six parts.",
    {"super().__init__()": "super().__init__()\ndropout = 0.0"},
)
wrong_edit(
    "DecoderLayer",
    "attention-dropout-forgotten",
    "The two attentions get no dropout. Pass dropout on to all six parts.",
    {
        "self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)": (
            "self.self_attention = MultiHeadAttention(d_model, num_heads)"
        ),
        "self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)": (
            "self.cross_attention = MultiHeadAttention(d_model, num_heads)"
        ),
    },
)
wrong_edit(
    "DecoderLayer",
    "sublayer-ignores-its-argument",
    "Your self-attention works on x and not on what AddAndNorm hands to it. In pre-norm that is the "
    "normalised tensor: use the argument of the lambda.",
    {"(y, y, y, target_mask)": "(x, x, x, target_mask)"},
)
wrong_edit(
    "DecoderLayer",
    "memory-normalised",
    "The memory is normalised together with the queries. It comes normalised from the encoder: use it as it is.",
    {"(y, memory, memory, memory_mask)": "(y, *2 * [self.add_norm_2.norm(memory)], memory_mask)"},
)
wrong_edit(
    "DecoderLayer",
    "always-causal",
    "Your layer hides the future on its own account. Which pairs may be seen is said by target_mask alone.",
    {
        "x = self.add_norm_1(": (
            "past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()\n"
            "target_mask = past if target_mask is None else past & target_mask\n"
            "x = self.add_norm_1("
        )
    },
)
wrong_edit(
    "DecoderLayer",
    "value-from-target",
    "The values of cross-attention are taken from the query side for equal lengths. Keys and values are both memory.",
    {"(y, memory, memory, memory_mask)": "(y, memory, y if y.shape == memory.shape else memory, memory_mask)"},
)
wrong_edit(
    "DecoderLayer",
    "no-residual-at-feed-forward",
    "The feed-forward network stands alone. It has Add & Norm around it like the other two.",
    {"self.add_norm_3(x, self.feed_forward)": "self.add_norm_3.norm(self.feed_forward(x))"},
)
wrong_edit(
    "DecoderLayer",
    "memory-detached",
    "The memory is cut off with detach, so the encoder gets no gradient and is never trained. Use memory as it is.",
    {"(y, memory, memory, memory_mask)": "(y, memory.detach(), memory.detach(), memory_mask)"},
)

wrong_edit(
    "Decoder",
    "one-layer-many-times",
    "The list holds one and the same layer, so all layers share their weights. Make a new DecoderLayer for each place.",
    {
        "DecoderLayer(d_model,": "[DecoderLayer(d_model,",
        "pre_norm) for _ in range(num_layers)": "pre_norm)] * num_layers",
    },
)
wrong_edit(
    "Decoder",
    "plain-list",
    "A plain Python list hides the layers from PyTorch: they have no parameters that an optimiser sees. "
    "Use nn.ModuleList.",
    {"self.layers = nn.ModuleList(": "self.layers = list("},
)
wrong_edit(
    "Decoder",
    "memory-replaced",
    "The memory is replaced by the output of the layer. Every layer sees the same memory.",
    {
        "x = layer(x, memory, target_mask, memory_mask)": (
            "x = layer(x, memory, target_mask, memory_mask)\nmemory = x if x.shape == memory.shape else memory"
        )
    },
)
wrong_edit(
    "Decoder",
    "always-normalised",
    "There is a LayerNorm at the end although pre_norm is False. In post-norm each layer ends with one already.",
    {"LayerNorm(d_model) if pre_norm else nn.Identity()": "LayerNorm(d_model)"},
)
wrong_edit(
    "Decoder",
    "last-norm-forgotten",
    "With pre_norm a last LayerNorm is missing after the stack.",
    {"self.norm = LayerNorm(d_model) if pre_norm else nn.Identity()": "pass", "self.norm(x)": "x"},
)
wrong_edit(
    "Decoder",
    "last-norm-not-used",
    "The last norm is made and never called. Return self.norm(x) with pre_norm.",
    {"return self.norm(x)": "return x"},
)
wrong_edit(
    "Decoder",
    "decoder-pre-norm-not-passed-on",
    "pre_norm adds the last norm, but the layers do not get it. Pass it on to each DecoderLayer.",
    {"d_ff, dropout, pre_norm)": "d_ff, dropout)"},
)
wrong_edit(
    "Decoder",
    "decoder-dropout-not-passed-on",
    "dropout is accepted and then forgotten. Pass it on to each DecoderLayer.",
    {"d_ff, dropout, pre_norm)": "d_ff, pre_norm=pre_norm)"},
)
wrong_edit(
    "Decoder",
    "memory-mask-not-passed-on",
    "The memory mask does not reach the layers. Pass memory_mask on to each of them.",
    {"layer(x, memory, target_mask, memory_mask)": "layer(x, memory, target_mask)"},
)
wrong_edit(
    "Decoder",
    "mask-in-first-layer-only",
    "Only the first layer gets the masks. Every layer needs them.",
    {
        "x = layer(x, memory, target_mask, memory_mask)": (
            "x = layer(x, memory, target_mask, memory_mask)\ntarget_mask = memory_mask = None"
        )
    },
)
wrong_edit(
    "Decoder",
    "norm-after-every-layer",
    "The last norm is applied after every layer. It stands once, after the whole stack.",
    {
        "x = layer(x, memory, target_mask, memory_mask)": "x = self.norm(layer(x, memory, target_mask, memory_mask))",
        "return self.norm(x)": "return x",
    },
)
wrong_edit(
    "Decoder",
    "two-layers-only",
    "The number of layers is not used when the stack is run. Loop over all of self.layers.",
    {"for layer in self.layers:": "for layer in (self.layers[0], self.layers[-1]):"},
)

wrong_edit(
    "Generator",
    "probabilities",
    "These are probabilities. The generator returns logits: leave the softmax to whoever needs it.",
    {"self.linear(x)": "torch.softmax(self.linear(x), dim=-1)"},
)
wrong_edit(
    "Generator",
    "log-probabilities",
    "These are logarithms of probabilities. The generator returns the logits themselves.",
    {"self.linear(x)": "torch.log_softmax(self.linear(x), dim=-1)"},
)
wrong_edit(
    "Generator",
    "generator-without-bias",
    "The bias is missing. nn.Linear(d_model, vocab_size) has one by default.",
    {"self.linear = nn.Linear(d_model, vocab_size)": "self.linear = nn.Linear(d_model, vocab_size, bias=False)"},
)
wrong_edit(
    "Generator",
    "last-position-only",
    "Only the last position gets logits. In training all positions need them: apply the layer to the whole of x.",
    {"self.linear(x)": "self.linear(x[:, -1] if x.dim() == 3 else x)"},
)

wrong_edit(
    "sequence_log_probability",
    "log-of-softmax",
    "The logarithm of a softmax becomes -inf for improbable words. Use torch.log_softmax, which never "
    "forms the probability.",
    {"torch.log_softmax(logits, dim=-1)": "torch.softmax(logits, dim=-1).log()"},
)


@misconception(
    "sequence_log_probability",
    "product-first",
    "The product of many probabilities becomes 0 in a computer. Add the logarithms instead.",
)
def sequence_log_probability(logits, target):
    p = torch.softmax(logits, dim=-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return p.prod(dim=-1).log()


wrong_edit(
    "sequence_log_probability",
    "mean-over-words",
    "This is the mean over the words. The logarithm of a product is the sum.",
    {".sum(dim=-1)": ".mean(dim=-1)"},
)
wrong_edit(
    "sequence_log_probability",
    "raw-logits",
    "You added the logits. They are no logarithms of probabilities: take log_softmax over the vocabulary first.",
    {"torch.log_softmax(logits, dim=-1)": "logits"},
)
wrong_edit(
    "sequence_log_probability",
    "most-probable-words",
    "This is the probability of the most probable words. The question is about the words of the target.",
    {"log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)": "log_p.amax(dim=-1)"},
)
wrong_edit(
    "sequence_log_probability",
    "softmax-over-positions",
    "The softmax runs over the positions. Each position shares 1 among the words of the vocabulary: dim=-1.",
    {"torch.log_softmax(logits, dim=-1)": "torch.log_softmax(logits, dim=-2)"},
)
wrong_edit(
    "sequence_log_probability",
    "negative-log-probability",
    "This is minus the logarithm, which is a loss. The logarithm of a probability is never positive.",
    {"return log_p.gather(": "return -log_p.gather("},
)
wrong_edit(
    "sequence_log_probability",
    "sum-over-the-batch",
    "All sentences of the batch were added up. Each sentence has a number of its own: sum over the last "
    "dimension only.",
    {".sum(dim=-1)": ".sum().expand(target.shape[:-1])"},
)

wrong_edit(
    "decode_steps",
    "no-causal-mask",
    "Without a mask old words see new ones in the lower layers, so the last row is right for one layer "
    "only. Pass a causal mask.",
    {"decoder(embed(tokens), memory, past)": "decoder(embed(tokens), memory)"},
)
wrong_edit(
    "decode_steps",
    "mask-upside-down",
    "The mask hides the past and shows the future. Use tril: a word sees itself and what stands before it.",
    {"torch.bool).tril()": "torch.bool).triu()"},
)
wrong_edit(
    "decode_steps",
    "last-token-only",
    "The decoder reads only the newest word and forgets the others. Without a cache it must read all tokens so far.",
    {"decoder(embed(tokens), memory, past)": "decoder(embed(tokens[:, -1:]), memory, past[:1, :1])"},
)
wrong_edit(
    "decode_steps",
    "first-position",
    "The logits of the first position were used. The next word is decided at the last position.",
    {"logits[:, -1]": "logits[:, 0]"},
)
wrong_edit(
    "decode_steps",
    "start-left-out",
    "The start token is missing in the result. It stands first.",
    {"return tokens": "return tokens[:, 1:]"},
)
wrong_edit(
    "decode_steps",
    "one-step-short",
    "One step is missing. The result has 1 + steps tokens.",
    {"range(1, steps + 1)": "range(1, steps)"},
)
wrong_edit(
    "decode_steps",
    "sampled",
    "The word was drawn at random from the probabilities. Here the one with the largest logit is asked for.",
    {"logits[:, -1].argmax(dim=-1, keepdim=True)": "torch.multinomial(torch.softmax(logits[:, -1], dim=-1), 1)"},
)
wrong_edit(
    "decode_steps",
    "first-sequence-for-all",
    "All sequences of the batch get the word of the first one. Take the largest logit of each sequence.",
    {"logits[:, -1].argmax(dim=-1, keepdim=True)": "logits[0, -1].argmax().expand(len(memory), 1)"},
)
wrong_edit(
    "decode_steps",
    "strict-mask",
    "Your mask hides the word itself: the diagonal must stay visible.",
    {"torch.bool).tril()": "torch.bool).tril(diagonal=-1)"},
)


@misconception("key_rows", "one-layer-counted", "Each layer makes keys of its own. Multiply by the number of layers.")
def key_rows(num_layers, source, steps):
    return source * steps, source, steps * (steps + 1) // 2, steps


wrong_edit(
    "key_rows",
    "square",
    "At step t the decoder reads t tokens, not steps tokens. The sum is 1 + 2 + … + steps.",
    {"num_layers * steps * (steps + 1) // 2": "num_layers * steps * steps"},
)


@misconception(
    "key_rows",
    "cross-keys-for-target",
    "The keys of cross-attention come from the memory: there is one for each source word, not for each target word.",
)
def key_rows(num_layers, source, steps):
    return num_layers * source * steps, num_layers * steps, num_layers * steps * (steps + 1) // 2, num_layers * steps


wrong_edit(
    "key_rows",
    "without-the-last-step",
    "The sum 1 + 2 + … + steps is steps (steps + 1) / 2. You stopped one step too early.",
    {"steps + 1": "steps - 1"},
)


@misconception(
    "key_rows",
    "memory-once-for-all-layers",
    "The memory is the same for all layers, but each layer has its own matrix for keys. So its keys are "
    "made once in each layer.",
)
def key_rows(num_layers, source, steps):
    return num_layers * source * steps, source, num_layers * steps * (steps + 1) // 2, num_layers * steps


wrong_edit(
    "key_rows",
    "division-gives-a-float",
    "The operator / gives a number with a decimal point. Counts are integers: divide with //.",
    {"num_layers * steps * (steps + 1) // 2": "num_layers * steps * (steps + 1) / 2"},
)
