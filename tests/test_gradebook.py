"""nbgrader's gradebook: marks go in, what people entered stays, and one that cannot be written is no disaster."""

import csv
import errno
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from tiny_course import FULL, NOTHING, completed, content, without
from typer.testing import CliRunner

from autograder import commands_grade
from autograder.classroom import How, grade_class
from autograder.collect import Submission
from autograder.gradebook import GradebookError, write_marks
from autograder.layout import Chapter, Course
from autograder.publish import nbgrader_config
from autograder.release import Release, ReleaseError
from autograder.result import INFRASTRUCTURE, UNREADABLE, Result, no_marks

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


@pytest.fixture(scope="module")
def submissions(chapter: Chapter) -> dict[str, Submission]:
    good = completed(chapter)
    notebooks = {
        "full": content(good),
        "squares": content(completed(chapter, double="def double(x):\n    return x * x")),
        "stub": chapter.student_notebook.read_bytes(),
        "no-answer": content(without(good, "total", "test_shift")),
        "broken": b'{"cells": [',
    }
    return {student: Submission(student, f"{student}.ipynb", data) for student, data in notebooks.items()}


@pytest.fixture(scope="module")
def results(jail: str, chapter: Chapter, release: Release, submissions: dict[str, Submission]) -> dict[str, Result]:
    return grade_class(chapter.course, release, list(submissions.values()), How(progress=False))


@pytest.fixture(scope="module")
def written(
    chapter: Chapter, release: Release, submissions: dict[str, Submission], results: dict[str, Result]
) -> Course:
    write_marks(chapter.course, release, list(submissions.values()), results)
    return chapter.course


def marks(result: Result) -> dict[str, float]:
    return {cell.grade_id: cell.score for cell in result.cells}


def scores(course: Course, chapter: Chapter, student: str) -> dict[str, float]:
    with Gradebook(course.gradebook) as gradebook:
        grades = gradebook.find_submission_notebook(chapter.name, chapter.id, student).grades
        return {grade.name: float(grade.score) for grade in grades}


def test_it_holds_the_marks(chapter: Chapter, written: Course, results: dict[str, Result]) -> None:
    for student, result in results.items():
        assert scores(written, chapter, student) == marks(result), student
    assert scores(written, chapter, "no-answer") == FULL | {"test_total": 0.0}


def test_what_was_handed_in_is_kept(
    chapter: Chapter, written: Course, submissions: dict[str, Submission], results: dict[str, Result]
) -> None:
    for student, submission in submissions.items():
        folder = written.grading / "submitted" / student / chapter.id
        assert [path.name for path in folder.iterdir()] == ["tiny.ipynb"]
        assert (folder / "tiny.ipynb").read_bytes() == submission.content
        autograded = written.grading / "autograded" / student / chapter.id / "tiny.ipynb"
        assert autograded.is_file() == (results[student].status == "graded")


def test_nbgrader_goes_on_working(chapter: Chapter, written: Course, tmp_path: Path) -> None:
    feedback = NbGraderAPI(config=nbgrader_config(written)).generate_feedback(chapter.id, force=False)
    assert feedback["success"], feedback
    assert (written.grading / "feedback" / "full" / chapter.id / f"{chapter.name}.html").is_file()
    table = tmp_path / "grades.csv"
    export = [sys.executable, "-m", "nbgrader", "export", f"--CourseDirectory.db_url={written.gradebook}"]
    subprocess.run([*export, "--NbGrader.logfile=", "--to", str(table)], cwd=tmp_path, check=True, capture_output=True)
    rows = {row["student_id"]: float(row["score"]) for row in csv.DictReader(table.open())}
    assert rows == {"full": 10, "squares": 8, "stub": 0, "no-answer": 7, "broken": 0}


