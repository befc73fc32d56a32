"""A lane grades one submission after another: a warm referee with a warm jail. As many lanes, as many at a time."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path

from autograder.layout import here
from autograder.referee.zygote import read, write
from autograder.release import Release
from autograder.result import INFRASTRUCTURE, CellResult, Result
from autograder.sandbox.launch import BUBBLEWRAP, JailError, Limits


class Lane:
    """One referee process. Started when it is first needed, and again when it dies."""

    def __init__(self, release: Release, isolation: str = BUBBLEWRAP, limits: Limits | None = None) -> None:
        self.release, self.isolation, self.limits = release, isolation, limits or Limits()
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def grade(self, submission: bytes, seed: str) -> Result:
        """Grade one submission. What the grader itself fails on is tried twice.

        Raises:
            JailError: there is no sandbox on this machine.
        """
        result = self._attempt(submission, seed)
        if result.status == INFRASTRUCTURE and not self.stopped:
            self.close()
            result = self._attempt(submission, seed)
        return result

    def _attempt(self, submission: bytes, seed: str) -> Result:
        try:
            if self.process is None:
                self._start()
            assert self.process is not None and self.process.stdin and self.process.stdout
            write(self.process.stdin, seed.encode())  # type: ignore[arg-type]
            write(self.process.stdin, submission)  # type: ignore[arg-type]
            answer = read(self.process.stdout)  # type: ignore[arg-type]
            if answer:
                return Result.from_json(answer)
            reason = "The referee's process ended."
        except (OSError, ValueError) as error:
            reason = f"The referee does not answer: {type(error).__name__}."
        self.close()
        return not_graded(self.release, reason)

    def _start(self) -> None:
        if self.stopped:
            raise OSError("stopped")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "autograder.referee.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for the one who started all this
        )
        assert self.process.stdin and self.process.stdout
        settings = {"kit": str(kit(self.release)), "isolation": self.isolation, "limits": asdict(self.limits)}
        write(self.process.stdin, json.dumps(settings).encode())  # type: ignore[arg-type]
        write(self.process.stdin, self.release.to_json().encode())  # type: ignore[arg-type]
        problem = json.loads(read(self.process.stdout) or b'{"problem": "The referee did not start."}').get("problem")  # type: ignore[arg-type]
        if problem:
            self.close()
            raise JailError(problem)

    def stop(self) -> None:
        """End for good."""
        self.stopped = True
        self.close()

    def close(self) -> None:
        """End the process; with it goes the jail, and whatever runs there."""
        process, self.process = self.process, None
        if process:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()


def not_graded(release: Release, reason: str) -> Result:
    """Nobody's marks: the grader failed."""
    cells = [
        CellResult(cell.grade_id, cell.exercise, cell.is_quiz, cell.points, INFRASTRUCTURE) for cell in release.graded
    ]
    return Result(INFRASTRUCTURE, reason, cells)


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
        # Matplotlib looks for fonts once, and cannot keep what it finds in a place that is read-only.
        fonts = {**os.environ, "MPLCONFIGDIR": str(made / "matplotlib")}
        subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], env=fonts, check=True)
        for path in [made, *made.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # another process was faster
                raise
    return folder


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


_local = threading.local()


def grade_remotely(release: str, submission: bytes, seed: str, isolation: str) -> str:
    """The job as a function of plain values, for a scheduler: each of its threads keeps a lane.

    Returns:
        `Result.to_json()`.
    """
    lane = getattr(_local, "lane", None)
    wanted = Release.from_json(release)
    if lane is None or (lane.release.digest, lane.isolation) != (wanted.digest, isolation):
        if lane is not None:
            lane.stop()
        lane = _local.lane = Lane(wanted, isolation)
    return lane.grade(submission, seed).to_json()
