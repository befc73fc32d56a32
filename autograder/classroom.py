"""Grade a class: in parallel, nothing twice, and one broken submission stops nobody else."""

import hmac
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from autograder.collect import Submission
from autograder.graders import Grader, grade_remotely
from autograder.layout import Course
from autograder.release import Release, write_atomically
from autograder.result import INFRASTRUCTURE, UNREADABLE, Result, no_marks
from autograder.sandbox.launch import BUBBLEWRAP


class ClusterError(RuntimeError):
    """The Dask cluster cannot be used. The message says why."""


@dataclass(frozen=True)
class How:
    """How a class is graded; what does not matter for the marks."""

    workers: int | None = None  # submissions at the same time; by default one a processor
    scheduler: str | None = None  # address of a Dask scheduler, whose workers then grade
    isolation: str = BUBBLEWRAP
    seed: str | None = None  # for all submissions; by default each has one that follows from the course's secret
    progress: bool = True


def grade_class(
    course: Course, release: Release, submissions: list[Submission], how: How | None = None, title: str = "grading"
) -> dict[str, Result]:
    """Grade every student's submission; what was graded before is taken from `_build/grading`.

    Args:
        course: where results are kept, and the secret from which seeds follow.
        submissions: at most one a student.
        title: what the progress bar is called.

    Returns:
        student → result. What the grader itself failed on is not kept.

    Raises:
        JailError: there is no sandbox on this machine.
    """
    how = how or How()
    results: dict[str, Result] = {}
    waiting: list[tuple[Submission, str]] = []
    for submission in submissions:
        seed = how.seed or seed_of(course, release, submission)
        if submission.content is None:
            results[submission.student] = no_marks(
                release.graded, UNREADABLE, submission.problem or "There is no file."
            )
        elif (known := _kept(course, release, submission, seed, how)).is_file():
            results[submission.student] = Result.from_json(known.read_bytes())
        else:
            waiting.append((submission, seed))
    counts = {"cached": len(results)}
    with _bar(how.progress and bool(waiting)) as bar:
        task = bar.add_task(title, total=len(submissions), completed=len(results), counts=_shown(counts))
        run = _on_cluster if how.scheduler else _on_this_machine
        for submission, seed, result in run(release, waiting, how):
            if result.status != INFRASTRUCTURE:
                write_atomically(_kept(course, release, submission, seed, how), result.to_json().encode())
            results[submission.student] = result
            word = "failed" if result.status == INFRASTRUCTURE else result.status
            counts[word] = counts.get(word, 0) + 1
            bar.update(task, advance=1, counts=_shown(counts))
    return {submission.student: results[submission.student] for submission in submissions}


def seed_of(course: Course, release: Release, submission: Submission) -> str:
    """The seed of one submission: nobody who does not know the course's secret can know it."""
    path = course.grading / "secret.txt"
    if not path.is_file():
        write_atomically(path, secrets.token_hex(32).encode())
        path.chmod(0o600)
    message = f"{release.chapter_id}/{submission.digest}".encode()
    return hmac.new(path.read_bytes().strip(), message, "sha256").hexdigest()[:16]


def _kept(course: Course, release: Release, submission: Submission, seed: str, how: How) -> Any:
    name = f"{submission.digest[:32]}-{seed}-{how.isolation}.json"
    return course.build / "grading" / release.digest / "results" / name


def _bar(visible: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[counts]}"))
    return Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not visible)


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


Graded = Iterator[tuple[Submission, str, Result]]


def _on_this_machine(release: Release, waiting: list[tuple[Submission, str]], how: How) -> Graded:
    """Results in the order in which they are ready. Every process ends with this call."""
    if not waiting:
        return
    grader = Grader(release, how.isolation)
    pool = ThreadPoolExecutor(how.workers or os.cpu_count() or 1)
    try:
        futures = {pool.submit(grader.grade, one.content or b"", seed): (one, seed) for one, seed in waiting}
        for future in as_completed(futures):
            yield *futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        grader.stop()
        pool.shutdown()


def _on_cluster(release: Release, waiting: list[tuple[Submission, str]], how: How) -> Graded:
    """The same jobs on a Dask cluster. A worker that dies costs only time."""
    from distributed import Client
    from distributed import as_completed as ready

    try:
        client = Client(how.scheduler, timeout=10)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"There is no Dask scheduler at {how.scheduler}: {error}") from None
    with client:
        shared = client.scatter(release.to_json(), broadcast=True)
        futures = {
            client.submit(grade_remotely, shared, submission.content, seed, how.isolation, pure=False): (
                submission,
                seed,
            )
            for submission, seed in waiting
        }
        for future in ready(list(futures)):
            try:
                result = Result.from_json(future.result())
            except Exception as error:  # whatever happened to the worker
                result = no_marks(
                    release.graded,
                    INFRASTRUCTURE,
                    f"The cluster did not grade it: {type(error).__name__}: {error}"[:500],
                )
            yield *futures[future], result


@contextmanager
def a_grader(release: Release, isolation: str = BUBBLEWRAP) -> Iterator[Grader]:
    """A grader for as long as it is needed."""
    grader = Grader(release, isolation)
    try:
        yield grader
    finally:
        grader.stop()
