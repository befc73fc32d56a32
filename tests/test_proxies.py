"""Objects of the student in the hands of a test: a real worker in a process of its own, without a jail."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_course import make_course
from tiny_worker import connect
from torch import Tensor, nn

from autograder import lanes
from autograder.referee.proxies import ClassProxy, FunctionProxy, Line, ModuleProxy, ObjectProxy
from autograder.release import build_release
from autograder.sandbox.launch import NONE, Jail
from autograder.sandbox.peer import Gone, RemoteError
from autograder.sandbox.wire import WireError

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.fixture(scope="module")
def jail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jail]:
    release = build_release(make_course(tmp_path_factory.mktemp("course")))
    jail = Jail(lanes.kit(release), NONE)
    yield jail
    jail.close()


@pytest.fixture(scope="module")
def line(jail: Jail) -> Iterator[Line]:
    worker, line = connect(jail)
    yield line
    worker.end()


@pytest.fixture
def get(line: Line) -> Callable[[str], Any]:
    return line.get


# --- values and functions --------------------------------------------------------------------------------------------


def test_names(get: Callable[[str], Any]) -> None:
    assert get("number") == 5 and get("table") == {"a": (1, 2)} and get("tensor").tolist() == [1, 1]
    assert isinstance(get("scale"), FunctionProxy) and get("scale").__name__ == "scale"
    assert isinstance(get("Thing"), ClassProxy) and isinstance(get("model"), ModuleProxy)
    assert get("scale") is get("scale")
    with pytest.raises(NameError, match="'nothing' is not defined"):
        get("nothing")


def test_arguments_and_results(get: Callable[[str], Any]) -> None:
    echo = get("echo")
    assert echo(1, "a", key=[None, (2.5,)]) == ((1, "a"), {"key": [None, (2.5,)]})
    assert torch.equal(echo(X), X) and echo(X.bool()).dtype == torch.bool and echo(X.double()).dtype == torch.float64
    assert echo(echo) is echo
    assert get("scale")(X, factor=3).tolist() == (X * 3).tolist()
    assert get("strides")(X.T) == (1, 2)
    assert get("empty")() is None
    before = get("counted")()
    echo(1)
    assert get("counted")() == before + 1


@pytest.mark.parametrize("kind", ["ValueError", "TypeError", "NotImplementedError", "KeyError", "ZeroDivisionError"])
def test_errors_can_be_caught_by_type(get: Callable[[str], Any], kind: str) -> None:
    with pytest.raises(getattr(__import__("builtins"), kind), match="no") as error:
        get("fail")(kind)
    assert isinstance(error.value, RemoteError) and error.value.kind == kind
    assert "in fail, line" in error.value.lines and "/" not in error.value.lines.split(":")[0]


def test_other_errors(get: Callable[[str], Any]) -> None:
    with pytest.raises(RemoteError, match="no") as error:
        get("fail")("Odd")
    assert error.value.kind == "Odd" and type(error.value).__mro__[1] is RemoteError
    with pytest.raises(RemoteError) as error:
        get("fail")("SystemExit")
    assert not isinstance(error.value, SystemExit) and isinstance(error.value, Exception)
    with pytest.raises(TypeError, match="unexpected keyword argument 'oops'"):
        get("scale")(X, oops=1)
    with pytest.raises(RemoteError, match="no plain values"):
        get("pixels")()
    assert get("counted")() >= 0  # the line still works


def test_what_cannot_be_handed_over(get: Callable[[str], Any]) -> None:
    with pytest.raises(WireError):
        get("echo")(X.to_sparse())
    assert get("echo")(1) == 1


def test_mutated_arguments(get: Callable[[str], Any]) -> None:
    import numpy as np

    x, items, table, array = X.clone(), [1, 2], {"old": 1}, np.zeros(2)
    assert get("spoil")(x) == (X + 1).sum() and torch.equal(x, X + 1)
    get("fill")(items, table, array)
    assert items == ["new", 2, 3] and table == {"key": [1]} and array.tolist() == [7, 0]
    y = torch.zeros(2)
    get("grow")(y)
    assert y.shape == (1, 2)


def test_untouched_arguments_stay_the_same_objects(get: Callable[[str], Any]) -> None:
    inner = [1]
    items = [inner, X]
    get("echo")(items)
    assert items[0] is inner and items[1] is X


def test_the_same_tensor_twice_is_one(get: Callable[[str], Any]) -> None:
    assert get("same")(X, X) and not get("same")(X, X.clone())


# --- gradients -------------------------------------------------------------------------------------------------------


def test_gradients_of_a_function(get: Callable[[str], Any]) -> None:
    x = X.clone().requires_grad_()
    y = get("scale")(x, 3.0)
    assert y.requires_grad
    (y**2).sum().backward()
    assert torch.allclose(x.grad, 18 * X)
    x.grad = None
    get("scale")(x * 5, 3.0).sum().backward()  # no leaf
    assert torch.allclose(x.grad, torch.full_like(X, 15))


def test_several_inputs_and_outputs(get: Callable[[str], Any]) -> None:
    x, y = X.clone().requires_grad_(), (X + 1).requires_grad_()
    product, total = get("two")(x, y)
    a, b = torch.autograd.grad((product * 2 + total).sum(), (x, y), retain_graph=True)
    assert torch.allclose(a, 2 * y + 1) and torch.allclose(b, 2 * x + 1)
    (c,) = torch.autograd.grad(total.sum(), x)  # one output only, once more
    assert torch.equal(c, torch.ones_like(X))


def test_gradcheck(get: Callable[[str], Any]) -> None:
    x = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: get("two")(a, a)[0], (x,))


def test_flags_of_arguments(get: Callable[[str], Any]) -> None:
    x = X.clone().requires_grad_()
    assert get("flags")(x) == (True, True, True)
    assert get("flags")(x * 2) == (True, False, True)
    assert get("flags")(X) == (False, True, True)
    with torch.no_grad():
        assert get("flags")(x)[2] is False
        assert not get("scale")(x).requires_grad
    assert not get("detached")(x).requires_grad


def test_spoiled_in_place_before_backward(get: Callable[[str], Any]) -> None:
    """A leaf that needs a gradient may not be changed in place: the same error as in one process."""
    with pytest.raises(RuntimeError, match="leaf"):
        get("spoil")(X.clone().requires_grad_())


def test_calls_are_dropped_with_their_results(line: Line) -> None:
    scale = line.get("scale")
    kept = scale(X.clone().requires_grad_())
    for _ in range(20):
        scale(X.clone().requires_grad_())
    gc.collect()
    assert len(line.dropped_calls) >= 1
    scale(X)
    assert line.dropped_calls == []
    kept.sum().backward()


# --- objects ---------------------------------------------------------------------------------------------------------


def test_objects(get: Callable[[str], Any]) -> None:
    thing = get("Thing")(value=4)
    assert isinstance(thing, ObjectProxy) and isinstance(thing, get("Thing"))
    assert (thing.value, thing.size, thing.double(), len(thing), thing[1], list(thing)) == (4, 3, 8, 2, 2, [1, 2])
    assert get("Thing").size == 3
    with pytest.raises(AttributeError, match="nothing"):
        _ = thing.nothing
    with pytest.raises(IndexError):
        thing[9]
    other, table = get("make")()
    assert other is not thing and table["thing"] is get("Thing")
    assert get("same")(other, other) and not get("same")(other, thing)


# --- callbacks -------------------------------------------------------------------------------------------------------


def test_callbacks(get: Callable[[str], Any]) -> None:
    seen = []

    def add(x: Tensor, y: int = 1) -> Tensor:
        seen.append(x)
        return x + y

    assert torch.equal(get("apply")(add, X, 2), X + 2) and torch.equal(seen[0], X)
    assert torch.equal(get("grad_of")(lambda x: x**3, X), 3 * X**2)
    x = X.clone().requires_grad_()
    get("apply")(lambda a: a * 4, x).sum().backward()
    assert torch.equal(x.grad, torch.full_like(X, 4))
    assert get("echo")(add) is add


def test_callbacks_that_fail(get: Callable[[str], Any]) -> None:
    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        get("apply")(fail)


def test_parameters_behind_a_callback_get_gradients(get: Callable[[str], Any]) -> None:
    module = nn.Linear(2, 2)
    get("apply")(module, X.clone().requires_grad_()).sum().backward()
    assert module.weight.grad is not None and torch.allclose(module.weight.grad, X.sum(0).expand(2, 2))


def test_calls_within_calls_end(get: Callable[[str], Any]) -> None:
    apply = get("apply")

    def again(depth: int) -> int:
        return depth if depth == 0 else apply(again, depth - 1)

    assert again(10) == 0
    with pytest.raises(RecursionError):
        again(10_000)
    assert again(3) == 0


class Tool:
    """What a test may hand over."""

    shown = 5
    _hidden = 6

    def method(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (Tool(), "_hidden"),
        (Tool(), "__class__"),
        (Tool(), "__dict__"),
        (Tool(), "__init__"),
        (Tool, "method"),
        (lambda: 1, "__globals__"),
        (lambda: 1, "__code__"),
        (Tool().method, "__func__"),
        (Tool().method, "__self__"),
        (torch, "save"),
        (nn.Linear(2, 2), "register_forward_hook"),
        (open, "__self__"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hidden_attributes_are_refused(line: Line, thing: object, name: str) -> None:
    """The student's side asks the line itself, past its own `Remote`."""
    ask = "def ask(thing, name): return thing._worker.attr(thing._number, name)"
    assert line.ask("exec", ask)["error"] is None
    with pytest.raises(AttributeError):
        line.get("ask")(thing, name)


