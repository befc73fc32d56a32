"""Which names a cell defines and which it uses, without running it."""

import ast
import re
import symtable
from collections.abc import Iterator, Set
from functools import cache

from IPython.core.inputtransformer2 import TransformerManager

MAGIC = re.compile(r"^\s*[%!?]|=\s*[%!]|\?\s*$", re.MULTILINE)
MAX_MAGICS = 50
COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def python(source: str) -> str:
    """The cell as Python, with magics turned into calls of `get_ipython()`.

    Raises:
        SyntaxError: a NUL, on which tokenize of Python 3.12 and later fails in odd ways; or more magics than anybody
            needs, as IPython takes a pass over the cell for each.
    """
    if "\0" in source:
        raise SyntaxError("source code cannot contain null bytes")
    if len(MAGIC.findall(source)) > MAX_MAGICS:
        raise SyntaxError(f"more than {MAX_MAGICS} magics in a cell")
    return TransformerManager().transform_cell(source)


def parse(source: str) -> ast.Module:
    """The cell's tree. A cell that is no Python gives an empty one."""
    try:
        tree = ast.parse(python(source))
        symtable.symtable(ast.unparse(tree), "cell", "exec")  # finds what the parser lets pass
        return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError, RuntimeError):
        return ast.Module(body=[], type_ignores=[])


def has_magic(source: str) -> bool:
    return any(line.lstrip().startswith(("%", "!")) for line in source.splitlines())


@cache
def bound(source: str) -> frozenset[str]:
    """Names that the cell defines at its top level."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(parse(source).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            continue  # what is inside belongs to it
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, COMPREHENSION):  # its variables are its own, but for those of :=
            waiting.extend(inner.target for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        waiting.extend(ast.iter_child_nodes(node))
    return frozenset(found)


@cache
def used(source: str) -> frozenset[str]:
    """Names that the cell reads and does not define itself before."""
    direct: set[str] = set()
    inside: set[str] = set()  # read in functions and classes, which may use what the cell defines after them
    ready: set[str] = set()
    for statement in _in_order(parse(source).body):
        own, *inner = _scopes(statement)
        direct |= _read(own) - ready
        inside |= set().union(*(_read(scope) for scope in inner)) - ready
        direct |= _increased(statement) - ready
        ready |= bound(ast.unparse(statement))
    return frozenset(direct | (inside - ready))


def _increased(statement: ast.stmt) -> set[str]:
    """Names that `x += 1` reads; a symbol table knows only that it writes them."""
    targets = (node.target for node in ast.walk(statement) if isinstance(node, ast.AugAssign))
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _in_order(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Loops and branches taken apart, so that what their first lines define is known in the following ones."""
    for statement in body:
        if isinstance(statement, ast.For | ast.While | ast.If | ast.With | ast.Try):
            if isinstance(statement, ast.For):
                yield ast.copy_location(ast.Assign([statement.target], statement.iter), statement)
            elif isinstance(statement, ast.While | ast.If):
                yield ast.copy_location(ast.Expr(statement.test), statement)
            elif isinstance(statement, ast.With):
                for item in statement.items:
                    target = item.optional_vars
                    value: ast.stmt = ast.Assign([target], item.context_expr) if target else ast.Expr(item.context_expr)
                    yield ast.copy_location(value, statement)
            for block in ("body", "handlers", "orelse", "finalbody"):
                inner = getattr(statement, block, [])
                for part in inner:
                    if isinstance(part, ast.ExceptHandler) and part.type:
                        yield ast.copy_location(ast.Expr(part.type), statement)
                    yield from _in_order(part.body if isinstance(part, ast.ExceptHandler) else [part])
        else:
            yield statement


def _scopes(statement: ast.stmt) -> list[symtable.SymbolTable]:
    """The statement's own scope, and those inside it."""
    text = ast.unparse(_Generators().visit(ast.parse(ast.unparse(statement))))
    scopes, waiting = [], [symtable.symtable(text, "cell", "exec")]
    while waiting:
        scopes.append(waiting.pop(0))
        waiting.extend(scopes[-1].get_children())
    return scopes


class _Generators(ast.NodeTransformer):
    """Generator expressions for all comprehensions: since Python 3.12 the others are part of what is around them."""

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.AST:
        return self.generic_visit(ast.GeneratorExp(node.elt, node.generators))

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self.generic_visit(ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators))


def _read(scope: symtable.SymbolTable) -> set[str]:
    """Names of the notebook that a scope reads."""
    outermost = scope.get_type() == "module"
    return {s.get_name() for s in scope.get_symbols() if s.is_referenced() and (outermost or s.is_global())}


def needed(wanted: Set[str], cells: list[str]) -> set[int]:
    """The places of those cells that define the wanted names, and what those cells need in turn."""
    definitions, uses = [bound(cell) for cell in cells], [used(cell) for cell in cells]
    names, found = frozenset(wanted), set[int]()
    while new := [i for i, defined in enumerate(definitions) if i not in found and defined & names]:
        for place in new:
            found.add(place)
            names = names | uses[place]
    return found
