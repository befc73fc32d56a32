"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import math
from collections import Counter

import torch

from autograder.misconceptions import misconception
from mytransformer.attention import merge_heads, scaled_dot_product_attention, split_heads
from mytransformer.masks import padding_mask

# Names of the notebook that answers may use.
KeyValueCache = clipped_matches = None


@misconception(
    "greedy_sentence",
    "first-position",
    "You read the logits of the first position. The next word is predicted by the last one, logits[0, -1].",
)
@torch.no_grad()
def greedy_sentence(model, source, start_id, end_id, max_length):
    memory = model.encode(source[None])
    memory_mask = padding_mask(source[None], model.pad_id)
    tokens = [start_id]
    while len(tokens) < max_length:
        logits = model.decode(torch.tensor([tokens]), memory, memory_mask)
        tokens.append(int(logits[0, 0].argmax()))
        if tokens[-1] == end_id:
            break
    return tokens


@misconception(
    "greedy_sentence",
    "only-the-last-token",
    "You give the decoder the last token alone. It needs all tokens so far: without a cache it remembers nothing.",
)
@torch.no_grad()
def greedy_sentence(model, source, start_id, end_id, max_length):
    memory = model.encode(source[None])
    memory_mask = padding_mask(source[None], model.pad_id)
    tokens = [start_id]
    while len(tokens) < max_length:
        logits = model.decode(torch.tensor([tokens[-1:]]), memory, memory_mask)
        tokens.append(int(logits[0, -1].argmax()))
        if tokens[-1] == end_id:
            break
    return tokens


@misconception(
    "greedy_sentence",
    "no-memory-mask",
    "Padding of the source is seen by cross-attention. Give decode the padding mask of the source.",
)
@torch.no_grad()
def greedy_sentence(model, source, start_id, end_id, max_length):
    memory = model.encode(source[None])
    tokens = [start_id]
    while len(tokens) < max_length:
        logits = model.decode(torch.tensor([tokens]), memory)
        tokens.append(int(logits[0, -1].argmax()))
        if tokens[-1] == end_id:
            break
    return tokens


@misconception(
    "greedy_sentence",
    "end-left-out",
    "The end token is missing at the end. Append it first, and then look whether it was the end.",
)
@torch.no_grad()
def greedy_sentence(model, source, start_id, end_id, max_length):
    memory = model.encode(source[None])
    tokens = [start_id]
    while len(tokens) < max_length:
        logits = model.decode(torch.tensor([tokens]), memory, padding_mask(source[None], model.pad_id))
        word = int(logits[0, -1].argmax())
        if word == end_id:
            break
        tokens.append(word)
    return tokens


@misconception(
    "greedy_sentence",
    "start-does-not-count",
    "Your list may hold max_length tokens besides the start token. The start token counts.",
)
@torch.no_grad()
def greedy_sentence(model, source, start_id, end_id, max_length):
    memory = model.encode(source[None])
    memory_mask = padding_mask(source[None], model.pad_id)
    tokens = [start_id]
    while len(tokens) <= max_length:
        logits = model.decode(torch.tensor([tokens]), memory, memory_mask)
        tokens.append(int(logits[0, -1].argmax()))
        if tokens[-1] == end_id:
            break
    return tokens


@misconception(
    "sampling_probabilities",
    "temperature-multiplies",
    "You multiply by the temperature. Divide: a high temperature makes the differences of the logits smaller.",
)
def sampling_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    p = torch.softmax(logits * temperature, dim=-1)
    p, order = p.sort(dim=-1, descending=True)
    if top_k is not None:
        p = p.masked_fill(torch.arange(p.shape[-1]) >= top_k, 0.0)
        p = p / p.sum(dim=-1, keepdim=True)
    if top_p is not None:
        p = p.masked_fill(p.cumsum(dim=-1) - p >= top_p, 0.0)
        p = p / p.sum(dim=-1, keepdim=True)
    return torch.zeros_like(p).scatter(-1, order, p)


@misconception(
    "sampling_probabilities",
    "crossing-word-dropped",
    "The word whose share crosses top_p is missing. It belongs to those that are kept: compare the sum before it.",
)
def sampling_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    p = torch.softmax(logits / temperature, dim=-1)
    p, order = p.sort(dim=-1, descending=True)
    if top_k is not None:
        p = p.masked_fill(torch.arange(p.shape[-1]) >= top_k, 0.0)
        p = p / p.sum(dim=-1, keepdim=True)
    if top_p is not None:
        p = p.masked_fill(p.cumsum(dim=-1) > top_p, 0.0)
        p = p / p.sum(dim=-1, keepdim=True)
    return torch.zeros_like(p).scatter(-1, order, p)


