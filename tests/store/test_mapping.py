"""Arrays of safetensors files that are mapped, not read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from yinyan.store.mapping import mapped_arrays

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([True, False, True]),
    "c": np.arange(5, dtype=np.int64),
    "d": np.zeros((0, 4), dtype=np.float64),
    "e": np.array([-1, 2], dtype=np.int8),
    "f": np.array([7], dtype=np.uint8),
    "g": np.array([1, 2], dtype=np.int32),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_file(ARRAYS, tmp_path / "arrays.safetensors", metadata={"who": "me"})
    return tmp_path / "arrays.safetensors"


@pytest.mark.parametrize("writable", [False, True])
def test_arrays_and_metadata_come_back(file: Path, writable: bool) -> None:
    arrays, metadata = mapped_arrays(file, writable=writable)
    assert metadata == {"who": "me"} and arrays.keys() == ARRAYS.keys()
    for name, array in arrays.items():
        assert np.array_equal(array, ARRAYS[name]) and array.dtype == ARRAYS[name].dtype, name
        assert array.flags.writeable == writable and array.shape == ARRAYS[name].shape


def test_what_is_written_stays_in_the_process(file: Path) -> None:
    before = file.read_bytes()
    arrays, _ = mapped_arrays(file, writable=True)
    arrays["a"][0, 0] = 99
    assert mapped_arrays(file)[0]["a"][0, 0] == 0 and file.read_bytes() == before


def test_a_file_without_metadata_or_arrays(tmp_path: Path) -> None:
    save_file({}, tmp_path / "none.safetensors")
    assert mapped_arrays(tmp_path / "none.safetensors") == ({}, {})


@pytest.mark.parametrize("damage", ["empty", "short", "long", "length", "text", "type"])
def test_a_damaged_file_is_an_error(file: Path, damage: str) -> None:
    content = file.read_bytes()
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    damaged = {
        "empty": b"",
        "short": content[:-1],
        "long": content + b"\0",
        "length": b"\xff" * 8 + content[8:],
        "text": content.replace(b'"dtype"', b'"dtipe"', 1),
        "type": content.replace(b'"F32"', b'"F99"', 1),
    }[damage]
    assert json.loads(header) and damaged != content
    file.write_bytes(damaged)
    with pytest.raises((ValueError, KeyError)):
        mapped_arrays(file)
