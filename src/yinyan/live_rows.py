"""Some rows of a product, or of the nodes' sketches, from matrices whose rows change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from yinyan import native
from yinyan.propagation import inverse_or_zero
from yinyan.row_lists import RowLists
from yinyan.sketches import Sketches

__all__ = ["csr_of", "renew", "row_blocks", "rows_product"]

Rows = NDArray[np.int64]

_BLOCK_ROWS = 16_384


def row_blocks(rows: Rows) -> Iterator[Rows]:
    """The rows, some thousands at a time."""
    return (rows[first : first + _BLOCK_ROWS] for first in range(0, rows.size, _BLOCK_ROWS))


def csr_of(indptr: Rows, columns: NDArray[Any], values: NDArray[Any], factor: float = 1.0) -> native.Csr:
    """Compressed rows of numpy arrays."""
    begins, places = (torch.from_numpy(part.astype(np.int32, copy=False)) for part in (indptr, columns))
    return native.Csr(begins, places, torch.from_numpy(values), factor)


def rows_product(matrix: native.Csr, x: Tensor) -> Tensor:
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


def _unweighted(links: RowLists, rows: Rows, degrees: Tensor) -> native.Csr:
    """Some rows of A: a link counts once, whatever its weight."""
    indptr, slots = links.entries(rows)
    return csr_of(indptr, links.columns.take(slots), torch.ones(slots.size, dtype=degrees.dtype).numpy())
