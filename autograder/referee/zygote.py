"""The warm referee: owns a jail, and forks a process for each submission it is given on its standard input."""

import gc
import json
import os
import struct
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from autograder.release import Release
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
                    answer.write(grade(release, jail, submission, seed.decode()).to_json().encode())
                    answer.flush()
                    os._exit(0)
                except BaseException as error:
                    sys.stderr.write(f"{type(error).__name__}: {error}\n")
                    sys.excepthook(*sys.exc_info())
                    os._exit(1)
            _, status = os.waitpid(child, 0)
            answer.seek(0)
            if os.waitstatus_to_exitcode(status) == 0:
                write(results, answer.read())
            else:
                reason = f"The referee's process ended with {os.waitstatus_to_exitcode(status)}."
                write(results, no_marks(release, "infrastructure error", reason).to_json().encode())
    jail.close()


def _warm_up() -> None:
    """Import what tests import; run no tensor operation, for the sake of the children."""
    import torch.nn.functional
    import torch.fx.experimental.symbolic_shapes  # the first gradient would import it, in every child
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
