"""What a loaded data set is: a graph, the split it comes with and the metric it is judged by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.parts import Parts

__all__ = ["Dataset", "Size", "check_size"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph and, where its makers fixed one, its split; `notes` says what was dropped or mended."""

    name: str
    graph: Graph
    parts: Parts | None
    metric: str  # the usual one: 'hits@20', 'hits@50', 'hits@100' or 'mrr'
    notes: tuple[str, ...] = ()
    self_loops: npt.NDArray[np.int64] | None = None  # nodes that the raw data link to themselves
    leaks: str = ""  # of the fixed split, where its makers know and mean them


@dataclass(frozen=True)
class Size:
    """The published size of a data set."""

    nodes: int
    edges: int | None = None  # of the graph, each pair once
    features: int | None = None
    parts: tuple[int, int, int] | None = None  # pairs for training, validation and test


def check_size(name: str, graph: Graph, parts: Parts | None, size: Size) -> None:
    """Refuse data whose size is not the published one: they are damaged, or of another version."""
    width = None if graph.features is None else graph.features.shape[1]
    counts = None if parts is None else (len(parts.train), len(parts.valid), len(parts.test))
    for what, got, expected in (
        ("nodes", graph.num_nodes, size.nodes),
        ("edges", graph.num_edges, size.edges),
        ("features", width, size.features),
        ("pairs for training, validation and test", counts, size.parts),
    ):
        if expected is not None and got != expected:
            raise InputError(
                f"{name!r} has {_counts(got)} {what}, but {_counts(expected)} were published: its files are "
                "damaged or of another version (delete and fetch them again)"
            )


def _counts(value: int | tuple[int, int, int] | None) -> str:
    if value is None:
        return "no"
    return f"{value:,}" if isinstance(value, int) else " + ".join(f"{count:,}" for count in value)
