"""Chapter 03: the lecture's example against numbers computed elsewhere, and the reference against PyTorch."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor, nn

from autograder.layout import Course, here
from course.examples import lucas_heads

# Recomputed from the multi-head example of the INF721 lecture notes (S0-26 to S0-41), to six decimals.
GOLDEN = json.loads((Path(__file__).parent / "golden_multi_head.json").read_text(encoding="utf-8"))
CHAPTER = "03-multi-head-attention"
DTYPES = [torch.float32, torch.float64]
LEADING = [(), (1,), (3,), (2, 3)]


def golden(name: str) -> Tensor:
    return torch.tensor(GOLDEN[name], dtype=torch.float64)


@pytest.fixture(scope="module")
def attention(published: Course):
    """The reference module, exported from the chapters."""
    import mytransformer.attention

    return mytransformer.attention


def test_the_example_gives_the_golden_numbers(attention) -> None:
    example = lucas_heads()
    for matrices, name in [(example.w_q, "W_Q"), (example.w_k, "W_K"), (example.w_v, "W_V")]:
        torch.testing.assert_close(matrices, golden(name), atol=2e-6, rtol=0)
        torch.testing.assert_close((matrices * 100).round() / 100, golden(f"{name}_two_decimals"), atol=1e-9, rtol=0)
    query, key, value = (example.x @ matrices for matrices in (example.w_q, example.w_k, example.w_v))
    for got, name in [(query, "query"), (key, "key"), (value, "value")]:
        torch.testing.assert_close(got, example.printed[name], atol=1e-12, rtol=0)
    torch.testing.assert_close(query @ key.transpose(-2, -1), golden("QK_T"), atol=1e-6, rtol=0)
    output, weights = attention.scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(weights, golden("weights"), atol=1e-6, rtol=0)
    torch.testing.assert_close(attention.merge_heads(output), golden("concatenation"), atol=1e-6, rtol=0)
    errors = (weights - example.printed["weights"]).abs().amax(dim=(1, 2))
    torch.testing.assert_close(errors, golden("largest_error_of_printed_weights"), atol=1e-6, rtol=0)
    with_printed = attention.merge_heads(example.printed["weights"] @ value)
    torch.testing.assert_close(with_printed, golden("concatenation_with_printed_weights"), atol=1e-6, rtol=0)
    assert torch.linalg.matrix_rank(example.x) == GOLDEN["rank"]
    torch.testing.assert_close(torch.linalg.svdvals(example.x), golden("singular_values"), atol=1e-6, rtol=0)


def test_weights_of_two_decimals_give_the_printed_matrices() -> None:
    example = lucas_heads()
    for name, printed in [("W_Q", "query"), ("W_K", "key"), ("W_V", "value")]:
        rounded = (example.x @ golden(f"{name}_two_decimals") * 10).round() / 10
        torch.testing.assert_close(rounded, example.printed[printed], atol=1e-9, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("leading", LEADING)
@pytest.mark.parametrize("num_heads", [1, 2, 3, 6])
def test_split_and_merge(attention, leading: tuple[int, ...], num_heads: int, dtype: torch.dtype) -> None:
    x = torch.randn(*leading, 5, 6, dtype=dtype)
    heads = attention.split_heads(x, num_heads)
    torch.testing.assert_close(heads, torch.stack(x.chunk(num_heads, dim=-1), dim=-3))
    torch.testing.assert_close(attention.merge_heads(heads), x)
    with pytest.raises(ValueError, match="multiple"):
        attention.split_heads(x, 4)


def pytorch_twin(layer: nn.Module, d_model: int, num_heads: int) -> nn.MultiheadAttention:
    twin = nn.MultiheadAttention(d_model, num_heads, batch_first=True, dtype=layer.w_q.weight.dtype)
    parts = [layer.w_q, layer.w_k, layer.w_v]
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        twin.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        twin.out_proj.load_state_dict(layer.w_o.state_dict())
    return twin


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask_kind", ["none", "shared", "full"])
@pytest.mark.parametrize("sizes", [(2, 5, 5, 8, 2), (1, 3, 7, 6, 3), (3, 4, 2, 5, 1), (2, 1, 6, 12, 12)])
def test_the_layer_equals_pytorch(attention, sizes: tuple[int, ...], mask_kind: str, dtype: torch.dtype) -> None:
    batch, n, m, d_model, num_heads = sizes
    layer = attention.MultiHeadAttention(d_model, num_heads).to(dtype)
    twin = pytorch_twin(layer, d_model, num_heads)
    query = torch.randn(batch, n, d_model, dtype=dtype)
    key, value = (torch.randn(batch, m, d_model, dtype=dtype) for _ in range(2))
    mask = hidden = None
    if mask_kind != "none":
        mask = torch.rand((n, m) if mask_kind == "shared" else (batch, num_heads, n, m)) < 0.5
        mask[..., 0] = True
        hidden = ~mask if mask_kind == "shared" else ~mask.flatten(0, 1)  # there True means hidden
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 1e-10, "rtol": 1e-10}
    output = layer(query, key, value, mask)
    expected, weights = twin(query, key, value, attn_mask=hidden, average_attn_weights=False)
    torch.testing.assert_close(output, expected, **tolerance)
    torch.testing.assert_close(layer.weights, weights.detach(), **tolerance)
    (output**2).sum().backward()
    (expected**2).sum().backward()
    ours = torch.cat([part.weight.grad for part in (layer.w_q, layer.w_k, layer.w_v)])
    torch.testing.assert_close(ours, twin.in_proj_weight.grad, atol=1e-4, rtol=1e-4)


def test_a_query_that_may_see_nothing_gets_the_bias_only(attention) -> None:
    layer = attention.MultiHeadAttention(6, 2)
    x = torch.randn(2, 3, 6, requires_grad=True)
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[1] = False
    output = layer(x, x, x, mask)
    torch.testing.assert_close(output[:, 1], layer.w_o.bias.expand(2, 6))
    assert not layer.weights[:, :, 1].any()
    output.sum().backward()
    assert torch.isfinite(x.grad).all()


def test_dropout_acts_on_weights_in_training_only(attention) -> None:
    layer = attention.MultiHeadAttention(6, 2, dropout=1.0)
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(layer(x, x, x), layer.w_o.bias.expand(2, 3, 6))
    torch.testing.assert_close(layer.weights.sum(-1), torch.ones(2, 2, 3))
    assert not layer.weights.requires_grad
    assert not torch.allclose(layer.eval()(x, x, x), layer.w_o.bias.expand(2, 3, 6))


def test_indivisible_sizes_are_refused(attention) -> None:
    with pytest.raises(ValueError, match="multiple"):
        attention.MultiHeadAttention(6, 4)


def test_every_erratum_of_the_chapter_is_treated() -> None:
    course = here()
    errata = yaml.safe_load((course.root / "book" / "errata.yml").read_text(encoding="utf-8"))["errata"]
    text = next(chapter for chapter in course.chapters if chapter.id == CHAPTER).source.read_text(encoding="utf-8")
    missing = [one["id"] for one in errata if one["chapter"] == CHAPTER and f"{{erratum}} {one['id']}" not in text]
    assert not missing
