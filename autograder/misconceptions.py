"""Wrong answers people really give, read from `misconceptions.py` without running it."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from autograder.layout import Chapter

Answer = TypeVar("Answer")


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


def load(chapter: Chapter) -> list[Misconception]:
    """All misconceptions of a chapter; none when it has no such file.

    The file is parsed, not run: a wrong answer may use names that only the notebook has.

    Raises:
        MisconceptionError: syntax, a decorator without three strings, an id that is used twice.
    """
    path = chapter.misconceptions
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise MisconceptionError(f"{path}:{error.lineno}: {error.msg}") from None
    found: dict[str, Misconception] = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        marks = [decorator for decorator in node.decorator_list if _is_mark(decorator)]
        for mark in marks:
            exercise, id, sentence = _arguments(mark, path)
            if id in found:
                raise MisconceptionError(f"{path}:{mark.lineno}: the id {id!r} is used twice.")
            found[id] = Misconception(exercise, id, sentence, _source(node, marks, text))
    return list(found.values())


def _is_mark(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id == "misconception"


def _arguments(mark: ast.expr, path: Path) -> tuple[str, str, str]:
    arguments = mark.args if isinstance(mark, ast.Call) and not mark.keywords else []
    values = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    if len(texts) != 3 or len(arguments) != 3:
        raise MisconceptionError(f'{path}:{mark.lineno}: write @misconception("exercise", "id", "sentence").')
    if not texts[1].replace("-", "").replace("_", "").isalnum():
        raise MisconceptionError(f"{path}:{mark.lineno}: the id {texts[1]!r} may hold letters, digits, '-' and '_'.")
    return texts[0], texts[1], texts[2]


def _source(node: ast.FunctionDef | ast.ClassDef, marks: list[ast.expr], text: str) -> str:
    """The definition as written, with its other decorators and without ours."""
    others = [f"@{ast.get_source_segment(text, other)}" for other in node.decorator_list if other not in marks]
    return "\n".join(others + text.splitlines()[node.lineno - 1 : node.end_lineno]) + "\n"
