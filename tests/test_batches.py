"""Batches: every sentence once, within the budget, with little padding, in an order that the seed decides."""

import random

import pytest
import torch

from course import batches
from course.tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID, Tokenizer


def examples(count=500, seed=0):
    dice = random.Random(seed)
    return [([5] * dice.randint(1, 40), [6] * dice.randint(1, 40)) for _ in range(count)]


@pytest.mark.parametrize("buckets", [True, False])
@pytest.mark.parametrize("max_tokens", [1, 60, 400, 100_000])
def test_each_example_occurs_once_within_the_budget(buckets, max_tokens):
    made = examples()
    planned = batches.plan(made, max_tokens, seed=1, buckets=buckets)
    assert sorted(i for batch in planned for i in batch) == list(range(500))
    for batch in planned:
        source, target = batches.collate(made, batch, PAD_ID)
        assert len(batch) == 1 or max(source.numel(), target.numel()) <= max_tokens


def test_buckets_pad_less():
    made = examples()

    def padded(buckets):
        collated = [batches.collate(made, batch, PAD_ID) for batch in batches.plan(made, 400, 1, buckets)]
        return sum(side.numel() for pair in collated for side in pair)

    real = sum(len(side) for example in made for side in example)
    # Both sides vary independently here; one side alone could be padded less.
    assert padded(True) - real < 0.6 * (padded(False) - real)


def test_the_seed_decides_the_order():
    made = examples()
    assert batches.plan(made, 400, 1) == batches.plan(made, 400, 1)
    assert batches.plan(made, 400, 1) != batches.plan(made, 400, 2)
    stream = batches.epochs(made, 400, 1)
    first = [next(stream) for _ in batches.plan(made, 400, 1)]
    assert first == batches.plan(made, 400, 1)
    assert next(stream) == batches.plan(made, 400, 2)[0]


def test_padding_is_at_the_end():
    assert torch.equal(batches.pad([[5, 6], [7]], 0), torch.tensor([[5, 6], [7, 0]]))


def test_a_tokenizer_gives_back_what_it_was_given():
    sentences = ["Jane visite l'Afrique en septembre.", "Où est-ce ? « Là » … dit-il, ½ fois.", "Jane visits Africa."]
    tokenizer = Tokenizer.train(sentences * 20, 80)
    for sentence in sentences:
        assert tokenizer.decode(tokenizer.encode(sentence)) == sentence
    assert (
        tokenizer.decode([START_ID, *tokenizer.encode("Jane"), END_ID, *tokenizer.encode("Afrique"), PAD_ID]) == "Jane"
    )
    assert tokenizer.encode("ou\u0300") == tokenizer.encode("où")
    assert UNKNOWN_ID in tokenizer.encode("漢")
    again = Tokenizer.train(sentences * 20, 80)
    assert again.model == tokenizer.model
    assert Tokenizer(tokenizer.model).encode("Jane") == tokenizer.encode("Jane")
    with pytest.raises(ValueError, match="not a sentencepiece model"):
        Tokenizer(b"something else")
