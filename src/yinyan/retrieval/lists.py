"""Lists of quantised rows by cells: those of largest inner product with a query, where the centres promise most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.retrieval import kernels
from yinyan.retrieval.cells import centres_of, nearest_centres
from yinyan.retrieval.kernels import GROUP

__all__ = ["Lists"]

_DIGIT = 127  # of a query's two digits, each a signed byte
_COLUMNS = 512  # up to which sums of two full digits stay below 2³¹
_TAIL = 1e-4  # share of a column's values at either end that a byte does not reach: a hub must not blur the others

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lists:
    """Rows as bytes, cell by cell, in groups of sixteen whose columns stand four by four (a processor's habit)."""

    centres: NDArray[np.float32]  # (cells, columns)
    lows: NDArray[np.float32]  # (columns,) what the byte 0 stands for
    steps: NDArray[np.float32]  # (columns,) what a byte more stands for
    codes: NDArray[np.uint8]  # (groups, columns / 4, GROUP, 4), columns filled up with zeros
    rows: NDArray[np.int32]  # (groups, GROUP), -1 where a group is not full
    starts: Rows  # (cells + 1,) in groups

    @classmethod
    def build(cls, points: Tensor, num_cells: int, seed: int) -> Lists:
        """Lists of all (n, d) points."""
        centres = centres_of(points, num_cells, seed)
        cell = nearest_centres(points, centres)
        lows, steps = _range_of(points)
        order = np.argsort(cell, kind="stable")
        sizes = np.bincount(cell, minlength=num_cells)
        groups = -(-sizes // GROUP)
        starts = np.concatenate([[0], np.cumsum(groups)])
        places = np.repeat(starts[:-1] * GROUP - (np.cumsum(sizes) - sizes), sizes) + np.arange(order.size)
        rows = np.full(int(starts[-1]) * GROUP, -1, dtype=np.int32)
        rows[places] = order
        codes = _codes(points, rows, lows, steps)
        return cls(centres.cpu().numpy(), lows.numpy(), steps.numpy(), codes, rows.reshape(-1, GROUP), starts)

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (self.centres, self.lows, self.steps, self.codes, self.rows, self.starts))

    def probes(self, queries: Tensor, count: int) -> NDArray[np.int32]:
        """(queries, count) the cells whose centres have the largest inner products with each query."""
        products = queries @ torch.from_numpy(self.centres).t()
        return products.topk(min(count, len(self.centres)), dim=1, sorted=False).indices.to(torch.int32).numpy()

    def search(
        self,
        queries: Tensor,
        cells: NDArray[np.int32],
        count: int,
        is_stale: NDArray[np.bool_] | None,
        left_out: Sequence[Rows],
    ) -> Rows:
        """(queries, count) rows of the largest products within the cells, in no order; -1 where there are fewer.

        Rows marked in `is_stale` are passed over, and those sorted ones that are left out for each query.
        """
        digits = self._digits(queries)
        cells = np.ascontiguousarray(cells)
        if kernels.library() is not None:
            ends = np.concatenate([[0], np.cumsum([rows.size for rows in left_out], dtype=np.int64)])
            joined = np.concatenate([*left_out, np.empty(0, np.int64)])
            given = (self.codes, self.rows, self.starts, is_stale, digits, cells, count, joined, ends)
            return kernels.scan_lists(*given)
        return self._scan(digits, cells, count, is_stale, left_out)

    def _digits(self, queries: Tensor) -> NDArray[np.int8]:
        """(queries, 2, columns): a query in units of its own, as a coarse digit and a fine one, 1/128 of it."""
        width = self.codes.shape[1] * 4
        scaled = queries * torch.from_numpy(self.steps)
        most = _DIGIT * min(1.0, _COLUMNS / width)
        unit = most / scaled.abs().amax(1, keepdim=True).clamp_(min=1e-30)
        whole = (scaled * unit * 128).round_()
        coarse = (whole / 128).round_()
        digits = torch.zeros(len(queries), 2, width, dtype=torch.int8)
        digits[:, 0, : scaled.shape[1]] = coarse
        digits[:, 1, : scaled.shape[1]] = whole.sub_(coarse * 128).clamp_(-_DIGIT, _DIGIT)
        return digits.numpy()

    def _scan(
        self,
        digits: NDArray[np.int8],
        cells: NDArray[np.int32],
        count: int,
        is_stale: NDArray[np.bool_] | None,
        left_out: Sequence[Rows],
    ) -> Rows:
        """The kernel's work without it."""
        found = np.full((len(digits), count), -1, dtype=np.int64)
        whole = digits[:, 0].astype(np.int64) * 128 + digits[:, 1]
        for place, probed in enumerate(cells):
            groups = np.concatenate([np.arange(self.starts[c], self.starts[c + 1]) for c in probed])
            rows = self.rows[groups].ravel()
            codes = self.codes[groups].transpose(0, 2, 1, 3).reshape(rows.size, -1)
            sums = codes.astype(np.float64) @ whole[place].astype(np.float64)  # exact: far below 2⁵³
            allowed = (rows >= 0) & ~np.isin(rows, left_out[place])
            if is_stale is not None:
                allowed &= ~is_stale[np.maximum(rows, 0)]
            rows, sums = rows[allowed], sums[allowed]
            kept = np.lexsort((rows, -sums))[:count]
            found[place, : kept.size] = rows[kept]
        return found


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
