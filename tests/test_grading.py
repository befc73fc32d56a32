"""Grading a class: marks and reasons, those of nbgrader, and nothing twice."""

import json
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from tiny_course import FULL, HIDDEN, NOTHING, changed, completed, content, without

from autograder import classroom
from autograder.classroom import How, grade_class, seed_of
from autograder.collect import Submission
from autograder.layout import Chapter
from autograder.publish import nbgrader_config
from autograder.release import Release, build_release, visible_release
from autograder.result import GRADED, UNREADABLE, CellResult, Result

WARNS = "import warnings\ndef double(x):\n    warnings.warn('old', stacklevel=2)\n    return 2 * x"
RED = 'def double(x):\n    raise ValueError("\\x1b[31m<script>red</script>")'
SQUARE = "def double(x):\n    return x * x"
QUIET = How(progress=False)
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


def notebooks(chapter: Chapter) -> dict[str, bytes]:
    """One submission of every kind."""
    good = completed(chapter)
    answers = {
        "full": {},
        "squares": {"double": SQUARE},
        "thrice": {"double": "def double(x):\n    return 3 * x"},
        "hidden-only": {"double": "def double(x):\n    return {1: 2}.get(x, 7)"},
        "red": {"double": RED},
        "warns": {"double": WARNS},
        "prints": {"double": "print('hello')\ndef double(x):\n    print(x)\n    return 2 * x"},
        "quizzed": {"quiz_color": 'quiz_color = "a"'},
        "syntax": {"double": "def double(x:\n    return 2 * x"},
        "cell-fails": {"total": "1 / 0\ndef total(values):\n    return sum(values)"},
        "endless": {"double": "def double(x):\n    while True:\n        pass"},
        "endless-cell": {"double": "while True:\n    pass"},
        "exits": {"total": "import os\nos._exit(0)"},
        "exits-when-called": {"double": "import os\ndef double(x):\n    os._exit(0)"},
        "hungry": {"double": "def double(x):\n    return 2 * x if len(bytearray(3 * 2**30)) else 0"},
        "own-offset": {"shift": "OFFSET = 11\ndef shift(x):\n    return x + OFFSET"},
        "magic": {"double": "%timeit -n1 -r1 1\n" + SQUARE.replace("x * x", "x + x")},
    }
    made = {student: content(completed(chapter, **changes)) for student, changes in answers.items()}
    made |= {"stub": chapter.student_notebook.read_bytes(), "no-tests": content(without(good, "test_total"))}
    rewritten = changed(completed(chapter, double=SQUARE), lambda n: n.cells[2].update(source="pass"))
    return made | {
        "no-answer": content(without(good, "total")),
        "rewritten": content(rewritten),
        "broken": b'{"cells": [',
    }


@pytest.fixture(scope="module")
def release(chapter: Chapter) -> Release:
    return build_release(chapter, cell_timeout=2)


@pytest.fixture(scope="module")
def submissions(chapter: Chapter) -> list[Submission]:
    return [Submission(student, f"{student}.ipynb", data) for student, data in notebooks(chapter).items()]


@pytest.fixture(scope="module")
def results(jail: str, chapter: Chapter, release: Release, submissions: list[Submission]) -> dict[str, Result]:
    missing = Submission("missing", "missing.ipynb", problem="There is no notebook.")
    return grade_class(chapter.course, release, [*submissions, missing], QUIET)


def marks(result: Result) -> dict[str, float]:
    return {cell.grade_id: cell.score for cell in result.cells}


def cell(result: Result, grade_id: str) -> CellResult:
    return next(cell for cell in result.cells if cell.grade_id == grade_id)


# --- marks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("student", "lost", "status", "message"),
    [
        ("full", "", "", ""),
        ("warns", "", "", ""),
        ("prints", "", "", ""),
        ("magic", "", "", ""),
        ("no-tests", "", "", ""),
        ("squares", "test_double", "wrong", "double(1) should be 2, not 1."),
        ("thrice", "test_double", "wrong", "double(1) should be 2, not 3."),
        ("hidden-only", "test_double", "wrong", "double(21) should be 42, not 7."),
        ("rewritten", "test_double", "wrong", "double(1) should be 2, not 1."),
        ("red", "test_double", "crashed", "<script>red</script>"),
        ("quizzed", "test_quiz_color", "wrong", "the key is c"),
        ("no-answer", "test_total", "not attempted", "Not attempted."),
        ("syntax", "test_double", "crashed", "never closed"),
        ("cell-fails", "test_total", "crashed", "division by zero"),
        ("endless", "test_double", "timed out", "more than 2 seconds"),
        ("endless-cell", "test_double", "timed out", "more than 2 seconds"),
        ("exits", "test_total", "crashed", "ended the Python process"),
        ("exits-when-called", "test_double", "crashed", "ended the Python process"),
        ("hungry", "test_double", "out of memory", ""),
        ("own-offset", "test_shift", "wrong", "shift(1) should be 11, not 12."),
    ],
)
def test_marks(results: dict[str, Result], student: str, lost: str, status: str, message: str) -> None:
    result = results[student]
    assert (result.status, result.reason) == (GRADED, "")
    assert marks(result) == FULL | (dict.fromkeys([lost], 0.0) if lost else {})
    if lost:
        assert cell(result, lost).status == status
        assert message in cell(result, lost).message


