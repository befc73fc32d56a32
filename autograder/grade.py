"""Grade submissions with nbgrader's own autograder: one pure function, and a class of them in parallel."""

import hashlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from autograder.collect import Submission
from autograder.layout import Chapter, Course, here
from autograder.publish import nbgrader_config

STUDENT = "student"
MAX_MESSAGE = 4000  # characters of an error message that are kept


class NotPublished(FileNotFoundError):
    """The chapter's notebooks have not been built yet."""


class ReleaseError(RuntimeError):
    """nbgrader does not accept the instructor's notebook."""


@dataclass(frozen=True)
class GradedCell:
    grade_id: str
    exercise: str
    points: float
    is_quiz: bool


@dataclass(frozen=True)
class Release:
    """Everything a submission is graded against, as data: it can be sent to any process or machine."""

    chapter_id: str
    name: str
    notebook: bytes
    database: bytes
    cell_timeout: int  # seconds
    digest: str

    @property
    def cells(self) -> list[GradedCell]:
        return graded_cells(nbformat.reads(self.notebook.decode(), as_version=4))


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


# --- the release -----------------------------------------------------------------------------------------------------


def build_release(chapter: Chapter, cell_timeout: int | None = None) -> Release:
    """The instructor's notebook and a gradebook that holds only the assignment, made once per content.

    Args:
        chapter: published before.
        cell_timeout: seconds a cell may run; by default what nbgrader_config.py says.

    Raises:
        NotPublished: there is no instructor's notebook.
        ReleaseError: nbgrader does not accept it.
    """
    if not chapter.instructor_notebook.is_file():
        raise NotPublished(f"{chapter.id} is not published yet: run `python -m autograder publish` first.")
    notebook = chapter.instructor_notebook.read_bytes()
    timeout = cell_timeout or nbgrader_config(chapter.course).ExecutePreprocessor.timeout
    settings = f"{timeout} {os.environ.get('COURSE_SEED', '')}".encode()
    digest = _digest(notebook, settings, *_code(chapter.course))
    cached = chapter.course.build / "grading" / digest / "release.db"
    if not cached.is_file():
        with tempfile.TemporaryDirectory() as folder:
            temporary = Course(Path(folder).resolve())
            temporary.grading.mkdir()
            register_assignment(temporary, chapter.id, chapter.name, notebook)
            _write_atomically(cached, (temporary.grading / "gradebook.db").read_bytes())
    return Release(chapter.id, chapter.name, notebook, cached.read_bytes(), timeout, digest)


def register_assignment(course: Course, chapter_id: str, name: str, notebook: bytes) -> None:
    """Let nbgrader enter the assignment into `course.gradebook`; what it releases on the way is thrown away.

    Raises:
        ReleaseError: nbgrader's reasons.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        source = scratch / "solutions" / chapter_id / f"{name}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_bytes(notebook)
        config = _config(scratch, course.gradebook)
        config.CourseDirectory.assignment_id = chapter_id
        problems = _run(GenerateAssignment, config)
    if problems:
        raise ReleaseError(f"nbgrader does not accept the notebook of {chapter_id}:\n" + "\n".join(problems))


def graded_cells(notebook: NotebookNode) -> list[GradedCell]:
    """The graded cells of an instructor's notebook, in order."""
    found = []
    for cell in notebook.cells:
        options, course = cell.metadata.get("nbgrader", {}), cell.metadata.get("course", {})
        if options.get("grade"):
            exercise = options["grade_id"].removeprefix("test_")
            found.append(GradedCell(options["grade_id"], exercise, float(options["points"]), "quiz" in course))
    return found


def _code(course: Course) -> list[bytes]:
    """The code that decides over marks: this file, and what the notebooks import."""
    packages = ("course", "mytransformer")
    folders = [next((r / p for r in (course.root, here().root) if (r / p).is_dir()), course.root / p) for p in packages]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".json")]
    return [path.read_bytes() for path in (Path(__file__), *files)]


# --- one submission --------------------------------------------------------------------------------------------------


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
        config = _config(course.root, course.gradebook)
        config.CourseDirectory.assignment_id = release.chapter_id
        config.CourseDirectory.student_id = STUDENT
        # traitlets copies a bound method together with its object, so these are functions
        config.Execute.timeout_func = lambda cell: budget.seconds_left()
        config.Execute.on_cell_execute = lambda cell, cell_index: budget.begin(cell, cell_index)
        config.Execute.shutdown_kernel = "immediate"
        problems = _run(Autograde, config)
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


def _config(root: Path, db_url: str) -> Config:
    config = nbgrader_config(Course(root))
    config.CourseDirectory.db_url = db_url
    return config


def _run(converter: type, config: Config) -> list[str]:
    """Run one of nbgrader's converters in silence; its errors, if any."""
    errors = _Errors()
    log = logging.Logger("nbgrader", logging.ERROR)
    log.addHandler(errors)
    coursedir = CourseDirectory(config=config, log=log)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # nbgrader relies on what SQLAlchemy advises against
            converter(coursedir=coursedir, config=config, log=log).start()
    except Exception as error:
        return [*errors.lines, f"{type(error).__name__}: {error}"]
    return []


class _Errors(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


# --- a class ---------------------------------------------------------------------------------------------------------


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
                _write_atomically(_cache(course, release, submission), result.to_json().encode())
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
            [sys.executable, "-m", "autograder.grade", str(theirs.fileno())],
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


def _digest(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()[:24]


def _write_atomically(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as temporary:
        temporary.write(content)
    os.replace(temporary.name, path)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
