"""The files of an OGB folder: gzipped tables of numbers, and split files of arrays."""

from __future__ import annotations

import itertools
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yinyan.datasets.dataset import refuse_damaged
from yinyan.datasets.pickles import read_torch_pickle
from yinyan.errors import InputError
from yinyan.graph.packed_files import blocks_of, unpacked

__all__ = ["read_matrix", "read_number", "read_part"]


def read_number(path: Path) -> int:
    """Read a table of a single whole number."""
    with refuse_damaged(path, "needs to hold one number"):
        return int(unpacked(path))


def read_matrix(path: Path) -> npt.NDArray[np.float32]:
    """Read a table of numbers without a header, as float32: the largest has 2.9 million rows of 128."""
    import pyarrow as pa
    from pyarrow import csv

    with refuse_damaged(path, "needs rows of numbers, or is damaged"):
        first = b"".join(itertools.islice(blocks_of(path), 1)).partition(b"\n")[0].decode("ascii")
        names = [f"column {place}" for place in range(first.count(",") + 1)]
        deque(blocks_of(path), maxlen=0)  # whole, and not endless
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=names),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float32()), null_values=[]),
        )
    matrix = np.empty((table.num_rows, len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        matrix[:, place] = table[name].to_numpy()
    return matrix


def read_part(path: Path, num_nodes: int) -> dict[str, npt.NDArray[Any]]:
    """Read one part of a split: `pairs`, perhaps `negatives`, `weight` and `year`."""
    held = read_torch_pickle(path)
    if not isinstance(held, dict) or not all(isinstance(values, np.ndarray) for values in held.values()):
        raise InputError(f"'{path}' needs to hold arrays by name (got {type(held).__name__}): fetch it again")
    held = {str(key): values for key, values in held.items()}
    if "edge" in held:
        found = {"pairs": _rows(path, "edge", held, 2, num_nodes)}
        if "edge_neg" in held:
            found["negatives"] = _rows(path, "edge_neg", held, 2, num_nodes)
    else:
        found = _by_source(path, held, num_nodes)
    for key in (key for key in ("weight", "year") if key in held):
        values = held[key].reshape(-1)
        if len(values) != len(found["pairs"]) or values.dtype.kind not in "iuf":
            raise InputError(
                f"'{path}': {key!r} needs one number per pair (got {values.dtype}, shape {held[key].shape})"
            )
        found[key] = values
    return found


def _by_source(path: Path, held: dict[str, npt.NDArray[Any]], num_nodes: int) -> dict[str, npt.NDArray[Any]]:
    """Pairs written as sources and targets; a source's negatives are further targets."""
    source, target = (_rows(path, key, held, None, num_nodes) for key in ("source_node", "target_node"))
    if len(source) != len(target):
        raise InputError(f"'{path}' needs as many targets as sources (got {len(target):,} and {len(source):,})")
    found: dict[str, npt.NDArray[Any]] = {"pairs": np.stack([source, target], axis=1)}
    if "target_node_neg" in held:
        others = _rows(path, "target_node_neg", held, held["target_node_neg"].shape[-1], num_nodes)
        if len(others) != len(source):
            raise InputError(f"'{path}' needs negatives for each of {len(source):,} sources (got {len(others):,})")
        # 86,596 positives with 1,000 negatives each are 0.7 GB in int32, and twice that in int64
        small = num_nodes <= np.iinfo(np.int32).max
        own = np.empty((*others.shape, 2), dtype=np.int32 if small else np.int64)
        own[..., 0], own[..., 1] = source[:, None], others
        found["negatives"] = own
    return found


def _rows(
    path: Path, key: str, held: dict[str, npt.NDArray[Any]], width: int | None, num_nodes: int
) -> npt.NDArray[np.int64]:
    """Node rows by name, checked: `width` columns of them, or a single list."""
    if key not in held:
        raise InputError(f"'{path}' lacks {key!r} (it holds {sorted(held)}): it is not a part of OGB's split")
    rows = held[key]
    expected = (len(rows),) if width is None else (len(rows), width)
    if rows.dtype.kind not in "iu" or rows.shape != expected:
        wanted = "(pairs,)" if width is None else f"(pairs, {width})"
        raise InputError(f"'{path}': {key!r} needs integers of shape {wanted} (got {rows.dtype}, shape {rows.shape})")
    if rows.size and not 0 <= rows.min() <= rows.max() < num_nodes:
        raise InputError(
            f"'{path}': {key!r} needs rows between 0 and {num_nodes - 1:,} (got {rows.min()} to {rows.max()})"
        )
    return rows.astype(np.int64, copy=False)
