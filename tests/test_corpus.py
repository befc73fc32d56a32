"""Corpora: what is held out stays out, and a file of one's own is read with every fault named."""

import csv
import gzip

import pytest

from course import corpus


@pytest.mark.parametrize("name", [corpus.TEMPLATES, corpus.SEGOND, corpus.BIBLE_ALL])
def test_nothing_is_on_both_sides(name):
    data = corpus.load(name)
    assert len(data.train) > 10_000
    assert len(data.held_out) == 500
    # Formulas such as "Thus says the LORD" stand in many chapters; whole pairs hardly do.
    both = set(data.train) & set(data.held_out)
    assert len(both) <= (0 if name == corpus.TEMPLATES else 10), both


def test_the_vendored_corpus_is_split_by_chapter():
    with gzip.open(corpus.BIBLE, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) == 113_967
    held_out = set(corpus.load(corpus.SEGOND).held_out)
    chapters = {(r["book"], r["chapter"]) for r in rows if (r["fr"], r["en"]) in held_out and r["edition"] == "segond"}
    trained = set(corpus.load(corpus.BIBLE_ALL).train)
    # All editions of such a chapter are held out, so that a parallel passage is not trained on.
    assert chapters
    of_chapters = [(r["fr"], r["en"]) for r in rows if (r["book"], r["chapter"]) in chapters]
    assert sum(pair in trained for pair in of_chapters) < len(of_chapters) / 20


def test_segond_has_short_sentences_only():
    data = corpus.load(corpus.SEGOND)
    assert max(len(english.split()) for _, english in data.train + data.held_out) <= 12


def good_lines(count=300):
    return [f"phrase numéro {i}\tsentence number {i}" for i in range(count)]


def write(path, lines, encoding="utf-8"):
    path.write_bytes("\n".join(lines).encode(encoding))
    return path


def test_a_file_is_split_by_content_not_by_order(tmp_path):
    data = corpus.read_tsv(write(tmp_path / "a.tsv", good_lines()))
    backwards = corpus.read_tsv(write(tmp_path / "b.tsv", good_lines()[::-1]))
    assert set(data.held_out) == set(backwards.held_out)
    assert len(data.train) + len(data.held_out) == 300
    assert data.held_out
    assert data.skipped == {}


def test_odd_lines_are_counted_and_skipped(tmp_path):
    odd = ["", "only one", "a\tb\tc", "left\t", "\tright", "x " * 10_000 + "\ty", good_lines()[0], "   "]
    data = corpus.read_tsv(write(tmp_path / "a.tsv", good_lines() + odd + ["last\tone"]))
    assert data.skipped == {
        "empty line": 2,
        "1 column instead of 2": 1,
        "3 columns instead of 2": 1,
        "an empty side": 2,
        "more than 250 words": 1,
        "seen before": 1,
    }
    assert len(data.train) + len(data.held_out) == 301


def test_windows_files_and_compressed_files_are_read(tmp_path):
    plain = corpus.read_tsv(write(tmp_path / "a.tsv", good_lines()))
    windows = tmp_path / "b.tsv"
    windows.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(good_lines()).encode() + b"\r\n")
    compressed = tmp_path / "c.tsv.gz"
    compressed.write_bytes(gzip.compress("\n".join(good_lines()).encode()))
    assert plain.train == corpus.read_tsv(windows).train == corpus.read_tsv(compressed).train


def test_the_same_letters_in_two_forms_are_the_same_sentence(tmp_path):
    data = corpus.read_tsv(write(tmp_path / "a.tsv", [*good_lines(), "été\tsummer", "e\u0301te\u0301\tsummer"]))
    assert data.skipped == {"seen before": 1}


def test_another_encoding_is_named_with_its_line(tmp_path):
    path = write(tmp_path / "a.tsv", [*good_lines(2)], encoding="latin-1")
    with pytest.raises(corpus.CorpusError, match=r"line 1: not UTF-8.*iconv"):
        corpus.read_tsv(path)


def test_a_file_that_is_no_corpus_is_refused_with_the_reasons(tmp_path):
    path = write(tmp_path / "a.csv", [f"a{i},b{i}" for i in range(500)])
    with pytest.raises(corpus.CorpusError, match=r"(?s)only 0 usable pairs.*500 skipped: 1 column instead of 2"):
        corpus.read_tsv(path)


@pytest.mark.parametrize("name", ["nothing.tsv", "broken.tsv.gz"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    if name.endswith("gz"):
        (tmp_path / name).write_bytes(b"no gzip")
    with pytest.raises(corpus.CorpusError, match=name):
        corpus.load(str(tmp_path / name))
