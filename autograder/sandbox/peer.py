"""One end of the line between referee and jail: calls, their gradients, and the state of modules.

Both ends use this class, because a test may hand its own function to a student's code, which then calls back.
Only the end that serves decides what may be asked of it.
"""

import socket
import threading
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .wire import MINE, Stays, WireError, pack, pack_all, pack_tensor, receive, send, unpack, unpack_all, unpack_tensor

ASK, ANSWER, ERROR = "ask", "answer", "error"
MAX_DEPTH = 50  # calls within calls across the line


class RemoteError(Exception):
    """An exception on the other side. `kind` is its type's name there, `lines` what the student's code did."""

    kind = "Exception"
    lines: str = ""
    memory = False


class Gone(BaseException):
    """The other side has ended. No test may catch it by accident."""


class Peer:
    """Asks the other end and serves it. One thread at a time."""

    operations: frozenset[str] = frozenset()
    accumulate = False  # whether a gradient also goes into the parameters that live here

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.objects: dict[int, object] = {}
        self.numbers: dict[int, int] = {}
        self.calls: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self.next_number = 1
        self.dropped_calls: list[int] = []
        self.dropped_objects: list[int] = []
        self.depth = 0
        self.lock = threading.RLock()

    # ---- asking

    def ask(self, operation: str, *parts: object) -> Any:
        """Ask, serve what is asked meanwhile, and return the answer.

        Raises:
            RemoteError: the operation failed over there.
            Gone: there is nobody.
        """
        with self.lock:
            try:
                send(self.channel, [ASK, operation, *parts])
                kind, content = self._answer()
            except (EOFError, OSError) as error:
                raise Gone(str(error)) from None
        if kind == ERROR:
            raise error_from(content)
        return content

    def _answer(self) -> tuple[str, Any]:
        """What comes back, after everything was served that is asked meanwhile."""
        while True:
            try:
                message = receive(self.channel)
                if message[0] in (ANSWER, ERROR):
                    kind, content = message
                    return kind, content
                if message[0] != ASK:
                    raise WireError("neither question nor answer")
            except (WireError, LookupError, TypeError, ValueError) as error:
                raise Gone(f"it does not keep to the rules of the line: {error}") from None
            self.serve(message)

    def call(
        self, number: int, method: str, args: tuple, kwargs: dict[str, Any], modules: tuple["StateOwner", ...] = ()
    ) -> Any:
        """Call an object of the other end with values of this end. Gradients flow through.

        Args:
            number: of the object.
            method: its method's name, or "" for the object itself.
            modules: copies of modules whose state belongs to the call.
        """
        packed, tensors = pack([list(args), kwargs], self.keep)
        pushed, pushed_tensors = pack([module.changes() for module in modules], self.keep)
        parameters = [parameter for module in modules for parameter in module.trainable()]
        grad = torch.is_grad_enabled()
        dropped = [self.dropped_calls[:], self.dropped_objects[:]]
        answer = self.ask(
            "call", number, method, packed, pack_all(tensors), grad, pushed, pack_all(pushed_tensors), dropped
        )
        del self.dropped_calls[: len(dropped[0])], self.dropped_objects[: len(dropped[1])]
        value, values, same, call, mutated, pulled, pulled_tensors = answer
        inputs = [tensor for tensor in tensors if tensor.requires_grad] + parameters
        self._mutate([list(args), kwargs], tensors, mutated)
        for module, change in zip(modules, unpack(pulled, unpack_all(pulled_tensors), self.resolve), strict=True):
            module.update(change)
        outputs = self._linked(values, call, inputs)
        for place, argument in same.items():
            outputs[place] = tensors[argument]
        return unpack(value, outputs, self.resolve)

    def _linked(self, values: list, call: int, inputs: list[Tensor]) -> list[Tensor]:
        """The tensors of an answer; those with a gradient over there get one here."""
        tensors: list[Tensor] = []
        differentiable: list[int] = []
        for packed in values:
            tensor, requires_grad, _ = unpack_tensor(packed)
            if requires_grad and torch.is_grad_enabled():
                differentiable.append(len(tensors))
            tensors.append(tensor)
        if differentiable:
            anchor = torch.zeros((), requires_grad=True)  # hidden parameters may be all that needs a gradient
            found = _Link.apply(self, call, len(differentiable), anchor, *(tensors[i] for i in differentiable), *inputs)
            for i, tensor in zip(differentiable, found, strict=True):
                tensors[i] = tensor
        return tensors

    def _mutate(self, original: list, tensors: list[Tensor], mutated: Any) -> None:
        """What the call changed in its arguments is changed in the originals, as it would be in one process."""
        if not mutated:
            return
        packed, changed, places, new_tensors, flags, grads = mutated
        for place, grad in grads.items():
            tensor, new = tensors[place], unpack_tensor(grad)[0]
            tensor.grad = new if tensor.grad is None else tensor.grad + new
        for place, flag in flags.items():
            tensors[place].requires_grad_(flag)
        with torch.no_grad():
            for place, values in changed.items():
                tensor, new = tensors[place], unpack_tensor(values)[0]
                if tensor.shape == new.shape and tensor.dtype == new.dtype:
                    tensor.copy_(new)
                else:
                    tensor.data = new
        if packed:
            added = iter(unpack_all(new_tensors))
            found = [next(added) if place is None else tensors[place] for place in places]
            _assign(original, unpack(packed, found, self.resolve))

    # ---- serving

    def serve(self, message: Any) -> None:
        """Do what was asked, and send the answer or the error."""
        try:
            _, operation, *parts = message
            if operation not in self.operations:
                raise WireError(f"there is no operation {str(operation)[:40]!r}")
            if self.depth >= MAX_DEPTH:
                raise RecursionError("too many calls within calls between test and answer")
            self.depth += 1
            try:
                answer = [ANSWER, getattr(self, f"do_{operation}")(*parts)]
            finally:
                self.depth -= 1
        except (Gone, OSError):
            raise
        except BaseException as error:  # also SystemExit and KeyboardInterrupt: the other end shall hear of it
            answer = [ERROR, self.describe_error(error)]
        try:
            send(self.channel, answer)
        except WireError as error:
            send(self.channel, [ERROR, self.describe_error(error)])

    def do_call(
        self, number: int, method: str, packed: bytes, values: list, grad: bool,
        pushed: bytes, pushed_values: list, dropped: list,
    ) -> list:  # fmt: skip
        for call in dropped[0]:
            self.calls.pop(call, None)
        for old in dropped[1]:
            self.numbers.pop(id(self.objects.pop(old, None)), None)
        leaves, tensors = [], []
        for one in values:
            tensor, requires_grad, is_leaf = unpack_tensor(one, strides=True)
            if requires_grad:
                tensor.requires_grad_()
                leaves.append(tensor)
            tensors.append(tensor if is_leaf or not requires_grad else tensor.clone())
        args, kwargs = unpack(packed, tensors, self.resolve)
        modules = self.apply_state(unpack(pushed, unpack_all(pushed_values), self.resolve))
        target = self.target(number, method)
        with torch.set_grad_enabled(bool(grad)):
            value = target(*args, **kwargs)
        answer, outputs = pack(value, self.keep)
        differentiable = [output for output in outputs if output.requires_grad]
        call = 0
        if differentiable:
            call, self.next_number = self.next_number, self.next_number + 1
            self.calls[call] = (leaves + self.trainable(modules), differentiable)
        state, state_tensors = pack(self.state_changes(modules), self.keep)
        changed = self._changed(values, tensors)
        # An argument that is returned as it came is the caller's own tensor, as it would be in one process.
        untouched = {id(tensor): place for place, tensor in enumerate(tensors) if place not in changed}
        same = {place: untouched[id(output)] for place, output in enumerate(outputs) if id(output) in untouched}
        mutated = self._mutated([args, kwargs], packed, values, tensors, changed)
        return [answer, pack_all(outputs), same, call, mutated, state, pack_all(state_tensors)]

    def _changed(self, values: list, tensors: list[Tensor]) -> dict[int, list]:
        """The tensors whose values are no longer those that came, by their place."""
        changed = {}
        for place, (tensor, before) in enumerate(zip(tensors, values, strict=True)):
            now = pack_tensor(tensor)
            if [*now[:2], now[5]] != [*before[:2], before[5]]:
                changed[place] = now
        return changed

    def _mutated(
        self, arguments: list, packed: bytes, before: list, tensors: list[Tensor], changed: dict[int, list]
    ) -> list | None:
        after, found = pack(arguments, self.keep)
        places = {id(tensor): place for place, tensor in enumerate(tensors)}
        order = [places.get(id(tensor)) for tensor in found]  # None: a tensor that the call has put there
        structure = after if after != packed or order != list(range(len(tensors))) else b""
        new = [tensor for tensor in found if id(tensor) not in places] if structure else []
        leaves = [(place, tensor) for place, tensor in enumerate(tensors) if tensor.is_leaf]
        flags = {place: tensor.requires_grad for place, tensor in leaves if tensor.requires_grad != before[place][3]}
        grads = {place: pack_tensor(_taken(tensor)) for place, tensor in leaves if tensor.grad is not None}
        if not (structure or changed or flags or grads):
            return None
        return [structure, changed, order, pack_all(new), flags, grads]

    def do_vjp(self, call: int, grads: list) -> list:
        """The product of `grads` with the derivative of an earlier call's outputs by its inputs."""
        inputs, outputs = self.calls[call]
        pairs = [(o, unpack_tensor(g)[0]) for o, g in zip(outputs, grads, strict=True) if g is not None]
        if not inputs or not pairs:
            return [None] * len(inputs)
        roots, weights = zip(*pairs, strict=True)
        if not self.accumulate:
            found = torch.autograd.grad(roots, inputs, weights, allow_unused=True, retain_graph=True)
            return [None if grad is None else pack_tensor(grad) for grad in found]
        torch.autograd.backward(roots, weights, retain_graph=True)
        return [None if tensor.grad is None else pack_tensor(_taken(tensor)) for tensor in inputs]

    def do_attr(self, number: int, name: str) -> list:
        value, tensors = pack(self.attribute(self.objects[number], name), self.keep)
        return [value, pack_all(tensors)]

    def attr(self, number: int, name: str) -> Any:
        value, values = self.ask("attr", number, name)
        return unpack(value, unpack_all(values), self.resolve)

    # ---- what each end decides for itself

    def target(self, number: int, method: str) -> Any:
        raise NotImplementedError

    def attribute(self, owner: object, name: str) -> object:
        raise NotImplementedError

    def resolve(self, kind: int, number: int, description: dict[str, Any]) -> object:
        raise NotImplementedError

    def describe(self, item: object) -> dict[str, Any]:
        return {}

    def describe_error(self, error: BaseException) -> dict[str, Any]:
        raise NotImplementedError

    def apply_state(self, changes: list) -> list:
        """Take over what changed in the other end's copies of modules; the modules themselves."""
        return []

    def state_changes(self, modules: list) -> list:
        return []

    def trainable(self, modules: list) -> list[Tensor]:
        return []

    def keep(self, item: object) -> Stays:
        """The number of an object of this end, which stays alive until the other end drops it."""
        number = self.numbers.get(id(item))
        if number is None:
            number, self.next_number = self.next_number, self.next_number + 1
            self.numbers[id(item)], self.objects[number] = number, item
        return Stays(MINE, number, self.describe(item))


