"""Modules of the student in the hands of a test, and functions of a test in those of the student."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from autograder.referee.proxies import Line
from autograder.sandbox.peer import RemoteError

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def linear(get: Callable[[str], Any]) -> Any:
    module = get("Linear")(2, 2)
    module.eval()
    return module


def test_a_module_computes_with_the_weights_it_is_given(get: Callable[[str], Any]) -> None:
    module = linear(get)
    assert torch.equal(module(X), X @ torch.ones(2, 2))
    with torch.no_grad():
        module.W.copy_(torch.eye(2) * 3)
    assert torch.equal(module(X, scale=2.0), X * 6)
    module.load_state_dict({"W": torch.eye(2), "b": torch.ones(2), "seen": torch.zeros(())})
    assert torch.equal(module(X), X + 1)
    assert list(module.state_dict()) == ["W", "b", "seen"]
    assert [name for name, _ in module.named_parameters()] == ["W", "b"]
    assert [name for name, _ in module.named_buffers()] == ["seen", "secret"]
    module.W.data = torch.zeros(2, 2)
    assert torch.equal(module(X), torch.ones(2, 2))
    module.W = nn.Parameter(torch.eye(2))
    assert torch.equal(module(X), X + 1)


def test_attributes_and_methods(get: Callable[[str], Any]) -> None:
    module = linear(get)
    assert module.d_in == 2 and module.norm(p=1) == 4
    with torch.no_grad():
        module.W.mul_(2)
    assert module.norm(p=1) == 8
    module.norm().backward()
    assert module.W.grad is not None
    with pytest.raises(AttributeError):
        _ = module.nothing
    assert isinstance(module, nn.Module) and isinstance(module, get("Linear"))


def test_training_mode_and_buffers(get: Callable[[str], Any]) -> None:
    module = get("Linear")(2, 50)
    assert module.training
    assert (module(X) == 0).any(), "dropout works"
    assert module.seen == 1
    module.eval()
    assert not (module(X) == 0).any() and module.seen == 1
    module.train()
    module(X)
    assert module.seen == 2
    module.seen.zero_()
    module(X)
    assert module.seen == 1


def test_gradients_of_a_module(get: Callable[[str], Any]) -> None:
    module, x = linear(get), X.clone().requires_grad_()
    module(x).pow(2).sum().backward()
    W = torch.ones(2, 2, requires_grad=True)
    (X @ W).pow(2).sum().backward()
    assert torch.allclose(module.W.grad, W.grad) and x.grad is not None and module.b.grad is not None
    before = module.W.grad.clone()
    module(X).pow(2).sum().backward()
    assert torch.allclose(module.W.grad, 2 * before), "gradients add up"
    module.zero_grad()
    assert module.W.grad is None
    with torch.no_grad():
        assert not module(X).requires_grad
    module.W.requires_grad_(False)
    module(X).sum().backward()
    assert module.W.grad is None and module.b.grad is not None
    assert get("optimise")(module) == [False, True]


def test_an_optimiser_trains(get: Callable[[str], Any]) -> None:
    module = linear(get)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    losses = []
    for _ in range(10):
        optimiser.zero_grad()
        loss = (module(X) - 1).pow(2).mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def test_double(get: Callable[[str], Any]) -> None:
    module = linear(get).double()
    assert module(X.double()).dtype == torch.float64 and module.W.dtype == torch.float64
    with pytest.raises(RuntimeError, match="same dtype"):
        module(X)


def test_children_and_tied_weights(get: Callable[[str], Any]) -> None:
    model = get("Stack")().eval()
    assert len(model.layers) == 2 and [layer.d_in for layer in model.layers] == [2, 2]
    assert model.head.weight is model.tied.weight
    assert len(list(model.parameters())) == 5
    layer = model.layers[1]
    assert torch.equal(layer(X), X @ torch.ones(2, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.eye(2) if parameter.dim() == 2 else torch.zeros(2))
    assert torch.equal(model(X), X)
    with torch.no_grad():
        model.tied.weight.mul_(2)
        layer.W.mul_(10)
    assert torch.equal(model(X), 40 * X) and torch.equal(layer(X), 10 * X)
    model(X).sum().backward()
    assert torch.allclose(model.head.weight.grad, reference_gradient())
    assert not layer.training and model.train().layers[0].drop.training


def reference_gradient() -> Tensor:
    weight = (2 * torch.eye(2)).requires_grad_()
    (10 * X @ weight.T @ weight.T).sum().backward()
    return weight.grad


def test_modules_that_grow(get: Callable[[str], Any]) -> None:
    module = get("Lazy")()
    assert list(module.parameters()) == []
    module(X)
    assert [name for name, _ in module.named_parameters()] == ["later.weight", "later.bias"]
    with torch.no_grad():
        module.later.weight.copy_(torch.eye(2))
        module.later.bias.zero_()
    assert torch.equal(module(X), X)


def test_modules_as_arguments(get: Callable[[str], Any]) -> None:
    inner = linear(get)
    with torch.no_grad():
        inner.W.copy_(torch.eye(2))
    assert torch.equal(get("run")(inner, X), X)
    get("apply")(get("run"), inner, X).sum().backward()
    assert inner.W.grad is not None
    wrapped = get("Wrap")(inner)
    assert torch.equal(wrapped(X), 2 * X)
    assert [name for name, _ in wrapped.named_parameters()] == ["inner.W", "inner.b"]
    with torch.no_grad():
        wrapped.inner.W.mul_(3)
    assert torch.equal(wrapped(X), 6 * X)


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