@misconception(
    "sampling_probabilities",
    "order-not-undone",
    "The probabilities are returned sorted. Each must go back to the place of its word: scatter.",
)
def sampling_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    p = torch.softmax(logits / temperature, dim=-1)
    p, _ = p.sort(dim=-1, descending=True)
    if top_k is not None:
        p = p.masked_fill(torch.arange(p.shape[-1]) >= top_k, 0.0)
        p = p / p.sum(dim=-1, keepdim=True)
    if top_p is not None:
        p = p.masked_fill(p.cumsum(dim=-1) - p >= top_p, 0.0)
        p = p / p.sum(dim=-1, keepdim=True)
    return p


@misconception(
    "sampling_probabilities",
    "not-divided-again",
    "What is kept does not sum to 1. Divide by its sum after each filter.",
)
def sampling_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    p = torch.softmax(logits / temperature, dim=-1)
    p, order = p.sort(dim=-1, descending=True)
    if top_k is not None:
        p = p.masked_fill(torch.arange(p.shape[-1]) >= top_k, 0.0)
    if top_p is not None:
        p = p.masked_fill(p.cumsum(dim=-1) - p >= top_p, 0.0)
    return torch.zeros_like(p).scatter(-1, order, p)


@misconception(
    "sampling_probabilities",
    "top-p-of-the-original",
    "top-p is compared with the shares from before top-k. Divide by the sum after top-k, and then take top-p.",
)
def sampling_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    p = torch.softmax(logits / temperature, dim=-1)
    p, order = p.sort(dim=-1, descending=True)
    before = p.cumsum(dim=-1) - p
    if top_k is not None:
        p = p.masked_fill(torch.arange(p.shape[-1]) >= top_k, 0.0)
    if top_p is not None:
        p = p.masked_fill(before >= top_p, 0.0)
    return torch.zeros_like(p).scatter(-1, order, p / p.sum(dim=-1, keepdim=True))


@misconception(
    "KeyValueCache",
    "always-position-zero",
    "The new token always gets the encoding of position 0. It stands at position t: count the steps.",
)
class KeyValueCache:
    def __init__(self, model, source):
        self.model, self.memory_mask, self.seen = model, padding_mask(source, model.pad_id), None
        memory = model.encode(source)
        self.heads = model.encoder.layers[0].attention.weights.shape[1]
        self.cross = [self.pair(layer.cross_attention, memory) for layer in model.decoder.layers]
        self.own = [None] * len(self.cross)

    def pair(self, attention, x):
        return split_heads(attention.w_k(x), self.heads), split_heads(attention.w_v(x), self.heads)

    def attend(self, attention, y, pair, mask):
        query = split_heads(attention.w_q(y), self.heads)
        return attention.w_o(merge_heads(scaled_dot_product_attention(query, *pair, mask)[0]))

    def look_back(self, i, attention, y):
        pair = self.pair(attention, y)
        if self.own[i] is not None:
            pair = [torch.cat([old, new], dim=2) for old, new in zip(self.own[i], pair, strict=True)]
        self.own[i] = pair
        return self.attend(attention, y, pair, self.seen)

    def step(self, tokens):
        new = (tokens != self.model.pad_id)[:, None, None, None]
        self.seen = new if self.seen is None else torch.cat([self.seen, new], dim=-1)
        x = self.model.target_embedding(tokens[:, None])
        x = self.model.position(x)
        for i, layer in enumerate(self.model.decoder.layers):
            x = layer.add_norm_1(x, lambda y, i=i, layer=layer: self.look_back(i, layer.self_attention, y))
            x = layer.add_norm_2(
                x, lambda y, i=i, layer=layer: self.attend(layer.cross_attention, y, self.cross[i], self.memory_mask)
            )
            x = layer.add_norm_3(x, layer.feed_forward)
        return self.model.generator(self.model.decoder.norm(x))[:, 0]

    def reorder(self, rows):
        self.memory_mask = self.memory_mask[rows]
        self.seen = None if self.seen is None else self.seen[rows]
        self.cross = [[part[rows] for part in pair] for pair in self.cross]
        self.own = [None if pair is None else [part[rows] for part in pair] for pair in self.own]


