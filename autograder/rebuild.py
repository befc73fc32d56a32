"""Make the notebook that is graded: the released one, with the sources of the student's answers put into it.

Nothing else of a submission is believed: not its tests, tags, points, outputs or kernel.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autograder.release import Release
from course import names

MAX_FILE = 10 * 2**20  # bytes
MAX_CELLS = 2_000
MAX_SOURCE = 100_000  # characters of one cell

GIVEN, HELPER, ANSWER, TEST = "given", "helper", "answer", "test"
BESIDE = re.compile(r"#\| beside the answers\n")  # the first line of a given cell that runs where the answers run


class Unreadable(Exception):
    """The file is no notebook of this chapter."""


@dataclass(frozen=True)
class Step:
    """One code cell, in the order in which cells run."""

    kind: str
    id: str  # grade id of an answer or a test
    source: str
    here: bool = False  # a given cell whose names the tests use
    there: bool = False  # a given cell whose names the student uses


@dataclass
class Rebuilt:
    """What is run and graded."""

    steps: list[Step]
    answers: dict[str, str]  # exercise → source, where it was attempted
    notes: list[str] = field(default_factory=list)


def rebuild(release: Release, submission: bytes) -> Rebuilt:
    """The released notebook with the student's answers.

    Raises:
        Unreadable: says in a sentence why.
    """
    cells = read_cells(submission)
    stubs = {cell.grade_id: cell.stub for cell in release.cells if cell.grade_id and not cell.is_test}
    tests = {cell.grade_id: cell.stub for cell in release.cells if cell.is_test}
    given = {_same(cell.stub) for cell in release.cells if not cell.grade_id}
    ids = Counter(id for id, _, _ in cells)
    if not any(ids[id] for id in (*stubs, *tests)):
        raise Unreadable(f"None of the cells of {release.chapter_id} is in the file. Is it another notebook?")

    notes = []
    answers = attempts(cells, stubs)
    helpers: dict[str, list[str]] = {}  # exercise → the student's own cells right before it
    waiting: list[str] = []
    placed = set()
    for id, is_code, source in cells:
        if id in stubs and is_code:
            if id not in placed:
                helpers[id], waiting = waiting, []
                placed.add(id)
        elif id in tests:
            if _same(source) != _same(tests[id]):
                notes.append(f"The test cell {id} was changed: restored.")
        elif is_code and source.strip() and _same(source) not in given:
            waiting.append(source)
    own = [(id, source) for id, sources in helpers.items() for source in sources] + [("", s) for s in waiting]

    for id in stubs:
        if ids[id] > 1:
            notes.append(f"The cell {id} is there {ids[id]} times: the first that differs from the stub counts.")
        if not ids[id]:
            notes.append(f"The cell {id} is missing: counted as not attempted.")
        elif id not in placed:
            notes.append(f"The cell {id} is no code cell any more: counted as not attempted.")
    notes += [f"The test cell {id} is missing: restored." for id in tests if not ids[id]]
    for id in stubs:
        # A student who answers in a cell of their own and leaves the stub as it was has answered.
        mine = [source for _, source in own if names.bound(source) & names.bound(stubs[id])]
        if id not in answers and mine:
            answers[id] = mine[-1]
            notes.append(f"The answer to {id} was found in a cell of its own.")

    own = [(id, source) for id, source in own if source not in answers.values()]
    wanted = set[str]().union(*(names.used(source) for source in answers.values()))
    places = names.needed(wanted, [source for _, source in own])
    kept = [one for place, one in enumerate(own) if place in places and one[0]]
    if ignored := len(own) - len(kept):
        notes.append(f"{ignored} extra {'cell' if ignored == 1 else 'cells'} ignored.")
    present = {id: answers.get(id, stub) for id, stub in stubs.items() if id in answers or ids[id]}
    return Rebuilt(arrange(release, present, kept), answers, notes)


def arrange(release: Release, answers: dict[str, str], helpers: list[tuple[str, str]]) -> list[Step]:
    """The cells to run, in the order of the notebook.

    Args:
        answers: grade id → source.
        helpers: cells that run right before the answer with this grade id.
    """
    used_there = set[str]().union(*(names.used(source) for source in [*answers.values(), *(s for _, s in helpers)]))
    used_here = set[str]().union(*(names.used(cell.source) for cell in release.graded))
    given = [cell.source if not cell.grade_id else "" for cell in release.cells]
    beside = {place for place, source in enumerate(given) if BESIDE.match(source)}
    used_there |= set[str]().union(*(names.used(given[place]) for place in beside))
    there = names.needed(used_there, given) | beside
    here = names.needed(used_here, ["" if place in beside else source for place, source in enumerate(given)])
    steps = []
    for place, cell in enumerate(release.cells):
        if cell.is_test:
            steps.append(Step(TEST, cell.grade_id, cell.source))
        elif cell.grade_id in answers:
            steps += [Step(HELPER, id, source) for id, source in helpers if id == cell.grade_id]
            steps.append(Step(ANSWER, cell.grade_id, answers[cell.grade_id]))
        elif not cell.grade_id and (magic := names.has_magic(cell.source)) | (place in here) | (place in there):
            steps.append(Step(GIVEN, "", cell.source, here=place in here, there=place in there or magic))
    return steps


def attempts(cells: list[tuple[str, bool, str]], stubs: Mapping[str, str]) -> dict[str, str]:
    """exercise → the source of its first code cell that is not empty and differs from the stub."""
    answers: dict[str, str] = {}
    for id, is_code, source in cells:
        if id in stubs and is_code and source.strip() and _same(source) != _same(stubs[id]):
            answers.setdefault(id, source)
    return answers


def read_cells(submission: bytes) -> list[tuple[str, bool, str]]:
    """Grade id, whether it is code, and source of every cell.

    Raises:
        Unreadable: says in a sentence why.
    """
    if len(submission) > MAX_FILE:
        raise Unreadable(f"The file is too large: {len(submission) / 2**20:.0f} MiB of at most {MAX_FILE // 2**20}.")
    if not submission.strip():
        raise Unreadable("The file is empty.")
    try:
        data = json.loads(submission.decode("utf-8-sig"))
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"The file is not a notebook: {str(error)[:200]}") from None
    if not isinstance(data, dict) or not isinstance(data.get("cells", []), list):
        raise Unreadable("The file is not a notebook: it has no list of cells.")
    if data.get("nbformat") != 4 or "cells" not in data:
        found = str(data.get("nbformat"))[:20]
        raise Unreadable(f"The notebook is in format {found}, not 4. Save it again with Jupyter.")
    if len(data["cells"]) > MAX_CELLS:
        raise Unreadable(f"The notebook has {len(data['cells'])} cells; at most {MAX_CELLS} are graded.")
    return [_cell(cell) for cell in data["cells"] if isinstance(cell, dict)]


def _cell(cell: dict[str, Any]) -> tuple[str, bool, str]:
    metadata = cell.get("metadata")
    options = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    id = options.get("grade_id") if isinstance(options, dict) else ""
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        source = ""
    if len(source) > MAX_SOURCE:
        source = f'raise ValueError("This cell was longer than {MAX_SOURCE} characters, and was left out.")'
    plain = source.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
    return id if isinstance(id, str) else "", cell.get("cell_type") == "code", plain


def _same(source: str) -> str:
    """What must agree for two sources to count as equal: everything but white space at the ends of lines."""
    return "\n".join(line.rstrip() for line in source.strip().splitlines())
