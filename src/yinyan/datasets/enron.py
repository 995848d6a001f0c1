"""email-Enron: who wrote to whom in a company."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from yinyan.datasets.dataset import Size, refuse_damaged
from yinyan.graph import Graph
from yinyan.graph.packed_files import unpacked

__all__ = ["FILE", "SIZE", "read_enron"]

FILE = "email-Enron.txt.gz"  # SNAP's
SIZE = Size(nodes=36_692, edges=183_831)


def read_enron(path: Path) -> Graph:
    """Read lines of two people's numbers, every pair both ways: an undirected graph without features."""
    with refuse_damaged(path, "needs lines of two numbers, compressed with gzip"):
        lines = [line.split() for line in unpacked(path).decode("ascii").splitlines() if not line.startswith("#")]
        pairs = np.array(lines, dtype=np.int64)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.min() < 0:
            raise ValueError("got other lines")
        return Graph.from_arrays(np.unique(np.sort(pairs, axis=1), axis=0))
