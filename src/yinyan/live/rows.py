"""Some rows of a product, or of the nodes' sketches, from matrices whose rows change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from yinyan.live.row_lists import RowLists
from yinyan.model.energy import EnergyTerms
from yinyan.model.operators import LowRankOperator, SymmetricOperator, inverse_or_zero
from yinyan.model.sketches import Sketches
from yinyan.native import graph_kernels

__all__ = ["csr_of", "moved", "negative_degrees", "renew", "row_blocks", "rows_product"]

Rows = NDArray[np.int64]

_BLOCK_ROWS = 16_384


def row_blocks(rows: Rows) -> Iterator[Rows]:
    """The rows, some thousands at a time."""
    return (rows[first : first + _BLOCK_ROWS] for first in range(0, rows.size, _BLOCK_ROWS))


def moved(before: Tensor, after: Tensor, rows: Rows, tolerance: float) -> Rows:
    """Those of `rows` that differ by more than a share of their length."""
    step, length = (after - before).float().norm(dim=1), after.float().norm(dim=1)
    chosen: Rows = rows[(step > tolerance * length).numpy()]
    return chosen


def csr_of(indptr: Rows, columns: NDArray[Any], values: NDArray[Any], factor: float = 1.0) -> graph_kernels.Csr:
    """Compressed rows of numpy arrays."""
    begins, places = (torch.from_numpy(part.astype(np.int32, copy=False)) for part in (indptr, columns))
    return graph_kernels.Csr(begins, places, torch.from_numpy(values), factor)


def rows_product(matrix: graph_kernels.Csr, x: Tensor) -> Tensor:
    """Some rows of a product, by torch: only the rows of x that are needed are read."""
    needed, places = torch.unique(matrix.columns, return_inverse=True)
    if not needed.numel():
        return matrix.values.new_zeros(matrix.indptr.numel() - 1, x.shape[1])
    weights, rows = matrix.factor * matrix.values, x[needed].to(matrix.values.dtype)
    return F.embedding_bag(
        places, rows, matrix.indptr.long(), mode="sum", per_sample_weights=weights, include_last_offset=True
    )


def renew(sketches: Sketches, stored: Tensor, links: RowLists, ends: Rows, rows: Rows) -> None:
    """Write the sketches of `rows` into `stored` (n, 3F + 1), where no nodes but `ends` have other neighbours now."""
    if not sketches.size:
        index = torch.from_numpy(rows)
        stored[index, 0] = sketches.of_degrees(torch.from_numpy(links.length[rows]).to(stored.dtype))
        return
    near, scarce, far, degree = stored.split([sketches.size] * 3 + [1], dim=1)
    signs = sketches.signs(stored.shape[0], stored.device).to(stored.dtype)
    degrees = torch.from_numpy(links.length[: stored.shape[0]]).to(stored.dtype)
    for block in row_blocks(ends):
        near[torch.from_numpy(block)] = rows_product(_unweighted(links, block, degrees), signs)
    for block in row_blocks(rows):
        index, matrix = torch.from_numpy(block), _unweighted(links, block, degrees)
        few = inverse_or_zero(degrees[matrix.columns]).sqrt()
        scarce[index] = rows_product(matrix._replace(values=few), signs)
        far[index] = rows_product(matrix, near) - degrees[index, None] * signs[index]
        degree[index] = degrees[index, None].log1p()


def _unweighted(links: RowLists, rows: Rows, degrees: Tensor) -> graph_kernels.Csr:
    """Some rows of A: a link counts once, whatever its weight."""
    indptr, slots = links.entries(rows)
    return csr_of(indptr, links.columns.take(slots), torch.ones(slots.size, dtype=degrees.dtype).numpy())


def negative_degrees(terms: EnergyTerms) -> NDArray[np.float64]:
    """(n,) D⁻ of all negative graphs together, as these were normalised by it."""
    total = torch.zeros(terms.anchor.shape[0], dtype=torch.float64)
    for graph in terms.negatives:
        if isinstance(graph.adjacency, SymmetricOperator):
            total += graph.adjacency.indptr.diff()  # every non-link counts one
        elif isinstance(graph.adjacency, LowRankOperator):  # every other factor is D⁻^-1/2, of a side if there are any
            total += inverse_or_zero(graph.adjacency.factors[:, ::2].sum(1).double().square())
    return total.numpy()
