"""Chapter 07: the decoder against PyTorch's, one pass against many, and the lecture's items in the text."""

import re
from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor, nn

from autograder.layout import Course, here
from autograder.quiz import load_quiz

CHAPTER = next(chapter for chapter in here().chapters if chapter.id == "07-decoder")
ITEMS = set(
    re.findall(
        r"S\d-\d+",
        """S0-05 S0-67 S0-68 S0-80 S1-25 S1-26 S2-46 S2-48 S2-49 S2-51 S2-58 S2-59 S4-18 S4-19 S4-20 S4-79 S4-81 S4-83
        S4-84 S4-111 S4-112 S4-113 S4-114 S4-116 S4-120 S4-121 S4-122 S4-125 S4-132""",
    )
)
CLOSE = {torch.float32: {"atol": 1e-5, "rtol": 1e-5}, torch.float64: {"atol": 1e-10, "rtol": 1e-10}}


@pytest.fixture(scope="module")
def decoder(published: Course):
    """The reference module, exported from the chapter."""
    import mytransformer.decoder

    return mytransformer.decoder


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def twin(layer: nn.Module, num_heads: int, d_ff: int, pre_norm: bool) -> nn.TransformerDecoderLayer:
    """PyTorch's decoder layer with the weights of ours."""
    state = layer.state_dict()
    weight = state["self_attention.w_q.weight"]
    theirs = nn.TransformerDecoderLayer(
        len(weight), num_heads, d_ff, dropout=0.0, batch_first=True, norm_first=pre_norm, dtype=weight.dtype
    )
    renamed: dict[str, Tensor] = {}
    for part in ("weight", "bias"):
        for our, their in (("self_attention", "self_attn"), ("cross_attention", "multihead_attn")):
            renamed[f"{their}.in_proj_{part}"] = torch.cat([state[f"{our}.{w}.{part}"] for w in ("w_q", "w_k", "w_v")])
            renamed[f"{their}.out_proj.{part}"] = state[f"{our}.w_o.{part}"]
        renamed |= {f"linear{i}.{part}": state[f"feed_forward.linear_{i}.{part}"] for i in (1, 2)}
        renamed |= {f"norm{i}.{part}": state[f"add_norm_{i}.norm.{part}"] for i in (1, 2, 3)}
    theirs.load_state_dict(renamed)
    return theirs


def randomised(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Also the weights that begin as ones or zeros."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return module.to(dtype)


def masks(kind: str, batch: int, heads: int, target: int, source: int) -> tuple[Tensor | None, Tensor | None]:
    if kind == "none":
        return None, None
    past = torch.ones(target, target, dtype=torch.bool).tril()
    if kind == "causal":
        return past, None
    if kind == "padding":
        seen = torch.rand(batch, 1, 1, source) < 0.6
        seen[..., 0] = True
        return past, seen
    own, other = torch.rand(batch, heads, target, target) < 0.6, torch.rand(batch, heads, target, source) < 0.6
    own[..., 0] = other[..., 0] = True
    return own, other


def inverted(mask: Tensor | None, *shape: int) -> Tensor | None:
    return None if mask is None else ~mask.expand(*shape).flatten(0, 1)


@pytest.mark.parametrize("dtype", list(CLOSE))
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("kind", ["none", "causal", "padding", "full"])
@pytest.mark.parametrize(("batch", "target", "source"), [(1, 1, 1), (2, 5, 7), (3, 6, 2), (2, 4, 4)])
def test_a_layer_agrees_with_pytorch(
    decoder, dtype: torch.dtype, pre_norm: bool, kind: str, batch: int, target: int, source: int
) -> None:
    layer = randomised(decoder.DecoderLayer(12, 3, 20, 0.0, pre_norm), dtype)
    theirs = twin(layer, 3, 20, pre_norm)
    x, memory = torch.randn(batch, target, 12, dtype=dtype), torch.randn(batch, source, 12, dtype=dtype)
    own, other = masks(kind, batch, 3, target, source)
    expected = theirs(
        x,
        memory,
        tgt_mask=inverted(own, batch, 3, target, target),
        memory_mask=inverted(other, batch, 3, target, source),
    )
    torch.testing.assert_close(layer(x, memory, own, other), expected, **CLOSE[dtype])


@pytest.mark.parametrize("dtype", list(CLOSE))
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3, 6])
def test_the_stack_agrees_with_pytorch(decoder, dtype: torch.dtype, pre_norm: bool, num_layers: int) -> None:
    stack = randomised(decoder.Decoder(num_layers, 8, 2, 16, 0.0, pre_norm), dtype)
    x, memory = torch.randn(2, 5, 8, dtype=dtype), torch.randn(2, 7, 8, dtype=dtype)
    past = torch.ones(5, 5, dtype=torch.bool).tril()
    theirs = nn.TransformerDecoder(
        twin(stack.layers[0], 2, 16, pre_norm), num_layers, norm=nn.LayerNorm(8, dtype=dtype) if pre_norm else None
    )
    theirs.layers = nn.ModuleList(twin(layer, 2, 16, pre_norm) for layer in stack.layers)
    if pre_norm:
        theirs.norm.load_state_dict(stack.norm.state_dict())
    torch.testing.assert_close(stack(x, memory, past), theirs(x, memory, tgt_mask=~past), **CLOSE[dtype])


