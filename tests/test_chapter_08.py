"""Chapter 08: masks against numbers computed elsewhere, the assembled model against torch.nn.Transformer.

`golden_masking.json` holds the golden numbers of the lecture items on masks, shifting and sizes, as it names them.
"""

import json
import math
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from autograder.layout import Course
from course.examples import china, length_ten, lucas, padded_sentences

GOLDEN = json.loads((Path(__file__).parent / "golden_masking.json").read_text(encoding="utf-8"))
SOURCE = (Path(__file__).parents[1] / "solutions" / "08-masking" / "masking.md").read_text(encoding="utf-8")


def numbers(matrix: list) -> Tensor:
    return torch.tensor([[float(value) for value in row] for row in matrix])


@pytest.fixture(scope="module")
def masks(published: Course):
    import mytransformer.masks

    return mytransformer.masks


@pytest.fixture(scope="module")
def model_module(published: Course):
    import mytransformer.model

    return mytransformer.model


def padded_tokens() -> Tensor:
    sentences, length = padded_sentences()
    return torch.tensor([[1] * len(words) + [0] * (length - len(words)) for words in sentences])


@pytest.mark.parametrize("length", [3, 5])
def test_causal_masks_are_the_golden_ones(masks, length: int) -> None:
    golden = GOLDEN[f"causal_mask_{length}"]
    mask = masks.causal_mask(length)
    assert mask.int().tolist() == golden["keep_1_visible"]
    assert (~mask).tolist() == golden["bool_true_masked"]
    assert torch.equal(masks.additive(mask), numbers(golden["additive"]))


def test_padding_masks_are_the_golden_ones(masks) -> None:
    golden, tokens = GOLDEN["padding_mask"], padded_tokens()
    mask = masks.padding_mask(tokens, 0)
    assert mask.shape == (2, 1, 1, 6)
    assert mask[:, 0, 0].int().tolist() == golden["keep_1_visible"]
    assert torch.equal(masks.additive(mask)[:, 0, 0], numbers(golden["additive"]))
    combined = masks.additive(masks.target_mask(tokens, 0))[:, 0]
    for got, expected in zip(combined, GOLDEN["padding_plus_causal_6"]["additive_per_sequence"], strict=True):
        assert torch.equal(got, numbers(expected))


def test_the_scenario_of_length_ten(masks) -> None:
    length, words, step, printed = length_ten()
    golden = GOLDEN["mask_scenario_len10"]
    assert printed == golden["printed"]
    row = masks.target_mask((torch.arange(length) < words).long()[None], 0)[0, 0, step - 1]
    assert row.int().tolist() == golden["correct_keep"]["total_AND"]
    leaked = torch.softmax(torch.tensor(printed["total"], dtype=torch.float64), 0)[step:].sum().item()
    assert leaked == pytest.approx(0.461898, abs=1e-6)


def test_the_leak_of_the_running_example(masks) -> None:
    golden, example = GOLDEN["self_attention_causal_proposed"], lucas()
    scores = (example.x @ example.w_q) @ (example.x @ example.w_k).T / 2
    past = masks.causal_mask(5)
    wrong = torch.softmax(scores.masked_fill(~past, 0.0), -1)
    leaked = torch.tensor(golden["wrong_variant_zero_scores_before_softmax"]["probability_leaked_to_future_per_row"])
    torch.testing.assert_close((wrong * ~past).sum(-1).float(), leaked, atol=2e-6, rtol=0)
    right = torch.softmax(scores + masks.additive(past), -1)
    torch.testing.assert_close(right.float(), torch.tensor(golden["weights"]), atol=2e-6, rtol=0)


def test_the_shifted_pairs() -> None:
    golden, (source, target) = GOLDEN["shifted_right"], china()
    assert "".join(source) == golden["source"]
    assert [*target, "<eos>"] == golden["target_with_eos"]
    assert ["<s>", *target] == golden["decoder_input"]


