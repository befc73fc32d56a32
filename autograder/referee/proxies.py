"""What a test holds instead of the student's own objects. CONTRIBUTING.md says what a test may rely on."""

import socket
import types
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary, finalize

import torch
from torch import Tensor, nn

from autograder.sandbox.peer import Peer, StateOwner
from autograder.sandbox.wire import YOURS, Stays, WireError, pack, pack_all, unpack, unpack_tensor

# Modules of a test's own objects whose attributes a student's code may not reach through the line.
LIBRARIES = ("builtins", "torch", "numpy", "abc", "functools", "types")


class Line(Peer):
    """The referee's end. Students' code may call only what a test handed to it."""

    operations = frozenset({"call", "vjp", "attr"})
    accumulate = True

    def __init__(self, channel: socket.socket) -> None:
        super().__init__(channel)
        self.proxies: WeakValueDictionary[int, Any] = WeakValueDictionary()

    def get(self, name: str) -> Any:
        """The value of a name in the student's notebook; a proxy for a function, class, module or object.

        Raises:
            RemoteError: no such name.
        """
        value, values = self.ask("get", name)
        return unpack(value, [unpack_tensor(one)[0] for one in values], self.resolve)

    def item(self, number: int, what: str, key: object = None) -> Any:
        packed, tensors = pack(key, self.keep)
        value, values = self.ask("item", number, what, packed, pack_all(tensors))
        return unpack(value, [unpack_tensor(one)[0] for one in values], self.resolve)

    def resolve(self, kind: int, number: int, description: dict[str, Any]) -> object:
        if kind == YOURS:
            return self.objects[number]
        proxy = self.proxies.get(number)
        if proxy is None:
            made = {"function": FunctionProxy, "class": ClassProxy, "module": ModuleProxy, "iterator": IteratorProxy}
            proxy = made.get(str(description.get("kind")), ObjectProxy)(self, number, str(description.get("name")))
            self.watch(proxy, number)
        return proxy

    def watch(self, proxy: object, number: int) -> None:
        """Let the other side drop the object when the proxy is gone."""
        while number in self.dropped_objects:  # it has just come back
            self.dropped_objects.remove(number)
        self.proxies[number] = proxy
        finalize(proxy, self.dropped_objects.append, number).atexit = False

    def keep(self, item: object) -> Stays:
        proxy = item.__dict__.get("_remote") if hasattr(item, "__dict__") else None
        return Stays(YOURS, proxy.number) if isinstance(proxy, _Remote) else super().keep(item)

    def target(self, number: int, method: str) -> Any:
        if method:
            raise WireError("only what a test hands over can be called")
        owner = self.objects[number]
        if not callable(owner):
            raise TypeError(f"a {type(owner).__name__} cannot be called")
        return owner

    def attribute(self, owner: object, name: str) -> object:
        """Public attributes that the test's own class or object defines; nothing of a library, nothing private."""
        if not isinstance(name, str) or name.startswith("_") or isinstance(owner, type | types.ModuleType):
            raise AttributeError(str(name)[:80])
        own = [cls for cls in type(owner).__mro__ if cls.__module__.split(".")[0] not in LIBRARIES]
        if name in getattr(owner, "__dict__", {}) or any(name in cls.__dict__ for cls in own):
            return getattr(owner, name)
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name[:80]!r}")

    def describe_error(self, error: BaseException) -> dict[str, Any]:
        """The test's own function failed: its type and text, without the test's lines."""
        return {"types": [cls.__name__ for cls in type(error).__mro__], "message": str(error)[:1000], "lines": ""}


class _Remote:
    """Where a proxied object is."""

    def __init__(self, line: Line, number: int, name: str) -> None:
        self.line, self.number, self.name = line, number, name


def _modules_in(value: object, found: list["ModuleProxy"]) -> list["ModuleProxy"]:
    if isinstance(value, ModuleProxy):
        if all(value is not one for one in found):
            found.append(value)
    elif isinstance(value, list | tuple):
        for one in value:
            _modules_in(one, found)
    elif isinstance(value, dict):
        for one in value.values():
            _modules_in(one, found)
    return found


class ObjectProxy:
    """An object that is neither function, class nor module: attributes, methods, length, items, iteration."""

    def __init__(self, line: Line, number: int, name: str) -> None:
        self.__dict__["_remote"] = _Remote(line, number, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._remote.line.attr(self._remote.number, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        remote = self._remote
        return remote.line.call(remote.number, "", args, kwargs, tuple(_modules_in([args, kwargs], [])))

    def __len__(self) -> int:
        return int(self._remote.line.item(self._remote.number, "len"))

    def __getitem__(self, key: object) -> Any:
        return self._remote.line.item(self._remote.number, "item", key)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._remote.line.item(self._remote.number, "items")))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{self._remote.name} of the student>"


