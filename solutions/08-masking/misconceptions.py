"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

# ruff: noqa: RUF005
import math

import torch

from autograder.misconceptions import misconception, wrong_edit


@misconception(
    "leak",
    "share-of-visible-keys",
    "You add up the weights of the visible keys. The leak is the rest: what falls on hidden keys, ~mask.",
)
def leak(scores, mask, fill):
    weights = torch.softmax(scores.masked_fill(~mask, fill), dim=-1)
    return (weights * mask).sum(dim=-1)


@misconception(
    "leak",
    "fill-is-ignored",
    "You multiply the scores by the mask, which makes hidden scores 0 whatever fill is. Replace them by fill.",
)
def leak(scores, mask, fill):
    weights = torch.softmax(scores * mask, dim=-1)
    return (weights * ~mask).sum(dim=-1)


@misconception(
    "leak",
    "fill-is-added",
    "You add fill to the hidden scores. They are to be replaced by it: what stood there must be gone.",
)
def leak(scores, mask, fill):
    weights = torch.softmax(scores + torch.zeros_like(scores).masked_fill(~mask, fill), dim=-1)
    return (weights * ~mask).sum(dim=-1)


@misconception(
    "leak",
    "softmax-over-rows",
    "Your softmax runs over the first dimension. Each row is one query, so it must run over the last one, dim=-1.",
)
def leak(scores, mask, fill):
    weights = torch.softmax(scores.masked_fill(~mask, fill), dim=0)
    return weights.masked_fill(mask, 0.0).sum(dim=-1)


@misconception("leak", "mean-of-hidden-keys", "You take the mean of the hidden weights. The leak is their sum.")
def leak(scores, mask, fill):
    weights = torch.softmax(scores.masked_fill(~mask, fill), dim=-1)
    return (weights * ~mask).sum(dim=-1) / (~mask).sum(dim=-1).clamp(min=1)


wrong_edit(
    "padding_mask",
    "true-is-padding",
    "Your mask is True for padding. In this course True means may be seen: compare with != instead of ==.",
    {"tokens != pad_id": "tokens == pad_id"},
)
wrong_edit(
    "padding_mask",
    "pad-id-is-zero",
    "You compare with 0. The number of the padding token is the argument pad_id.",
    {"tokens != pad_id": "tokens != 0"},
)
wrong_edit(
    "padding_mask",
    "greater-than-pad-id",
    "Tokens below pad_id are words, too. Compare with !=, not with >.",
    {"tokens != pad_id": "tokens > pad_id"},
)


@misconception(
    "padding_mask",
    "rows-instead-of-columns",
    "You hide rows, that is, queries. A padding mask hides keys: the last dimension is key, not the third.",
)
def padding_mask(tokens, pad_id):
    return (tokens != pad_id)[:, None, :, None]


wrong_edit(
    "padding_mask",
    "up-to-the-first-padding",
    "You hide everything after the first padding token. Each token is a word or padding by itself.",
    {"tokens != pad_id": "(tokens != pad_id).long().cumprod(dim=-1).bool()"},
)


@misconception(
    "causal_mask",
    "diagonal-hidden",
    "Your positions do not see themselves. Keep the diagonal: tril() without an argument.",
)
def causal_mask(length):
    return torch.ones(length, length, dtype=torch.bool).tril(diagonal=-1)


wrong_edit(
    "causal_mask",
    "upper-triangle",
    "Your mask shows the future and hides the past. Rows are queries, and row i sees the columns up "
    "to i: tril, not triu.",
    {"torch.ones(length, length, dtype=torch.bool).tril": "torch.ones(length, length, dtype=torch.bool).triu"},
)


@misconception(
    "causal_mask",
    "true-is-hidden",
    "Your mask is True for what is hidden. In this course True means may be seen: turn it round with ~.",
)
def causal_mask(length):
    return torch.ones(length, length, dtype=torch.bool).triu(diagonal=1)


@misconception(
    "causal_mask", "one-step-ahead", "Each of your positions sees the next one, which is the word it has to predict."
)
def causal_mask(length):
    return torch.ones(length, length, dtype=torch.bool).tril(diagonal=1)


@misconception(
    "causal_mask", "window-of-three", "Your positions see only the last three. A causal mask hides nothing of the past."
)
def causal_mask(length):
    return torch.ones(length, length, dtype=torch.bool).tril().triu(diagonal=-2)


@misconception(
    "additive", "zero-times-infinity", "0 times -inf is nan. Fill the hidden entries with -inf instead of multiplying."
)
def additive(mask):
    return (1.0 - mask.float()) * -math.inf


@misconception(
    "additive", "wrong-way-round", "You have -inf where a key may be seen. True means visible, and visible is 0."
)
def additive(mask):
    return torch.zeros(mask.shape).masked_fill(mask, -math.inf)


@misconception(
    "additive",
    "finite-number",
    "A large negative number is not -inf: a row full of it gets equal weights. Use -math.inf.",
)
def additive(mask):
    return torch.zeros(mask.shape).masked_fill(~mask, -1e9)


