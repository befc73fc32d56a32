"""The end of the line inside the jail: a student's notebook, cell by cell, and calls of what it defines."""

import base64
import io
import re
import socket
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import torch
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from torch import Tensor, nn

from .peer import Gone, Peer
from .wire import YOURS, Stays, WireError, pack, pack_all, pack_tensor, receive, unpack, unpack_all

MAX_OUTPUT = 20_000  # characters a cell may print
MAX_PICTURES = 8
MAX_PICTURE = 500_000  # bytes


def make_shell() -> InteractiveShell:
    """IPython as a notebook has it, without history, colours and files."""
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.autocall = 0
    shell = InteractiveShell.instance(config=config)
    for method in ("showtraceback", "showsyntaxerror"):
        setattr(shell, method, lambda *args, **kwargs: None)  # errors go to the referee
    return shell


class Remote:
    """A function or object of a test, as a student's code sees it."""

    def __init__(self, worker: "Worker", number: int) -> None:
        self.__dict__["_worker"], self.__dict__["_number"] = worker, number

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._worker.call(self._number, "", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._worker.attr(self._number, name)


class Worker(Peer):
    """Runs cells and serves calls. It knows no test, no expected value and no mark."""

    operations = frozenset({"exec", "get", "call", "vjp", "attr", "pull", "item", "seed"})

    def __init__(self, channel: socket.socket, shell: InteractiveShell) -> None:
        super().__init__(channel)
        self.shell = shell
        self.synced: dict[int, dict[str, list]] = {}

    def run(self) -> None:
        """Serve until the referee hangs up."""
        while True:
            try:
                self.serve(receive(self.channel))
            except (Gone, EOFError, OSError):
                return

    # ---- the notebook

    def do_seed(self, seed: int) -> None:
        import random

        import numpy as np

        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.default_generator.manual_seed(seed)

    def do_exec(self, source: str) -> dict[str, Any]:
        """Run a cell.

        Returns:
            What it printed, its pictures, and the error it ended with, if any.
        """
        text, publisher = _Capped(), CapturingDisplayPublisher(parent=self.shell)
        shell, before = self.shell, self.shell.display_pub
        shell.display_pub = publisher
        try:
            with redirect_stdout(text), redirect_stderr(text):
                result = shell.run_cell(source, store_history=False, silent=False)
        finally:
            shell.display_pub = before
        error = result.error_before_exec or result.error_in_exec
        return {
            "output": text.getvalue() + "".join(_texts(publisher.outputs)),
            "pictures": list(_pictures(publisher.outputs)),
            "error": self.describe_error(error) if error else None,
        }

    def do_get(self, name: str) -> list:
        """A name of the notebook: its value, or the number of a function, class or object."""
        if name not in self.shell.user_ns:
            raise NameError(f"name '{name}' is not defined")
        value, tensors = pack(self.shell.user_ns[name], self.keep)
        return [value, pack_all(tensors)]

    # ---- what stays here

    def target(self, number: int, method: str) -> Any:
        owner = self.objects[number]
        return getattr(owner, method) if method else owner

    def attribute(self, owner: object, name: str) -> object:
        return getattr(owner, name)

    def do_item(self, number: int, what: str, packed: bytes, values: list) -> list:
        """len, items, next or one item of an object."""
        owner: Any = self.objects[number]
        if what == "len":
            value: object = len(owner)
        elif what == "items":
            value = [item for item, _ in zip(owner, range(100_000), strict=False)]
        elif what == "next":
            value = next(owner)
        else:
            value = owner[unpack(packed, unpack_all(values), self.resolve)]
        answer, tensors = pack(value, self.keep)
        return [answer, pack_all(tensors)]

    def resolve(self, kind: int, number: int, description: dict[str, Any]) -> object:
        return self.objects[number] if kind == YOURS else Remote(self, number)

    def keep(self, item: object) -> Stays:
        return Stays(YOURS, item._number) if type(item) is Remote else super().keep(item)

    def describe(self, item: object) -> dict[str, Any]:
        if isinstance(item, nn.Module):
            kind = "module"
        elif isinstance(item, type):
            kind = "class"
        elif isinstance(item, Iterator):
            kind = "iterator"
        else:
            kind = "function" if callable(item) else "object"
        name = getattr(item, "__name__", type(item).__name__)
        return {"kind": kind, "name": str(name)[:100]}

    def describe_error(self, error: BaseException) -> dict[str, Any]:
        message = str(error)
        memory = isinstance(error, MemoryError) or "can't allocate memory" in message
        return {
            "types": [cls.__name__ for cls in type(error).__mro__],
            "message": _plain(message)[:4000],
            "lines": _own_lines(error),
            "memory": memory,
        }

    # ---- modules

    def do_pull(self, number: int) -> list:
        """A module's parts: parameters, buffers, sub-modules, and whether each is in training mode."""
        module = self.objects[number]
        if not isinstance(module, nn.Module):
            raise WireError("not a module")
        value, tensors = pack(self._structure(module), self.keep)
        self._note(number, module)
        return [value, pack_all(tensors)]

    def _structure(self, module: nn.Module, depth: int = 0) -> dict[str, Any]:
        if depth > 20:
            raise WireError("modules are nested too deeply")
        hidden = module.__dict__["_non_persistent_buffers_set"]
        return {
            "number": super().keep(module).number,
            "class": type(module).__name__,
            "training": bool(module.training),
            "parameters": {name: tensor for name, tensor in module.__dict__["_parameters"].items()},
            "buffers": {name: [tensor, name not in hidden] for name, tensor in module.__dict__["_buffers"].items()},
            "modules": {
                name: None if child is None else self._structure(child, depth + 1)
                for name, child in module.__dict__["_modules"].items()
            },
        }

    def _tensors(self, module: nn.Module) -> dict[str, Tensor]:
        parameters = nn.Module.named_parameters(module, remove_duplicate=False)
        return {**dict(parameters), **dict(nn.Module.named_buffers(module, remove_duplicate=False))}

    def _note(self, number: int, module: nn.Module) -> None:
        self.synced[number] = {name: pack_tensor(tensor) for name, tensor in self._tensors(module).items()}

    def apply_state(self, changes: list) -> list:
        modules = []
        for change in changes:
            number, tensors, training = change
            module: Any = self.objects[number]
            own = self._tensors(module)
            for name, tensor in tensors.items():
                own[name].data = tensor.detach()
                if isinstance(own[name], nn.Parameter):
                    own[name].requires_grad_(tensor.requires_grad)
            for path, mode in training.items():
                part = module.get_submodule(path)
                if part.training != mode:
                    part.train(mode) if path == "" else setattr(part, "training", mode)
            self._note(number, module)
            modules.append((number, module))
        return modules

    def state_changes(self, modules: list) -> list:
        changes: list[dict[str, Any]] = []
        for number, module in modules:
            own, before = self._tensors(module), self.synced[number]
            if own.keys() != before.keys():
                changes.append({"again": True})
                continue
            changed: dict[str, Tensor] = {}
            for name, tensor in own.items():
                now = pack_tensor(tensor)
                if [now[0], now[1], now[5]] != [before[name][0], before[name][1], before[name][5]]:
                    changed[name], before[name] = tensor.detach(), now
            changes.append({"tensors": changed})
        return changes

    def trainable(self, modules: list) -> list[Tensor]:
        return [p for _, module in modules for p in nn.Module.parameters(module) if p.requires_grad]


class _Capped(io.StringIO):
    """Text that stops growing."""

    def write(self, text: str) -> int:
        room = MAX_OUTPUT - self.tell()
        if room > 0:
            super().write(text[:room])
        return len(text)


def _texts(outputs: list) -> list[str]:
    found = [str(output["data"].get("text/plain", "")) for output in outputs if "image/png" not in output["data"]]
    return [f"{text[:MAX_OUTPUT]}\n" for text in found[:100] if text]


def _pictures(outputs: list) -> list[str]:
    pictures: list[str] = []
    for output in outputs:
        png = output["data"].get("image/png")
        png = base64.b64decode(png) if isinstance(png, str) else png
        if isinstance(png, bytes) and len(png) <= MAX_PICTURE and len(pictures) < MAX_PICTURES:
            pictures.append(base64.b64encode(png).decode())
    return pictures


def _own_lines(error: BaseException) -> str:
    """Where in the student's cells it happened, without a path."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {(error.text or '').strip()[:200]}"
    own = [frame for frame in frames if frame.filename.startswith("<ipython-input")]
    return "\n".join(f"{_where(frame)}, line {frame.lineno}: {(frame.line or '')[:200]}" for frame in own[-6:])


def _where(frame: traceback.FrameSummary) -> str:
    return "in the cell" if frame.name == "<module>" else f"in {frame.name}"


def _plain(text: str) -> str:
    """Without memory addresses and paths, which differ from run to run and from machine to machine."""
    text = re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", text)
    return re.sub(r"(?<![\w.])/(?:[\w.@+-]+/)+", "…/", text)