class StateOwner:
    """A copy of a module of the other end, as far as `Peer.call` needs it."""

    def changes(self) -> Any: ...

    def trainable(self) -> list[Tensor]:
        raise NotImplementedError

    def update(self, change: Any) -> None: ...


class _Link(torch.autograd.Function):
    """Outputs of a call on the other end, with the other end's derivative."""

    @staticmethod
    def forward(ctx: Any, peer: Peer, call: int, count: int, anchor: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        ctx.peer, ctx.count, ctx.call = peer, count, _Call(peer, call)
        ctx.shapes = [(tensor.shape, tensor.dtype) for tensor in rest[count:]]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(anchor)  # so that a freed graph is known as freed, as after most operations
        return tuple(tensor.clone() for tensor in rest[:count])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple:
        _ = ctx.saved_tensors  # a RuntimeError if the graph has been freed
        answer = ctx.peer.ask("vjp", ctx.call.number, [None if g is None else pack_tensor(g) for g in grads])
        found = [None if packed is None else unpack_tensor(packed)[0] for packed in answer]
        if [(g.shape, g.dtype) if g is not None else s for g, s in zip(found, ctx.shapes, strict=True)] != ctx.shapes:
            raise WireError("a gradient has another shape than its tensor")
        return (None, None, None, None, *[None] * ctx.count, *found)


class _Call:
    """A call whose graph is kept on the other end as long as this object lives."""

    def __init__(self, peer: Peer, number: int) -> None:
        self.number = number
        weakref.finalize(self, peer.dropped_calls.append, number).atexit = False


def error_from(description: Any) -> RemoteError:
    """The exception of the other end. Tests may catch built-in exceptions by their type."""
    import builtins

    names = [str(name) for name in description.get("types", [])][:20]
    bases: list[type] = [
        known
        for name in names
        if isinstance(known := getattr(builtins, name, None), type) and issubclass(known, Exception)
    ]
    kind = names[0] if names else "Exception"
    best = bases[0] if bases and bases[0] not in (Exception, UnicodeDecodeError, UnicodeEncodeError) else None
    made = type(kind, (RemoteError, best), {}) if best else type(kind, (RemoteError,), {})
    error = made(str(description.get("message", ""))[:4000])
    error.kind, error.lines = kind[:80], str(description.get("lines", ""))[:4000]
    error.memory = bool(description.get("memory"))
    return error


def _taken(tensor: Tensor) -> Tensor:
    grad, tensor.grad = tensor.grad, None
    assert grad is not None
    return grad


def _assign(original: Any, new: Any) -> None:
    """Bring lists, dicts and arrays inside `original` to the content of `new`."""
    if isinstance(original, np.ndarray) and isinstance(new, np.ndarray) and original.shape == new.shape:
        original[...] = new
    elif isinstance(original, tuple) and isinstance(new, tuple):
        for a, b in zip(original, new, strict=False):
            _assign(a, b)
    elif type(original) is list and type(new) is list:
        if len(original) == len(new):
            for index, (a, b) in enumerate(zip(original, new, strict=True)):
                if isinstance(a, list | dict | tuple | np.ndarray) and type(a) is type(b):
                    _assign(a, b)
                else:
                    original[index] = b
        else:
            original[:] = new
    elif type(original) is dict and type(new) is dict:
        for key in [key for key in original if key not in new]:
            del original[key]
        for key, value in new.items():
            if key in original and isinstance(value, list | dict | tuple | np.ndarray):
                _assign(original[key], value)
            else:
                original[key] = value
