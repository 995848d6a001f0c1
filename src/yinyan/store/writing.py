"""Arrays and facts of a model as files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from yinyan.errors import InputError
from yinyan.files import system_errors
from yinyan.graph.features import Features, SparseFeatures
from yinyan.store.parts import (
    MAX_SHARD_BYTES,
    PARTS_FILE,
    Part,
    PartedArray,
    WrittenRows,
    divided,
    parts_content,
    write_part,
)

__all__ = ["ArrayWriter", "feature_arrays", "save_json"]

Arrays = dict[str, NDArray[Any]]


class ArrayWriter:
    """Writes the arrays of a model: small ones together, each large one in several files."""

    def __init__(
        self, folder: Path, max_shard_bytes: int | None, written: Mapping[str, Sequence[WrittenRows]] | None = None
    ) -> None:
        """`written` names arrays whose rows lie in files already, which become files of the model."""
        limit = MAX_SHARD_BYTES if max_shard_bytes is None else max_shard_bytes
        if type(limit) is not int or limit < 1:
            raise InputError(f"'max_shard_bytes' needs to be a positive integer (got {max_shard_bytes!r})")
        self._folder, self._limit, self._written = folder, limit, written or {}
        self._parted: list[PartedArray] = []

    def save(self, group: str, arrays: Arrays) -> None:
        """Write arrays to a file, and those that are too large beside it."""
        small = {}
        for name, array in arrays.items():
            if array.ndim and array.nbytes > self._limit:
                parts = self._linked(name) if name in self._written else self._divided(name, array)
                self._parted.append(PartedArray(group, name, array.dtype, array.shape, tuple(parts)))
            else:
                small[name] = array
        with system_errors():
            save_file({name: np.asarray(value, order="C") for name, value in small.items()}, self._folder / group)

    def finish(self) -> bool:
        """Write the list of the parts, if there are any, and return whether there are."""
        if self._parted:
            save_json(self._folder / PARTS_FILE, parts_content(self._parted))
        return bool(self._parted)

    def _divided(self, name: str, array: NDArray[Any]) -> list[Part]:
        spans = divided(array, self._limit)
        parts = [Part(_part_name(name, number, len(spans)), *span) for number, span in enumerate(spans)]
        for part in parts:
            write_part(self._folder / part.file, name, array[part.first : part.last], part.first)
        return parts

    def _linked(self, name: str) -> list[Part]:
        files = self._written[name]
        parts = []
        for number, rows in enumerate(files):
            part = Part(_part_name(name, number, len(files)), rows.first, rows.last)
            try:
                os.link(rows.path, self._folder / part.file)
            except OSError:  # of a file system without links
                shutil.copyfile(rows.path, self._folder / part.file)
            parts.append(part)
        return parts


def _part_name(name: str, number: int, count: int) -> str:
    return f"{name.replace('/', '-')}-{number:05d}-of-{count:05d}.safetensors"


def feature_arrays(features: Features | None, prefix: str = "") -> Arrays:
    """Features by the names that they are saved under."""
    if features is None:
        return {}
    if not isinstance(features, SparseFeatures):
        return {f"{prefix}features": features}
    return {
        f"{prefix}feature_indptr": features.indptr,
        f"{prefix}feature_indices": features.indices,
        f"{prefix}feature_values": features.values,
    }


def save_json(path: Path, content: Any) -> None:
    """Write a JSON file that people can read."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
