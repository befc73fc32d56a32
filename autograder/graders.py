"""Warm referees with their warm jails, and the jobs that are sent to them."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from autograder.layout import here
from autograder.referee.zygote import read, write
from autograder.release import Release
from autograder.result import INFRASTRUCTURE, Result, no_marks
from autograder.sandbox.launch import BUBBLEWRAP, JailError, Limits

COMMAND = [sys.executable, "-m", "autograder.referee.zygote"]


class Grader:
    """Grades submissions to one release, several at a time, in one warm pair of referee and jail."""

    def __init__(self, release: Release, isolation: str = BUBBLEWRAP, limits: Limits | None = None) -> None:
        self.release, self.isolation, self.limits = release, isolation, limits or Limits()
        self.referee: Referee | None = None
        self.second: Referee | None = None  # for what failed in the first
        self.lock, self.alone = threading.Lock(), threading.Lock()
        self.stopped = False

    def grade(self, submission: bytes, seed: str) -> Result:
        """Grade one submission; may be called from several threads.

        What the grader fails on is tried once more, with no other submission beside it: neither can harm the other.

        Raises:
            JailError: there is no sandbox on this machine.
        """
        result = self._attempt(submission, seed)
        if result.status == INFRASTRUCTURE and not self.stopped:
            with self.alone:
                result = self._attempt(submission, seed, again=True)
        return result

    def _attempt(self, submission: bytes, seed: str, again: bool = False) -> Result:
        with self.lock:
            if self.stopped:
                return no_marks(self.release.graded, INFRASTRUCTURE, "stopped")
            referee = self.second if again else self.referee
            if referee is None or not referee.alive:
                referee = Referee(self.release, self.isolation, self.limits)
            if again:
                self.second = referee
            else:
                self.referee = referee
        result = referee.grade(submission, seed)
        if result.status == INFRASTRUCTURE:
            referee.end()
        return result

    def stop(self) -> None:
        """End for good, with all processes."""
        self.stopped = True
        with self.lock:
            for referee in (self.referee, self.second):
                if referee:
                    referee.end()


class Referee:
    """One referee process with its jail. It grades several submissions at a time, until it ends."""

    def __init__(self, release: Release, isolation: str, limits: Limits) -> None:
        """Start it, and wait until its jail is warm.

        Raises:
            JailError: it does not start, with its own words.
        """
        self.graded = release.graded
        self.waiting: dict[int, SimpleQueue[bytes | None]] = {}
        self.numbers = count(1)
        self.ended = False
        # Two locks: results must be taken in while a long job is still being handed over, or both ends wait for ever.
        self.handing_over, self.lock = threading.Lock(), threading.Lock()
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for the one who started all this
        )
        assert self.process.stdin and self.process.stdout
        self.jobs, self.results = self.process.stdin, self.process.stdout
        settings = {"kit": str(kit(release)), "isolation": isolation, "limits": asdict(limits)}
        try:
            write(self.jobs.fileno(), json.dumps(settings).encode())
            write(self.jobs.fileno(), release.to_json().encode())
            problem = json.loads(read(self.results.fileno())).get("problem")
        except (OSError, EOFError):
            problem = "The referee did not start. `python -m autograder.referee.zygote < /dev/null` says why."
        if problem:
            self.end()
            raise JailError(problem)
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def alive(self) -> bool:
        return not self.ended and self.process.poll() is None

    def grade(self, submission: bytes, seed: str) -> Result:
        """Hand one submission over, and wait for its result."""
        answer: SimpleQueue[bytes | None] = SimpleQueue()
        number = next(self.numbers)
        with self.lock:
            if self.ended:
                answer.put(None)
            self.waiting[number] = answer
        # A process that ends meanwhile is noticed by the listener, who tells all who wait.
        with self.handing_over, contextlib.suppress(OSError, ValueError):
            write(self.jobs.fileno(), json.dumps({"number": number, "seed": seed}).encode())
            write(self.jobs.fileno(), submission)
        graded = answer.get()
        if graded is None:
            return no_marks(self.graded, INFRASTRUCTURE, "The referee's process ended.")
        return Result.from_json(graded)

    def _listen(self) -> None:
        """Hand out results until the process ends; then tell all who still wait."""
        try:
            while True:
                number = json.loads(read(self.results.fileno()))["number"]
                answer = read(self.results.fileno())
                with self.lock:
                    self.waiting.pop(number).put(answer)
        except (OSError, EOFError, ValueError, LookupError, TypeError):
            self.process.kill()  # one that talks nonsense has to go, too
            with self.lock:
                self.ended = True
                for answer_to in self.waiting.values():
                    answer_to.put(None)
            with self.handing_over:
                self.jobs.close()
            self.results.close()

    def end(self) -> None:
        """End the process; with it goes the jail, and whatever runs there."""
        self.process.kill()
        self.process.wait()


def kit(release: Release) -> Path:
    """The folder that the jail sees: the sandbox's code, `course`, earlier chapters. Made once for each release."""
    folder = here().build / "grading" / release.digest / "kit"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        made = Path(temporary) / "kit"
        shutil.copytree(
            here().root / "autograder" / "sandbox", made / "sandbox", ignore=shutil.ignore_patterns("__py*")
        )
        for name, text in release.packages.items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        _copy_font_list(made / "matplotlib")
        for path in [made, *made.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # another process was faster
                raise
    return folder


def _copy_font_list(folder: Path) -> None:
    """Matplotlib looks for fonts once, for seconds, and cannot keep what it finds where nothing can be written."""
    import matplotlib

    folder.mkdir()
    if not list(Path(matplotlib.get_cachedir()).glob("fontlist-*.json")):
        subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=True)
    for path in Path(matplotlib.get_cachedir()).glob("fontlist-*.json"):
        shutil.copy(path, folder)


def _environment() -> dict[str, str]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    path = os.pathsep.join(filter(None, [str(here().root), os.environ.get("PYTHONPATH", "")]))
    return {
        **os.environ,
        **one,
        "PYTHONPATH": path,
        "PYTHONHASHSEED": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "MPLBACKEND": "agg",
    }


_here: dict[str, Grader] = {}
_here_lock = threading.Lock()


def grade_remotely(release: str, submission: bytes, seed: str, isolation: str) -> str:
    """The job as a function of plain values, for a scheduler: each of its processes keeps one grader warm.

    Returns:
        `Result.to_json()`.
    """
    wanted = Release.from_json(release)
    key = f"{wanted.digest} {isolation}"
    with _here_lock:
        if key not in _here:
            for old in _here.values():
                old.stop()
            _here.clear()
            _here[key] = Grader(wanted, isolation)
        grader = _here[key]
    return grader.grade(submission, seed).to_json()
