"""A warm referee with a warm jail, and the jobs that are sent to it."""

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


class Lane:
    """One referee process that grades several submissions at a time. Started when needed, and again when it dies."""

    def __init__(self, release: Release, isolation: str = BUBBLEWRAP, limits: Limits | None = None) -> None:
        self.release, self.isolation, self.limits = release, isolation, limits or Limits()
        self.process: subprocess.Popen[bytes] | None = None
        self.waiting: dict[int, SimpleQueue[bytes | None]] = {}
        self.lock = threading.Lock()
        self.numbers = count(1)
        self.stopped = False

    def grade(self, submission: bytes, seed: str) -> Result:
        """Grade one submission; may be called from several threads. What the grader fails on is tried twice.

        Raises:
            JailError: there is no sandbox on this machine.
        """
        result = self._attempt(submission, seed)
        if result.status == INFRASTRUCTURE and not self.stopped:
            result = self._attempt(submission, seed)
        return result

    def _attempt(self, submission: bytes, seed: str) -> Result:
        answer: SimpleQueue[bytes | None] = SimpleQueue()
        with self.lock:
            if self.stopped:
                return no_marks(self.release.graded, INFRASTRUCTURE, "stopped")
            if self.process is None or self.process.poll() is not None:
                self._start()
            assert self.process is not None and self.process.stdin
            number = next(self.numbers)
            self.waiting[number] = answer
            try:
                job = {"number": number, "seed": seed}
                write(self.process.stdin.fileno(), json.dumps(job).encode())
                write(self.process.stdin.fileno(), submission)
            except OSError:
                answer.put(None)
        graded = answer.get()
        if graded is None:
            return no_marks(self.release.graded, INFRASTRUCTURE, "The referee's process ended.")
        result = Result.from_json(graded)
        if result.status == INFRASTRUCTURE:
            self._close()
        return result

    def _start(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "autograder.referee.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for the one who started all this
        )
        assert process.stdin and process.stdout
        settings = {"kit": str(kit(self.release)), "isolation": self.isolation, "limits": asdict(self.limits)}
        try:
            write(process.stdin.fileno(), json.dumps(settings).encode())
            write(process.stdin.fileno(), self.release.to_json().encode())
            problem = json.loads(read(process.stdout.fileno())).get("problem")
        except (OSError, EOFError):
            problem = "The referee did not start."
        if problem:
            process.kill()
            process.wait()
            raise JailError(problem)
        self.process = process
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Hand out results until the process ends; then tell all who still wait."""
        assert process.stdout
        try:
            while True:
                number = json.loads(read(process.stdout.fileno()))["number"]
                answer = read(process.stdout.fileno())
                with self.lock:
                    if number in self.waiting:
                        self.waiting.pop(number).put(answer)
        except (OSError, EOFError, ValueError):
            with self.lock:
                if self.process in (process, None):
                    self.process = None
                    for answer_to in self.waiting.values():
                        answer_to.put(None)
                    self.waiting.clear()

    def stop(self) -> None:
        """End for good."""
        self.stopped = True
        self._close()

    def _close(self) -> None:
        """End the process; with it goes the jail, and whatever runs there."""
        process = self.process
        if process:
            process.kill()
            process.wait()


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


_here: dict[str, Lane] = {}
_here_lock = threading.Lock()


def grade_remotely(release: str, submission: bytes, seed: str, isolation: str) -> str:
    """The job as a function of plain values, for a scheduler: each of its processes keeps one lane warm.

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
            _here[key] = Lane(wanted, isolation)
        lane = _here[key]
    return lane.grade(submission, seed).to_json()
