"""Grade one submission: student's cells go to the jail, tests run here, and here is decided what they are worth."""

import contextlib
import hashlib
import io
import linecache
import os
import re
import signal
import time
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from autograder import result
from autograder.parts import Part, parts
from autograder.rebuild import ANSWER, GIVEN, HELPER, TEST, Rebuilt, Step, Unreadable, arrange, rebuild
from autograder.referee.notebook import graded_notebook, pictures
from autograder.referee.proxies import Line
from autograder.release import Cell, Release
from autograder.result import CellResult, Check, Result
from autograder.sandbox.launch import Jail, Worker
from autograder.sandbox.peer import Gone, RemoteError
from autograder.sandbox.wire import WireError
from course import names

MAX_MESSAGE = 4000
BUDGET = 5  # the time of a whole submission, in times of one cell
WORDS = {  # how a process ended → what became of the cell
    "memory": (result.OUT_OF_MEMORY, "It took more memory than is allowed, and was stopped."),
    "time": (result.TIMED_OUT, "It took more computing time than is allowed, and was stopped."),
}


class TimeIsUp(Gone):
    """The cell's time is over."""


def grade(release: Release, jail: Jail, submission: bytes, seed: str) -> Result:
    """Grade one submission. Runs in a process of its own, which ends afterwards.

    Args:
        jail: warm, and of the same release.
        submission: the bytes of the file that was handed in.
        seed: every random number of the tests follows from it.
    """
    try:
        with time_limit(release.cell_timeout, "The file takes too long to read."):
            rebuilt = rebuild(release, submission)
    except (Unreadable, TimeIsUp) as error:
        return no_marks(release, result.UNREADABLE, str(error))
    session = Session(release, jail, rebuilt.steps, seed)
    try:
        cells = [_judged(session, rebuilt, step) for step in session.steps()]
    finally:
        session.end()
    if any(cell.status == result.INFRASTRUCTURE for cell in cells):
        reason = next(cell.message for cell in cells if cell.status == result.INFRASTRUCTURE)
        return no_marks(release, result.INFRASTRUCTURE, reason)
    _recognise(release, jail, cells, seed)
    graded = Result(result.GRADED, "", cells, rebuilt.notes, seed, jail.isolation)
    graded.notebook = graded_notebook(release, rebuilt, graded)
    return graded


def no_marks(release: Release, status: str, reason: str) -> Result:
    """Nothing was graded."""
    word = result.INFRASTRUCTURE if status == result.INFRASTRUCTURE else result.NOT_ATTEMPTED
    cells = [CellResult(cell.grade_id, cell.exercise, cell.is_quiz, cell.points, word) for cell in release.graded]
    return Result(status, reason, cells)


@contextlib.contextmanager
def time_limit(seconds: float, message: str) -> Iterator[None]:
    """Raise `TimeIsUp` inside when it takes longer. In the main thread only."""

    def ring(number: int, frame: object) -> None:
        raise TimeIsUp(message)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def prepare(release: Release) -> None:
    """Read and compile what is the same for all submissions, once, before the first fork."""
    reference = {cell.grade_id: cell.source for cell in release.cells if cell.grade_id and not cell.is_test}
    for step in arrange(release, reference, []):
        if step.kind == GIVEN and step.here:
            _compiled(step.source, "given")
    for cell in release.cells:
        names.bound(cell.stub)
        for part in parts(cell.source, cell.exercise) if cell.is_test else ():
            _compiled(part.code, cell.grade_id)


