"""Arrays of a trained model as files: each process writes its own rows, and the first one maps all of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.distributed.group import Group
from yinyan.errors import StoreError
from yinyan.files import write_error
from yinyan.store.parts import MAX_SHARD_BYTES, WrittenRows, divided, mapped_rows, write_part

__all__ = ["RowFiles"]


class RowFiles:
    """A folder that all processes see, emptied at the start. Every method is called by all of them."""

    def __init__(self, group: Group, folder: Path, max_shard_bytes: int | None = None) -> None:
        self._group, self._folder = group, folder
        self._limit = MAX_SHARD_BYTES if max_shard_bytes is None else max_shard_bytes
        self._kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self.files: dict[str, list[WrittenRows]] = {}  # of each array, one after the other
        error = None
        if group.is_first:
            try:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            except OSError as wrong:
                error = write_error(folder, wrong)
        group.raise_if_any(error)

    def write(self, name: str, blocks: Sequence[NDArray[Any]]) -> list[int]:
        """Write own rows, and return the number of the first row of each block.

        The first blocks of all processes come first, then the second ones: a process has rows of each side.
        """
        self._kinds[name] = blocks[0].dtype, blocks[0].shape[1:]
        counts = self._group.gathered(torch.tensor([[len(block) for block in blocks]], device=self._group.device))
        ends = counts.T.reshape(-1).cumsum(0)
        firsts = (ends - counts.T.reshape(-1)).view(len(blocks), -1)[:, self._group.rank].tolist()
        written, error = [], None
        try:
            for number, (block, first) in enumerate(zip(blocks, firsts, strict=True)):
                for low, high in divided(block, self._limit):
                    file = f"{name.replace('/', '-')}-{self._group.rank:05d}-{number}-{low:012d}.safetensors"
                    write_part(self._folder / file, name, block[low:high], first + low)
                    written.append((file, first + low, first + high))
        except OSError as wrong:
            error = write_error(self._folder, wrong)
        self._group.raise_if_any(error)
        listed = [entry for text in self._group.texts(json.dumps(written)) for entry in json.loads(text)]
        ordered = sorted((first, last, file) for file, first, last in listed)
        self.files[name] = [WrittenRows(self._folder / file, first, last) for first, last, file in ordered]
        return [int(first) for first in firsts]

    def mapped(self, name: str) -> NDArray[Any]:
        """The rows of all processes, in the process that asks."""
        try:
            return mapped_rows(name, *self._kinds[name], self.files[name])
        except (OSError, ValueError) as wrong:
            raise StoreError(
                f"rows of {name!r} in '{self._folder}' cannot be read: {wrong} (all machines need to see this folder)"
            ) from wrong
