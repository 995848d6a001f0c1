"""The recommended lists of validation edges among the arrays of a model; models of earlier versions have none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.model.held_out_lists import HeldOutLists

__all__ = ["list_arrays", "read_lists"]

Arrays = dict[str, NDArray[Any]]

_KINDS = {"scores": np.float32, "hits": np.bool_, "weights": np.float64, "degrees": np.int64, "ranks": np.int64}


def list_arrays(lists: HeldOutLists | None) -> Arrays:
    """The columns by the names that they are saved under; none without lists."""
    return {} if lists is None else {f"list_{name}": getattr(lists, name) for name in _KINDS}


def read_lists(arrays: Arrays, missing: float | None) -> HeldOutLists | None:
    """The inverse of `list_arrays`, checked; None for a model without."""
    if missing is None:
        return None
    columns = {name: arrays[f"list_{name}"] for name in _KINDS}
    size = columns["scores"].shape
    for name, kind in _KINDS.items():
        if columns[name].dtype != kind or len(size) != 1 or columns[name].shape != size:
            raise ValueError(f"'list_{name}' needs to be {np.dtype(kind).name} of shape {size} and one dimension")
    if not all(np.isfinite(columns[name]).all() for name in ("scores", "weights")) or (columns["weights"] <= 0).any():
        raise ValueError("'list_scores' and 'list_weights' need to be finite, and weights positive")
    if not 0 < float(missing) < np.inf:
        raise ValueError(f"'missing' needs to be a positive number (got {missing!r})")
    return HeldOutLists(**columns, missing=float(missing))
