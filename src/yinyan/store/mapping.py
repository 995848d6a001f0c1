"""The arrays of a safetensors file, mapped into memory."""

from __future__ import annotations

import json
import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["mapped_arrays"]

_TYPES = {
    **{"F32": np.float32, "F64": np.float64, "BOOL": np.bool_},
    **{"I64": np.int64, "I32": np.int32, "I8": np.int8, "U8": np.uint8},
}


def mapped_arrays(path: Path, *, writable: bool = False) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays, each read when it is used, so that processes share them; and the file's metadata.

    What is written to `writable` ones stays in this process. A damaged file raises ValueError, KeyError or TypeError.
    """
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY if writable else mmap.ACCESS_READ)
    start = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:start])
    metadata: dict[str, str] = header.pop("__metadata__", {})
    if start + max((entry["data_offsets"][1] for entry in header.values()), default=0) != len(content):
        raise ValueError("the file is truncated")
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        shape = entry["shape"]
        flat: NDArray[Any] = np.frombuffer(
            content, _TYPES[entry["dtype"]], math.prod(shape), start + entry["data_offsets"][0]
        )
        arrays[name] = flat.reshape(shape)
    return arrays, metadata
