"""The whole graph of a prepared folder, in one process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yinyan.distributed.prepared import Manifest, read_part
from yinyan.graph import Graph
from yinyan.graph.features import features_from_matrix
from yinyan.graph.ids import Ids

__all__ = ["WholeGraph", "whole_graph"]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class WholeGraph:
    """The graph of a prepared folder.

    Rows keep the order of the folder, but for the left side of a bipartite graph, which comes first.
    """

    graph: Graph
    roles: NDArray[np.int8]  # of the edges
    order: Rows  # (n,) the row of the folder that each row of the graph was


def whole_graph(manifest: Manifest, *, verify: bool = True) -> WholeGraph:
    """Read all parts as one graph."""
    part = read_part(manifest, range(manifest.num_parts), once=True, verify=verify)
    order = np.arange(manifest.num_nodes)
    row, neighbour, sides = part.row, part.neighbour, None
    turned = np.zeros(row.size, dtype=np.bool_)
    if part.left is not None:
        order = np.argsort(~part.left, kind="stable")
        number = np.empty_like(order)
        number[order] = np.arange(order.size)
        row, neighbour, sides = number[row], number[neighbour], (~part.left[order]).astype(np.int8)
        turned = row > neighbour
    elif part.forward is not None:
        turned = ~part.forward
    source, target = np.where(turned, neighbour, row), np.where(turned, row, neighbour)
    sort = np.argsort(source * manifest.num_nodes + target)
    graph = Graph(
        ids=Ids.from_values(part.ids).select(order),
        edges=np.stack([source[sort], target[sort]], axis=1),
        weights=None if part.weight is None else part.weight[sort],
        times=None if part.time is None else part.time[sort],
        features=None if part.features is None else features_from_matrix(part.features[order], order.size),
        sides=sides,
        directed=manifest.directed,
        feature_encoder=manifest.encoder(),
    )
    return WholeGraph(graph, part.role[sort], order)
