"""Text to token ids and back: one byte-pair encoding for both languages, trained on the spot by sentencepiece."""

import io
import unicodedata
from collections.abc import Iterable, Sequence

import sentencepiece

PAD_ID, UNKNOWN_ID, START_ID, END_ID = 0, 1, 2, 3


class Tokenizer:
    """A byte-pair encoding (Sennrich et al. 2016). The ids of padding, unknown, start and end are 0, 1, 2, 3."""

    def __init__(self, model: bytes):
        self.model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"not a sentencepiece model: {error}") from None

    @classmethod
    def train(cls, sentences: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Learn at most `vocab_size` pieces. The same sentences give the same tokenizer."""
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            hard_vocab_limit=False,  # a small corpus may not hold so many
            character_coverage=1.0,
            normalization_rule_name="identity",  # its own rules change quotes and dots, and weigh 240 kB
            pad_id=PAD_ID,
            unk_id=UNKNOWN_ID,
            bos_id=START_ID,
            eos_id=END_ID,
            num_threads=1,
            minloglevel=2,
        )
        return cls(model.getvalue())

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    def encode(self, text: str) -> list[int]:
        """Token ids, without start and end."""
        return self._processor.encode(unicodedata.normalize("NFC", text))

    def decode(self, ids: Sequence[int]) -> str:
        """The text up to the end token. Start and padding are left out."""
        ids = list(ids)
        ids = ids[: ids.index(END_ID)] if END_ID in ids else ids
        return self._processor.decode([i for i in ids if i not in (PAD_ID, START_ID)])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each token as it can be read; ▁ stands for a space before it."""
        return [self._processor.id_to_piece(int(i)) for i in ids]