def test_sizes_of_the_base_model(model_module) -> None:
    with torch.device("meta"):
        base = model_module.Transformer(37_000, 37_000)

    def count(module: nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    golden = GOLDEN["hyperparameters"]["params"]
    assert count(base.encoder.layers[0]) == golden["enc_layer_base"]
    assert count(base.decoder.layers[0]) == golden["dec_layer_base"]
    assert count(base) == 101_007_496
    assert count(base) - 2 * 37_000 * 512 == 63_119_496  # one matrix for all three uses, as in the paper


def twin(model: nn.Module, num_heads: int, pre_norm: bool) -> nn.Transformer:
    """torch.nn.Transformer with the model's weights. In post-norm its final normalisations are taken out."""
    first = model.encoder.layers[0]
    d_model, d_ff, layers = first.add_norm_1.norm.weight.numel(), first.feed_forward.linear_1.out_features, 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = nn.Transformer(d_model, num_heads, layers, layers, d_ff, 0.0, batch_first=True, norm_first=pre_norm).to(
            first.add_norm_1.norm.weight.dtype
        )
    with torch.no_grad():
        for ours, theirs in [
            *zip(model.encoder.layers, other.encoder.layers, strict=True),
            *zip(model.decoder.layers, other.decoder.layers, strict=True),
        ]:
            pairs = (
                [(ours.attention, theirs.self_attn)]
                if hasattr(ours, "attention")
                else [(ours.self_attention, theirs.self_attn), (ours.cross_attention, theirs.multihead_attn)]
            )
            for mine, other_attention in pairs:
                parts = (mine.w_q, mine.w_k, mine.w_v)
                other_attention.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
                other_attention.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
                other_attention.out_proj.load_state_dict(mine.w_o.state_dict())
            theirs.linear1.load_state_dict(ours.feed_forward.linear_1.state_dict())
            theirs.linear2.load_state_dict(ours.feed_forward.linear_2.state_dict())
            for i in range(1, 2 + len(pairs)):
                getattr(theirs, f"norm{i}").load_state_dict(getattr(ours, f"add_norm_{i}").norm.state_dict())
    if pre_norm:
        other.encoder.norm.load_state_dict(model.encoder.norm.state_dict())
        other.decoder.norm.load_state_dict(model.decoder.norm.state_dict())
    else:
        other.encoder.norm = other.decoder.norm = None
    return other


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize(("batch", "source_length", "target_length"), [(1, 3, 5), (4, 7, 6)])
def test_the_model_equals_torch(
    model_module,
    pre_norm: bool,
    dtype: torch.dtype,
    tolerance: float,
    batch: int,
    source_length: int,
    target_length: int,
) -> None:
    from mytransformer.embedding import sinusoidal_encoding

    torch.manual_seed(batch)
    model = model_module.Transformer(20, 30, 16, 4, 2, 24, dropout=0.0, pad_id=3, pre_norm=pre_norm).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)
    source, target = torch.randint(4, 20, (batch, source_length)), torch.randint(4, 30, (batch, target_length))
    source[-1, 2:] = 3
    target[-1, 1:] = 3

    def embedded(table: nn.Module, tokens: Tensor) -> Tensor:
        return table.embedding.weight[tokens] * math.sqrt(16) + sinusoidal_encoding(tokens.shape[1], 16).to(dtype)

    output = twin(model, 4, pre_norm)(
        embedded(model.source_embedding, source),
        embedded(model.target_embedding, target),
        tgt_mask=torch.ones(target_length, target_length, dtype=torch.bool).triu(1),
        src_key_padding_mask=source == 3,
        tgt_key_padding_mask=target == 3,
        memory_key_padding_mask=source == 3,
    )
    expected = model.generator.linear(output)
    torch.testing.assert_close(model(source, target), expected, atol=tolerance, rtol=tolerance)


def test_no_logit_depends_on_the_future(model_module) -> None:
    model = model_module.Transformer(9, 9, 8, 2, 2, 16, dropout=0.0).double()
    source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 3, 4, 5]])
    before = model(source, target)
    for place in range(1, 5):
        changed = target.clone()
        changed[0, place] = 8
        assert torch.equal(model(source, changed)[:, :place], before[:, :place])


def test_padding_of_the_source_changes_nothing(model_module) -> None:
    model = model_module.Transformer(9, 9, 8, 2, 2, 16, dropout=0.0).double()
    source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 3, 4]])
    padded = torch.tensor([[1, 2, 3, 0, 0]])
    torch.testing.assert_close(model(padded, target), model(source, target), atol=1e-10, rtol=1e-10)
    assert model(torch.zeros_like(source), target).isfinite().all()


@pytest.mark.parametrize("number", [26, 34, 45, 53, 82, 83, 84, 85, 86, 87, 92])
def test_every_erratum_of_the_chapter_is_treated(number: int) -> None:
    assert re.search(rf"^:::\{{erratum\}} E-{number}$", SOURCE, re.MULTILINE)
