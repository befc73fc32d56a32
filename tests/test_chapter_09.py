"""Chapter 09: the loss, the rate and the step against PyTorch's own, and against numbers computed elsewhere.

`golden_training.json` holds the golden numbers of the lecture items S4-128, S4-129 and S4-87, as it names them.
"""

import copy
import json
import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.layout import Course
from course.examples import china, label_smoothing
from course.tokens import END_ID, PAD_ID, START_ID

GOLDEN = json.loads((Path(__file__).parent / "golden_training.json").read_text(encoding="utf-8"))
SOURCE = (Path(__file__).parents[1] / "solutions" / "09-training" / "training.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def training(published: Course):
    import mytransformer.training

    return mytransformer.training


@pytest.fixture(scope="module")
def model_class(published: Course):
    import mytransformer.model

    return mytransformer.model.Transformer


def test_the_golden_pairs_of_the_shift(training) -> None:
    golden, (_, words) = GOLDEN["shifted_right"], china()
    vocabulary = ["<s>", *golden["target_with_eos"]]
    assert vocabulary[1:] == [*words, "<eos>"]
    target = torch.tensor([[vocabulary.index(word) for word in golden["target_with_eos"]]])
    shifted = [vocabulary[i] for i in training.shift_right(target, 0)[0].tolist()]
    assert shifted == golden["decoder_input"]
    assert [list(pair) for pair in zip(shifted, golden["target_with_eos"], strict=True)] == golden["pairs"]


def test_the_golden_losses(training) -> None:
    golden, (logits, right, epsilon) = GOLDEN["label_smoothing"], label_smoothing()
    assert logits.tolist() == golden["example_logits"]
    assert (right, epsilon) == (golden["target"], golden["epsilon"])
    target = torch.tensor([[right]])

    def loss(share: float) -> float:
        return training.label_smoothed_loss(logits[None, None], target, share, pad_id=0).item()

    assert loss(0.0) == pytest.approx(golden["loss_hard"], abs=1e-6)
    assert loss(epsilon) == pytest.approx(golden["loss_torch"], abs=1e-6)
    assert loss(golden["K5"]["eps_torch_equal_to_seed_0.1"]) == pytest.approx(golden["loss_seed"], abs=1e-6)


def test_the_golden_rates(training) -> None:
    golden = GOLDEN["warmup"]
    for step, rate in golden["lr"].items():
        found = training.warmup_rate(int(step), golden["d_model"], golden["warmup"])
        assert found == pytest.approx(rate, rel=1e-6)
    rates = [training.warmup_rate(step, golden["d_model"], golden["warmup"]) for step in range(1, 10_000)]
    assert rates.index(max(rates)) + 1 == golden["peak_step"]
    with pytest.raises(ValueError, match="0"):
        training.warmup_rate(0, 512, 4000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 5, 7), (2, 9, 40)])
@pytest.mark.parametrize(("epsilon", "pad_id"), [(0.0, 0), (0.1, 0), (0.3, 1)])
def test_the_loss_equals_torch(training, dtype: torch.dtype, shape: tuple, epsilon: float, pad_id: int) -> None:
    torch.manual_seed(sum(shape))
    logits = (torch.randn(shape) * 4).to(dtype).requires_grad_()
    target = torch.randint(0, shape[-1], shape[:2])
    target[0, 0] = 1 - pad_id
    target[-1, 1:] = pad_id
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    loss = training.label_smoothed_loss(logits, target, epsilon, pad_id)
    expected = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad_id, label_smoothing=epsilon)
    torch.testing.assert_close(loss, expected, atol=tolerance, rtol=tolerance)
    (slope,) = torch.autograd.grad(loss, logits)
    (right,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(slope, right, atol=tolerance, rtol=tolerance)
    assert not slope[target == pad_id].any()


def test_a_batch_of_padding_has_the_loss_zero(training) -> None:
    logits = torch.randn(2, 3, 5, requires_grad=True)
    loss = training.label_smoothed_loss(logits, torch.zeros(2, 3, dtype=torch.long), 0.1, 0)
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None and not logits.grad.any()


def some_batch(vocab_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    source, target = torch.randint(4, vocab_size, (6, 7)), torch.randint(4, vocab_size, (6, 5))
    for row in range(6):
        end = 1 + row % 5
        target[row, end - 1] = END_ID
        target[row, end:] = PAD_ID
        source[row, 7 - row :] = PAD_ID
    return source, target


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
@pytest.mark.parametrize("max_norm", [0.05, 100.0])
def test_a_step_equals_torchs_loop(training, model_class, parts: int, max_norm: float) -> None:
    torch.manual_seed(0)
    ours = model_class(20, 20, d_model=16, num_heads=4, num_layers=1, d_ff=32, dropout=0.0).double()
    theirs = copy.deepcopy(ours)
    source, target = some_batch(20)
    options = {"lr": 0.01, "betas": (0.9, 0.98), "eps": 1e-9}
    own, other = torch.optim.Adam(ours.parameters(), **options), torch.optim.Adam(theirs.parameters(), **options)
    for _ in range(3):
        loss = training.train_step(ours, own, (source, target), START_ID, PAD_ID, 0.1, max_norm, parts)
        other.zero_grad()
        starts = torch.full((6, 1), START_ID)
        logits = theirs(source, torch.cat([starts, target[:, :-1]], 1))
        expected = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD_ID, label_smoothing=0.1)
        expected.backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), max_norm)
        other.step()
        assert loss == pytest.approx(expected.item(), abs=1e-6)
        for mine, right in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, right, atol=1e-6, rtol=1e-6)
    assert ours.training


def test_four_sentences_are_learned_by_heart(training, model_class) -> None:
    torch.manual_seed(0)
    model = model_class(20, 20, d_model=32, num_heads=4, num_layers=1, d_ff=64, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    source, target = some_batch(20)
    losses = [training.train_step(model, optimizer, (source, target), START_ID) for _ in range(80)]
    share = 0.1 / 20
    floor = -(19 * share * math.log(share) + (0.9 + share) * math.log(0.9 + share))
    assert losses[0] > 2.5
    assert floor - 1e-4 < losses[-1] < floor + 0.05
    chosen = model.eval()(source, training.shift_right(target, START_ID)).argmax(-1)
    assert torch.equal(chosen[target != PAD_ID], target[target != PAD_ID])


@pytest.mark.parametrize("number", [34, 43, 45, 79, 80, 81, 96, 97, 105])
def test_every_erratum_of_the_chapter_is_treated(number: int) -> None:
    assert re.search(rf"^:::\{{erratum\}} E-{number}$", SOURCE, re.MULTILINE)
