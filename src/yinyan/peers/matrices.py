"""The visible links as the matrices and lists that PyTorch Geometric's layers read."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SymmetricOperator, inverse_or_zero

__all__ = ["edge_index", "mean_matrix", "normalised_matrix", "sum_matrix"]

# A hidden link keeps its place in a matrix, with weight 0: only the values change from step to step. As a sparse
# matrix the links are multiplied in half the time of PyTorch Geometric's gather and scatter, and in a fixed order.


def normalised_matrix(messages: MessageGraph, hidden: Tensor | None, *, self_loops: bool = True) -> Tensor:
    """D^-1/2 (A + I) D^-1/2, or without the I and its share in D."""
    operator, diagonal = messages.adjacency(hidden, self_loops=self_loops)
    return _matrix(_with_loops(operator, diagonal[:, 0]) if self_loops else operator)


def sum_matrix(messages: MessageGraph, hidden: Tensor | None) -> Tensor:
    """A: its product sums over neighbours."""
    return _matrix(_plain(messages, hidden)[0])


def mean_matrix(messages: MessageGraph, hidden: Tensor | None) -> Tensor:
    """D^-1 A: its product is the mean over neighbours, and 0 where there are none."""
    operator, degrees = _plain(messages, hidden)
    shares = inverse_or_zero(degrees)[messages.structure.rows]
    return _matrix(SymmetricOperator(operator.indptr, operator.columns, operator.values * shares))


def edge_index(messages: MessageGraph, hidden: Tensor | None) -> Tensor:
    """(2, ·) both directions of each visible link, sorted by target; without weights."""
    structure = messages.structure
    both = torch.stack([structure.columns.long(), structure.rows])
    return both if hidden is None else both[:, ~hidden[structure.pair_of_slot]]


def _plain(messages: MessageGraph, hidden: Tensor | None) -> tuple[SymmetricOperator, Tensor]:
    weights = messages.weights if hidden is None else torch.where(hidden, 0.0, messages.weights)
    return messages.structure.scaled(weights, weights.new_ones(messages.num_nodes)), messages.structure.degrees(weights)


def _with_loops(operator: SymmetricOperator, loops: Tensor) -> SymmetricOperator:
    """S + diag(loops): each row's loop stands behind its other entries."""
    nodes = torch.arange(loops.numel(), device=loops.device, dtype=operator.columns.dtype)
    rows = torch.repeat_interleave(nodes, operator.indptr.diff())
    entries = torch.arange(rows.numel(), device=loops.device) + rows  # a loop before each earlier row's end
    ends = operator.indptr[1:] + nodes
    columns = nodes.new_empty(entries.numel() + nodes.numel())
    values = loops.new_empty(columns.numel())
    columns[entries], columns[ends] = operator.columns, nodes
    values[entries], values[ends] = operator.values, loops
    shift = torch.arange(operator.indptr.numel(), device=loops.device, dtype=operator.indptr.dtype)
    return SymmetricOperator(operator.indptr + shift, columns, values)


def _matrix(operator: SymmetricOperator) -> Tensor:
    n = operator.indptr.numel() - 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")  # said at every first use of one
        return torch.sparse_csr_tensor(
            operator.indptr, operator.columns, operator.values, (n, n), check_invariants=False
        )
