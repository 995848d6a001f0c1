"""Sets of rows for each row, that never change: a change makes another one that shares what it can."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RowSets"]

Rows = NDArray[np.int64]

_MANY = 2_000  # rows changed at once, from which on all are compressed anew
_MERGE = 20_000  # changed rows that are kept apart from the compressed ones: a change copies their directory


class RowSets:
    """For each row a sorted array of rows; compressed at first, with changed ones in a directory beside them."""

    def __init__(self, indptr: Rows, indices: Rows, num_rows: int, changed: dict[int, Rows] | None = None) -> None:
        self._indptr, self._indices = indptr, indices
        self._changed = changed or {}
        self.num_rows = num_rows

    @classmethod
    def empty(cls, num_rows: int) -> RowSets:
        """No row has any."""
        return cls(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), num_rows)

    @classmethod
    def from_pairs(cls, pairs: Rows, num_rows: int) -> RowSets:
        """From distinct (m, 2) pairs: the second belongs to the set of the first."""
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        counts = np.bincount(pairs[:, 0], minlength=num_rows)
        return cls(np.concatenate([[0], np.cumsum(counts)]), pairs[order, 1], num_rows)

    def of(self, row: int) -> Rows:
        """The sorted set of a row."""
        found = self._changed.get(row)
        if found is not None:
            return found
        if row + 1 >= self._indptr.size:
            return np.empty(0, dtype=np.int64)
        return self._indices[self._indptr[row] : self._indptr[row + 1]]

    def has(self, row: int, member: int) -> bool:
        """Whether a row's set holds another row."""
        if row >= self.num_rows or member >= self.num_rows:
            return False
        found = self.of(row)
        place = int(np.searchsorted(found, member))
        return place < found.size and int(found[place]) == member

    def sizes(self) -> Rows:
        """(n,) how large each set is."""
        sizes = np.zeros(self.num_rows, dtype=np.int64)
        base = min(self._indptr.size - 1, self.num_rows)
        sizes[:base] = np.diff(self._indptr)[:base]
        for row, found in self._changed.items():
            sizes[row] = found.size
        return sizes

    def pairs(self) -> Rows:
        """(m, 2) all members: the row, and what its set holds; sorted."""
        owners = np.repeat(np.arange(self._indptr.size - 1), np.diff(self._indptr))
        kept = ~np.isin(owners, list(self._changed))
        parts = [np.stack([owners[kept], self._indices[kept]], axis=1)]
        parts += [np.stack([np.full(found.size, row), found], axis=1) for row, found in self._changed.items()]
        pairs = np.concatenate(parts)
        return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]

    def edited(self, added: Iterable[Any], removed: Iterable[Any], num_rows: int | None = None) -> RowSets:
        """Another one with (row, member) pairs added and removed, and perhaps more rows."""
        count = self.num_rows if num_rows is None else num_rows
        more, less = _grouped(added), _grouped(removed)
        if not more and not less:
            return RowSets(self._indptr, self._indices, count, self._changed)
        if len(more) + len(less) > _MANY:
            return self._merged(more, less, count)
        changed = dict(self._changed)
        for row in more.keys() | less.keys():
            kept = np.setdiff1d(self.of(row), less[row], assume_unique=True) if row in less else self.of(row)
            changed[row] = np.union1d(kept, more[row]) if row in more else kept
        made = RowSets(self._indptr, self._indices, count, changed)
        return made if len(changed) <= _MERGE else RowSets.from_pairs(made.pairs(), count)

    def _merged(self, more: dict[int, list[int]], less: dict[int, list[int]], count: int) -> RowSets:
        """All pairs anew, where most of the work of many single changes would be that of each row."""
        before = self.pairs()
        keys = before[:, 0] * count + before[:, 1]
        gained, lost = (
            np.array([row * count + member for row, members in group.items() for member in members], dtype=np.int64)
            for group in (more, less)
        )
        kept = np.union1d(keys[~np.isin(keys, lost)], gained)
        return RowSets.from_pairs(np.stack([kept // count, kept % count], axis=1), count)


def _grouped(pairs: Iterable[Any]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for row, member in pairs:
        groups[int(row)].append(int(member))
    return dict(groups)
