"""The warm parent inside the jail: imports everything once, runs nothing, and forks a process for each submission.

It must never run a tensor operation: children of a process that has would hang in their first backward pass.
"""

import gc
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

POLL = 0.1  # seconds between two looks at the memory


def main(control: socket.socket, confined: bool) -> None:
    """Fork whenever a job comes; end when the control line is closed."""
    from .worker import make_shell

    shell = make_shell()
    _warm_up()
    gc.collect()
    gc.freeze()  # so that a child's collector does not copy what it inherits
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.send(b"ready")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 65536, 2)
        if not message:
            return
        channel, lifeline = descriptors
        if os.fork() == 0:
            control.close()
            _guard(channel, lifeline, json.loads(message), confined, shell)
        os.close(channel)
        os.close(lifeline)


def _warm_up() -> None:
    import beartype  # noqa: F401
    import jaxtyping._ipython_extension  # noqa: F401
    import matplotlib.backends.backend_agg
    import matplotlib.pyplot  # noqa: F401
    import torch
    import torch.fx.experimental.symbolic_shapes  # the first gradient would import it, in every child
    import torch.nn.functional

    from course import checks, examples, plots  # noqa: F401

    # Half precision asks once what the processor can do, and finds no /proc later.
    torch.backends.cpu.get_cpu_capability()
    torch.cpu._is_avx2_supported()


def _guard(channel: int, lifeline: int, limits: dict, confined: bool, shell: object) -> None:
    """Start the student's process, watch it, and say on the lifeline how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reason = "ended"
    try:
        if confined:
            from .confine import enter_namespaces

            enter_namespaces()
        else:
            os.setsid()
        ready, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ready)
            _student(channel, lifeline, tell, limits, confined, shell)
        os.close(tell)
        os.close(channel)
        problem = os.read(ready, 4096)
        reason = f"infrastructure: {problem.decode()}" if problem else _watch(child, lifeline, limits["memory"])
        _end(child, confined)
        _, status = os.waitpid(child, 0)
        if reason == "ended" and os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            reason = "time" if number == signal.SIGXCPU else f"signal {number}"
    except BaseException as error:
        reason = f"infrastructure: {type(error).__name__}: {error}"
    try:
        os.write(lifeline, reason.encode()[:1000])
    finally:
        os._exit(0)


def _watch(child: int, lifeline: int, memory: int) -> str:
    """Wait until the child ends, takes too much memory, or the referee hangs up."""
    gone = [os.pidfd_open(child)] if hasattr(os, "pidfd_open") else []
    while True:
        ready, _, _ = select.select([lifeline, *gone], [], [], POLL)
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return "ended"
        if lifeline in ready:
            return "stopped"
        if _memory_in_use(child) > memory:
            return "memory"


def _memory_in_use(child: int) -> int:
    """Bytes of all processes in the child's world, shared pages counted once."""
    total, world = 0, _world(str(child))
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdigit() and _world(entry) == world:
            try:
                lines = Path(f"/proc/{entry}/smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Anon:"))
    return total


def _world(process: str) -> str:
    """What the processes of one submission have in common: their process name space, or else their session."""
    try:
        own, space = os.readlink("/proc/self/ns/pid"), os.readlink(f"/proc/{process}/ns/pid")
        return space if space != own else f"session {os.getsid(int(process))}"
    except OSError:
        return process


def _end(child: int, confined: bool) -> None:
    """Kill the child with everything it started. In its own world it is the first process, and takes all along."""
    try:
        os.kill(child, signal.SIGKILL)
        if not confined:
            os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _student(channel: int, lifeline: int, tell: int, limits: dict, confined: bool, shell: object) -> None:
    """Become the process that runs a submission. Never returns."""
    try:
        os.close(lifeline)
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        from . import confine

        confine.limit(limits["memory"], limits["cpu"], limits["files"], limits["processes"])
        if confined:
            confine.private_files(limits["files"])
        _close_all_but(channel, tell)
        os.umask(0o077)
        if confined:
            os.chdir(confine.SCRATCH)
            confine.drop_privileges()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.path[:] = [path for path in sys.path if path]
        import torch

        torch.set_num_threads(1)
        from .worker import Worker

        worker = Worker(socket.socket(fileno=channel), shell)  # type: ignore[arg-type]
    except BaseException as error:
        os.write(tell, f"{type(error).__name__}: {error}".encode()[:1000])
        os._exit(1)
    os.close(tell)
    try:
        worker.run()
    finally:
        os._exit(0)


def _close_all_but(*kept: int) -> None:
    low = 3
    for descriptor in sorted(kept):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, 4096)


if __name__ == "__main__":
    os.environ.setdefault("TZ", "UTC")
    time.tzset()
    main(socket.socket(fileno=int(sys.argv[1])), confined=sys.argv[2] == "confined")
