"""Named tensors in a file, in the safetensors format: plain data that runs nothing when it is read.

Written here, because the trainer is to run where only PyTorch, NumPy and sentencepiece are. The tests read the files
with the safetensors library, and the library's files with this module.
"""

import hashlib
import json
import os
import struct
from pathlib import Path

import torch
from torch import Tensor

NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
DTYPES = {name: dtype for dtype, name in NAMES.items()}
DIGEST = "sha256"


class DamagedFile(ValueError):
    """A file that is not what was written. The message names it."""


def save(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors with their names, and texts. The file appears complete or not at all.

    Raises:
        OSError: no space, or no permission. A file that was there before stays.
    """
    flat = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    # Wide types first, so that each tensor begins at a multiple of its width.
    order = sorted(flat, key=lambda name: (-flat[name].element_size(), name))
    data = b"".join(_bytes(flat[name]) for name in order)
    header: dict[str, object] = {"__metadata__": {**(metadata or {}), DIGEST: hashlib.sha256(data).hexdigest()}}
    begin = 0
    for name in order:
        end = begin + flat[name].nbytes
        header[name] = {
            "dtype": NAMES[flat[name].dtype],
            "shape": list(flat[name].shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_name(path.name + ".part")
    try:
        with temporary.open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and texts of a file.

    Raises:
        DamagedFile: cut off, changed, or of another kind.
    """
    content = path.read_bytes()
    try:
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        metadata = header.pop("__metadata__", {})
        data = bytearray(content[8 + length :])
        digest = metadata.pop(DIGEST, None)
        if digest and hashlib.sha256(data).hexdigest() != digest:
            raise ValueError("its checksum is another")
        tensors = {name: _tensor(entry, data) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RuntimeError) as error:
        raise DamagedFile(f"{path} is damaged: {error}") from None
    return tensors, metadata


def _bytes(tensor: Tensor) -> bytes:
    # One element counts as contiguous whatever its stride, and cannot be seen as bytes then.
    return tensor.flatten().as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy().tobytes()


def _tensor(entry: dict, data: bytearray) -> Tensor:
    begin, end = entry["data_offsets"]
    dtype = DTYPES[entry["dtype"]]
    if not 0 <= begin <= end <= len(data):
        raise ValueError("it is cut off")
    if begin == end:
        return torch.empty(entry["shape"], dtype=dtype)
    part = torch.frombuffer(data[begin:end], dtype=torch.uint8)
    return part.view(dtype).reshape(entry["shape"]).clone()
