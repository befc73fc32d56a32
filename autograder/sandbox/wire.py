"""What crosses between the referee and the jail: plain values in MessagePack, tensors by their bytes, never pickle.

A value becomes a structure and a list of tensors. Exact types only: an object of a subclass crosses as what it holds
underneath, and what is no plain value crosses as the number of an object that stays where it is.
"""

import math
import socket
import struct
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import torch
from torch import Tensor

MAX_MESSAGE = 64 * 2**20  # bytes
MAX_INTEGER = 1024  # bytes of an integer
MAX_DEPTH = 60  # tuples in tuples: each level is a level of C

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bool,
        torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    )
}  # fmt: skip

TENSOR, TUPLE, ARRAY, NUMBER, INTEGER, COMPLEX, SET, DTYPE, MINE, YOURS = range(1, 11)


class WireError(ValueError):
    """A value that cannot cross, or bytes that are no value."""


class Stays:
    """Marks a value that stays on its side: an object of the sender (MINE) or one of the receiver (YOURS)."""

    def __init__(self, kind: int, number: int, description: dict[str, Any] | None = None) -> None:
        self.kind, self.number, self.description = kind, number, description or {}


def pack(value: object, keep: Callable[[object], Stays]) -> tuple[bytes, list[Tensor]]:
    """A value as bytes, and the tensors it refers to by their place in the list.

    Args:
        keep: called for an object that is no plain value; says under which number it stays.

    Raises:
        WireError: too large, too deep, or a kind of tensor that has no plain form.
    """
    tensors: list[Tensor] = []
    places: dict[int, int] = {}

    def place(tensor: Tensor) -> int:
        if id(tensor) not in places:  # the same tensor twice stays one tensor
            places[id(tensor)] = len(tensors)
            tensors.append(tensor)
        return places[id(tensor)]

    def default(item: object) -> object:
        if isinstance(item, Tensor):
            return msgpack.ExtType(TENSOR, encode(place(item)))
        if isinstance(item, np.ndarray):
            return msgpack.ExtType(ARRAY, encode(_array(item)))
        if isinstance(item, np.generic):
            return msgpack.ExtType(NUMBER, encode(_array(np.asarray(item))))
        if isinstance(item, bool | int):
            return _integer(int.__index__(item))
        if isinstance(item, float):
            return float.__float__(item)
        if isinstance(item, complex):
            return msgpack.ExtType(COMPLEX, struct.pack(">dd", item.real, item.imag))
        if isinstance(item, str):
            return str.__str__(item).encode("utf-8", "replace").decode()
        if isinstance(item, bytes | bytearray):
            return bytes(item)
        if isinstance(item, tuple):
            return msgpack.ExtType(TUPLE, encode(list(tuple.__iter__(item))))
        if isinstance(item, list):
            return list(list.__iter__(item))
        if isinstance(item, dict):
            return dict(dict.items(item))
        if isinstance(item, set | frozenset):
            return msgpack.ExtType(SET, encode(list(item)))
        if isinstance(item, torch.dtype):
            return msgpack.ExtType(DTYPE, encode(str(item).removeprefix("torch.")))
        stays = item if isinstance(item, Stays) else keep(item)
        return msgpack.ExtType(stays.kind, encode([stays.number, stays.description]))

    depth = 0

    def encode(item: object) -> bytes:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise WireError("The value is nested too deeply.")
        try:
            return msgpack.packb(item, default=default, strict_types=True)
        finally:
            depth -= 1

    try:
        packed = encode(value)
    except WireError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, UnicodeError) as error:
        raise WireError(f"The value cannot be handed over: {error}") from None
    if len(packed) > MAX_MESSAGE:
        raise WireError(f"The value is too large: {len(packed) / 2**20:.0f} MiB.")
    return packed, tensors


def unpack(packed: bytes, tensors: list[Tensor], resolve: Callable[[int, int, dict[str, Any]], object]) -> Any:
    """The value again.

    Args:
        tensors: those of `pack`, after their own journey.
        resolve: gives the object for (MINE or YOURS as the sender said, number, description).

    Raises:
        WireError: bytes that `pack` would not have made.
    """

    def extension(code: int, data: bytes) -> object:
        if code == TENSOR:
            return tensors[_natural(decode(data))]
        if code == TUPLE:
            return tuple(decode(data))
        if code == ARRAY:
            return _array_back(decode(data))
        if code == NUMBER:
            return _array_back(decode(data))[()]
        if code == INTEGER:
            return int.from_bytes(data[:MAX_INTEGER], "big", signed=True)
        if code == COMPLEX:
            return complex(*struct.unpack(">dd", data))
        if code == SET:
            return set(decode(data))
        if code == DTYPE:
            return DTYPES[decode(data)]
        if code in (MINE, YOURS):
            number, description = decode(data)
            return resolve(code, _natural(number), dict(description))
        raise WireError(f"unknown kind of value {code}")

    depth = 0

    def decode(data: bytes) -> Any:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise WireError("a value that is nested too deeply")
        try:
            return msgpack.unpackb(data, ext_hook=extension, strict_map_key=False)
        finally:
            depth -= 1

    try:
        return decode(packed)
    except WireError:
        raise
    except Exception as error:  # whatever hostile bytes can raise
        raise WireError(f"not a value: {error}") from None