@pytest.mark.parametrize("dtype", list(CLOSE))
@pytest.mark.parametrize("pre_norm", [False, True])
def test_one_pass_and_many_give_the_same_logits(decoder, dtype: torch.dtype, pre_norm: bool) -> None:
    stack = randomised(decoder.Decoder(3, 8, 2, 16, 0.0, pre_norm), dtype)
    generate = decoder.Generator(8, 11).to(dtype)
    x, memory = torch.randn(2, 6, 8, dtype=dtype), torch.randn(2, 4, 8, dtype=dtype)
    past = torch.ones(6, 6, dtype=torch.bool).tril()
    whole = generate(stack(x, memory, past))
    for n in range(1, 7):
        step = generate(stack(x[:, :n], memory, past[:n, :n])[:, -1])
        torch.testing.assert_close(step, whole[:, n - 1], **CLOSE[dtype])
    if dtype == torch.float64:
        assert (stack(x, memory) - stack(x, memory, past))[:, 0].abs().max() > 1e-7, "without a mask the future is seen"


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_the_generator_gives_logits(decoder, shape: tuple[int, ...]) -> None:
    generate, x = decoder.Generator(4, 7).double(), torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(generate(x), nn.functional.linear(x, generate.linear.weight, generate.linear.bias))


def test_every_layer_reads_the_same_memory_and_its_gradient_arrives(decoder) -> None:
    stack = randomised(decoder.Decoder(3, 8, 2, 16), torch.float64)
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    memory = torch.randn(1, 4, 8, dtype=torch.float64, requires_grad=True)
    stack(x, memory).square().sum().backward()
    assert memory.grad is not None
    assert memory.grad.abs().min() > 0
    assert all(layer.cross_attention.w_k.weight.grad.abs().max() > 0 for layer in stack.layers)


def test_dropout_acts_in_training_only(decoder) -> None:
    stack = decoder.Decoder(2, 8, 2, 16, dropout=0.5)
    x, memory = torch.randn(1, 3, 8), torch.randn(1, 4, 8)
    assert not torch.equal(stack(x, memory), stack(x, memory))
    stack.eval()
    assert torch.equal(stack(x, memory), stack(x, memory))


def test_every_erratum_of_the_chapter_is_treated_in_the_text() -> None:
    text = CHAPTER.source.read_text(encoding="utf-8")
    errata = yaml.safe_load((here().root / "book" / "errata.yml").read_text(encoding="utf-8"))["errata"]
    mine = {erratum["id"] for erratum in errata if erratum["chapter"] == CHAPTER.id}
    assert mine == set(re.findall(r":::\{erratum\} (E-\d+)", text))


def test_the_quiz_names_the_items_that_it_asks_about() -> None:
    named = set(re.findall(r"S\d-\d+", CHAPTER.quiz.read_text(encoding="utf-8")))
    assert named >= ITEMS, sorted(ITEMS - named)
    assert len(load_quiz(CHAPTER.quiz, "graded")) >= 8


def test_the_styles_cover_every_exercise() -> None:
    folder = Path(__file__).parent / "styles" / CHAPTER.id
    assert len(list(folder.glob("*.py"))) >= 3
