"""The one writer of nbgrader's gradebook and of the folders its formgrader reads."""

import contextlib
import json
import os
import shutil
import sqlite3
import warnings
from collections.abc import Mapping
from pathlib import Path

from nbgrader.api import Gradebook, SubmittedNotebook
from sqlalchemy.exc import SAWarning, SQLAlchemyError

from autograder.collect import Submission
from autograder.feedback import message, sentences
from autograder.layout import Course
from autograder.release import Release, register_assignment
from autograder.result import INFRASTRUCTURE, CellResult, Result


class GradebookError(RuntimeError):
    """The gradebook cannot be written. The message says what to do; nothing that was graded is lost."""


def write_marks(course: Course, release: Release, submissions: list[Submission], results: Mapping[str, Result]) -> None:
    """Enter results as `nbgrader autograde` would have. Marks given by hand, and comments, stay.

    A submission that could not be graded has zero marks; one that the grader itself failed on keeps the marks it had.

    Raises:
        ReleaseError: the gradebook holds submissions to a version of the chapter with other cells.
        GradebookError: locked, read-only, damaged, or no room.
    """
    try:
        _can_be_written(course.grading / "gradebook.db")
        _write_all(course, release, submissions, results)
    except (OSError, sqlite3.Error, SQLAlchemyError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise GradebookError(
            f"The gradebook in {course.grading} cannot be written: {reason}. The marks are in the report; close what "
            "else uses the gradebook (formgrader, another run), or make room, and run the same command again."
        ) from None


def _can_be_written(path: Path) -> None:
    """Ask SQLite itself, whose words nbgrader would hide."""
    if path.exists():
        with contextlib.closing(sqlite3.connect(path, timeout=10)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.rollback()


def _write_all(course: Course, release: Release, submissions: list[Submission], results: Mapping[str, Result]) -> None:
    course.grading.mkdir(parents=True, exist_ok=True)
    register_assignment(course, release.chapter_id, release.name, release.notebook)
    with Gradebook(course.gradebook) as gradebook, warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # nbgrader relies on what SQLAlchemy advises against
        for submission in submissions:
            student, result = submission.student, results[submission.student]
            if result.status == INFRASTRUCTURE:
                continue
            gradebook.update_or_create_student(student)
            gradebook.update_or_create_submission(release.chapter_id, student)
            _replace(_folder(course, release, "submitted", student), release, submission.content)
            autograded = json.dumps(result.notebook, indent=1).encode() if result.notebook else None
            _replace(_folder(course, release, "autograded", student), release, autograded)
            _enter(gradebook.find_submission_notebook(release.name, release.chapter_id, student), release, result)
            gradebook.db.commit()


def _enter(submitted: SubmittedNotebook, release: Release, result: Result) -> None:
    """Marks and comments of one student. A cell that the gradebook knows from an earlier release has no marks."""
    scores = {cell.grade_id: cell.score for cell in result.cells}
    for grade in submitted.grades:
        grade.auto_score = scores.get(grade.name, 0.0)
        grade.needs_manual_grade = grade.manual_score is not None
    said = {cell.exercise: _comment(release, cell) for cell in result.cells if not cell.passed}
    for comment in submitted.comments:
        comment.auto_comment = said.get(comment.name)  # what was written by hand stays, and is shown first


def _comment(release: Release, cell: CellResult) -> str:
    """What formgrader and nbgrader's feedback show beside an answer."""
    known = sentences(release)
    return "\n".join([f"{cell.status}: {message(cell)}", *(known[one] for one in cell.misconceptions)])


def _folder(course: Course, release: Release, step: str, student: str) -> Path:
    return course.grading / step / student / release.chapter_id


def _replace(folder: Path, release: Release, content: bytes | None) -> None:
    """One notebook in the folder and nothing else; no folder when there is no content."""
    if content is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{release.name}.tmp"
    temporary.write_bytes(content)
    os.replace(temporary, folder / f"{release.name}.ipynb")