@misconception(
    "additive",
    "smallest-float",
    "torch.finfo(...).min is finite, so a row full of it gets equal weights. Use -math.inf.",
)
def additive(mask):
    return torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)


wrong_edit(
    "additive",
    "mask-as-numbers",
    "These are the numbers 1 and 0. Visible should be 0 and hidden -inf.",
    {"torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -math.inf)": "mask.float()"},
)


@misconception(
    "additive",
    "only-the-last-dimension",
    "You hide a key everywhere when it is hidden in the first row. Fill each entry for itself.",
)
def additive(mask):
    flat = mask.reshape(-1, mask.shape[-1]) if mask.dim() else mask.reshape(1, 1)
    row = flat[0] if len(flat) else flat.new_ones(mask.shape[-1])
    return torch.zeros(mask.shape).masked_fill(~row.reshape(mask.shape[-1:]), -math.inf)


@misconception(
    "target_mask",
    "or-instead-of-and",
    "You combine with or, so one reason to be visible is enough. Both are needed: use &.",
)
def target_mask(tokens, pad_id):
    return padding_mask(tokens, pad_id) | causal_mask(tokens.shape[-1])


@misconception(
    "target_mask", "no-padding-in-it", "Your mask hides the future, but not the padding. Combine it with padding_mask."
)
def target_mask(tokens, pad_id):
    return causal_mask(tokens.shape[-1]).expand(len(tokens), 1, -1, -1).clone()


@misconception(
    "target_mask", "no-future-in-it", "Your mask hides padding, but not the future. Combine it with causal_mask."
)
def target_mask(tokens, pad_id):
    return padding_mask(tokens, pad_id).expand(-1, 1, tokens.shape[1], -1).clone()


@misconception(
    "target_mask",
    "target-pad-id-zero",
    "You pass 0 where the number of the padding token belongs: the argument pad_id.",
)
def target_mask(tokens, pad_id):
    return padding_mask(tokens, 0) & causal_mask(tokens.shape[-1])


@misconception(
    "target_mask",
    "padding-queries-hidden",
    "You hide the rows of padding queries as well. They see nothing then. Only keys, which are columns, are hidden.",
)
def target_mask(tokens, pad_id):
    columns = padding_mask(tokens, pad_id)
    return columns & columns.transpose(-2, -1) & causal_mask(tokens.shape[-1])


wrong_edit(
    "decoder_pairs",
    "no-end-token",
    "The end token is missing from the labels, so the model never learns to stop.",
    {"[start, *words], [*words, end]": "[start] + words, words"},
)
wrong_edit(
    "decoder_pairs",
    "last-word-dropped",
    "The last word is missing from the input. Its label is the end token.",
    {"[start, *words], [*words, end]": "[start] + words[:-1], words"},
)
wrong_edit(
    "decoder_pairs",
    "pairs-exchanged",
    "Input and labels are exchanged: the input begins with the start token and comes first.",
    {"[start, *words], [*words, end]": "words + [end], [start] + words"},
)
wrong_edit(
    "decoder_pairs",
    "end-token-in-the-input",
    "The end token belongs to the labels only. What follows it is never predicted.",
    {"[start, *words], [*words, end]": "[start] + words + [end], words + [end]"},
)


@misconception(
    "decoder_pairs", "list-changed", "insert and append change the list that was given to you. Build new lists with +."
)
def decoder_pairs(words, start, end):
    labels = words + [end]
    words.insert(0, start)
    return words, labels


@misconception(
    "influence",
    "sum-before-gradient",
    "You take the gradient of the sum of a row. Slopes of opposite sign cancel there; take each component by itself.",
)
def influence(function, x):
    x = x.detach().clone().requires_grad_()
    y = function(x)
    rows = [torch.autograd.grad(row.sum(), x, retain_graph=True)[0].abs().sum(dim=-1) for row in y]
    return torch.stack(rows)


@misconception(
    "influence",
    "gradients-accumulate",
    "backward adds to x.grad. Set it to zero before each row, or use torch.autograd.grad.",
)
def influence(function, x):
    x = x.detach().clone().requires_grad_()
    y = function(x)
    rows = []
    for row in y:
        for component in row:
            component.backward(retain_graph=True)
        rows.append(x.grad.abs().sum(dim=-1).clone())
    return torch.stack(rows)


wrong_edit(
    "influence",
    "transposed-influence",
    "Rows belong to outputs and columns to inputs. Yours is transposed.",
    {"result[t] +=": "result[:, t] +="},
)
wrong_edit(
    "influence",
    "no-sizes",
    "You add the derivatives themselves. Add their sizes, abs(), so that signs do not cancel.",
    {"slope.abs().sum(": "slope.sum("},
)


@misconception(
    "influence", "first-component-only", "You look at the first component of each output. All of them count."
)
def influence(function, x):
    x = x.detach().clone().requires_grad_()
    y = function(x)
    rows = [torch.autograd.grad(row[0], x, retain_graph=True)[0].abs().sum(dim=-1) for row in y]
    return torch.stack(rows) * y.shape[1]


