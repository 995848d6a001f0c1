"""The whole graph of a prepared folder and its split, in one process: what a model is saved with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yinyan.distributed.prepared import ROLES, Manifest, read_part
from yinyan.graph import Graph
from yinyan.graph.ids import Ids
from yinyan.splits import Split

__all__ = ["whole_split"]

Rows = NDArray[np.int64]


def whole_split(manifest: Manifest, valid_negatives: Rows, seed: int) -> tuple[Split, Rows]:
    """The split of the whole graph, and (n,) the row of the folder that each of its rows was.

    Rows keep the order of the folder, but for the left side of a bipartite graph, which comes first.
    `valid_negatives` are pairs of rows of the folder.
    """
    part = read_part(manifest, range(manifest.num_parts))
    order = np.arange(manifest.num_nodes)
    if part.left is not None:
        order = np.argsort(~part.left, kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    once = part.forward if part.forward is not None else number[part.row] < number[part.neighbour]
    edges = np.stack([number[part.row[once]], number[part.neighbour[once]]], axis=1)
    sorted_ = np.lexsort((edges[:, 1], edges[:, 0]))
    chosen = np.flatnonzero(once)[sorted_]
    sides = None if part.left is None else (~part.left[order]).astype(np.int8)
    graph = Graph(
        ids=Ids.from_values(part.ids).select(order),
        edges=edges[sorted_],
        weights=None if part.weight is None else part.weight[chosen],
        times=None if part.time is None else part.time[chosen],
        features=None if part.features is None else part.features[order],
        sides=sides,
        directed=manifest.directed,
    )
    return _split(graph, manifest, part.role[chosen], number[valid_negatives], seed), order


def _split(graph: Graph, manifest: Manifest, role: NDArray[np.int8], valid_negatives: Rows, seed: int) -> Split:
    train, valid, test = (np.flatnonzero(role == ROLES[name]) for name in ("train", "valid", "test"))
    protocol = manifest.protocol
    return Split(
        graph=graph,
        protocol=protocol,
        seed=seed,
        train_targets=graph.edges[train],
        valid_targets=graph.edges[valid],
        test_targets=graph.edges[test],
        train_messages=train,
        valid_messages=train,
        test_messages=np.arange(graph.num_edges) if protocol == "holdout" else train,
        known_in_training=train,
        valid_negatives=valid_negatives,
        test_negatives=np.empty((0, 2), np.int64),
        words=f"as prepared in {manifest.num_parts} parts",
    )
