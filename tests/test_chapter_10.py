"""Chapter 10: the cache against the plain computation, decoding against slow searches, BLEU against sacrebleu.

`golden_inference.json` holds the steps of lecture item S4-124, "I am a student".
"""

import itertools
import json
import math
import random
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from autograder.layout import Course
from course.examples import student

GOLDEN = json.loads((Path(__file__).parent / "golden_inference.json").read_text(encoding="utf-8"))
SOURCE = (Path(__file__).parents[1] / "solutions" / "10-inference" / "inference.md").read_text(encoding="utf-8")
START, END, PAD = 1, 2, 0


@pytest.fixture(scope="module")
def decoding(published: Course):
    import mytransformer.decoding

    return mytransformer.decoding


@pytest.fixture(scope="module")
def answers(published: Course) -> dict:
    """The reference solutions of exercises that are not exported."""
    wanted = ("greedy_sentence", "sampling_probabilities", "penalised_score", "clipped_matches", "bleu")
    found: dict = {}
    exec("import math, torch\nfrom collections import Counter\nfrom collections.abc import Sequence\n", found)
    exec("from jaxtyping import Float, Int\nfrom torch import Tensor\n", found)
    exec("from mytransformer.masks import padding_mask\nfrom mytransformer.model import Transformer\n", found)
    for cell in re.findall(r"```\{code-cell\} ipython3\n(:exercise:.*?)```", SOURCE, re.DOTALL):
        if (name := re.match(r":exercise: (\w+)", cell)) and name[1] in wanted:
            exec(re.sub(r"^:.*\n", "", cell, flags=re.MULTILINE), found)
    return found


def make_model(seed: int, vocab_size: int, pre_norm: bool, dtype: torch.dtype = torch.float64) -> nn.Module:
    from mytransformer.model import Transformer

    torch.manual_seed(seed)
    model = Transformer(vocab_size, vocab_size, 16, 4, 2, 24, dropout=0.3, pad_id=PAD, pre_norm=pre_norm).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 3)
    return model.eval()


def make_source(seed: int, rows: int, length: int, vocab_size: int) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    source = torch.randint(3, vocab_size, (rows, length), generator=dice)
    for row in range(1, rows):
        source[row, int(torch.randint(1, length + 1, (1,), generator=dice)) :] = PAD
    return source


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
@pytest.mark.parametrize(("rows", "length"), [(1, 1), (3, 5)])
@torch.no_grad()
def test_the_cache_equals_the_plain_computation(
    decoding, pre_norm: bool, dtype: torch.dtype, tolerance: float, rows: int, length: int
) -> None:
    model, source = make_model(rows, 9, pre_norm, dtype), make_source(rows, rows, length, 9)
    cache, tokens = decoding.KeyValueCache(model, source), torch.ones(rows, 1, dtype=torch.long)
    for step in range(8):
        expected = model(source, tokens)[:, -1]
        torch.testing.assert_close(cache.step(tokens[:, -1]), expected, atol=tolerance, rtol=tolerance)
        order = torch.randint(0, len(tokens), (len(tokens) + (step % 3 == 0),))
        cache.reorder(order)
        source, tokens = source[order], tokens[order]
        tokens = torch.cat([tokens, torch.randint(0, 9, (len(tokens), 1))], dim=1)  # padding among them