def pack_tensor(tensor: Tensor) -> list[Any]:
    """dtype, shape, strides (empty when contiguous), requires_grad, is_leaf and bytes.

    Raises:
        WireError: sparse, quantised or without data.
    """
    plain = tensor.detach()
    if type(plain) is not Tensor:
        plain = plain.as_subclass(Tensor)
    if plain.layout is not torch.strided or plain.is_quantized or plain.is_meta:
        raise WireError(f"The tensor has no plain values (layout {plain.layout}, device {plain.device}).")
    name = str(plain.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise WireError(f"The tensor has the dtype {plain.dtype}, which cannot be handed over.")
    if plain.numel() * plain.element_size() > MAX_MESSAGE:
        raise WireError(f"The tensor is too large: shape {tuple(plain.shape)}.")
    flat = plain.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    if flat.stride() != (1,):  # one element counts as contiguous whatever its stride
        flat = flat.clone(memory_format=torch.contiguous_format)
    raw = flat.view(torch.uint8).numpy().tobytes()
    strides = [] if plain.is_contiguous() else list(plain.stride())
    return [name, list(plain.shape), strides, tensor.requires_grad, tensor.is_leaf, raw]


def unpack_tensor(packed: Any, strides: bool = False) -> tuple[Tensor, bool, bool]:
    """The tensor's values as a new tensor, and what it said about requires_grad and is_leaf.

    Args:
        strides: lay the values out in memory as they were.

    Raises:
        WireError: bytes that do not fit dtype and shape.
    """
    try:
        name, shape, layout, requires_grad, is_leaf, raw = packed
        dtype = DTYPES[name]
        shape = [_natural(size) for size in shape]
        if len(shape) > 32 or math.prod(shape) * dtype.itemsize != len(raw):
            raise WireError(f"{len(raw)} bytes are no {name} tensor of shape {shape}")
        if not raw:
            plain = torch.empty(shape, dtype=dtype)
        elif dtype is torch.bool:
            plain = torch.frombuffer(bytearray(raw), dtype=torch.uint8).to(torch.bool).reshape(shape)
        else:
            plain = torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape).clone()  # may be resized
        if strides and layout and raw:
            plain = _laid_out(plain, layout)
        return plain, bool(requires_grad) and (dtype.is_floating_point or dtype.is_complex), bool(is_leaf)
    except WireError:
        raise
    except Exception as error:  # whatever hostile bytes can raise
        raise WireError(f"not a tensor: {error}") from None


def pack_all(tensors: list[Tensor]) -> list[list[Any]]:
    return [pack_tensor(tensor) for tensor in tensors]


def unpack_all(packed: list) -> list[Tensor]:
    """New tensors that ask for gradients where theirs did."""
    found = (unpack_tensor(one) for one in packed)
    return [tensor.requires_grad_(requires_grad) for tensor, requires_grad, _ in found]


def _laid_out(plain: Tensor, strides: list[int]) -> Tensor:
    """The same values with these strides; an expanded dimension stays expanded."""
    shape = list(plain.shape)
    small = [1 if stride == 0 else size for size, stride in zip(shape, strides, strict=True)]
    needed = 1 + sum((size - 1) * stride for size, stride in zip(small, strides, strict=True))
    if needed > 4 * plain.numel() + 4096:  # a narrow view of a large tensor: any gap will do
        return torch.stack([plain, plain], dim=-1)[..., 0]
    base = torch.empty_strided(small, [stride or 1 for stride in strides], dtype=plain.dtype)
    first = plain[tuple(slice(0, size) for size in small)]
    return base.copy_(first).expand(shape)


def _array(array: np.ndarray) -> list[Any]:
    if array.dtype.kind not in "biufc":
        raise WireError(f"An array of dtype {array.dtype} cannot be handed over.")
    return [array.dtype.str, list(array.shape), np.ascontiguousarray(array).tobytes()]


def _array_back(packed: Any) -> np.ndarray:
    name, shape, raw = packed
    dtype = np.dtype(str(name))
    if dtype.kind not in "biufc":
        raise WireError(f"arrays of dtype {dtype} do not cross")
    array = np.frombuffer(raw, dtype=np.uint8 if dtype.kind == "b" else dtype).reshape([_natural(n) for n in shape])
    return array != 0 if dtype.kind == "b" else array.copy()


def _integer(value: int) -> object:
    if -(2**63) <= value < 2**64:
        return int(value)
    size = value.bit_length() // 8 + 1
    if size > MAX_INTEGER:
        raise WireError(f"An integer of {size} bytes cannot be handed over.")
    return msgpack.ExtType(INTEGER, value.to_bytes(size, "big", signed=True))


def _natural(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**40:
        raise WireError(f"{str(value)[:40]} is no size")
    return value


def send(channel: socket.socket, message: object) -> None:
    """One message of plain values.

    Raises:
        WireError: larger than MAX_MESSAGE.
        OSError: nobody listens any more.
    """
    body = msgpack.packb(message)
    if len(body) > MAX_MESSAGE + 2**16:
        raise WireError(f"The answer is too large: {len(body) / 2**20:.0f} MiB.")
    channel.sendall(struct.pack(">I", len(body)) + body)


def receive(channel: socket.socket) -> Any:
    """The next message.

    Raises:
        EOFError: the other side is gone.
        WireError: no message.
    """
    (size,) = struct.unpack(">I", _exactly(channel, 4))
    if size > MAX_MESSAGE + 2**16:
        raise WireError(f"a message of {size} bytes")
    try:
        return msgpack.unpackb(_exactly(channel, size), strict_map_key=False)
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise WireError(f"not a message: {error}") from None


def _exactly(channel: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = channel.recv(min(size - len(parts), 2**20))
        if not part:
            raise EOFError("the other side is gone")
        parts += part
    return bytes(parts)
