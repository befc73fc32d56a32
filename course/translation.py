"""Use a trained model: translate, score, look at its attention."""

import dataclasses
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from course import batches
from course.package import NAME, Package
from course.run import Run
from course.tokens import END_ID, PAD_ID, START_ID, Tokenizer
from course.train import load_state, make_model

SHIPPED = Path(__file__).parent / "data" / "tiny"  # `python -m course train --preset tiny --package reference`


@dataclasses.dataclass(frozen=True)
class Translator:
    """A finished run, ready to translate."""

    model: nn.Module
    tokenizer: Tokenizer
    package: Package
    device: torch.device

    @classmethod
    def load(cls, run: Run, package: Package, device: torch.device) -> "Translator":
        """Model and tokenizer of a run's folder.

        Raises:
            RunError: the run is not finished, damaged, or fits another tokenizer or package.
        """
        settings, tokenizer = run.settings(), run.tokenizer()
        model = make_model(settings, len(tokenizer), package)
        load_state(model, run.model())
        return cls(model.to(device).eval(), tokenizer, package, device)

    def translate(
        self, sentences: Sequence[str], beam_size: int = 1, length_penalty: float = 0.6, max_tokens: int = 4096
    ) -> list[str]:
        """The translations, in the order of the sentences.

        Args:
            beam_size: 1 is greedy.
            max_tokens: sentences of about the same length are translated together, so many source tokens at a time.
        """
        found = dict(self.stream(sentences, beam_size, length_penalty, max_tokens))
        return [found[i] for i in range(len(sentences))]

    def stream(
        self, sentences: Sequence[str], beam_size: int = 1, length_penalty: float = 0.6, max_tokens: int = 4096
    ) -> Iterator[tuple[int, str]]:
        """Number and translation of each sentence, as they come: short sentences first."""
        decoding = self.package.module("decoding")
        encoded = [([*self.tokenizer.encode(sentence), END_ID], [END_ID]) for sentence in sentences]
        for batch in sorted(
            batches.plan(encoded, max_tokens // beam_size, seed=0), key=lambda b: len(encoded[b[0]][0])
        ):
            source = batches.pad([encoded[i][0] for i in batch], PAD_ID).to(self.device)
            limit = min(source.shape[1] * 2 + 10, 1000)
            if beam_size == 1:
                tokens = decoding.greedy_decode(self.model, source, START_ID, END_ID, limit)
            else:
                tokens = decoding.beam_search(self.model, source, START_ID, END_ID, limit, beam_size, length_penalty)
            for i, row in zip(batch, tokens.tolist(), strict=True):
                yield i, self.tokenizer.decode(row)

    @torch.no_grad()
    def attention(self, sentence: str) -> tuple[list[str], list[str], Tensor]:
        """Cross-attention while a sentence is translated greedily.

        Returns:
            Source pieces, target pieces, and weights (layers, heads, target, source). Row t belongs to the step that
            chose target piece t.
        """
        source = torch.tensor([[*self.tokenizer.encode(sentence), END_ID]], device=self.device)
        limit = source.shape[1] * 2 + 10
        tokens = self.package.module("decoding").greedy_decode(self.model, source, START_ID, END_ID, limit)
        self.model(source, tokens[:, :-1])
        weights = [layer.cross_attention.weights[0] for layer in self.model.decoder.layers]  # type: ignore[union-attr]
        return (
            self.tokenizer.pieces(source[0].tolist()),
            self.tokenizer.pieces(tokens[0, 1:].tolist()),
            torch.stack(weights),
        )


def shipped() -> Translator:
    """The small model that comes with the course, on the CPU, made of whatever `mytransformer` means now.

    Raises:
        RunError: it is missing or damaged.
    """
    folder = Path(next(iter(importlib.import_module(NAME).__path__)))
    return Translator.load(Run(SHIPPED), Package(folder, None), torch.device("cpu"))


def score(translations: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
    """BLEU and chrF by sacrebleu, with the signatures that make them comparable."""
    import sacrebleu

    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    found = bleu.corpus_score(translations, [references]), chrf.corpus_score(translations, [references])
    return {
        "bleu": round(found[0].score, 2),
        "chrf": round(found[1].score, 2),
        "signature": f"{bleu.get_signature()}; chrF {chrf.get_signature()}",
    }
