"""What is up to date: something is made again when a file that it depends on has changed, or when it is gone."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from autograder.layout import Course


def files(folder: Path, *patterns: str) -> list[Path]:
    """All files below `folder` that fit one of the patterns, in a fixed order."""
    return [path for pattern in patterns for path in sorted(folder.rglob(pattern)) if "__pycache__" not in path.parts]


def digest(paths: Iterable[Path]) -> str:
    """One digest over names and contents; a missing file counts as missing."""
    total = hashlib.sha256()
    for path in paths:
        total.update(str(path).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"missing")
    return total.hexdigest()


def is_current(course: Course, name: str, inputs: str, outputs: list[Path]) -> bool:
    """Whether `stamp` was called with the same inputs, and the outputs are as they were then."""
    path = _path(course, name)
    if not path.is_file() or not all(output.is_file() for output in outputs):
        return False
    return path.read_text() == _text(inputs, outputs)


def stamp(course: Course, name: str, inputs: str, outputs: list[Path]) -> None:
    """Remember that `outputs` were just made from `inputs`, a digest."""
    path = _path(course, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(inputs, outputs))


def _path(course: Course, name: str) -> Path:
    return course.build / "stamps" / f"{name}.json"


def _text(inputs: str, outputs: list[Path]) -> str:
    return json.dumps({"inputs": inputs, "outputs": digest(outputs)})