@misconception(
    "KeyValueCache",
    "no-source-mask",
    "Padding of the source is seen. Keep the source's padding mask, and use it in cross-attention.",
)
class KeyValueCache:
    def __init__(self, model, source):
        self.model, self.memory_mask, self.seen = model, padding_mask(source, model.pad_id), None
        memory = model.encode(source)
        self.heads = model.encoder.layers[0].attention.weights.shape[1]
        self.cross = [self.pair(layer.cross_attention, memory) for layer in model.decoder.layers]
        self.own = [None] * len(self.cross)

    def pair(self, attention, x):
        return split_heads(attention.w_k(x), self.heads), split_heads(attention.w_v(x), self.heads)

    def attend(self, attention, y, pair, mask):
        query = split_heads(attention.w_q(y), self.heads)
        return attention.w_o(merge_heads(scaled_dot_product_attention(query, *pair, mask)[0]))

    def look_back(self, i, attention, y):
        pair = self.pair(attention, y)
        if self.own[i] is not None:
            pair = [torch.cat([old, new], dim=2) for old, new in zip(self.own[i], pair, strict=True)]
        self.own[i] = pair
        return self.attend(attention, y, pair, self.seen)

    def step(self, tokens):
        new = (tokens != self.model.pad_id)[:, None, None, None]
        self.seen = new if self.seen is None else torch.cat([self.seen, new], dim=-1)
        x = self.model.target_embedding(tokens[:, None])
        x = x + self.model.position(x.new_zeros(1, self.seen.shape[-1], x.shape[-1]))[:, -1:]
        for i, layer in enumerate(self.model.decoder.layers):
            x = layer.add_norm_1(x, lambda y, i=i, layer=layer: self.look_back(i, layer.self_attention, y))
            x = layer.add_norm_2(
                x, lambda y, i=i, layer=layer: self.attend(layer.cross_attention, y, self.cross[i], None)
            )
            x = layer.add_norm_3(x, layer.feed_forward)
        return self.model.generator(self.model.decoder.norm(x))[:, 0]

    def reorder(self, rows):
        self.memory_mask = self.memory_mask[rows]
        self.seen = None if self.seen is None else self.seen[rows]
        self.cross = [[part[rows] for part in pair] for pair in self.cross]
        self.own = [None if pair is None else [part[rows] for part in pair] for pair in self.own]


@misconception(
    "KeyValueCache",
    "padding-is-seen",
    "Padding among the target's tokens is seen by later ones. Keep a mask of the tokens that are no padding.",
)
class KeyValueCache:
    def __init__(self, model, source):
        self.model, self.memory_mask, self.seen = model, padding_mask(source, model.pad_id), None
        memory = model.encode(source)
        self.heads = model.encoder.layers[0].attention.weights.shape[1]
        self.cross = [self.pair(layer.cross_attention, memory) for layer in model.decoder.layers]
        self.own = [None] * len(self.cross)

    def pair(self, attention, x):
        return split_heads(attention.w_k(x), self.heads), split_heads(attention.w_v(x), self.heads)

    def attend(self, attention, y, pair, mask):
        query = split_heads(attention.w_q(y), self.heads)
        return attention.w_o(merge_heads(scaled_dot_product_attention(query, *pair, mask)[0]))

    def look_back(self, i, attention, y):
        pair = self.pair(attention, y)
        if self.own[i] is not None:
            pair = [torch.cat([old, new], dim=2) for old, new in zip(self.own[i], pair, strict=True)]
        self.own[i] = pair
        return self.attend(attention, y, pair, None)

    def step(self, tokens):
        new = (tokens != self.model.pad_id)[:, None, None, None]
        self.seen = new if self.seen is None else torch.cat([self.seen, new], dim=-1)
        x = self.model.target_embedding(tokens[:, None])
        x = x + self.model.position(x.new_zeros(1, self.seen.shape[-1], x.shape[-1]))[:, -1:]
        for i, layer in enumerate(self.model.decoder.layers):
            x = layer.add_norm_1(x, lambda y, i=i, layer=layer: self.look_back(i, layer.self_attention, y))
            x = layer.add_norm_2(
                x, lambda y, i=i, layer=layer: self.attend(layer.cross_attention, y, self.cross[i], self.memory_mask)
            )
            x = layer.add_norm_3(x, layer.feed_forward)
        return self.model.generator(self.model.decoder.norm(x))[:, 0]

    def reorder(self, rows):
        self.memory_mask = self.memory_mask[rows]
        self.seen = None if self.seen is None else self.seen[rows]
        self.cross = [[part[rows] for part in pair] for pair in self.cross]
        self.own = [None if pair is None else [part[rows] for part in pair] for pair in self.own]