def test_shown_attributes_are_not(get: Callable[[str], Any]) -> None:
    assert get("attribute")(Tool(), "shown") == 5
    assert get("apply")(get("attribute"), Tool(), "shown") == 5


@pytest.mark.parametrize(
    "ask",
    [
        "worker.ask('exec', '1')",
        "worker.ask('get', 'X')",
        "worker.ask('pull', 1)",
        "worker.ask('do_attr', 1, 'a')",
        "worker.ask('call', thing._number, 'method', *rest)",
        "worker.ask('call', 10**9, '', *rest)",
        "worker.ask('attr', 10**9, 'a')",
        "worker.ask('vjp', 10**9, [])",
        "worker.ask('call')",
        "worker.ask(5)",
        "worker.ask([])",
    ],
)
def test_only_what_was_handed_over_can_be_asked(line: Line, ask: str) -> None:
    code = f"""
from sandbox.wire import pack
def attack(thing):
    worker, rest = thing._worker, (pack([[], {{}}], None)[0], [], True, pack([], None)[0], [], [[], []])
    return {ask}
"""
    assert line.ask("exec", code)["error"] is None
    with pytest.raises(RemoteError):
        line.get("attack")(Tool())
    assert line.get("number") == 5


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_worker_that_dies(jail: Jail) -> None:
    worker, line = connect(jail)
    with pytest.raises(Gone):
        line.get("die")()
    with pytest.raises(Gone):
        line.get("number")
    assert worker.end() == "ended"


