"""The commands that grade: `grade`, `check`, `audit`, `sample`, `sample-class`."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autograder import stamps
from autograder.audit import audit, deviations_from
from autograder.classroom import ClusterError, How, a_grader, grade_class
from autograder.collect import CollectError, collect
from autograder.feedback import message, write_feedback
from autograder.gradebook import GradebookError, write_marks
from autograder.layout import Chapter, Course, here
from autograder.misconceptions import MisconceptionError
from autograder.release import NotPublished, Release, ReleaseError, build_release, visible_release
from autograder.report import write_report
from autograder.result import INFRASTRUCTURE, UNREADABLE, Result
from autograder.samples import write_sample_class
from autograder.sandbox.launch import BUBBLEWRAP, CHOICES, NONE, JailError, bubblewrap

console = Console()
errors = Console(stderr=True)

ChapterOption = Annotated[str, typer.Option("--chapter", help="The chapter, such as 02-self-attention.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Submissions at the same time; by default one a processor.")]
Isolation = Annotated[
    str,
    typer.Option(
        help="bubblewrap, or none: then a submission's code can read and change whatever you can.",
        callback=lambda value: _one_of(value, CHOICES),
    ),
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786: its workers grade.")
]
Seed = Annotated[
    str | None, typer.Option(help="Grade with this seed, as a report names it, to see the same marks again.")
]


def register(app: typer.Typer, course: Callable[[], Course] = here) -> None:
    """Add the commands to the command line; `course` says which checkout they work on."""

    @app.command("grade")
    def grade_command(
        submissions: Annotated[Path, typer.Argument(help="A folder or a zip file, as Moodle or Canvas make it.")],
        chapter: ChapterOption,
        workers: Workers = None,
        scheduler: Scheduler = None,
        isolation: Isolation = BUBBLEWRAP,
        seed: Seed = None,
    ) -> None:
        """Grade a class: marks into nbgrader's gradebook, a report, and a page of feedback for each student.

        SUBMISSIONS holds STUDENT/CHAPTER/NAME.ipynb (nbgrader's layout), STUDENT/NAME.ipynb or STUDENT.ipynb.
        What was graded before is not graded again. A file that cannot be graded is reported and stops nobody else.
        """
        with _clear_errors():
            how = How(workers, scheduler, isolation, seed)
            _grade(course(), course().chapter(chapter), submissions, how)

    @app.command("check")
    def check_command(
        notebook: Annotated[Path, typer.Argument(help="Your completed notebook.", exists=True, dir_okay=False)],
    ) -> None:
        """For students: run the visible tests of a notebook as the grader will, before it is handed in.

        The marks also depend on tests that the notebook does not show. Your code runs with your own rights.
        """
        with _clear_errors():
            submission = notebook.read_bytes()
            release = visible_release(course(), submission)
            with a_grader(release, _best_isolation()) as grader, console.status("running your notebook"):
                result = grader.grade(submission, "check")
        for note in result.notes:
            _say(note)
        if result.status in (UNREADABLE, INFRASTRUCTURE):
            _complain(result.reason)
            raise typer.Exit(2)
        for cell in result.cells:
            _say(f"{'✓' if cell.passed else '✗'} {cell.exercise}: {cell.status}")
            if not cell.passed and message(cell):
                _say("    " + "\n".join([message(cell), *cell.traceback.splitlines()]).replace("\n", "\n    "))
        passed = sum(cell.passed for cell in result.cells)
        _say(f"{passed} of {len(result.cells)} pass the tests that you can see.")
        if passed < len(result.cells):
            raise typer.Exit(1)

    @app.command("audit")
    def audit_command(
        chapter: Annotated[str | None, typer.Option("--chapter", help="One chapter; by default all of them.")] = None,
        rounds: Annotated[
            int, typer.Option(min=1, help="How often; from the second time on with random numbers of its own.")
        ] = 1,
        workers: Workers = None,
        isolation: Isolation = BUBBLEWRAP,
    ) -> None:
        """Check the tests: the reference has full marks, the stub none, every misconception loses its points.

        A hidden test that sees a mistake with some random numbers only is found in several rounds.
        The deviation names the seed; `grade --seed` repeats it.
        """
        deviations = []
        with _clear_errors():
            for one in [course().chapter(chapter)] if chapter else course().chapters:
                found = audit(course(), one, How(workers, isolation=isolation))
                for seed in (secrets.token_hex(8) for _ in range(rounds - 1)):
                    more = audit(course(), one, How(workers, isolation=isolation, seed=seed))
                    found += [f"{deviation} (seed {seed})" for deviation in more]
                _say(f"{one.id}: {'as expected' if not found else f'{len(found)} deviations'}")
                deviations += found
        for deviation in deviations:
            _complain(deviation)
        if deviations:
            raise typer.Exit(1)

    @app.command("sample")
    def sample_command(workers: Workers = None, isolation: Isolation = BUBBLEWRAP) -> None:
        """Grade the sample class of every chapter, and compare its marks with the expected ones.

        Its submissions, marks and feedback lie in _build/sample-class. Your own gradebook is not touched.
        What was as expected is not graded again until something changes that its marks depend on.
        """
        deviations, how = [], How(workers, isolation=isolation)
        with _clear_errors():
            for chapter in course().chapters:
                separate = Course(course().root, course().build / "sample-class")
                folder = separate.grading / "class" / chapter.id
                stamp, inputs = f"sample-{chapter.id}", stamps.digest(_sample_inputs(chapter)) + isolation
                reports = separate.reports(chapter.id)
                outputs = [reports / name for name in ("report.html", "marks.csv", "feedback/untouched-stub.html")]
                if stamps.is_current(course(), stamp, inputs, outputs):
                    _say(f"{chapter.id}: the sample class is graded.")
                    _say_where(separate, chapter)
                    continue
                expected = write_sample_class(chapter, folder)
                found = deviations_from(expected, *_grade(separate, chapter, folder, how))
                deviations += found
                if not found:
                    stamps.stamp(course(), stamp, inputs, outputs)
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
            expected = write_sample_class(course().chapter(chapter), folder)
        for student, marks in expected.items():
            _say(f"{student}: {'reported as unreadable' if marks is None else f'{sum(marks.values()):g} points'}")
        _say(f"written to {folder}")


def _grade(course: Course, chapter: Chapter, path: Path, how: How) -> tuple[Release, dict[str, Result]]:
    found = collect(path, chapter)
    submissions = [submission for submission in found if submission.student]
    refused = [submission for submission in found if not submission.student]
    if not submissions:
        for submission in refused:
            _complain(f"{submission.path}: {submission.problem}")
        raise CollectError(f"There are no submissions to {chapter.id} in {path}.")
    if how.isolation == NONE:
        _complain("Grading without a sandbox: the code of every submission runs with your rights.")
    release = build_release(chapter)
    results = grade_class(course, release, submissions, how)
    write_feedback(course, release, results)
    write_report(course, release, results, refused)
    write_marks(course, release, submissions, results)

    for student, result in results.items():
        if result.reason:
            _complain(f"{student}: {result.reason}")
    for submission in refused:
        _complain(f"{submission.path}: {submission.problem}")
    graded = sum(result.status == "graded" for result in results.values())
    _say(f"{graded} of {len(results)} submissions to {chapter.id} graded.")
    _say_where(course, chapter)
    if any(result.status == INFRASTRUCTURE for result in results.values()):
        _complain("Some submissions were not graded because the grader itself failed. Run the same command again.")
        raise typer.Exit(1)
    return release, results


def _say_where(course: Course, chapter: Chapter) -> None:
    reports = course.reports(chapter.id)
    _say(f"report:   {reports / 'report.html'}")
    _say(f"marks:    {reports / 'marks.csv'}")
    _say(f"feedback: {reports / 'feedback'}/STUDENT.html")


def _sample_inputs(chapter: Chapter) -> list[Path]:
    """What the sample class, its marks and its reports depend on."""
    code, course = here().root, chapter.course
    grader = code / "autograder"
    return [
        *sorted(grader.glob("*.py")),
        *stamps.files(grader / "referee", "*.py"),
        *stamps.files(grader / "sandbox", "*.py"),
        *stamps.files(grader / "templates", "*.html"),
        *stamps.files(code / "course", "*.py", "*.json"),
        *(one.instructor_notebook for one in course.chapters if one.id <= chapter.id),
        chapter.student_notebook,
        chapter.misconceptions,
        course.root / "requirements.txt",
    ]


def _best_isolation() -> str:
    """A student's own code may run without a sandbox where there is none."""
    try:
        bubblewrap(Path("/"), {})
    except JailError:
        return NONE
    return BUBBLEWRAP


def _one_of(value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.")
    return value


@contextmanager
def _clear_errors() -> Iterator[None]:
    """What the user can mend, in a sentence instead of a traceback."""
    try:
        yield
    except (
        ClusterError,
        CollectError,
        FileNotFoundError,
        GradebookError,
        JailError,
        MisconceptionError,
        ReleaseError,
    ) as error:
        _complain(str(error))
        raise typer.Exit(2 if isinstance(error, CollectError | NotPublished) else 1) from None
    except KeyboardInterrupt:
        _complain("Interrupted. What is graded is kept: the same command goes on from here.")
        raise typer.Exit(130) from None


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _complain(text: str) -> None:
    errors.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
