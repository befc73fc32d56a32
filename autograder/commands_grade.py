"""The commands that grade: `grade`, `audit`, `sample-class`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autograder.audit import audit
from autograder.classroom import grade_class
from autograder.collect import CollectError, collect
from autograder.feedback import write_feedback
from autograder.gradebook import write_marks
from autograder.layout import Chapter, Course, here
from autograder.misconceptions import MisconceptionError
from autograder.release import NotPublished, ReleaseError, build_release
from autograder.report import write_report
from autograder.samples import recognise, write_sample_class

console = Console()
errors = Console(stderr=True)

ChapterOption = Annotated[str, typer.Option("--chapter", help="The chapter, such as 02-self-attention.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes at the same time; by default one a processor.")]


def register(app: typer.Typer, course: Callable[[], Course] = here) -> None:
    """Add the commands to the command line; `course` says which checkout they work on."""

    @app.command("grade")
    def grade_command(
        submissions: Annotated[Path, typer.Argument(help="A folder or a zip file, as Moodle or Canvas make it.")],
        chapter: ChapterOption,
        workers: Workers = None,
    ) -> None:
        """Grade a class: marks into nbgrader's gradebook, a report, and a page of feedback for each student.

        SUBMISSIONS holds STUDENT/CHAPTER/NAME.ipynb (nbgrader's layout), STUDENT/NAME.ipynb or STUDENT.ipynb.
        What was graded before is not graded again. A file that cannot be graded is reported and stops nobody else.
        """
        with _clear_errors():
            _grade(course(), course().chapter(chapter), submissions, workers)

    @app.command("audit")
    def audit_command(
        chapter: Annotated[str | None, typer.Option("--chapter", help="One chapter; by default all of them.")] = None,
        workers: Workers = None,
    ) -> None:
        """Check the tests: the reference has full marks, the stub none, every misconception loses its points."""
        deviations = []
        with _clear_errors():
            for one in [course().chapter(chapter)] if chapter else course().chapters:
                found = audit(course(), one, workers)
                _say(f"{one.id}: {'as expected' if not found else f'{len(found)} deviations'}")
                deviations += found
        for deviation in deviations:
            _complain(deviation)
        if deviations:
            raise typer.Exit(1)

    @app.command("sample")
    def sample_command(workers: Workers = None) -> None:
        """Grade the sample class of every chapter, and compare its marks with the expected ones.

        Its submissions, marks and feedback lie in _build/sample-class. Your own gradebook is not touched.
        """
        deviations = []
        with _clear_errors():
            for chapter in course().chapters:
                separate = Course(course().root, course().build / "sample-class")
                folder = separate.grading / "class" / chapter.id
                write_sample_class(separate, chapter, folder)
                _grade(separate, chapter, folder, workers)
                deviations += audit(separate, chapter, workers, progress=False)
        for deviation in deviations:
            _complain(deviation)
        _say("sample marks: as expected." if not deviations else f"sample marks: {len(deviations)} deviations.")
        if deviations:
            raise typer.Exit(1)

    @app.command("sample-class")
    def sample_class_command(
        folder: Annotated[Path, typer.Argument(help="Where to write the notebooks; made if need be.")],
        chapter: ChapterOption,
    ) -> None:
        """Write submissions with known marks: the reference, the stub, every misconception, and a broken file."""
        with _clear_errors():
            expected = write_sample_class(course(), course().chapter(chapter), folder)
        for student, marks in expected.items():
            _say(f"{student}: {'reported as unreadable' if marks is None else f'{sum(marks.values()):g} points'}")
        _say(f"written to {folder}")


def _grade(course: Course, chapter: Chapter, path: Path, workers: int | None) -> None:
    found = collect(path, chapter)
    submissions = [submission for submission in found if submission.student]
    refused = [submission for submission in found if not submission.student]
    if not submissions:
        for submission in refused:
            _complain(f"{submission.path}: {submission.problem}")
        raise CollectError(f"There are no submissions to {chapter.id} in {path}.")
    release = build_release(chapter)
    results = grade_class(course, release, submissions, workers)
    write_marks(course, release, submissions, results)
    recognised = recognise(course, chapter, release, workers)
    write_feedback(course, release, results, recognised)
    report = write_report(course, release, results, refused, recognised)

    for student, result in results.items():
        if result.reason:
            _complain(f"{student}: {result.reason}")
    for submission in refused:
        _complain(f"{submission.path}: {submission.problem}")
    graded = sum(result.status == "graded" for result in results.values())
    _say(f"{graded} of {len(results)} submissions to {chapter.id} graded.")
    _say(f"report:   {report / 'report.html'}")
    _say(f"marks:    {report / 'marks.csv'}")
    _say(f"feedback: {report / 'feedback'}/STUDENT.html")
    if any(result.status == "infrastructure" for result in results.values()):
        _complain("Some submissions were not graded because the grader itself failed. Run the same command again.")
        raise typer.Exit(1)


@contextmanager
def _clear_errors() -> Iterator[None]:
    """What the user can mend, in a sentence instead of a traceback."""
    try:
        yield
    except (CollectError, FileNotFoundError, ReleaseError, MisconceptionError) as error:
        _complain(str(error))
        raise typer.Exit(2 if isinstance(error, CollectError | NotPublished) else 1) from None
    except KeyboardInterrupt:
        _complain("Interrupted. What is graded is kept: the same command goes on from here.")
        raise typer.Exit(130) from None


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _complain(text: str) -> None:
    errors.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
