"""Chapter 05: the lecture's example against numbers computed elsewhere, and the reference against PyTorch."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from autograder.layout import Course, here
from course.examples import feed_forward

GOLDEN = json.loads((Path(__file__).parent / "golden_feed_forward.json").read_text(encoding="utf-8"))
BATCHES = [(), (1,), (3,), (2, 3), (2, 1, 4)]
DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def golden(name: str) -> Tensor:
    return torch.tensor(GOLDEN[name], dtype=torch.float64)


def close(got: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[expected.dtype]
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=tolerance)


@pytest.fixture(scope="module")
def layers(published: Course):
    """The reference module, exported from the chapter."""
    import mytransformer.layers

    return mytransformer.layers


def test_the_example_gives_the_printed_matrices_after_rounding(layers) -> None:
    """The golden weights were fitted with numpy to the matrices that the INF721 notes print."""
    example = feed_forward()
    for got, name in [(example.c, "C"), (example.w_1, "W1_2dp"), (example.w_2, "W2_2dp")]:
        torch.testing.assert_close(got, golden(name), atol=0, rtol=0)
    network = layers.FeedForward(4, 8).double()
    weights = {"linear_1.weight": example.w_1.T, "linear_1.bias": example.b_1}
    network.load_state_dict(weights | {"linear_2.weight": example.w_2.T, "linear_2.bias": example.b_2})
    inner = network.linear_1(example.c)
    for got, name in [(inner, "pre_activation"), (inner.relu(), "relu"), (network(example.c), "printed_output")]:
        torch.testing.assert_close(got.round(decimals=1), golden(name), atol=1e-9, rtol=0)
    for name, short in [("inner", "pre_activation"), ("relu", "relu"), ("output", "printed_output")]:
        torch.testing.assert_close(example.printed[name], golden(short), atol=0, rtol=0)
    assert sum(parameter.numel() for parameter in network.parameters()) == GOLDEN["n_params_with_biases"]


def test_the_exact_weights_of_smallest_norm_give_the_printed_matrices() -> None:
    inner = golden("C") @ golden("W1_min_norm_b1_zero")
    torch.testing.assert_close(inner, golden("pre_activation"), atol=1e-5, rtol=0)
    output = golden("relu") @ golden("W2_min_norm_b2_zero")
    torch.testing.assert_close(output, golden("printed_output"), atol=1e-5, rtol=0)
    for name, rank in [("C", "rank_C"), ("relu", "rank_relu")]:
        assert torch.linalg.matrix_rank(golden(name)).item() == GOLDEN[rank]


def test_the_parameters_of_the_base_model(layers) -> None:
    norms = 2 * sum(parameter.numel() for parameter in layers.AddAndNorm(512).parameters())
    network = sum(parameter.numel() for parameter in layers.FeedForward(512, 2048).parameters())
    counts = GOLDEN["parameters"]
    assert network == counts["ffn_base_with_bias"]
    assert counts["attention_base_with_bias"] + network + norms == counts["enc_layer_base"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_feed_forward_agrees_with_pytorch(layers, batch: tuple[int, ...], dtype: torch.dtype) -> None:
    network = layers.FeedForward(6, 11, 0.3).to(dtype).eval()
    x = torch.randn(*batch, 6, dtype=dtype)
    expected = nn.Sequential(network.linear_1, nn.ReLU(), network.linear_2)(x)
    close(network(x), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("eps", [1e-5, 1e-2])
def test_layer_norm_agrees_with_pytorch(layers, batch: tuple[int, ...], dtype: torch.dtype, eps: float) -> None:
    mine, theirs = layers.LayerNorm(7, eps).to(dtype), nn.LayerNorm(7, eps).to(dtype)
    for parameter in mine.parameters():
        nn.init.normal_(parameter)
    theirs.load_state_dict(mine.state_dict())
    x = torch.randn(*batch, 7, dtype=dtype, requires_grad=True)
    close(mine(x), theirs(x))
    gradients = torch.autograd.grad((mine(x) ** 2).sum(), [x, *mine.parameters()])
    expected = torch.autograd.grad((theirs(x) ** 2).sum(), [x, *theirs.parameters()])
    for got, right in zip(gradients, expected, strict=True):
        torch.testing.assert_close(got, right, atol=10 * TOLERANCE[dtype], rtol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_layer_agrees_with_pytorch(layers, pre_norm: bool, dtype: torch.dtype) -> None:
    """Attention and feed-forward network in Add & Norm are `nn.TransformerEncoderLayer`, in both orders."""
    theirs = nn.TransformerEncoderLayer(8, 2, 20, 0.0, batch_first=True, norm_first=pre_norm, dtype=dtype)
    network = layers.FeedForward(8, 20)
    first, second = (layers.AddAndNorm(8, 0.0, pre_norm) for _ in range(2))
    for mine, right in [
        (network.linear_1, theirs.linear1),
        (network.linear_2, theirs.linear2),
        (first.norm, theirs.norm1),
        (second.norm, theirs.norm2),
    ]:
        mine.to(dtype).load_state_dict(right.state_dict())
    x = torch.randn(3, 5, 8, dtype=dtype)
    got = second(first(x, lambda h: theirs.self_attn(h, h, h, need_weights=False)[0]), network)
    close(got, theirs(x))


@pytest.mark.parametrize("pre_norm", [False, True])
def test_dropout_never_touches_the_residual_path(layers, pre_norm: bool) -> None:
    layer, x = layers.AddAndNorm(5, 1.0, pre_norm), torch.randn(4, 5)
    close(layer(x, torch.exp), x if pre_norm else nn.functional.layer_norm(x, (5,)))


def test_the_chapter_treats_its_errata(published: Course) -> None:
    text = (here().root / "solutions" / "05-feed-forward" / "feed-forward.md").read_text(encoding="utf-8")
    for number in (15, 16, 18, 29, 30, 62, 73, 74, 75, 103):
        assert f":::{{erratum}} E-{number}\n" in text, f"E-{number}"
