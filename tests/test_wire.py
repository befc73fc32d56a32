"""What crosses the line: values come back as they were."""

import enum
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from typing import Any

import msgpack
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from autograder.sandbox import wire
from autograder.sandbox.wire import MINE, YOURS, Stays, WireError, pack, pack_tensor, unpack
from autograder.sandbox.wire import unpack_tensor as back


def refuse(*_: object) -> Any:
    raise AssertionError("nothing here stays on its side")


def crossed(value: object) -> Any:
    packed, tensors = pack(value, refuse)
    return unpack(packed, [back(pack_tensor(tensor))[0] for tensor in tensors], refuse)


class Text(str): ...


class Whole(int): ...


class Real(float): ...


class Row(list): ...


class Table(dict): ...


class Pair(tuple): ...


class Raw(bytes): ...


class Color(enum.IntEnum):
    RED = 1


Point = namedtuple("Point", "x y")

PLAIN = [
    None, True, False, 0, -1, 2**63, -(2**63), 2**64 - 1, 2**64, -(2**64), 3**2000, 0.0, -0.0, 1.5, math.inf, 2 + 3j,
    "", "Łódź", "\0", b"", b"\0\xff", [], (), {}, set(), [1, [2, (3, {4})]], {"a": {1: (2,)}}, {(1, 2): 3}, {None: 1},
    (1,), {1, (2, 3)}, torch.float32, torch.bool, [torch.int64], range(3).stop,
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:30])
def test_plain_values_come_back(value: object) -> None:
    got = crossed(value)
    assert got == value and type(got) is type(value)
    assert math.copysign(1, got) == math.copysign(1, value) if isinstance(value, float) else True


