"""Arrays of lists from a file: compiled code reads them without a look, so they are checked before it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.native.retrieval_kernels import GROUP
from yinyan.retrieval.efforts import Effort, Efforts
from yinyan.retrieval.lists import Lists
from yinyan.retrieval.metadata import IndexMetadata

__all__ = ["checked_efforts", "checked_lists"]

_TYPES = {
    "weights": np.float32, "centres": np.float32, "spreads": np.float32, "lows": np.float32, "steps": np.float32,
    "codes": np.uint8, "rows": np.int32, "starts": np.int64,
}  # fmt: skip
_MOST = {"probes": 1 << 31, "candidates": 1 << 31, "rounds": 1 << 10, "pattern": 1 << 16}


def checked_lists(arrays: Mapping[str, NDArray[Any]], num_rows: int, columns: int) -> Lists:
    """Lists of so many rows and columns; raises ValueError where the arrays cannot be theirs."""
    cells, groups = len(arrays["spreads"]), len(arrays["rows"])
    shapes: dict[str, tuple[int, ...]] = {
        "weights": (columns,), "centres": (cells, columns), "spreads": (cells,), "lows": (columns,),
        "steps": (columns,), "codes": (groups, -(-columns // 4), GROUP, 4), "rows": (groups, GROUP),
        "starts": (cells + 1,),
    }  # fmt: skip
    for name, shape in shapes.items():
        array = arrays[name]
        if array.dtype != _TYPES[name] or array.shape != shape:
            raise ValueError(
                f"{name!r} is {array.dtype} of shape {array.shape}, expected {np.dtype(_TYPES[name])} of shape {shape}"
            )
        if array.dtype == np.float32 and not np.isfinite(array).all():
            raise ValueError(f"{name!r} holds NaN or infinity")
    for name in ("weights", "steps"):  # queries are divided by one, and bytes stand for multiples of the other
        if not (arrays[name] > 0).all():
            raise ValueError(f"{name!r} needs to be positive")
    starts, rows = arrays["starts"], arrays["rows"]
    if not cells or starts[0] != 0 or starts[-1] != groups or (np.diff(starts) < 0).any():
        raise ValueError(f"'starts' needs to rise from 0 to the number of groups ({groups:,})")
    listed = rows[rows != -1]
    if listed.size != num_rows or (num_rows and not 0 <= listed.min() <= listed.max() < num_rows):
        raise ValueError(f"'rows' needs each of the {num_rows:,} rows once")
    if (np.bincount(listed, minlength=num_rows) != 1).any():
        raise ValueError(f"'rows' needs each of the {num_rows:,} rows once")
    return Lists(**arrays)


def checked_efforts(found: IndexMetadata) -> Efforts:
    """The effort of each k; raises ValueError where one is not possible, or that of the build is not among them."""
    efforts = {at.k: _checked(at.effort) for at in found.per_k}
    if any(type(k) is not int or k < 1 for k in efforts):
        raise ValueError(f"'per_k' needs positive integers k (got {list(efforts)!r})")
    if efforts.get(found.k) != _checked(found.effort):
        raise ValueError(f"'effort' needs to be that of 'per_k' for k = {found.k!r} (got {found.effort!r})")
    return Efforts(efforts)


def _checked(given: Any) -> Effort:
    """The effort of a search; raises ValueError where a number is none, or beyond what any search does."""
    if not isinstance(given, dict) or not given.keys() <= _MOST.keys():
        raise ValueError(f"'effort' needs the numbers {', '.join(_MOST)} (got {given!r})")
    for name, value in given.items():
        if type(value) is not int or not 1 <= value <= _MOST[name]:
            raise ValueError(f"'effort' needs {name} between 1 and {_MOST[name]:,} (got {value!r})")
    return Effort(**given)
