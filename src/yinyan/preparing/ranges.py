"""Ranges of final rows: each part owns some, and a range is what is in memory at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["Ranges", "ranges_of"]

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Contiguous ranges of rows, as many for each part, and the final row of each node."""

    bounds: Rows  # (ranges + 1,)
    per_part: int
    place: Path | None  # file of the final row of each row by hash; None where both are the same

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def of(self, rows: Rows) -> Rows:
        """The range of each final row."""
        return np.searchsorted(self.bounds, rows, side="right") - 1

    def final(self, rows: Rows) -> Rows:
        """The final rows of rows by hash."""
        if self.place is None:
            return rows
        found: Rows = np.load(self.place, mmap_mode="r")[rows]
        return found


def ranges_of(starts: Rows, count: int, place: Path | None) -> Ranges:
    """About so many ranges of rows, none of which crosses the start of a part."""
    per_part = max(1, -(-count // (len(starts) - 1)))
    inner = [
        np.linspace(a, b, per_part, endpoint=False).astype(np.int64)
        for a, b in zip(starts[:-1], starts[1:], strict=True)
    ]
    return Ranges(np.append(np.concatenate(inner), starts[-1]), per_part, place)
