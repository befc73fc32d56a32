"""The warm referee: owns a jail, and forks a process for each submission it is given on its standard input."""

import gc
import json
import os
import select
import struct
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO

from autograder.release import Release
from autograder.result import INFRASTRUCTURE, no_marks
from autograder.sandbox.launch import Jail, JailError, Limits


def main() -> None:
    """Read jobs, write their results, several at a time, until there are no more."""
    jobs, results = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what reads must not get the jobs
    os.dup2(2, 1)  # whatever is printed must not get between the results
    settings = json.loads(read(jobs))
    release = Release.from_json(read(jobs))
    jail = Jail(Path(settings["kit"]), settings["isolation"], Limits(**settings["limits"]))
    sys.path.insert(0, settings["kit"])
    from autograder.referee.run import grade
    from autograder.referee.session import prepare

    _warm_up()
    prepare(release)
    try:
        jail.wait()
    except JailError as error:
        write(results, json.dumps({"problem": str(error)}).encode())
        return
    write(results, b"{}")
    gc.collect()
    gc.freeze()  # so that a child's collector does not copy what it inherits
    # end of a pipe that closes with the child → number, pid, answer
    running: dict[int, tuple[int, int, IO[bytes]]] = {}
    while True:
        ready, _, _ = select.select([jobs, *running], [], [])
        for descriptor in ready:
            if descriptor != jobs:
                number, pid, answer = running.pop(descriptor)
                os.close(descriptor)
                _, status = os.waitpid(pid, 0)
                answer.seek(0)
                graded = answer.read()
                answer.close()
                if status or not graded:
                    reason = f"The referee's process ended with {os.waitstatus_to_exitcode(status)}."
                    graded = no_marks(release.graded, INFRASTRUCTURE, reason).to_json().encode()
                write(results, json.dumps({"number": number}).encode())
                write(results, graded)
                continue
            try:
                job, submission = json.loads(read(jobs)), read(jobs)
            except EOFError:
                jail.close()
                return
            ended, alive = os.pipe()
            answer = tempfile.TemporaryFile()  # noqa: SIM115
            pid = os.fork()
            if pid == 0:
                for other in (jobs, results, ended, *running):
                    os.close(other)
                try:
                    result = grade(release, jail, submission, job["seed"])
                except BaseException as error:  # also what no test may catch
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    reason = f"The referee failed in {where.name}, line {where.lineno}: {type(error).__name__}: {error}"
                    result = no_marks(release.graded, INFRASTRUCTURE, reason[:1000])
                answer.write(result.to_json().encode("utf-8", "replace"))
                answer.flush()
                os._exit(0)
            os.close(alive)
            running[ended] = (job["number"], pid, answer)


def _warm_up() -> None:
    """Import what tests import; run no tensor operation, for the sake of the children."""
    import torch.fx.experimental.symbolic_shapes  # the first gradient would import it, in every child
    import torch.nn.functional
    import torch.optim  # noqa: F401

    from course import checks, examples, plots  # noqa: F401


def read(descriptor: int) -> bytes:
    """The next message.

    Raises:
        EOFError: there are no more.
    """
    (size,) = struct.unpack(">Q", _exactly(descriptor, 8))
    return _exactly(descriptor, size)


def _exactly(descriptor: int, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(descriptor, min(size - len(parts), 2**20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def write(descriptor: int, message: bytes) -> None:
    rest = memoryview(struct.pack(">Q", len(message)) + message)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


if __name__ == "__main__":
    main()
