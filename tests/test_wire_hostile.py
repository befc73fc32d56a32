"""Bytes that nobody honest would send over the line: a WireError, and nothing else."""

import os
import socket
import struct
from typing import Any

import msgpack
import numpy as np
import pytest
import torch

from autograder.sandbox import wire
from autograder.sandbox.wire import WireError, pack, receive, send, unpack
from autograder.sandbox.wire import unpack_tensor as back


def refuse(*_: object) -> Any:
    raise AssertionError("nothing here stays on its side")


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
