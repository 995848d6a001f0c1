"""The graph: nodes with ids and features, and the edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from yinyan.errors import InputError
from yinyan.feature_matrix import refuse_not_finite
from yinyan.features import FeatureEncoder, Features, SparseFeatures
from yinyan.ids import Ids
from yinyan.wording import counted

__all__ = ["Adjacency", "Graph"]


class Adjacency(NamedTuple):
    """The symmetrised graph in compressed rows: each edge fills a slot at either end."""

    indptr: npt.NDArray[np.int64]  # (num_nodes + 1,)
    indices: npt.NDArray[np.int64]  # (2 num_edges,) the node at the other end
    edge_of_slot: npt.NDArray[np.int64]  # (2 num_edges,) the edge's row in `edges`


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Nodes 0..num_nodes-1 with the caller's ids, and distinct edges between them, without self loops.

    `edges` is (num_edges, 2), sorted by its first and then its second column. Undirected, it holds each pair
    once, the smaller row first; directed, the source first. In a bipartite graph the rows of side 0 come
    before those of side 1, so that the first column is side 0. `notes` says in plain words what was guessed,
    merged or left out.
    """

    ids: Ids
    edges: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32] | None = None
    times: npt.NDArray[np.int64] | npt.NDArray[np.float64] | None = None  # dates are seconds since 1970
    features: Features | None = None
    sides: npt.NDArray[np.int8] | None = None
    directed: bool = False
    feature_encoder: FeatureEncoder | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_edges(self)
        _check_values(self)
        _check_sides(self)

    @classmethod
    def from_table(
        cls,
        edges: Any,
        source: str | int | None = None,
        target: str | int | None = None,
        *,
        weight: str | int | Literal[False] | None = None,
        time: str | int | Literal[False] | None = None,
        nodes: Any = None,
        node_id: str | int | None = None,
        feature_columns: Sequence[str | int] | None = None,
        directed: bool = False,
        bipartite: bool = False,
        prefixes: tuple[str, str] | None = None,
        unmatched: Literal["error", "keep"] = "error",
        id_type: Literal["keep", "text", "integer"] = "keep",
        header: bool = True,
        delimiter: str | None = None,
        encoding: str = "utf-8",
    ) -> Graph:
        """Build a graph from a table of edges and perhaps one of nodes: paths, frames or dicts of columns.

        Columns are given by name or position and guessed where they are not; `weight=False` and `time=False`
        turn that off. Ids read from CSV are text unless `id_type` says otherwise. Repeated edges are merged
        (weights added, the earliest time kept); self loops, edges of weight zero and rows that lack an end are
        dropped; `notes` counts them all. `unmatched="keep"` allows nodes that only one of the two tables knows.
        In a bipartite graph the source column is side 0; `prefixes=("user:", "item:")` keeps equal ids of the
        two sides apart, and the node table then uses the prefixed ids.
        """
        from yinyan.graph_tables import Columns, TableOptions, graph_from_table

        return graph_from_table(
            edges,
            nodes,
            Columns(source, target, weight, time, node_id, feature_columns),
            TableOptions(directed, bipartite, prefixes, unmatched, id_type, header, delimiter, encoding),
        )

    @classmethod
    def from_arrays(
        cls,
        edges: Any,
        *,
        ids: Any = None,
        num_nodes: int | None = None,
        features: Any = None,
        weights: Any = None,
        times: Any = None,
        directed: bool = False,
        sides: Any = None,
    ) -> Graph:
        """Build a graph from pairs of row numbers, (m, 2) or (2, m); a 2 by 2 array is read as two pairs.

        Without `ids` the nodes are called 0, 1, ... Pairs of text ids are taken as well, and looked up in
        `ids` if these are given.
        """
        from yinyan.graph_sources import graph_from_arrays

        return graph_from_arrays(
            edges,
            ids=ids,
            num_nodes=num_nodes,
            features=features,
            weights=weights,
            times=times,
            directed=directed,
            sides=sides,
        )

    @classmethod
    def from_networkx(
        cls, graph: Any, weight: str | None = "weight", time: str | None = None, features: Any = None
    ) -> Graph:
        """Build a graph from a networkx graph; `features` is a matrix or the name of a node attribute."""
        from yinyan.graph_sources import graph_from_networkx

        return graph_from_networkx(graph, weight=weight, time=time, features=features)

    @classmethod
    def from_scipy(cls, matrix: Any, ids: Any = None, features: Any = None, directed: bool | None = None) -> Graph:
        """Build a graph from a square sparse matrix; a symmetric one is undirected unless told otherwise."""
        from yinyan.graph_sources import graph_from_scipy

        return graph_from_scipy(matrix, ids=ids, features=features, directed=directed)

    @classmethod
    def from_pyg(cls, data: Any) -> Graph:
        """Build a graph from a PyTorch Geometric `Data`; undirected if every edge has its reverse."""
        from yinyan.graph_sources import graph_from_pyg

        return graph_from_pyg(data)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.ids)

    @property
    def num_edges(self) -> int:
        """How many edges there are; undirected, each pair counts once."""
        return len(self.edges)

    @property
    def is_bipartite(self) -> bool:
        """Whether the nodes have two sides and every edge joins both."""
        return self.sides is not None

    @cached_property
    def num_left(self) -> int | None:
        """How many nodes side 0 has; None unless bipartite."""
        return None if self.sides is None else int((self.sides == 0).sum())

    @cached_property
    def degrees(self) -> npt.NDArray[np.int64]:
        """The number of edge ends at each node."""
        return np.bincount(self.edges.reshape(-1), minlength=self.num_nodes)

    @cached_property
    def adjacency(self) -> Adjacency:
        """The symmetrised graph in compressed rows."""
        nodes, count = self.num_nodes, self.num_edges
        source, target = self.edges[:, 0], self.edges[:, 1]
        forward = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=nodes))])
        backward = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=nodes))])
        by_target = np.argsort(target, kind="stable")
        indices = np.empty(2 * count, dtype=np.int64)
        edge_of_slot = np.empty(2 * count, dtype=np.int64)
        # A node's row holds the sources of its edges and then their targets: undirected, that is in order.
        slots = np.arange(count) + forward[target[by_target]]
        indices[slots], edge_of_slot[slots] = source[by_target], by_target
        slots = np.arange(count) + backward[source + 1]
        indices[slots], edge_of_slot[slots] = target, np.arange(count)
        return Adjacency(forward + backward, indices, edge_of_slot)

    @cached_property
    def _keys(self) -> npt.NDArray[np.int64]:
        """Each edge as one number; sorted, since the edges are."""
        return self.edges[:, 0] * self.num_nodes + self.edges[:, 1]

    def neighbours(self, row: int) -> npt.NDArray[np.int64]:
        """Return the rows joined to a node by an edge of either direction, sorted."""
        if not 0 <= row < self.num_nodes:
            raise InputError(f"row {row} is out of range (the graph has {self.num_nodes:,} nodes)")
        indptr, indices, _ = self.adjacency
        return np.unique(indices[indptr[row] : indptr[row + 1]])

    def has_edges(self, pairs: Any) -> npt.NDArray[np.bool_]:
        """Say of each pair of rows, (k, 2), whether it is an edge; the order matters only if directed."""
        return self.find_edges(pairs) >= 0

    def find_edges(self, pairs: Any) -> npt.NDArray[np.int64]:
        """Return the place in `edges` of each pair of rows, (k, 2), and -1 where it is no edge."""
        rows = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        if len(rows) and not 0 <= rows.min() <= rows.max() < self.num_nodes:
            raise InputError(f"pairs need rows between 0 and {self.num_nodes - 1:,}")
        if not self.num_edges:
            return np.full(len(rows), -1, dtype=np.int64)
        low, high = (rows[:, 0], rows[:, 1]) if self.directed else (rows.min(axis=1), rows.max(axis=1))
        keys = low * self.num_nodes + high
        places = np.minimum(np.searchsorted(self._keys, keys), self.num_edges - 1)
        return np.where(self._keys[places] == keys, places, -1)

    def with_edges(self, kept: npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]] | Sequence[int]) -> Graph:
        """Return the same nodes with some of the edges, chosen by a mask or by their positions."""
        chosen = np.asarray(kept)
        if chosen.dtype == np.bool_ and chosen.shape != (self.num_edges,):
            raise InputError(f"a mask of edges needs {self.num_edges:,} entries (got shape {chosen.shape})")
        rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else np.unique(chosen.astype(np.int64))
        if len(rows) and not 0 <= rows[0] <= rows[-1] < self.num_edges:
            raise InputError(f"positions of edges need to lie between 0 and {self.num_edges - 1:,}")
        return replace(
            self,
            edges=self.edges[rows],
            weights=None if self.weights is None else self.weights[rows],
            times=None if self.times is None else self.times[rows],
        )

    def describe(self) -> str:
        """Return a short paragraph on the graph, and its notes."""
        parts = [
            f"{self._kind()} graph: {counted(self.num_nodes, 'node')} ({self.ids.kind} ids)",
            counted(self.num_edges, "edge"),
        ]
        if self.num_left is not None:
            parts.append(f"sides of {self.num_left:,} and {self.num_nodes - self.num_left:,} nodes")
        isolated = int((self.degrees == 0).sum())
        parts += [f"{counted(isolated, 'node')} without an edge"] if isolated else []
        parts += ["weighted edges"] if self.weights is not None else []
        parts += ["edge times"] if self.times is not None else []
        if isinstance(self.features, SparseFeatures):
            share = 100 * len(self.features.values) / max(1, self.features.num_rows * self.features.num_columns)
            parts.append(f"{self.features.num_columns:,} features ({share:.2g} % nonzero)")
        else:
            parts.append("no features" if self.features is None else f"{self.features.shape[1]:,} features")
        return "\n".join([", ".join(parts) + ".", *(f"- {note}" for note in self.notes)])

    def __repr__(self) -> str:
        width = None if self.features is None else self.features.shape[1]
        size = f"nodes={self.num_nodes:,}, edges={self.num_edges:,}, features={width}"
        return f"Graph({self._kind().lower()}, {size})"

    def _kind(self) -> str:
        return "Directed" if self.directed else "Bipartite" if self.is_bipartite else "Undirected"


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
    for name, values in (("weights", graph.weights), ("times", graph.times)):
        if values is not None and values.shape != (graph.num_edges,):
            raise InputError(f"{name!r} needs one entry an edge: {graph.num_edges:,} (got shape {values.shape})")
    if graph.weights is not None:
        if graph.weights.dtype != np.float32:
            raise InputError(f"'weights' needs to be float32 (got {graph.weights.dtype})")
        if not (np.isfinite(graph.weights) & (graph.weights > 0)).all():
            raise InputError("'weights' needs to be finite and positive")
    if graph.times is not None and graph.times.dtype not in (np.int64, np.float64):
        raise InputError(f"'times' needs to be int64 or float64 (got {graph.times.dtype})")
    if graph.features is None:
        return
    if isinstance(graph.features, np.ndarray) and graph.features.dtype != np.float32:
        raise InputError(f"'features' needs to be float32 (got {graph.features.dtype})")
    refuse_not_finite(graph.features)
    if graph.features.shape[0] != graph.num_nodes:
        raise InputError(f"'features' needs one row a node: {graph.num_nodes:,} (got {graph.features.shape[0]:,})")


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
