"""Raw pairs of rows, made into the sorted, distinct edges of a graph."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from yinyan.errors import InputError
from yinyan.text import counted

__all__ = [
    "MergedEdges",
    "Rows",
    "Times",
    "checked_times",
    "checked_weights",
    "distinct",
    "merge_edges",
    "merge_keys",
    "row_name",
    "single_precision",
]

Rows: TypeAlias = npt.NDArray[np.int64]
Times: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.float64]


class MergedEdges(NamedTuple):
    """Edges as `Graph` wants them, and what was done to get there."""

    edges: Rows
    weights: npt.NDArray[np.float32] | None
    times: Times | None
    notes: tuple[str, ...]
    features: npt.NDArray[np.float32] | None = None  # (edges, c) means of those that were merged


def merge_edges(
    source: Rows,
    target: Rows,
    num_nodes: int,
    *,
    weights: npt.NDArray[np.float64] | None = None,
    times: Times | None = None,
    features: npt.NDArray[np.float32] | None = None,
    directed: bool = False,
) -> MergedEdges:
    """Drop self loops and edges of weight zero; merge repeated edges: weights added, earliest time kept, features
    averaged."""
    notes = []
    dropped = source == target
    if dropped.any():
        notes.append(f"dropped {counted(int(dropped.sum()), 'self loop')}")
    if weights is not None and (weights == 0).any():
        notes.append(f"dropped {counted(int(((weights == 0) & ~dropped).sum()), 'edge')} of weight zero")
        dropped |= weights == 0
    if dropped.any():
        kept = ~dropped
        source, target = source[kept], target[kept]
        weights = None if weights is None else weights[kept]
        times = None if times is None else times[kept]
        features = None if features is None else features[kept]
    del dropped
    keys = (source if directed else np.minimum(source, target)) * num_nodes
    keys += target if directed else np.maximum(source, target)
    if features is not None:
        features = _merged_rows(keys, features)
    keys, weights, times, merged = merge_keys(keys, weights, times)
    if merged:
        how = [] if directed else ["a pair counts once whichever way it is written"]
        how += ["weights added"] if weights is not None else []
        how += ["the earliest time kept"] if times is not None else []
        how += ["features averaged"] if features is not None else []
        notes.append(f"merged {counted(merged, 'repeated edge')}{' (' + ', '.join(how) + ')' if how else ''}")
    pairs = np.empty((len(keys), 2), dtype=np.int64)
    if len(keys):
        np.divmod(keys, num_nodes, out=(pairs[:, 0], pairs[:, 1]))
    return MergedEdges(pairs, single_precision(weights), times, tuple(notes), features)


def _merged_rows(keys: Rows, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The mean of the rows of each key, in the order of keys."""
    if not len(keys):
        return rows
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    counts = np.diff(starts, append=len(keys))[:, None]
    means: npt.NDArray[np.float32] = (np.add.reduceat(rows[order], starts, axis=0) / counts).astype(np.float32)
    return means


def checked_weights(values: Any, name_of: Callable[[int], str], what: str = "weight") -> npt.NDArray[np.float64]:
    """Weights as numbers; a missing, infinite or negative one is refused by its row."""
    weights = np.asarray(values)
    if weights.dtype.kind not in "biuf" or weights.ndim != 1:
        raise InputError(f"{what} needs to be one number per edge (got {weights.dtype}, shape {weights.shape})")
    weights = weights.astype(np.float64)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    _refuse(bad, weights, name_of, what, "weights need to be finite and not negative")
    return weights


def checked_times(values: Any, name_of: Callable[[int], str], what: str = "time") -> Times:
    """Times as int64 or float64; a missing or infinite one is refused by its row."""
    times = np.asarray(values)
    if times.dtype == object and all(isinstance(time, date) for time in times.reshape(-1)):
        times = times.astype("datetime64[us]")
    if times.dtype.kind == "M":
        if np.isnat(times).any():
            raise InputError(f"{what} is missing in {name_of(int(np.argmax(np.isnat(times))))}")
        return times.astype("datetime64[s]").astype(np.int64)
    if times.dtype.kind not in "iuf" or times.ndim != 1:
        raise InputError(f"{what} needs to be one number or date per edge (got {times.dtype}, shape {times.shape})")
    if times.dtype.kind != "f":
        return times.astype(np.int64)
    times = times.astype(np.float64)
    _refuse(~np.isfinite(times), times, name_of, what, "every edge needs a time, or none")
    return times


def row_name(position: int) -> str:
    """What messages call the row at a position."""
    return f"row {position + 1:,} (the first is 1)"


def distinct(keys: Rows) -> Rows:
    """Keys sorted, each once; numpy's own `unique` hashes first, which takes seven times as long."""
    ordered = np.sort(keys, axis=None)
    first: npt.NDArray[np.bool_] = np.diff(ordered, prepend=ordered[:1] - 1) != 0
    return ordered[first]


def _refuse(
    bad: npt.NDArray[np.bool_], values: npt.NDArray[Any], name_of: Callable[[int], str], what: str, rule: str
) -> None:
    if bad.any():
        position = int(np.argmax(bad))
        value = values[position]
        problem = "missing" if np.isnan(value) else "infinite" if np.isinf(value) else f"negative ({value:g})"
        raise InputError(f"{what} is {problem} in {name_of(position)}: {rule}")


def merge_keys(
    keys: Rows, weights: npt.NDArray[np.float64] | None, times: Times | None
) -> tuple[Rows, npt.NDArray[np.float64] | None, Times | None, int]:
    """Sort keys and join equal ones; also how many went."""
    count = len(keys)
    if not count:
        return keys, weights, times, 0
    if weights is None and times is None:
        merged = distinct(keys)
        return merged, None, None, count - len(merged)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    if weights is not None:
        weights = np.add.reduceat(weights[order], starts)
    if times is not None:
        times = np.minimum.reduceat(times[order], starts)
    return keys[starts], weights, times, count - len(starts)


def single_precision(weights: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float32] | None:
    """Weights as float32, none of them rounded to zero; one that is too large is refused."""
    if weights is None:
        return None
    limits = np.finfo(np.float32)
    if len(weights) and weights.max() > limits.max:
        raise InputError(f"a weight, or a sum of merged ones, is too large ({weights.max():g}): divide the weights")
    single: npt.NDArray[np.float32] = np.maximum(weights, limits.tiny).astype(np.float32)
    return single
