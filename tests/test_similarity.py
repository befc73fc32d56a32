"""Similar submissions: the right pairs first, nothing that everybody was given, and a page without surprises."""

import json
import webbrowser
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from tiny_course import content

from autograder.collect import Submission
from autograder.layout import Course
from autograder.similarity import Similarity, similar, write_similarity_report

STUBS = {
    "spread": 'def spread(values):\n    """Mean and mean squared deviation of a list of numbers, as a tuple."""\n'
    "    # Begin with the mean; the deviations are what is left of each value.\n    raise NotImplementedError",
    "merge": 'def merge(left, right):\n    """Merge two sorted lists into one."""\n    raise NotImplementedError',
}
LOOP = """def spread(values):
    total = 0
    for value in values:
        total += value
    mean = total / len(values)
    squares = 0
    for value in values:
        squares += (value - mean) ** 2
    return mean, squares / len(values)"""
RENAMED = """def spread(xs):
    # my own words
    s = 0
    for x in xs:
        s += x
    m = s / len(xs)
    q = 0
    for x in xs:
        q += (x - m) ** 2
    return m, q / len(xs)"""
STATISTICS = """def spread(values):
    import statistics
    return statistics.fmean(values), statistics.pvariance(values)"""
MERGE = """def merge(left, right):
    merged = []
    while left and right:
        source = left if left[0] <= right[0] else right
        merged.append(source[0])
        left, right = (left[1:], right) if source is left else (left, right[1:])
    return merged + left + right"""
SORTED = """def merge(left, right):
    both = [*left, *right]
    both.sort(key=lambda entry: entry)
    return list(both)"""


def notebook(**sources: str) -> NotebookNode:
    """The released notebook with these answers."""
    cells = [new_markdown_cell("# Numbers", id="title")]
    for name, stub in {**STUBS, "quiz_best": "raise NotImplementedError"}.items():
        course = {"quiz": "best"} if name == "quiz_best" else {"exercise": name}
        metadata = {"nbgrader": {"grade_id": name, "solution": True, "grade": False}, "course": course}
        cells.append(new_code_cell(sources.get(name, stub), id=name, metadata=metadata))
    return new_notebook(cells=cells)


def submission(student: str, **sources: str) -> Submission:
    return Submission(student, f"{student}.ipynb", content(notebook(**sources)))


def compare(*submissions: Submission, threshold: float = 0.0) -> Similarity:
    return similar(submissions, notebook(), threshold)


def likeness(found: Similarity) -> dict[str, float]:
    return {f"{pair.first} {pair.second}": pair.similarity for pair in found.pairs}


def test_identical_submissions_rank_first() -> None:
    found = compare(
        submission("ada", spread=LOOP, merge=MERGE),
        submission("bob", spread=STATISTICS, merge=SORTED),
        submission("cy", spread=LOOP, merge=MERGE),
        submission("dee", spread=LOOP, merge=SORTED),
    )
    assert found.compared == 4
    assert len(found.pairs) == 6
    first = found.pairs[0]
    assert (first.first, first.second, first.similarity) == ("ada", "cy", 1.0)
    assert {one.exercise for one in first.exercises} == {"spread", "merge"}
    assert first.exercises[0].tokens >= first.exercises[1].tokens > 0
    assert sum(one.tokens for one in first.exercises) == first.tokens
    likenesses = likeness(found)
    assert likenesses["ada bob"] == 0
    assert 0.2 < likenesses["ada dee"] < 0.9  # one exercise of two
    assert likenesses["ada dee"] == likenesses["cy dee"]
    assert [pair.similarity for pair in found.pairs] == sorted(likenesses.values(), reverse=True)


def test_new_names_and_comments_do_not_hide_a_copy() -> None:
    found = compare(
        submission("ada", spread=LOOP), submission("bob", spread=RENAMED), submission("cy", spread=STATISTICS)
    )
    likenesses = likeness(found)
    assert likenesses["ada bob"] > 0.95
    assert likenesses["ada cy"] < 0.3
    assert found.pairs[0].exercises[0].second == RENAMED


def test_added_lines_do_not_hide_a_copy() -> None:
    padded = LOOP.replace("    squares = 0", "    unused = [number for number in range(3)]\n    squares = 0")
    assert compare(submission("ada", spread=LOOP), submission("bob", spread=padded)).pairs[0].similarity > 0.6


def test_what_everybody_was_given_does_not_count() -> None:
    given = LOOP.replace("return mean, squares / len(values)", "raise NotImplementedError")
    own = [
        "if statistics.pvariance(values) < 0:\n        return None\n    return mean, statistics.pvariance(values)",
        "deviations = {abs(one - mean): one for one in values}\n    return [mean, squares * len(values) ** -1]",
    ]
    class_ = [submission(name, spread=given) for name in ("ada", "bob")]
    class_ += [
        submission(name, spread=given.replace("raise NotImplementedError", code))
        for name, code in zip(("cy", "dee"), own, strict=True)
    ]
    assert likeness(similar(class_, notebook(spread=LOOP.replace("+", "-")), 0.0))["cy dee"] > 0.5
    found = similar(class_, notebook(spread=given), 0.0)
    assert list(likeness(found)) == ["cy dee"]
    assert found.pairs[0].similarity < 0.2
    why = "There is no answer that is long enough to be compared."
    assert found.skipped == [("ada", why), ("bob", why)]