class Session:
    """The cells of one notebook, run in order: on both sides of the line, each on its own."""

    def __init__(self, release: Release, jail: Jail, steps: list[Step], seed: str) -> None:
        self.release, self.jail, self.all_steps, self.seed = release, jail, steps, seed
        self.namespace: dict[str, Any] = {"__name__": "__main__", "get_ipython": lambda: _NoMagic()}
        self.exercises = {cell.exercise: cell for cell in release.graded}
        self.answered = {  # exercise → the names that its answer defines
            cell.grade_id: names.bound(cell.stub) | names.bound(cell.source) | {cell.grade_id}
            for cell in release.cells
            if cell.grade_id and not cell.is_test
        }
        self.done: list[Step] = []  # what the worker has run
        self.fatal: dict[str, tuple[str, str]] = {}  # cells that ended the worker → status, message
        self.said: dict[str, dict[str, Any]] = {}  # what the student's cells printed
        self.worker: Worker | None = None
        self.line: Line | None = None
        self.spent = 0.0
        self.names = frozenset[str]().union(*self.answered.values())
        self.stale: set[str] = set()  # names to be asked for again

    def steps(self) -> Iterator[Step]:
        """Run everything up to each test, and hand out the test."""
        for step in self.all_steps:
            if step.kind == TEST:
                yield step
                continue
            if step.kind != GIVEN or step.there:
                self._there(step)
            if step.kind == GIVEN and step.here:
                self.refresh()
                with contextlib.suppress(Exception, Gone), self.time(), quiet():
                    exec(_compiled(step.source, "given"), self.namespace)

    def _there(self, step: Step) -> None:
        """Run a cell in the jail. One that ends its process is left out from then on."""
        try:
            self._connect()
            self._execute(step)
        except Gone as error:
            status, message = self._ended(error)
            if status == result.INFRASTRUCTURE:
                raise RuntimeError(message) from None
            self.fatal[step.id] = (status, message)
            return
        self.done.append(step)

    def _execute(self, step: Step) -> None:
        assert self.line is not None
        with self.time():
            try:
                said = self.line.ask("exec", step.source)
            except (RemoteError, WireError) as error:
                said = {"output": "", "pictures": [], "error": {"types": ["Error"], "message": str(error)}}
        self.stale |= self.names & (names.bound(step.source) | self.answered.get(step.id, frozenset()))
        if step.kind == ANSWER:
            self.said[step.id] = _plain(said)

    def _connect(self) -> Line:
        """The line to a worker that has run all cells so far."""
        if self.line is None:
            self.worker = self.jail.worker()
            self.line = Line(self.worker.channel)
            self.line.ask("seed", int(hashlib.sha256(f"worker {self.seed}".encode()).hexdigest()[:8], 16))
            for step in self.done:
                self._execute(step)
            self.stale = set(self.names)
        return self.line

    def refresh(self) -> None:
        """Bring the student's names here: proxies, or plain values. Only those that may have changed are asked for."""
        line = self._connect()
        with self.time():
            for name in sorted(self.stale):
                self.namespace.pop(name, None)
                with contextlib.suppress(RemoteError):
                    self.namespace[name] = line.get(name)
            self.stale.clear()

    @contextlib.contextmanager
    def time(self) -> Iterator[None]:
        """Bound what runs inside: by the cell's time, and by what is left of the notebook's."""
        limit = self.release.cell_timeout
        left = max(0.1, min(limit, BUDGET * limit - self.spent))  # as a whole, so that no submission stops a class

        started = time.monotonic()
        try:
            with time_limit(left, f"It ran for more than {limit} seconds and was stopped."):
                yield
        finally:
            self.spent += time.monotonic() - started

    def _ended(self, error: Gone) -> tuple[str, str]:
        """End the worker, and say in words why it had to be ended."""
        reason = self.worker.end() if self.worker else ""
        self.worker = self.line = None
        if isinstance(error, TimeIsUp):
            return result.TIMED_OUT, str(error)
        if reason.startswith("infrastructure"):
            return result.INFRASTRUCTURE, reason
        return WORDS.get(reason, (result.CRASHED, "It ended the Python process it ran in."))

    def end(self) -> None:
        if self.worker:
            self.worker.end()
            self.worker = self.line = None

    def check(self, cell: Cell, first_only: bool = False) -> tuple[list[Check], str, str, str]:
        """Run a graded cell, check by check.

        Args:
            first_only: stop at the first check that fails.

        Returns:
            The checks; error type, message and the student's own lines of the first failure.
        """
        checks: list[Check] = []
        error = message = lines = ""
        for part in parts(cell.source, cell.exercise):
            if message and first_only:
                break
            failure = self._run(cell, part)
            if failure is None:
                if part.name:
                    checks.append(Check(part.name, result.RIGHT))
                continue
            status, kind, text, own = failure
            if message and kind == "NameError":
                checks.append(Check(part.name or cell.exercise, status, "Not reached: an earlier check failed."))
                continue
            checks.append(Check(part.name or cell.exercise, status, text))
            if not message:
                error, message, lines = kind, text, own
            if self.line is None:  # the worker had to be ended: the next check would only do it again
                break
        return checks, error, message, lines

    def _run(self, cell: Cell, part: Part) -> tuple[str, str, str, str] | None:
        """Run one check: None, or status, type, message and the student's lines of what went wrong."""
        os.environ["COURSE_SEED"] = self.seed
        torch.default_generator.manual_seed(
            int(hashlib.sha256(f"{self.seed}/{cell.grade_id}".encode()).hexdigest()[:8], 16)
        )
        try:
            if self.line is None:
                self.refresh()
            with self.time(), quiet():
                exec(_compiled(part.code, cell.grade_id), self.namespace)
        except RemoteError as error:
            return _remote_status(error), error.kind, _short(str(error)), error.lines
        except AssertionError as error:
            return result.WRONG, "AssertionError", _short(str(error)) or "A test failed.", ""
        except Gone as error:
            status, message = self._ended(error)
            return status, status, message, ""
        except Exception as error:
            return result.WRONG, type(error).__name__, _short(f"{type(error).__name__}: {error}"), ""
        return None


