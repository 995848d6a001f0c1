"""What a loaded data set is: a graph, the split it comes with and the metric it is judged by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.splits import Parts

__all__ = ["Dataset", "Size", "check_size", "packaged", "refuse_damaged"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph, and its fixed split if it comes with one."""

    name: str  # as for `load`
    graph: Graph  # with the edges of all parts
    parts: Parts | None  # the fixed split
    metric: str  # the usual one: 'hits@20', 'hits@50', 'hits@100', 'mrr' or 'ndcg@20' (full ranking)
    notes: tuple[str, ...] = ()  # what was dropped or corrected
    self_loops: npt.NDArray[np.int64] | None = None  # rows of nodes with a self loop in the raw data
    leaks: str = ""  # known leaks of the fixed split, in words


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


@contextmanager
def refuse_damaged(path: Path, problem: str) -> Iterator[None]:
    """Within, any error is a problem of the file that is read: damaged files raise almost anything."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"'{path}' {problem} ({error}): fetch it again") from error


def packaged(package: str, path: str) -> Path | None:
    """A file or folder within an installed package, which is found by path and never imported."""
    spec = find_spec(package)
    found = (Path(folder) / path for folder in (spec.submodule_search_locations if spec else None) or ())
    return next((place for place in found if place.exists()), None)
