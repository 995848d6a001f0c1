"""The fixed splits of the HeaRT benchmark, with their uniform negatives or their hard ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yinyan.datasets.dataset import refuse_damaged
from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.splits import Parts
from yinyan.text import counted

__all__ = ["FILES", "HARD_FILES", "read_heart"]

FILES = tuple(f"{part}_{kind}.txt" for part in ("train", "valid", "test") for kind in ("pos", "neg"))
HARD_FILES = ("heart_valid_samples.npy", "heart_test_samples.npy")


def read_heart(folder: Path, graph: Graph, *, hard: bool) -> tuple[Graph, Parts]:
    """Read a split of `graph`; `hard` takes each positive's own negatives instead of the uniform ones."""
    notes: list[str] = []
    positives, kept = {}, {}
    for part in ("train", "valid", "test"):
        rows = _pairs(folder / f"{part}_pos.txt", graph)
        kept[part] = rows[:, 0] != rows[:, 1]
        positives[part] = rows[kept[part]]
        loops = int((~kept[part]).sum())
        notes += [f"dropped {counted(loops, 'row')} of {part}_pos.txt with both ends alike"] if loops else []
    _check_edges(folder, graph, np.concatenate([*positives.values()]))
    negatives = {part: _pairs(folder / f"{part}_neg.txt", graph) for part in ("train", "valid", "test")}
    if hard:
        for part, file in zip(("valid", "test"), HARD_FILES, strict=True):
            negatives[part] = _samples(folder / file, graph, kept[part])
    parts = Parts(**positives, **{f"{part}_negatives": pairs for part, pairs in negatives.items()})
    return replace(graph, notes=(*graph.notes, *notes)), parts


def _pairs(path: Path, graph: Graph) -> npt.NDArray[np.int64]:
    with refuse_damaged(path, "needs two node numbers a line"):
        rows = np.loadtxt(path, dtype=np.int64, ndmin=2)
        if rows.shape[1] != 2:
            raise ValueError(f"got {rows.shape[1]}")
    return _within(path, rows, graph)


def _samples(path: Path, graph: Graph, kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    with refuse_damaged(path, "is not an array of numbers, or is damaged"):
        held = np.load(path, allow_pickle=False)
    if not isinstance(held, np.ndarray) or held.dtype.kind not in "iu" or held.ndim != 3 or held.shape[0] != len(kept):
        shape = f"{held.dtype}, shape {held.shape}" if isinstance(held, np.ndarray) else type(held).__name__
        raise InputError(f"'{path}' needs integers of shape ({len(kept):,}, negatives, 2) (got {shape})")
    return _within(path, held[kept].astype(np.int64), graph)


def _within(path: Path, rows: npt.NDArray[Any], graph: Graph) -> npt.NDArray[np.int64]:
    if rows.size and not 0 <= rows.min() <= rows.max() < graph.num_nodes:
        raise InputError(
            f"'{path}' needs node numbers between 0 and {graph.num_nodes - 1:,} (got {rows.min()} to {rows.max()}): "
            "it belongs to another graph"
        )
    return rows


def _check_edges(folder: Path, graph: Graph, pairs: npt.NDArray[np.int64]) -> None:
    distinct = np.unique(np.sort(pairs, axis=1), axis=0)
    if len(distinct) != len(pairs):
        raise InputError(f"the split in '{folder}' holds {len(pairs) - len(distinct):,} of its links twice")
    known = graph.has_edges(distinct)
    if not known.all() or len(distinct) != graph.num_edges:
        raise InputError(
            f"the split in '{folder}' is not of this graph: {int((~known).sum()):,} of its {len(distinct):,} links are "
            f"no edges, and {graph.num_edges - int(known.sum()):,} edges are in no part of it"
        )
