"""The arrays of a safetensors file, mapped into memory from a file that is already open."""

from __future__ import annotations

import json
import math
import mmap
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["TYPES", "header_of", "mapped_arrays"]

TYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "F16": np.float16,
    "U32": np.uint32, "I32": np.int32, "F32": np.float32, "U64": np.uint64, "I64": np.int64, "F64": np.float64,
}  # fmt: skip
_LONGEST_HEADER = 100_000_000  # bytes, as in the safetensors library


def mapped_arrays(file: Path | BinaryIO, *, writable: bool = False) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays, each read when it is used, so that processes share them; and the file's metadata.

    What is written to `writable` ones stays in this process. They stay valid when the file is closed or replaced.
    A damaged file raises ValueError.
    """
    if isinstance(file, Path):
        with file.open("rb") as opened:
            return mapped_arrays(opened, writable=writable)
    header, metadata, start, size = header_of(file)
    content = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY if writable else mmap.ACCESS_READ)
    begin, arrays = 0, {}
    for name, facts in sorted(header.items(), key=lambda entry: entry[1]["data_offsets"]):
        array, begin = _array(content, start, begin, name, facts)
        array.flags.writeable = writable
        arrays[name] = array
    if start + begin != size:
        raise ValueError(f"{size:,} bytes, where the header describes {start + begin:,}")
    return arrays, metadata


def header_of(file: BinaryIO) -> tuple[dict[str, Any], dict[str, str], int, int]:
    """What a safetensors file says of its arrays, its metadata, where the arrays begin, and the size of the file."""
    size = os.fstat(file.fileno()).st_size
    if size < 8:
        raise ValueError(f"{size} bytes are no safetensors file")
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > min(_LONGEST_HEADER, size - 8):
        raise ValueError(f"a header of {length:,} bytes in a file of {size:,}")
    header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise ValueError("the metadata are not a JSON object")
    return header, metadata, 8 + length, size


def _array(content: mmap.mmap, start: int, begin: int, name: str, facts: dict[str, Any]) -> tuple[NDArray[Any], int]:
    """One array, which begins where the last one ended, and where it ends itself."""
    kind, shape, (first, last) = TYPES.get(facts["dtype"]), facts["shape"], facts["data_offsets"]
    if kind is None:
        raise ValueError(f"{name!r} is of the unknown type {facts['dtype']!r}")
    if not all(type(number) is int and number >= 0 for number in (*shape, first, last)):
        raise ValueError(f"{name!r} has the shape {shape} at {first} to {last}")
    count = math.prod(shape)
    if first != begin or last - first != count * np.dtype(kind).itemsize or start + last > len(content):
        raise ValueError(f"{name!r} of shape {shape} cannot lie at {first:,} to {last:,}")
    if not count:
        return np.empty(shape, kind), last
    array: NDArray[Any] = np.frombuffer(content, kind, count, start + first)
    return (array if array.flags.aligned else array.copy()).reshape(shape), last
