"""Stored rows at one moment: those of the build, and the ones that were changed, added or removed since."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import InputError
from yinyan.model.inference import is_finite
from yinyan.retrieval.row_numbers import checked_rows

__all__ = ["Snapshot"]

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Never changed once made: whoever reads one sees all of a change or nothing of it."""

    base: Tensor  # (n, row) as they were at the build
    extra: Tensor  # (m, row) in place of those, and beyond them
    extra_rows: Rows  # (m,) whose they are, sorted
    is_stale: NDArray[np.bool_]  # (rows now,) changed or removed since the build: what was built of them is outdated
    is_removed: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool))

    @classmethod
    def of(cls, embeddings: Tensor, *, check: bool = True) -> Snapshot:
        """The rows of a build; refuses numbers that are none, unless whoever scores them will."""
        if check:
            _refuse_non_finite(embeddings, np.arange(embeddings.shape[0]))
        none = np.zeros(embeddings.shape[0], dtype=bool)
        return cls(embeddings, embeddings[:0], np.empty(0, np.int64), none, none)

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
            places = np.searchsorted(self.extra_rows, rows[changed]).clip(max=self.extra_rows.size - 1)
            there = self.extra_rows[places] == rows[changed]  # a removed row has no newer version
            found[torch.from_numpy(changed[there])] = self.extra[torch.from_numpy(places[there])]
        return found

    def extra_places(self, rows: Rows) -> Rows:
        """Where in `extra` the newer versions of some rows stand, for those that have one."""
        places = np.searchsorted(self.extra_rows, rows).clip(max=max(0, self.extra_rows.size - 1))
        return places[self.extra_rows[places] == rows] if self.extra_rows.size else places[:0]

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
        order = np.argsort(chosen)
        kept = ~np.isin(self.extra_rows, chosen)
        together = np.concatenate([self.extra_rows[kept], chosen[order]])
        values = torch.cat([self.extra[torch.from_numpy(kept)], values[torch.from_numpy(order)]])
        sort = np.argsort(together, kind="stable")
        stale, removed = _longer(self.is_stale, count), _longer(self.is_removed, count)
        stale[chosen], removed[chosen] = True, False
        return Snapshot(self.base, values[torch.from_numpy(sort)].contiguous(), together[sort], stale, removed)

    def without(self, rows: Any) -> Snapshot:
        """With rows removed; their numbers stay taken, and an update brings them back."""
        chosen = checked_rows(rows, self.num_rows, distinct=True)
        kept = ~np.isin(self.extra_rows, chosen)
        stale, removed = self.is_stale.copy(), self.is_removed.copy()
        stale[chosen] = removed[chosen] = True
        extra = self.extra[torch.from_numpy(kept)].contiguous()
        return Snapshot(self.base, extra, self.extra_rows[kept], stale, removed)

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


def _longer(mask: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    made = np.zeros(count, dtype=bool)
    made[: mask.size] = mask
    return made
