"""Arrays of a model that lie in several files, by rows, and the file that lists them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.files import flush_to_disk
from yinyan.store.joined import ALIGNMENT, Stretch, joined
from yinyan.store.mapping import TYPES, header_of

__all__ = [
    "MAX_SHARD_BYTES",
    "PARTS_FILE",
    "Part",
    "PartedArray",
    "WrittenRows",
    "divided",
    "mapped_rows",
    "parted_arrays_of",
    "parts_content",
    "write_part",
]

PARTS_FILE = "parts.json"
MAX_SHARD_BYTES = 4 << 30  # a larger array is saved in several files
_NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}


class Part(NamedTuple):
    """A file with some rows of an array."""

    file: str
    first: int
    last: int  # the row behind the last


class WrittenRows(NamedTuple):
    """A file with some rows of an array that is no file of a model yet."""

    path: Path
    first: int
    last: int


@dataclass(frozen=True)
class PartedArray:
    """An array whose rows lie in several files."""

    group: str  # the file that a model in one piece has it in
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    parts: tuple[Part, ...]  # one after the other

    def to_dict(self) -> dict[str, Any]:
        """As `parts.json` has it."""
        parts = [part._asdict() for part in self.parts]
        kind = _NAMES[self.dtype]
        return {"in": self.group, "name": self.name, "dtype": kind, "shape": list(self.shape), "parts": parts}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> PartedArray:
        """The inverse, checked: every row is in one part."""
        shape = tuple(facts["shape"])
        parts = tuple(Part(part["file"], part["first"], part["last"]) for part in facts["parts"])
        numbers = (*shape, *(number for part in parts for number in part[1:]))
        if not shape or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"{PARTS_FILE} gives {facts['name']!r} the shape {shape}")
        ends = [0, *(part.last for part in parts)]
        if any(part.first != end or part.last < part.first for part, end in zip(parts, ends, strict=False)):
            raise ValueError(f"the parts of {facts['name']!r} in {PARTS_FILE} do not follow each other")
        if ends[-1] != shape[0]:
            raise ValueError(f"the parts of {facts['name']!r} in {PARTS_FILE} have {ends[-1]:,} of {shape[0]:,} rows")
        return cls(facts["in"], facts["name"], np.dtype(TYPES[facts["dtype"]]), shape, parts)

    def read(self, opened: Callable[[str], BinaryIO], first: int = 0, last: int | None = None) -> NDArray[Any]:
        """The rows from `first` to `last`, mapped; only files that hold some of them are `opened`."""
        last = self.shape[0] if last is None else last
        stretches = []
        for part in self.parts:
            low, high = max(first, part.first), min(last, part.last)
            if low < high:
                file, row = opened(part.file), self._row_bytes
                start = self._start(part, file)
                stretches.append(Stretch(file, start + (low - part.first) * row, (high - low) * row))
        return joined(stretches, self.dtype, (last - first, *self.shape[1:]))

    @property
    def _row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def _start(self, part: Part, file: BinaryIO) -> int:
        """Where the rows of a part begin in its file, which needs to hold nothing else."""
        header, _, start, size = header_of(file)
        count = part.last - part.first
        wanted = {"dtype": _NAMES[self.dtype], "shape": [count, *self.shape[1:]]}
        wanted["data_offsets"] = [0, count * self._row_bytes]
        if header != {self.name: wanted} or size != start + count * self._row_bytes:
            raise ValueError(f"{part.file} does not hold the rows {part.first:,} to {part.last - 1:,} of {self.name!r}")
        return start


def write_part(path: Path, name: str, rows: NDArray[Any], first: int) -> None:
    """Write the rows from `first` on of an array as a safetensors file of their own.

    They begin at the same place within a page as in the whole array, so that parts can be mapped as one.
    """
    rows = np.asarray(rows, order="C")
    facts = {"dtype": _NAMES[rows.dtype], "shape": list(rows.shape), "data_offsets": [0, rows.nbytes]}
    header = json.dumps({name: facts}).encode()
    begin = first * rows.dtype.itemsize * math.prod(rows.shape[1:])
    header += b" " * ((begin - 8 - len(header)) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.write(rows.reshape(-1).view(np.uint8).data)
    flush_to_disk(path)


def divided(array: NDArray[Any], max_shard_bytes: int) -> list[tuple[int, int]]:
    """The first and the last row of parts of an array, each of at most so many bytes or of one row."""
    count = array.shape[0]
    rows = max(1, max_shard_bytes * count // max(1, array.nbytes))
    return [(start, min(start + rows, count)) for start in range(0, count, rows)]


def mapped_rows(name: str, dtype: Any, columns: tuple[int, ...], files: Sequence[WrittenRows]) -> NDArray[Any]:
    """The rows of files that follow each other as one array."""
    parts = tuple(Part(str(rows.path), rows.first, rows.last) for rows in files)
    count = parts[-1].last if parts else 0
    with ExitStack() as held:
        return PartedArray("", name, np.dtype(dtype), (count, *columns), parts).read(
            lambda file: held.enter_context(Path(file).open("rb"))
        )


def parts_content(arrays: list[PartedArray]) -> dict[str, Any]:
    """The content of `parts.json`."""
    return {"arrays": [array.to_dict() for array in arrays]}


def parted_arrays_of(content: Any) -> tuple[PartedArray, ...]:
    """The inverse."""
    found = tuple(PartedArray.from_dict(facts) for facts in content["arrays"])
    if len({(array.group, array.name) for array in found}) < len(found):
        raise ValueError(f"{PARTS_FILE} lists an array twice")
    return found
