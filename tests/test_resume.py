"""Killed at any point and run again: the same marks, and no work twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_course import completed, content

from autograder.layout import Chapter, here

STUDENTS = 12
SLOW = "import time\ntime.sleep(0.3)\ndef double(x):\n    return {0}"


@pytest.fixture(scope="module")
def submissions(chapter: Chapter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    for i in range(STUDENTS):
        answer = SLOW.format(f"2 * x + {i} - {i}" if i % 3 else f"x + {i}")
        (folder / f"s{i:02}.ipynb").write_bytes(content(completed(chapter, double=answer)))
    return folder


def command(chapter: Chapter, grading: Path, submissions: Path, jail: str) -> subprocess.Popen:
    """`grade`, as the command line calls it, with a grading folder of its own."""
    code = (
        "import sys, typer\n"
        "from pathlib import Path\n"
        "from autograder import commands_grade\n"
        "from autograder.layout import Course\n"
        "app = typer.Typer()\n"
        "course = Course(Path(sys.argv.pop(1)), Path(sys.argv.pop(1)))\n"
        "commands_grade.register(app, lambda: course)\n"
        "app()"
    )
    arguments = ["grade", str(submissions), "--chapter", chapter.id, "--isolation", jail, "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": str(here().root)}
    program = [sys.executable, "-c", code, str(chapter.course.root), str(grading), *arguments]
    return subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def kept(chapter: Chapter) -> dict[str, int]:
    """Stored results and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in chapter.course.build.glob("grading/*/results/*.json")}


def test_killed_and_run_again(chapter: Chapter, submissions: Path, jail: str, tmp_path: Path) -> None:
    grading = tmp_path / "grading"
    first = command(chapter, grading, submissions, jail)
    deadline = time.monotonic() + 60
    while len(kept(chapter)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = kept(chapter)
    assert 3 <= len(before) < STUDENTS

    second = command(chapter, grading, submissions, jail)
    output, _ = second.communicate(timeout=120)
    assert second.returncode == 0, output.decode()
    after = kept(chapter)
    assert len(after) == STUDENTS
    assert {name: after[name] for name in before} == before  # nothing was graded twice
    report = grading / "reports" / chapter.id
    resumed = (report / "results.json").read_bytes()

    # The same class in one go, with the same secret and nothing stored, gives the same bytes.
    for path in chapter.course.build.glob("grading/*/results/*.json"):
        path.unlink()
    whole = command(chapter, grading, submissions, jail)
    output, _ = whole.communicate(timeout=120)
    assert whole.returncode == 0, output.decode()
    assert (report / "results.json").read_bytes() == resumed
    assert len((report / "marks.csv").read_text().splitlines()) == STUDENTS + 1


def test_nothing_goes_on_after_a_kill(chapter: Chapter, submissions: Path, jail: str, tmp_path: Path) -> None:
    """Neither the referee nor the jail outlives the command."""
    for path in chapter.course.build.glob("grading/*/results/*.json"):
        path.unlink()
    killed = command(chapter, tmp_path / "grading", submissions, jail)
    deadline = time.monotonic() + 60
    while len(kept(chapter)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    mine = {pid for pid, parent in _parents().items() if _descends(pid, killed.pid)}
    assert len(mine) >= 3  # the referee, bubblewrap, the jail
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    deadline = time.monotonic() + 15
    while (alive := mine & set(_parents())) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive, [Path(f"/proc/{pid}/cmdline").read_bytes()[:200] for pid in alive]


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                found[int(entry.name)] = int(fields[1])
    return found


def _descends(pid: int, ancestor: int) -> bool:
    parents = _parents()
    while pid in parents and pid != ancestor:
        pid = parents[pid]
    return pid == ancestor and pid in parents