def test_quiz_answers_do_not_count() -> None:
    long = "quiz_best = sorted([name for name in ('a', 'b', 'c') if name > 'a'])[0]"
    found = compare(submission("ada", quiz_best=long), submission("bob", quiz_best=long))
    assert found.pairs == []
    assert found.compared == 0


def test_more_shared_code_ranks_first_when_equally_similar() -> None:
    found = compare(
        submission("ada", merge=SORTED),
        submission("bob", merge=SORTED),
        submission("cy", spread=LOOP, merge=MERGE),
        submission("dee", spread=LOOP, merge=MERGE),
    )
    assert [(pair.first, pair.similarity) for pair in found.pairs[:2]] == [("cy", 1.0), ("ada", 1.0)]
    assert found.pairs[0].tokens > found.pairs[1].tokens


def test_threshold() -> None:
    class_ = [submission("ada", spread=LOOP), submission("bob", spread=LOOP), submission("cy", spread=STATISTICS)]
    assert len(compare(*class_).pairs) == 3
    assert list(likeness(compare(*class_, threshold=0.5))) == ["ada bob"]


def test_same_result_in_any_order() -> None:
    class_ = [submission(name, spread=LOOP, merge=SORTED) for name in ("ada", "bob", "cy")] + [
        submission("dee", merge=MERGE)
    ]
    assert compare(*class_) == compare(*reversed(class_))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"cells": [',
        b"[" * 100_000,
        b"[1, 2]",
        b"7",
        b'{"cells": 3}',
        b'{"cells": [7, null]}',
        b"\x89PNG\r\n\xff",
    ],
)
def test_unreadable_submissions_are_reported_and_stop_nobody(data: bytes) -> None:
    good = [submission("ada", spread=LOOP), submission("cy", spread=LOOP)]
    found = compare(good[0], Submission("bob", "bob.ipynb", data), good[1])
    ((who, why),) = found.skipped
    assert who == "bob" and why.startswith(("The file is", "The notebook is in format"))
    assert likeness(found) == {"ada cy": 1.0}


def test_refused_and_huge_submissions_are_reported() -> None:
    refused = Submission("", "x/y.ipynb", problem="It is a link, not a file.")
    found = compare(refused, submission("ada", spread="x = 1\n" * 10_000), submission("bob", spread=LOOP))
    assert found.skipped[0] == ("x/y.ipynb", "It is a link, not a file.")
    assert found.skipped[1][0] == "ada"
    assert "too long: 60" in found.skipped[1][1]
    assert found.compared == 1


@pytest.mark.parametrize("cell", [{"metadata": 4}, {"metadata": {"nbgrader": {"grade_id": "spread"}}, "source": 4}])
def test_odd_cells_are_no_answers(cell: dict) -> None:
    odd = json.dumps({"nbformat": 4, "cells": [cell]}).encode()
    found = compare(Submission("bob", "bob.ipynb", odd))
    assert found.skipped == [("bob", "There is no answer that is long enough to be compared.")]


def test_the_first_of_several_attempts_counts() -> None:
    twice = notebook()  # the stub, an attempt, another one
    for number, source in enumerate((LOOP, STATISTICS)):
        twice.cells.append(new_code_cell(source, id=f"again-{number}", metadata=twice.cells[1].metadata))
    found = compare(Submission("ada", "ada.ipynb", content(twice)), submission("bob", spread=LOOP))
    assert likeness(found) == {"ada bob": 1.0}


def test_code_that_is_no_python_is_compared() -> None:
    broken = LOOP.replace("for value in", "for for value %%% in")
    assert compare(submission("ada", spread=broken), submission("bob", spread=broken)).pairs[0].similarity == 1


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: pytest.fail(f"opened {url}"))
    evil = LOOP.replace("total = 0", "total = 0  # <script>alert(1)</script> \ud800 李")
    cell = {"cell_type": "code", "metadata": {"nbgrader": {"grade_id": "spread"}}}
    raw = json.dumps(json.loads(content(notebook())) | {"cells": [cell | {"source": evil.splitlines(keepends=True)}]})
    class_ = [Submission(name, name, raw.encode()) for name in ("ada", "<b>bob</b>")]
    found = compare(*class_, Submission("cy", "cy", b""), threshold=0.5)
    path = write_similarity_report(Course(tmp_path, tmp_path), "01-tiny", found)
    page = path.read_text(encoding="utf-8")
    assert path == tmp_path / "reports" / "01-tiny" / "similar.html"
    assert "a reason to look, never a verdict" in page.split("<h2")[0]
    assert "&lt;script&gt;alert(1)&lt;/script&gt; ? 李" in page
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;bob&lt;/b&gt;" in page
    assert "100%" in page
    assert "The file is empty." in page
    assert capsys.readouterr() == ("", "")


def test_report_lists_the_first_pairs_only(tmp_path: Path) -> None:
    found = compare(*(submission(f"s{number:02}", spread=LOOP) for number in range(22)))
    page = write_similarity_report(Course(tmp_path, tmp_path), "01-tiny", found).read_text(encoding="utf-8")
    assert len(found.pairs) == 231
    assert page.count("<td>spread</td>") == 200
    assert page.count("<h2 id=") == 20
    assert "The first 200 pairs are listed." in page
    nobody = write_similarity_report(Course(tmp_path, tmp_path), "01-tiny", compare()).read_text(encoding="utf-8")
    assert "No two submissions are that similar." in nobody
