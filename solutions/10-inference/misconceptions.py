"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import math
from collections import Counter

import torch

from autograder.misconceptions import misconception, wrong_edit
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


wrong_edit(
    "KeyValueCache",
    "always-position-zero",
    "The new token always gets the encoding of position 0. It stands at position t: count the steps.",
    {"torch.zeros(1, length, x.shape[-1]": "torch.zeros(1, 1, x.shape[-1]"},
)


wrong_edit(
    "KeyValueCache",
    "no-source-mask",
    "Padding of the source is seen. Keep the source's padding mask, and use it in cross-attention.",
    {"*self.of_memory[number], self.memory_mask)": "*self.of_memory[number], None)"},
)


wrong_edit(
    "KeyValueCache",
    "padding-is-seen",
    "Padding among the target's tokens is seen by later ones. Keep a mask of the tokens that are no padding.",
    {"*new, self.seen)": "*new, None)"},
)


wrong_edit(
    "KeyValueCache",
    "no-final-norm",
    "With pre-norm the decoder has a norm after its last layer. It is missing before the generator.",
    {"x if last is None else last(x)": "x"},
)


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


wrong_edit(
    "KeyValueCache",
    "memory-not-reordered",
    "reorder leaves the memory's keys and values where they are. Everything with a row for each sentence must follow.",
    {
        "self.memory_mask, self.seen = self.memory_mask[rows], self.seen[rows]": "self.seen = self.seen[rows]",
        "        self.of_memory = [(keys[rows], values[rows]) for keys, values in self.of_memory]\n": "",
    },
)


wrong_edit(
    "greedy_decode",
    "goes-on-after-the-end",
    "A row that has ended goes on with words. Write model.pad_id there until all rows have ended.",
    {".masked_fill(ended, model.pad_id)": ""},
)


wrong_edit(
    "greedy_decode",
    "first-end-stops-all",
    "Your loop stops when one sentence has ended. It must go on until all have: not ended.all().",
    {"not ended.all()": "not ended.any()"},
)


wrong_edit(
    "greedy_decode",
    "filled-with-the-end",
    "After the end you fill up with end_id. Fill up with model.pad_id.",
    {"masked_fill(ended, model.pad_id)": "masked_fill(ended, end_id)"},
)


wrong_edit(
    "greedy_decode",
    "stays-in-eval-mode",
    "The model is in eval mode afterwards. Remember model.training, and restore it with model.train(was_training).",
    {"    model.train(was_training)\n": ""},
)


wrong_edit(
    "greedy_decode",
    "dropout-stays-on",
    "A model in training mode is used as it is, with dropout. Call model.eval() first.",
    {"    model.eval()\n": ""},
)


wrong_edit(
    "greedy_decode",
    "pad-id-fixed",
    "You fill up with 0. The number of the padding token is model.pad_id.",
    {"masked_fill(ended, model.pad_id)": "masked_fill(ended, 0)"},
)


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


wrong_edit(
    "beam_search",
    "same-hypothesis-many-times",
    "At the start the same hypothesis counts beam_size times, so all beams stay the same. Only one may count.",
    {"beam_size), -math.inf, device": "beam_size), 0.0, device"},
)


wrong_edit(
    "beam_search",
    "penalty-multiplied",
    "You multiply by the penalty. Divide log p by ((5 + n) / 6)^length_penalty.",
    {"(log_p / ((5 + length)": "(log_p * ((5 + length)"},
)


wrong_edit(
    "beam_search",
    "pruned-with-the-penalty",
    "You prune by the score with the penalty. The hypotheses that are kept are those of the highest log p.",
    {
        "log_p, best = (log_p[..., None] + step).flatten(1).topk(beam_size)": (
            "new = (log_p[..., None] + step).flatten(1)\n"
            "n = (length + ~ended)[..., None].expand_as(step).flatten(1)\n"
            "best = (new / ((5 + n) / 6) ** length_penalty).topk(beam_size).indices\n"
            "log_p = new.gather(1, best)"
        )
    },
)


wrong_edit(
    "beam_search",
    "start-counted",
    "Your n counts the start token. It is the number of tokens after it.",
    {"((5 + length) / 6)": "((6 + length) / 6)"},
)


wrong_edit(
    "beam_search",
    "best-end-stops",
    "You stop when the most probable hypothesis has ended. Another one may still get a higher score.",
    {"not ended.all()": "not ended[:, 0].all()"},
)


wrong_edit(
    "beam_search",
    "no-penalty",
    "The length penalty is not used. Divide log p by ((5 + n) / 6)^length_penalty before you choose.",
    {"(log_p / ((5 + length) / 6) ** length_penalty)": "log_p"},
)


wrong_edit(
    "beam_search",
    "probabilities-added",
    "You add up probabilities. Those of a sentence are multiplied, so add their logarithms: log_softmax.",
    {"torch.log_softmax(": "torch.softmax("},
)


wrong_edit(
    "beam_search",
    "beams-stay-in-eval-mode",
    "The model is in eval mode afterwards. Remember model.training, and restore it with model.train(was_training).",
    {"    model.train(was_training)\n": ""},
)


wrong_edit(
    "beam_search",
    "ended-hypotheses-go-on",
    "A hypothesis that has ended goes on in your search. Its only continuation is padding, which costs nothing.",
    {"        step = step.masked_fill(ended[..., None], -math.inf)\n": ""},
)


wrong_edit(
    "beam_search",
    "beams-filled-with-the-end",
    "After the end you fill up with end_id. Fill up with model.pad_id.",
    {
        "step[..., model.pad_id] =": "step[..., end_id] =",
        "step[..., model.pad_id].masked_fill": "step[..., end_id].masked_fill",
    },
)


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
