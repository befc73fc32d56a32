"""A student's notebook that runs in a process of its own, without a jail, and the line to it."""

from typing import Any

from autograder.referee.proxies import Line
from autograder.sandbox.launch import Jail

CODE = """
import builtins
import torch
from torch import nn

calls = []

def echo(*args, **kwargs):
    calls.append(1)
    return (args, kwargs) if kwargs else args[0] if len(args) == 1 else args

def counted(): return len(calls)
class Odd(Exception): pass
def fail(kind): raise (Odd if kind == "Odd" else getattr(builtins, kind))("no")
def scale(x, factor=2.0): return x * factor
def detached(x): return x.detach() * 2
def flags(x): return x.requires_grad, x.is_leaf, torch.is_grad_enabled()
def strides(x): return x.stride()
def two(x, y): return x * y, x + y
def rename(state, rows):
    state["half"], other = state.pop("whole").chunk(2)
    rows[0], rows[1] = rows[1], other
    return state
def spoil(x):
    x += 1
    return x.sum()
def fill(items, table, array):
    items.append(3)
    items[0] = "new"
    table["key"] = [1]
    table.pop("old")
    array[0] = 7
def grow(x): x.unsqueeze_(0)
def grad_of(f, x):
    x = x.clone().requires_grad_()
    f(x).sum().backward()
    return x.grad
def apply(f, *args): return f(*args)
def add_into_result(f, x):
    y = f(x)
    y += 1
def track(x): return x.requires_grad_()
def backward(x):
    x.requires_grad_()
    (x * x).sum().backward()
def attribute(thing, name): return getattr(thing, name)
def same(a, b): return a is b
def optimise(m): return [p.requires_grad for p in m.parameters()]
def count(end):
    for number in range(end):
        calls.append(1)
        yield number
def make(): return Thing(), {"thing": Thing}
def die(): __import__("os")._exit(0)
def pixels(): return torch.ones(2, 2).to_sparse()
def empty(): pass

class Thing:
    size = 3
    def __init__(self, value=1): self.value = value; self.items = [1, 2]
    def double(self): return self.value * 2
    def __len__(self): return 2
    def __getitem__(self, key): return self.items[key]
    def __eq__(self, other): return True

class Linear(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W = nn.Parameter(torch.ones(d_in, d_out))
        self.b = nn.Parameter(torch.zeros(d_out))
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("secret", torch.ones(1), persistent=False)
        self.d_in = d_in
        self.drop = nn.Dropout(0.5)
    def forward(self, x, scale=1.0):
        if self.training:
            self.seen += 1
        return self.drop(x @ self.W + self.b) * scale
    def norm(self, p=2): return self.W.norm(p)

class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Linear(2, 2), Linear(2, 2)])
        self.head = nn.Linear(2, 2, bias=False)
        self.tied = nn.Linear(2, 2, bias=False)
        self.tied.weight = self.head.weight
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.tied(self.head(x))

class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.later = None
    def forward(self, x):
        if self.later is None:
            self.later = nn.Linear(2, 2)
        return self.later(x)

class Wrap(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x): return 2 * self.inner(x)

def run(module, x): return module(x)
model = Stack()
number, tensor, table = 5, torch.ones(2, requires_grad=True), {"a": (1, 2)}
"""


def connect(jail: Jail) -> tuple[Any, Line]:
    """A worker that has run CODE, and the line to it."""
    worker = jail.worker()
    line = Line(worker.channel)
    said = line.ask("exec", CODE)
    assert said["error"] is None, said
    return worker, line
