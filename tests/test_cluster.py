"""The same grading on a Dask cluster: a real scheduler, two worker processes, and one of them is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tiny_course import completed, content

from autograder.classroom import How, grade_class
from autograder.collect import Submission
from autograder.layout import Chapter, here
from autograder.release import build_release
from autograder.result import GRADED

STUDENTS = 24


@dataclass
class Cluster:
    address: str
    workers: list[subprocess.Popen]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    environment = {**os.environ, "PYTHONPATH": str(here().root), "DASK_DISTRIBUTED__WORKER__DAEMON": "False"}

    def start(*command: str) -> subprocess.Popen:
        log = (tmp_path / f"{command[0]}.log").open("a")
        program = [sys.executable, "-m", "distributed.cli.dask_" + command[0], *command[1:]]
        return subprocess.Popen(program, env=environment, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True)

    file = tmp_path / "scheduler.json"
    scheduler = start(
        "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
    )
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--scheduler-file", str(file)]
    workers = [start("worker", *options) for _ in range(2)]
    try:
        from distributed import Client

        for _ in range(300):
            if file.is_file() and file.stat().st_size:
                break
            time.sleep(0.1)
        with Client(scheduler_file=str(file), timeout=30) as client:
            client.wait_for_workers(2, timeout=60)
            address = client.scheduler.address
        yield Cluster(address, workers)
    finally:
        for process in [*workers, scheduler]:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_killed_worker_costs_nothing_but_time(cluster: Cluster, chapter: Chapter, jail: str, monkeypatch) -> None:
    slow = "import time\ntime.sleep(0.2)\ndef double(x):\n    return 2 * x + {0} - {0}"
    members = [Submission(f"s{i}", "", content(completed(chapter, double=slow.format(i)))) for i in range(STUDENTS)]
    release = build_release(chapter, cell_timeout=10)
    kept = []

    def kill_one(path: Path, data: bytes) -> None:
        original(path, data)
        if path.parent.name == "results":
            kept.append(path)
            if len(kept) == STUDENTS // 4:
                cluster.workers[0].send_signal(signal.SIGKILL)

    from autograder import classroom

    original = classroom.write_atomically
    monkeypatch.setattr(classroom, "write_atomically", kill_one)
    how = How(scheduler=cluster.address, isolation=jail, progress=False)
    results = grade_class(chapter.course, release, members, how)
    assert cluster.workers[0].wait(10) == -signal.SIGKILL
    assert [results[f"s{i}"].status for i in range(STUDENTS)] == [GRADED] * STUDENTS
    assert all(result.score == result.max_score for result in results.values())
    here_too = grade_class(chapter.course, release, members[:2], How(isolation=jail, progress=False, seed="other"))
    assert [result.score for result in here_too.values()] == [results["s0"].max_score] * 2


def test_no_scheduler_is_said_clearly(chapter: Chapter, jail: str) -> None:
    from autograder.classroom import ClusterError

    member = Submission("ada", "", content(completed(chapter)))
    how = How(scheduler="tcp://127.0.0.1:9", isolation=jail, progress=False)
    with pytest.raises(ClusterError, match=r"tcp://127\.0\.0\.1:9"):
        grade_class(chapter.course, build_release(chapter, cell_timeout=11), [member], how)
