"""Feature matrices, dense or sparse, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from yinyan.errors import InputError

__all__ = [
    "Features",
    "SparseFeatures",
    "as_numpy",
    "clipped_features",
    "column_means",
    "column_range",
    "features_from_matrix",
    "is_sparse",
    "refuse_not_finite",
    "rows_normalised",
    "sparse_from_entries",
    "stacked_features",
]

_SPARSE_BELOW = 0.15  # share of nonzero entries: from there on a dense product is the faster


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """A float32 matrix in compressed sparse rows."""

    indptr: npt.NDArray[np.int64]  # (num_rows + 1,)
    indices: npt.NDArray[np.int64]  # the column of each entry
    values: npt.NDArray[np.float32]
    num_columns: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "indptr", np.ascontiguousarray(self.indptr, dtype=np.int64))
        object.__setattr__(self, "indices", np.ascontiguousarray(self.indices, dtype=np.int64))
        object.__setattr__(self, "values", np.ascontiguousarray(self.values, dtype=np.float32))
        if self.indptr.ndim != 1 or not len(self.indptr) or self.indptr[0] != 0 or (np.diff(self.indptr) < 0).any():
            raise InputError("'indptr' needs to begin with 0 and never fall")
        if not self.indptr[-1] == len(self.indices) == len(self.values):
            raise InputError(
                f"'indices' and 'values' need {int(self.indptr[-1]):,} entries each "
                f"(got {len(self.indices):,} and {len(self.values):,})"
            )
        if len(self.indices) and not 0 <= self.indices.min() <= self.indices.max() < self.num_columns:
            raise InputError(f"'indices' need to lie between 0 and {self.num_columns - 1}")

    @property
    def num_rows(self) -> int:
        """How many rows there are, one per node."""
        return len(self.indptr) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.num_rows, self.num_columns

    @property
    def entry_rows(self) -> npt.NDArray[np.int64]:
        """The row of each entry."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.indptr))

    def take(self, rows: Sequence[int] | npt.NDArray[np.integer[Any]]) -> SparseFeatures:
        """Return some rows, in the order given."""
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = np.diff(self.indptr)[chosen]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        slots = np.arange(indptr[-1]) + np.repeat(self.indptr[chosen] - indptr[:-1], lengths)
        return SparseFeatures(indptr, self.indices[slots], self.values[slots], self.num_columns)

    def to_dense(self) -> npt.NDArray[np.float32]:
        """Return the same matrix with its zeros."""
        dense = np.zeros(self.shape, dtype=np.float32)
        np.add.at(dense, (self.entry_rows, self.indices), self.values)
        return dense


Features: TypeAlias = npt.NDArray[np.float32] | SparseFeatures


