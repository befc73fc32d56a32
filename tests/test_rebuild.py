"""The notebook that is graded: the released one, with the student's answers and nothing else of a submission."""

import json
from dataclasses import replace
from typing import Any

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from tiny_course import GIVEN, changed, completed, content, without

from autograder import rebuild as module
from autograder.layout import Chapter
from autograder.rebuild import ANSWER, HELPER, TEST, Rebuilt, Unreadable, arrange, rebuild
from autograder.rebuild import GIVEN as GIVEN_STEP
from autograder.release import Cell, Release, visible_release

SQUARE = "def double(x):\n    return x * x"


def place(notebook: NotebookNode, grade_id: str) -> int:
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    return ids.index(grade_id)


def inserted(notebook: NotebookNode, before: str, *sources: str) -> NotebookNode:
    """The student's own cells, right before the cell with this grade id."""
    at = place(notebook, before)
    cells = [*notebook.cells[:at], *map(new_code_cell, sources), *notebook.cells[at:]]
    return changed(notebook, lambda copied: copied.update(cells=cells))


def sources(rebuilt: Rebuilt, kind: str) -> list[str]:
    return [step.source for step in rebuilt.steps if step.kind == kind]


def order(rebuilt: Rebuilt) -> list[str]:
    return [step.id if step.kind in (ANSWER, TEST) else step.kind for step in rebuilt.steps]


def test_an_honest_notebook(chapter: Chapter, release: Release) -> None:
    rebuilt = rebuild(release, content(completed(chapter)))
    assert rebuilt.notes == []
    assert set(rebuilt.answers) == {"double", "total", "shift", "quiz_color"}
    assert order(rebuilt) == [
        "double", "test_double", "total", "test_total", GIVEN_STEP, "shift", "test_shift", "quiz_color",
        "test_quiz_color",
    ]  # fmt: skip
    (given,) = [step for step in rebuilt.steps if step.kind == GIVEN_STEP]
    assert given.here and given.there and given.source == GIVEN
    hidden = sources(rebuilt, TEST)
    assert "BEGIN HIDDEN TESTS" in hidden[0] and hidden == [cell.source for cell in release.graded]


def test_a_stub_is_no_answer(chapter: Chapter, release: Release) -> None:
    rebuilt = rebuild(release, chapter.student_notebook.read_bytes())
    assert rebuilt.answers == {} and rebuilt.notes == []
    spaces = completed(chapter, double="def double(x):   \n" + stub(chapter, "double").split("\n", 1)[1] + "\n\n")
    assert "double" not in rebuild(release, content(spaces)).answers
    assert "double" not in rebuild(release, content(completed(chapter, double=" \n"))).answers


def stub(chapter: Chapter, grade_id: str) -> str:
    notebook = json.loads(chapter.student_notebook.read_text())
    found = [c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id]
    return "".join(found[0]["source"])


def test_metadata_outputs_and_tests_of_a_submission_are_not_believed(chapter: Chapter, release: Release) -> None:
    notebook = completed(chapter, double=SQUARE)
    notebook.metadata["kernelspec"] = {"name": "evil", "display_name": "evil", "language": "R"}
    for cell in notebook.cells:
        cell.metadata["tags"] = ["skip-execution"]
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cell.source = "pass"
            cell.metadata["nbgrader"] |= {"points": 1000, "solution": True, "locked": False}
    rebuilt = rebuild(release, content(notebook))
    assert sources(rebuilt, TEST) == [cell.source for cell in release.graded]
    assert rebuilt.notes[0] == "The test cell test_double was changed: restored." and len(rebuilt.notes) == 4


def test_missing_cells(chapter: Chapter, release: Release) -> None:
    rebuilt = rebuild(release, content(without(completed(chapter), "total", "test_double")))
    assert rebuilt.notes == [
        "The cell total is missing: counted as not attempted.",
        "The test cell test_double is missing: restored.",
    ]
    assert "total" not in rebuilt.answers
    assert sources(rebuilt, TEST) == [cell.source for cell in release.graded]


def test_cells_in_another_order_run_in_ours(chapter: Chapter, release: Release) -> None:
    backwards = changed(completed(chapter), lambda copied: copied.cells.reverse())
    assert order(rebuild(release, content(backwards))) == order(rebuild(release, content(completed(chapter))))


def test_of_duplicates_the_first_that_is_no_stub_counts(chapter: Chapter, release: Release) -> None:
    notebook = completed(chapter, double=SQUARE)
    at = place(notebook, "double")
    note = "The cell double is there {} times: the first that differs from the stub counts."
    twice = changed(
        notebook, lambda n: n.cells.insert(at, changed(n.cells[at], lambda c: c.update(id="a", source="x = 1")))
    )
    rebuilt = rebuild(release, content(twice))
    assert rebuilt.answers["double"] == "x = 1" and note.format(2) in rebuilt.notes
    source = stub(chapter, "double")
    stubs = changed(twice, lambda n: n.cells[at].update(source=source))
    stubs.cells.append(changed(notebook.cells[at], lambda c: c.update(id="b", source="y = 1")))
    rebuilt = rebuild(release, content(stubs))
    assert rebuilt.answers["double"] == SQUARE and note.format(3) in rebuilt.notes


