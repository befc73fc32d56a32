"""Grade one submission with nbgrader's own autograder: a pure function."""

import json
import re
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde

from autograder.layout import Course
from autograder.release import GradedCell, Release, converter_config, run_converter

STUDENT = "student"
MAX_MESSAGE = 4000  # characters of an error message that are kept


@dataclass
class CellResult:
    """One graded cell. `error` is the type of the exception, empty when the cell passed."""

    grade_id: str
    exercise: str
    is_quiz: bool
    score: float
    max_score: float
    error: str = ""
    message: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return self.score == self.max_score

    @property
    def signature(self) -> tuple[str, str, str]:
        """Equal for two submissions whose tests failed with the very same result."""
        return self.grade_id, self.error, self.message


@dataclass
class Result:
    """What became of one submission.

    `status` is "graded"; "unreadable" (the file is no notebook of this chapter); "failed" (its code ended the grading);
    or "infrastructure" (the grader failed, which says nothing about the submission).
    """

    status: str
    reason: str
    cells: list[CellResult]
    notes: list[str] = field(default_factory=list)
    notebook: dict[str, Any] | None = None
    seconds: float = 0.0

    @property
    def score(self) -> float:
        return sum(cell.score for cell in self.cells)

    @property
    def max_score(self) -> float:
        return sum(cell.max_score for cell in self.cells)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str | bytes) -> "Result":
        data = json.loads(text)
        data["cells"] = [CellResult(**cell) for cell in data["cells"]]
        return Result(**data)


def grade_submission(release: Release, submission: bytes) -> Result:
    """Grade one notebook. A pure function: whatever the submission holds, it returns a result.

    Args:
        release: what to grade against.
        submission: the bytes of the file that was handed in.
    """
    started = time.monotonic()
    try:
        notebook, notes = _checked(release, submission)
    except _Unreadable as error:
        result = no_marks(release, "unreadable", str(error))
    else:
        result = _graded(release, notebook, notes)
    result.seconds = round(time.monotonic() - started, 2)
    return result


def no_marks(release: Release, status: str, reason: str) -> Result:
    """Zero for every graded cell."""
    cells = [CellResult(cell.grade_id, cell.exercise, cell.is_quiz, 0.0, cell.points) for cell in release.cells]
    return Result(status, reason, cells)


class _Unreadable(Exception):
    pass


def _checked(release: Release, submission: bytes) -> tuple[NotebookNode, list[str]]:
    """The submitted notebook, its cells marked as in the release, and what is wrong with them."""
    if not submission.strip():
        raise _Unreadable("The file is empty.")
    try:
        data = json.loads(submission.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"The file is not a notebook: {str(error)[:200]}") from None
    if not isinstance(data, dict) or not isinstance(data.get("cells", []), list):
        raise _Unreadable("The file is not a notebook: it has no list of cells.")
    if data.get("nbformat") != 4:
        found = str(data.get("nbformat"))[:20]
        raise _Unreadable(f"The notebook is in format {found}, not 4. Save it again with Jupyter.")
    try:
        notebook = nbformat.reads(json.dumps(data), as_version=4)
        ids = Counter(str(cell.metadata.get("nbgrader", {}).get("grade_id", "")) for cell in notebook.cells)
    except Exception as error:
        raise _Unreadable(f"The notebook's structure is broken: {str(error).splitlines()[0][:200]}") from None
    instructor = nbformat.reads(release.notebook.decode(), as_version=4)
    known = {id: cell for cell in instructor.cells if (id := cell.metadata.get("nbgrader", {}).get("grade_id"))}
    unmarked = dict(known)
    for cell in reversed(notebook.cells):
        # A tag such as skip-execution would let tests pass unseen; nbgrader fails on a cell that was copied.
        original = unmarked.pop(str(cell.metadata.get("nbgrader", {}).get("grade_id", "")), None)
        cell.metadata = {"nbgrader": original.metadata.nbgrader} if original else {}
    if not any(ids[id] for id in known):
        raise _Unreadable(f"None of the cells of {release.chapter_id} is in the file. Is it another notebook?")
    missing = [f"The cell {id} is missing." for id in known if not ids[id]]
    twice = [f"The cell {id} is there {ids[id]} times; the last one counts." for id in known if ids[id] > 1]
    return notebook, missing + twice