def sparse_from_entries(
    rows: npt.NDArray[Any], columns: npt.NDArray[Any], values: npt.NDArray[Any], shape: tuple[int, int]
) -> SparseFeatures:
    """Sort entries by row and column, add up repeated ones and leave out zeros."""
    keys = rows.astype(np.int64) * max(shape[1], 1) + columns.astype(np.int64)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order].astype(np.float64)
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    keys, values = keys[starts], (np.add.reduceat(values, starts) if len(starts) else values)
    keys, values = keys[values != 0], values[values != 0]
    counts = np.bincount(keys // max(shape[1], 1), minlength=shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    with np.errstate(over="ignore"):
        return SparseFeatures(indptr, keys % max(shape[1], 1), values.astype(np.float32), shape[1])


def features_from_matrix(matrix: Any, num_nodes: int) -> Features:
    """Check a feature matrix of one row per node; with few nonzero entries it becomes sparse.

    Takes numpy arrays, nested lists, scipy sparse matrices, torch tensors (dense or sparse) and
    `SparseFeatures`.
    """
    matrix = matrix if hasattr(matrix, "shape") else as_numpy(matrix)
    shape = tuple(int(size) for size in matrix.shape)
    if len(shape) != 2:
        raise InputError(f"features need two dimensions, nodes and columns (got shape {shape})")
    if shape[0] != num_nodes:
        raise InputError(f"features need one row per node: {num_nodes:,} rows (got {shape[0]:,})")
    features = _converted(matrix, (shape[0], shape[1]))
    refuse_not_finite(features)
    return features


def as_numpy(values: Any) -> npt.NDArray[Any]:
    """A numpy array out of a list, an array or a tensor on any device."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if "bfloat16" in str(values.dtype) else values  # numpy has no such type
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"expected a rectangular array ({error})") from None


def _converted(matrix: Any, shape: tuple[int, int]) -> Features:
    if isinstance(matrix, SparseFeatures):
        rows, columns, values = matrix.entry_rows, matrix.indices, matrix.values
    elif hasattr(matrix, "tocoo"):
        entries = matrix.tocoo()
        rows, columns, values = entries.row, entries.col, entries.data
    elif "sparse" in str(getattr(matrix, "layout", "")):
        entries = matrix.detach().cpu().to_sparse_coo().coalesce()
        (rows, columns), values = entries.indices().numpy(), entries.values().numpy()
    else:
        dense = _real(as_numpy(matrix))
        if not is_sparse(int(np.count_nonzero(dense)), shape):
            with np.errstate(over="ignore"):
                return np.ascontiguousarray(dense, dtype=np.float32)
        rows, columns = np.nonzero(dense)
        values = dense[rows, columns]
    features = sparse_from_entries(rows, columns, _real(values), shape)
    kept = isinstance(matrix, SparseFeatures) or is_sparse(len(features.values), shape)
    return features if kept else features.to_dense()


def is_sparse(nonzero: int, shape: tuple[int, int]) -> bool:
    """Whether so few entries of a matrix are better stored one by one."""
    return nonzero < _SPARSE_BELOW * shape[0] * shape[1]


def _real(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype.kind not in "biuf":
        raise InputError(f"features need to be real numbers (got {values.dtype}): encode text and dates first")
    return values


def refuse_not_finite(features: Features) -> None:
    """Refuse a missing or infinite entry by its row and column."""
    values = features.values if isinstance(features, SparseFeatures) else features.reshape(-1)
    if np.isfinite(values.sum(dtype=np.float64)):  # float32 cannot overflow it, and no copy is made
        return
    place = int(np.argmax(~np.isfinite(values)))
    if isinstance(features, SparseFeatures):
        row, column = int(features.entry_rows[place]), int(features.indices[place])
    else:
        row, column = divmod(place, features.shape[1])
    raise InputError(
        f"features hold {values[place]} in row {row}, column {column} (both from 0): "
        "fill missing values, and keep the others within float32"
    )


def column_range(features: Features) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(c,) the least and the largest value of each column."""
    if not isinstance(features, SparseFeatures):
        return features.min(axis=0), features.max(axis=0)
    counts = np.bincount(features.indices, minlength=features.num_columns)
    full = counts == features.num_rows  # elsewhere some entry is zero
    low, high = (np.where(full, fill, 0).astype(np.float32) for fill in (np.inf, -np.inf))
    np.minimum.at(low, features.indices, features.values)
    np.maximum.at(high, features.indices, features.values)
    return low, high


def column_means(features: Features) -> npt.NDArray[np.float32]:
    """(c,) the mean of each column."""
    if isinstance(features, SparseFeatures):
        sums = np.bincount(features.indices, weights=features.values, minlength=features.num_columns)
    else:
        sums = features.sum(axis=0, dtype=np.float64)
    return np.asarray(sums / max(1, features.shape[0]), dtype=np.float32)


def clipped_features(
    features: Features, low: npt.NDArray[np.float32], high: npt.NDArray[np.float32]
) -> tuple[Features, npt.NDArray[np.bool_]]:
    """Values moved into the range of their columns, and (rows,) where any was outside."""
    if not isinstance(features, SparseFeatures):
        inside = np.clip(features, low, high)
        return inside, (inside != features).any(axis=1)
    inside = np.clip(features.values, low[features.indices], high[features.indices])
    outside = np.zeros(features.num_rows, dtype=bool)
    outside[features.entry_rows[inside != features.values]] = True
    return replace(features, values=inside), outside


def rows_normalised(features: Features) -> Features:
    """Each row divided by its sum, where that is not zero."""
    if isinstance(features, SparseFeatures):
        row = features.entry_rows
        sums = np.bincount(row, weights=features.values, minlength=features.num_rows)
        return replace(features, values=(features.values * _inverse(sums)[row]).astype(np.float32))
    return (features * _inverse(features.sum(axis=1))[:, None]).astype(np.float32)


def _inverse(sums: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.where(sums != 0, 1.0 / np.where(sums != 0, sums, 1.0), 0.0)


def stacked_features(parts: Sequence[Features]) -> Features | None:
    """Rows of several matrices, one below the other, sparse if the first are; None where there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    if not isinstance(parts[0], SparseFeatures):
        return np.concatenate([part.to_dense() if isinstance(part, SparseFeatures) else part for part in parts])
    sparse = [part if isinstance(part, SparseFeatures) else _as_sparse(part) for part in parts]
    offsets = np.cumsum([0, *(part.indptr[-1] for part in sparse)])
    return SparseFeatures(
        np.concatenate([[0], *(part.indptr[1:] + o for part, o in zip(sparse, offsets, strict=False))]),
        np.concatenate([part.indices for part in sparse]),
        np.concatenate([part.values for part in sparse]),
        sparse[0].num_columns,
    )


def _as_sparse(dense: npt.NDArray[np.float32]) -> SparseFeatures:
    rows, columns = np.nonzero(dense)
    return sparse_from_entries(rows, columns, dense[rows, columns], dense.shape)
