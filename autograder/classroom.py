"""Grade a class: in parallel, nothing twice, and one broken submission stops nobody else."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from autograder.collect import Submission
from autograder.grade import Result, grade_submission, no_marks
from autograder.layout import Course, here
from autograder.release import Release, write_atomically


def grade_class(
    course: Course,
    release: Release,
    submissions: list[Submission],
    workers: int | None = None,
    progress: bool = True,
    title: str = "grading",
) -> dict[str, Result]:
    """Grade every student's submission; what was graded before is taken from `_build/grading`.

    Args:
        course: where results are kept.
        release: what to grade against.
        submissions: at most one a student.
        workers: processes that grade at the same time; by default one a processor.
        progress: whether to show a bar.
        title: what the bar is called.

    Returns:
        student → result. A worker that dies is reported for that student only, and not kept.
    """
    results: dict[str, Result] = {}
    waiting: list[Submission] = []
    for submission in submissions:
        if submission.content is None:
            results[submission.student] = no_marks(release, "unreadable", submission.problem or "There is no file.")
        elif (cached := _cache(course, release, submission)).is_file():
            results[submission.student] = Result.from_json(cached.read_bytes())
        else:
            waiting.append(submission)
    counts = {"cached": len(results)}
    with _bar(progress and bool(waiting)) as bar:
        task = bar.add_task(title, total=len(submissions), completed=len(results), counts=_shown(counts))
        for submission, result in _in_parallel(course, release, waiting, workers or os.cpu_count() or 1):
            if result.status != "infrastructure":
                write_atomically(_cache(course, release, submission), result.to_json().encode())
            results[submission.student] = result
            counts[result.status] = counts.get(result.status, 0) + 1
            bar.update(task, advance=1, counts=_shown(counts))
    return {submission.student: results[submission.student] for submission in submissions}


def _cache(course: Course, release: Release, submission: Submission) -> Path:
    return course.build / "grading" / release.digest / f"{submission.digest}.json"


def _bar(visible: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[counts]}"))
    return Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not visible)


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def _in_parallel(
    course: Course, release: Release, submissions: list[Submission], count: int
) -> Iterator[tuple[Submission, Result]]:
    """Results in the order in which they are ready. Every worker is a process of its own, and ends with this call."""
    idle: SimpleQueue[_Worker] = SimpleQueue()
    workers = [_Worker(course, release) for _ in range(min(count, len(submissions)))]
    for worker in workers:
        idle.put(worker)

    def grade(submission: Submission) -> Result:
        worker = idle.get()
        try:
            return worker.grade(submission.content or b"")
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(max(1, len(workers)))
    try:
        futures = {pool.submit(grade, submission): submission for submission in submissions}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.stop()
        pool.shutdown()


class _Worker:
    """A process that grades one submission after another; started again when it dies."""

    def __init__(self, course: Course, release: Release) -> None:
        self.release = release
        path = [str(course.root), str(here().root), os.environ.get("PYTHONPATH", "")]
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "OMP_NUM_THREADS": "1",  # tiny tensors; and the same sums on every machine
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: Connection | None = None
        self.stopped = False

    def grade(self, submission: bytes) -> Result:
        try:
            if self.process is None:
                self._start()
            assert self.connection is not None
            self.connection.send_bytes(submission)
            # The notebook's own limit is inside; this one catches a worker that hangs.
            if self.connection.poll(6 * self.release.cell_timeout + 120):
                return Result.from_json(self.connection.recv_bytes())
            reason = "The grader did not answer."
        except (EOFError, OSError) as error:
            reason = f"The grader's process ended ({type(error).__name__})."
        self._end()
        return no_marks(self.release, "infrastructure", reason + " Grade again.")

    def stop(self) -> None:
        self.stopped = True
        self._end()

    def _start(self) -> None:
        if self.stopped:
            raise OSError("stopped")
        self.connection, theirs = Pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "autograder.classroom", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        self.connection.send_bytes(json.dumps([self.release.chapter_id, self.release.name]).encode())
        for part in (self.release.notebook, self.release.database):
            self.connection.send_bytes(part)
        self.connection.send_bytes(json.dumps([self.release.cell_timeout, self.release.digest]).encode())

    def _end(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _serve(connection: Connection) -> None:
    """The worker's side: a release, then submissions, one result for each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the notebook's process is ended on the way out
    chapter_id, name = json.loads(connection.recv_bytes())
    notebook, database = connection.recv_bytes(), connection.recv_bytes()
    cell_timeout, digest = json.loads(connection.recv_bytes())
    release = Release(chapter_id, name, notebook, database, cell_timeout, digest)
    with _private_settings():
        while True:
            try:
                submission = connection.recv_bytes()
            except EOFError:
                return
            connection.send_bytes(grade_submission(release, submission).to_json().encode())


@contextmanager
def _private_settings() -> Iterator[None]:
    """Keep the user's own IPython profile out of the grading."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = folder
        yield


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
