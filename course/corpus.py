"""Sentence pairs to train on, and pairs that are kept out: templates, a vendored corpus, or a file of one's own."""

import csv
import gzip
import hashlib
import itertools
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from course import templates

BIBLE = Path(__file__).parent / "data" / "bible-fr-en.tsv.gz"
TEMPLATES, SEGOND, BIBLE_ALL = "templates", "segond", "bible"
LONGEST = 250  # words in a line of one's own corpus; what is longer is skipped and counted


class CorpusError(ValueError):
    """A corpus that cannot be used. The message names the file, the line and what to do."""


@dataclass(frozen=True)
class Corpus:
    """Pairs (source, target) for training, and others to score on."""

    name: str
    train: list[tuple[str, str]]
    held_out: list[tuple[str, str]]
    skipped: dict[str, int] = field(default_factory=dict)  # reason → lines


def load(name: str) -> Corpus:
    """A corpus by its name (templates, segond, bible), or a TSV file.

    Raises:
        CorpusError: no such file, wrong encoding, or nothing left to train on.
    """
    if name == TEMPLATES:
        return _templates()
    if name in (SEGOND, BIBLE_ALL):
        return _bible(name)
    return read_tsv(Path(name))


def _templates(train: int = 40_000, held_out: int = 500) -> Corpus:
    made = list(itertools.islice(templates.pairs(seed=1), train + train // 5))
    kept = [(p.french, p.english) for p in made if not p.held_out]
    unseen = [(p.french, p.english) for p in made if p.held_out]
    return Corpus(TEMPLATES, kept[:train], [templates.EXAMPLE, *unseen[: held_out - 1]])


def _bible(name: str) -> Corpus:
    """Split by chapter, because one chapter repeats itself and stands in three editions."""
    with gzip.open(BIBLE, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if name == SEGOND:
        rows = [r for r in rows if r["edition"] == "segond" and _words(r["en"]) <= 12]
    unseen = [r for r in rows if _is_held_out(f"{r['book']}:{r['chapter']}")]
    train = [r for r in rows if not _is_held_out(f"{r['book']}:{r['chapter']}")]
    sample = [r for r in unseen if r["edition"] == "segond"][:500]
    return Corpus(name, [(r["fr"], r["en"]) for r in train], [(r["fr"], r["en"]) for r in sample])


def _is_held_out(key: str) -> bool:
    return hashlib.sha256(key.encode()).digest()[0] < 8  # 8/256 = 3 %


def read_tsv(path: Path) -> Corpus:
    """A file with one pair a line: source, TAB, target; UTF-8, plain or .gz. One line in fifty is held out, by content.

    Lines that are empty, have another number of columns, or hold more than 250 words, are skipped and counted.

    Raises:
        CorpusError: the file is missing, not UTF-8, or fewer than 100 usable lines are left.
    """
    if not path.is_file():
        raise CorpusError(f"{path}: no such file. A corpus is {TEMPLATES}, {SEGOND}, {BIBLE_ALL}, or a TSV file.")
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise CorpusError(f"{path}, line {line}: not UTF-8. Convert it, e.g. `iconv -f latin1 -t utf-8`.") from None
    skipped: Counter[str] = Counter()
    pairs: dict[tuple[str, str], None] = {}
    for row in text.replace("\r\n", "\n").removesuffix("\n").split("\n"):
        columns = [" ".join(unicodedata.normalize("NFC", column).split()) for column in row.split("\t")]
        if not row.strip():
            skipped["empty line"] += 1
        elif len(columns) != 2:
            skipped[f"{len(columns)} column{'s' if len(columns) != 1 else ''} instead of 2"] += 1
        elif not all(columns):
            skipped["an empty side"] += 1
        elif max(map(_words, columns)) > LONGEST:
            skipped[f"more than {LONGEST} words"] += 1
        elif (columns[0], columns[1]) in pairs:
            skipped["seen before"] += 1
        else:
            pairs[columns[0], columns[1]] = None
    # By the source alone: the same sentence with two translations must not stand on both sides.
    held_out = [pair for pair in pairs if hashlib.sha256(pair[0].encode()).digest()[0] < 5]
    train = [pair for pair in pairs if hashlib.sha256(pair[0].encode()).digest()[0] >= 5]
    if len(train) < 100:
        told = "".join(f"\n  {count} skipped: {reason}" for reason, count in skipped.items())
        raise CorpusError(f"{path}: only {len(train)} usable pairs. Each line is: source, TAB, target.{told}")
    return Corpus(path.name, train, held_out[:500], dict(skipped))


def _words(text: str) -> int:
    return len(text.split())
