"""Chapter 04: the reference against the numbers recomputed from the lectures, closed forms and PyTorch.

`golden_positions.json` was computed apart from this repository, from the inputs printed in the lecture documents (items
S0-45 to S0-50, S0-47, S2-34, S2-39, S3-40, S4-62, S0-78) and for the errata E-09, E-23 and E-57.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor

from autograder.layout import Course
from course.examples import lucas, printed_positions, word_and_position

GOLDEN = json.loads((Path(__file__).parent / "golden_positions.json").read_text(encoding="utf-8"))
CHAPTER = "04-positional-encoding"
DTYPES = [torch.float32, torch.float64]


@pytest.fixture(scope="module")
def embedding(published: Course):
    """The reference module, exported from the chapter."""
    import mytransformer.embedding

    return mytransformer.embedding


@pytest.fixture(scope="module")
def attention(published: Course):
    import mytransformer.attention

    return mytransformer.attention


def golden(*path: str) -> Tensor:
    value = GOLDEN
    for key in path:
        value = value[key]
    return torch.tensor(value, dtype=torch.float64)


def by_numpy(length: int, d_model: int) -> np.ndarray:
    """Entry by entry, from the formula of the paper, in float64."""
    table = np.empty((length, d_model))
    for t in range(length):
        for k in range(d_model):
            angle = t / np.power(10000.0, 2 * (k // 2) / d_model)
            table[t, k] = np.cos(angle) if k % 2 else np.sin(angle)
    return table


def test_the_worked_example(embedding) -> None:
    """S0-48 to S0-50; 17 of the 20 printed numbers are right (E-06)."""
    encoding = embedding.sinusoidal_encoding(5, 4).double()
    torch.testing.assert_close(encoding, golden("positional_encoding_5x4", "PE"), atol=1e-6, rtol=0)
    summed = golden("positional_encoding_5x4", "X_e_plus_PE")
    torch.testing.assert_close(lucas().x + encoding, summed, atol=1e-6, rtol=0)
    products = golden("positional_encoding_5x4", "dot_products_PE_PE_T")
    torch.testing.assert_close(encoding @ encoding.T, products, atol=2e-6, rtol=0)
    rounded = (torch.tensor(by_numpy(5, 4)) * 1000).round() / 1000
    differs = (rounded - printed_positions()).abs() > 1e-9
    wrong = [
        row[:2] for row in GOLDEN["positional_encoding_5x4"]["cells_wrong_(pos,dim,printed,correct_3dp,correct_6dp)"]
    ]
    assert differs.nonzero().tolist() == wrong
    assert int((~differs).sum()) == 17


def test_the_numbers_of_the_errata(embedding) -> None:
    """E-09, E-57: nearest positions, last wavelength."""

    def distance(d_model: int, offset: np.ndarray) -> np.ndarray:
        speed = 10000.0 ** (-2 * np.arange(d_model // 2) / d_model)
        return np.sqrt((4 * np.sin(offset[:, None] * speed / 2) ** 2).sum(-1))

    far = GOLDEN["far"]
    assert distance(4, np.array([1885]))[0] == pytest.approx(far["distance_d4_1885"], abs=1e-7)
    assert distance(4, np.array([71000]))[0] == pytest.approx(far["distance_d4_71000"], abs=1e-7)
    all_distances = distance(512, np.arange(1, 5000))
    assert all_distances.min() == pytest.approx(far["smallest_d512"], abs=1e-6)
    assert all_distances.argmin() == 0
    assert 2 * math.pi * 10000 ** (510 / 512) == pytest.approx(far["last_wavelength_d512"], abs=1e-3)


def test_order_counts_with_positions_and_not_without(embedding, attention) -> None:
    """E-23: the weights of the running example, and the sentence backwards."""
    sentence = lucas()
    order = torch.tensor([4, 3, 2, 1, 0])

    def attend(x: Tensor) -> Tensor:
        return attention.scaled_dot_product_attention(x @ sentence.w_q, x @ sentence.w_k, x @ sentence.w_v)[0]

    x = sentence.x
    torch.testing.assert_close(attend(x[order]), attend(x)[order])
    assert (attend(x[order]) - attend(x)).abs().max().item() == pytest.approx(
        GOLDEN["far"]["wrong_order_without"], abs=1e-6
    )
    placed = embedding.PositionalEncoding(4).double()
    difference = (attend(placed(x[order])) - attend(placed(x))[order]).abs().max().item()
    assert difference == pytest.approx(GOLDEN["far"]["not_equivariant_with_positions"], abs=1e-6)


def test_the_sum_of_the_second_text() -> None:
    """S2-39, E-44: the sum is right, the position is no sinusoid."""
    word, position = word_and_position()
    torch.testing.assert_close(word + position, golden("combined_embedding", "sum"))
    assert (position.reshape(2, 2).square().sum(-1) - 1).abs().min() > 0.2


@pytest.mark.parametrize("d_model", [1, 2, 3, 6, 7, 128, 512])
@pytest.mark.parametrize("length", [1, 2, 50, 300])
def test_sinusoidal_encoding(embedding, length: int, d_model: int) -> None:
    encoding = embedding.sinusoidal_encoding(length, d_model)
    assert encoding.dtype == torch.float32
    expected = torch.from_numpy(by_numpy(length, d_model))
    torch.testing.assert_close(encoding.double(), expected, atol=1e-6, rtol=0)


def test_far_positions_are_exact(embedding) -> None:
    expected = torch.from_numpy(by_numpy(5000, 8))
    torch.testing.assert_close(embedding.sinusoidal_encoding(5000, 8).double(), expected, atol=1e-7, rtol=0)


def test_dot_products_depend_on_the_distance_and_are_not_monotone(embedding) -> None:
    """S4-62, E-71."""
    encoding = embedding.sinusoidal_encoding(50, 128).double()
    products = encoding @ encoding.T
    expected = golden("pe_dot_product_d128", "offset_0_to_49")
    torch.testing.assert_close(products[0], expected, atol=1e-4, rtol=0)
    for t in range(50):
        torch.testing.assert_close(products[t, t:], expected[: 50 - t], atol=1e-4, rtol=0)
    assert int((expected[1:] > expected[:-1]).sum()) == 14


@pytest.mark.parametrize("d_model", [2, 4, 6, 128, 512])
@pytest.mark.parametrize("offset", [-70, -1, 0, 1, 5, 1000])
def test_shift_matrix(embedding, offset: int, d_model: int) -> None:
    matrix = embedding.shift_matrix(offset, d_model)
    assert matrix.dtype == torch.float64
    first = max(0, -offset)
    table = torch.from_numpy(by_numpy(first + max(offset, 0) + 4, d_model))
    for t in range(first, first + 4):
        torch.testing.assert_close(matrix @ table[t], table[t + offset], atol=1e-10, rtol=0)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(d_model, dtype=torch.float64), atol=1e-12, rtol=0)


def test_shift_matrix_of_the_example(embedding) -> None:
    """E-10."""
    expected = golden("positional_encoding_5x4", "shift_by_1_matrix_M_with_PE[t+1]=M@PE[t]")
    torch.testing.assert_close(embedding.shift_matrix(1, 4), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 1, 5)])
def test_token_embedding(embedding, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    layer = embedding.TokenEmbedding(11, 9).to(dtype)
    tokens = torch.randint(11, shape)
    expected = torch.nn.functional.embedding(tokens, layer.embedding.weight) * 3
    torch.testing.assert_close(layer(tokens), expected)
    hot = torch.nn.functional.one_hot(tokens, 11).to(dtype)
    torch.testing.assert_close(layer(tokens), hot @ layer.embedding.weight * 3)
    assert list(layer.state_dict()) == ["embedding.weight"]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16])
@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 3)])
@pytest.mark.parametrize("d_model", [4, 7])
def test_positional_encoding(embedding, batch: tuple[int, ...], d_model: int, dtype: torch.dtype) -> None:
    layer = embedding.PositionalEncoding(d_model, max_length=12).to(dtype)
    x = torch.randn(*batch, 12, d_model).to(dtype)
    before = x.clone()
    expected = x.double() + torch.from_numpy(by_numpy(12, d_model))
    assert layer(x).dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-6, torch.float16: 5e-3}[dtype]
    torch.testing.assert_close(layer(x).double(), expected, atol=tolerance, rtol=0)
    torch.testing.assert_close(layer(x[..., :5, :]), layer(x)[..., :5, :])
    assert torch.equal(x, before)
    assert not list(layer.parameters())
    assert not layer.state_dict()
    with pytest.raises(ValueError, match="13"):
        layer(torch.zeros(*batch, 13, d_model, dtype=dtype))


def test_positional_encoding_drops_parts_of_the_sum(embedding) -> None:
    layer = embedding.PositionalEncoding(8, max_length=100, dropout=0.5)
    x = torch.rand(50, 100, 8) + 2
    dropped = layer(x)
    zero = dropped == 0
    assert 0.45 < zero.float().mean() < 0.55
    layer.eval()
    torch.testing.assert_close(dropped[~zero], 2 * layer(x)[~zero])


# Where the chapter treats each item of the lectures: a piece of text that must stand there.
ITEMS = {
    "S0-10": "X_e = X E",
    "S0-42": "More heads do not help",
    "S0-43 S1-04 S2-38 S3-36 S4-54 S4-59": r"PE_{t, 2i} = \sin",
    "S0-44 S4-55": 'call $i$ "the dimension"',
    "S0-45": '"Lucas will travel in December" and $d_\\text{model} = 4$',
    "S0-46": "[[0, 1], [2, 3]]",
    "S0-47": "there are three wheels",
    "S0-48": "Position by position",
    "S0-49": "entries agree",
    "S0-50": "X_{epe} = X_e + PE",
    "S0-51": "Fast wheels tell neighbours apart",
    "S0-52": r"\sin^2 + \cos^2 = 1",
    "S0-53": "linear combination",
    "S0-54": "relative positions *can* be learned",
    "S0-55": "the pattern repeats for very long sequences",
    "S1-02": "starts with random numbers, and it takes the ids",
    "S1-03": "It is a vector of length `d_model` for each position",
    "S1-33": "invariant by construction",
    "S2-34": "k // 2",
    "S2-35": "Jane visite l'Afrique en septembre",
    "S2-36": "mark where a sentence begins and where it ends",
    "S2-37 S4-53": "it loses the order",
    "S2-39": "word_and_position()",
    "S2-40": "Africa visited Jane",
    "S2-63": "Woebot",
    "S3-33": "makes training much faster",
    "S3-34": "**Idea 1",
    "S3-35": "**Idea 2",
    "S3-37": "geometric progression",
    "S3-38": r"\omega_{d/2-1}",
    "S3-39": r"f: \mathbb{N} \to \mathbb{R}^{d}",
    "S3-40": "The last digit changes at every step",
    "S3-41 S4-60": "50 positions in 128 dimensions",
    "S4-50": "*Given and frozen.*",
    "S4-51": "*Trainable.*",
    "S4-52": "The Transformer takes the second way",
    "S4-56": "What is preserved at any length",
    "S4-57": r"(\sin t, \cos t, \sin\frac{t}{100}, \cos\frac{t}{100})",
    "S4-58": "lost exponents",
    "S4-61": "Is every position different?",
    "S4-62": "dark diagonal",
}


def test_every_item_and_erratum_of_the_chapter_is_treated() -> None:
    root = Path(__file__).parents[1]
    text = (root / "solutions" / CHAPTER / "positional-encoding.md").read_text(encoding="utf-8")
    missing = [f"{items}: {piece}" for items, piece in ITEMS.items() if piece not in text]
    errata = yaml.safe_load((root / "book" / "errata.yml").read_text(encoding="utf-8"))
    entries = errata["errata"] if isinstance(errata, dict) else errata
    missing += [e["id"] for e in entries if e["chapter"] == CHAPTER and f":::{{erratum}} {e['id']}\n" not in text]
    quiz = yaml.safe_load((root / "solutions" / CHAPTER / "quiz.yml").read_text(encoding="utf-8"))
    asked = {item for question in quiz for item in question["items"]}
    missing += [item for item in ("S0-78", "S2-57") if item not in asked]
    assert not missing, missing
