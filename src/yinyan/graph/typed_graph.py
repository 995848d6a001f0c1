"""The graph with relations: types of nodes with ids of their own, and several kinds of edges between them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph.attributes import Attributes
from yinyan.graph.column_report import ColumnReport
from yinyan.graph.edge_lists import Rows, Times
from yinyan.graph.features import FeatureEncoder, Features
from yinyan.graph.graph import Graph
from yinyan.graph.ids import Id, Ids
from yinyan.graph.type_views import view_of
from yinyan.text import counted, html_facts, listed

__all__ = ["NodeType", "Relation", "RelationName", "TypedGraph", "TypedNode"]

RelationName: TypeAlias = str | tuple[str, str, str]
TypedNode: TypeAlias = tuple[str, Id]


@dataclass(frozen=True, eq=False)
class NodeType:
    """The nodes of one type; ids are unique among them."""

    ids: Ids  # the caller's ids, in the order of rows
    features: Features | None = None  # (len(ids), c), dense or sparse
    feature_encoder: FeatureEncoder | None = None  # turns columns of a node table into features
    attributes: Attributes | None = None  # columns to show and to filter by

    def __post_init__(self) -> None:
        for what, found in (("features", self.features), ("attributes", self.attributes)):
            count = len(self.ids) if found is None else found.shape[0] if what == "features" else len(found)  # type: ignore[union-attr, arg-type]
            if count != len(self.ids):
                raise InputError(f"'{what}' need one row per node of the type: {len(self.ids):,} (got {count:,})")


@dataclass(frozen=True, eq=False)
class Relation:
    """The edges of one kind, from nodes of one type to nodes of one type."""

    name: str  # unique in its graph
    source: str  # type of the sources
    target: str  # type of the targets
    edges: Rows  # (m, 2) rows within the two types, sorted and distinct; undirected the smaller row first
    weights: npt.NDArray[np.float32] | None = None  # (m,) positive
    times: Times | None = None  # (m,)
    directed: bool = False  # whether edges within one type have a direction

    def __repr__(self) -> str:
        return f"Relation({self.in_words()}, {counted(len(self.edges), 'edge')})"

    @property
    def is_within(self) -> bool:
        """Whether it joins nodes of one type."""
        return self.source == self.target

    def in_words(self) -> str:
        """Source type, name and target type.

        Returns
        -------
        str
            The three, with spaces between them.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_triples([("a", "knows", "b")]).relation("knows").in_words()
        'node knows node'
        """
        return f"{self.source} {self.name} {self.target}"


class _NeedsOneKindError(InputError, AttributeError):
    """Something was asked of a graph with relations that only a graph with one kind of edge has."""


@dataclass(frozen=True, eq=False, repr=False)
class TypedGraph:
    """Nodes of several types and edges of several relations. Make one with `Graph.from_tables` or `Graph.from_triples`.

    Rows of all nodes are numbered type after type. What needs a graph with one kind of edge refuses this one;
    `of_relation` gives such a graph.

    Raises
    ------
    InputError
        If a relation names a type that is not there, or its edges do not fit the types.

    Examples
    --------
    >>> from yinyan import Graph
    >>> graph = Graph.from_tables({("person", "buys", "product"): {"person": ["a", "b"], "product": ["x", "x"]}})
    >>> graph
    TypedGraph(person: 2, product: 1; person buys product: 2)
    """

    nodes: Mapping[str, NodeType]  # by type
    relations: Mapping[str, Relation]  # by name
    notes: tuple[str, ...] = ()  # what was guessed, merged or dropped
    columns: ColumnReport = field(default_factory=ColumnReport)  # what each column of the tables became

    def __post_init__(self) -> None:
        if not self.relations:
            raise InputError("a graph with relations needs at least one relation (got none)")
        for name, relation in self.relations.items():
            if name != relation.name:
                raise InputError(f"relation {relation.name!r} is listed as {name!r}")
            for kind in (relation.source, relation.target):
                if kind not in self.nodes:
                    raise InputError(
                        f"relation {name!r} joins nodes of type {kind!r}, which is not there (types: "
                        f"{listed(list(self.nodes))})"
                    )
            _check_edges(relation, *(len(self.nodes[kind].ids) for kind in (relation.source, relation.target)))

    @classmethod
    def from_networkx(cls, graph: Any, *, kind: str = "kind", weight: str | None = "weight") -> TypedGraph:
        """Build a graph with relations from a networkx graph whose nodes and edges have a kind.

        Parameters
        ----------
        graph
            The networkx graph, such as a MultiGraph. Edges within one type have a direction if it is directed.
        kind
            Attribute of nodes that is their type, and of edges that is their relation. Nodes without it are of the
            type 'node'.
        weight
            Edge attribute of weights; None reads none.

        Returns
        -------
        TypedGraph
            The graph; other attributes of nodes are kept as attributes.

        Raises
        ------
        InputError
            If an edge lacks the attribute, or a node is neither text nor an integer.

        Examples
        --------
        >>> import networkx
        >>> from yinyan import TypedGraph
        >>> found = networkx.Graph()
        >>> found.add_node("ann", kind="person")
        >>> found.add_node("tea", kind="product")
        >>> found.add_edge("ann", "tea", kind="buys")
        >>> TypedGraph.from_networkx(found)
        TypedGraph(person: 1, product: 1; person buys product: 1)
        """
        from yinyan.graph.typed_objects import typed_from_networkx

        return typed_from_networkx(graph, kind=kind, weight=weight)

    @classmethod
    def from_pyg(cls, data: Any) -> TypedGraph:
        """Build a graph with relations from a PyTorch Geometric `HeteroData` object.

        Parameters
        ----------
        data
            The object. A relation within one type is undirected if every edge has its reverse.

        Returns
        -------
        TypedGraph
            The graph, with `x` of each type as features, and row numbers as ids.

        Raises
        ------
        InputError
            If a type has neither features nor `num_nodes`, or `edge_index` has another shape.

        Examples
        --------
        >>> import torch
        >>> from torch_geometric.data import HeteroData
        >>> from yinyan import TypedGraph
        >>> data = HeteroData()
        >>> data["person"].num_nodes, data["product"].num_nodes = 2, 3
        >>> data["person", "buys", "product"].edge_index = torch.tensor([[0, 1], [2, 0]])
        >>> TypedGraph.from_pyg(data)
        TypedGraph(person: 2, product: 3; person buys product: 2)
        """
        from yinyan.graph.typed_objects import typed_from_pyg

        return typed_from_pyg(data)

    # -- sizes ---------------------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """How many nodes there are, of all types."""
        return sum(len(kind.ids) for kind in self.nodes.values())

    @property
    def num_edges(self) -> int:
        """How many edges there are, of all relations."""
        return sum(len(relation.edges) for relation in self.relations.values())

    @cached_property
    def offsets(self) -> dict[str, int]:
        """The first row of each type."""
        sizes = [len(kind.ids) for kind in self.nodes.values()]
        return dict(zip(self.nodes, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))

    @cached_property
    def num_left(self) -> int | None:
        """How many nodes the first type has, if there are two and every relation joins one to the other."""
        if len(self.nodes) != 2 or any(relation.is_within for relation in self.relations.values()):
            return None
        return len(next(iter(self.nodes.values())).ids)

    # -- questions about names -------------------------------------------------------------------------------

    def relation(self, name: RelationName) -> Relation:
        """Return a relation.

        Parameters
        ----------
        name
            Its name, or a tuple of source type, name and target type.

        Returns
        -------
        Relation
            The relation.

        Raises
        ------
        InputError
            If there is none; the message has the nearest names.

        Examples
        --------
        >>> from yinyan import Graph
        >>> graph = Graph.from_triples([("a", "knows", "b"), ("b", "likes", "c")])
        >>> graph.relation("likes")
        Relation(node likes node, 1 edge)
        """
        if isinstance(name, str) and name in self.relations:
            return self.relations[name]
        if isinstance(name, tuple) and len(name) == 3:
            for relation in self.relations.values():
                short = relation.name in (name[1], ".".join(name))
                if short and (relation.source, relation.target) == (name[0], name[2]):
                    return relation
        near = difflib.get_close_matches(str(name), list(self.relations), n=3, cutoff=0.5)
        known = f"nearest: {listed(near)}" if near else f"relations: {listed(list(self.relations))}"
        raise InputError(f"there is no relation {name!r} ({known})")

    def type_of(self, name: str) -> NodeType:
        """Return the nodes of a type.

        Parameters
        ----------
        name
            The name of the type.

        Returns
        -------
        NodeType
            Ids, features and attributes.

        Raises
        ------
        InputError
            If there is no such type.

        Examples
        --------
        >>> from yinyan import Graph
        >>> len(Graph.from_triples([("a", "knows", "b")]).type_of("node").ids)
        2
        """
        if name not in self.nodes:
            raise InputError(f"there is no node type {name!r} (types: {listed(list(self.nodes))})")
        return self.nodes[name]

    def row_of(self, kind: str, node: Id) -> int:
        """Return the row of a node among all nodes.

        Parameters
        ----------
        kind
            The type of the node.
        node
            Its id, or a label that one node of the type has.

        Returns
        -------
        int
            The row.

        Raises
        ------
        UnknownNodeError
            If there is no such node of that type.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_triples([("a", "knows", "b")]).row_of("node", "b")
        1
        """
        found = int(self.type_of(kind).ids.find([node])[0])
        if found < 0:
            raise UnknownNodeError(f"{self.type_of(kind).ids.unknown(node)}; looked for among nodes of type {kind!r}")
        return self.offsets[kind] + found

    def nodes_at(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> list[TypedNode]:
        """Return type and id of some rows.

        Parameters
        ----------
        rows
            Rows of nodes.

        Returns
        -------
        list of tuple
            (type, id) of each.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_triples([("a", "knows", "b")]).nodes_at([1])
        [('node', 'b')]
        """
        names, starts = list(self.offsets), np.array(list(self.offsets.values()))
        sizes = np.array([len(kind.ids) for kind in self.nodes.values()])
        filled = np.flatnonzero(sizes > 0)
        places = filled[np.searchsorted(starts[filled], np.asarray(rows, dtype=np.int64), side="right") - 1]
        return [
            (names[place], self.nodes[names[place]].ids[int(row) - int(starts[place])])
            for place, row in zip(places.tolist(), np.asarray(rows).tolist(), strict=True)
        ]

    # -- other graphs ----------------------------------------------------------------------------------------

    def of_relation(self, name: RelationName) -> Graph:
        """Return the graph of one relation: the nodes of its types, and its edges.

        Parameters
        ----------
        name
            The relation.

        Returns
        -------
        Graph
            Bipartite if the relation joins two types. If these share an id, all ids are written as `type:id`. Features
            are kept if there is one type.

        Raises
        ------
        InputError
            If there is no such relation.

        Examples
        --------
        >>> from yinyan import Graph
        >>> graph = Graph.from_tables({("person", "buys", "product"): {"person": ["a", "b"], "product": ["x", "x"]}})
        >>> graph.of_relation("buys")
        Graph(bipartite, nodes=3, edges=2, features=None)
        """
        relation = self.relation(name)
        views: dict[str, Graph] = self.__dict__.setdefault("_views", {})
        if relation.name not in views:
            views[relation.name] = view_of(self, relation)
        return views[relation.name]

    def rows_of_view(self, relation: Relation) -> Rows:
        """Return the row among all nodes of each node of `of_relation`.

        Parameters
        ----------
        relation
            The relation.

        Returns
        -------
        numpy.ndarray
            Rows: those of the source type, and of the target type if it is another one.

        Examples
        --------
        >>> from yinyan import Graph
        >>> graph = Graph.from_triples([("a", "knows", "b")])
        >>> graph.rows_of_view(graph.relation("knows"))
        array([0, 1])
        """
        kinds = [relation.source] if relation.is_within else [relation.source, relation.target]
        return np.concatenate([self.offsets[k] + np.arange(len(self.nodes[k].ids)) for k in kinds])

    def with_edges(self, kept: Mapping[str, npt.NDArray[Any]]) -> TypedGraph:
        """Return a graph with some of the edges of some relations, and all of the others.

        Parameters
        ----------
        kept
            Positions in the edges of a relation, by its name.

        Returns
        -------
        TypedGraph
            The smaller graph.

        Examples
        --------
        >>> from yinyan import Graph
        >>> graph = Graph.from_triples([("a", "knows", "b"), ("a", "likes", "b")])
        >>> graph.with_edges({"knows": []}).num_edges
        1
        """
        made = dict(self.relations)
        for name, rows in kept.items():
            old, places = self.relation(name), np.unique(np.asarray(rows, dtype=np.int64))
            made[name] = replace(
                old,
                edges=old.edges[places],
                weights=None if old.weights is None else old.weights[places],
                times=None if old.times is None else old.times[places],
            )
        return replace(self, relations=made)

    # -- words -----------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return a line per type and per relation, and one for each note.

        Returns
        -------
        str
            The lines.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_triples([("a", "knows", "b")]).describe().splitlines()[0]
        '2 nodes of one type, 1 edge of one relation'
        """
        lines = [
            f"{counted(self.num_nodes, 'node')} of {_many(len(self.nodes), 'type')}, "
            f"{counted(self.num_edges, 'edge')} of {_many(len(self.relations), 'relation')}"
        ]
        for name, kind in self.nodes.items():
            width = 0 if kind.features is None else kind.features.shape[1]
            lines.append(f"- type {name!r}: {counted(len(kind.ids), 'node')}, {counted(width, 'feature')}")
        for relation in list(self.relations.values())[:_SHOWN]:
            way = ", directed" if relation.directed else ""
            lines.append(f"- relation {relation.in_words()!r}: {counted(len(relation.edges), 'edge')}{way}")
        if len(self.relations) > _SHOWN:
            lines.append(f"- {len(self.relations) - _SHOWN:,} more relations")
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)])

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name}: {len(kind.ids):,}" for name, kind in list(self.nodes.items())[:_IN_REPR])
        found = list(self.relations.values())
        edges = ", ".join(f"{relation.in_words()}: {len(relation.edges):,}" for relation in found[:_IN_REPR])
        more = f", {len(found) - _IN_REPR:,} more" if len(found) > _IN_REPR else ""
        return f"TypedGraph({kinds}; {edges}{more})"

    def _repr_html_(self) -> str:
        facts = {f"type {name}": counted(len(kind.ids), "node") for name, kind in self.nodes.items()}
        shown = list(self.relations.values())[:_SHOWN]
        facts |= {relation.in_words(): counted(len(relation.edges), "edge") for relation in shown}
        return html_facts("Graph with relations", facts)

    def __getattr__(self, name: str) -> NoReturn:
        if name in _OF_ONE_KIND:
            first = next(iter(vars(self).get("relations", {"NAME": None})))
            raise _NeedsOneKindError(
                f"this graph has relations, and {name!r} is of graphs with one kind of edge: take one with "
                f"graph.of_relation({first!r})"
            )
        raise AttributeError(f"a graph with relations has no attribute {name!r}")


