"""The fixed split that comes with a data set: its edges and negatives, as their makers wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from yinyan.errors import InputError

__all__ = ["Parts"]


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """Pairs of node rows for training, validation and test, in the order of their ends in which they were given.

    Negatives of validation and test are shared by all positives, (m, 2), or each positive has its own, (p, m, 2). These
    may be int32 to save memory.

    Raises
    ------
    InputError
        If an array has another shape or type, or a negative row.

    Examples
    --------
    >>> from yinyan import Parts
    >>> Parts(graph.edges[:-20], graph.edges[-20:-10], graph.edges[-10:]).test.shape
    (10, 2)
    """

    train: npt.NDArray[np.int64]  # (·, 2) edges for training
    valid: npt.NDArray[np.int64]  # (·, 2) edges for validation
    test: npt.NDArray[np.int64]  # (·, 2) edges for the test
    train_negatives: npt.NDArray[np.int64] | None = None  # (·, 2), for the audit
    valid_negatives: npt.NDArray[np.int64] | npt.NDArray[np.int32] | None = None  # (m, 2) or (p, m, 2)
    test_negatives: npt.NDArray[np.int64] | npt.NDArray[np.int32] | None = None  # (m, 2) or (p, m, 2)

    def __post_init__(self) -> None:
        for name in ("train", "valid", "test", "train_negatives"):
            pairs = getattr(self, name)
            if pairs is not None or not name.endswith("negatives"):
                _check_pairs(name, pairs)
        for name, positives in (("valid_negatives", self.valid), ("test_negatives", self.test)):
            pairs = getattr(self, name)
            if isinstance(pairs, np.ndarray) and pairs.ndim == 3:
                _check_own(name, pairs, len(positives))
            elif pairs is not None:
                _check_pairs(name, pairs)

    def __repr__(self) -> str:
        sizes = f"train={len(self.train):,}, valid={len(self.valid):,}, test={len(self.test):,}"
        return f"Parts({sizes}, negatives={self._negatives()})"

    def _negatives(self) -> str:
        if self.test_negatives is None:
            return "none"
        own = self.test_negatives.ndim == 3
        return f"{self.test_negatives.shape[1]:,} per positive" if own else f"{len(self.test_negatives):,} shared"


def _check_pairs(name: str, pairs: Any) -> None:
    if not isinstance(pairs, np.ndarray) or pairs.dtype != np.int64 or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(f"{name!r} needs to be an int64 array of shape (pairs, 2) (got {_described(pairs)})")
    _refuse_negative_rows(name, pairs)


def _check_own(name: str, pairs: npt.NDArray[Any], positives: int) -> None:
    if pairs.dtype not in (np.int64, np.int32) or pairs.shape[0] != positives or pairs.shape[2] != 2:
        raise InputError(
            f"{name!r} needs to be an int64 or int32 array of shape ({positives:,}, negatives, 2), "
            f"a row for each positive (got {_described(pairs)})"
        )
    _refuse_negative_rows(name, pairs)


def _refuse_negative_rows(name: str, pairs: npt.NDArray[Any]) -> None:
    if pairs.size and pairs.min() < 0:
        raise InputError(f"{name!r} needs rows of 0 or more (got {int(pairs.min())}): number the nodes from 0")


def _described(value: Any) -> str:
    return f"{value.dtype}, shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
