"""LAYER: Y(t+1) = C1 Y + C2 f + c3 Ã Y - c4 Ã⁻ Y, at all rows, block by block, and at some rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.model.energy import EnergyTerms
from yinyan.model.operators import LowRankOperator, Operator, SymmetricOperator, csr_product, row_dots
from yinyan.model.relation_laplacian import RelationLaplacian
from yinyan.native.allocation import give_back_beside
from yinyan.native.graph_kernels import Beside, Csr, Gathering, project, suits
from yinyan.native.graph_kernels import layer as compiled_layer

__all__ = ["Layer", "diagonals", "layer_pass", "rows_of_layer"]

_Numbers = TypeVar("_Numbers", Tensor, NDArray[np.float64])


class Layer:
    """The coefficients and matrices of Y -> C1 Y + C2 f + Σ_k c_k S_k Y: LAYER without a margin."""

    def __init__(
        self,
        own: Tensor,
        base: Tensor,
        factors: Tensor,
        graphs: tuple[Operator, ...],
        merged: tuple[SymmetricOperator, float, int] | None = None,
    ) -> None:
        """`merged` is one matrix, its factor, and how many of the first graphs it is the weighted sum of."""
        self.own = own  # (n, 1): C1, perhaps learned
        self.base = base.contiguous()  # (n, 1): C2, a constant
        self.factors = factors  # (K,): c_k, perhaps learned, the edges' positive, the negatives' negative
        self.graphs = graphs  # S_k
        self.halo = next((g.halo for g in graphs if isinstance(g, SymmetricOperator)), None)
        each = list(zip(graphs, factors.tolist(), strict=True))
        outer = ((g.outer, c) for g, c in each if isinstance(g, SymmetricOperator))
        self.outer = [Csr(g.indptr, g.columns, g.values, c) for g, c in outer if g is not None]  # of others' rows
        self.matrices = [Csr(g.indptr, g.columns, g.values, c) for g, c in each if isinstance(g, SymmetricOperator)]
        self.fewest = self.matrices  # for passes that need no inner product with each graph's own part
        if merged is not None:
            matrix, factor, count = merged
            one = Csr(matrix.indptr, matrix.columns, matrix.values, factor)
            self.fewest = [one, *self.matrices[count:]]
        low_rank = [(g, c) for g, c in each if isinstance(g, LowRankOperator)]
        self.diagonal = own.detach()  # C1 with the diagonals of the low-rank graphs
        for graph, factor in low_rank:
            self.diagonal = self.diagonal + factor * graph.diagonal[:, None]
        self.diagonal = self.diagonal.contiguous()
        self.left = self.scaled_left = self.core = None  # U of the low-rank graphs, also with their c_k, and C
        if low_rank:
            self.left = _beside([graph.factors for graph, _ in low_rank])
            self.scaled_left = _beside([factor * graph.factors for graph, factor in low_rank])
            self.core = torch.block_diag(*(graph.core for graph, _ in low_rank))

    @classmethod
    def of(cls, terms: EnergyTerms, step_size: float) -> Layer:
        """LAYER of an energy, as if it had no margin."""
        pushes = step_size * terms.repulsion / max(1, len(terms.negatives))
        pushes = pushes if terms.negatives else pushes.detach()  # nothing to learn, nothing to keep for it
        own, base = diagonals(terms.links.diagonal, terms.anchor, terms.anchoring, terms.attraction, step_size)
        for push, graph in zip(pushes, terms.negatives, strict=True):
            own = own + push * graph.diagonal
        repelling = tuple(graph.adjacency for graph in terms.negatives)
        if isinstance(terms.links, RelationLaplacian):
            return cls._of_relations(own, base, terms.links, step_size * terms.attraction, pushes, repelling)
        factors = torch.cat([pushes.new_tensor([step_size * terms.attraction]), -pushes])
        return cls(own, base, factors, (terms.links.adjacency, *repelling))

    @classmethod
    def _of_relations(
        cls,
        own: Tensor,
        base: Tensor,
        links: RelationLaplacian,
        strength: float,
        pushes: Tensor,
        repelling: tuple[Operator, ...],
    ) -> Layer:
        """One matrix forward; the gradients of the λ_r take the matrices one by one."""
        merged = links.adjacency
        if links.maps is not None or links.weights is None or not isinstance(merged, SymmetricOperator):
            raise ValueError("relations with maps of their own have no such layer: descend by the gradient")
        if not links.weights.requires_grad or not torch.is_grad_enabled():
            factors = torch.cat([pushes.new_tensor([strength]), -pushes])
            return cls(own.detach() if not pushes.requires_grad else own, base, factors, (merged, *repelling))
        factors = torch.cat([strength * links.weights.to(pushes), -pushes])
        return cls(own, base, factors, (*links.parts, *repelling), (merged, strength, len(links.parts)))

    def sums(self, x: Tensor) -> Tensor | None:
        """(r, d) Uᵀ x of the low-rank graphs, if there are any: every row of a layer needs them."""
        if self.left is None:
            return None
        by_kernel = suits(x) and self.left.dtype == torch.float32
        return self._summed(project(x, self.left) if by_kernel else self.left.T @ x.to(self.left.dtype))

    def _summed(self, sums: Tensor | None) -> Tensor | None:
        """Sums over the rows of all processes, given those of this one."""
        return sums if sums is None or self.halo is None else self.halo.summed(sums)

    def _pass(self, x: Tensor, out: Tensor, beside: Beside, matrices: list[Csr]) -> tuple[Tensor, Tensor | None]:
        """`layer_pass`; with a halo, the own columns while the rows of other processes are on their way."""
        if self.halo is None:
            return layer_pass(x, out, matrices, beside)
        arrived = self.halo.started(x)
        if not any(matrix.columns.numel() for matrix in self.outer):
            dots, ahead = layer_pass(x, out, matrices, beside)
            arrived()  # the others may wait for it
            return dots, self._summed(ahead)
        dots, _ = layer_pass(x, out, matrices, beside._replace(next_left=None))
        ones, left, first = torch.ones_like(self.base), beside.next_left, beside.first_row
        rest = Beside(base=ones, f=out, other=beside.other, next_left=left, first_row=first)
        more, ahead = layer_pass(arrived(), out, self.outer, rest)
        return dots + more, self._summed(ahead)

    def buffer(self, like: Tensor) -> Tensor:
        """An empty tensor for rows of a layer."""
        give_back_beside(like.nbytes)
        return torch.empty_like(like) if self.halo is None else self.halo.buffer(like)

    def turned(self, sums: Tensor | None) -> tuple[Tensor, Tensor] | None:
        """The low-rank graphs' share of a layer as one U V: U with the c_k, V = C (Uᵀ x)."""
        if sums is None or self.core is None or self.scaled_left is None:
            return None
        return self.scaled_left, self.core @ sums

    def forward(
        self, y: Tensor, f: Tensor, out: Tensor, sums: Tensor | None, *, ahead: bool = False, first_row: int = 0
    ) -> Tensor | None:
        """Write Y(t+1) into `out`, or the block of its rows from `first_row` on, for which `f` holds the same rows.

        Returns the sums of `out` if the next layer needs them (`ahead`).
        """
        next_left, low_rank = self.left if ahead else None, self.turned(sums)
        beside = Beside(self.diagonal, self.base, f, low_rank=low_rank, next_left=next_left, first_row=first_row)
        return self._pass(y, out, beside, self.fewest)[1]

    def backward(
        self,
        g: Tensor,
        out: Tensor,
        to_f: Tensor,
        sums: Tensor | None,
        gathering: Gathering,
        y: Tensor | None = None,
        y_sums: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The same of a gradient, which `to_f` gathers C2 g of; the last pass may join all of that into `out`.

        Returns the sums of `out` and, with `y`, the gradients of the c_k, (K,) <y, S_k g>, and of C1, (n,) <y_i, g_i>.
        """
        along = None if y is None else torch.empty(g.shape[0], dtype=to_f.dtype, device=g.device)
        beside = Beside(
            self.diagonal, self.base, None, to_f, gathering, other=y, low_rank=self.turned(sums), row_dots=along,
            next_left=None if gathering == "join" else self.left,
        )  # fmt: skip
        dots, ahead = self._pass(g, out, beside, self.fewest if y is None else self.matrices)
        if along is None:
            return ahead, None, None
        sparse, place, found = iter(dots.unbind()), 0, []
        for graph in self.graphs:
            if isinstance(graph, LowRankOperator) and sums is not None and y_sums is not None:
                part = slice(place, place + graph.core.shape[0])
                place = part.stop
                inner = (y_sums[part] * (graph.core @ sums[part])).sum()
                inner = (graph.diagonal * along).sum() + (inner if self.halo is None else self.halo.share(inner))
                found.append(inner.to(dots.dtype))
            else:
                found.append(next(sparse))
        return ahead, torch.stack(found), along

    def pulled_back(self, g: Tensor, num_steps: int, spare: Tensor | None = None) -> Tensor:
        """The gradient of f = Y(0), given that of Y(T), for constant coefficients; the memory of both g and `spare`
        is reused."""
        if not num_steps:
            return g
        give_back_beside(g.nbytes)
        to_f, out = torch.empty_like(g, dtype=self.base.dtype), self.buffer(g) if spare is None else spare
        sums = self.sums(g)
        for t in reversed(range(num_steps)):
            gathering: Gathering = "join" if t == 0 else "store" if t == num_steps - 1 else "add"
            if num_steps == 1:
                to_f.zero_()
            sums = self.backward(g, out, to_f, sums, gathering)[0]
            g, out = out, g
        return g


def diagonals(
    diagonal: _Numbers, anchor: _Numbers, anchoring: float, attraction: float, step_size: float
) -> tuple[_Numbers, _Numbers]:
    """C1 but for the negatives' share, and C2, given the diagonal of L̃ and (D + D⁻)^-1."""
    base = step_size * anchoring * anchor
    return 1 - base - step_size * attraction * diagonal, base


def rows_of_layer(
    y: Tensor,
    f: Tensor,
    rows: Tensor,
    matrices: Sequence[Csr],
    own: Tensor,
    base: Tensor,
    low_rank: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Some rows of Y(t+1), given all of Y(t) and these rows of f, of the matrices, of C1, C2 and of U."""
    ends = torch.arange(rows.numel() + 1, dtype=torch.int32)
    itself = Csr(ends, rows.int(), own[:, 0])  # C1 as a matrix, since its rows are not where those of `out` are
    out = torch.empty_like(f)
    layer_pass(y, out, [itself, *matrices], Beside(base=base, f=f, low_rank=low_rank))
    return out


def layer_pass(x: Tensor, out: Tensor, matrices: Sequence[Csr], beside: Beside) -> tuple[Tensor, Tensor | None]:
    """`graph_kernels.layer` by the compiled kernel where it can be, else by torch; it needs a `base`."""
    own, base, f, gathered, gathering, other, low_rank, part, along, next_left, first_row = beside
    if base is None:
        raise ValueError("a layer needs its base coefficients: sums are of their type")
    if suits(x, *matrices) and base.dtype == torch.float32:
        return compiled_layer(x, out, matrices, beside)
    here, exact = slice(first_row, first_row + out.shape[0]), x.to(base.dtype)
    total = exact.new_zeros(out.shape) if own is None else own[here] * exact[here]
    if f is not None:
        total.addcmul_(base[here], f.to(base.dtype))
    if gathered is not None:
        gathered = gathered.zero_() if gathering == "store" else gathered
        gathered.addcmul_(base[here], exact[here])
        total += gathered if gathering == "join" else 0
    other, dots = None if other is None else other.to(base.dtype), []
    for indptr, columns, values, factor in matrices:
        ends = indptr[first_row : here.stop + 1]
        entries = slice(int(ends[0]), int(ends[-1])) if ends.numel() < indptr.numel() else slice(None)
        product = csr_product(ends - ends[0], columns[entries], values[entries], exact)
        total.add_(product, alpha=factor)
        if other is not None:
            dots.append(row_dots(other, product).sum())
        if part is not None:
            part.copy_(product)
    if low_rank is not None:
        total.addmm_(low_rank[0][here], low_rank[1])
    out.copy_(total)
    if along is not None and other is not None:
        along.copy_(row_dots(other, exact[here]))
    ahead = None if next_left is None else next_left.T @ out.to(next_left.dtype)
    return torch.stack(dots) if dots else total.new_zeros(0), ahead


def _beside(parts: list[Tensor]) -> Tensor:
    """(n, Σ r) side by side; one alone is not copied."""
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)).contiguous()