def test_grading_again_replaces_marks_and_keeps_those_given_by_hand(
    chapter: Chapter, written: Course, release: Release, submissions: dict[str, Submission], results: dict[str, Result]
) -> None:
    def regrade(like: str) -> dict[str, float]:
        again = Submission("regraded", "", submissions[like].content)
        write_marks(written, release, [again], {"regraded": results[like]})
        return scores(written, chapter, "regraded")

    assert regrade("full") == FULL
    assert regrade("no-answer") == FULL | {"test_total": 0.0}
    with Gradebook(written.gradebook) as gradebook:
        grade = gradebook.find_grade("test_double", chapter.name, chapter.id, "regraded")
        grade.manual_score, grade.extra_credit = 1.5, 0.25
        notebook = gradebook.find_submission_notebook(chapter.name, chapter.id, "regraded")
        notebook.late_submission_penalty = 0.5
        gradebook.find_comment("double", chapter.name, chapter.id, "regraded").manual_comment = "Well tried."
        gradebook.db.commit()
    assert regrade("stub") == NOTHING | {"test_double": 1.75}
    failed = {"regraded": no_marks(release.graded, INFRASTRUCTURE, "x")}
    write_marks(written, release, [Submission("regraded", "", b"")], failed)
    assert scores(written, chapter, "regraded") == NOTHING | {"test_double": 1.75}, "not graded: everything stays"
    assert regrade("broken") == NOTHING | {"test_double": 1.75}
    assert not (written.grading / "autograded" / "regraded" / chapter.id).exists()
    assert regrade("full") == FULL | {"test_double": 1.75}
    with Gradebook(written.gradebook) as gradebook:
        notebook = gradebook.find_submission_notebook(chapter.name, chapter.id, "regraded")
        assert notebook.late_submission_penalty == 0.5
        comment = gradebook.find_comment("double", chapter.name, chapter.id, "regraded")
        assert comment.manual_comment == comment.comment == "Well tried."


def test_what_the_grader_fails_on_makes_no_entry(chapter: Chapter, written: Course, release: Release) -> None:
    failed = {"unlucky": no_marks(release.graded, INFRASTRUCTURE, "x")}
    write_marks(written, release, [Submission("unlucky", "", b"")], failed)
    with Gradebook(written.gradebook) as gradebook:
        assert "unlucky" not in [student.id for student in gradebook.students]
    assert not (written.grading / "submitted" / "unlucky").exists()


def test_no_file_is_zero(chapter: Chapter, written: Course, release: Release) -> None:
    missing = Submission("missing", "missing/report.pdf", problem="There is no notebook.")
    write_marks(written, release, [missing], {"missing": no_marks(release.graded, UNREADABLE, "There is no notebook.")})
    assert scores(written, chapter, "missing") == NOTHING


def test_other_cells_are_refused_when_there_are_marks(
    written: Course, release: Release, results: dict[str, Result]
) -> None:
    other = Release(**{**vars(release), "notebook": release.notebook.replace("test_total", "test_sum")})
    with pytest.raises(ReleaseError, match="submissions associated"):
        write_marks(written, other, [Submission("full", "", b"")], results)


# --- a gradebook that cannot be written ------------------------------------------------------------------------------


@pytest.fixture
def separate(chapter: Chapter, results: dict[str, Result], tmp_path: Path) -> Chapter:
    """The same chapter with what was graded already, and a gradebook of its own."""
    course = Course(chapter.course.root, tmp_path / "grading")
    course.grading.mkdir()
    (course.grading / "secret.txt").write_bytes((chapter.course.grading / "secret.txt").read_bytes())
    return course.chapter(chapter.id)


