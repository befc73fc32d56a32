"""What crosses the line: values come back as they were, and hostile bytes are refused."""

import enum
import math
import os
import socket
import struct
from collections import Counter, OrderedDict, defaultdict, namedtuple
from typing import Any

import msgpack
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from autograder.sandbox import wire
from autograder.sandbox.wire import MINE, YOURS, Stays, WireError, pack, pack_tensor, receive, send, unpack
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

    class Endless(list):
        def __iter__(self):
            while True:
                yield 1

    assert crossed([Liar(3), Endless([1, 2])]) == [3, [1, 2]]


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


def ext(code: int, content: object) -> bytes:
    return msgpack.packb(msgpack.ExtType(code, content if isinstance(content, bytes) else msgpack.packb(content)))


HOSTILE = {
    "nothing": b"",
    "cut": msgpack.packb([1, "abcdef"])[:-2],
    "more": msgpack.packb(1) + b"\x01",
    "reserved": b"\xc1",
    "unknown kind": ext(99, 1),
    "timestamp": ext(11, b""),
    "tensor that is not there": ext(wire.TENSOR, 3),
    "negative tensor": ext(wire.TENSOR, -1),
    "true tensor": ext(wire.TENSOR, True),
    "tensor in words": ext(wire.TENSOR, "0"),
    "array too short": ext(wire.ARRAY, ["<f8", [2], b"\0" * 8]),
    "array of any size": ext(wire.ARRAY, ["<f8", [-1], b"\0" * 8]),
    "huge array": ext(wire.ARRAY, ["<f8", [2**50], b""]),
    "array of objects": ext(wire.ARRAY, ["|O", [1], b"\0" * 8]),
    "array of texts": ext(wire.ARRAY, ["<U1", [1], b"\0" * 4]),
    "array of records": ext(wire.ARRAY, ["i4,i4", [1], b"\0" * 8]),
    "array of nothing": ext(wire.ARRAY, 1),
    "tuple of a number": ext(wire.TUPLE, 1),
    "complex of one number": ext(wire.COMPLEX, struct.pack(">d", 1)),
    "dtype that is none": ext(wire.DTYPE, "load"),
    "dtype in bytes": ext(wire.DTYPE, b"float32"),
    "object without number": ext(wire.MINE, ["a", {}]),
    "object of a huge number": ext(wire.MINE, [2**60, {}]),
    "object with a strange description": ext(wire.YOURS, [1, 5]),
    "unhashable key": b"\x81\x91\x01\x01",
    "huge list": b"\xdd\xff\xff\xff\xff",
    "huge map": b"\xdf\xff\xff\xff\xff",
    "huge text": b"\xdb\xff\xff\xff\xff",
    "huge kind": b"\xc9\xff\xff\xff\xff\x02",
    "no UTF-8": b"\xa1\xff",
    "deep lists": b"\x91" * 100_000 + b"\x01",
    "deep maps": b"\x81\x01" * 100_000 + b"\x01",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes(data: bytes) -> None:
    with pytest.raises(WireError):
        unpack(data, [torch.ones(1)], lambda *_: None)


GOOD = ["float32", [2], [], False, True, b"\0" * 8]


@pytest.mark.parametrize(
    "packed",
    [
        None, 5, [], "float32", GOOD[:-1], [*GOOD, 1], ["load", *GOOD[1:]], [["float32"], *GOOD[1:]],
        ["float32", [3], *GOOD[2:]], ["float32", [1], *GOOD[2:]], ["float32", [-2], *GOOD[2:]],
        ["float32", [-1, -2], *GOOD[2:]], ["float32", [2.0], *GOOD[2:]], ["float32", [True, 2], *GOOD[2:]],
        ["float32", 2, *GOOD[2:]], ["float32", [2**39, 2**39], *GOOD[2:]], ["float32", [1] * 40 + [2], *GOOD[2:]],
        ["float32", [2**39, 0], [], False, True, "x"], ["float32", [2], [], False, True, "12345678"],
        ["float32", [2], [], False, True, None], ["float32", [2**39] * 3 + [0], [], False, True, b""],
    ],
    ids=lambda packed: str(packed)[:40],
)  # fmt: skip
def test_hostile_tensors(packed: object) -> None:
    with pytest.raises(WireError):
        back(packed)


def test_bytes_of_a_boolean_tensor_are_zero_or_one() -> None:
    tensor, _, _ = back(["bool", [3], [], False, True, b"\x02\x00\xff"])
    assert tensor.view(torch.uint8).tolist() == [1, 0, 1]


@pytest.mark.parametrize("strides", [[-1], [2**62], [1, 1], "a", [None], [1.5], [2**70]], ids=str)
def test_hostile_strides(strides: object) -> None:
    """They give the values, or an error, and never more memory."""
    try:
        tensor, _, _ = back(["float32", [2], strides, False, True, struct.pack("<ff", 1, 2)], strides=True)
    except WireError:
        return
    assert tensor.tolist() == [1, 2] and tensor.untyped_storage().nbytes() < 100_000


def test_messages() -> None:
    one, other = socket.socketpair()
    with one, other:
        send(one, ["ask", {1: b"x"}])
        assert receive(other) == ["ask", {1: b"x"}]
        with pytest.raises(WireError, match="too large"):
            send(one, b"0" * (wire.MAX_MESSAGE + 2**17))
        for hostile in (b"\xff\xff\xff\xff", b"\0\0\0\x01\xc1", b"\0\0\0\x02\x01\x01"):
            one.sendall(hostile)
            with pytest.raises(WireError):
                receive(other)
        one.sendall(struct.pack(">I", 10) + b"abc")
        one.close()
        with pytest.raises(EOFError):
            receive(other)


def test_random_bytes_are_values_or_wire_errors() -> None:
    """Each byte of a good message changed, and noise."""
    packed, tensors = pack([(1, torch.ones(2)), {"a": np.ones(2), "b": {2**80}}, 1j, torch.int8], refuse)
    places = [(i, bit) for i in range(len(packed)) for bit in (1, 64, 128)]
    damaged = [packed[:i] + bytes([packed[i] ^ bit]) + packed[i + 1 :] for i, bit in places]
    for data in [*damaged, *(os.urandom(40) for _ in range(2000))]:
        try:
            unpack(data, tensors, lambda *_: None)
        except WireError:
            continue
