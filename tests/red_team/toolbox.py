"""What the attacks are written with: the register, edits of a notebook, and code that goes into a student's cell.

Two signals tell that an attack has won. Its answer turns right when it has broken out (`breach`), so an exercise that
must be lost is not. Or it leaves a file `red-team-trace-*` on the real machine, which `forbidden_files` finds.

Should there be no jail, the attacks remain bounded. What would harm the machine itself (signals to other processes,
files that shadow modules) is only done where /proc is hidden; elsewhere a trace is left in its place.
"""

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

TRACE = "red-team-trace-"
HTML = "<script>red_team()</script><img src=x onerror=red_team()>"  # must reach no report unescaped
LISTENER_PORT = 47811  # the harness may listen here, on localhost (TCP) ...
LISTENER_NAME = "red-team-listener"  # ... and on this abstract unix socket, and must see no connection
EXERCISES = (
    "dot_scores",
    "softmax",
    "causal_average",
    "project",
    "score_variance",
    "attention_one_query",
    "scaled_dot_product_attention",
    "SelfAttention",
    "attention_cost",
)
WRONG = "def softmax(x, dim):\n    return x * 0\n"


@dataclass(frozen=True)
class Attack:
    """One submission that tries to harm or to cheat, and what an honest grader makes of it."""

    name: str
    kind: str
    loses: frozenset[str]  # exercises that must get no points; all others must get all of theirs
    unreadable: bool | None  # the whole file must be reported as unreadable; None: that, or marks as said
    may_lose: frozenset[str]  # exercises where either mark is honest, because the student broke them
    make: Callable[[NotebookNode], NotebookNode | bytes]

    def __str__(self) -> str:
        return self.name


ATTACKS: dict[str, Attack] = {}


def attack(
    kind: str, *, loses: Iterable[str] = (), may_lose: Iterable[str] = (), unreadable: bool | None = False
) -> Callable[[Callable[[NotebookNode], NotebookNode | bytes]], Callable[[NotebookNode], NotebookNode | bytes]]:
    """Register the decorated function, under its name."""

    def register(
        make: Callable[[NotebookNode], NotebookNode | bytes],
    ) -> Callable[[NotebookNode], NotebookNode | bytes]:
        name = make.__name__
        if name in ATTACKS:
            raise ValueError(f"two attacks are named {name}")
        ATTACKS[name] = Attack(name, kind, frozenset(loses), unreadable, frozenset(may_lose), make)
        return make

    return register