def test_a_helper_that_is_needed_runs_right_before_its_answer(chapter: Chapter, release: Release) -> None:
    notebook = completed(chapter, total="def total(values):\n    return add(values)")
    helpers = "from functools import reduce", "def add(values):\n    return reduce(plus, values, 0)", "plus = max"
    rebuilt = rebuild(release, content(inserted(notebook, "total", *helpers, "def unused(): ...", "1 / 0")))
    assert sources(rebuilt, HELPER) == list(helpers)
    assert order(rebuilt)[2:6] == [HELPER, HELPER, HELPER, "total"]
    assert rebuilt.notes == ["2 extra cells ignored."]


def test_one_extra_cell_is_one(chapter: Chapter, release: Release) -> None:
    assert rebuild(release, content(inserted(completed(chapter), "total", "1 / 0"))).notes == ["1 extra cell ignored."]


def test_a_cell_after_all_answers_is_ignored(chapter: Chapter, release: Release) -> None:
    notebook = completed(chapter, double="def double(x):\n    return helper(x)")
    notebook.cells.append(new_code_cell("def helper(x):\n    return x"))
    rebuilt = rebuild(release, content(notebook))
    assert sources(rebuilt, HELPER) == [] and rebuilt.notes == ["1 extra cell ignored."]


def test_the_answer_may_stand_in_a_cell_of_its_own(chapter: Chapter, release: Release) -> None:
    notebook = completed(chapter, double=stub(chapter, "double"))
    for at in ("test_double", "double", "test_quiz_color"):
        rebuilt = rebuild(release, content(inserted(notebook, at, "x = 1", SQUARE)))
        assert rebuilt.answers["double"] == SQUARE
        assert rebuilt.notes == ["The answer to double was found in a cell of its own.", "1 extra cell ignored."]
        assert [step.source for step in rebuilt.steps if step.id == "double"] == [SQUARE]


def test_an_answer_in_its_place_is_preferred(chapter: Chapter, release: Release) -> None:
    rebuilt = rebuild(release, content(inserted(completed(chapter), "test_double", SQUARE)))
    assert rebuilt.answers["double"] == "def double(x):\n    return x + x"
    assert rebuilt.notes == ["1 extra cell ignored."]


def test_an_answer_turned_into_markdown(chapter: Chapter, release: Release) -> None:
    notebook = completed(chapter)
    at = place(notebook, "double")
    markdown = new_markdown_cell(notebook.cells[at].source, metadata=notebook.cells[at].metadata)
    rebuilt = rebuild(release, content(changed(notebook, lambda copied: copied.cells.__setitem__(at, markdown))))
    assert "double" not in rebuilt.answers
    assert rebuilt.notes == ["The cell double is no code cell any more: counted as not attempted."]


def test_a_given_cell_that_was_changed_and_is_needed(chapter: Chapter, release: Release) -> None:
    """The released one runs; what was added to it as well, where an answer needs it."""
    notebook = completed(chapter, shift="def shift(x):\n    return math.floor(x) + OFFSET")
    at = next(i for i, cell in enumerate(notebook.cells) if cell.source == GIVEN)
    mine = GIVEN + "\nimport math"
    rebuilt = rebuild(release, content(changed(notebook, lambda copied: copied.cells[at].update(source=mine))))
    assert order(rebuilt)[4:7] == [GIVEN_STEP, HELPER, "shift"]
    assert sources(rebuilt, GIVEN_STEP) == [GIVEN] and sources(rebuilt, HELPER) == [mine]


def test_a_given_cell_that_was_changed_for_nothing(chapter: Chapter, release: Release) -> None:
    notebook = completed(chapter)
    at = next(i for i, cell in enumerate(notebook.cells) if cell.source == GIVEN)
    rebuilt = rebuild(release, content(changed(notebook, lambda copied: copied.cells[at].update(source="import math"))))
    assert sources(rebuilt, GIVEN_STEP) == [GIVEN] and sources(rebuilt, HELPER) == []
    assert rebuilt.notes == ["1 extra cell ignored."]


def test_magics_stay_in_answers_and_helpers(chapter: Chapter, release: Release) -> None:
    answer = "%matplotlib inline\ndef double(x):\n    return twice(x)"
    helper = "%%time\ndef twice(x):\n    return 2 * x"
    also = "%load_ext autoreload\ndef twice(x):\n    return 2 * x"
    rebuilt = rebuild(release, content(inserted(completed(chapter, double=answer), "double", also)))
    assert rebuilt.answers["double"] == answer and sources(rebuilt, HELPER) == [also]
    rebuilt = rebuild(release, content(inserted(completed(chapter, double=answer), "double", helper)))
    assert rebuilt.answers["double"] == answer


