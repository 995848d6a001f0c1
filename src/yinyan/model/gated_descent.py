"""T layers of a linear LAYER under the gates of two ends, by the few columns that the gates change.

One layer is Y -> M Y + C2 f with a symmetric M. Gates that are open by p leave M(p) = M - (1 - p) A Bᵀ, where A and B
have four columns each: the gated entries of M stand in the rows and columns of the two ends. So

    Y(t; p) = Y(t) - (1 - p) Σ_{s<t} M^(t-1-s) A Bᵀ Y(s; p)

needs M^j A, which are layers of a few columns, and of the embeddings no more than Bᵀ Y(s), which is (M^j B)ᵀ f summed
up. The derivative in a gate is taken in the same way from the left, by M(p)ᵀ^j of the ends' unit vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from yinyan.model.descent import Gates
from yinyan.model.layer import Layer, layer_pass
from yinyan.model.operators import LowRankOperator
from yinyan.native.graph_kernels import Beside

__all__ = ["GatedDescent"]


class GatedDescent:
    """Y(T) at two different ends for every p, and how it changes with each gate.

    Columns are E, the ends' unit vectors; W, the gated entries of M beside them; and R_k, the gated rows of the k-th
    graph of low rank: two of each. A is [E, W], B is [W + Σ_k R_k, E].
    """

    def __init__(self, layer: Layer, f: Tensor, num_steps: int, ends: Sequence[int], groups: Sequence[Gates]) -> None:
        self._layer, self._f, self._steps, self._groups = layer, f, num_steps, groups
        self._ends = torch.tensor(list(ends), device=f.device)
        self._factors = layer.factors.detach().tolist()
        with torch.no_grad():
            powers = [self._columns()]
            for _ in range(num_steps):
                powers.append(self._product(powers[-1]))
            self._powers = torch.stack(powers)  # (T + 1, n, columns) M^j of all columns
            size = self._powers.shape[2]
            self._a = torch.eye(size, 4, dtype=torch.float64, device=f.device)  # A and B as sums of the columns
            self._b = torch.zeros(size, size, dtype=torch.float64, device=f.device)
            self._b[2:4, :2] = self._b[:2, 2:4] = torch.eye(2)
            for first in range(4, size, 2):  # beside B each R_k by itself
                self._b[first : first + 2, :2] = self._b[first : first + 2, first : first + 2] = torch.eye(2)
            self._gram = powers[0].double().T @ self._powers.double()  # (T + 1, columns, columns)

    @torch.no_grad()
    def pairs(self, points: Sequence[float]) -> list[Tensor]:
        """(2, d) the ends' rows of Y(T; p), for each p."""
        self._seen = self._observed(points)
        return [rows[2:4].to(self._f.dtype) for rows in self._seen[-1]]

    @torch.no_grad()
    def slopes(self, to_pairs: Tensor, points: Sequence[float]) -> list[tuple[Tensor, Tensor]]:
        """For each graph the gates of its entries, and (points, entries) the derivatives of a score in them.

        `to_pairs` (points, 2, d) holds the derivatives in the rows that `pairs` gave for the same points.
        """
        count, steps = len(points), self._steps
        shut = 1 - self._f.new_tensor(points, dtype=torch.float64)
        far = [
            entries.columns[: entries.columns.numel() // 2] for entries in self._groups if entries.columns is not None
        ]
        around = torch.cat([self._ends, *far]).unique()
        powers = self._powers[:, around].double()  # (T + 1, rows, columns)
        to_pairs = to_pairs.double()
        inner = [rows[:count] @ to_pairs.mT for rows in self._seen]  # T + 1 of (points, columns, 2) <Bᵀ Y(s; p), ∂>
        left = self._left(powers, shut)
        right = self._right(powers, around, to_pairs, inner, shut)
        found = []
        for factor, entries in zip(self._factors, self._groups, strict=True):
            half = entries.rows.numel() // 2 if entries.columns is not None else 2  # of a pair's entries, the first
            slope = torch.zeros(count, half, dtype=torch.float64, device=self._f.device)
            near = torch.searchsorted(around, entries.rows[:half])
            for s in range(steps):
                by, at = left[steps - 1 - s], right[s]
                if entries.columns is None:
                    place = self._low_rank_place(entries)
                    slope += (by[:, near] * inner[s][:, place : place + 2]).sum(2)
                else:
                    other = torch.searchsorted(around, entries.columns[:half])
                    slope += (by[:, near] * at[:, other] + by[:, other] * at[:, near]).sum(2)
            if entries.values is not None:
                slope *= factor * entries.values[:half].double()
            found.append((entries.gate[:half], slope.to(self._f.dtype)))
        return found

    def _columns(self) -> Tensor:
        """(n, columns) E, W and the R_k."""
        layer, n = self._layer, self._f.shape[0]
        parts = [self._f.new_zeros(n, 4)]
        parts[0][self._ends, [0, 1]] = 1
        for graph, factor, entries in zip(layer.graphs, self._factors, self._groups, strict=True):
            if isinstance(graph, LowRankOperator):
                rows = factor * (graph.factors @ (graph.core @ graph.factors[self._ends].T))
                rows[self._ends, [0, 1]] += factor * graph.diagonal[self._ends]
                parts.append(rows)
            elif entries.columns is not None and entries.values is not None:
                half = entries.columns.numel() // 2
                which = 2 + (entries.rows[:half] == self._ends[1]).long()
                parts[0].index_put_((entries.columns[:half], which), factor * entries.values[:half], accumulate=True)
        return torch.cat(parts, dim=1).contiguous()

    def _low_rank_place(self, entries: Gates) -> int:
        """The first column of R_k."""
        low_rank = [group for group in self._groups if group.columns is None]
        return 4 + 2 * next(place for place, group in enumerate(low_rank) if group is entries)

    def _product(self, x: Tensor, f: Tensor | None = None) -> Tensor:
        """M x, and with f a layer."""
        layer, out = self._layer, torch.empty_like(x)
        beside = Beside(layer.diagonal, layer.base, f, low_rank=layer.turned(layer.sums(x)))
        layer_pass(x, out, layer.matrices, beside)
        return out

    def _observed(self, points: Sequence[float]) -> list[Tensor]:
        """T + 1 of (points, columns, d): Bᵀ Y(t; p), and each R_kᵀ Y(t; p)."""
        n, size = self._f.shape[0], self._powers.shape[2]
        seen = self._powers.clone()  # M^t + Σ_{j<t} M^j C2, of all columns: what f is multiplied by
        total = torch.zeros_like(seen[0])
        for t in range(self._steps):
            total += self._powers[t]
            seen[t + 1] += self._layer.base * total
        products = (seen.permute(0, 2, 1).reshape(-1, n) @ self._f).view(self._steps + 1, size, -1).double()
        shut = 1 - self._f.new_tensor(points, dtype=torch.float64)[:, None, None]
        moves = [self._b.T @ gram @ self._a for gram in self._gram]
        found: list[Tensor] = []
        for t in range(self._steps + 1):
            rows = (self._b.T @ products[t]).expand(len(points), -1, -1)
            for s in range(t):
                rows = rows - shut * (moves[t - 1 - s] @ found[s][:, :4])
            found.append(rows)
        return found

    def _left(self, powers: Tensor, shut: Tensor) -> list[Tensor]:
        """T of (points, rows, 2): M(p)ᵀ^j of the ends' unit vectors, at the rows around them."""
        b, wait = self._b[:, :4], shut[:, None, None]
        starts = [self._a.T @ gram[:, :2] for gram in self._gram]
        moves = [self._a.T @ gram @ b for gram in self._gram]
        inner: list[Tensor] = []
        found = []
        for j in range(self._steps):
            at, rows = starts[j].expand(shut.numel(), -1, -1), powers[j][:, :2].expand(shut.numel(), -1, -1)
            for s in range(j):
                at = at - wait * (moves[j - 1 - s] @ inner[s])
                rows = rows - wait * (powers[j - 1 - s] @ b @ inner[s])
            inner.append(at)
            found.append(rows)
        return found

    def _right(
        self, powers: Tensor, around: Tensor, to_pairs: Tensor, inner: Sequence[Tensor], shut: Tensor
    ) -> list[Tensor]:
        """T of (points, rows, 2): <Y(s; p), ∂> at the rows around the ends."""
        count, wait = shut.numel(), shut[:, None, None]
        start = self._f @ to_pairs.reshape(2 * count, -1).T.to(self._f.dtype)  # (n, points * 2)
        y = start = start.contiguous()
        found = []
        for s in range(self._steps):
            rows = y[around].double().view(-1, count, 2).transpose(0, 1)
            for earlier in range(s):
                rows = rows - wait * (powers[s - 1 - earlier] @ self._a @ inner[earlier][:, :4])
            found.append(rows)
            if s + 1 < self._steps:
                y = self._product(y, start)
        return found