@misconception(
    "KeyValueCache",
    "no-final-norm",
    "With pre-norm the decoder has a norm after its last layer. It is missing before the generator.",
)
class KeyValueCache:
    def __init__(self, model, source):
        self.model, self.memory_mask, self.seen = model, padding_mask(source, model.pad_id), None
        memory = model.encode(source)
        self.heads = model.encoder.layers[0].attention.weights.shape[1]
        self.cross = [self.pair(layer.cross_attention, memory) for layer in model.decoder.layers]
        self.own = [None] * len(self.cross)

    def pair(self, attention, x):
        return split_heads(attention.w_k(x), self.heads), split_heads(attention.w_v(x), self.heads)

    def attend(self, attention, y, pair, mask):
        query = split_heads(attention.w_q(y), self.heads)
        return attention.w_o(merge_heads(scaled_dot_product_attention(query, *pair, mask)[0]))

    def look_back(self, i, attention, y):
        pair = self.pair(attention, y)
        if self.own[i] is not None:
            pair = [torch.cat([old, new], dim=2) for old, new in zip(self.own[i], pair, strict=True)]
        self.own[i] = pair
        return self.attend(attention, y, pair, self.seen)

    def step(self, tokens):
        new = (tokens != self.model.pad_id)[:, None, None, None]
        self.seen = new if self.seen is None else torch.cat([self.seen, new], dim=-1)
        x = self.model.target_embedding(tokens[:, None])
        x = x + self.model.position(x.new_zeros(1, self.seen.shape[-1], x.shape[-1]))[:, -1:]
        for i, layer in enumerate(self.model.decoder.layers):
            x = layer.add_norm_1(x, lambda y, i=i, layer=layer: self.look_back(i, layer.self_attention, y))
            x = layer.add_norm_2(
                x, lambda y, i=i, layer=layer: self.attend(layer.cross_attention, y, self.cross[i], self.memory_mask)
            )
            x = layer.add_norm_3(x, layer.feed_forward)
        return self.model.generator(x)[:, 0]

    def reorder(self, rows):
        self.memory_mask = self.memory_mask[rows]
        self.seen = None if self.seen is None else self.seen[rows]
        self.cross = [[part[rows] for part in pair] for pair in self.cross]
        self.own = [None if pair is None else [part[rows] for part in pair] for pair in self.own]


@misconception(
    "KeyValueCache",
    "everything-anew",
    "You keep the tokens and compute everything anew at each step. Keep the keys and values instead.",
)
class KeyValueCache:
    def __init__(self, model, source):
        self.model, self.source, self.tokens = model, source, None

    def step(self, tokens):
        new = tokens[:, None]
        self.tokens = new if self.tokens is None else torch.cat([self.tokens, new], dim=1)
        return self.model(self.source, self.tokens)[:, -1]

    def reorder(self, rows):
        self.source = self.source[rows]
        self.tokens = None if self.tokens is None else self.tokens[rows]


@misconception(
    "KeyValueCache",
    "memory-not-reordered",
    "reorder leaves the memory's keys and values where they are. Everything with a row for each sentence must follow.",
)
class KeyValueCache:
    def __init__(self, model, source):
        self.model, self.memory_mask, self.seen = model, padding_mask(source, model.pad_id), None
        memory = model.encode(source)
        self.heads = model.encoder.layers[0].attention.weights.shape[1]
        self.cross = [self.pair(layer.cross_attention, memory) for layer in model.decoder.layers]
        self.own = [None] * len(self.cross)

    def pair(self, attention, x):
        return split_heads(attention.w_k(x), self.heads), split_heads(attention.w_v(x), self.heads)

    def attend(self, attention, y, pair, mask):
        query = split_heads(attention.w_q(y), self.heads)
        return attention.w_o(merge_heads(scaled_dot_product_attention(query, *pair, mask)[0]))

    def look_back(self, i, attention, y):
        pair = self.pair(attention, y)
        if self.own[i] is not None:
            pair = [torch.cat([old, new], dim=2) for old, new in zip(self.own[i], pair, strict=True)]
        self.own[i] = pair
        return self.attend(attention, y, pair, self.seen)

    def step(self, tokens):
        new = (tokens != self.model.pad_id)[:, None, None, None]
        self.seen = new if self.seen is None else torch.cat([self.seen, new], dim=-1)
        x = self.model.target_embedding(tokens[:, None])
        x = x + self.model.position(x.new_zeros(1, self.seen.shape[-1], x.shape[-1]))[:, -1:]
        for i, layer in enumerate(self.model.decoder.layers):
            x = layer.add_norm_1(x, lambda y, i=i, layer=layer: self.look_back(i, layer.self_attention, y))
            x = layer.add_norm_2(
                x, lambda y, i=i, layer=layer: self.attend(layer.cross_attention, y, self.cross[i], self.memory_mask)
            )
            x = layer.add_norm_3(x, layer.feed_forward)
        return self.model.generator(self.model.decoder.norm(x))[:, 0]

    def reorder(self, rows):
        self.seen = None if self.seen is None else self.seen[rows]
        self.own = [None if pair is None else [part[rows] for part in pair] for pair in self.own]


