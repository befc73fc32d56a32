"""Which names a cell defines, uses and needs."""

import pytest

from course.names import bound, has_magic, needed, python, used


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("x = 1", "x"),
        ("x, (y, *z) = 1, (2, 3)", "x y z"),
        ("x: int = 1", "x"),
        ("x += 1", "x"),
        ("a.b = 1\nc[0] = 2", ""),
        ("def f(a):\n    b = a\n    def g(): pass", "f"),
        ("async def f(): pass", "f"),
        ("class A:\n    x = 1", "A"),
        ("import os.path, numpy as np", "os np"),
        ("from math import pi as tau, e", "tau e"),
        ("for i in range(3):\n    j = i", "i j"),
        ("with open('f') as file:\n    pass", "file"),
        ("if True:\n    x = 1\nelse:\n    y = 2", "x y"),
        ("try:\n    x = 1\nexcept OSError:\n    y = 2\nfinally:\n    z = 3", "x y z"),
        ("f = lambda a: (b := a)", "f"),
        ("x = [i for i in y]\nz = {k: v for k, v in x}\nw = {i for i in x}", "x z w"),
        ("x = [last := i for i in y if (even := i % 2)]", "x last even"),
        ("(n := 10)", "n"),
        ("%timeit 1\nx = 1", "x"),
        ("!ls\nx = 1", "x"),
        ("def f(:", ""),
        ("x = 1\0", ""),
        ("", ""),
        ("(" * 3000 + ")" * 3000, ""),
    ],
)
def test_bound(source: str, names: str) -> None:
    assert bound(source) == set(names.split())


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("x", "x"),
        ("x = y", "y"),
        ("x = 1\nx", ""),
        ("x\nx = 1", "x"),
        ("def f(a, b=c):\n    return a + b + d", "c d"),
        ("def f():\n    return g()\n\ndef g():\n    return 1", ""),
        ("class A(nn.Module):\n    y = 1\n    def f(self):\n        return helper(self.y)", "nn helper"),
        ("def f():\n    x = 1\n    def g():\n        return x + z\n    return g", "z"),
        ("def f(a: Float) -> Tensor: ...", "Float Tensor"),
        ("@decorate\ndef f(): ...", "decorate"),
        ("for i in range(n):\n    print(i)", "range n print"),
        ("with open(p) as file:\n    file.read()", "open p"),
        ("if a:\n    b = 1\nc = b", "a"),
        ("try:\n    x = risky()\nexcept Exception:\n    x = other", "risky Exception other"),
        ("while go():\n    x = 1", "go"),
        ("[x * y for x in values]", "y values"),
        ("a = {x * y for x in {k: v + w for k, v in values}}", "y w values"),
        ("a = [x for x in values]\nprint(x)", "x values print"),
        ("def f(values):\n    return [[x + y for x in row] for row in values]", "y"),
        ("a = [n := x for x in values]\nprint(n)", "values print"),
        ("import torch\nx = torch.ones(1)", ""),
        ("def f(:", ""),
    ],
)
def test_used(source: str, names: str) -> None:
    assert used(source) == set(names.split())


def test_needed_follows_what_cells_need_in_turn() -> None:
    cells = ["a = 1", "b = a", "c = b", "d = 1", "import os"]
    assert needed({"c"}, cells) == {0, 1, 2}
    assert needed({"d", "os"}, cells) == {3, 4}
    assert needed({"nothing"}, cells) == set()
    assert needed(set(), cells) == set()


def test_needed_ends_when_cells_need_each_other() -> None:
    assert needed({"f"}, ["def f():\n    return g()", "def g():\n    return f()"]) == {0, 1}


def test_has_magic() -> None:
    assert has_magic("x = 1\n%load_ext jaxtyping") and has_magic("  !ls") and has_magic("%%time\nx")
    assert not has_magic("x = 5 % 2\ny = x != 1")


@pytest.mark.parametrize("source", ["x = 1\0", "def f():\n    \0return 1", '"""\0"""', "%magic\n\0"])
def test_nul_is_a_syntax_error_in_every_version(source: str) -> None:
    with pytest.raises(SyntaxError, match="null"):
        python(source)
    assert bound(source) == used(source) == set()
