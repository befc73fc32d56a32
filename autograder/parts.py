"""The checks inside a graded cell: a comment at its beginning names each of them."""

import ast
import re
from dataclasses import dataclass
from functools import cache

HIDDEN = re.compile(r"^\s*### (BEGIN|END) HIDDEN TESTS\s*$")
REST = "Further inputs, which the notebook does not show"


@dataclass(frozen=True)
class Part:
    """Statements of a graded cell that are judged together. Without a name they only prepare."""

    name: str
    code: str
    first_line: int


@cache
def parts(source: str, exercise: str) -> tuple[Part, ...]:
    """Split a graded cell. The hidden tests are one check, and none of their text is in its name."""
    lines = source.splitlines()
    hidden_from = next((i for i, line in enumerate(lines) if HIDDEN.match(line)), len(lines))
    groups: list[tuple[str, int, list[ast.stmt]]] = []
    for statement in ast.parse(source).body:
        line = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))]) - 1
        comment = _comment_above(lines, line)
        if line > hidden_from:
            if not groups or groups[-1][0] != REST:
                groups.append((REST, line, []))
        elif comment or not groups:
            groups.append((comment or f"{exercise} works", line, []))
        groups[-1][2].append(statement)
    found = []
    for name, line, statements in groups:
        last = max(statement.end_lineno or statement.lineno for statement in statements)
        checks = any(_is_check(node) for statement in statements for node in ast.walk(statement))
        found.append(Part(name if checks else "", "\n".join(lines[line:last]), line + 1))
    return tuple(found)


def _comment_above(lines: list[str], line: int) -> str:
    """The block of comments that ends right above a statement, as one sentence."""
    block: list[str] = []
    while line > 0 and lines[line - 1].startswith("#") and not HIDDEN.match(lines[line - 1]):
        line -= 1
        block.insert(0, lines[line].lstrip("# ").strip())
    return " ".join(block)


def _is_check(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.Raise):
        return True
    called = node.func if isinstance(node, ast.Call) else None
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
    return name.startswith("check")
