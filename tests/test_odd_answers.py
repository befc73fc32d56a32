"""Answers that are odd in a way no chapter teaches: each costs its own exercise, and nothing else."""

import base64
import dataclasses
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator

import pytest
import torch
from nbformat.v4 import new_code_cell
from tiny_course import FULL, completed, content

from autograder import classroom
from autograder.graders import Grader
from autograder.layout import here
from autograder.rebuild import HELPER, rebuild
from autograder.referee.notebook import pictures
from autograder.release import Release, build_release, visible_release
from course.names import bound, used


@pytest.fixture(scope="module")
def release(chapter) -> Release:
    return build_release(chapter, cell_timeout=2)


@pytest.fixture(scope="module")
def grader(release, jail) -> Iterator[Grader]:
    with classroom.a_grader(release, jail) as grader:
        yield grader


SYMTABLE = [
    "def f():\n    x = 1\n    global x",
    "nonlocal x",
    "def f(a, a): pass",
    "[x := 1 for x in y]",
    "def f():\n    from os import *",
    "def f():\n    global x\n    x: int = 1",
]


@pytest.mark.parametrize("source", SYMTABLE)
def test_used_of_what_only_the_compiler_refuses(source) -> None:
    assert isinstance(used(source), frozenset)


def test_a_duplicate_argument_costs_its_own_exercise(grader, chapter) -> None:
    result = grader.grade(content(completed(chapter, double="def double(x, x):\n    return 2 * x")), "s")
    assert result.status == "graded", result.reason
    assert {c.grade_id: c.score for c in result.cells} == FULL | {"test_double": 0.0}


def test_many_magics_do_not_stop_the_grader() -> None:
    """IPython takes a pass over the cell for each of them."""
    assert bound("%a\n" * 20_000) == frozenset()


def test_deep_tuples_do_not_kill_the_process() -> None:
    code = """
import msgpack
from autograder.sandbox import wire
data = msgpack.packb(1)
for _ in range(300):
    data = msgpack.packb(msgpack.ExtType(wire.TUPLE, b"\\x91" + data))
try:
    wire.unpack(data, [], lambda *_: None)
except wire.WireError:
    pass
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=here().root)
    assert done.returncode == 0, done.returncode


def test_a_deep_answer_is_wrong_not_infrastructure(grader, chapter) -> None:
    deep = "def double(x):\n    v = 1\n    for _ in range(250):\n        v = (v,)\n    return v"
    result = grader.grade(content(completed(chapter, double=deep)), "s")
    assert result.status == "graded", result.reason


def test_check_with_a_cell_that_is_all_hidden(chapter, jail) -> None:
    """A graded cell without a visible test says nothing in `check`."""
    notebook = content(completed(chapter))
    visible = visible_release(chapter.course, notebook)
    cells = tuple(dataclasses.replace(c, source="") if c.grade_id == "test_quiz_color" else c for c in visible.cells)
    with classroom.a_grader(dataclasses.replace(visible, cells=cells, digest=visible.digest + "x"), jail) as grader:
        result = grader.grade(notebook, "check")
    assert result.status == "graded", result.reason


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("counter += 1", {"counter"}),
        ("def f():\n    global counter\n    counter += 1", {"counter"}),
        ("try:\n    pass\nexcept Mine:\n    pass", {"Mine"}),
    ],
)
def test_used(source, names) -> None:
    assert used(source) == names


def test_a_helper_that_is_only_added_to_is_kept(chapter, release) -> None:
    notebook = completed(chapter, double="calls += 1\ndef double(x):\n    return 2 * x")
    notebook.cells.insert(1, new_code_cell("calls = 0"))
    assert [s.source for s in rebuild(release, content(notebook)).steps if s.kind == HELPER] == ["calls = 0"]


def test_pictures_of_a_cell(line) -> None:
    said = line.ask("exec", "print('a')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert said["output"].startswith("a\n")
    assert len(said["pictures"]) == 1 and pictures(said["pictures"]) == said["pictures"]


def test_resize_in_place(line) -> None:
    assert line.ask("exec", "def grow(x): x.resize_(4)")["error"] is None
    x = torch.zeros(2)
    line.get("grow")(x)
    assert x.shape == (4,)


def test_png_with_something_after_its_end_or_without_data() -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    data, end = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")), chunk(b"IEND", b"")
    for bad in (head + end, head + data + end + chunk(b"tEXt", b"<?php") + end):
        assert pictures([base64.b64encode(bad).decode()]) == []
