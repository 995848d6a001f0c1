"""The normalised sparse operator and its product: the only file that knows about kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "EdgeStructure",
    "LowRankOperator",
    "Operator",
    "SparseMatrix",
    "SymmetricOperator",
    "combine",
    "inverse_or_zero",
]


class Operator(Protocol):
    """A constant symmetric n × n matrix."""

    def product(self, y: Tensor, /) -> Tensor:
        """S Y, differentiable in Y."""
        ...

    def add_product(self, out: Tensor, y: Tensor, factor: float) -> None:
        """out += factor · S Y, in place and outside of autograd."""
        ...

    def inner(self, g: Tensor, y: Tensor, row_dots: Tensor) -> Tensor:
        """<G, S Y>, given the dot products (n,) of the rows of G and Y."""
        ...


def inverse_or_zero(x: Tensor) -> Tensor:
    """1/x, and 0 where x is 0: a node with no edge gets a zero row, never NaN."""
    return torch.where(x > 0, 1.0 / x.clamp(min=torch.finfo(x.dtype).tiny), torch.zeros_like(x))


def csr_product(indptr: Tensor, columns: Tensor, values: Tensor, y: Tensor) -> Tensor:
    """Sparse (CSR) times dense, by the kernel that suits y's device."""
    return _KERNELS.get(y.device.type, _scatter_product)(indptr, columns, values, y)


def _bag_product(indptr: Tensor, columns: Tensor, values: Tensor, y: Tensor) -> Tensor:
    """A weighted sum of rows for each bag of columns: the fastest on a CPU, and in every torch build."""
    return F.embedding_bag(columns, y, indptr, mode="sum", per_sample_weights=values, include_last_offset=True)


def _sparse_product(indptr: Tensor, columns: Tensor, values: Tensor, y: Tensor) -> Tensor:
    """torch's own sparse product, which CUDA has a library for."""
    size = (indptr.numel() - 1, y.shape[0])
    matrix = torch.sparse_csr_tensor(indptr, columns, values, size, check_invariants=False)
    return matrix @ y


def _scatter_product(indptr: Tensor, columns: Tensor, values: Tensor, y: Tensor) -> Tensor:
    """Gather and scatter-add: slow, and at home everywhere."""
    rows = torch.repeat_interleave(indptr.diff())
    product = y.new_zeros(indptr.numel() - 1, y.shape[1])
    return product.index_add_(0, rows, y[columns] * values[:, None])


_KERNELS = {"cpu": _bag_product, "cuda": _sparse_product}


class _SymmetricProduct(torch.autograd.Function):
    """S Y for a constant symmetric S, whose backward is the same product: no transpose is built."""

    @staticmethod
    def forward(ctx, indptr, columns, values, y):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(indptr, columns, values)
        return csr_product(indptr, columns, values, y)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        indptr, columns, values = ctx.saved_tensors
        return None, None, None, _SymmetricProduct.apply(indptr, columns, values, grad.contiguous())


@dataclass(frozen=True)
class SymmetricOperator:
    """A symmetric n × n matrix in CSR form."""

    indptr: Tensor  # (n + 1,)
    columns: Tensor  # (nnz,)
    values: Tensor  # (nnz,)

    def product(self, y: Tensor) -> Tensor:
        """S Y, differentiable in Y."""
        return _SymmetricProduct.apply(self.indptr, self.columns, self.values, y)  # type: ignore[no-any-return]

    def add_product(self, out: Tensor, y: Tensor, factor: float) -> None:
        """out += factor · S Y."""
        out += csr_product(self.indptr, self.columns, self.values * factor, y)

    def inner(self, g: Tensor, y: Tensor, row_dots: Tensor) -> Tensor:
        """<G, S Y>."""
        return _row_dots(g, csr_product(self.indptr, self.columns, self.values, y)).sum()


@dataclass(frozen=True)
class LowRankOperator:
    """diag(diagonal) + U C Uᵀ for U (n × r) and a symmetric core C: O(n r d) to apply."""

    diagonal: Tensor  # (n,)
    factors: Tensor  # (n, r)
    core: Tensor  # (r, r)

    def product(self, y: Tensor) -> Tensor:
        """S Y, differentiable in Y."""
        return self.diagonal[:, None] * y + self.factors @ (self.core @ (self.factors.T @ y))

    def add_product(self, out: Tensor, y: Tensor, factor: float) -> None:
        """out += factor · S Y."""
        out.addcmul_(self.diagonal[:, None], y, value=factor)
        out.addmm_(self.factors, self.core @ (self.factors.T @ y), alpha=factor)

    def inner(self, g: Tensor, y: Tensor, row_dots: Tensor) -> Tensor:
        """<G, S Y>."""
        return (self.diagonal * row_dots).sum() + ((self.factors.T @ g) * (self.core @ (self.factors.T @ y))).sum()


def _row_dots(a: Tensor, b: Tensor) -> Tensor:
    """(n,) dot products of rows, without an n × d intermediate."""
    return torch.bmm(a[:, None, :], b[:, :, None])[:, 0, 0]