@misconception(
    "greedy_decode",
    "goes-on-after-the-end",
    "A row that has ended goes on with words. Write model.pad_id there until all rows have ended.",
)
@torch.no_grad()
def greedy_decode(model, source, start_id, end_id, max_length):
    was_training = model.training
    model.eval()
    cache = KeyValueCache(model, source)
    tokens = torch.full((len(source), 1), start_id)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while tokens.shape[1] < max_length and not ended.all():
        chosen = cache.step(tokens[:, -1]).argmax(dim=-1)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        ended = ended | (chosen == end_id)
    model.train(was_training)
    return tokens


@misconception(
    "greedy_decode",
    "first-end-stops-all",
    "Your loop stops when one sentence has ended. It must go on until all have: not ended.all().",
)
@torch.no_grad()
def greedy_decode(model, source, start_id, end_id, max_length):
    was_training = model.training
    model.eval()
    cache = KeyValueCache(model, source)
    tokens = torch.full((len(source), 1), start_id)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while tokens.shape[1] < max_length and not ended.any():
        chosen = cache.step(tokens[:, -1]).argmax(dim=-1).masked_fill(ended, model.pad_id)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        ended = ended | (chosen == end_id)
    model.train(was_training)
    return tokens


@misconception(
    "greedy_decode",
    "filled-with-the-end",
    "After the end you fill up with end_id. Fill up with model.pad_id.",
)
@torch.no_grad()
def greedy_decode(model, source, start_id, end_id, max_length):
    was_training = model.training
    model.eval()
    cache = KeyValueCache(model, source)
    tokens = torch.full((len(source), 1), start_id)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while tokens.shape[1] < max_length and not ended.all():
        chosen = cache.step(tokens[:, -1]).argmax(dim=-1).masked_fill(ended, end_id)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        ended = ended | (chosen == end_id)
    model.train(was_training)
    return tokens


@misconception(
    "greedy_decode",
    "stays-in-eval-mode",
    "The model is in eval mode afterwards. Remember model.training, and restore it with model.train(was_training).",
)
@torch.no_grad()
def greedy_decode(model, source, start_id, end_id, max_length):
    model.eval()
    cache = KeyValueCache(model, source)
    tokens = torch.full((len(source), 1), start_id)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while tokens.shape[1] < max_length and not ended.all():
        chosen = cache.step(tokens[:, -1]).argmax(dim=-1).masked_fill(ended, model.pad_id)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        ended = ended | (chosen == end_id)
    return tokens


@misconception(
    "greedy_decode",
    "dropout-stays-on",
    "A model in training mode is used as it is, with dropout. Call model.eval() first.",
)
@torch.no_grad()
def greedy_decode(model, source, start_id, end_id, max_length):
    cache = KeyValueCache(model, source)
    tokens = torch.full((len(source), 1), start_id)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while tokens.shape[1] < max_length and not ended.all():
        chosen = cache.step(tokens[:, -1]).argmax(dim=-1).masked_fill(ended, model.pad_id)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        ended = ended | (chosen == end_id)
    return tokens


@misconception(
    "greedy_decode",
    "pad-id-fixed",
    "You fill up with 0. The number of the padding token is model.pad_id.",
)
@torch.no_grad()
def greedy_decode(model, source, start_id, end_id, max_length):
    was_training = model.training
    model.eval()
    cache = KeyValueCache(model, source)
    tokens = torch.full((len(source), 1), start_id)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while tokens.shape[1] < max_length and not ended.all():
        chosen = cache.step(tokens[:, -1]).argmax(dim=-1).masked_fill(ended, 0)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        ended = ended | (chosen == end_id)
    model.train(was_training)
    return tokens


@misconception(
    "penalised_score",
    "multiplied",
    "You multiply by the penalty. Divide: log p is negative, and long hypotheses are to come nearer to 0.",
)
def penalised_score(log_p, n, length_penalty):
    return log_p * ((5 + n) / 6) ** length_penalty


