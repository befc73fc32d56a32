"""The warm referee: owns a jail, and forks a process for each submission it is given on its standard input."""

import gc
import json
import os
import struct
import sys
import tempfile
import traceback
from pathlib import Path
from typing import BinaryIO

from autograder.release import Release
from autograder.result import INFRASTRUCTURE
from autograder.sandbox.launch import Jail, JailError, Limits


def main() -> None:
    """Read a job, write its result, until there are no more."""
    jobs, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed must not get between the results
    settings = json.loads(read(jobs) or b"{}")
    release = Release.from_json(read(jobs))
    jail = Jail(Path(settings["kit"]), settings["isolation"], Limits(**settings["limits"]))
    sys.path.insert(0, settings["kit"])
    from autograder.referee.run import grade, no_marks, prepare

    _warm_up()
    prepare(release)
    try:
        jail.wait()
    except JailError as error:
        write(results, json.dumps({"problem": str(error)}).encode())
        return
    write(results, b"{}")
    gc.collect()
    gc.freeze()
    while (seed := read(jobs)) and (submission := read(jobs)) is not None:
        with tempfile.TemporaryFile() as answer:
            child = os.fork()
            if child == 0:
                try:
                    graded = grade(release, jail, submission, seed.decode())
                except BaseException as error:  # also what no test may catch
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    reason = f"The referee failed in {where.name}, line {where.lineno}: {type(error).__name__}: {error}"
                    graded = no_marks(release, INFRASTRUCTURE, reason[:1000])
                answer.write(graded.to_json().encode("utf-8", "replace"))
                answer.flush()
                os._exit(0)
            _, status = os.waitpid(child, 0)
            answer.seek(0)
            if os.waitstatus_to_exitcode(status) == 0:
                write(results, answer.read())
            else:
                reason = f"The referee's process ended with {os.waitstatus_to_exitcode(status)}."
                write(results, no_marks(release, INFRASTRUCTURE, reason).to_json().encode())
    jail.close()


def _warm_up() -> None:
    """Import what tests import; run no tensor operation, for the sake of the children."""
    import torch.fx.experimental.symbolic_shapes  # the first gradient would import it, in every child
    import torch.nn.functional
    import torch.optim  # noqa: F401

    from course import checks, examples, plots  # noqa: F401


def read(stream: BinaryIO) -> bytes:
    """The next message; empty at the end."""
    head = stream.read(8)
    return stream.read(struct.unpack(">Q", head)[0]) if len(head) == 8 else b""


def write(stream: BinaryIO, message: bytes) -> None:
    stream.write(struct.pack(">Q", len(message)) + message)
    stream.flush()


if __name__ == "__main__":
    main()
