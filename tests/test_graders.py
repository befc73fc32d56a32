"""One submission after another: the same marks again, and trouble with the grader that costs nobody anything."""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tiny_course import FULL, completed, content

from autograder import classroom, graders
from autograder.classroom import How, grade_class
from autograder.collect import Submission
from autograder.graders import Grader
from autograder.layout import Chapter
from autograder.release import Release, build_release
from autograder.result import GRADED, INFRASTRUCTURE, CellResult, Result, no_marks
from autograder.sandbox.launch import NONE, JailError, Limits, bubblewrap

SQUARE = "def double(x):\n    return x * x"
SLOW = "import time\ndef double(x):\n    time.sleep(1.5)\n    return 2 * x"
QUIET = How(progress=False)


@pytest.fixture(scope="module")
def release(chapter: Chapter) -> Release:
    return build_release(chapter, cell_timeout=2)


def marks(result: Result) -> dict[str, float]:
    return {cell.grade_id: cell.score for cell in result.cells}


def cell(result: Result, grade_id: str) -> CellResult:
    return next(cell for cell in result.cells if cell.grade_id == grade_id)


def never(*args: object) -> None:
    raise AssertionError("nothing should be graded")


@pytest.fixture(scope="module")
def grader(jail: str, release: Release) -> Iterator[Grader]:
    with classroom.a_grader(release) as grader:
        yield grader


@pytest.fixture
def grade(grader: Grader) -> Callable[[bytes, str], Result]:
    return grader.grade


def test_a_seed_gives_the_same_result_again(chapter: Chapter, grade: Callable[[bytes, str], Result]) -> None:
    wrong = content(completed(chapter, shift="def shift(x):\n    return x + (10 if x < 50 else 9)"))
    first, again, other = (grade(wrong, seed) for seed in ("one", "one", "two"))
    assert first.to_json() == again.to_json()
    assert "shift(" in cell(first, "test_shift").message
    assert cell(first, "test_shift").message != cell(other, "test_shift").message
    assert marks(other) == marks(first) == FULL | {"test_shift": 0.0}


def test_random_answers_follow_from_the_seed(chapter: Chapter, grade: Callable[[bytes, str], Result]) -> None:
    values = "random.random(), torch.rand(1).item(), numpy.random.rand()"
    rolls = f"import random, torch, numpy\ndef double(x):\n    return str([{values}])"
    notebook = content(completed(chapter, double=rolls))
    first, again, other = (cell(grade(notebook, seed), "test_double").message for seed in ("one", "one", "two"))
    assert first == again
    one, two = (re.findall(r"\d\.\d+(?:e-\d+)?", message) for message in (first, other))
    assert len(one) == len(two) == 3 and not set(one) & set(two), "each of the three generators has its seed"


def test_one_submission_leaves_nothing_for_the_next(chapter: Chapter, grade: Callable[[bytes, str], Result]) -> None:
    spoils = "import builtins, random\nbuiltins.sum = max\nrandom.Random = None\nOFFSET = 3\n" + SQUARE
    before = grade(content(completed(chapter)), "s")
    assert cell(grade(content(completed(chapter, double=spoils)), "s"), "test_double").status == "wrong"
    assert grade(content(completed(chapter)), "s").to_json() == before.to_json()


# --- trouble ---------------------------------------------------------------------------------------------------------


def processes_of(parent: int) -> list[int]:
    """Children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [parent]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def referees() -> list[int]:
    return [pid for pid in processes_of(os.getpid()) if "referee.zygote" in command_of(pid)]


@pytest.mark.parametrize("victim", ["autograder.referee.zygote", "bwrap"])
def test_a_process_that_is_killed_is_started_again(grader: Grader, chapter: Chapter, victim: str) -> None:
    """While a submission runs: it is graded all the same."""
    assert marks(grader.grade(content(completed(chapter)), "s")) == FULL
    killed = []

    def kill() -> None:
        for pid in [grader.referee.process.pid, *processes_of(grader.referee.process.pid)]:
            if not killed and victim in command_of(pid).split(" -- ")[0]:
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(0.5, kill)
    timer.start()
    result = grader.grade(content(completed(chapter, double=SLOW.replace("1.5", "0.6"))), "s")
    timer.join()
    assert killed
    assert (result.status, marks(result)) == (GRADED, FULL)


def test_what_the_grader_fails_on_is_never_zero(
    chapter: Chapter, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is called an infrastructure error, tried twice, and not kept."""
    tried = []

    def fail(grader: Grader, submission: bytes, seed: str, again: bool = False) -> Result:
        tried.append(seed)
        return no_marks(release.graded, INFRASTRUCTURE, "The referee's process ended.")

    one = Submission("unlucky", "", content(completed(chapter, double="def double(x):\n    return x + x + 0")))
    with monkeypatch.context() as patch:
        patch.setattr(Grader, "_attempt", fail)
        result = grade_class(chapter.course, release, [one], QUIET)["unlucky"]
    assert (result.status, result.reason, len(tried)) == (INFRASTRUCTURE, "The referee's process ended.", 2)
    assert {cell.status for cell in result.cells} == {INFRASTRUCTURE} and result.notebook is None
    monkeypatch.setattr(classroom, "Grader", never)
    with pytest.raises(AssertionError, match="nothing should be graded"):
        grade_class(chapter.course, release, [one], QUIET)


