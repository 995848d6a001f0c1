"""The graph: nodes with ids and features, and the edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from yinyan.errors import InputError
from yinyan.graph import constructors
from yinyan.graph.attributes import Attributes
from yinyan.graph.checks import check_graph
from yinyan.graph.column_report import ColumnReport
from yinyan.graph.feature_matrix import column_means, column_range
from yinyan.graph.features import FeatureEncoder, Features, SparseFeatures
from yinyan.graph.ids import Id, Ids
from yinyan.graph.labels import LabelFinder, rows_by_name, rows_of_texts
from yinyan.text import counted, html_facts

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from yinyan.graph.moments import Moment

__all__ = ["Adjacency", "Graph"]


class Adjacency(NamedTuple):
    """The symmetrised graph in compressed rows: each edge fills a slot at either end."""

    indptr: npt.NDArray[np.int64]  # (num_nodes + 1,)
    indices: npt.NDArray[np.int64]  # (2 num_edges,) the node at the other end
    edge_of_slot: npt.NDArray[np.int64]  # (2 num_edges,) the edge's row in `edges`


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Nodes 0..num_nodes-1 with the caller's ids, and distinct edges between them, without self loops.

    Make one with `from_table`, `from_arrays`, `from_networkx`, `from_scipy` or `from_pyg`. Rows of `edges` are sorted.
    An undirected graph holds each pair once, the smaller row first; a directed one the source first. In a bipartite
    graph the nodes of side 0 come before those of side 1, so that the first column of `edges` is side 0.

    Raises
    ------
    InputError
        If the arrays do not describe a graph.

    Examples
    --------
    >>> from yinyan import Graph
    >>> Graph.from_arrays([("a", "b"), ("b", "c")]).num_edges
    2
    """

    ids: Ids  # the caller's ids, in the order of rows
    edges: npt.NDArray[np.int64]  # (num_edges, 2) rows, sorted
    weights: npt.NDArray[np.float32] | None = None  # (num_edges,) positive
    times: npt.NDArray[np.int64] | npt.NDArray[np.float64] | None = None  # (num_edges,), dates in seconds since 1970
    features: Features | None = None  # (num_nodes, c), dense or sparse
    sides: npt.NDArray[np.int8] | None = None  # (num_nodes,) 0 or 1; None unless bipartite
    directed: bool = False  # whether edges have a direction
    feature_encoder: FeatureEncoder | None = None  # turns the columns of new nodes into features
    notes: tuple[str, ...] = ()  # what was guessed, merged or dropped
    columns: ColumnReport = field(default_factory=ColumnReport)  # what each column of the tables became
    attributes: Attributes | None = None  # columns of the node table to show and to filter by, a label among them
    edge_features: npt.NDArray[np.float32] | None = None  # (num_edges, c) from which weights in messages are learned
    edge_encoder: FeatureEncoder | None = None  # turns the columns of an edge table into edge features

    def __post_init__(self) -> None:
        check_graph(self)

    # -- making one: the docstrings are in constructors.py ---------------------------------------------------

    from_table = classmethod(constructors.from_table)
    from_tables = classmethod(constructors.from_tables)
    from_triples = classmethod(constructors.from_triples)
    from_arrays = classmethod(constructors.from_arrays)
    from_networkx = classmethod(constructors.from_networkx)
    from_igraph = classmethod(constructors.from_igraph)
    from_scipy = classmethod(constructors.from_scipy)
    from_pyg = classmethod(constructors.from_pyg)

    def with_attributes(
        self, nodes: Any, *, node_id: str | int | None = None, label: str | int | Literal[False] | None = None
    ) -> Graph:
        """Return the same graph with labels and attributes from a table of nodes.

        Parameters
        ----------
        nodes
            The table: a path, a data frame, an Arrow table or a dict of columns. Rows of other nodes are left out.
            None removes labels and attributes.
        node_id
            Column of ids; guessed by names and content unless given.
        label
            Column of labels; guessed unless given, False for none.

        Returns
        -------
        Graph
            The graph with other `attributes`.

        Raises
        ------
        InputError
            If the table cannot be read, or holds no node of the graph.

        Examples
        --------
        >>> named = graph.with_attributes({"id": [0, 1], "name": ["Ada", "Bob"]})
        >>> named.labels_of([0, 1, 2])
        ['Ada', 'Bob', None]
        """
        if nodes is None:
            return replace(self, attributes=None)
        from yinyan.graph.label_tables import read_attributes

        return replace(self, attributes=read_attributes(self.ids, nodes, node_id, label))

    @property
    def label_column(self) -> str | None:
        """The name of the column of labels; None where there are none."""
        return None if self.attributes is None else self.attributes.label

    def labels_of(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> list[str | None] | None:
        """Return the labels of some rows.

        Parameters
        ----------
        rows
            Rows of nodes.

        Returns
        -------
        list or None
            A text for each row, None where a node has no label; None where the graph has no labels at all.

        Examples
        --------
        >>> graph.labels_of([0]) is None
        True
        """
        return None if self.attributes is None else self.attributes.labels_of(np.asarray(rows, dtype=np.int64))

    @cached_property
    def label_finder(self) -> LabelFinder | None:
        """What finds rows by label; None where there are no labels."""
        labels = None if self.attributes is None else self.attributes.labels
        return None if labels is None else LabelFinder(labels)

    def rows_of(self, nodes: Sequence[Id]) -> npt.NDArray[np.int64]:
        """Return the row of each node, given by id, or by a label where there is no such id.

        A label counts if it is that of one node: exactly, or without regard to case.

        Parameters
        ----------
        nodes
            Ids or labels. An id always wins over a label.

        Returns
        -------
        numpy.ndarray
            (len(nodes),) rows.

        Raises
        ------
        UnknownNodeError
            If a name is neither an id nor a label; the message has the nearest of both.
        InputError
            If a label is that of several nodes.

        Examples
        --------
        >>> named = graph.with_attributes({"id": [7, 8], "name": ["Ada", "Bob"]})
        >>> named.rows_of([0, "Ada", "bob"])
        array([0, 7, 8])
        """
        return rows_by_name(nodes, self.ids.find, self.ids, self.ids.__getitem__, self.label_finder)

    def parse(self, text: str) -> Id:
        """Return the id of the node that some text means: an id, an integer id, or a label, in this order.

        Parameters
        ----------
        text
            What was typed.

        Returns
        -------
        int or str
            The id.

        Raises
        ------
        UnknownNodeError
            If the text is neither an id nor a label.
        InputError
            If it is the label of several nodes.

        Examples
        --------
        >>> graph.parse("12")
        12
        """
        return self.ids[int(rows_of_texts(self, [text])[0])]

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
    def feature_range(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]] | None:
        """The least and the largest value of each feature; None where there are none."""
        return None if self.features is None or not self.num_nodes else column_range(self.features)

    @cached_property
    def feature_means(self) -> npt.NDArray[np.float32] | None:
        """The mean of each feature; None where there are none."""
        return None if self.features is None else column_means(self.features)

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
        """Return the rows joined to a node by an edge of either direction, sorted.

        Parameters
        ----------
        row
            The row of a node.

        Returns
        -------
        numpy.ndarray
            Rows of its neighbours.

        Raises
        ------
        InputError
            If there is no such row.

        Examples
        --------
        >>> bool(graph.has_edges([(0, other) for other in graph.neighbours(0)]).all())
        True
        """
        if not 0 <= row < self.num_nodes:
            raise InputError(f"row {row} is out of range (the graph has {self.num_nodes:,} nodes)")
        indptr, indices, _ = self.adjacency
        return np.unique(indices[indptr[row] : indptr[row + 1]])

    def has_edges(self, pairs: Any) -> npt.NDArray[np.bool_]:
        """Return for each pair of rows whether it is an edge.

        Parameters
        ----------
        pairs
            (k, 2) rows; their order matters only in a directed graph.

        Returns
        -------
        numpy.ndarray
            (k,) booleans.

        Raises
        ------
        InputError
            If a row is out of range.

        Examples
        --------
        >>> graph.has_edges(graph.edges[:2])
        array([ True,  True])
        """
        return self.find_edges(pairs) >= 0

    def find_edges(self, pairs: Any) -> npt.NDArray[np.int64]:
        """Return the position in `edges` of each pair of rows.

        Parameters
        ----------
        pairs
            (k, 2) rows; their order matters only in a directed graph.

        Returns
        -------
        numpy.ndarray
            (k,) positions; -1 where a pair is no edge.

        Raises
        ------
        InputError
            If a row is out of range.

        Examples
        --------
        >>> graph.find_edges([graph.edges[3], (0, 0)])
        array([ 3, -1])
        """
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
        """Return a graph of the same nodes with some of the edges.

        Parameters
        ----------
        kept
            A mask over the edges, or positions in `edges`.

        Returns
        -------
        Graph
            The smaller graph.

        Raises
        ------
        InputError
            If the mask has another length, or a position is out of range.

        Examples
        --------
        >>> graph.with_edges([0, 1, 2]).num_edges
        3
        """
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
            edge_features=None if self.edge_features is None else self.edge_features[rows],
        )

    def as_of(self, time: Moment) -> Graph:
        """Return the graph as it was at a moment: no later edge, and no node whose edges are all later.

        Nodes without any edge stay. Features and attributes of nodes have no times: they are taken as they are.

        Parameters
        ----------
        time
            A number in the unit of `times`, or a date or its text. Edges at that very moment are kept; a date is its
            first second.

        Returns
        -------
        Graph
            The smaller graph, with a note on what was left out.

        Raises
        ------
        InputError
            If the edges have no times, `time` is no moment, or no edge is as early.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_arrays([(0, 1), (1, 2)], times=[2020, 2024]).as_of(2022)
        Graph(undirected, nodes=2, edges=1, features=None)
        """
        from yinyan.graph.moments import seen_by

        return seen_by(self, time)

    def to_networkx(self) -> nx.Graph:
        """Return the same graph as a NetworkX graph, without features.

        Returns
        -------
        networkx.Graph or networkx.DiGraph
            Nodes are ids, with their attributes, and with `bipartite` 0 or 1 if there are two sides. Edges have
            `weight` and `time` if the graph has them.

        Raises
        ------
        MissingExtraError
            If networkx is not installed.

        Examples
        --------
        >>> graph.to_networkx().number_of_edges() == graph.num_edges
        True
        """
        from yinyan.graph.to_objects import graph_to_networkx

        return graph_to_networkx(self)

    def to_igraph(self) -> Any:
        """Return the same graph as a graph of igraph, without features.

        Returns
        -------
        igraph.Graph
            The vertex attribute `name` holds the ids, `type` the sides; further attributes are those of the nodes.
            Edges have `weight` and `time` if the graph has them.

        Raises
        ------
        MissingExtraError
            If igraph is not installed.

        Examples
        --------
        >>> graph.to_igraph().ecount() == graph.num_edges
        True
        """
        from yinyan.graph.to_objects import graph_to_igraph

        return graph_to_igraph(self)

    def to_arrays(self) -> dict[str, Any]:
        """Return NumPy arrays as graph libraries take them, such as PyTorch Geometric and DGL.

        Returns
        -------
        dict
            `edge_index`, (2, m) row numbers, with undirected edges in both directions; `num_nodes`; `id`, a list. If
            the graph has them also `x` (features), `edge_weight`, `time` and `side`.

        Examples
        --------
        >>> source, target = graph.to_arrays()["edge_index"]
        >>> len(source) == 2 * graph.num_edges
        True
        """
        from yinyan.graph.to_objects import graph_to_arrays

        return graph_to_arrays(self)

    def to_pyg(self) -> Any:
        """Return the graph as a PyTorch Geometric `Data`.

        Returns
        -------
        torch_geometric.data.Data
            With what `to_arrays` lists, as tensors.

        Raises
        ------
        MissingExtraError
            If PyTorch Geometric is not installed.

        Examples
        --------
        >>> graph.to_pyg().num_nodes == graph.num_nodes
        True
        """
        from yinyan.graph.to_objects import graph_to_pyg

        return graph_to_pyg(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return the edges as a data frame.

        Returns
        -------
        pandas.DataFrame
            Columns source and target, and weight and time if the graph has them.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.

        Examples
        --------
        >>> list(graph.to_pandas().columns)
        ['source', 'target']
        """
        from yinyan.graph.to_objects import graph_to_pandas

        return graph_to_pandas(self)

    def describe(self) -> str:
        """Return one line on the graph, and a line for each note.

        Returns
        -------
        str
            The lines.

        Examples
        --------
        >>> graph.describe().split(",")[0]
        '40 nodes (integer ids)'
        """
        parts = [f"{counted(self.num_nodes, 'node')} ({self.ids.kind} ids)", counted(self.num_edges, "edge")]
        sides = "" if self.num_left is None else f" ({self.num_left:,} and {self.num_nodes - self.num_left:,} nodes)"
        parts.append(self._kind().lower() + sides)
        isolated = int((self.degrees == 0).sum())
        parts += [f"{counted(isolated, 'node')} without an edge"] if isolated else []
        parts += ["edge weights"] if self.weights is not None else []
        parts += ["edge times"] if self.times is not None else []
        parts += [counted(self.edge_features.shape[1], "edge feature")] if self.edge_features is not None else []
        if isinstance(self.features, SparseFeatures):
            share = 100 * len(self.features.values) / max(1, self.features.num_rows * self.features.num_columns)
            parts.append(f"{self.features.num_columns:,} node features ({share:.2g} % nonzero)")
        else:
            width = 0 if self.features is None else self.features.shape[1]
            parts.append(counted(width, "node feature") if width else "no node features")
        parts += [f"labels {self.label_column!r}"] if self.label_column is not None else []
        return "\n".join([", ".join(parts), *(f"- {note}" for note in self.notes)])

    def __repr__(self) -> str:
        width = None if self.features is None else self.features.shape[1]
        size = f"nodes={self.num_nodes:,}, edges={self.num_edges:,}, features={width}"
        return f"Graph({self._kind().lower()}, {size})"

    def _repr_html_(self) -> str:
        facts = {"nodes": f"{self.num_nodes:,}", "edges": f"{self.num_edges:,}"}
        if self.is_bipartite:
            facts["sides"] = f"{self.num_left:,} and {self.num_nodes - (self.num_left or 0):,} nodes"
        facts["node features"] = "none" if self.features is None else f"{self.features.shape[1]:,} columns"
        facts |= {"edge weights": "yes"} if self.weights is not None else {}
        facts |= {"edge times": "yes"} if self.times is not None else {}
        if self.edge_features is not None:
            facts["edge features"] = f"{self.edge_features.shape[1]:,} columns"
        return html_facts(f"{self._kind()} graph", facts)

    def _kind(self) -> str:
        return "Directed" if self.directed else "Bipartite" if self.is_bipartite else "Undirected"
