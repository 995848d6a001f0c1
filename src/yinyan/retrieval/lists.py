"""Lists of quantised rows by cells: those of largest inner product with a query, where the centres promise most."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.native import retrieval_kernels
from yinyan.native.retrieval_kernels import GROUP
from yinyan.retrieval.cells import centres_of, nearest_centres

__all__ = ["Lists"]

_DIGIT = 127  # of a query's two digits, each a signed byte
_COLUMNS = 512  # up to which sums of two full digits stay below 2³¹
_BLOCK = 65_536  # rows looked at at a time
_REACH = 0.1  # of a cell's spread times the query's length, by which its best rows are beyond its centre
_TAIL = 1e-4  # share of a column's values at either end that a byte does not reach: a hub must not blur the others

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lists:
    """Rows as bytes, cell by cell, in groups of sixteen whose columns stand four by four (a processor's habit)."""

    weights: NDArray[np.float32]  # (columns,) by which points are multiplied and queries divided
    centres: NDArray[np.float32]  # (cells, columns)
    spreads: NDArray[np.float32]  # (cells,) root of the mean squared distance of a cell's rows from its centre
    lows: NDArray[np.float32]  # (columns,) what the byte 0 stands for
    steps: NDArray[np.float32]  # (columns,) what a byte more stands for
    codes: NDArray[np.uint8]  # (groups, columns / 4, GROUP, 4), columns filled up with zeros
    rows: NDArray[np.int32]  # (groups, GROUP), -1 where a group is not full
    starts: Rows  # (cells + 1,) in groups

    @classmethod
    def build(cls, points: Tensor, num_cells: int, seed: int, queries: Tensor | None = None) -> Lists:
        """Lists of all (n, d) points.

        Cells are of points that matter alike to queries such as the given ones: a column counts as much as they say.
        """
        weights = torch.ones(points.shape[1]) if queries is None else _weights_of(queries)
        if queries is not None:
            points = points * weights
        centres = centres_of(points, num_cells, seed)
        cell = nearest_centres(points, centres)
        spreads = _spreads(points, centres, cell)
        lows, steps = _range_of(points)
        order = np.argsort(cell, kind="stable")
        sizes = np.bincount(cell, minlength=num_cells)
        groups = -(-sizes // GROUP)
        starts = np.concatenate([[0], np.cumsum(groups)])
        places = np.repeat(starts[:-1] * GROUP - (np.cumsum(sizes) - sizes), sizes) + np.arange(order.size)
        rows = np.full(int(starts[-1]) * GROUP, -1, dtype=np.int32)
        rows[places] = order
        codes = _codes(points, rows, lows, steps)
        return cls(
            weights.numpy(), centres.cpu().numpy(), spreads, lows.numpy(), steps.numpy(), codes,
            rows.reshape(-1, GROUP), starts,
        )  # fmt: skip

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, f.name).nbytes for f in fields(self))

    @functools.cached_property
    def cell_of(self) -> NDArray[np.int32]:
        """(n,) the cell of each row."""
        cells = np.repeat(np.arange(len(self.centres), dtype=np.int32), np.diff(self.starts) * GROUP)
        listed = self.rows.ravel()
        found = np.empty(int((listed >= 0).sum()), dtype=np.int32)
        found[listed[listed >= 0]] = cells[listed >= 0]
        return found

    def search(
        self,
        queries: Tensor,
        probes: int,
        count: int,
        is_stale: NDArray[np.bool_] | None,
        left_out: Sequence[Rows],
        met: Rows | None = None,
        near: Rows | None = None,
    ) -> Rows:
        """(queries, count) rows of the largest products within the best cells, in no order; -1 where there are fewer.

        Those are the `probes` cells whose centres, and what lies around them (`_REACH`), have the largest products.
        Rows marked in `is_stale` are passed over, those that are left out for each query, and those of (queries, ·)
        `met`, which were found before. The cells of (queries, ·) rows `near` are looked into as well; -1 is
        no row.
        """
        given = np.divide(queries.numpy(), self.weights, dtype=np.float32)
        cells = self._best_cells(given, min(probes, len(self.centres)))
        digits = _digits(given * self.steps, self.codes.shape[1] * 4)
        if near is not None:
            cells = self._with_cells_of(near, cells)
        return _scanned(self.codes, self.rows, self.starts, is_stale, digits, cells, count, left_out, met)

    def _with_cells_of(self, near: Rows, cells: NDArray[np.int32]) -> NDArray[np.int32]:
        """(queries, ·) cells and those of some rows, each once; -1 is none."""
        if cells.shape[1] == len(self.centres):
            return cells
        known = np.minimum(near, self.cell_of.size - 1)  # rows added since have a place somewhere
        theirs = np.where(near < 0, -1, self.cell_of[known])
        joined = np.sort(np.concatenate([cells, theirs], axis=1), axis=1).astype(np.int32)
        joined[:, 1:][joined[:, 1:] == joined[:, :-1]] = -1
        return joined

    def _best_cells(self, queries: NDArray[np.float32], count: int) -> NDArray[np.int32]:
        """(queries, count) cells: the centres are a list of their own, with a column for how far they reach."""
        if count == len(self.centres):
            return np.tile(np.arange(count, dtype=np.int32), (len(queries), 1))
        codes, rows, steps = self._coarse
        reach = _REACH * np.linalg.norm(queries, axis=1, keepdims=True)
        digits = _digits(np.concatenate([queries, reach], axis=1) * steps, codes.shape[1] * 4)
        only = np.zeros((len(digits), 1), dtype=np.int32)
        nobody = [np.empty(0, np.int64)] * len(digits)
        ends = np.array([0, len(rows)])
        return _scanned(codes, rows, ends, None, digits, only, count, nobody).astype(np.int32)

    @functools.cached_property
    def _coarse(self) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.float32]]:
        """The centres and spreads in groups, as rows are, and what a byte stands for in each column."""
        groups = -(-len(self.centres) // GROUP)
        rows = np.full(groups * GROUP, -1, dtype=np.int32)
        rows[: len(self.centres)] = np.arange(len(self.centres))
        centres = torch.from_numpy(np.concatenate([self.centres, self.spreads[:, None]], axis=1))
        lows = np.append(self.lows, np.float32(0))
        steps = np.append(self.steps, np.maximum(self.spreads.max(initial=0), np.float32(1e-30)) / np.float32(255))
        codes = _codes(centres, rows, torch.from_numpy(lows), torch.from_numpy(steps))
        return codes, rows.reshape(-1, GROUP), steps


def _digits(scaled: NDArray[np.float32], width: int) -> NDArray[np.int8]:
    """(queries, 2, width) of queries for bytes, in units of their own: a coarse digit and a fine one, 1/128 of it."""
    most = _DIGIT * min(1.0, _COLUMNS / width)
    unit = most / np.maximum(np.abs(scaled).max(axis=1, keepdims=True), 1e-30)
    whole = np.rint(scaled * (unit * 128))
    coarse = np.rint(whole / 128)
    digits = np.zeros((len(scaled), 2, width), dtype=np.int8)
    digits[:, 0, : scaled.shape[1]] = coarse
    digits[:, 1, : scaled.shape[1]] = np.clip(whole - coarse * 128, -_DIGIT, _DIGIT)
    return digits


def _scanned(
    codes: NDArray[np.uint8],
    rows: NDArray[np.int32],
    starts: Rows,
    is_stale: NDArray[np.bool_] | None,
    digits: NDArray[np.int8],
    cells: NDArray[np.int32],
    count: int,
    left_out: Sequence[Rows],
    met: Rows | None = None,
) -> Rows:
    """(queries, count) rows of the largest products within the cells."""
    met = np.empty((len(digits), 0), np.int64) if met is None else np.ascontiguousarray(met)
    if retrieval_kernels.library() is not None:
        ends = np.concatenate([[0], np.cumsum([out.size for out in left_out], dtype=np.int64)])
        joined = np.concatenate([*left_out, np.empty(0, np.int64)])
        return retrieval_kernels.scan_lists(codes, rows, starts, is_stale, digits, cells, count, joined, ends, met)
    found = np.full((len(digits), count), -1, dtype=np.int64)
    whole = digits[:, 0].astype(np.float64) * 128 + digits[:, 1]
    for place, probed in enumerate(cells):
        groups = np.concatenate([np.arange(starts[c], starts[c + 1]) for c in probed[probed >= 0]])
        listed = rows[groups].ravel()
        sums = codes[groups].transpose(0, 2, 1, 3).reshape(listed.size, -1) @ whole[place]  # exact: far below 2⁵³
        allowed = (listed >= 0) & ~np.isin(listed, left_out[place]) & ~np.isin(listed, met[place])
        if is_stale is not None:
            allowed &= ~is_stale[np.maximum(listed, 0)]
        listed, sums = listed[allowed], sums[allowed]
        kept = np.lexsort((listed, -sums))[:count]
        found[place, : kept.size] = listed[kept]
    return found


def _weights_of(queries: Tensor) -> Tensor:
    """(columns,) the root mean square of what queries multiply each column with; never nothing."""
    sizes = queries.float().square().mean(0).sqrt()
    return sizes.clamp_(min=1e-3 * float(sizes.max().clamp(min=1e-30)))


def _spreads(points: Tensor, centres: Tensor, cell: NDArray[np.int64]) -> NDArray[np.float32]:
    """(cells,) how far a cell's points lie from its centre, in the root mean square."""
    total = np.zeros(len(centres))
    for first in range(0, len(cell), _BLOCK):
        there = torch.from_numpy(cell[first : first + _BLOCK])
        apart = points[first : first + _BLOCK].float() - centres[there.to(centres.device)]
        total += np.bincount(there.numpy(), apart.square().sum(1).cpu().numpy(), len(centres))
    return np.sqrt(total / np.maximum(1, np.bincount(cell, minlength=len(centres)))).astype(np.float32)


def _range_of(points: Tensor) -> tuple[Tensor, Tensor]:
    """What the bytes 0 and 1 stand for in each column, by a sample."""
    sample = points[:: max(1, points.shape[0] // 100_000)].float().cpu()
    beyond = int(_TAIL * sample.shape[0])
    ordered = sample.sort(dim=0).values
    low, high = ordered[beyond], ordered[sample.shape[0] - 1 - beyond]
    return low, ((high - low) / 255).clamp_(min=1e-30)


def _codes(points: Tensor, rows: NDArray[np.int32], lows: Tensor, steps: Tensor) -> NDArray[np.uint8]:
    columns = points.shape[1]
    width = -(-columns // 4) * 4
    made = np.zeros((rows.size // GROUP, width // 4, GROUP, 4), dtype=np.uint8)
    block = 1024
    for first in range(0, len(made), block):
        part = rows[first * GROUP : (first + block) * GROUP]
        taken = points[torch.from_numpy(np.maximum(part, 0).astype(np.int64)).to(points.device)].float().cpu()
        code = torch.zeros(part.size, width, dtype=torch.uint8)
        code[:, :columns] = ((taken - lows) / steps).round_().clamp_(0, 255)
        made[first : first + block] = code.view(-1, GROUP, width // 4, 4).transpose(1, 2).numpy()
    return made