def _graded(release: Release, notebook: NotebookNode, notes: list[str]) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        course = Course(Path(folder).resolve())
        place = Path(STUDENT) / release.chapter_id / f"{release.name}.ipynb"
        submitted, autograded = course.grading / "submitted" / place, course.grading / "autograded" / place
        submitted.parent.mkdir(parents=True)
        submitted.write_text(nbformat.writes(notebook), encoding="utf-8")
        (course.grading / "gradebook.db").write_bytes(release.database)
        budget = _Budget(release.cell_timeout)
        config = converter_config(course.root, course.gradebook)
        config.CourseDirectory.assignment_id = release.chapter_id
        config.CourseDirectory.student_id = STUDENT
        # traitlets copies a bound method together with its object, so these are functions
        config.Execute.timeout_func = lambda cell: budget.seconds_left()
        config.Execute.on_cell_execute = lambda cell, cell_index: budget.begin(cell, cell_index)
        config.Execute.shutdown_kernel = "immediate"
        problems = run_converter(Autograde, config)
        if problems or not autograded.is_file():
            result = no_marks(release, "failed", budget.where(_explained(problems, release.cell_timeout)))
            result.notes = notes
            return result
        marked = nbformat.read(autograded, as_version=4)
        with Gradebook(course.gradebook) as gradebook:
            grades = gradebook.find_submission_notebook(release.name, release.chapter_id, STUDENT).grades
            scores = {grade.name: float(grade.auto_score or 0.0) for grade in grades}
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in marked.cells}
    results = [_cell_result(cell, scores, cells, release.cell_timeout) for cell in release.cells]
    return Result("graded", "", results, notes, json.loads(nbformat.writes(marked)))


def _cell_result(
    cell: GradedCell, scores: dict[str, float], cells: dict[str, NotebookNode], cell_timeout: int
) -> CellResult:
    result = CellResult(cell.grade_id, cell.exercise, cell.is_quiz, scores.get(cell.grade_id, 0.0), cell.points)
    if result.passed:
        return result
    if cell.grade_id not in cells:
        result.error, result.message = "MissingCell", "The cell with the tests is missing, so it could not be graded."
        return result
    result.error, result.message = _failure(cells[cell.grade_id], cell_timeout)
    answer = cells.get(cell.exercise)
    if answer is None:
        result.notes.append(f"The cell of {cell.exercise} is missing.")
    elif any(output.output_type == "error" for output in answer.get("outputs", [])):
        error, message = _failure(answer, cell_timeout)
        result.notes.append(f"The cell of {cell.exercise} itself fails with {error}: {message}")
    return result


def _failure(cell: NotebookNode, cell_timeout: int) -> tuple[str, str]:
    """Type and text of the exception. Never the traceback: it shows the source of hidden tests."""
    errors = [output for output in cell.get("outputs", []) if output.output_type == "error"]
    if any(error.ename == "CellTimeoutError" for error in errors):
        return "CellTimeoutError", f"It ran for more than {cell_timeout} seconds and was stopped."
    if errors:
        return plain(errors[0].ename), plain(errors[0].evalue)
    written = [output.text for output in cell.get("outputs", []) if output.get("name") == "stderr"]
    found = re.findall(r"^.*?: (\w*Warning: .*)$", plain("".join(written)), flags=re.MULTILINE)
    if written:
        # Only the first line of a warning: the next one quotes the source.
        return "Warning", "\n".join(["Something was written to the error stream while the tests ran.", *found])
    return "", ""


def plain(text: str) -> str:
    """Text without terminal colours and control characters, cut to a length that can be shown."""
    text = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|.)", "", text)
    text = "".join(character for character in text if character in "\n\t" or character.isprintable())
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + " …"


class _Budget:
    """The time a notebook may take: per cell what the release says, in all five times as much."""

    def __init__(self, cell_timeout: int) -> None:
        self.cell_timeout = cell_timeout
        self.end = time.monotonic() + 5 * cell_timeout
        self.cell = ""

    def begin(self, cell: NotebookNode, cell_index: int) -> None:
        self.cell = cell.metadata.get("nbgrader", {}).get("grade_id") or f"number {cell_index + 1}"

    def seconds_left(self) -> int:
        return max(1, min(self.cell_timeout, int(self.end - time.monotonic())))

    def where(self, reason: str) -> str:
        return f"{reason} This happened in the cell {self.cell}." if self.cell else reason


def _explained(problems: list[str], cell_timeout: int) -> str:
    text = "\n".join(problems)
    if "DeadKernelError" in text:
        return "Running the notebook ended its Python process."
    if "CellTimeoutError" in text:
        return f"A cell ran for more than {cell_timeout} seconds and could not be stopped."
    # The exception behind the first traceback; what nbgrader adds around it names temporary folders.
    lines = [line for line in text.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return plain(f"nbgrader could not grade the notebook: {lines[0][:300] if lines else 'unknown reason'}.")
