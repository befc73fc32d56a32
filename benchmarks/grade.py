"""The same class graded by `nbgrader autograde` and by this grader, in one run. The last line is one JSON object.

python benchmarks/grade.py [--honest 60] [--many 300]
"""

import argparse
import copy
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import nbformat
import psutil
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI

from autograder.classroom import How, grade_class
from autograder.collect import Submission
from autograder.layout import Course, here
from autograder.misconceptions import load
from autograder.publish import nbgrader_config
from autograder.release import Release, build_release
from autograder.samples import reference, with_misconception

CHAPTER = "02-self-attention"


def members(count: int, salt: str) -> list[Submission]:
    """A class of right and wrong submissions, each with bytes of its own: nothing comes from a cache."""
    chapter = here().chapter(CHAPTER)
    right = reference(chapter)
    kinds = [right, *(with_misconception(chapter, right, one) for one in load(chapter))]
    found = []
    for number in range(count):
        notebook = copy.deepcopy(kinds[number % len(kinds)])
        notebook.cells[0].source += f"\n\n{salt} {number}"
        found.append(Submission(f"student-{number:03}", "", nbformat.writes(notebook).encode()))
    return found


class Memory:
    """The most memory that this process and everything it started used together, shared pages counted once."""

    def __init__(self) -> None:
        self.peak, self.done = 0, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Memory":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.done.wait(0.5):
            total = 0
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                try:
                    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
                    total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
                except (OSError, psutil.Error):
                    continue
            self.peak = max(self.peak, total)


def ours(release: Release, submissions: list[Submission]) -> tuple[dict[str, float], float]:
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        results = grade_class(Course(Path(folder)), release, submissions, How(progress=sys.stderr.isatty()))
        return {student: result.score for student, result in results.items()}, time.monotonic() - started


def stock(submissions: list[Submission]) -> tuple[dict[str, float], float]:
    """`nbgrader autograde CHAPTER` as an instructor calls it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _write(root, submissions)
        started = time.monotonic()
        subprocess.run([sys.executable, __file__, "--stock", str(root)], check=True)
        seconds = time.monotonic() - started
        with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
            return {one.student: gradebook.find_submission(CHAPTER, one.student).score for one in submissions}, seconds


def _write(root: Path, submissions: list[Submission]) -> None:
    chapter = here().chapter(CHAPTER)
    (root / "solutions" / CHAPTER).mkdir(parents=True)
    shutil.copy(chapter.instructor_notebook, root / "solutions" / CHAPTER)
    for one in submissions:
        folder = root / "submitted" / one.student / CHAPTER
        folder.mkdir(parents=True)
        (folder / f"{chapter.name}.ipynb").write_bytes(one.content or b"")
    config = _config(root)
    if not NbGraderAPI(config=config).generate_assignment(CHAPTER)["success"]:
        raise RuntimeError("nbgrader generate_assignment failed")


def _config(root: Path):
    config = nbgrader_config(Course(root))
    for step in ("submitted", "autograded", "feedback"):
        setattr(config.CourseDirectory, f"{step}_directory", step)
    config.CourseDirectory.db_url = f"sqlite:///{root / 'gradebook.db'}"
    return config


def autograde(root: Path) -> int:
    """In a process of its own, like the command."""
    logging.disable(logging.WARNING)
    api = NbGraderAPI(config=_config(root))
    return 0 if api.autograde(CHAPTER, "*")["success"] else 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--honest", type=int, default=60, help="submissions that both grade")
    parser.add_argument("--many", type=int, default=300, help="submissions that only this grader grades")
    parser.add_argument("--stock", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stock:
        sys.exit(autograde(options.stock))

    release = build_release(here().chapter(CHAPTER))
    submissions = members(options.honest, "class")
    print(f"{options.honest} submissions, this grader", file=sys.stderr)
    mine, seconds = ours(release, submissions)
    print(f"  {seconds:.0f} s\n{options.honest} submissions, nbgrader autograde", file=sys.stderr)
    theirs, stock_seconds = stock(submissions)
    print(f"  {stock_seconds:.0f} s\n{options.many} submissions, this grader", file=sys.stderr)
    with Memory() as memory:
        many, many_seconds = ours(release, members(options.many, "many"))
    print(f"  {many_seconds:.0f} s", file=sys.stderr)
    print(
        json.dumps(
            {
                "submissions": len(submissions),
                "speedup": round(stock_seconds / seconds, 1),
                "equal_marks": mine == theirs,
                "submissions_per_minute": round(60 * len(submissions) / seconds, 1),
                "nbgrader_submissions_per_minute": round(60 * len(submissions) / stock_seconds, 1),
                "many": len(many),
                "many_seconds": round(many_seconds, 1),
                "many_mean_score": round(statistics.fmean(many.values()), 2),
                "peak_memory_mib": round(memory.peak / 1024),
                "processors": os.cpu_count(),
            }
        )
    )


if __name__ == "__main__":
    main()