@torch.no_grad()
def slow_greedy(model: nn.Module, sentence: Tensor, max_length: int) -> list[int]:
    tokens = [START]
    while len(tokens) < max_length and tokens[-1] != END:
        tokens.append(int(model(sentence[sentence != PAD][None], torch.tensor([tokens]))[0, -1].argmax()))
    return tokens


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_is_each_sentence_alone(decoding, answers: dict, seed: int) -> None:
    model, source = make_model(seed, 6, seed % 2 == 1), make_source(seed, 4, 5, 6)
    expected = [slow_greedy(model, sentence, 9) for sentence in source]
    longest = max(map(len, expected))
    filled = [row + [PAD] * (longest - len(row)) for row in expected]
    model.train()
    assert decoding.greedy_decode(model, source, START, END, 9).tolist() == filled
    assert decoding.beam_search(model, source, START, END, 9, beam_size=1, length_penalty=0.6).tolist() == filled
    assert model.training
    model.eval()
    assert [answers["greedy_sentence"](model, sentence, START, END, 9) for sentence in source] == expected


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@torch.no_grad()
def test_a_beam_as_wide_as_everything_finds_the_best(decoding, answers: dict, alpha: float) -> None:
    model, source = make_model(3, 5, False), make_source(3, 2, 3, 5)
    rows = []
    for sentence in source:
        best, best_score = [], -math.inf
        for words in itertools.product(range(5), repeat=3):
            n = words.index(END) + 1 if END in words else 3
            tokens = torch.tensor([[START, *words[:n]]])
            logs = torch.log_softmax(model(sentence[sentence != PAD][None], tokens[:, :-1]), -1)
            log_p = logs.gather(-1, tokens[:, 1:, None]).sum().item()
            score = answers["penalised_score"](log_p, n, alpha)
            if score > best_score:
                best, best_score = tokens[0].tolist(), score
        rows.append(best)
    longest = max(map(len, rows))
    found = decoding.beam_search(model, source, START, END, 4, beam_size=125, length_penalty=alpha)
    assert found.tolist() == [row + [PAD] * (longest - len(row)) for row in rows]


def test_padding_that_was_chosen_is_no_end(decoding) -> None:
    """A model that chooses padding goes on to the limit, with greedy decoding and with beams."""
    model = make_model(0, 5, False)
    with torch.no_grad():
        model.generator.linear.bias[PAD] += 1000
    source = torch.tensor([[3, 4]])
    expected = [[START, PAD, PAD, PAD]]
    assert decoding.greedy_decode(model, source, START, END, 4).tolist() == expected
    assert decoding.beam_search(model, source, START, END, 4, 1, 0.6).tolist() == expected


def test_bleu_equals_sacrebleu(answers: dict) -> None:
    import sacrebleu

    dice = random.Random(0)
    for _ in range(30):
        references = [[dice.choice("abcd") for _ in range(dice.randint(4, 12))] for _ in range(dice.randint(1, 6))]
        candidates = [
            [word if dice.random() < 0.9 else "x" for word in one[dice.randint(0, 2) :]] + ["a"] * dice.randint(0, 2)
            for one in references
        ]
        theirs = sacrebleu.corpus_bleu(
            [" ".join(one) for one in candidates],
            [[" ".join(one) for one in references]],
            tokenize="none",
            smooth_method="none",
            force=True,
        )
        assert answers["bleu"](candidates, references) == pytest.approx(theirs.score, abs=1e-6)


def test_sampling_filters(answers: dict) -> None:
    logits = torch.randn(4, 20, dtype=torch.float64)
    filtered = answers["sampling_probabilities"]
    torch.testing.assert_close(filtered(logits, 0.7), torch.softmax(logits / 0.7, -1))
    assert ((filtered(logits, top_k=3) > 0).sum(-1) == 3).all()
    kept = filtered(logits, top_p=0.8)
    mass = (torch.softmax(logits, -1) * (kept > 0)).sum(-1)
    smallest = torch.softmax(logits, -1).masked_fill(kept == 0, math.inf).amin(-1)
    assert (mass >= 0.8).all()
    assert (mass - smallest < 0.8).all()


def test_the_walk_through_is_the_lectures() -> None:
    assert [list(step) for step in student()] == GOLDEN["greedy_decoding"]["steps"]
    assert " ".join(word for _, word in student()[:-1]) == GOLDEN["greedy_decoding"]["output"]


@pytest.mark.parametrize("number", [42, 80, 95, 98])
def test_every_erratum_of_the_chapter_is_treated(number: int) -> None:
    assert re.search(rf"^:::\{{erratum\}} E-{number}$", SOURCE, re.MULTILINE)


@pytest.mark.parametrize("item", ["S2-50", "S4-123", "S4-124", "S4-133", "S4-134"])
def test_every_item_of_the_chapter_is_named(item: str) -> None:
    assert item in SOURCE
