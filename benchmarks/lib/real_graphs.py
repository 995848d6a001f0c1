"""Real graphs of different kinds: data sets by name, and a part of one."""

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


def _ddi(folder: Path) -> Graph:
    """The edges among some nodes of ogbl-ddi."""
    with gzip.open(folder / "ogbl_ddi" / "raw" / "edge.csv.gz", "rt") as file:
        pairs = np.loadtxt(file, dtype=np.int64, delimiter=",")
    chosen = np.sort(np.random.default_rng(0).choice(int(pairs.max()) + 1, DDI_NODES, replace=False))
    place = np.full(int(pairs.max()) + 1, -1)
    place[chosen] = np.arange(DDI_NODES)
    inside = place[pairs][(place[pairs] >= 0).all(axis=1)]
    return Graph.from_arrays(np.unique(np.sort(inside, axis=1), axis=0), num_nodes=DDI_NODES)


_READERS: dict[str, Callable[[Path], Graph]] = {"ddi-1000": _ddi}