def _judged(session: Session, rebuilt: Rebuilt, step: Step) -> CellResult:
    """The verdict on one graded cell."""
    cell = next(cell for cell in session.release.graded if cell.grade_id == step.id)
    outcome = CellResult(cell.grade_id, cell.exercise, cell.is_quiz, cell.points, result.RIGHT)
    said = session.said.get(cell.exercise, {"output": "", "pictures": [], "error": None})
    outcome.output, outcome.pictures, failed = said["output"], said["pictures"], said["error"]
    if cell.exercise not in rebuilt.answers:
        outcome.status, outcome.error, outcome.message = result.NOT_ATTEMPTED, "NotAttempted", "Not attempted."
        return outcome
    if cell.exercise in session.fatal:
        outcome.status, outcome.message = session.fatal[cell.exercise]
        outcome.error = outcome.status
        return outcome
    try:
        session.refresh()
    except Gone as error:
        outcome.status, outcome.message = session._ended(error)
        outcome.error = outcome.status
        return outcome
    outcome.checks, outcome.error, outcome.message, outcome.traceback = session.check(cell)
    bad = [check for check in outcome.checks if check.status != result.RIGHT]
    if not outcome.checks and not session.release.is_visible_only:
        raise ValueError(f"{cell.grade_id} checks nothing")
    outcome.status = bad[0].status if bad else result.RIGHT
    if bad and failed:
        kind = failed["kind"]
        outcome.notes.append(f"The cell of {cell.exercise} itself fails with {kind}: {failed['message']}")
        outcome.traceback = outcome.traceback or failed["lines"]
        if outcome.error == "NameError":
            outcome.message = f"{cell.exercise} is not defined, because its cell fails with {kind}: {failed['message']}"
            outcome.checks = []
            unfinished = kind == "NotImplementedError"
            outcome.status = result.NOT_ATTEMPTED if unfinished else result.CRASHED
    return outcome


def _recognise(release: Release, jail: Jail, cells: list[CellResult], seed: str) -> None:
    """Name the misconceptions whose tests fail, with the same random numbers, in the very same words."""
    known = {cell.exercise: [one for one in release.misconceptions if one.exercise == cell.exercise] for cell in cells}
    wrong = [cell for cell in cells if cell.status in (result.WRONG, result.CRASHED) and known[cell.exercise]]
    if not wrong:
        return
    reference = {cell.grade_id: cell.source for cell in release.cells if cell.grade_id and not cell.is_test}
    theirs = [(cell.exercise, one.source) for cell in wrong for one in known[cell.exercise]]
    steps = [step for step in arrange(release, reference, theirs) if step.kind != HELPER]
    session = Session(release, jail, steps, seed)
    waiting = {cell.grade_id: cell for cell in wrong}
    try:
        for step in session.steps():
            if step.id not in waiting:
                continue
            cell = waiting[step.id]
            graded = next(one for one in release.graded if one.grade_id == step.id)
            for one in known[cell.exercise]:
                session._there(Step(HELPER, one.exercise, one.source))
                session.refresh()
                _, error, message, _ = session.check(graded, first_only=True)
                if (error, message) == (cell.error, cell.message):
                    cell.misconceptions.append(one.id)
                session.done = [kept for kept in session.done if kept.source != one.source]
            session._there(Step(HELPER, cell.exercise, reference[cell.exercise]))
    except (Gone, RuntimeError):
        return  # the marks stand; only the hint is lost
    finally:
        session.end()


def _plain(said: object) -> dict[str, Any]:
    """What a cell said, whatever the other side made of it."""
    said = said if isinstance(said, dict) else {}
    error = said.get("error")
    if error is not None:
        error = error if isinstance(error, dict) else {}
        types, message, lines = error.get("types"), error.get("message", ""), error.get("lines", "")
        kind = str(types[0])[:80] if isinstance(types, list) and types else "Error"
        error = {"kind": kind, "message": _short(str(message)), "lines": _short(str(lines))}
    return {"output": _short(str(said.get("output", ""))), "pictures": pictures(said.get("pictures")), "error": error}


def _remote_status(error: RemoteError) -> str:
    if error.memory:
        return result.OUT_OF_MEMORY
    if error.kind == "NotImplementedError":
        return result.NOT_ATTEMPTED
    return result.WRONG if error.kind == "TypeCheckError" else result.CRASHED


@cache
def _compiled(source: str, name: str) -> Any:
    """Python of a trusted cell; its lines are known, so that `assert` statements can be found in a debugger."""
    filename = f"<{name}>"
    text = names.python(source)
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    return compile(text, filename, "exec")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A test that prints or warns costs nobody anything."""
    text = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        warnings.simplefilter("ignore")
        yield


class _NoMagic:
    """Magics have no meaning for the tests; types are checked where the student's code runs."""

    def run_line_magic(self, *args: object) -> None: ...

    def run_cell_magic(self, *args: object) -> None: ...

    def system(self, *args: object) -> None: ...


def _short(text: str) -> str:
    """Without what cannot be shown, and cut to a length that can be read."""
    text = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|.)", "", text)
    text = re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", text)
    text = "".join(character for character in text if character in "\n\t" or character.isprintable())
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + " …"
