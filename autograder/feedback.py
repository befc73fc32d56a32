"""One page of feedback for each student: marks, each check in words, and the sentence that helps."""

from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autograder.layout import Course
from autograder.release import Release
from autograder.result import CRASHED, CellResult, Check, Result

templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
templates.filters["marks"] = lambda value: f"{value:.2f}".rstrip("0").rstrip(".")
PLAIN = ("", "AssertionError", "NotAttempted", "NameError")  # types of exceptions that say nothing more
NOT_THE_KEY = "This is not the right choice. Read the question again, option by option."


def message(cell: CellResult) -> str:
    """What a student may read about a failed cell. The key of a quiz stays secret."""
    if cell.is_quiz and cell.error == "AssertionError":
        return NOT_THE_KEY
    if cell.status == CRASHED and cell.error not in (*PLAIN, cell.status) and not cell.message.startswith(cell.error):
        return f"{cell.error}: {cell.message}" if cell.message else cell.error
    return cell.message


def checks(cell: CellResult) -> list[Check]:
    """The checks of a cell as a student may read them."""
    if cell.is_quiz:
        return []
    return cell.checks


def sentences(release: Release) -> dict[str, str]:
    """Misconception → what helps."""
    return {one.id: one.sentence for one in release.misconceptions}


def write_feedback(course: Course, release: Release, results: Mapping[str, Result]) -> list[Path]:
    """Write autograder/reports/CHAPTER/feedback/STUDENT.html for every student, and say where.

    Not in nbgrader's own autograder/feedback/: it skips every folder that exists, or empties it.
    """
    folder = course.reports(release.chapter_id) / "feedback"
    folder.mkdir(parents=True, exist_ok=True)
    template, known = templates.get_template("feedback.html"), sentences(release)
    paths = []
    for student, result in results.items():
        rows = [
            (cell, message(cell), checks(cell), list(dict.fromkeys(known[one] for one in cell.misconceptions)))
            for cell in result.cells
        ]
        page = template.render(chapter=release.chapter_id, student=student, result=result, rows=rows)
        path = folder / f"{student}.html"
        path.write_text(page, encoding="utf-8")
        paths.append(path)
    return paths
