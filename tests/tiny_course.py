"""A course of one chapter that is graded in a second: three exercises and a quiz question, no torch."""

import copy
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.apps import NbGraderAPI

from autograder.layout import Chapter, Course
from autograder.publish import nbgrader_config

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
HIDDEN = "secret_of_the_hidden_tests"

DOUBLE = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
TEST_DOUBLE = f"""assert double(1) == 2, f"double(1) should be 2, not {{double(1)}}."
### BEGIN HIDDEN TESTS
{HIDDEN} = double(21)
assert {HIDDEN} == 42, f"double(21) should be 42, not {{{HIDDEN}}}."
### END HIDDEN TESTS"""
TOTAL = "def total(values):\n    ### BEGIN SOLUTION\n    return sum(values)\n    ### END SOLUTION"
TEST_TOTAL = """assert total([1, 2]) == 3, f"total([1, 2]) should be 3, not {total([1, 2])}."
### BEGIN HIDDEN TESTS
assert total([]) == 0, f"total([]) should be 0, not {total([])}."
### END HIDDEN TESTS"""
GIVEN = "import os\nimport random\n\nOFFSET = 10"
SHIFT = "def shift(x):\n    ### BEGIN SOLUTION\n    return x + OFFSET\n    ### END SOLUTION"
TEST_SHIFT = """# the offset is added
assert shift(1) == 1 + OFFSET, f"shift(1) should be {1 + OFFSET}, not {shift(1)}."
### BEGIN HIDDEN TESTS
# it depends on the seed
number = random.Random(os.environ.get("COURSE_SEED", "")).randrange(100, 10**9)
assert shift(number) == number + OFFSET, f"shift({number}) should be {number + OFFSET}, not {shift(number)}."
### END HIDDEN TESTS"""
QUIZ = '### BEGIN SOLUTION\nquiz_color = "c"\n### END SOLUTION'
TEST_QUIZ = """assert quiz_color in ("a", "b", "c"), "quiz_color should be one of a, b, c."
### BEGIN HIDDEN TESTS
assert quiz_color == "c", "the key is c"
### END HIDDEN TESTS"""
MISCONCEPTIONS = """from autograder.misconceptions import misconception

@misconception("double", "square", "Doubling is not "
               "<b>squaring</b>.")
def double(x):
    return x ** 2

@misconception("total", "first-value", "Every value counts, not only the first.")
def total(values):
    return values[0]
"""


FULL = {"test_double": 2.0, "test_total": 3.0, "test_shift": 4.0, "test_quiz_color": 1.0}
NOTHING = dict.fromkeys(FULL, 0.0)


def make_course(root: Path) -> Chapter:
    """Write the sources, and what nbgrader releases of them."""
    for name, data in _files().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "autograder").mkdir()
    return Course(root).chapter("01-tiny")


@cache
def _files() -> dict[str, bytes]:
    """Path → content of everything in the course, so that nbgrader runs once."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        course = Course(root)
        (root / "solutions" / "01-tiny").mkdir(parents=True)
        course.grading.mkdir()
        (root / "solutions" / "01-tiny" / "tiny.md").write_text("# Tiny\n")
        (root / "solutions" / "01-tiny" / "misconceptions.py").write_text(MISCONCEPTIONS)
        chapter = course.chapter("01-tiny")
        nbformat.write(_instructor_notebook(), chapter.instructor_notebook)
        config = nbgrader_config(course)
        config.CourseDirectory.db_url = f"sqlite:///{root / 'stock.db'}"
        assert NbGraderAPI(config=config).generate_assignment(chapter.id)["success"]
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def completed(chapter: Chapter, **answers: str) -> NotebookNode:
    """The student's notebook with right answers, and those given here instead."""
    right = {"double": "def double(x):\n    return x + x", "total": "def total(values):\n    return sum(values)"}
    right |= {"shift": "def shift(x):\n    return OFFSET + x"}
    sources = right | {"quiz_color": 'quiz_color = "c"'} | answers
    notebook = nbformat.read(chapter.student_notebook, as_version=4)
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = sources.get(grade_id, cell.source)
    return notebook


def without(notebook: NotebookNode, *grade_ids: str) -> NotebookNode:
    cells = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") not in grade_ids]
    return changed(notebook, lambda copied: copied.update(cells=cells))


def changed(notebook: NotebookNode, change: Callable[[NotebookNode], object]) -> NotebookNode:
    copied = copy.deepcopy(notebook)
    change(copied)
    return copied


def content(notebook: NotebookNode) -> bytes:
    return nbformat.writes(notebook).encode()


def _instructor_notebook() -> NotebookNode:
    return new_notebook(
        metadata={"kernelspec": KERNEL},
        cells=[
            new_markdown_cell("# Tiny", id="title"),
            _cell(DOUBLE, "double", {"exercise": "double", "difficulty": 1, "minutes": 1}),
            _cell(TEST_DOUBLE, "test_double", {"tests": "double"}, points=2),
            _cell(TOTAL, "total", {"exercise": "total", "difficulty": 1, "minutes": 1}),
            _cell(TEST_TOTAL, "test_total", {"tests": "total"}, points=3),
            new_code_cell(GIVEN, id="given"),
            _cell(SHIFT, "shift", {"exercise": "shift", "difficulty": 1, "minutes": 1}),
            _cell(TEST_SHIFT, "test_shift", {"tests": "shift"}, points=4),
            _cell(QUIZ, "quiz_color", {"quiz": "color"}),
            _cell(TEST_QUIZ, "test_quiz_color", {"quiz": "color"}, points=1),
        ],
    )


def _cell(source: str, grade_id: str, course: dict, points: int | None = None) -> NotebookNode:
    graded = points is not None
    options = {"grade": graded, "grade_id": grade_id, "locked": graded, "solution": not graded, "task": False}
    options |= {"schema_version": 3, "points": points} if graded else {"schema_version": 3}
    return new_code_cell(source, id=grade_id, metadata={"nbgrader": options, "course": course})
