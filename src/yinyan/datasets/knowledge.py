"""FB15k-237 and WN18RR without the types of their edges: an entity points to another one, in whatever relation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from yinyan.datasets.dataset import Size, refuse_damaged
from yinyan.graph import Graph
from yinyan.graph.packed_files import unpacked
from yinyan.text import counted

__all__ = ["FILES", "SIZES", "read_knowledge"]

FILES = ("train.txt.gz", "valid.txt.gz", "test.txt.gz")

SIZES = {
    "fb15k-237": Size(nodes=14_541, edges=282_551),  # of 310,116 triples
    "wn18rr": Size(nodes=40_943, edges=92_870),  # of 93,003
}


def read_knowledge(folder: Path) -> Graph:
    """Read the triples of all parts: a directed graph with the entities' names as ids, in the order of the files.

    The parts that the data come with are not kept: without types, pairs of one stand in another.
    """
    rows: dict[str, int] = {}
    pairs = []
    for name in FILES:
        with refuse_damaged(folder / name, "needs lines of head, relation and tail between tabs, compressed with gzip"):
            for line in unpacked(folder / name).decode("utf-8").splitlines():
                head, _, tail = line.split("\t")
                pairs.append((rows.setdefault(head, len(rows)), rows.setdefault(tail, len(rows))))
    edges = np.unique(np.array(pairs, dtype=np.int64).reshape(-1, 2), axis=0)
    kept = edges[edges[:, 0] != edges[:, 1]]
    graph = Graph.from_arrays(kept, num_nodes=len(rows), ids=list(rows), directed=True)
    notes = [f"{counted(len(pairs), 'triple')} became {counted(len(kept), 'edge')} without types"]
    if len(kept) < len(edges):
        notes.append(f"dropped {counted(len(edges) - len(kept), 'self loop')}")
    return replace(graph, notes=(*graph.notes, *notes))
