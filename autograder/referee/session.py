"""The cells of one notebook, run in order: the student's in the jail, the tests here."""

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
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from autograder import result
from autograder.parts import Part, parts
from autograder.rebuild import ANSWER, BESIDE, GIVEN, TEST, Step, arrange
from autograder.referee.notebook import pictures
from autograder.referee.proxies import Line
from autograder.release import Cell, Release
from autograder.result import Check
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


@dataclass(frozen=True)
class Failure:
    """Where a graded cell failed first, and how: all empty when it did not."""

    error: str = ""  # type
    message: str = ""
    lines: str = ""  # the student's own lines
    place: int = 0  # of the check


class Session:
    """The cells of one notebook, run in order: on both sides of the line, each on its own."""

    def __init__(self, release: Release, jail: Jail, steps: list[Step], seed: str) -> None:
        self.release, self.jail, self.all_steps, self.seed = release, jail, steps, seed
        self.namespace: dict[str, Any] = {"__name__": "__main__", "get_ipython": lambda: _NoMagic()}
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
        beside = [names.bound(cell.source) for cell in release.cells if not cell.grade_id and BESIDE.match(cell.source)]
        self.names = frozenset[str]().union(*self.answered.values(), *beside)
        self.stale: set[str] = set()  # names to be asked for again

    def steps(self) -> Iterator[Step]:
        """Run everything up to each test, and hand out the test."""
        for step in self.all_steps:
            if step.kind == TEST:
                yield step
                continue
            if step.kind != GIVEN or step.there:
                self.there(step)
            if step.kind == GIVEN and step.here:
                self.refresh()
                with contextlib.suppress(Exception, Gone), self.time(), quiet():
                    exec(_compiled(step.source, "given"), self.namespace)

    def there(self, step: Step) -> None:
        """Run a cell in the jail. One that ends its process is left out from then on."""
        try:
            self._connect()
            self._execute(step)
        except Gone as error:
            status, message = self.ended(error)
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

    def ended(self, error: Gone) -> tuple[str, str]:
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

    def check(self, cell: Cell) -> tuple[list[Check], Failure]:
        """Run a graded cell, check by check. Returns the checks and the first failure."""
        checks: list[Check] = []
        first = Failure()
        for place, part in enumerate(parts(cell.source, cell.exercise)):
            failure = self._run(cell, part)
            if failure is None:
                if part.name:
                    checks.append(Check(part.name, result.RIGHT))
                continue
            status, kind, text, own = failure
            if first.message and kind == "NameError":
                checks.append(Check(part.name or cell.exercise, status, "Not reached: an earlier check failed."))
                continue
            checks.append(Check(part.name or cell.exercise, status, text))
            if not first.message:
                first = Failure(kind, text, own, place)
            if self.line is None:  # the worker had to be ended: the next check would only do it again
                break
        return checks, first

    def fails_like(self, cell: Cell, failure: Failure) -> bool:
        """Whether the first failure of a graded cell is this one, at the same check and in the same words."""
        for place, part in enumerate(parts(cell.source, cell.exercise)[: failure.place + 1]):
            found = self._run(cell, part)
            if found is not None:
                return (place, *found[1:3]) == (failure.place, failure.error, failure.message)
        return False

    def _run(self, cell: Cell, part: Part) -> tuple[str, str, str, str] | None:
        """Run one check: None, or status, type, message and the student's lines of what went wrong."""
        os.environ["COURSE_SEED"] = self.seed
        number = int(hashlib.sha256(f"{self.seed}/{cell.grade_id}".encode()).hexdigest()[:8], 16)
        torch.default_generator.manual_seed(number)
        try:
            if self.line is None:
                self.refresh()
            # The same dropout for the same answer, so that a known misconception can be recognised. One-way: no test's
            # random numbers follow from it.
            theirs = hashlib.sha256(f"worker {number}".encode()).hexdigest()
            with self.time():
                self._connect().ask("seed", int(theirs[:8], 16))
            with self.time(), quiet():
                exec(_compiled(part.code, cell.grade_id), self.namespace)
        except RemoteError as error:
            return _remote_status(error), error.kind, _short(str(error)), error.lines
        except AssertionError as error:
            return result.WRONG, "AssertionError", _short(str(error)) or "A test failed.", ""
        except Gone as error:
            status, message = self.ended(error)
            return status, status, message, ""
        except Exception as error:
            return result.WRONG, type(error).__name__, _short(f"{type(error).__name__}: {error}"), ""
        return None


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