def forbidden_files(tmp: Path) -> list[Path]:
    """All traces on this machine: in the usual writable places, beside imported packages, and anywhere below `tmp`."""
    folders = [Path(name) for name in ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/home", "/root")]
    folders += [Path.home(), Path.cwd(), *Path.cwd().parents]
    for entry in (Path(name or ".") for name in sys.path):
        folders += [entry, entry / "course", entry / "torch", entry / "autograder"]
    found = {path.resolve() for folder in folders if folder.is_dir() for path in folder.glob(TRACE + "*")}
    return sorted(found | {path.resolve() for path in tmp.rglob(TRACE + "*")})


# --- edits of a notebook ---------------------------------------------------------------------------------------------


def grade_id(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def cell_of(notebook: NotebookNode, name: str) -> NotebookNode:
    """The first cell with this grade id: an exercise, or its tests (`test_softmax`)."""
    return next(cell for cell in notebook.cells if grade_id(cell) == name)


def answer(notebook: NotebookNode, exercise: str) -> str:
    return cell_of(notebook, exercise).source


def set_answer(notebook: NotebookNode, exercise: str, source: str) -> NotebookNode:
    cell_of(notebook, exercise).source = textwrap.dedent(source).strip("\n")
    return notebook


def append_to_answer(notebook: NotebookNode, exercise: str, source: str) -> NotebookNode:
    return set_answer(notebook, exercise, f"{answer(notebook, exercise)}\n\n{textwrap.dedent(source)}")


def prepend_to_answer(notebook: NotebookNode, exercise: str, source: str) -> NotebookNode:
    return set_answer(notebook, exercise, f"{textwrap.dedent(source)}\n\n{answer(notebook, exercise)}")


def add_cell(
    notebook: NotebookNode, source: str, before: str | None = None, after: str | None = None, markdown: bool = False
) -> NotebookNode:
    """Insert a new cell beside the cell with that grade id, or at the end; returns the cell."""
    cell = (new_markdown_cell if markdown else new_code_cell)(textwrap.dedent(source).strip("\n"))
    place = len(notebook.cells)
    if before or after:
        place = notebook.cells.index(cell_of(notebook, str(before or after))) + bool(after)
    notebook.cells.insert(place, cell)
    return cell


def content(notebook: NotebookNode) -> bytes:
    """The file as Python writes it, without any check of the format."""
    return json.dumps(notebook).encode("utf-8")


def quiz_letters(notebook: NotebookNode, quiz: str) -> str:
    found = re.search(r"^quiz_\w+ = ['\"]([a-h, ]+)['\"]", answer(notebook, quiz), re.MULTILINE)
    assert found, quiz
    return found[1]


def other_letter(notebook: NotebookNode, quiz: str) -> str:
    """A letter that is not the answer."""
    return next(letter for letter in "abcd" if letter != quiz_letters(notebook, quiz))


# --- code for a student's cell ---------------------------------------------------------------------------------------

PRELUDE = r'''
import os, sys, time

BREACH = []  # whatever is put here makes the answer right


def breach(what):
    BREACH.append(what)
    print("breach:", what)


def leave_trace(name, text="red team"):
    folders = ["/tmp", "/var/tmp", "/dev/shm", "/root", "/home", "/run", "/", ".", "..", "../.."]
    for folder in [*folders, os.path.expanduser("~")]:
        try:
            with open(os.path.join(folder, "red-team-trace-" + name), "w") as file:
                file.write(text)
        except OSError:
            pass


def jailed():
    """Without a jail nothing is done that would harm the machine."""
    return not os.path.exists("/proc/self")


def each(*attempts):
    """Make all attempts, whatever becomes of the others."""
    for attempt in attempts:
        try:
            attempt()
        except BaseException as error:
            print(attempt.__name__, "failed:", type(error).__name__)
'''

# Words that only the hidden tests and the reference solution hold. In pieces, so that no cell finds itself.
SEARCH = r"""
FIRST, SECOND = "a shift must ", "".join(reversed("gnihton egnahc"))
THIRD = "".join(reversed("(xama.x - x(pxe.hcrot"))


def secret(text):
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return isinstance(text, str) and ((FIRST in text and SECOND in text) or (THIRD in text and "softmax" in text))


def look(path):
    try:
        if os.path.getsize(path) < 2**20:
            with open(path, "rb") as file:
                if secret(file.read()):
                    breach(path)
    except OSError:
        pass


def walk(*roots, seconds=1.5, names=(".ipynb", ".md", ".db", ".py", ".yml", ".json")):
    end = time.monotonic() + seconds
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in ("proc", "sys", "site-packages", "usr")]
            for name in files:
                if name.endswith(names):
                    yield os.path.join(folder, name)
            if time.monotonic() > end:
                return
"""

# For patched functions: the student's own right answers must go on working.
ASKED = f"""
import sys


def asked_by_answer():
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name in {("forward", "__init__", *EXERCISES)!r}:
            return True
        frame = frame.f_back
    return False
"""


def breaking_out(notebook: NotebookNode, code: str, search: bool = False) -> NotebookNode:
    """Try `code` in the cell of softmax, which is right only where `code` has called `breach`."""
    tried = textwrap.indent(textwrap.dedent(code).strip("\n"), "    ")
    source = f"""{PRELUDE}{SEARCH if search else ""}
try:
{tried}
except BaseException as error:
    print("failed:", type(error).__name__)


def softmax(x, dim):
    return torch.softmax(x, dim) if BREACH else x * 0
"""
    return set_answer(notebook, "softmax", source)


def beside_right_answer(notebook: NotebookNode, code: str) -> NotebookNode:
    """Try `code` in the cell of softmax, before the right answer."""
    tried = textwrap.indent(textwrap.dedent(code).strip("\n"), "    ")
    return prepend_to_answer(
        notebook,
        "softmax",
        f"{PRELUDE}\ntry:\n{tried}\nexcept BaseException as error:\n    print(type(error).__name__)\n",
    )
