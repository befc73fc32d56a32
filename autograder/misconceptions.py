"""Wrong answers people really give, read from `misconceptions.py` without running it."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from autograder.export import MARKERS
from autograder.layout import Chapter
from autograder.portable import SourceError
from autograder.source import read

Answer = TypeVar("Answer")
MARK, EDIT = "misconception", "wrong_edit"
FORMS = {
    MARK: '@misconception("exercise", "id", "sentence")',
    EDIT: 'wrong_edit("exercise", "id", "sentence", {"old text": "new text"})',
}


@dataclass(frozen=True)
class Misconception:
    exercise: str
    id: str
    sentence: str
    source: str


class MisconceptionError(ValueError):
    """A misconceptions.py that cannot be read. The message names file and line."""


def misconception(exercise: str, id: str, sentence: str) -> Callable[[Answer], Answer]:
    """Mark a function or class as a typical wrong answer to `exercise`, and say what helps."""
    return lambda answer: answer


def wrong_edit(exercise: str, id: str, sentence: str, edits: dict[str, str]) -> None:
    """Say that the reference solution of `exercise`, so edited, is a typical wrong answer, and what helps.

    Args:
        edits: old text → new text. An old text stands in the solution exactly once; no two overlap.
    """


def load(chapter: Chapter) -> list[Misconception]:
    """All misconceptions of a chapter, complete answers all of them; none when it has no such file.

    The file is parsed, not run: a wrong answer may use names that only the notebook has.

    Raises:
        MisconceptionError: syntax, a misconception that is not written as CONTRIBUTING.md says, an id that is used
            twice, an edit that does not fit the reference solution; or there are edits, and the chapter's source
            cannot be read.
    """
    path = chapter.misconceptions
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise MisconceptionError(f"{path}:{error.lineno}: {error.msg}") from None
    solutions = _solutions(chapter) if any(_called(node) == EDIT for node in tree.body) else {}
    found: dict[str, Misconception] = {}
    for node in tree.body:
        for line, one in _read(node, text, solutions, path):
            if one.id in found:
                raise MisconceptionError(f"{path}:{line}: the id {one.id!r} is used twice.")
            found[one.id] = one
    return list(found.values())


def _solutions(chapter: Chapter) -> dict[str, str]:
    """Exercise → the reference solution, as it stands in the notebook."""
    try:
        cells = [cell for cell in read(chapter).notebook.cells if "exercise" in cell.metadata]
    except SourceError as error:
        raise MisconceptionError(str(error)) from None
    return {cell.metadata["exercise"]: MARKERS.sub("", cell.source).rstrip() + "\n" for cell in cells}


def _read(node: ast.stmt, text: str, solutions: dict[str, str], path: Path) -> Iterator[tuple[int, Misconception]]:
    """The misconceptions that a statement of the file defines, each with its line."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        marks = [decorator for decorator in node.decorator_list if _name(decorator) == MARK]
        for mark in marks:
            yield mark.lineno, Misconception(*_head(mark, 3, path), _source(node, marks, text))
    elif isinstance(node, ast.Expr) and _called(node) == EDIT:
        exercise, id, sentence = _head(node.value, 4, path)
        where = f"{path}:{node.lineno}: {id!r}"
        if exercise not in solutions:
            raise MisconceptionError(f"{where} belongs to {exercise!r}, which is no exercise of this chapter.")
        source = _edited(solutions[exercise], _edits(node, path), where)
        yield node.lineno, Misconception(exercise, id, sentence, source)


def _called(node: ast.stmt) -> str:
    """What a statement calls, if it does nothing else."""
    return _name(node.value) if isinstance(node, ast.Expr) else ""


def _name(value: ast.expr) -> str:
    called = value.func if isinstance(value, ast.Call) else value
    return called.id if isinstance(called, ast.Name) else ""


def _head(call: ast.expr, count: int, path: Path) -> tuple[str, str, str]:
    """Exercise, id and sentence: the first three of `count` arguments."""
    arguments = call.args if isinstance(call, ast.Call) and not call.keywords else []
    texts = [text for argument in arguments[:3] if (text := _text(argument)) and text.strip()]
    if len(texts) != 3 or len(arguments) != count:
        raise MisconceptionError(f"{path}:{call.lineno}: write {FORMS[_name(call)]}.")
    if not texts[1].replace("-", "").replace("_", "").isalnum():
        raise MisconceptionError(f"{path}:{call.lineno}: the id {texts[1]!r} may hold letters, digits, '-' and '_'.")
    return texts[0], texts[1], texts[2]


def _edits(node: ast.Expr, path: Path) -> list[tuple[str, str]]:
    """Pairs of old and new text. Not a dict: a text that stands there twice must be noticed."""
    last = node.value.args[-1] if isinstance(node.value, ast.Call) else node.value
    keys, values = (last.keys, last.values) if isinstance(last, ast.Dict) else ([], [])
    pairs = [(_text(old), _text(new)) for old, new in zip(keys, values, strict=True)]
    texts = [(old, new) for old, new in pairs if old and new is not None]
    if not texts or len(texts) != len(pairs):
        raise MisconceptionError(f"{path}:{node.lineno}: write {FORMS[EDIT]}.")
    return texts


def _text(value: ast.expr | None) -> str | None:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _edited(source: str, edits: list[tuple[str, str]], where: str) -> str:
    """The source with each old text replaced; further lines of a new text are indented as the line it begins in."""
    places = []
    for old, new in edits:
        if (times := source.count(old)) != 1:
            found = f"stands {times} times" if times else "does not stand"
            raise MisconceptionError(f"{where}: {old!r} {found} in the reference solution. It must stand there once.")
        start = source.index(old)
        line = source[:start].rpartition("\n")[2] + old
        indent = line[: len(line) - len(line.lstrip())]
        places.append((start, start + len(old), new.replace("\n", f"\n{indent}")))
    kept, end = [], 0
    for start, stop, new in sorted(places):
        if start < end:
            raise MisconceptionError(f"{where}: two edits overlap, at {source[start:end]!r}.")
        kept += [source[end:start], new]
        end = stop
    source = "".join(kept) + source[end:]
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise MisconceptionError(f"{where}: {error.msg} after the edit, in {(error.text or '').strip()!r}.") from None
    return source


def _source(node: ast.FunctionDef | ast.ClassDef, marks: list[ast.expr], text: str) -> str:
    """The definition as written, with its other decorators and without ours."""
    others = [f"@{ast.get_source_segment(text, other)}" for other in node.decorator_list if other not in marks]
    return "\n".join(others + text.splitlines()[node.lineno - 1 : node.end_lineno]) + "\n"
