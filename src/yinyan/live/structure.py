"""The graph as it stands at one moment, and what a change makes of it: checked whole before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError, YinYanError
from yinyan.graph import Graph
from yinyan.graph.features import Features
from yinyan.graph.ids import Id
from yinyan.live.names import Labels, Lookup, Names
from yinyan.live.new_nodes import new_features
from yinyan.live.row_sets import RowSets

__all__ = ["Change", "ConflictError", "Effect", "NewNode", "Structure", "planned"]

Rows = NDArray[np.int64]
Change = Mapping[str, Any]  # plain values of JSON, in the caller's ids: see `planned`
Pair = tuple[int, int]


class ConflictError(YinYanError):
    """A change contradicts the graph as it is."""


class NewNode(NamedTuple):
    """A node to be added: one row of features, and the rows it is linked to."""

    features: Features | None
    neighbours: tuple[int, ...]


class Effect(NamedTuple):
    """What a change does to rows."""

    nodes: tuple[NewNode, ...] = ()
    added: tuple[Pair, ...] = ()  # without the links of new nodes
    removed: tuple[Pair, ...] = ()
    num: int = 0  # what the one who asked is told


@dataclass(frozen=True)
class Structure:
    """Names, links and rejected pairs."""

    graph: Graph  # as the model was saved with it
    names: Names
    out: RowSets  # neighbours; of a directed graph, the targets of a row's links
    into: RowSets | None  # of a directed graph, the sources
    rejected: RowSets
    num_links: int
    num_rejected: int = 0
    added_links: int = 0
    removed_links: int = 0

    @classmethod
    def of(cls, graph: Graph, labels: Labels | None) -> Structure:
        """Of a model before any change."""
        pairs, n = graph.edges, graph.num_nodes
        back = pairs[:, ::-1]
        out = RowSets.from_pairs(pairs if graph.directed else np.concatenate([pairs, back]), n)
        into = RowSets.from_pairs(back, n) if graph.directed else None
        return cls(graph, Names(Lookup(graph.ids), labels), out, into, RowSets.empty(n), graph.num_edges)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.names)

    def has_link(self, a: int, b: int) -> bool:
        """Whether there is a link from a to b; undirected, between them."""
        return self.out.has(a, b)

    def neighbours(self, row: int) -> Rows:
        """Rows that a link of either direction joins to a node, sorted."""
        return self.out.of(row) if self.into is None else np.union1d(self.out.of(row), self.into.of(row))

    def degree(self, row: int) -> int:
        """Ends of links at a node."""
        return int(self.out.of(row).size + (0 if self.into is None else self.into.of(row).size))

    @cached_property
    def degrees(self) -> Rows:
        """(n,) the same of all nodes."""
        return self.out.sizes() if self.into is None else self.out.sizes() + self.into.sizes()

    @property
    def num_left(self) -> int | None:
        """How many nodes side 0 has; None unless bipartite. New nodes are of side 1."""
        return self.graph.num_left

    def pairs(self) -> Rows:
        """(m, 2) all links, in the order that a graph wants."""
        found = self.out.pairs()
        return found if self.graph.directed else found[found[:, 0] < found[:, 1]]


def planned(structure: Structure, change: Change, *, lenient: bool = False) -> tuple[Structure, Effect]:
    """What the graph becomes by a change, and what that does to rows; an impossible one is refused.

    Links that are there already are not added again, and those that are not there are not removed: a change may be
    sent twice. `lenient` leaves out what does not fit the graph, as where a log is carried over to another model.
    """
    return (_add_nodes if change["kind"] == "add_nodes" else _change_pairs)(structure, change, lenient)


def _rows_of(structure: Structure, pairs: Sequence[Sequence[Id]], *, lenient: bool) -> list[Pair]:
    """Distinct pairs of rows; undirected, the lower first."""
    if lenient:
        pairs = [pair for pair in pairs if pair[0] in structure.names and pair[1] in structure.names]
    flat = structure.names.rows([value for pair in pairs for value in pair]).tolist() if pairs else []
    found: dict[Pair, None] = {}
    left = structure.num_left
    for place, (a, b) in enumerate(zip(flat[::2], flat[1::2], strict=True)):
        if a == b:
            raise InputError(f"pair {place} joins {pairs[place][0]!r} to itself: a link needs two nodes")
        if left is not None and (a < left) == (b < left):
            one, other = pairs[place]
            raise InputError(f"{one!r} and {other!r} are on one side of a bipartite graph: a link joins both sides")
        found[(a, b) if structure.graph.directed else (min(a, b), max(a, b))] = None
    return list(found)


def _both(structure: Structure, pairs: Sequence[Pair]) -> list[Pair]:
    return list(pairs) if structure.graph.directed else [*pairs, *((b, a) for a, b in pairs)]


def _back(pairs: Sequence[Pair]) -> list[Pair]:
    return [(b, a) for a, b in pairs]


def _linked(structure: Structure, names: Names, added: Sequence[Pair], removed: Sequence[Pair] = ()) -> Structure:
    """With links added and removed, and as many nodes as there are names."""
    n = len(names)
    return replace(
        structure,
        names=names,
        out=structure.out.edited(_both(structure, added), _both(structure, removed), n),
        into=None if structure.into is None else structure.into.edited(_back(added), _back(removed), n),
        rejected=structure.rejected.edited((), (), n),
        num_links=structure.num_links + len(added) - len(removed),
        added_links=structure.added_links + len(added),
        removed_links=structure.removed_links + len(removed),
    )


def _change_pairs(structure: Structure, change: Change, lenient: bool) -> tuple[Structure, Effect]:
    """Links or rejected pairs, added or removed: those that are not there yet, or are."""
    kind = change["kind"]
    adds, of_links = kind in ("add_links", "reject"), kind in ("add_links", "remove_links")
    present = structure.out if of_links else structure.rejected
    pairs = tuple(p for p in _rows_of(structure, change["pairs"], lenient=lenient) if present.has(*p) != adds)
    added, removed = (pairs, ()) if adds else ((), pairs)
    if of_links:
        return _linked(structure, structure.names, added, removed), Effect((), added, removed, len(pairs))
    rejected = present.edited(_both(structure, added), _both(structure, removed))
    num_rejected = structure.num_rejected + len(added) - len(removed)
    return replace(structure, rejected=rejected, num_rejected=num_rejected), Effect(num=len(pairs))


def _add_nodes(structure: Structure, change: Change, lenient: bool) -> tuple[Structure, Effect]:
    nodes = change["nodes"]
    known = [node["id"] for node in nodes if node["id"] in structure.names]
    if known and not lenient:
        raise ConflictError(f"node {known[0]!r} is already in the graph: leave it out, or add links to it")
    fresh = [node for node in nodes if node["id"] not in structure.names] if known else list(nodes)
    names = structure.names.extended([node["id"] for node in fresh], [node.get("label") for node in fresh])
    made = [_new_node(structure, names, node, lenient=lenient) for node in fresh]
    start = structure.num_nodes
    links = [(start + place, row) for place, node in enumerate(made) for row in node.neighbours]
    if len({(min(p), max(p)) for p in links}) != len(links):
        raise InputError("two new nodes name each other as neighbours: one of them is enough")
    grown, effect = _linked(structure, names, links), Effect(nodes=tuple(made), num=len(made))
    if not known:
        return grown, effect
    again = [(node["id"], other) for node in nodes if node["id"] in known for other in node.get("neighbours") or ()]
    grown, links_of_known = _change_pairs(grown, {"kind": "add_links", "pairs": again}, lenient)
    return grown, effect._replace(added=links_of_known.added)


def _new_node(structure: Structure, names: Names, node: Mapping[str, Any], *, lenient: bool) -> NewNode:
    near = list(node.get("neighbours") or ())
    if lenient:
        near = [value for value in near if value in names]
    rows = tuple(dict.fromkeys(names.rows(near).tolist())) if near else ()
    left = structure.num_left
    if names.row(node["id"]) in rows:
        raise InputError(f"node {node['id']!r} names itself as a neighbour: a link needs two nodes")
    if left is not None and any(row >= left for row in rows):
        raise ConflictError(
            f"new nodes join the second side of a bipartite graph, and node {node['id']!r} has a neighbour there "
            "(fit again to add nodes to the first side)"
        )
    given = node.get("features")
    if isinstance(given, Mapping):
        table: Any = {column: [value] for column, value in given.items()}
        if structure.graph.features is not None and structure.graph.feature_encoder is None:
            width = structure.graph.features.shape[1]
            raise InputError(f"this model was not fitted on named columns: give features as a list of {width} numbers")
    else:
        table = None if given is None else np.asarray([given], dtype=np.float32)
    return NewNode(new_features(structure.graph, table, 1), rows)
