"""What the arrays of a graph have to be like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from yinyan.errors import InputError
from yinyan.graph.feature_matrix import refuse_not_finite

if TYPE_CHECKING:
    from yinyan.graph.graph import Graph

__all__ = ["check_graph"]


def check_graph(graph: Graph) -> None:
    """Refuse arrays that do not describe a graph."""
    _check_edges(graph)
    _check_values(graph)
    _check_sides(graph)


def _check_edges(graph: Graph) -> None:
    pairs = graph.edges
    if not isinstance(pairs, np.ndarray) or pairs.dtype != np.int64 or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError("'edges' needs to be an int64 array of shape (num_edges, 2): see Graph.from_arrays")
    if not len(pairs):
        return
    if not 0 <= pairs.min() <= pairs.max() < graph.num_nodes:
        raise InputError(f"'edges' needs rows between 0 and {graph.num_nodes - 1:,}")
    wrong = pairs[:, 0] == pairs[:, 1] if graph.directed else pairs[:, 0] >= pairs[:, 1]
    if wrong.any() or (np.diff(graph._keys) <= 0).any():
        raise InputError("'edges' needs to be sorted and distinct, without self loops: see Graph.from_arrays")


def _check_values(graph: Graph) -> None:
    if graph.attributes is not None and len(graph.attributes) != graph.num_nodes:
        raise InputError(f"'attributes' needs one row per node: {graph.num_nodes:,} (got {len(graph.attributes):,})")
    for name, values in (("weights", graph.weights), ("times", graph.times)):
        if values is not None and values.shape != (graph.num_edges,):
            raise InputError(f"{name!r} needs one entry per edge: {graph.num_edges:,} (got shape {values.shape})")
    if graph.weights is not None:
        if graph.weights.dtype != np.float32:
            raise InputError(f"'weights' needs to be float32 (got {graph.weights.dtype})")
        if not (np.isfinite(graph.weights) & (graph.weights > 0)).all():
            raise InputError("'weights' needs to be finite and positive")
    if graph.times is not None and graph.times.dtype not in (np.int64, np.float64):
        raise InputError(f"'times' needs to be int64 or float64 (got {graph.times.dtype})")
    _check_edge_features(graph)
    if graph.features is None:
        return
    if isinstance(graph.features, np.ndarray) and graph.features.dtype != np.float32:
        raise InputError(f"'features' needs to be float32 (got {graph.features.dtype})")
    refuse_not_finite(graph.features)
    if graph.features.shape[0] != graph.num_nodes:
        raise InputError(f"'features' needs one row per node: {graph.num_nodes:,} (got {graph.features.shape[0]:,})")


def _check_edge_features(graph: Graph) -> None:
    values = graph.edge_features
    if values is None:
        return
    if values.dtype != np.float32 or values.ndim != 2 or len(values) != graph.num_edges or not values.shape[1]:
        raise InputError(
            f"'edge_features' needs to be float32 of shape ({graph.num_edges:,}, c) with c of at least 1 (got "
            f"{values.dtype}, shape {values.shape})"
        )
    if not np.isfinite(values).all():
        raise InputError("'edge_features' needs to be finite")


def _check_sides(graph: Graph) -> None:
    sides = graph.sides
    if sides is None:
        return
    if graph.directed:
        raise InputError("a graph is either directed or bipartite: edges of a bipartite one run from side 0 to side 1")
    if sides.dtype != np.int8 or sides.shape != (graph.num_nodes,) or not np.isin(sides, (0, 1)).all():
        raise InputError(f"'sides' needs to be int8, 0 or 1 for each of the {graph.num_nodes:,} nodes")
    if (np.diff(sides) < 0).any():
        raise InputError("'sides' needs the nodes of side 0 before those of side 1: see Graph.from_arrays")
    if not (sides[graph.edges] == (0, 1)).all():
        raise InputError("every edge of a bipartite graph needs to join side 0 and side 1")
