"""Chapter 06: the reference encoder against PyTorch's, its size against known numbers, and the errata it treats."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor, nn

from autograder.layout import Course, here
from course.examples import lucas

GOLDEN = json.loads((Path(__file__).parent / "golden_encoder.json").read_text(encoding="utf-8"))
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
CASES = [(1, 1, 4, 1, 8), (2, 5, 8, 2, 16), (3, 7, 12, 3, 5), (2, 4, 6, 6, 1)]  # batch, length, d_model, heads, d_ff


@pytest.fixture(scope="module")
def encoder(published: Course):
    """The reference module, exported from the chapter."""
    import mytransformer.encoder

    return mytransformer.encoder


def copied(layer: nn.Module, pre_norm: bool, num_heads: int, dtype: torch.dtype) -> nn.TransformerEncoderLayer:
    """PyTorch's layer with the weights of ours."""
    d_ff, d_model = layer.feed_forward.linear_1.weight.shape
    theirs = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, 0.0, batch_first=True, norm_first=pre_norm)
    theirs = theirs.to(dtype)
    attention, joint = layer.attention, theirs.self_attn
    with torch.no_grad():
        joint.in_proj_weight.copy_(torch.cat([attention.w_q.weight, attention.w_k.weight, attention.w_v.weight]))
        joint.in_proj_bias.copy_(torch.cat([attention.w_q.bias, attention.w_k.bias, attention.w_v.bias]))
    joint.out_proj.load_state_dict(attention.w_o.state_dict())
    theirs.linear1.load_state_dict(layer.feed_forward.linear_1.state_dict())
    theirs.linear2.load_state_dict(layer.feed_forward.linear_2.state_dict())
    theirs.norm1.load_state_dict(layer.add_norm_1.norm.state_dict())
    theirs.norm2.load_state_dict(layer.add_norm_2.norm.state_dict())
    return theirs


def randomised(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    module = module.to(dtype)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return module


def masks(batch: int, length: int, num_heads: int) -> list[tuple[Tensor | None, Tensor | None]]:
    """Ours (True = may be seen) and PyTorch's (True = hidden), of shape (batch * heads, length, length)."""
    found: list[tuple[Tensor | None, Tensor | None]] = [(None, None)]
    for shape in [(length, length), (batch, 1, 1, length), (batch, num_heads, length, length)]:
        mask = torch.rand(shape) < 0.5
        mask[..., 0] = True
        found.append((mask, ~mask.expand(batch, num_heads, length, length).flatten(0, 1)))
    return found


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_layer_agrees_with_pytorch(encoder, case: tuple[int, ...], pre_norm: bool, dtype: torch.dtype) -> None:
    batch, length, d_model, num_heads, d_ff = case
    layer = randomised(encoder.EncoderLayer(d_model, num_heads, d_ff, pre_norm=pre_norm), dtype)
    theirs = copied(layer, pre_norm, num_heads, dtype)
    for mask, hidden in masks(batch, length, num_heads):
        x = torch.randn(batch, length, d_model, dtype=dtype, requires_grad=True)
        got, expected = layer(x, mask), theirs(x, src_mask=hidden)
        torch.testing.assert_close(got, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
        slopes = [torch.autograd.grad((output**2).sum(), x)[0] for output in (got, expected)]
        torch.testing.assert_close(*slopes, atol=20 * TOLERANCE[dtype], rtol=20 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_the_stack_agrees_with_pytorch(encoder, num_layers: int, pre_norm: bool, dtype: torch.dtype) -> None:
    batch, length, d_model, num_heads, d_ff = 2, 5, 8, 2, 12
    stack = randomised(encoder.Encoder(num_layers, d_model, num_heads, d_ff, pre_norm=pre_norm), dtype)
    for mask, hidden in masks(batch, length, num_heads):
        x = torch.randn(batch, length, d_model, dtype=dtype)
        expected = x
        for layer in stack.layers:
            expected = copied(layer, pre_norm, num_heads, dtype)(expected, src_mask=hidden)
        if pre_norm:
            expected = nn.functional.layer_norm(expected, (d_model,), stack.norm.weight, stack.norm.bias)
        torch.testing.assert_close(stack(x, mask), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_the_base_model_has_the_known_size(encoder) -> None:
    """golden.json of the lecture material, hyperparameters.params."""
    base = GOLDEN["base"]
    with torch.device("meta"):
        stack = encoder.Encoder(base["num_layers"], base["d_model"], base["num_heads"], base["d_ff"])
    layer = stack.layers[0]
    sizes = {name: sum(p.numel() for p in getattr(layer, name).parameters()) for name in ("attention", "feed_forward")}
    assert sizes == {"attention": GOLDEN["attention_with_bias"], "feed_forward": GOLDEN["feed_forward_with_bias"]}
    assert sum(p.numel() for p in layer.parameters()) == GOLDEN["encoder_layer"]
    assert sum(p.numel() for p in stack.parameters()) == base["num_layers"] * GOLDEN["encoder_layer"]


def test_dropout_acts_in_training_only(encoder) -> None:
    stack, x = encoder.Encoder(2, 8, 2, 16, dropout=0.5), torch.randn(2, 5, 8)
    assert not torch.equal(stack(x), stack(x))
    stack.eval()
    assert torch.equal(stack(x), stack(x))


def test_shuffled_tokens_give_shuffled_outputs(encoder) -> None:
    stack, x, order = encoder.Encoder(3, 8, 2, 16).double(), torch.randn(2, 6, 8).double(), torch.randperm(6)
    torch.testing.assert_close(stack(x[:, order]), stack(x)[:, order])


def test_padding_does_not_show(encoder) -> None:
    stack, x = encoder.Encoder(3, 8, 2, 16).double(), torch.randn(1, 4, 8).double()
    padded = torch.cat([x, torch.randn(1, 3, 8).double()], dim=1)
    mask = (torch.arange(7) < 4)[None, None, None]
    torch.testing.assert_close(stack(padded, mask)[:, :4], stack(x))


def test_a_token_that_may_see_nothing_gives_finite_numbers(encoder) -> None:
    stack, x = encoder.Encoder(2, 8, 2, 16), torch.randn(2, 4, 8, requires_grad=True)
    output = stack(x, torch.zeros(2, 1, 4, 4, dtype=torch.bool))
    output.sum().backward()
    assert torch.isfinite(output).all()
    assert torch.isfinite(x.grad).all()


def test_in_attends_to_itself_as_the_erratum_says() -> None:
    """E-46: the weights of the running example in the row of "in"."""
    example = lucas()
    weights = torch.softmax((example.x @ example.w_q) @ (example.x @ example.w_k).T / 2, dim=-1)[3]
    for word, weight in GOLDEN["in_row_4"].items():
        assert weights[example.tokens.index(word)].item() == pytest.approx(weight, abs=1e-6)


def test_every_erratum_of_the_chapter_is_treated() -> None:
    text = (here().root / "solutions/06-encoder/encoder.md").read_text(encoding="utf-8")
    stored = yaml.safe_load((here().root / "book/errata.yml").read_text(encoding="utf-8"))["errata"]
    own = {erratum["id"] for erratum in stored if erratum["chapter"] == "06-encoder"}
    assert own
    missing = {name for name in own if f":::{{erratum}} {name}\n" not in text}
    assert not missing, f"not treated: {sorted(missing)}"
