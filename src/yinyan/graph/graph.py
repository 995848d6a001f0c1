"""The graph: nodes with ids and features, and the edges between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from yinyan.deprecation import by_keyword
from yinyan.errors import InputError
from yinyan.graph.attributes import Attributes
from yinyan.graph.column_report import ColumnReport
from yinyan.graph.feature_matrix import column_means, column_range, refuse_not_finite
from yinyan.graph.features import FeatureEncoder, Features, SparseFeatures
from yinyan.graph.ids import Id, Ids
from yinyan.graph.labels import LabelFinder, rows_by_name, rows_of_texts
from yinyan.text import counted, html_facts

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from yinyan.graph.moments import Moment
    from yinyan.graph.typed_graph import TypedGraph

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
        label: str | int | Literal[False] | None = None,
        attributes: Sequence[str | int] | Literal[False] | None = None,
        directed: bool = False,
        bipartite: bool = False,
        prefixes: tuple[str, str] | None = None,
        unmatched: Literal["error", "keep"] = "error",
        id_type: Literal["keep", "text", "integer"] = "keep",
        header: bool = True,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        na_values: Sequence[str] | None = None,
    ) -> Graph:
        """Build a graph from a table of edges, and from a table of nodes if there is one.

        A table is a path (CSV, TSV, Parquet, JSON lines, Excel), a data frame, an Arrow table or a dict of columns. A
        column is given by name or position; one that is not given is guessed. Repeated edges are merged: weights are
        added, the earliest time is kept. Self loops, edges of weight zero and rows that lack an end are dropped.
        `notes` counts all of these.

        Parameters
        ----------
        edges
            The table of edges.
        source, target
            Columns of source and target ids.
        weight, time
            Columns of edge weights and edge times; False reads none.
        nodes
            The table of nodes: ids and feature columns.
        node_id
            Column of ids in the node table.
        feature_columns
            Feature columns of the node table; all but the ids unless given.
        label
            Column of the node table that people call nodes by: answers show it, and questions may use it in place of
            an id. Unless given, the first column of unique or nearly unique text, preferably one that is called
            'label', 'name' or 'title'. False for none.
        attributes
            Columns of the node table that are kept with the model, for conditions (`where=`) and for the explorer. All
            columns of text, numbers, truth values and dates unless given, up to 64 columns and 256 MB. False for none.
        directed
            Whether edges have a direction.
        bipartite
            Whether edges join two kinds of nodes only; the source column is side 0.
        prefixes
            Two texts such as `("user:", "item:")` that keep equal ids of the two sides apart, in the node table too.
        unmatched
            'keep' allows nodes that only one of the two tables has; 'error' refuses them.
        id_type
            Type of ids: 'keep', 'text' or 'integer'. Ids from CSV are text with 'keep'.
        header
            Whether the first line of a text file holds the names of the columns.
        delimiter
            Character between columns of a text file; detected unless given.
        encoding
            Encoding of text files.
        na_values
            Texts that mean a missing value. Unless given: `\\N`, `NA`, `N/A`, `NULL`, `NaN`, `None`, `-`, `?` and
            usual spellings of these. An empty cell is missing in any case. In a column of ids such a text is an
            error, except the empty cell; `()` makes it an id.

        Returns
        -------
        Graph
            The graph, with `columns` on what each column became, and `notes` on what was guessed, merged and dropped.

        Raises
        ------
        InputError
            If a table cannot be read, a column is missing, or the options exclude each other.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_table({"citing": ["p1", "p1"], "cited": ["p2", "p3"]}, source="citing", target="cited")
        Graph(undirected, nodes=3, edges=2, features=None)
        """
        from yinyan.graph.from_tables import graph_from_table
        from yinyan.graph.table_options import TableOptions

        options = TableOptions(
            source=source,
            target=target,
            weight=weight,
            time=time,
            nodes=nodes,
            node_id=node_id,
            feature_columns=feature_columns,
            label=label,
            attributes=attributes,
            directed=directed,
            bipartite=bipartite,
            prefixes=prefixes,
            unmatched=unmatched,
            id_type=id_type,
            header=header,
            delimiter=delimiter,
            encoding=encoding,
            na_values=na_values,
        )
        return graph_from_table(edges, options)

    @classmethod
    def from_tables(
        cls,
        edges: Any,
        nodes: Mapping[str, Any] | None = None,
        *,
        relation: str | int | None = None,
        source: str | int | None = None,
        target: str | int | None = None,
        weight: str | int | Literal[False] | None = None,
        time: str | int | Literal[False] | None = None,
        node_id: str | int | None = None,
        directed: bool | Sequence[str] = False,
        unmatched: Literal["error", "keep"] = "error",
        id_type: Literal["keep", "text", "integer"] = "keep",
        header: bool = True,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        na_values: Sequence[str] | None = None,
    ) -> TypedGraph:
        """Build a graph with relations: several types of nodes, several kinds of edges.

        Ids are unique per type: `"7"` may be a person and a product. Other options are those of `from_table`, and
        apply to every table.

        Parameters
        ----------
        edges
            A table for each relation, by its name or by (source type, name, target type). Without types in the key
            they are found by the names of the columns or by the ids. Or one table for all relations.
        nodes
            A table for each type, by its name: ids and feature columns. Without any, all nodes are of the type 'node'.
        relation
            Column of relations, if `edges` is one table for all.
        source, target, weight, time
            Columns of the edge tables; guessed in each unless given.
        node_id
            Column of ids in the node tables.
        directed
            Whether edges within one type have a direction: for all relations, or for those named.
        unmatched
            'keep' allows nodes that only edges or only node tables have; 'error' refuses them.
        id_type
            Type of ids: 'keep', 'text' or 'integer'.
        header, delimiter, encoding, na_values
            How tables are read.

        Returns
        -------
        TypedGraph
            The graph with relations.

        Raises
        ------
        InputError
            If a table cannot be read, or the types of a relation cannot be found.

        Examples
        --------
        >>> from yinyan import Graph
        >>> buys, likes = {"person": ["ann", "bob"], "product": [1, 1]}, {"person": ["ann"], "product": [2]}
        >>> edges = {"buys": buys, "likes": likes}
        >>> nodes = {"person": {"id": ["ann", "bob"]}, "product": {"id": [1, 2], "price": [3.0, 2.5]}}
        >>> Graph.from_tables(edges, nodes)
        TypedGraph(person: 2, product: 2; person buys product: 2, person likes product: 1)
        >>> rows = {"head": ["a", "b"], "kind": ["knows", "likes"], "tail": ["b", "c"]}
        >>> Graph.from_tables(rows, relation="kind")
        TypedGraph(node: 3; node knows node: 1, node likes node: 1)
        """
        from yinyan.graph.table_options import TableOptions
        from yinyan.graph.typed_tables import TypedOptions, graph_from_tables

        tables = TableOptions(
            source=source,
            target=target,
            weight=weight,
            time=time,
            nodes=nodes,
            node_id=node_id,
            unmatched=unmatched,
            id_type=id_type,
            header=header,
            delimiter=delimiter,
            encoding=encoding,
            na_values=na_values,
        )
        return graph_from_tables(edges, TypedOptions(tables, nodes, relation, directed))

    @classmethod
    def from_triples(
        cls, triples: Any, *, directed: bool | Sequence[str] = True, id_type: Literal["keep", "text"] = "keep"
    ) -> TypedGraph:
        """Build a graph with relations from triples of head, relation and tail, as knowledge graphs have them.

        Parameters
        ----------
        triples
            A sequence of (head, relation, tail), a table with these three columns in this order, or the path of a file
            without a header line whose columns stand between tabs.
        directed
            Whether edges have a direction: for all relations, or for those named.
        id_type
            Type of ids: 'keep' or 'text'.

        Returns
        -------
        TypedGraph
            The graph with relations; all nodes are of the type 'node'.

        Raises
        ------
        InputError
            If a row has not three columns.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_triples([("tea", "is a", "drink"), ("milk", "is a", "drink")])
        TypedGraph(node: 3; node is a node: 2)
        """
        from yinyan.graph.typed_tables import graph_from_triples

        return graph_from_triples(triples, directed=directed, id_type=id_type)

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
        attributes: Any = None,
        label: str | int | Literal[False] | None = None,
    ) -> Graph:
        """Build a graph from pairs of row numbers, or of text ids.

        Parameters
        ----------
        edges
            (m, 2) or (2, m) row numbers; a 2 by 2 array is read as two pairs. Pairs of text ids are looked up in `ids`.
        ids
            An id for each node; 0, 1, ... unless given.
        num_nodes
            The number of nodes; the largest row number plus one unless given.
        features
            (num_nodes, c) node features, a dense or sparse matrix.
        weights, times
            A positive weight and a time for each edge.
        directed
            Whether edges have a direction.
        sides
            0 or 1 for each node of a bipartite graph.
        attributes
            A table with one row per node, in the order of `ids`: columns to show and to filter by.
        label
            Column of `attributes` that people call nodes by; guessed unless given, False for none.

        Returns
        -------
        Graph
            The graph.

        Raises
        ------
        InputError
            If an array has another shape or type, or an edge ends at no node.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_arrays([(0, 1), (1, 2)], ids=["a", "b", "c"])
        Graph(undirected, nodes=3, edges=2, features=None)
        """
        from yinyan.graph.from_objects import graph_from_arrays

        return graph_from_arrays(
            edges,
            ids=ids,
            num_nodes=num_nodes,
            features=features,
            weights=weights,
            times=times,
            directed=directed,
            sides=sides,
            attributes=attributes,
            label=label,
        )

    @classmethod
    @by_keyword("weight", "time", "features")
    def from_networkx(
        cls,
        graph: Any,
        *,
        weight: str | None = "weight",
        time: str | None = None,
        features: Any = None,
        label: str | Literal[False] | None = None,
    ) -> Graph:
        """Build a graph from a networkx graph.

        Parameters
        ----------
        graph
            The networkx graph; directed if it is.
        weight, time
            Edge attributes of weights and times; None reads none.
        features
            A matrix, or the name of a node attribute.
        label
            Node attribute that people call nodes by; guessed unless given, False for none.

        Returns
        -------
        Graph
            The graph, with the names of the nodes as ids, and node attributes that are text, numbers, truth values or
            dates as `attributes`.

        Raises
        ------
        InputError
            If a node is neither text nor an integer, or some edges or nodes lack the attribute.

        Examples
        --------
        >>> import networkx
        >>> from yinyan import Graph
        >>> Graph.from_networkx(networkx.path_graph(3))
        Graph(undirected, nodes=3, edges=2, features=None)
        """
        from yinyan.graph.from_objects import graph_from_networkx

        return graph_from_networkx(graph, weight=weight, time=time, features=features, label=label)

    @classmethod
    @by_keyword("ids", "features", "directed")
    def from_scipy(cls, matrix: Any, *, ids: Any = None, features: Any = None, directed: bool | None = None) -> Graph:
        """Build a graph from a square sparse matrix.

        Parameters
        ----------
        matrix
            (n, n) edge weights.
        ids
            An id for each row; 0, 1, ... unless given.
        features
            (n, c) node features.
        directed
            Whether edges have a direction; a symmetric matrix is undirected unless given.

        Returns
        -------
        Graph
            The graph.

        Raises
        ------
        InputError
            If the matrix is not sparse or not square, or is to be undirected and is not symmetric.

        Examples
        --------
        >>> import scipy.sparse
        >>> from yinyan import Graph
        >>> Graph.from_scipy(scipy.sparse.csr_array([[0, 1], [1, 0]]))
        Graph(undirected, nodes=2, edges=1, features=None)
        """
        from yinyan.graph.from_objects import graph_from_scipy

        return graph_from_scipy(matrix, ids=ids, features=features, directed=directed)

    @classmethod
    def from_pyg(cls, data: Any) -> Graph:
        """Build a graph from a PyTorch Geometric `Data` object.

        Parameters
        ----------
        data
            The object; undirected if every edge has its reverse.

        Returns
        -------
        Graph
            The graph, with `data.x` as features.

        Raises
        ------
        InputError
            If the object is heterogeneous or has no `edge_index`.

        Examples
        --------
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from yinyan import Graph
        >>> Graph.from_pyg(Data(x=torch.ones(2, 4), edge_index=torch.tensor([[0, 1], [1, 0]])))
        Graph(undirected, nodes=2, edges=1, features=4)
        """
        from yinyan.graph.from_objects import graph_from_pyg

        return graph_from_pyg(data)

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
        return html_facts(f"{self._kind()} graph", facts)

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
    if graph.features is None:
        return
    if isinstance(graph.features, np.ndarray) and graph.features.dtype != np.float32:
        raise InputError(f"'features' needs to be float32 (got {graph.features.dtype})")
    refuse_not_finite(graph.features)
    if graph.features.shape[0] != graph.num_nodes:
        raise InputError(f"'features' needs one row per node: {graph.num_nodes:,} (got {graph.features.shape[0]:,})")


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