def test_a_worker_that_is_stopped(jail: Jail) -> None:
    worker, line = connect(jail)
    assert line.get("number") == 5
    assert worker.end() in ("ended", "stopped")
    again, other = connect(jail)
    assert other.get("number") == 5
    again.end()


def test_workers_know_nothing_of_each_other(jail: Jail, line: Line) -> None:
    worker, other = connect(jail)
    other.ask("exec", "number = 6")
    assert (other.get("number"), line.get("number")) == (6, 5)
    worker.end()


def test_what_a_cell_says(line: Line) -> None:
    said = line.ask("exec", "print('a')\n1 + 1")
    assert said["output"].startswith("a\n") and "2" in said["output"] and said["error"] is None
    said = line.ask("exec", "x = 1\nraise KeyError('k')")
    assert said["error"]["types"][:2] == ["KeyError", "LookupError"] and said["error"]["lines"].startswith(
        "in the cell, l"
    )
    assert line.ask("exec", "def f(:")["error"]["types"][0] == "SyntaxError"
    assert len(line.ask("exec", "print('x' * 10**6)")["output"]) <= 40_000


def test_pictures_of_a_cell(line: Line, tmp_path: Path) -> None:
    from autograder.referee.notebook import pictures

    said = line.ask("exec", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert len(said["pictures"]) == 1 and pictures(said["pictures"]) == said["pictures"]
