"""What grading a submission gives: plain data that can be stored, sent to another machine, and compared."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

# What became of one graded cell. Only RIGHT earns points.
RIGHT = "right"
WRONG = "wrong"
NOT_ATTEMPTED = "not attempted"
CRASHED = "crashed"
TIMED_OUT = "timed out"
OUT_OF_MEMORY = "out of memory"
INFRASTRUCTURE = "infrastructure error"

# What became of the submission as a whole.
GRADED = "graded"
UNREADABLE = "unreadable"


@dataclass
class Check:
    """One named part of a graded cell, in the order of the cell."""

    name: str
    status: str
    message: str = ""  # what was expected and what came, in words; never the source of a test


@dataclass
class CellResult:
    """One graded cell: all its points when every check passed, otherwise none, as with `nbgrader autograde`."""

    grade_id: str
    exercise: str
    is_quiz: bool
    max_score: float
    status: str
    error: str = ""  # type of the first exception
    message: str = ""  # its text
    traceback: str = ""  # lines of the student's own code in it
    checks: list[Check] = field(default_factory=list)
    output: str = ""  # what the student's own cell printed
    pictures: list[str] = field(default_factory=list)  # PNG in base64, checked
    misconceptions: list[str] = field(default_factory=list)  # ids
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return self.status == RIGHT

    @property
    def score(self) -> float:
        return self.max_score if self.passed else 0.0


@dataclass
class Result:
    """One submission.

    `status` is GRADED, UNREADABLE (the file is no notebook of this chapter) or INFRASTRUCTURE (the grader failed,
    which says nothing about the submission).
    """

    status: str
    reason: str
    cells: list[CellResult]
    notes: list[str] = field(default_factory=list)  # what was ignored, restored or missing
    seed: str = ""  # with it, the same marks can be had again
    isolation: str = ""
    notebook: dict[str, Any] | None = None  # the released notebook with the student's answers and our outputs

    def __post_init__(self) -> None:
        for cell in self.cells:
            if not (math.isfinite(cell.max_score) and cell.max_score >= 0):
                raise ValueError(f"{cell.grade_id}: {cell.max_score} points are impossible")

    @property
    def score(self) -> float:
        return sum(cell.score for cell in self.cells)

    @property
    def max_score(self) -> float:
        return sum(cell.max_score for cell in self.cells)

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes) -> "Result":
        data = json.loads(text)
        cells = [CellResult(**cell | {"checks": [Check(**c) for c in cell["checks"]]}) for cell in data.pop("cells")]
        return Result(cells=cells, **data)


def no_marks(cells: Iterable["Graded"], status: str, reason: str) -> Result:
    """Nothing was graded: UNREADABLE, or INFRASTRUCTURE."""
    word = INFRASTRUCTURE if status == INFRASTRUCTURE else NOT_ATTEMPTED
    return Result(status, reason, [CellResult(c.grade_id, c.exercise, c.is_quiz, c.points, word) for c in cells])


class Graded(Protocol):
    """What is known of a graded cell before it is graded: `autograder.release.Cell`."""

    @property
    def grade_id(self) -> str: ...

    @property
    def exercise(self) -> str: ...

    @property
    def is_quiz(self) -> bool: ...

    @property
    def points(self) -> float: ...