_SHOWN = 40  # relations that are described
_IN_REPR = 4
_OF_ONE_KIND = frozenset(name for name in (*vars(Graph), *Graph.__dataclass_fields__) if not name.startswith("__"))


def _many(count: int, noun: str) -> str:
    return f"one {noun}" if count == 1 else counted(count, noun)


def _check_edges(relation: Relation, num_sources: int, num_targets: int) -> None:
    pairs, what = relation.edges, f"edges of relation {relation.name!r}"
    if not isinstance(pairs, np.ndarray) or pairs.dtype != np.int64 or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(f"{what} need to be an int64 array of shape (edges, 2)")
    if relation.directed and not relation.is_within:
        raise InputError(f"{what} run from one type to another: leave 'directed' out")
    for name, values in (("weights", relation.weights), ("times", relation.times)):
        if values is not None and values.shape != (len(pairs),):
            raise InputError(f"{name} of relation {relation.name!r} need one entry per edge: {len(pairs):,}")
    if not len(pairs):
        return
    low, high = pairs.min(axis=0), pairs.max(axis=0)
    if low.min() < 0 or high[0] >= num_sources or high[1] >= num_targets:
        raise InputError(f"{what} need rows of {num_sources:,} sources and {num_targets:,} targets")
    wrong = np.zeros(len(pairs), dtype=np.bool_)
    if relation.is_within:
        wrong = pairs[:, 0] == pairs[:, 1] if relation.directed else pairs[:, 0] >= pairs[:, 1]
    if wrong.any() or (np.diff(pairs[:, 0] * num_targets + pairs[:, 1]) <= 0).any():
        raise InputError(f"{what} need to be sorted and distinct, without self loops: see Graph.from_tables")