wrong_edit(
    "parameter_count",
    "biases-forgotten",
    "You count the weight matrices of linear layers without their biases.",
    {
        "4 * (d_model * d_model + d_model)": "4 * d_model * d_model",
        "d_model * d_ff + d_ff + d_ff * d_model + d_model": "d_model * d_ff + d_ff * d_model",
        "d_model * target_vocab_size + target_vocab_size": "d_model * target_vocab_size",
    },
)
wrong_edit(
    "parameter_count",
    "one-attention-in-the-decoder",
    "A decoder layer has two attentions and three layer normalisations.",
    {"2 * attention + feed_forward + 3 * norm": "attention + feed_forward + 2 * norm"},
)
wrong_edit(
    "parameter_count",
    "embeddings-shared",
    "You count one matrix of words. In your model embeddings and generator share nothing.",
    {
        "(source_vocab_size + target_vocab_size) * d_model": "source_vocab_size * d_model",
        "d_model * target_vocab_size + target_vocab_size": "target_vocab_size",
    },
)
wrong_edit(
    "parameter_count",
    "generator-for-the-source",
    "The generator scores words of the target, so its size is that of the target's vocabulary.",
    {"d_model * target_vocab_size + target_vocab_size": "d_model * source_vocab_size + source_vocab_size"},
)
wrong_edit(
    "parameter_count",
    "feed-forward-as-wide-as-the-model",
    "The inner size of the feed-forward network is d_ff, and it need not be d_model or 4 d_model.",
    {"d_model * d_ff + d_ff + d_ff * d_model + d_model": "2 * d_model * d_model + 2 * d_model"},
)

wrong_edit(
    "Transformer",
    "source-padding-seen",
    "The encoder sees the padding of the source. Pass padding_mask(source, self.pad_id) to it.",
    {"(source)), padding_mask(source, self.pad_id))": "(source)))"},
)
wrong_edit(
    "Transformer",
    "memory-padding-seen",
    "Cross-attention sees the padding of the source. Pass the source's padding mask to decode as memory_mask.",
    {"self.encode(source), padding_mask(source, self.pad_id)": "self.encode(source)"},
)
wrong_edit(
    "Transformer",
    "no-causal-mask",
    "The decoder hides only padding, so it sees the future. Use target_mask.",
    {"target_mask(target, self.pad_id)": "padding_mask(target, self.pad_id)"},
)
wrong_edit(
    "Transformer",
    "target-padding-seen",
    "The decoder's self-attention sees the padding of the target. Use target_mask, which hides both.",
    {"target_mask(target, self.pad_id)": "target_mask(target, -100)"},
)
wrong_edit(
    "Transformer",
    "pad-id-fixed",
    "You mask the token 0. The number of the padding token is self.pad_id.",
    {"self.pad_id = pad_id": "self.pad_id = 0"},
)
wrong_edit(
    "Transformer",
    "no-positions-in-the-decoder",
    "The target has no positions. Call self.position on both sides.",
    {"self.position(self.target_embedding(target))": "self.target_embedding(target)"},
)
wrong_edit(
    "Transformer",
    "one-embedding",
    "Both languages use the source's embedding. The target has one of its own.",
    {
        "self.target_embedding(target)": (
            "self.source_embedding(target % self.source_embedding.embedding.num_embeddings)"
        )
    },
)
wrong_edit(
    "Transformer",
    "softmax-at-the-end",
    "You return probabilities. Logits are wanted: leave the softmax out.",
    {
        "return self.generator(": "return torch.softmax(self.generator(",
        "target_mask(target, self.pad_id), memory_mask))": "target_mask(target, self.pad_id), memory_mask)), dim=-1)",
    },
)
wrong_edit(
    "Transformer",
    "scaled-twice",
    "TokenEmbedding multiplies by sqrt(d_model) already. You do it a second time.",
    {
        "self.source_embedding(source)": (
            "self.source_embedding(source) * self.source_embedding.embedding.embedding_dim**0.5"
        )
    },
)
wrong_edit(
    "Transformer",
    "no-xavier",
    "Matrices should start with Xavier's uniform distribution: nn.init.xavier_uniform_ where dim() > 1.",
    {"nn.init.xavier_uniform_(parameter)": "pass"},
)
wrong_edit(
    "Transformer",
    "dropout-not-passed-on",
    "dropout reaches the positions only. Encoder and decoder need it, too.",
    {"self.encoder = ": "dropout = 0.0\nself.encoder = "},
)
wrong_edit(
    "Transformer",
    "pre-norm-not-passed-on",
    "pre_norm is not passed on to encoder and decoder.",
    {"self.encoder = ": "pre_norm = False\nself.encoder = "},
)
wrong_edit(
    "Transformer",
    "target-shifted-again",
    "The target is shifted right already. You shift it a second time.",
    {
        "self.target_embedding(target)": "self.target_embedding(target.roll(1, dims=1))",
        "target_mask(target, self.pad_id)": "target_mask(target.roll(1, dims=1), self.pad_id)",
    },
)
