"""The normalised sparse operators and their products, by the kernel that suits the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.native import graph_kernels

__all__ = [
    "EdgeStructure",
    "Halo",
    "LowRankOperator",
    "Operator",
    "SparseMatrix",
    "SymmetricOperator",
    "csr_product",
    "inverse_or_zero",
    "inverse_root_or_zero",
    "on_device",
    "row_dots",
]


_Movable = TypeVar("_Movable")

_ENTRIES = 65_536  # whose gradients are computed at a time
_ROWS = 65_536  # of a product that is only summed up, at a time


class Halo(Protocol):
    """Rows that other processes hold. An operator with a halo has the rows of one process; its columns are those rows
    and, behind them, rows of the others that they are linked to."""

    def started(self, rows: Tensor) -> Callable[[], Tensor]:
        """Begin to exchange rows, which must not change meanwhile. The call waits for the others' rows, and returns
        (own + others, d) this process's (own, d) rows with those of the others behind them."""

    def summed(self, x: Tensor) -> Tensor:
        """The sum of the x of all processes, the same on all of them."""

    def share(self, x: Tensor) -> Tensor:
        """What this process adds to a sum over the processes for an x that all of them hold."""

    def buffer(self, like: Tensor) -> Tensor:
        """An empty tensor of the same size, which is extended without a copy."""


def inverse_or_zero(x: Tensor) -> Tensor:
    """1/x, and 0 where x is 0: a node with no edge gets a zero row, never NaN, and so do gradients."""
    if x.requires_grad:
        x = torch.where(x > 0, x, torch.full_like(x, torch.inf))
    return torch.where(x > 0, 1.0 / x.clamp(min=torch.finfo(x.dtype).tiny), torch.zeros_like(x))


def inverse_root_or_zero(x: Tensor) -> Tensor:
    """1/√x, and 0 where x is 0, with gradients of 0 there too."""
    inverse = inverse_or_zero(x)
    if not x.requires_grad:
        return inverse.sqrt()
    there = x > 0
    return torch.where(there, torch.where(there, inverse, torch.ones_like(x)).sqrt(), torch.zeros_like(x))


def on_device(found: _Movable, device: torch.device) -> _Movable:
    """A copy of a dataclass, with its tensors and whatever else can be moved on a device."""
    moved = {name: value.to(device) for name, value in vars(found).items() if hasattr(value, "to")}
    return replace(found, **moved)  # type: ignore[type-var]


def csr_product(indptr: Tensor, columns: Tensor, values: Tensor, y: Tensor) -> Tensor:
    """Sparse (CSR) times dense, by the kernel that suits y's device."""
    return _KERNELS.get(y.device.type, _scatter_product)(indptr, columns, values, y)


def _compiled_product(indptr: Tensor, columns: Tensor, values: Tensor, y: Tensor) -> Tensor:
    """Our own kernel where it was built, else torch's bags."""
    matrix = graph_kernels.Csr(indptr, columns, values)
    if not graph_kernels.suits(y, matrix):
        return _bag_product(indptr, columns, values, y)
    out = y.new_empty(indptr.numel() - 1, y.shape[1])
    graph_kernels.layer(y.contiguous(), out, [matrix])
    return out


def _bag_product(indptr: Tensor, columns: Tensor, values: Tensor, y: Tensor) -> Tensor:
    """A weighted sum of rows for each bag of columns: the fastest in every torch build."""
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


_KERNELS = {"cpu": _compiled_product, "cuda": _sparse_product}


class _SymmetricProduct(torch.autograd.Function):
    """S Y for a symmetric S, whose backward is the same product: no transpose is built.

    Values that are learned get gradients too, each by the two rows that it joins.
    """

    @staticmethod
    def forward(ctx, operator, values, y):  # type: ignore[no-untyped-def]
        ctx.operator = operator
        ctx.save_for_backward(values, y if ctx.needs_input_grad[1] else None)
        arrived = None if operator.halo is None else operator.halo.started(y)
        product = csr_product(operator.indptr, operator.columns, values.detach(), y)
        if arrived is not None and operator.outer is not None:
            whole, outer = arrived(), operator.outer
            product += csr_product(outer.indptr, outer.columns, outer.values, whole)
        return product

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (values, y), operator, to_y = ctx.saved_tensors, ctx.operator, None
        to_values = None if y is None else _along_edges(operator.indptr, operator.columns, grad, y)
        if ctx.needs_input_grad[2]:
            to_y = _SymmetricProduct.apply(operator, values.detach(), grad.contiguous())
        return None, to_values, to_y


