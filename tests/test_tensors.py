"""Checkpoint files against the safetensors library, and against damage."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from course import tensors

MANY = {
    "weights": torch.randn(3, 4),
    "double": torch.randn(5, dtype=torch.float64),
    "half": torch.randn(2, 2).half(),
    "brain": torch.randn(7).bfloat16(),
    "ids": torch.arange(6).reshape(2, 3),
    "mask": torch.tensor([True, False, True]),
    "one": torch.tensor(3.0),
    "none": torch.empty(0, 4),
    "turned": torch.randn(3, 5).T,
    "column": torch.randn(1, 5)[:, 2],
}


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype, name
        assert torch.equal(one[name], other[name]), name


def test_the_library_reads_what_we_write(tmp_path):
    tensors.save(tmp_path / "a", MANY, {"step": "7"})
    same(load_file(tmp_path / "a"), MANY)
    with safe_open(tmp_path / "a", "pt") as file:
        assert file.metadata()["step"] == "7"


def test_we_read_what_the_library_writes(tmp_path):
    save_file({name: tensor.contiguous() for name, tensor in MANY.items()}, tmp_path / "a", {"step": "7"})
    found, metadata = tensors.load(tmp_path / "a")
    same(found, MANY)
    assert metadata == {"step": "7"}


def test_we_read_what_we_write(tmp_path):
    tensors.save(tmp_path / "a", MANY, {"step": "7"})
    found, metadata = tensors.load(tmp_path / "a")
    same(found, MANY)
    assert metadata == {"step": "7"}


@pytest.mark.parametrize("where", [0, 3, 9, 40, -1, -30])
def test_a_changed_byte_is_noticed(tmp_path, where):
    path = tmp_path / "a"
    tensors.save(path, MANY)
    content = bytearray(path.read_bytes())
    content[where] ^= 0x55
    path.write_bytes(content)
    with pytest.raises(tensors.DamagedFile, match=str(path)):
        tensors.load(path)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_file_that_is_cut_off_is_noticed(tmp_path, kept):
    path = tmp_path / "a"
    tensors.save(path, MANY)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(tensors.DamagedFile, match="is damaged"):
        tensors.load(path)


def test_other_files_are_refused(tmp_path):
    for content in (b"PK\x03\x04 a zip file of another kind", b"\x80\x04 a pickle", b'{"json": 1}' * 50):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(tensors.DamagedFile):
            tensors.load(tmp_path / "a")


def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    tensors.save(path, {"x": torch.ones(2)})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        tensors.save(path, {"x": torch.zeros(2)})
    same(tensors.load(path)[0], {"x": torch.ones(2)})
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
