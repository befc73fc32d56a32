"""Batches with equally many tokens, of sentences that are equally long."""

import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

Example = tuple[list[int], list[int]]  # source and target ids, each with the end token, without a start token


def pad(sentences: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """A tensor (batch, longest) of token ids, filled up with `pad_id` at the end."""
    longest = max(map(len, sentences))
    return torch.tensor([[*ids, *[pad_id] * (longest - len(ids))] for ids in sentences])


def plan(examples: Sequence[Example], max_tokens: int, seed: int, buckets: bool = True) -> list[list[int]]:
    """One epoch: which examples stand together, in which order.

    Args:
        max_tokens: a batch with its padding holds at most so many tokens on either side; one example may hold more.
        seed: another seed, another order.
        buckets: put sentences of about the same length together. Without it the order is random, and padding is plenty.

    Returns:
        Lists of indices. Every example occurs exactly once.
    """
    dice = random.Random(seed)
    order = list(range(len(examples)))
    dice.shuffle(order)
    if buckets:  # sorted is stable: among equals the random order stays
        order.sort(key=lambda i: (max(len(examples[i][0]), len(examples[i][1])), len(examples[i][0])))
    batches: list[list[int]] = []
    width = 0
    for i in order:
        longest = max(len(examples[i][0]), len(examples[i][1]))
        if batches and max(width, longest) * (len(batches[-1]) + 1) <= max_tokens:
            batches[-1].append(i)
            width = max(width, longest)
        else:
            batches.append([i])
            width = longest
    dice.shuffle(batches)
    return batches


def epochs(examples: Sequence[Example], max_tokens: int, seed: int, buckets: bool = True) -> Iterator[list[int]]:
    """Batches without end, epoch after epoch, each epoch in another order."""
    epoch = 0
    while True:
        yield from plan(examples, max_tokens, seed + epoch, buckets)
        epoch += 1


def collate(examples: Sequence[Example], indices: Sequence[int], pad_id: int) -> tuple[Tensor, Tensor]:
    """Source and target of one batch, each padded to its own longest sentence."""
    return pad([examples[i][0] for i in indices], pad_id), pad([examples[i][1] for i in indices], pad_id)