def _along_edges(indptr: Tensor, columns: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """(nnz,) <left_i, right_j> of each stored entry (i, j), some at a time."""
    rows = torch.repeat_interleave(torch.arange(indptr.numel() - 1, device=columns.device), indptr.diff().long())
    blocks = zip(rows.split(_ENTRIES), columns.split(_ENTRIES), strict=True)
    found = [row_dots(left.index_select(0, a), right.index_select(0, b.long())) for a, b in blocks]
    return torch.cat(found) if found else left.new_zeros(0)


@dataclass(frozen=True)
class SymmetricOperator:
    """A symmetric n × n matrix in CSR form, or with a `halo` some rows of it, their entries with own rows and others'
    (`outer`) apart."""

    indptr: Tensor  # (n + 1,)
    columns: Tensor  # (nnz,)
    values: Tensor  # (nnz,)
    halo: Halo | None = None
    outer: SymmetricOperator | None = None

    def product(self, y: Tensor) -> Tensor:
        """S Y, differentiable in Y; with a halo both are rows of this process."""
        return _SymmetricProduct.apply(self, self.values, y)  # type: ignore[no-any-return]

    def trace(self, y: Tensor) -> Tensor:
        """tr(Yᵀ S Y), or with a halo this process's share of it; of many rows some at a time, if without gradients."""
        learned = torch.is_grad_enabled() and (y.requires_grad or self.values.requires_grad)
        if learned or self.halo is not None or y.shape[0] <= _ROWS:
            return row_dots(y, self.product(y)).sum()
        return torch.stack([row_dots(some, rows).sum() for some, rows in self._products(y)]).sum()

    def _products(self, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of Y with those of S Y, some at a time."""
        for first in range(0, y.shape[0], _ROWS):
            ends = self.indptr[first : first + _ROWS + 1]
            entries = slice(int(ends[0]), int(ends[-1]))
            rows = csr_product(ends - ends[0], self.columns[entries], self.values[entries], y)
            yield y[first : first + _ROWS], rows


@dataclass(frozen=True)
class LowRankOperator:
    """diag(diagonal) + U C Uᵀ for U (n × r) and a symmetric core C: O(n r d) to apply; or with a `halo` some rows."""

    diagonal: Tensor  # (n,)
    factors: Tensor  # (n, r)
    core: Tensor  # (r, r)
    halo: Halo | None = None

    def product(self, y: Tensor) -> Tensor:
        """S Y, differentiable in Y (without a halo)."""
        return self.diagonal[:, None] * y + self.factors @ (self.core @ self._all(self.factors.T @ y))

    def trace(self, y: Tensor) -> Tensor:
        """tr(Yᵀ S Y), or with a halo this process's share of it, without an n × d intermediate."""
        sums = self.factors.T @ y
        return (self.diagonal * row_dots(y, y)).sum() + (sums * (self.core @ self._all(sums))).sum()

    def _all(self, sums: Tensor) -> Tensor:
        return sums if self.halo is None else self.halo.summed(sums)


Operator = SymmetricOperator | LowRankOperator  # a constant symmetric n × n matrix


def row_dots(a: Tensor, b: Tensor) -> Tensor:
    """(n,) dot products of rows, without an n × d intermediate."""
    return torch.bmm(a[:, None, :], b[:, :, None])[:, 0, 0]


@dataclass(frozen=True)
class EdgeStructure:
    """Where each undirected pair stands in a symmetric CSR matrix: weights may change, the places do not."""

    num_nodes: int
    indptr: Tensor  # (n + 1,)
    columns: Tensor  # (2m,)
    places: Tensor | None  # (2m,) the pair that a stored entry belongs to; none where all weigh the same

    @classmethod
    def from_pairs(cls, pairs: Tensor, num_nodes: int, *, weighted: bool = True) -> EdgeStructure:
        """From (m, 2) pairs without self pairs; repeated pairs stay apart and add up."""
        if pairs.device.type == "cpu" and graph_kernels.library() is not None and pairs.shape[0] < 2**30:
            return cls(num_nodes, *graph_kernels.symmetric_rows(pairs, num_nodes, places=weighted))
        ends = pairs.flatten()
        order = torch.argsort(ends, stable=True)
        indptr = F.pad(torch.bincount(ends, minlength=num_nodes).cumsum(0), (1, 0))
        columns, pair_of_slot = pairs.flip(1).flatten()[order], order // 2
        if pairs.shape[0] < 2**30:  # half the bytes, wherever they suffice
            indptr, columns, pair_of_slot = indptr.int(), columns.int(), pair_of_slot.int()
        return cls(num_nodes, indptr, columns, pair_of_slot if weighted else None)

    @property
    def pair_of_slot(self) -> Tensor:
        """(2m,) the pair of each stored entry."""
        if self.places is None:
            raise ValueError("this structure was built without the places of its pairs")
        return self.places

    @property
    def rows(self) -> Tensor:
        """(2m,) the row of each stored entry."""
        nodes = torch.arange(self.num_nodes, device=self.indptr.device)
        return torch.repeat_interleave(nodes, self.indptr.diff())

    def of_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(len(rows) + 1,) where the entries of each of some rows begin, and (·,) their columns."""
        starts, counts = self.indptr[rows].long(), self.indptr[rows + 1].long() - self.indptr[rows].long()
        ends = F.pad(counts.cumsum(0), (1, 0))
        places = torch.arange(int(ends[-1]), device=rows.device) + torch.repeat_interleave(starts - ends[:-1], counts)
        return ends.to(self.indptr.dtype), self.columns[places]

    def degrees(self, pair_weights: Tensor | None = None, hidden: Tensor | None = None) -> Tensor:
        """(n,) sums of the weights of each node's pairs, or their number; `hidden` (m,) pairs count nothing."""
        if hidden is None and pair_weights is None:
            return self.indptr.diff().to(torch.get_default_dtype())
        if self._by_native(pair_weights):
            return graph_kernels.degrees(self.indptr, self.places, pair_weights, hidden)
        weights = self._weights(pair_weights, hidden)
        return weights.new_zeros(self.num_nodes).index_add_(0, self.rows, weights[self.pair_of_slot])

    def scaled(self, pair_weights: Tensor | None, scale: Tensor, hidden: Tensor | None = None) -> SymmetricOperator:
        """diag(scale) A diag(scale) for the given weights of the pairs, or for weights of one; 0 where `hidden`."""
        if self._by_native(scale) and self._by_native(pair_weights):
            values = graph_kernels.scaled_values(self.indptr, self.columns, self.places, pair_weights, hidden, scale)
            return SymmetricOperator(self.indptr, self.columns, values)
        values = scale[self.rows] * scale[self.columns]
        if pair_weights is not None or hidden is not None:
            values = values * self._weights(pair_weights, hidden).to(values.dtype)[self.pair_of_slot]
        return SymmetricOperator(self.indptr, self.columns, values)

    def _weights(self, pair_weights: Tensor | None, hidden: Tensor | None) -> Tensor:
        if pair_weights is None:
            return (~hidden).to(torch.get_default_dtype()) if hidden is not None else torch.ones(0)
        return pair_weights if hidden is None else torch.where(hidden, 0.0, pair_weights)

    def _by_native(self, x: Tensor | None) -> bool:
        if self.columns.dtype != torch.int32 or self.columns.device.type != "cpu" or graph_kernels.library() is None:
            return False
        return x is None or (x.dtype == torch.float32 and x.device.type == "cpu" and not x.requires_grad)

    def to(self, device: torch.device) -> EdgeStructure:
        """The same structure on a device."""
        return on_device(self, device)


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
        rows = torch.repeat_interleave(torch.arange(indptr.numel() - 1, device=indptr.device), indptr.diff())
        turned = F.pad(torch.bincount(columns, minlength=num_columns).cumsum(0), (1, 0))
        places = (t.int() if columns.numel() < 2**31 else t for t in (indptr, columns, turned, rows[order]))
        indptr, columns, turned_indptr, turned_columns = places
        return cls(indptr, columns, values, num_columns, turned_indptr, turned_columns, order)

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
        return on_device(self, device)
