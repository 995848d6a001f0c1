"""How a graph is made: the constructors of `Graph`, with what their options mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from yinyan.deprecation import by_keyword

if TYPE_CHECKING:
    from yinyan.graph.graph import Graph
    from yinyan.graph.typed_graph import TypedGraph

__all__ = [
    *("from_arrays", "from_igraph", "from_networkx", "from_pyg", "from_scipy"),
    *("from_table", "from_tables", "from_triples"),
]


def from_table(
    cls: type[Graph],
    edges: Any,
    source: str | int | None = None,
    target: str | int | None = None,
    *,
    weight: str | int | Literal[False] | None = None,
    time: str | int | Literal[False] | None = None,
    edge_features: Sequence[str | int] | None = None,
    query: str | None = None,
    nodes: Any = None,
    nodes_query: str | None = None,
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

    A table is a path (CSV, TSV, Parquet, JSON lines, Excel, Arrow), a data frame, anything with an Arrow stream, a
    dict of columns, or a table of a database (`DatabaseTable`). A column is given by name or position; one that is not
    given is guessed. Repeated edges are merged: weights are added, the earliest time is kept. Self loops, edges of
    weight zero and rows that lack an end are dropped. `notes` counts all of these.

    Parameters
    ----------
    edges
        The table of edges. Or a database, with `query`: a URL such as `sqlite:///edges.db`, a DB-API connection, an
        engine or connection of SQLAlchemy, or a driver of Neo4j.
    source, target
        Columns of source and target ids.
    weight, time
        Columns of edge weights and edge times; False reads none.
    edge_features
        Columns of the edge table, numbers or categories, from which a fit learns how much each edge weighs in
        messages. None unless given. Those of merged edges are averaged.
    query
        A SELECT, or the name of a table, or Cypher: the edges in the database.
    nodes
        The table of nodes: ids and feature columns.
    nodes_query
        A SELECT, or the name of a table: the nodes in the same database, in place of `nodes`.
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
        edge_features=edge_features,
        query=query,
        nodes=nodes,
        nodes_query=nodes_query,
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


def from_tables(
    cls: type[Graph],
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


def from_triples(
    cls: type[Graph], triples: Any, *, directed: bool | Sequence[str] = True, id_type: Literal["keep", "text"] = "keep"
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


def from_arrays(
    cls: type[Graph],
    edges: Any,
    *,
    ids: Any = None,
    num_nodes: int | None = None,
    features: Any = None,
    weights: Any = None,
    times: Any = None,
    edge_features: Any = None,
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
    edge_features
        (m, c) numbers for each edge, from which a fit learns how much it weighs in messages.
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
        edge_features=edge_features,
        directed=directed,
        sides=sides,
        attributes=attributes,
        label=label,
    )


@by_keyword("weight", "time", "features")
def from_networkx(
    cls: type[Graph],
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


def from_igraph(
    cls: type[Graph],
    graph: Any,
    *,
    weight: str | None = "weight",
    time: str | None = None,
    features: Any = None,
    label: str | Literal[False] | None = None,
) -> Graph:
    """Build a graph from one of igraph.

    Parameters
    ----------
    graph
        The graph of igraph; directed if it is.
    weight, time
        Edge attributes of weights and times; None reads none.
    features
        A matrix, or the name of a vertex attribute.
    label
        Vertex attribute that people call nodes by; guessed unless given, False for none.

    Returns
    -------
    Graph
        The graph, with the vertex attribute `name` as ids where there is one, else 0, 1, ...; other vertex attributes
        that are text, numbers, truth values or dates are its `attributes`.

    Raises
    ------
    InputError
        If names occur twice, or an attribute is missing.

    Examples
    --------
    >>> import igraph
    >>> from yinyan import Graph
    >>> Graph.from_igraph(igraph.Graph.Ring(4))
    Graph(undirected, nodes=4, edges=4, features=None)
    """
    from yinyan.graph.from_objects import graph_from_igraph

    return graph_from_igraph(graph, weight=weight, time=time, features=features, label=label)


@by_keyword("ids", "features", "directed")
def from_scipy(
    cls: type[Graph], matrix: Any, *, ids: Any = None, features: Any = None, directed: bool | None = None
) -> Graph:
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


def from_pyg(cls: type[Graph], data: Any) -> Graph:
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
