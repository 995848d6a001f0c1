"""The arrays of a safetensors file, mapped into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

__all__ = ["mapped_arrays"]


def mapped_arrays(path: Path, *, writable: bool = False) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays, each read when it is used, so that processes share them; and the file's metadata.

    What is written to `writable` ones stays in this process. A damaged file raises ValueError.
    """
    try:
        with safe_open(path, framework="pt") as file:  # torch maps, where numpy would copy
            arrays = {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118 - not a mapping
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    if not writable:
        for array in arrays.values():
            array.flags.writeable = False
    return arrays, metadata
