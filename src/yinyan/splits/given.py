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
        for part in ("train", "valid", "test"):
            targets, negatives = getattr(self, part), getattr(self, f"{part}_negatives")
            _check_pairs(part, targets)
            if negatives is not None:
                own = part != "train" and getattr(negatives, "ndim", 2) == 3
                _check_pairs(f"{part}_negatives", negatives, len(targets) if own else None)

    def __repr__(self) -> str:
        sizes = f"train={len(self.train):,}, valid={len(self.valid):,}, test={len(self.test):,}"
        return f"Parts({sizes}, negatives={self._negatives()})"

    def _negatives(self) -> str:
        if self.test_negatives is None:
            return "none"
        own = self.test_negatives.ndim == 3
        return f"{self.test_negatives.shape[1]:,} per positive" if own else f"{len(self.test_negatives):,} shared"


def _check_pairs(name: str, pairs: Any, positives: int | None = None) -> None:
    """Refuse what are no pairs of rows; with `positives` each of these needs pairs of its own."""
    own = positives is not None
    fits = isinstance(pairs, np.ndarray) and pairs.ndim == 2 + own and pairs.shape[-1] == 2
    allowed = (np.int64, np.int32) if own else (np.int64,)
    if not fits or pairs.dtype not in allowed or (own and len(pairs) != positives):
        form = "int64 array of shape (pairs, 2)"
        if own:
            form = f"int64 or int32 array of shape ({positives:,}, negatives, 2), a row for each positive"
        got = f"{pairs.dtype}, shape {pairs.shape}" if isinstance(pairs, np.ndarray) else type(pairs).__name__
        raise InputError(f"{name!r} needs to be an {form} (got {got})")
    if pairs.size and pairs.min() < 0:
        raise InputError(f"{name!r} needs rows of 0 or more (got {int(pairs.min())}): number the nodes from 0")
