"""One page of feedback for each student: marks, what failed, and the sentence that helps."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autograder.grade import CellResult, Result
from autograder.layout import Course
from autograder.misconceptions import Misconception
from autograder.release import Release

Signature = tuple[str, str, str]

templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
templates.filters["marks"] = lambda value: f"{value:.2f}".rstrip("0").rstrip(".")


class Recognised:
    """Misconceptions by what the tests say when they meet them."""

    def __init__(self, graded: Iterable[tuple[Misconception, Result]]) -> None:
        self.by_signature: dict[Signature, list[Misconception]] = {}
        for misconception, result in graded:
            for cell in result.cells:
                if cell.exercise == misconception.exercise and not cell.passed and cell.error:
                    self.by_signature.setdefault(cell.signature, []).append(misconception)

    def of(self, cell: CellResult) -> list[Misconception]:
        """The misconceptions whose tests fail with the very same result as this cell."""
        return [] if cell.passed else self.by_signature.get(cell.signature, [])

    def sentences(self, cell: CellResult) -> list[str]:
        return list(dict.fromkeys(misconception.sentence for misconception in self.of(cell)))


def message(cell: CellResult) -> str:
    """What a student may read about a failed cell. The key of a quiz stays secret."""
    if cell.is_quiz and cell.error == "AssertionError":
        return "This is not the right choice. Read the question again, option by option."
    if cell.error in ("AssertionError", "MissingCell", "CellTimeoutError", "Warning"):
        return cell.message or "A test failed."
    return f"{cell.error}: {cell.message}" if cell.message else cell.error


def write_feedback(
    course: Course, release: Release, results: Mapping[str, Result], recognised: Recognised
) -> list[Path]:
    """Write autograder/reports/CHAPTER/feedback/STUDENT.html for every student, and say where.

    Not in nbgrader's own autograder/feedback/: it skips every folder that exists, or empties it.
    """
    folder = course.grading / "reports" / release.chapter_id / "feedback"
    folder.mkdir(parents=True, exist_ok=True)
    template = templates.get_template("feedback.html")
    paths = []
    for student, result in results.items():
        rows = [(cell, message(cell), recognised.sentences(cell)) for cell in result.cells]
        page = template.render(chapter=release.chapter_id, student=student, result=result, rows=rows)
        path = folder / f"{student}.html"
        path.write_text(page, encoding="utf-8")
        paths.append(path)
    return paths
