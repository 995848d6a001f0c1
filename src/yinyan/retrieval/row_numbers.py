"""Row numbers that callers give, checked once for all who take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError

__all__ = ["checked_rows"]


def checked_rows(
    values: Any, count: int | None, name: str = "rows", *, pairs: bool = False, distinct: bool = False
) -> NDArray[np.int64]:
    """(m,) rows or (m, 2) pairs of them, below `count` if there is one."""
    found = np.asarray(values)
    if not found.size:
        return np.empty((0, 2) if pairs else 0, dtype=np.int64)
    shape = (len(found), 2) if pairs else (found.size,)
    if found.shape != shape or found.dtype.kind not in "iu":
        wanted = "(m, 2)" if pairs else "(m,)"
        raise InputError(f"'{name}' needs to be integers of the shape {wanted} (got {found.dtype} {found.shape})")
    wrong = found[(found < 0) | (False if count is None else found >= count)]
    if wrong.size:
        there = "rows, which count from 0" if count is None else f"{count:,} rows (give 0 to {count - 1:,})"
        raise InputError(f"row {wrong[0]:,} is not among the {there}")
    if distinct and np.unique(found).size != found.size:
        raise InputError(f"'{name}' names a row twice")
    return found.astype(np.int64)
