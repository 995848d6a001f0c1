"""Stored rows at one moment: those of the build, and the ones that were changed, added or removed since."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import InputError
from yinyan.model.inference import is_finite
from yinyan.retrieval.growing import GrowingRows
from yinyan.retrieval.row_numbers import checked_rows

__all__ = ["Snapshot"]

Rows = NDArray[np.int64]
_Kind = TypeVar("_Kind", np.bool_, np.int64)

_REPLACED = 64  # replaced versions that are kept in any case


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Never changed once made: whoever reads one sees all of a change or nothing of it."""

    base: Tensor  # (n, row) as they were at the build
    newer: GrowingRows  # (m, row) versions in place of those, and of rows beyond them, in the order in which they came
    extra_rows: Rows  # (m,) whose they are; -1 where a later version replaces one
    slots: Rows  # (rows now,) where the newer version of each row stands; -1 where there is none
    is_stale: NDArray[np.bool_]  # (rows now,) changed or removed since the build: what was built of them is outdated
    is_removed: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool))

    @classmethod
    def of(cls, embeddings: Tensor, *, check: bool = True) -> Snapshot:
        """The rows of a build; refuses numbers that are none, unless whoever scores them will."""
        if check:
            _refuse_non_finite(embeddings, np.arange(embeddings.shape[0]))
        none = np.zeros(embeddings.shape[0], dtype=bool)
        nowhere = np.full(embeddings.shape[0], -1, dtype=np.int64)
        return cls(embeddings, GrowingRows(embeddings[:0], 0), np.empty(0, np.int64), nowhere, none, none)

    @classmethod
    def beside(cls, embeddings: Tensor, num_built: int, is_stale: NDArray[np.bool_]) -> Snapshot:
        """All rows anew: of the `num_built` rows of a build, those that are not marked still stand for what was built.

        The others, and the rows beyond, are kept apart as changed ones.
        """
        stale = is_stale.copy()
        stale[num_built:] = True
        apart = np.flatnonzero(stale)
        kept = cls.of(embeddings[:num_built], check=False)
        _refuse_non_finite(embeddings, np.arange(embeddings.shape[0]))
        return kept.updated(apart, embeddings[torch.from_numpy(apart)]) if apart.size else kept

    @property
    def extra(self) -> Tensor:
        """(m, row) newer versions; those that `extra_rows` marks with -1 are replaced."""
        return self.newer.rows

    @property
    def num_rows(self) -> int:
        """How many rows there are, removed ones counted."""
        return self.is_stale.size

    @functools.cached_property
    def num_removed(self) -> int:
        """How many rows are removed."""
        return int(self.is_removed.sum())

    @functools.cached_property
    def churn(self) -> float:
        """Rows changed, added or removed since the build, as a share of those that were built."""
        return int(self.is_stale.sum()) / max(1, self.base.shape[0])

    def gather(self, rows: Rows) -> Tensor:
        """(len(rows), row) as they are now."""
        n = self.base.shape[0]
        if not self.extra_rows.size:
            if self.base.device.type == "cpu":  # a few rows are no work for several threads
                return torch.from_numpy(self.base.numpy()[rows])
            return self.base[torch.from_numpy(rows).to(self.base.device)]
        found = self.base[torch.from_numpy(np.minimum(rows, n - 1)).to(self.base.device)]
        changed = np.flatnonzero(self.is_stale[rows])
        if changed.size:
            places = self.slots[rows[changed]]
            there = places >= 0  # a removed row has no newer version
            found[torch.from_numpy(changed[there])] = self.extra[torch.from_numpy(places[there])]
        return found

    def extra_places(self, rows: Rows) -> Rows:
        """Where in `extra` the newer versions of some rows stand, for those that have one."""
        places = self.slots[rows[rows < self.num_rows]]
        return places[places >= 0]

    def updated(self, rows: Any, embeddings: Any) -> Snapshot:
        """With other rows in place of these, or new ones: all that are beyond the last must be given."""
        chosen = checked_rows(rows, None, distinct=True)
        values = torch.as_tensor(embeddings).detach().to(self.base)
        if values.shape != (chosen.size, self.base.shape[1]):
            wanted = (chosen.size, self.base.shape[1])
            raise InputError(f"'embeddings' needs the shape {wanted} (got {tuple(values.shape)})")
        _refuse_non_finite(values, chosen)
        count = max(self.num_rows, int(chosen.max(initial=-1)) + 1)
        missing = np.setdiff1d(np.arange(self.num_rows, count), chosen)
        if missing.size:
            raise InputError(f"new rows follow the old without a gap: row {missing[0]:,} is missing")
        stale, removed = _longer(self.is_stale, count), _longer(self.is_removed, count)
        stale[chosen], removed[chosen] = True, False
        newer, owners, slots = self._with_room(chosen, count)
        slots[chosen] = newer.count + np.arange(chosen.size)
        return Snapshot(self.base, newer.extended(values), np.append(owners, chosen), slots, stale, removed)

    def without(self, rows: Any) -> Snapshot:
        """With rows removed; their numbers stay taken, and an update brings them back."""
        chosen = checked_rows(rows, self.num_rows, distinct=True)
        stale, removed = self.is_stale.copy(), self.is_removed.copy()
        stale[chosen] = removed[chosen] = True
        newer, owners, slots = self._with_room(chosen, self.num_rows)
        return Snapshot(self.base, newer, owners, slots, stale, removed)

    def _with_room(self, chosen: Rows, count: int) -> tuple[GrowingRows, Rows, Rows]:
        """Newer versions of all rows but the chosen, their owners, and the slots of `count` rows."""
        slots = _longer(self.slots, count, -1)
        owners = self.extra_rows.copy()
        owners[slots[chosen][slots[chosen] >= 0]] = -1
        slots[chosen] = -1
        kept = np.flatnonzero(owners >= 0)
        if owners.size <= 2 * kept.size + _REPLACED:
            return self.newer, owners, slots
        owners = owners[kept]  # most are replaced: the others move together
        slots[owners] = np.arange(kept.size)
        values = self.extra[torch.from_numpy(kept)]
        return GrowingRows(values, kept.size), owners, slots

    def merged(self) -> Tensor:
        """(rows now, row): everything as it is now, removed rows as zeros."""
        y = self.gather(np.arange(self.num_rows))
        y[torch.from_numpy(self.is_removed)] = 0
        return y


def _refuse_non_finite(y: Tensor, rows: Rows) -> None:
    if is_finite(y):
        return
    bad = rows[~y.isfinite().all(1).cpu().numpy()]
    raise InputError(
        f"embeddings need to be finite numbers: {bad.size:,} rows hold NaN or infinity, the first is row {bad[0]:,}"
    )


def _longer(mask: NDArray[_Kind], count: int, fill: int = 0) -> NDArray[_Kind]:
    made = np.full(count, fill, dtype=mask.dtype)
    made[: mask.size] = mask
    return made