@misconception(
    "penalised_score",
    "whole-numbers",
    "You divide with //, which leaves whole numbers only. Use /.",
)
def penalised_score(log_p, n, length_penalty):
    return log_p / ((5 + n) // 6) ** length_penalty


@misconception(
    "penalised_score",
    "mean-per-token",
    "You divide by the number of tokens. The paper divides by ((5 + n) / 6)^length_penalty.",
)
def penalised_score(log_p, n, length_penalty):
    return log_p / n**length_penalty


@misconception(
    "beam_search",
    "same-hypothesis-many-times",
    "At the start the same hypothesis counts beam_size times, so all beams stay the same. Only one may count.",
)
@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    was_training = model.training
    model.eval()
    found = []
    for sentence in source:
        memory, mask = model.encode(sentence[None]), padding_mask(sentence[None], model.pad_id)
        kept = [([start_id], 0.0)] * beam_size
        while any(end_id not in tokens[1:] and len(tokens) < max_length for tokens, _ in kept):
            candidates = []
            for tokens, log_p in kept:
                if end_id in tokens[1:]:
                    candidates.append((tokens, log_p))
                    continue
                step = torch.log_softmax(model.decode(torch.tensor([tokens]), memory, mask)[0, -1], dim=-1)
                candidates += [([*tokens, word], log_p + value) for word, value in enumerate(step.tolist())]
            kept = sorted(candidates, key=lambda one: -one[1])[:beam_size]
        found.append(max(kept, key=lambda one: one[1] / ((4 + len(one[0])) / 6) ** length_penalty)[0])
    model.train(was_training)
    longest = max(map(len, found))
    return torch.tensor([tokens + [model.pad_id] * (longest - len(tokens)) for tokens in found])


@misconception(
    "beam_search",
    "penalty-multiplied",
    "You multiply by the penalty. Divide log p by ((5 + n) / 6)^length_penalty.",
)
@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    was_training = model.training
    model.eval()
    found = []
    for sentence in source:
        memory, mask = model.encode(sentence[None]), padding_mask(sentence[None], model.pad_id)
        kept = [([start_id], 0.0)]
        while any(end_id not in tokens[1:] and len(tokens) < max_length for tokens, _ in kept):
            candidates = []
            for tokens, log_p in kept:
                if end_id in tokens[1:]:
                    candidates.append((tokens, log_p))
                    continue
                step = torch.log_softmax(model.decode(torch.tensor([tokens]), memory, mask)[0, -1], dim=-1)
                candidates += [([*tokens, word], log_p + value) for word, value in enumerate(step.tolist())]
            kept = sorted(candidates, key=lambda one: -one[1])[:beam_size]
        found.append(max(kept, key=lambda one: one[1] * ((4 + len(one[0])) / 6) ** length_penalty)[0])
    model.train(was_training)
    longest = max(map(len, found))
    return torch.tensor([tokens + [model.pad_id] * (longest - len(tokens)) for tokens in found])


@misconception(
    "beam_search",
    "pruned-with-the-penalty",
    "You prune by the score with the penalty. The hypotheses that are kept are those of the highest log p.",
)
@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    was_training = model.training
    model.eval()
    found = []
    for sentence in source:
        memory, mask = model.encode(sentence[None]), padding_mask(sentence[None], model.pad_id)
        kept = [([start_id], 0.0)]
        while any(end_id not in tokens[1:] and len(tokens) < max_length for tokens, _ in kept):
            candidates = []
            for tokens, log_p in kept:
                if end_id in tokens[1:]:
                    candidates.append((tokens, log_p))
                    continue
                step = torch.log_softmax(model.decode(torch.tensor([tokens]), memory, mask)[0, -1], dim=-1)
                candidates += [([*tokens, word], log_p + value) for word, value in enumerate(step.tolist())]
            kept = sorted(candidates, key=lambda one: -one[1] / ((4 + len(one[0])) / 6) ** length_penalty)[:beam_size]
        found.append(max(kept, key=lambda one: one[1] / ((4 + len(one[0])) / 6) ** length_penalty)[0])
    model.train(was_training)
    longest = max(map(len, found))
    return torch.tensor([tokens + [model.pad_id] * (longest - len(tokens)) for tokens in found])


@misconception(
    "beam_search",
    "start-counted",
    "Your n counts the start token. It is the number of tokens after it.",
)
@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    was_training = model.training
    model.eval()
    found = []
    for sentence in source:
        memory, mask = model.encode(sentence[None]), padding_mask(sentence[None], model.pad_id)
        kept = [([start_id], 0.0)]
        while any(end_id not in tokens[1:] and len(tokens) < max_length for tokens, _ in kept):
            candidates = []
            for tokens, log_p in kept:
                if end_id in tokens[1:]:
                    candidates.append((tokens, log_p))
                    continue
                step = torch.log_softmax(model.decode(torch.tensor([tokens]), memory, mask)[0, -1], dim=-1)
                candidates += [([*tokens, word], log_p + value) for word, value in enumerate(step.tolist())]
            kept = sorted(candidates, key=lambda one: -one[1])[:beam_size]
        found.append(max(kept, key=lambda one: one[1] / ((5 + len(one[0])) / 6) ** length_penalty)[0])
    model.train(was_training)
    longest = max(map(len, found))
    return torch.tensor([tokens + [model.pad_id] * (longest - len(tokens)) for tokens in found])


@misconception(
    "beam_search",
    "best-end-stops",
    "You stop when the most probable hypothesis has ended. Another one may still get a higher score.",
)
@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    was_training = model.training
    model.eval()
    found = []
    for sentence in source:
        memory, mask = model.encode(sentence[None]), padding_mask(sentence[None], model.pad_id)
        kept = [([start_id], 0.0)]
        while end_id not in kept[0][0][1:] and len(kept[0][0]) < max_length:
            candidates = []
            for tokens, log_p in kept:
                if end_id in tokens[1:]:
                    candidates.append((tokens, log_p))
                    continue
                step = torch.log_softmax(model.decode(torch.tensor([tokens]), memory, mask)[0, -1], dim=-1)
                candidates += [([*tokens, word], log_p + value) for word, value in enumerate(step.tolist())]
            kept = sorted(candidates, key=lambda one: -one[1])[:beam_size]
        found.append(max(kept, key=lambda one: one[1] / ((4 + len(one[0])) / 6) ** length_penalty)[0])
    model.train(was_training)
    longest = max(map(len, found))
    return torch.tensor([tokens + [model.pad_id] * (longest - len(tokens)) for tokens in found])


@misconception(
    "beam_search",
    "no-penalty",
    "The length penalty is not used. Divide log p by ((5 + n) / 6)^length_penalty before you choose.",
)
@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    was_training = model.training
    model.eval()
    found = []
    for sentence in source:
        memory, mask = model.encode(sentence[None]), padding_mask(sentence[None], model.pad_id)
        kept = [([start_id], 0.0)]
        while any(end_id not in tokens[1:] and len(tokens) < max_length for tokens, _ in kept):
            candidates = []
            for tokens, log_p in kept:
                if end_id in tokens[1:]:
                    candidates.append((tokens, log_p))
                    continue
                step = torch.log_softmax(model.decode(torch.tensor([tokens]), memory, mask)[0, -1], dim=-1)
                candidates += [([*tokens, word], log_p + value) for word, value in enumerate(step.tolist())]
            kept = sorted(candidates, key=lambda one: -one[1])[:beam_size]
        found.append(max(kept, key=lambda one: one[1])[0])
    model.train(was_training)
    longest = max(map(len, found))
    return torch.tensor([tokens + [model.pad_id] * (longest - len(tokens)) for tokens in found])


@misconception(
    "beam_search",
    "probabilities-added",
    "You add up probabilities. Those of a sentence are multiplied, so add their logarithms: log_softmax.",
)
@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    was_training = model.training
    model.eval()
    found = []
    for sentence in source:
        memory, mask = model.encode(sentence[None]), padding_mask(sentence[None], model.pad_id)
        kept = [([start_id], 0.0)]
        while any(end_id not in tokens[1:] and len(tokens) < max_length for tokens, _ in kept):
            candidates = []
            for tokens, log_p in kept:
                if end_id in tokens[1:]:
                    candidates.append((tokens, log_p))
                    continue
                step = torch.softmax(model.decode(torch.tensor([tokens]), memory, mask)[0, -1], dim=-1)
                candidates += [([*tokens, word], log_p + value) for word, value in enumerate(step.tolist())]
            kept = sorted(candidates, key=lambda one: -one[1])[:beam_size]
        found.append(max(kept, key=lambda one: one[1] / ((4 + len(one[0])) / 6) ** length_penalty)[0])
    model.train(was_training)
    longest = max(map(len, found))
    return torch.tensor([tokens + [model.pad_id] * (longest - len(tokens)) for tokens in found])


@misconception(
    "beam_search",
    "beams-stay-in-eval-mode",
    "The model is in eval mode afterwards. Remember model.training, and restore it with model.train(was_training).",
)
@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    model.eval()
    found = []
    for sentence in source:
        memory, mask = model.encode(sentence[None]), padding_mask(sentence[None], model.pad_id)
        kept = [([start_id], 0.0)]
        while any(end_id not in tokens[1:] and len(tokens) < max_length for tokens, _ in kept):
            candidates = []
            for tokens, log_p in kept:
                if end_id in tokens[1:]:
                    candidates.append((tokens, log_p))
                    continue
                step = torch.log_softmax(model.decode(torch.tensor([tokens]), memory, mask)[0, -1], dim=-1)
                candidates += [([*tokens, word], log_p + value) for word, value in enumerate(step.tolist())]
            kept = sorted(candidates, key=lambda one: -one[1])[:beam_size]
        found.append(max(kept, key=lambda one: one[1] / ((4 + len(one[0])) / 6) ** length_penalty)[0])
    longest = max(map(len, found))
    return torch.tensor([tokens + [model.pad_id] * (longest - len(tokens)) for tokens in found])


@misconception(
    "beam_search",
    "beams-filled-with-the-end",
    "After the end you fill up with end_id. Fill up with model.pad_id.",
)
@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    was_training = model.training
    model.eval()
    found = []
    for sentence in source:
        memory, mask = model.encode(sentence[None]), padding_mask(sentence[None], model.pad_id)
        kept = [([start_id], 0.0)]
        while any(end_id not in tokens[1:] and len(tokens) < max_length for tokens, _ in kept):
            candidates = []
            for tokens, log_p in kept:
                if end_id in tokens[1:]:
                    candidates.append((tokens, log_p))
                    continue
                step = torch.log_softmax(model.decode(torch.tensor([tokens]), memory, mask)[0, -1], dim=-1)
                candidates += [([*tokens, word], log_p + value) for word, value in enumerate(step.tolist())]
            kept = sorted(candidates, key=lambda one: -one[1])[:beam_size]
        found.append(max(kept, key=lambda one: one[1] / ((4 + len(one[0])) / 6) ** length_penalty)[0])
    model.train(was_training)
    longest = max(map(len, found))
    return torch.tensor([tokens + [end_id] * (longest - len(tokens)) for tokens in found])


@misconception(
    "clipped_matches",
    "not-clipped",
    "Each occurrence counts, however often it stands in the reference. Count it at most as often as there.",
)
def clipped_matches(candidate, reference, n):
    mine = [tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1)]
    theirs = [tuple(reference[i : i + n]) for i in range(len(reference) - n + 1)]
    return sum(gram in theirs for gram in mine), len(mine)