def test_answers_that_are_no_python(chapter: Chapter, release: Release) -> None:
    for source in ("def double(x:", "x = 1\0", "\ud800", "(" * 5000, "x" * 90_000, "é = 'ł' * 2"):
        data = raw(completed(chapter), "double", source)
        rebuilt = rebuild(release, data)
        assert rebuilt.answers["double"] == source.replace("\ud800", "?")
        "".join(step.source for step in rebuilt.steps).encode()


def raw(notebook: NotebookNode, grade_id: str, source: Any) -> bytes:
    """With a source that nbformat would not write."""
    data = json.loads(content(notebook))
    data["cells"][place(notebook, grade_id)]["source"] = source
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    "source", [["def double(x):\n", "    return x * x"], ["def double(x):\n", 5, "    return x * x"]]
)
def test_sources_as_lists_of_lines(chapter: Chapter, release: Release, source: list[Any]) -> None:
    assert rebuild(release, raw(completed(chapter), "double", source)).answers["double"] == SQUARE


@pytest.mark.parametrize("source", [None, 5, {"a": 1}, True])
def test_a_source_that_is_no_text_is_no_answer(chapter: Chapter, release: Release, source: Any) -> None:
    rebuilt = rebuild(release, raw(completed(chapter), "double", source))
    assert set(rebuilt.answers) == {"total", "shift", "quiz_color"}


def test_a_cell_that_is_too_long_concerns_itself_only(chapter: Chapter, release: Release) -> None:
    rebuilt = rebuild(release, content(completed(chapter, double="#" * (module.MAX_SOURCE + 1))))
    assert "longer than 100000 characters" in rebuilt.answers["double"] and len(rebuilt.answers["double"]) < 200
    assert set(rebuilt.answers) == {"double", "total", "shift", "quiz_color"}


def test_byte_order_mark(chapter: Chapter, release: Release) -> None:
    assert rebuild(release, b"\xef\xbb\xbf" + content(completed(chapter))) == rebuild(
        release, content(completed(chapter))
    )


def test_odd_cells_are_passed_over(chapter: Chapter, release: Release) -> None:
    data = json.loads(content(completed(chapter)))
    grader = {"cell_type": "code", "source": "x"}
    odd = [7, None, [], "cell", {}, {"metadata": 5}, {"metadata": {"nbgrader": 5}}, {"cell_type": ["code"]}]
    odd += [grader | {"metadata": {"nbgrader": {"grade_id": id}}} for id in (["double"], 5, None, {}, "other")]
    data["cells"] = odd + data["cells"]
    rebuilt = rebuild(release, json.dumps(data).encode())
    assert rebuilt.answers == rebuild(release, content(completed(chapter))).answers
    assert rebuilt.notes == ["5 extra cells ignored."]


def document(**more: Any) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []} | more).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b'{"cells": [', "not a notebook"),
        (b"\x89PNG\r\n\x1a\n\0\1", "not a notebook"),
        ("{}".encode("utf-16"), "not a notebook"),
        (b"[" * 100_000, "not a notebook"),
        (b'{"cells":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not a notebook"),
        (b"[1, 2]", "no list of cells"),
        (b"null", "no list of cells"),
        (b"1e999", "no list of cells"),
        (b"9" * 5000, "not a notebook"),
        (document(cells={}), "no list of cells"),
        (document(cells=None), "no list of cells"),
        (document(nbformat=3, worksheets=[]), "format 3"),
        (document(nbformat="4"), "format"),
        (document(nbformat=[4] * 1000), "format"),
        (json.dumps({"nbformat": 4}).encode(), "format"),
        (document(), "another notebook"),
        (document(cells=[7, None]), "another notebook"),
        (document(cells=[{}] * 2001), "2001 cells"),
        (b" " * (10 * 2**20 + 1), "too large"),
    ],
    ids=range(21),
)
def test_unreadable(release: Release, data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason) as error:
        rebuild(release, data)
    assert len(str(error.value)) < 300


def test_the_visible_release_knows_no_hidden_test(chapter: Chapter, release: Release) -> None:
    notebook = content(completed(chapter))
    visible = visible_release(chapter.course, notebook)
    assert [cell.grade_id for cell in visible.graded] == [cell.grade_id for cell in release.graded]
    assert "HIDDEN" in release.to_json() and "HIDDEN" not in visible.to_json()
    assert "SOLUTION" not in visible.to_json() and visible.misconceptions == ()
    assert len(rebuild(visible, notebook).answers) == 4


def test_a_release_can_be_sent_anywhere(release: Release) -> None:
    assert Release.from_json(release.to_json()) == release


def test_a_cell_beside_the_answers_runs_where_they_run(release: Release) -> None:
    """Its names are stand-ins in the tests, and it brings along what it uses itself."""
    given = ["import math", "#| beside the answers\ndef half():\n    return math.pi / 2"]
    cells = [*(Cell("", False, source, source) for source in given), Cell("test_a", True, "assert half()", "", 1.0)]
    steps = arrange(replace(release, cells=tuple(cells)), {}, [])
    assert [(step.kind, step.here, step.there) for step in steps] == [
        (GIVEN_STEP, False, True),
        (GIVEN_STEP, False, True),
        (TEST, False, False),
    ]
