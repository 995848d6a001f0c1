"""Rows of numbers that never change: a change makes another matrix that shares what it can."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Vectors"]

Rows = NDArray[np.int64]

_AT_LEAST = 1_024  # changed rows there is room for from the first change on
_MERGE = 0.5  # share of changed rows beyond which a plain matrix is made again


class Vectors:
    """An (n, d) matrix: a base, perhaps mapped from a file and shared by processes, and changed rows beside it.

    `_slot[row]` is the place of a changed row in `_changed`, or -1. New rows are written behind all places that an
    earlier matrix can name, so that those who read an earlier one see what they saw.
    """

    def __init__(self, base: Tensor) -> None:
        self._base = base
        self._slot: NDArray[np.int32] = np.empty(0, dtype=np.int32)  # none changed
        self._changed = base.new_empty(0, base.shape[1])
        self._used = 0

    def __len__(self) -> int:
        return max(self._base.shape[0], self._slot.size)

    @property
    def width(self) -> int:
        """Columns."""
        return int(self._base.shape[1])

    def take(self, rows: Rows) -> Tensor:
        """(len(rows), d) some rows, in memory of their own."""
        if not self._slot.size:
            return self._base[torch.from_numpy(rows)]
        slots = self._slot[rows]
        moved = np.flatnonzero(slots >= 0)
        if not moved.size:
            return self._base[torch.from_numpy(rows)]
        if moved.size == rows.size:
            return self._changed[torch.from_numpy(slots.astype(np.int64))]
        out = self._base[torch.from_numpy(np.where(slots >= 0, 0, rows))]
        out[torch.from_numpy(moved)] = self._changed[torch.from_numpy(slots[moved].astype(np.int64))]
        return out

    def block(self, start: int, stop: int) -> Tensor:
        """Rows start..stop; not to be written to."""
        if stop <= self._base.shape[0] and not (self._slot.size and (self._slot[start:stop] >= 0).any()):
            return self._base[start:stop]
        return self.take(np.arange(start, min(stop, len(self))))

    def matrix(self) -> Tensor:
        """All rows as a plain matrix; not to be written to."""
        return self.block(0, len(self))

    def edited(self, rows: Rows, values: Tensor) -> Vectors:
        """Another matrix with other values in some rows; those from the number of rows on are new."""
        count = max(len(self), int(rows.max()) + 1) if rows.size else len(self)
        slot = np.full(count, -1, dtype=np.int32)
        slot[: self._slot.size] = self._slot
        made = Vectors(self._base)
        made._changed, made._used = self._room(rows.size)
        slot[rows] = np.arange(made._used, made._used + rows.size, dtype=np.int32)
        made._changed[made._used : made._used + rows.size] = values
        made._used += rows.size
        made._slot = slot
        return made._tidied()

    def _room(self, more: int) -> tuple[Tensor, int]:
        """Where changed rows stand, with room for more at the end."""
        if self._used + more <= self._changed.shape[0]:
            return self._changed, self._used
        size = max(_AT_LEAST, 2 * (self._used + more))
        grown = self._base.new_empty(size, self._base.shape[1])
        grown[: self._used] = self._changed[: self._used]
        return grown, self._used

    def _tidied(self) -> Vectors:
        """As it is, or without the rows that were changed again since, or as a plain matrix."""
        rows = np.flatnonzero(self._slot >= 0)
        if rows.size > _MERGE * len(self):
            return Vectors(self.matrix())
        if self._used <= max(_AT_LEAST, 2 * rows.size):
            return self
        made = Vectors(self._base)
        made._changed, made._used = self.take(rows), rows.size
        made._slot = self._slot.copy()
        made._slot[rows] = np.arange(rows.size, dtype=np.int32)
        return made