@misconception(
    "clipped_matches",
    "sets",
    "Sets forget how often an n-gram occurs. Use a Counter.",
)
def clipped_matches(candidate, reference, n):
    mine = {tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1)}
    theirs = {tuple(reference[i : i + n]) for i in range(len(reference) - n + 1)}
    return len(mine & theirs), len(mine)


@misconception(
    "clipped_matches",
    "words-glued-together",
    "You glue the words of an n-gram together, so that different n-grams become equal. Use tuples.",
)
def clipped_matches(candidate, reference, n):
    mine = Counter("".join(candidate[i : i + n]) for i in range(len(candidate) - n + 1))
    theirs = Counter("".join(reference[i : i + n]) for i in range(len(reference) - n + 1))
    return sum((mine & theirs).values()), sum(mine.values())


@misconception(
    "clipped_matches",
    "recall",
    "The second number counts the reference's n-grams. Precision is a share of the candidate's.",
)
def clipped_matches(candidate, reference, n):
    mine = Counter(tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1))
    theirs = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
    return sum((mine & theirs).values()), sum(theirs.values())


@misconception(
    "bleu",
    "no-brevity-penalty",
    "The brevity penalty is missing. Without it, leaving words out costs nothing.",
)
def bleu(candidates, references):
    pairs, product = list(zip(candidates, references, strict=True)), 1.0
    for n in (1, 2, 3, 4):
        counts = [clipped_matches(candidate, reference, n) for candidate, reference in pairs]
        matches, total = sum(count[0] for count in counts), sum(count[1] for count in counts)
        if matches == 0:
            return 0.0
        product *= matches / total
    return 100 * product**0.25


