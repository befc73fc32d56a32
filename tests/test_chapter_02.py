"""Chapter 02: the running example against numbers computed elsewhere, and the reference against PyTorch."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from autograder.layout import Course
from course.examples import lucas, thinking_machines

GOLDEN = json.loads((Path(__file__).parent / "golden_self_attention.json").read_text(encoding="utf-8"))
BATCHES = [(), (1,), (3,), (2, 3)]
DTYPES = [torch.float32, torch.float64]


def golden(name: str) -> Tensor:
    return torch.tensor(GOLDEN[name], dtype=torch.float64)


@pytest.fixture(scope="module")
def attention(published: Course):
    """The reference module, exported from the chapter."""
    import mytransformer.attention

    return mytransformer.attention


def test_the_running_example_gives_the_golden_numbers(attention) -> None:
    example = lucas()
    query, key, value = example.x @ example.w_q, example.x @ example.w_k, example.x @ example.w_v
    for got, name in [
        (query, "Q"),
        (key, "K"),
        (value, "V"),
        (query @ key.T, "QK_T_unscaled"),
        (query @ key.T / 2, "scores"),
    ]:
        torch.testing.assert_close(got, golden(name), atol=1e-9, rtol=0)
    output, weights = attention.scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(weights, golden("weights"), atol=1e-6, rtol=0)
    torch.testing.assert_close(output, golden("output"), atol=1e-6, rtol=0)
    assert weights.argmax(-1).tolist() == GOLDEN["weights_row_argmax_0based"]
    past = torch.ones(5, 5, dtype=torch.bool).tril()
    output, weights = attention.scaled_dot_product_attention(query, key, value, past)
    torch.testing.assert_close(weights, golden("causal_weights"), atol=1e-6, rtol=0)
    torch.testing.assert_close(output, golden("causal_output"), atol=1e-6, rtol=0)
    torch.testing.assert_close(attention.causal_average(example.x)[:3], golden("causal_average"), atol=1e-6, rtol=0)


def test_the_printed_matrices_are_exact_rounded_and_cut_off() -> None:
    example = lucas()
    for name, short in [("query", "Q"), ("key", "K"), ("value", "V"), ("scaled_scores", "scores")]:
        torch.testing.assert_close(example.printed[name], golden(short), atol=1e-9, rtol=0)
    assert torch.equal((golden("weights") * 1e4).round(), (example.printed["weights"] * 1e4).round())
    output = golden("output")
    torch.testing.assert_close((output * 1e4).floor() / 1e4, example.printed["output"])
    differs = ((output * 1e4).round() / 1e4 - example.printed["output"]).abs() > 5e-5
    assert (differs.nonzero() + 1).tolist() == GOLDEN["truncated_cells"]


def test_thinking_machines() -> None:
    scores, d_k = thinking_machines()
    scaled = scores / math.sqrt(d_k)
    assert scaled.tolist() == GOLDEN["thinking_machines"]["scaled"]
    expected = torch.tensor(GOLDEN["thinking_machines"]["weights"], dtype=torch.float64)
    torch.testing.assert_close(torch.softmax(scaled, dim=0), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (2, 2, 3, 1)])
def test_softmax(attention, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype) * 100
    for dim in range(-len(shape), len(shape)):
        torch.testing.assert_close(attention.softmax(x, dim), torch.softmax(x, dim))
    assert torch.isfinite(attention.softmax(x * 1e6, -1)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_causal_average(attention, batch: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(*batch, 6, 4, dtype=dtype)
    expected = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=1.0)
    torch.testing.assert_close(attention.causal_average(x), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("mask_kind", ["none", "full", "keys", "shared"])
def test_attention_agrees_with_pytorch(attention, batch: tuple[int, ...], dtype: torch.dtype, mask_kind: str) -> None:
    n, m, d_k, d_v = 5, 7, 6, 3
    q, k = torch.randn(*batch, n, d_k, dtype=dtype), torch.randn(*batch, m, d_k, dtype=dtype)
    v = torch.randn(*batch, m, d_v, dtype=dtype)
    inputs = [tensor.requires_grad_() for tensor in (q, k, v)]
    shapes = {"none": None, "full": (*batch, n, m), "keys": (*batch, 1, m), "shared": (n, m)}
    mask = None
    if (shape := shapes[mask_kind]) is not None:
        mask = torch.rand(shape) < 0.5
        mask[..., 2] = True
    output, weights = attention.scaled_dot_product_attention(q, k, v, mask)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights.sum(-1), torch.ones(*batch, n, dtype=dtype))
    if mask is not None:
        assert not weights[~mask.expand_as(weights)].any()
    gradients = torch.autograd.grad((output**2).sum(), inputs)
    for got, right in zip(gradients, torch.autograd.grad((expected**2).sum(), inputs), strict=True):
        torch.testing.assert_close(got, right)


def test_a_query_that_may_see_nothing_gets_zeros_and_no_nan(attention) -> None:
    q, k, v = (torch.randn(2, 4, 3, requires_grad=True) for _ in range(3))
    mask = torch.ones(2, 4, 4, dtype=torch.bool)
    mask[0, 1] = False
    mask[1] = False
    with torch.autograd.set_detect_anomaly(True):
        output, weights = attention.scaled_dot_product_attention(q, k, v, mask)
        (output**2).sum().backward()
    assert not weights[0, 1].any()
    assert not output[1].any()
    assert all(torch.isfinite(tensor.grad).all() for tensor in (q, k, v))


@pytest.mark.parametrize("batch", BATCHES)
def test_the_layer_agrees_with_pytorch(attention, batch: tuple[int, ...]) -> None:
    layer = attention.SelfAttention(8, 4, 3)
    x = torch.randn(*batch, 5, 8)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    for chosen in (None, mask):
        expected = torch.nn.functional.scaled_dot_product_attention(
            layer.w_q(x), layer.w_k(x), layer.w_v(x), attn_mask=chosen
        )
        torch.testing.assert_close(layer(x, chosen), expected)
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == {
        "w_q.weight": (4, 8),
        "w_k.weight": (4, 8),
        "w_v.weight": (3, 8),
    }


def test_shuffled_tokens_give_shuffled_outputs(attention) -> None:
    layer = attention.SelfAttention(8, 4, 3).double()
    x = torch.randn(6, 8, dtype=torch.float64)
    order = torch.randperm(6)
    torch.testing.assert_close(layer(x[order]), layer(x)[order])