def test_what_the_grader_fails_on_harms_no_other(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure ends a referee; an honest submission in the same one is graded in the end."""

    class Fake:
        def __init__(self, *_: object) -> None:
            self.alive = True

        def grade(self, submission: bytes, seed: str) -> Result:
            time.sleep(0.2 if submission == b"bad" else 0.3)
            failed = submission == b"bad" or not self.alive
            return no_marks(release.graded, INFRASTRUCTURE if failed else GRADED, "")

        def end(self) -> None:
            self.alive = False

    monkeypatch.setattr(graders, "Referee", Fake)
    grader = Grader(release)
    with ThreadPoolExecutor() as pool:
        bad, good = (pool.submit(grader.grade, submission, "s") for submission in (b"bad", b"good"))
    assert (bad.result().status, good.result().status) == (INFRASTRUCTURE, GRADED)


BUSY = """
import json, os
from autograder.referee.zygote import _exactly, read, write
from autograder.result import GRADED, Result
read(0), read(0), write(1, b"{}")
small, large = (Result(GRADED, size * "x", []).to_json().encode() for size in (1, 2**22))
for _ in range(2):
    read(0), read(0)
read(0), _exactly(0, 8)  # it writes results while a long job is on its way
for number, answer in (1, small), (2, large):
    write(1, json.dumps({"number": number}).encode()), write(1, answer)
_exactly(0, 2**22), write(1, b'{"number": 3}'), write(1, small)
"""


def test_long_jobs_and_long_results_do_not_wait_for_each_other(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graders, "COMMAND", [sys.executable, "-c", BUSY])
    referee = graders.Referee(release, NONE, Limits())
    with ThreadPoolExecutor() as pool:
        try:
            found = []
            for job in (b"one", b"two", bytes(2**22)):
                found.append(pool.submit(referee.grade, job, "s"))
                while len(referee.waiting) < len(found) and not found[0].done():
                    time.sleep(0.01)
            assert [len(one.result(timeout=30).reason) for one in found] == [1, 2**22, 1]
        finally:
            referee.end()


def test_no_sandbox_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("autograder.sandbox.launch._from_wheel", lambda: None)
    with pytest.raises(JailError, match="install the package `bubblewrap`"):
        bubblewrap(Path("/"), {})


def test_an_interrupt_keeps_what_is_graded(grader: Grader, chapter: Chapter, release: Release, monkeypatch) -> None:
    """The grader ends with it, so this test is the last one that uses it."""
    fast = Submission("fast", "", content(completed(chapter, double="def double(x):\n    return x * 2 + 0")))
    slow = Submission("slow", "", content(completed(chapter, double=SLOW)))
    original = classroom.write_atomically

    def interrupted(path: Path, data: bytes) -> None:
        original(path, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(classroom, "write_atomically", interrupted)
        patch.setattr(classroom, "Grader", lambda *_: grader)
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            grade_class(chapter.course, release, [fast, slow], How(workers=2, progress=False))
        assert time.monotonic() - begin < 30
    assert referees() == []
    with monkeypatch.context() as patch:
        patch.setattr(classroom, "Grader", never)
        assert marks(grade_class(chapter.course, release, [fast], QUIET)["fast"]) == FULL
        with pytest.raises(AssertionError, match="nothing should be graded"):
            grade_class(chapter.course, release, [slow], QUIET)