@misconception(
    "bleu",
    "penalty-for-long-ones",
    "Long translations are rewarded, because your penalty grows above 1. It is 1 when the candidates are longer.",
)
def bleu(candidates, references):
    pairs, product = list(zip(candidates, references, strict=True)), 1.0
    for n in (1, 2, 3, 4):
        counts = [clipped_matches(candidate, reference, n) for candidate, reference in pairs]
        matches, total = sum(count[0] for count in counts), sum(count[1] for count in counts)
        if matches == 0:
            return 0.0
        product *= matches / total
    c, r = sum(len(one) for one in candidates), sum(len(one) for one in references)
    return 100 * product**0.25 * math.exp(1 - r / c)


@misconception(
    "bleu",
    "arithmetic-mean",
    "You take the arithmetic mean of the precisions. BLEU takes the geometric one: the fourth root of the product.",
)
def bleu(candidates, references):
    pairs, product = list(zip(candidates, references, strict=True)), 0.0
    for n in (1, 2, 3, 4):
        counts = [clipped_matches(candidate, reference, n) for candidate, reference in pairs]
        matches, total = sum(count[0] for count in counts), sum(count[1] for count in counts)
        if matches == 0:
            return 0.0
        product += matches / total / 4
    c, r = sum(len(one) for one in candidates), sum(len(one) for one in references)
    return 100 * product * (1.0 if c > r else math.exp(1 - r / c))


@misconception(
    "bleu",
    "mean-over-sentences",
    "You average BLEU over the sentences. Add up matches, n-grams and lengths over all sentences first.",
)
def bleu(candidates, references):
    scores = []
    for candidate, reference in zip(candidates, references, strict=True):
        product = 1.0
        for n in (1, 2, 3, 4):
            matches, total = clipped_matches(candidate, reference, n)
            product *= matches / total if total else 0.0
        c, r = len(candidate), len(reference)
        scores.append(100 * product**0.25 * (1.0 if c > r else math.exp(1 - r / c)) if c else 0.0)
    return sum(scores) / len(scores)
