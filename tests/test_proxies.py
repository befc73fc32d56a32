"""Objects of the student in the hands of a test: a real worker in a process of its own, without a jail."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny_worker import connect

from autograder.referee.proxies import ClassProxy, FunctionProxy, Line, ModuleProxy, ObjectProxy
from autograder.sandbox.launch import Jail
from autograder.sandbox.peer import Gone, RemoteError
from autograder.sandbox.wire import WireError

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


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


def test_arguments_that_lose_and_gain_tensors(get: Callable[[str], Any]) -> None:
    kept = torch.zeros(2)
    state, rows = {"whole": X.clone(), "kept": kept}, [X, kept]
    got = get("rename")(state, rows)
    assert sorted(state) == sorted(got) == ["half", "kept"]
    assert torch.equal(state["half"], X[:1]) and state["kept"] is kept
    assert rows[0] is kept and torch.equal(rows[1], X[1:])


def test_untouched_arguments_stay_the_same_objects(get: Callable[[str], Any]) -> None:
    inner = [1]
    items = [inner, X]
    get("echo")(items)
    assert items[0] is inner and items[1] is X


def test_an_argument_that_is_returned_is_the_same_tensor(get: Callable[[str], Any]) -> None:
    x = X.clone().requires_grad_()
    assert get("echo")(x) is x and get("echo")(1, x)[1] is x and get("scale")(x, 1.0) is not x
    y = X.clone()
    get("add_into_result")(lambda x: x, y)
    assert torch.equal(y, X + 1)
    get("add_into_result")(lambda x: x * 1, y)
    assert torch.equal(y, X + 1)


def test_what_a_call_leaves_on_its_argument(get: Callable[[str], Any]) -> None:
    x = X.clone()
    assert get("track")(x) is x and x.requires_grad and x.grad is None
    get("backward")(x)
    assert torch.equal(x.grad, 2 * X)
    get("backward")(x)
    assert torch.equal(x.grad, 4 * X)
    get("scale")(x).sum().backward()  # only its own gradient is added
    assert torch.equal(x.grad, 4 * X + 2)
    plain = X.clone()
    assert get("grad_of")(get("scale"), plain).tolist() == [[2, 2], [2, 2]]
    assert plain.grad is None and not plain.requires_grad


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


def test_a_second_pass_through_a_freed_graph_is_refused(get: Callable[[str], Any]) -> None:
    x = X.clone().requires_grad_()
    y = get("two")(x, x)[0].sum()
    (once,) = torch.autograd.grad(y, x, retain_graph=True)
    (twice,) = torch.autograd.grad(y, x)
    assert torch.equal(once, twice)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, x)


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


def test_iterators_give_one_item_at_a_time(get: Callable[[str], Any]) -> None:
    before = get("counted")()
    numbers = get("count")(4)
    assert next(numbers) == 0 and next(numbers) == 1 and get("counted")() == before + 2
    assert list(numbers) == [2, 3] and list(numbers) == [] and next(numbers, None) is None
    assert [number for number, _ in zip(get("count")(10**9), "ab", strict=False)] == [0, 1]
    with pytest.raises(TypeError, match="not an iterator"):
        next(get("Thing")())


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_worker_that_dies(free_jail: Jail) -> None:
    worker, line = connect(free_jail)
    with pytest.raises(Gone):
        line.get("die")()
    with pytest.raises(Gone):
        line.get("number")
    assert worker.end() == "ended"


def test_a_worker_that_is_stopped(free_jail: Jail) -> None:
    worker, line = connect(free_jail)
    assert line.get("number") == 5
    assert worker.end() in ("ended", "stopped")
    again, other = connect(free_jail)
    assert other.get("number") == 5
    again.end()


def test_workers_know_nothing_of_each_other(free_jail: Jail, line: Line) -> None:
    worker, other = connect(free_jail)
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
