"""What the kernel takes away from a process before it runs a student's code."""

import ctypes
import os
import platform
import resource
import struct

libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
NOBODY = 65534
SCRATCH = "/scratch"  # the one place where a submission may write; /tmp leads there where nothing else lies in it

# System calls nobody needs here: other name spaces, other processes' memory, memory that no limit counts, keys.
FORBIDDEN = {
    "x86_64": {
        "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "ptrace": 101,
        "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438, "bpf": 321,
        "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "memfd_create": 319, "memfd_secret": 447,
        "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240, "keyctl": 250, "add_key": 248, "request_key": 249,
        "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
        "mount_setattr": 442, "name_to_handle_at": 303, "open_by_handle_at": 304, "personality": 135,
    },
    "aarch64": {
        "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "ptrace": 117,
        "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "pidfd_getfd": 438, "bpf": 280,
        "perf_event_open": 241, "userfaultfd": 282, "io_uring_setup": 425, "memfd_create": 279, "memfd_secret": 447,
        "shmget": 194, "msgget": 186, "semget": 190, "mq_open": 180, "keyctl": 219, "add_key": 217,
        "request_key": 218, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
        "fspick": 433, "mount_setattr": 442, "name_to_handle_at": 264, "open_by_handle_at": 265, "personality": 92,
    },
}  # fmt: skip
CLONE, CLONE3, SOCKET = {"x86_64": (56, 435, 41), "aarch64": (220, 435, 198)}.get(platform.machine(), (0, 0, 0))
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


class ConfineError(OSError):
    """The kernel refused. The message names the step."""


def supported() -> bool:
    """Whether the system calls of this processor are known here."""
    return platform.system() == "Linux" and platform.machine() in FORBIDDEN


def enter_namespaces() -> None:
    """Leave the other processes, the network, the shared memory and all privileges behind.

    The next child of this process is the first process of its own world, and the last to leave it.
    """
    if os.getuid() == 0:  # limits on processes do not hold for root
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        _checked(libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")  # so that /proc/self may be written
    uid, gid = os.getuid(), os.getgid()
    _checked(libc.unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET), "new name spaces")
    for name, line in [("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")]:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def private_files(size: int) -> None:
    """An empty folder of `size` bytes that nobody else sees, no /proc, and nothing else that can be written."""
    _checked(libc.unshare(CLONE_NEWNS), "a mount name space")
    _checked(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    _checked(libc.mount(b"tmpfs", SCRATCH.encode(), b"tmpfs", flags, f"size={size},nr_inodes=4096".encode()), SCRATCH)
    _checked(libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", flags, b"size=16777216,nr_inodes=256"), "/dev/shm")
    _checked(libc.mount(b"tmpfs", b"/proc", b"tmpfs", flags | MS_RDONLY, b"size=4096,nr_inodes=2"), "/proc")


def limit(memory: int, cpu_seconds: int, file_size: int, processes: int) -> None:
    """Bounds that a process and its children cannot raise again.

    Args:
        memory: bytes of address space beyond what is in use now.
        cpu_seconds: of each process.
        file_size: bytes.
        processes: with threads, together.
    """
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    for kind, value in [
        (resource.RLIMIT_AS, used + memory),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_STACK, 64 * 2**20),
    ]:
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def drop_privileges() -> None:
    """No capability, no way to get one, and only the system calls that a notebook needs."""
    _checked(libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl")
    for capability in range(64):
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; those the kernel does not know are refused
    header = struct.pack("Ii", 0x20080522, 0)
    _checked(libc.capset(header, b"\0" * 24), "dropping capabilities")
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _install_filter()


def _install_filter() -> None:
    """A seccomp filter: other processors' calls kill, forbidden ones fail with EPERM, sockets only AF_UNIX."""
    load, equal, test, answer = 0x20, 0x15, 0x45, 0x06
    kill, refuse, no_such_call, allow = 0x80000000, 0x00050001, 0x00050026, 0x7FFF0000
    program = [(load, 0, 0, 4), (equal, 1, 0, ARCHITECTURE[platform.machine()]), (answer, 0, 0, kill), (load, 0, 0, 0)]
    if platform.machine() == "x86_64":
        program += [(0x35, 0, 1, 0x40000000), (answer, 0, 0, kill)]  # the x32 numbers of the same calls
    for number in FORBIDDEN[platform.machine()].values():
        program += [(equal, 0, 1, number), (answer, 0, 0, refuse)]
    program += [
        (equal, 0, 1, CLONE3),
        (answer, 0, 0, no_such_call),
    ]  # its flags cannot be seen; the libraries use clone
    spaces = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | 0x02000000 | 0x04000000
    program += [(equal, 0, 3, CLONE), (load, 0, 0, 16), (test, 0, 1, spaces), (answer, 0, 0, refuse), (load, 0, 0, 0)]
    program += [
        (equal, 0, 3, SOCKET),
        (load, 0, 0, 16),
        (equal, 1, 0, 1),
        (answer, 0, 0, refuse),
        (answer, 0, 0, allow),
    ]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code)
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    _checked(libc.prctl(PR_SET_SECCOMP, 2, header, 0, 0), "seccomp")


def _checked(result: int, step: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise ConfineError(number, f"{step}: {os.strerror(number)}")