class IteratorProxy(ObjectProxy):
    """A generator or another iterator of the student, of which only what is asked for is taken."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._remote.line.item(self._remote.number, "next")


class FunctionProxy(ObjectProxy):
    """A function of the student."""

    @property
    def __name__(self) -> str:
        return str(self._remote.name)


class ClassProxy(FunctionProxy):
    """A class of the student: call it to construct an object."""

    def __instancecheck__(self, instance: object) -> bool:
        remote = getattr(instance, "__dict__", {}).get("_remote")
        return isinstance(remote, _Remote) and remote.name == self._remote.name


class ModuleProxy(nn.Module, StateOwner):
    """A copy of a student's module: its parameters and buffers live here, its computation there.

    Everything that `torch.nn.Module` does with state works on the copy (state_dict, load_state_dict, parameters,
    train, eval, double, zero_grad, an optimiser); changes are carried over before and after each call.
    """

    def __init__(self, line: Line, number: int, name: str, structure: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.__dict__["_remote"] = _Remote(line, number, name)
        self.__dict__["_synced"] = {}
        self._rebuild(structure or self._pull())

    def _pull(self) -> dict[str, Any]:
        value, values = self._remote.line.ask("pull", self._remote.number)
        tensors = []
        for one in values:
            tensor, requires_grad, _ = unpack_tensor(one)
            tensors.append(nn.Parameter(tensor, requires_grad) if requires_grad else tensor)
        return unpack(value, tensors, self._remote.line.resolve)

    def _rebuild(self, structure: dict[str, Any]) -> None:
        """Take over names, tensors and sub-modules; a tensor that is used twice stays one.

        Written past `register_parameter` and its like, which would ask the other side whether the name is taken.
        """
        self._parameters.clear()
        self._buffers.clear()
        kept = dict(self._modules)
        self._modules.clear()
        self.training = bool(structure["training"])
        for name, tensor in structure["parameters"].items():
            if tensor is not None and not isinstance(tensor, nn.Parameter):
                tensor = nn.Parameter(tensor, requires_grad=False)
            self._parameters[str(name)] = tensor
        for name, (tensor, persistent) in structure["buffers"].items():
            self._buffers[str(name)] = tensor
            if not persistent:
                self._non_persistent_buffers_set.add(str(name))
        for name, part in structure["modules"].items():
            child = kept.get(str(name))
            if part is None:
                self._modules[str(name)] = None
            elif isinstance(child, ModuleProxy) and child._remote.number == part["number"]:
                child._rebuild(part)
                self._modules[str(name)] = child
            else:
                line, number = self._remote.line, int(part["number"])
                child = ModuleProxy(line, number, str(part["class"]), part)
                line.watch(child, number)
                self._modules[str(name)] = child
        self._note()

    def _own(self) -> dict[str, Tensor]:
        """All parameters and buffers by path, as `named_parameters(remove_duplicate=False)` gives them, but faster."""
        found = {}
        waiting: list[tuple[str, nn.Module]] = [("", self)]
        for prefix, module in waiting:
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    found[prefix + name] = tensor
            waiting += [(f"{prefix}{name}.", part) for name, part in module._modules.items() if part is not None]
        return found

    def _note(self) -> None:
        """Remember what the other side knows."""
        tensors = {name: (t.detach().clone(), t.requires_grad) for name, t in self._own().items()}
        training = {path: part.training for path, part in self.named_modules()}
        self.__dict__["_synced"] = {"tensors": tensors, "training": training}

    def changes(self) -> list:
        known = self._synced["tensors"]
        changed = {}
        for name, tensor in self._own().items():
            before, required = known.get(name, (None, False))
            same = before is not None and before.dtype == tensor.dtype and torch.equal(before, tensor.detach())
            if not same or required != tensor.requires_grad:
                changed[name] = tensor
        training = {path: part.training for path, part in self.named_modules()}
        modes = {path: mode for path, mode in training.items() if self._synced["training"].get(path) != mode}
        if len(modes) == len(training):
            modes = {"": self.training}
        return [self._remote.number, changed, modes]

    def trainable(self) -> list[Tensor]:
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def update(self, change: Any) -> None:
        if change.get("again"):
            self._rebuild(self._pull())
            return
        own = self._own()
        for name, tensor in change["tensors"].items():
            own[name].data = tensor.detach()
        self._note()

    def _call(self, method: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        modules = tuple(_modules_in([args, kwargs], [self]))
        return self._remote.line.call(self._remote.number, method, args, kwargs, modules)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):
                raise
        value = self._remote.line.attr(self._remote.number, name)
        if isinstance(value, FunctionProxy) and not isinstance(value, ClassProxy):
            return lambda *args, **kwargs: self._call(name, args, kwargs)
        return value

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, key: Any) -> Any:
        return list(self._modules.values())[key] if isinstance(key, int | slice) else self._modules[key]

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{self._remote.name} of the student>"