def grade_command(chapter: Chapter, submissions: dict[str, Submission], folder: Path) -> tuple[int, str]:
    folder.mkdir(exist_ok=True)
    for student, submission in submissions.items():
        (folder / f"{student}.ipynb").write_bytes(submission.content or b"")
    app = typer.Typer()
    commands_grade.register(app, lambda: chapter.course)
    done = CliRunner().invoke(app, ["grade", str(folder), "--chapter", chapter.id])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def told(chapter: Chapter, output: str) -> None:
    """The sentence, and marks that are not lost."""
    assert "The gradebook in" in output and "cannot be written" in output and "run the same command again" in output
    assert "Traceback" not in output
    rows = list(csv.reader((chapter.course.grading / "reports" / chapter.id / "marks.csv").open()))
    assert [row[:2] for row in rows[1:]] == [
        ["broken", "0"], ["full", "10"], ["no-answer", "7"], ["squares", "8"], ["stub", "0"],
    ]  # fmt: skip


def test_locked(separate: Chapter, submissions: dict[str, Submission], tmp_path: Path) -> None:
    code, output = grade_command(separate, submissions, tmp_path / "class")
    assert code == 0, output
    assert scores(separate.course, separate, "squares")["test_double"] == 0
    with sqlite3.connect(separate.course.grading / "gradebook.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        code, output = grade_command(separate, submissions, tmp_path / "class")
        other.rollback()
    other.close()
    assert code == 1 and "locked" in output
    told(separate, output)
    assert grade_command(separate, submissions, tmp_path / "class")[0] == 0


def test_no_room(
    separate: Chapter, submissions: dict[str, Submission], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "class").mkdir()
    original = Path.write_bytes

    def full_disk(path: Path, data: bytes) -> int:
        if "grading" in path.parts and "submitted" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full_disk)
        code, output = grade_command(separate, submissions, tmp_path / "class")
    assert code == 1 and "No space left on device" in output
    told(separate, output)
    assert grade_command(separate, submissions, tmp_path / "class")[0] == 0
    assert scores(separate.course, separate, "full") == FULL


@pytest.mark.parametrize("name", ["submitted", "autograded"])
def test_a_file_where_a_folder_should_be(
    separate: Chapter, submissions: dict[str, Submission], tmp_path: Path, name: str
) -> None:
    (separate.course.grading / name).write_text("in the way")
    code, output = grade_command(separate, submissions, tmp_path / "class")
    assert code == 1
    told(separate, output)


@pytest.mark.parametrize("damage", ["folder", "noise"])
def test_damaged(separate: Chapter, submissions: dict[str, Submission], tmp_path: Path, damage: str) -> None:
    path = separate.course.grading / "gradebook.db"
    path.mkdir() if damage == "folder" else path.write_bytes(b"no database at all, but long enough" * 100)
    code, output = grade_command(separate, submissions, tmp_path / "class")
    assert code == 1
    told(separate, output)


def test_the_error_itself(
    written: Course, release: Release, submissions: dict[str, Submission], results: dict[str, Result], monkeypatch
) -> None:
    monkeypatch.setattr("autograder.gradebook.os.replace", lambda *_: (_ for _ in ()).throw(OSError(30, "Read-only")))
    with pytest.raises(GradebookError, match=r"cannot be written: .*Read-only") as error:
        write_marks(written, release, [submissions["full"]], results)
    assert error.value.__cause__ is None and "\n" not in str(error.value)


def test_comments_say_what_is_wrong(
    chapter: Chapter, written: Course, release: Release, results: dict[str, Result]
) -> None:
    """Beside the answer in formgrader; what an instructor wrote by hand stays."""

    def comments() -> dict[str, str | None]:
        with Gradebook(written.gradebook) as gradebook:
            found = gradebook.find_submission_notebook(chapter.name, chapter.id, "squares").comments
            return {comment.name: comment.comment for comment in found}

    assert comments()["double"] == "wrong: double(1) should be 2, not 1.\nDoubling is not <b>squaring</b>."
    assert comments()["total"] is None
    with Gradebook(written.gradebook) as gradebook:
        gradebook.find_comment("double", chapter.name, chapter.id, "squares").manual_comment = "See me."
        gradebook.db.commit()
    write_marks(written, release, [Submission("squares", "", b"")], {"squares": results["squares"]})
    assert comments()["double"] == "See me."