class _Combination(torch.autograd.Function):
    """C1 Y + C2 f + c3 S Y - Σ_k c4_k S_k Y, in one pass each and without intermediates."""

    @staticmethod
    def forward(ctx, y, f, own, base, pull, links, pushes, *non_links):  # type: ignore[no-untyped-def]
        out = torch.mul(own, y)
        if f is not None:
            out.addcmul_(base, f)
        links.add_product(out, y, pull)
        for push, graph in zip(pushes.tolist(), non_links, strict=True):
            graph.add_product(out, y, -push)
        ctx.graphs = (links, pull, non_links)
        needs_y = ctx.needs_input_grad[2] or ctx.needs_input_grad[6]
        ctx.save_for_backward(own, base, pushes, y if needs_y else None)
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        links, pull, non_links = ctx.graphs
        own, base, pushes, y = ctx.saved_tensors
        grad = grad.contiguous()
        to_y = torch.mul(own, grad)
        links.add_product(to_y, grad, pull)
        for push, graph in zip(pushes.tolist(), non_links, strict=True):
            graph.add_product(to_y, grad, -push)
        to_f = base * grad if ctx.needs_input_grad[1] else None
        to_own = to_pushes = None
        if y is not None:  # only where repulsion is learned
            dots = _row_dots(grad, y)
            to_own = dots[:, None]
            to_pushes = torch.zeros_like(pushes)
            for k, graph in enumerate(non_links):
                to_pushes[k] = -graph.inner(grad, y, dots)
        return to_y, to_f, to_own, None, None, None, to_pushes, *([None] * len(non_links))


def combine(
    y: Tensor,
    f: Tensor,
    own: Tensor,
    base: Tensor,
    pull: float,
    links: Operator,
    pushes: Tensor,
    non_links: tuple[Operator, ...],
) -> Tensor:
    """C1 Y + C2 f + c3 S Y - Σ_k c4_k S_k Y with C1 = diag(own) and C2 = diag(base), differentiable in Y, f,
    `own` (n, 1) and `pushes` (K,)."""
    return _Combination.apply(y, f, own, base, pull, links, pushes, *non_links)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class EdgeStructure:
    """Where each undirected pair stands in a symmetric CSR matrix: weights may change, the places do not."""

    num_nodes: int
    indptr: Tensor  # (n + 1,)
    rows: Tensor  # (2m,)
    columns: Tensor  # (2m,)
    pair_of_slot: Tensor  # (2m,) the pair that a stored entry belongs to

    @classmethod
    def from_pairs(cls, pairs: Tensor, num_nodes: int) -> EdgeStructure:
        """From (m, 2) pairs without self pairs; repeated pairs stay apart and add up."""
        m = pairs.shape[0]
        rows = torch.cat([pairs[:, 0], pairs[:, 1]])
        columns = torch.cat([pairs[:, 1], pairs[:, 0]])
        order = torch.argsort(rows, stable=True)
        counts = torch.bincount(rows, minlength=num_nodes)
        indptr = F.pad(counts.cumsum(0), (1, 0))
        return cls(num_nodes, indptr, rows[order], columns[order], order % m if m else order)

    def degrees(self, pair_weights: Tensor) -> Tensor:
        """(n,) sums of the weights of each node's pairs."""
        total = pair_weights.new_zeros(self.num_nodes)
        return total.index_add_(0, self.rows, pair_weights[self.pair_of_slot])

    def scaled(self, pair_weights: Tensor, scale: Tensor) -> SymmetricOperator:
        """diag(scale) A diag(scale) for the given weights of the pairs."""
        values = pair_weights[self.pair_of_slot] * scale[self.rows] * scale[self.columns]
        return SymmetricOperator(self.indptr, self.columns, values)

    def to(self, device: torch.device) -> EdgeStructure:
        """The same structure on a device."""
        moved = (t.to(device) for t in (self.indptr, self.rows, self.columns, self.pair_of_slot))
        return EdgeStructure(self.num_nodes, *moved)


class _SparseTimesDense(torch.autograd.Function):
    """X W for a constant sparse X, with the transpose at hand for dW = Xᵀ G."""

    @staticmethod
    def forward(ctx, matrix, values, weight):  # type: ignore[no-untyped-def]
        ctx.matrix = matrix
        ctx.save_for_backward(values)
        return csr_product(matrix.indptr, matrix.columns, values, weight)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (values,) = ctx.saved_tensors
        m = ctx.matrix
        turned = values[m.slot_of_turned]
        return None, None, csr_product(m.turned_indptr, m.turned_columns, turned, grad.contiguous())


@dataclass(frozen=True)
class SparseMatrix:
    """A constant sparse matrix (n × c) that multiplies weights and stays sparse, with its transpose's places."""

    indptr: Tensor
    columns: Tensor
    values: Tensor
    num_columns: int
    turned_indptr: Tensor
    turned_columns: Tensor
    slot_of_turned: Tensor  # where the transpose's entries stand in `values`

    @classmethod
    def from_csr(cls, indptr: Tensor, columns: Tensor, values: Tensor, num_columns: int) -> SparseMatrix:
        """From compressed rows; the places of the transpose are found once."""
        order = torch.argsort(columns, stable=True)
        rows = torch.repeat_interleave(torch.arange(indptr.numel() - 1), indptr.diff())
        turned = F.pad(torch.bincount(columns, minlength=num_columns).cumsum(0), (1, 0))
        return cls(indptr, columns, values, num_columns, turned, rows[order], order)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.indptr.numel() - 1, self.num_columns

    def product(self, weight: Tensor, values: Tensor | None = None) -> Tensor:
        """X W (c × h -> n × h), with `values` in the place of X's own where given (dropout)."""
        values = self.values if values is None else values
        return _SparseTimesDense.apply(self, values.to(weight.dtype), weight)  # type: ignore[no-any-return]

    def to(self, device: torch.device) -> SparseMatrix:
        """The same matrix on a device."""
        return SparseMatrix(
            self.indptr.to(device),
            self.columns.to(device),
            self.values.to(device),
            self.num_columns,
            self.turned_indptr.to(device),
            self.turned_columns.to(device),
            self.slot_of_turned.to(device),
        )
