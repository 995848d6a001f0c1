"""Users and the items they chose, with a fixed split: the data sets of recommender systems."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yinyan.datasets.dataset import Size, refuse_damaged
from yinyan.graph import Graph
from yinyan.graph.packed_files import unpacked
from yinyan.splits import Parts
from yinyan.text import counted

__all__ = ["LAYOUTS", "Layout", "read_recommender"]


@dataclass(frozen=True)
class Layout:
    """How the files of a data set are written, and its size."""

    parts: tuple[str, ...]  # of train, valid and test: those that have a file
    lists: bool  # whether a line is a user and all of its items, or a user, an item and a 1
    size: Size

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(f"{part}.txt.gz" for part in self.parts)


LAYOUTS = {
    "citeulike": Layout(
        ("train", "valid", "test"),
        lists=False,
        size=Size(nodes=5_551 + 16_980, edges=210_504, parts=(151_895, 18_727, 39_882)),
    ),
    "amazon-beauty": Layout(
        ("train", "valid", "test"),
        lists=False,
        size=Size(nodes=52_204 + 57_289, edges=394_908, parts=(284_530, 29_796, 80_582)),
    ),
    "ml-1m": Layout(
        ("train", "test"), lists=True, size=Size(nodes=6_039 + 3_614, edges=755_581, parts=(590_733, 0, 164_848))
    ),
}


def read_recommender(folder: Path, layout: Layout) -> tuple[Graph, Parts]:
    """Read a bipartite graph of users (side 0) and items, ids 'user:0' and 'item:0', and its split.

    Nodes are all users and items of any part, in the order of their numbers. A data set without a file for validation
    has an empty part: see `splits.with_validation`.
    """
    notes: list[str] = []
    chosen = {part: np.empty((0, 2), dtype=np.int64) for part in ("train", "valid", "test")}
    for part in layout.parts:
        path = folder / f"{part}.txt.gz"
        rows = _lists(path) if layout.lists else _pairs(path)
        _, first = np.unique(rows, axis=0, return_index=True)
        repeats = len(rows) - len(first)
        notes += [f"dropped {counted(repeats, 'repeated interaction')} of {path.name}"] if repeats else []
        chosen[part] = rows[np.sort(first)]
    users, items = (np.unique(np.concatenate([pairs[:, end] for pairs in chosen.values()])) for end in (0, 1))
    numbered = {
        part: np.stack(
            [np.searchsorted(users, pairs[:, 0]), np.searchsorted(items, pairs[:, 1]) + len(users)], axis=1
        ).astype(np.int64)
        for part, pairs in chosen.items()
    }
    graph = Graph.from_arrays(
        np.concatenate([*numbered.values()]),
        ids=[f"user:{user}" for user in users.tolist()] + [f"item:{item}" for item in items.tolist()],
        sides=np.repeat([0, 1], [len(users), len(items)]),
    )
    return replace(graph, notes=(*graph.notes, *notes)), Parts(**numbered)


def _pairs(path: Path) -> npt.NDArray[np.int64]:
    """Lines of user, item and 1."""
    with refuse_damaged(path, "needs lines of a user number, an item number and a 1, compressed with gzip"):
        lines = unpacked(path).decode("ascii").splitlines()
        rows = np.array([line.split() for line in lines], dtype=np.int64)
        if rows.ndim != 2 or rows.shape[1] != 3 or (rows[:, 2] != 1).any() or rows.min() < 0:
            raise ValueError("got other numbers" if len(rows) else "got none")
    return rows[:, :2]


def _lists(path: Path) -> npt.NDArray[np.int64]:
    """Lines of a user and all of its items."""
    with refuse_damaged(path, "needs lines of a user number and the numbers of its items, compressed with gzip"):
        lines = [np.array(line.split(), dtype=np.int64) for line in unpacked(path).decode("ascii").splitlines() if line]
        users = np.repeat([line[0] for line in lines], [line.size - 1 for line in lines])
        rows = np.stack([users, np.concatenate([line[1:] for line in lines])], axis=1)
        if not len(rows) or rows.min() < 0:
            raise ValueError("got negative numbers" if len(rows) else "got no items")
    return rows