def test_nan() -> None:
    assert math.isnan(crossed(math.nan))


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (Text("a"), "a"),
        (Whole(2**70), 2**70),
        (Whole(2), 2),
        (Real(1.5), 1.5),
        (Row([1]), [1]),
        (Table(a=1), {"a": 1}),
        (Pair((1, 2)), (1, 2)),
        (Raw(b"a"), b"a"),
        (bytearray(b"a"), b"a"),
        (Color.RED, 1),
        (Point(1, 2), (1, 2)),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (frozenset({1}), {1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_subclasses_cross_as_what_they_hold(value: object, base: object) -> None:
    for got, expected in [(crossed(value), base), (crossed([value])[0], base)]:
        assert got == expected and type(got) is type(expected)


def test_subclasses_cannot_lie_about_what_they_hold() -> None:
    class Liar(int):
        def __index__(self) -> int:
            raise RuntimeError("mine")

        __eq__ = __bool__ = lambda *_: True
        __hash__ = int.__hash__

    class Other(list):
        def __iter__(self):
            return iter([9])

    assert crossed([Liar(3), Other([1, 2])]) == [3, [1, 2]]


@pytest.mark.parametrize("dtype", wire.DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_tensors_come_back(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = (torch.arange(math.prod(shape)).reshape(shape) % 2 * 3).to(dtype)
    got = crossed(tensor)
    assert type(got) is Tensor and got.dtype == dtype and got.shape == tensor.shape and torch.equal(got, tensor)


def test_special_numbers_in_tensors() -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        got = crossed(torch.tensor([math.nan, math.inf, -math.inf, -0.0], dtype=dtype))
        assert got.isnan().tolist() == [True, False, False, False]
        assert got[1:3].tolist() == [math.inf, -math.inf] and math.copysign(1, got[3].item()) == -1


BASE = torch.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "view",
    [BASE.transpose(0, 2), BASE[:, ::2], BASE[1], torch.ones(3, 1).expand(3, 4), BASE.permute(2, 0, 1), BASE[..., 1]],
    ids=["transposed", "stepped", "row", "expanded", "permuted", "column"],
)
def test_strides_are_kept_where_asked_for(view: Tensor) -> None:
    got, _, _ = back(pack_tensor(view), strides=True)
    assert torch.equal(got, view) and got.is_contiguous() == view.is_contiguous()
    if not view.is_contiguous():
        assert got.stride() == view.stride()
    plain, _, _ = back(pack_tensor(view))
    assert torch.equal(plain, view) and plain.is_contiguous()


def test_a_narrow_view_does_not_bring_its_base() -> None:
    view = torch.arange(10**6)[:: 10**5]
    packed = pack_tensor(view)
    got, _, _ = back(packed, strides=True)
    assert len(packed[5]) == 80
    assert torch.equal(got, view) and not got.is_contiguous() and got.untyped_storage().nbytes() < 10_000


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.bfloat16])
def test_a_column_with_one_row(dtype: torch.dtype) -> None:
    """PyTorch calls one element contiguous whatever its stride."""
    column = torch.arange(5).to(dtype).reshape(1, 5)[:, 3]
    assert torch.equal(crossed(column), column)


def test_conjugate_and_negative_views() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert torch.equal(crossed(z.conj()), z.conj().resolve_conj())
    assert torch.equal(crossed(z.conj().imag), torch.tensor([-2.0, 4.0]))


def test_gradient_flags() -> None:
    leaf = torch.ones(2, requires_grad=True)
    assert back(pack_tensor(leaf))[1:] == (True, True)
    assert back(pack_tensor(leaf * 2))[1:] == (True, False)
    assert back(pack_tensor(torch.ones(2)))[1:] == (False, True)
    assert type(crossed(nn.Parameter(torch.ones(2)))) is Tensor


def test_the_same_tensor_stays_one() -> None:
    tensor = torch.ones(2)
    first, (second, third) = crossed([tensor, (tensor, tensor.clone())])
    assert first is second and first is not third


def test_numpy() -> None:
    arrays = [
        np.float32(1.5), np.int8(-3), np.bool_(True), np.complex64(1j), np.arange(6).reshape(2, 3).T,
        np.array([True, False]), np.array(3.0), np.zeros((0, 2)), np.arange(3, dtype=">i2"),
    ]  # fmt: skip
    for array in arrays:
        got = crossed(array)
        assert type(got) is type(array) and got.dtype == array.dtype and np.array_equal(got, array)
    got = crossed(np.ones(2))
    got[0] = 3  # it is nobody else's memory


def test_objects_stay_where_they_are() -> None:
    kept: list[object] = []

    def keep(item: object) -> Stays:
        kept.append(item)
        return Stays(MINE, len(kept), {"kind": "object"})

    thing = object()
    packed, tensors = pack([thing, Stays(YOURS, 7)], keep)
    resolved = unpack(packed, tensors, lambda kind, number, description: (kind, number, description))
    assert kept == [thing]
    assert resolved == [(MINE, 1, {"kind": "object"}), (YOURS, 7, {})]


@pytest.mark.parametrize(
    "value",
    [
        2 ** (8 * wire.MAX_INTEGER),
        np.array(["a"]),
        np.array([object()]),
        np.datetime64("2020-01-01"),
        np.zeros(1, dtype=[("a", "i4")]),
        b"0" * (wire.MAX_MESSAGE + 1),
        torch.ones(2).to_sparse(),
        torch.empty(2, device="meta"),
        torch.zeros(1).expand(wire.MAX_MESSAGE),
    ],
    ids=["integer", "strings", "objects", "dates", "records", "bytes", "sparse", "meta", "expanded"],
)
def test_what_cannot_cross_is_an_error(value: object) -> None:
    with pytest.raises(WireError):
        crossed([value])


def test_circles_and_depth_are_errors() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, {"a": circle}, deep):
        with pytest.raises(WireError):
            crossed(value)


def test_unhashable_set_members_are_an_error() -> None:
    with pytest.raises(WireError):
        unpack(msgpack.packb(msgpack.ExtType(wire.SET, msgpack.packb([[1]]))), [], refuse)