def test_a_stub_has_no_marks(results: dict[str, Result]) -> None:
    assert marks(results["stub"]) == NOTHING and results["stub"].status == GRADED
    assert {cell.status for cell in results["stub"].cells} == {"not attempted"}


@pytest.mark.parametrize(("student", "reason"), [("broken", "not a notebook"), ("missing", "There is no notebook.")])
def test_no_marks_with_a_reason(results: dict[str, Result], student: str, reason: str) -> None:
    assert results[student].status == UNREADABLE and reason in results[student].reason
    assert marks(results[student]) == NOTHING


def test_notes_checks_and_traces(results: dict[str, Result]) -> None:
    assert results["no-answer"].notes == ["The cell total is missing: counted as not attempted."]
    assert results["no-tests"].notes == ["The test cell test_total is missing: restored."]
    assert results["rewritten"].notes == ["The test cell test_double was changed: restored."]
    assert [check.status for check in cell(results["hidden-only"], "test_double").checks] == ["right", "wrong"]
    assert cell(results["squares"], "test_double").misconceptions == ["square"]
    assert cell(results["thrice"], "test_double").misconceptions == []
    assert "in double, line 2: raise ValueError" in cell(results["red"], "test_double").traceback
    assert "itself fails with ZeroDivisionError" in cell(results["cell-fails"], "test_total").notes[0]
    assert cell(results["prints"], "test_double").output == "hello\n"


def test_the_graded_notebook_holds_no_hidden_test(results: dict[str, Result]) -> None:
    for student, result in results.items():
        text = json.dumps(result.notebook)
        assert HIDDEN not in text and "HIDDEN TESTS" not in text, student
        assert (result.notebook is None) == (result.status != GRADED)
    assert SQUARE in [one["source"] for one in results["squares"].notebook["cells"]]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -1.0])
def test_impossible_points_are_an_error(score: float) -> None:
    with pytest.raises(ValueError, match="points are impossible"):
        Result(GRADED, "", [CellResult("test_a", "a", False, score, "right")])


def test_results_can_be_stored(results: dict[str, Result]) -> None:
    for result in results.values():
        assert Result.from_json(result.to_json()) == result


def test_same_marks_as_nbgrader(
    chapter: Chapter, results: dict[str, Result], submissions: list[Submission], tmp_path: Path
) -> None:
    """`nbgrader autograde` itself. It takes points for a warning, so "warns" is not compared; neither what kills it."""
    chosen = ["full", "stub", "squares", "hidden-only", "quizzed", "no-answer", "rewritten"]
    config = nbgrader_config(chapter.course)
    config.CourseDirectory.db_url = f"sqlite:///{chapter.course.root / 'stock.db'}"
    config.CourseDirectory.submitted_directory = str(tmp_path / "submitted")
    config.CourseDirectory.autograded_directory = str(tmp_path / "autograded")
    for submission in submissions:
        if submission.student in chosen and submission.content:
            folder = tmp_path / "submitted" / submission.student / chapter.id
            folder.mkdir(parents=True)
            (folder / f"{chapter.name}.ipynb").write_bytes(submission.content)
    assert NbGraderAPI(config=config).autograde(chapter.id, "*")["success"]
    with Gradebook(config.CourseDirectory.db_url) as gradebook:
        for student in chosen:
            grades = gradebook.find_submission_notebook(chapter.name, chapter.id, student).grades
            assert {grade.name: float(grade.auto_score or 0) for grade in grades} == marks(results[student]), student


# --- the same again --------------------------------------------------------------------------------------------------


def never(*args: object) -> None:
    raise AssertionError("nothing should be graded")


def test_a_second_run_is_cached(
    chapter: Chapter, release: Release, submissions: list[Submission], results: dict[str, Result], monkeypatch
) -> None:
    monkeypatch.setattr(classroom, "Grader", never)
    again = grade_class(chapter.course, release, submissions, QUIET)
    assert again == {student: result for student, result in results.items() if student != "missing"}
    with pytest.raises(AssertionError, match="nothing should be graded"):
        grade_class(chapter.course, build_release(chapter, cell_timeout=3), submissions, QUIET)


def test_what_is_kept_depends_on_the_release(chapter: Chapter, release: Release) -> None:
    assert build_release(chapter, cell_timeout=6).digest != release.digest
    assert build_release(chapter, cell_timeout=2) == release
    assert visible_release(chapter.course, chapter.student_notebook.read_bytes(), 2).digest != release.digest


def test_seeds(chapter: Chapter, release: Release, results: dict[str, Result], submissions: list[Submission]) -> None:
    seeds = {result.seed for result in results.values() if result.status == GRADED}
    assert len(seeds) == len(submissions) - 1 and all(len(seed) == 16 for seed in seeds)
    full = next(one for one in submissions if one.student == "full")
    assert results["full"].seed == seed_of(chapter.course, release, full)
    secret = chapter.course.grading / "secret.txt"
    assert secret.stat().st_mode & 0o077 == 0
    before = secret.read_bytes()
    try:
        secret.write_bytes(b"another")
        assert results["full"].seed != seed_of(chapter.course, release, full)
    finally:
        secret.write_bytes(before)
