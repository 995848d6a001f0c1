"""Real graphs of different kinds: data sets by name, and files that are no data set of the package."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lib import common
from yinyan import Graph

DDI_NODES = 1_000  # of ogbl-ddi, drawn at random


def load_graph(name: str, *, smoke: bool) -> Graph:
    """The graph of a name, or for a smoke run a small one of the same kind."""
    if smoke or name not in _READERS:
        return common.load_data(name, smoke=smoke).graph
    if "YINYAN_DATA" not in os.environ:
        raise SystemExit(f"YINYAN_DATA needs to name the folder that holds '{name}'; --smoke needs no data")
    return _READERS[name](Path(os.environ["YINYAN_DATA"]).expanduser())


def _enron(folder: Path) -> Graph:
    with gzip.open(folder / "enron" / "email-Enron.txt.gz", "rt") as file:
        pairs = np.loadtxt(file, dtype=np.int64, comments="#")
    return Graph.from_arrays(np.unique(np.sort(pairs, axis=1), axis=0))


def _fb15k(folder: Path) -> Graph:
    """FB15k-237 without the types of its edges: an entity points to another one, in whatever relation."""
    rows: dict[str, int] = {}
    pairs = []
    for part in ("train", "valid", "test"):
        with gzip.open(folder / "kg" / "fb15k-237" / f"{part}.txt.gz", "rt") as file:
            for line in file:
                head, _, tail = line.rstrip("\n").split("\t")
                pairs.append((rows.setdefault(head, len(rows)), rows.setdefault(tail, len(rows))))
    edges = np.unique(np.array(pairs), axis=0)
    return Graph.from_arrays(edges[edges[:, 0] != edges[:, 1]], num_nodes=len(rows), directed=True)


def _ddi(folder: Path) -> Graph:
    """The edges among some nodes of ogbl-ddi."""
    with gzip.open(folder / "ogbl_ddi" / "raw" / "edge.csv.gz", "rt") as file:
        pairs = np.loadtxt(file, dtype=np.int64, delimiter=",")
    chosen = np.sort(np.random.default_rng(0).choice(int(pairs.max()) + 1, DDI_NODES, replace=False))
    place = np.full(int(pairs.max()) + 1, -1)
    place[chosen] = np.arange(DDI_NODES)
    inside = place[pairs][(place[pairs] >= 0).all(axis=1)]
    return Graph.from_arrays(np.unique(np.sort(inside, axis=1), axis=0), num_nodes=DDI_NODES)


_READERS: dict[str, Callable[[Path], Graph]] = {"email-enron": _enron, "fb15k-237": _fb15k, "ddi-1000": _ddi}
