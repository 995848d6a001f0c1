"""A sparse matrix whose rows can grow and shrink."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["RowLists", "grown", "grown_array"]

Rows = NDArray[np.int64]
Entries = tuple[Rows, Rows]  # compressed rows: where each begins, and the slots of its entries

_SLACK = 1.25  # room for entries, as a share of those there are: so seldom are all moved


class RowLists:
    """A sparse matrix whose rows stand anywhere in one array, so that a row can grow, or move to where it can."""

    def __init__(self, indptr: Tensor, columns: Tensor, values: Tensor) -> None:
        places = indptr.numpy().astype(np.int64)
        self.start, self.length = places[:-1].copy(), np.diff(places)
        self.room = self.length.copy()
        self.columns: NDArray[np.int32] = columns.int().numpy()
        self.values: NDArray[Any] = values.numpy()
        self.end = self.num_entries = columns.numel()

    def entries(self, rows: Rows) -> Entries:
        """Compressed rows: where each begins, and the slots of all entries."""
        counts = self.length[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return indptr, np.arange(indptr[-1]) + np.repeat(self.start[rows] - indptr[:-1], counts)

    def columns_of(self, rows: Rows) -> NDArray[np.int32]:
        """The columns of all entries, with repetitions."""
        return self.columns.take(self.entries(rows)[1])

    def sums(self, rows: Rows) -> NDArray[np.float64]:
        """Sums of the rows."""
        indptr, slots = self.entries(rows)
        owner = np.repeat(np.arange(rows.size), np.diff(indptr))
        return np.bincount(owner, weights=self.values[slots], minlength=rows.size).astype(np.float64)

    def pairs(self, num_nodes: int) -> tuple[Rows, NDArray[Any]]:
        """The (m, 2) pairs of a symmetric matrix, the lower row first, and their values."""
        indptr, slots = self.entries(np.arange(num_nodes))
        rows, columns = np.repeat(np.arange(num_nodes), np.diff(indptr)), self.columns[slots].astype(np.int64)
        once = rows < columns
        return np.stack([rows[once], columns[once]], axis=1), self.values[slots][once]

    def has(self, a: int, b: int) -> bool:
        """Whether a symmetric matrix has this entry."""
        if max(a, b) >= self.start.size:
            return False
        row, column = (a, b) if self.length[a] < self.length[b] else (b, a)
        return bool((self._row(row) == column).any())

    def add(self, a: int, b: int, value: float) -> None:
        """Add an entry, and its mirror image."""
        for row, column in ((a, b), (b, a)):
            if self.length[row] == self.room[row]:
                self._move(row)
            slot = self.start[row] + self.length[row]
            self.columns[slot], self.values[slot] = column, value
            self.length[row] += 1
        self.num_entries += 2

    def remove(self, a: int, b: int) -> None:
        """Take an entry and its mirror image away; the last of the row takes its place."""
        for row, column in ((a, b), (b, a)):
            slot = self.start[row] + int(np.flatnonzero(self._row(row) == column)[0])
            last = self.start[row] + self.length[row] - 1
            self.columns[slot], self.values[slot] = self.columns[last], self.values[last]
            self.length[row] -= 1
        self.num_entries -= 2

    def grow(self, num_rows: int) -> None:
        """Empty rows at the end."""
        self.start, self.length, self.room = (grown_array(a, num_rows) for a in (self.start, self.length, self.room))

    def pack(self, more: int) -> None:
        """Close the gaps that moved rows have left, and make room for `more` entries and a share of all."""
        everyone = np.arange(self.start.size)
        _, old = self.entries(everyone)
        self.room = np.minimum(self.room, 2 * self.length + 4)  # rows that have grown may grow on where they stand
        self.end = int(self.room.sum())
        self.start = np.cumsum(self.room) - self.room
        _, new = self.entries(everyone)
        size = int(_SLACK * self.end) + more
        columns, values = np.zeros(size, dtype=self.columns.dtype), np.zeros(size, dtype=self.values.dtype)
        columns[new], values[new] = self.columns[old], self.values[old]
        self.columns, self.values = columns, values

    def _row(self, row: int) -> NDArray[np.int32]:
        return self.columns[self.start[row] : self.start[row] + self.length[row]]

    def _move(self, row: int) -> None:
        """Double the room of a row, at the end of all."""
        room, length = max(4, 2 * int(self.length[row])), int(self.length[row])
        if self.end + room > self.columns.size:
            self.pack(room)
        old, new = slice(self.start[row], self.start[row] + length), slice(self.end, self.end + length)
        self.columns[new], self.values[new] = self.columns[old], self.values[old]
        self.start[row], self.room[row] = self.end, room
        self.end += room


def grown(x: Tensor, num_rows: int) -> Tensor:
    """With room for so many rows, zero at first, and for some more where it has to move."""
    if x.shape[0] >= num_rows:
        return x
    return torch.cat([x, x.new_zeros(num_rows + num_rows // 4 - x.shape[0], *x.shape[1:])])


def grown_array(x: NDArray[Any], num_rows: int) -> NDArray[Any]:
    """The same of an array."""
    return grown(torch.from_numpy(x), num_rows).numpy()
