"""The graph as it stands at one moment: names, links and rejected pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import YinYanError
from yinyan.graph import Graph
from yinyan.graph.features import Features
from yinyan.graph.ids import Id
from yinyan.live.names import Lookup, Names
from yinyan.live.row_sets import RowSets

__all__ = ["Change", "ConflictError", "Effect", "LiveLists", "NewNode", "Structure", "joined"]

Rows = NDArray[np.int64]
_RECENT = 2_000  # added pairs that are kept: a change copies them

Change = Mapping[str, Any]  # plain values of JSON, in the caller's ids: see `planning`
Pair = tuple[int, int]


class ConflictError(YinYanError):
    """A change contradicts the graph as it is."""


class NewNode(NamedTuple):
    """A node to be added: one row of features, and the rows it is linked to."""

    features: Features | None
    neighbours: tuple[int, ...]
    id: Id = ""
    label: str | None = None
    clipped: bool = False  # whether features were outside the range that training saw
    imputed: bool = False  # whether features are the mean of each column, since none were given


class Effect(NamedTuple):
    """What a change does to rows."""

    nodes: tuple[NewNode, ...] = ()
    added: tuple[Pair, ...] = ()  # without the links of new nodes
    removed: tuple[Pair, ...] = ()
    rejected: tuple[Pair, ...] = ()
    taken_back: tuple[Pair, ...] = ()
    num: int = 0  # items that the answer counts
    skipped: tuple[str, ...] = ()  # parts of a logged change that do not fit, and why

    @property
    def moves_rows(self) -> bool:
        """Whether embeddings change by it."""
        return bool(self.nodes or self.added or self.removed)


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
    moved_links: int = 0  # pairs that are links now and were not in the model's graph, or the other way round
    recent: tuple[Pair, ...] = ()  # the latest pairs that became links, of which some may be removed again

    @classmethod
    def of(cls, graph: Graph) -> Structure:
        """Of a model before any change."""
        pairs, n = graph.edges, graph.num_nodes
        back = pairs[:, ::-1]
        out = RowSets.from_pairs(pairs if graph.directed else np.concatenate([pairs, back]), n)
        into = RowSets.from_pairs(back, n) if graph.directed else None
        return cls(
            graph,
            Names(Lookup(graph.ids), graph.attributes, graph.label_finder),
            out,
            into,
            RowSets.empty(n),
            graph.num_edges,
        )

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


class LiveLists:
    """The neighbours by which links are reranked: edges of the model that passed no messages are left out here too."""

    def __init__(self, structure: Structure, silent: Mapping[int, Sequence[int]]) -> None:
        self._structure, self._silent = structure, silent

    def of(self, rows: Rows) -> tuple[Rows, Rows]:
        """Compressed rows: where the list of each begins, and the neighbours."""
        lists = [self._of(row) for row in rows.tolist()]
        indptr = np.concatenate([[0], np.cumsum([found.size for found in lists])]).astype(np.int64)
        return indptr, np.concatenate(lists) if lists else np.empty(0, dtype=np.int64)

    def degrees(self, rows: Rows) -> Rows:
        """How many neighbours each row has."""
        if self._silent or self._structure.into is not None:
            return np.array([self._of(row).size for row in rows.tolist()], dtype=np.int64)
        return self._structure.degrees[rows]

    def _of(self, row: int) -> Rows:
        found = self._structure.neighbours(row)
        return np.setdiff1d(found, self._silent[row], assume_unique=True) if row in self._silent else found


def joined(
    structure: Structure,
    nodes: Sequence[NewNode],
    links: Mapping[Pair, bool],
    rejected: Mapping[Pair, bool],
    counts: tuple[int, int],
) -> Structure:
    """With more nodes, and with pairs that are links or rejected from now on, or are not; `counts` of added, removed.

    Undirected pairs have the lower row first.
    """
    names = structure.names
    if nodes:
        names = names.extended([node.id for node in nodes], [node.label for node in nodes])
    added, removed = _net(structure.out, links)
    fresh, gone = _net(structure.rejected, rejected)
    both = _both if not structure.graph.directed else list
    n = len(names)
    return replace(
        structure,
        names=names,
        out=structure.out.edited(both(added), both(removed), n),
        into=None if structure.into is None else structure.into.edited(_back(added), _back(removed), n),
        rejected=structure.rejected.edited(both(fresh), both(gone), n),
        num_links=structure.num_links + len(added) - len(removed),
        num_rejected=structure.num_rejected + len(fresh) - len(gone),
        added_links=structure.added_links + counts[0],
        removed_links=structure.removed_links + counts[1],
        recent=(*structure.recent, *added)[-_RECENT:],
        moved_links=structure.moved_links + _moved(structure.graph, added) - _moved(structure.graph, removed),
    )


def _moved(graph: Graph, pairs: Sequence[Pair]) -> int:
    """By how much links that appear take a graph further from what it was: those that it had bring it back."""
    inside = [pair for pair in pairs if max(pair) < graph.num_nodes]
    had = int(graph.has_edges(np.array(inside)).sum()) if inside else 0
    return len(pairs) - 2 * had


def _net(before: RowSets, now: Mapping[Pair, bool]) -> tuple[list[Pair], list[Pair]]:
    """Pairs that are there now and were not, and those that were and are not."""
    moved = [(pair, there) for pair, there in now.items() if before.has(*pair) != there]
    return [pair for pair, there in moved if there], [pair for pair, there in moved if not there]


def _both(pairs: Sequence[Pair]) -> list[Pair]:
    return [*pairs, *_back(pairs)]


def _back(pairs: Sequence[Pair]) -> list[Pair]:
    return [(b, a) for a, b in pairs]
