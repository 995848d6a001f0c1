"""Leaks between relations: `buys` and `bought_by` are one relation twice, and each gives the other's answers away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.auditing.findings import Log, Tally
from yinyan.datasets.knowledge import KnowledgeGraph
from yinyan.errors import InputError
from yinyan.graph.typed_graph import Relation, TypedGraph, TypedNode
from yinyan.splits import Parts
from yinyan.splits.dividing import MINIMUM_EDGES
from yinyan.splits.typed_split import TypedSplit
from yinyan.text import counted

__all__ = ["Overlap", "RelationMaterial", "check_relations", "check_test_links", "overlaps", "relation_material"]

_ALIKE = 0.8  # share of the edges of both relations, from which on they are taken for one (Akrami et al. 2020)
_PART = 0.95  # share of the edges of one relation, from which on it is a part of the other, or its own inverse
_NOTED = 0.1  # share of the test links of a relation that are edges of another one, from which on it is reported
_CHANCE = 2.0  # times as many as two relations of this size share by chance

Rows = NDArray[np.int64]


class Overlap(NamedTuple):
    """Edges that two relations share; of a relation with itself, edges whose reverse is one too."""

    first: str
    second: str
    inverse: bool  # whether edges of the one are reversed edges of the other
    count: int  # type: ignore[assignment]  # edges of the first that are edges of the second
    share: float  # of the edges of the first
    share_of_second: float
    example: tuple[TypedNode, TypedNode] | None

    @property
    def kind(self) -> str:
        """A short name: 'symmetric', 'inverse', 'near-duplicate' or 'contained' relation."""
        if self.first == self.second:
            return "symmetric-relation"
        if self.share_of_second < _ALIKE:
            return "contained-relation"
        return "inverse-relations" if self.inverse else "near-duplicate-relations"


class _Edges(NamedTuple):
    """Pairs of rows of the whole graph with the number of their relation."""

    pairs: Rows  # (m, 2)
    numbers: Rows  # (m,)


@dataclass(frozen=True, eq=False)
class RelationMaterial:
    """Edges of all relations, and for a split the links that are tested and the messages that score them."""

    graph: TypedGraph
    edges: _Edges
    messages: _Edges | None = None
    test: _Edges | None = None

    @cached_property
    def names(self) -> list[str]:
        """Relations by their number."""
        return list(self.graph.relations)

    def keys(self, pairs: Rows, *, inverse: bool = False) -> Rows:
        """A number for each pair, or for its reverse."""
        first, second = (pairs[:, 1], pairs[:, 0]) if inverse else (pairs[:, 0], pairs[:, 1])
        return first * self.graph.num_nodes + second

    def with_direction(self, edges: _Edges) -> _Edges:
        """Those of relations whose reverse is something else."""
        kept = ~self._undirected[edges.numbers]
        return _Edges(edges.pairs[kept], edges.numbers[kept])

    def both_ways(self, edges: _Edges) -> _Edges:
        """With the reverse of each edge of a relation without direction."""
        turned = self._undirected[edges.numbers]
        pairs = np.concatenate([edges.pairs, edges.pairs[turned][:, ::-1]])
        return _Edges(pairs, np.concatenate([edges.numbers, edges.numbers[turned]]))

    @cached_property
    def _undirected(self) -> NDArray[np.bool_]:
        return np.array([r.is_within and not r.directed for r in self.graph.relations.values()], dtype=np.bool_)

    def example(self, edges: _Edges, place: int) -> tuple[TypedNode, TypedNode]:
        """An edge in the caller's ids."""
        first, second = self.graph.nodes_at(edges.pairs[place])
        return first, second


def relation_material(
    data: TypedGraph | TypedSplit | KnowledgeGraph | Mapping[str, Parts], whole: TypedGraph | None = None
) -> RelationMaterial:
    """What an audit of relations looks at; of a knowledge graph the parts that it comes with, else those of `whole`."""
    if isinstance(data, Mapping):
        if whole is None:
            raise InputError("parts by relation need their graph: pass graph=")
        sides = {name: whole.relation(name) for name in data}
        train, test = (
            _edges(whole, {r.name: _within(r, whole, getattr(data[name], part)) for name, r in sides.items()})
            for part in ("train", "test")
        )
        every = _edges(whole, {name: r.edges for name, r in whole.relations.items()})
        return RelationMaterial(whole, every, train, test)
    if isinstance(data, TypedGraph):
        return RelationMaterial(data, _edges(data, {n: r.edges for n, r in data.relations.items()}))
    graph = data.graph
    every = _edges(graph, {n: r.edges for n, r in graph.relations.items()})
    if isinstance(data, KnowledgeGraph):
        train, test = (part[part[:, 0] != part[:, 1]] for part in (data.train, data.test))
        return RelationMaterial(graph, every, _Edges(train[:, :2], train[:, 2]), _Edges(test[:, :2], test[:, 2]))
    kept = data.messages("test")
    messages = _edges(graph, {n: graph.relations[n].edges[places] for n, places in kept.items()})
    tested = {name: _within(graph.relations[name], graph, part.test_targets) for name, part in data.parts.items()}
    return RelationMaterial(graph, every, messages, _edges(graph, tested))


def overlaps(material: RelationMaterial) -> list[Overlap]:
    """Pairs of relations that share most of the edges of one of them, largest first."""
    found = []
    sizes = np.bincount(material.edges.numbers, minlength=len(material.names))
    for inverse in (False, True):
        for first, second, count, place in _shared(material, material.edges, material.edges, inverse=inverse):
            if first == second and not inverse:
                continue
            shares = count / sizes[first], min(1.0, count / sizes[second])
            least = _ALIKE if shares[1] >= _ALIKE and first != second else _PART
            if count < MINIMUM_EDGES or shares[0] < least or _is_chance(material, count, first, second):
                continue
            if first > second and shares[1] >= _ALIKE:
                continue  # the same two, the other way round
            names = material.names[first], material.names[second]
            found.append(Overlap(*names, inverse, count, *shares, material.example(material.edges, place)))
    return sorted(found, key=lambda one: (-min(one.share, one.share_of_second), -one.count))


def check_relations(material: RelationMaterial, log: Log) -> None:
    """Relations that are another one once more, or its inverse."""
    for found in overlaps(material):
        tally: Tally = (found.count, round(found.count / found.share), found.example)
        log.found(found.kind, tally, _words(found), sizes={"of_second": found.share_of_second})
    relations = counted(len(material.names), "relation")
    log.looked(f"{relations}: near duplicates and inverses ({_ALIKE:.0%} of both), parts of others ({_PART:.0%})")


def check_test_links(material: RelationMaterial, log: Log) -> None:
    """Test links that pass messages under another relation, either way round."""
    if material.test is None or material.messages is None or not len(material.test.numbers):
        return
    one = {(frozenset((o.first, o.second)), o.inverse) for o in overlaps(material) if o.share_of_second >= _ALIKE}
    sizes = np.bincount(material.test.numbers, minlength=len(material.names))
    for inverse in (False, True):
        for first, second, count, place in _shared(material, material.test, material.messages, inverse=inverse):
            names = material.names[first], material.names[second]
            same = (frozenset(names), inverse) in one
            few = count < max(2, _NOTED * sizes[first])
            if first == second or (not same and (few or _is_chance(material, count, first, second, material.test))):
                continue
            way = "whose reverse is a message" if inverse else "that are messages"
            tally: Tally = (count, int(sizes[first]), material.example(material.test, place))
            log.found(
                "answered-by-relation",
                tally,
                f"test links of relation {names[0]!r} {way} of relation {names[1]!r}",
                severity="leak" if same else "warning",
            )
    log.looked(f"{counted(len(material.test.numbers), 'test link')} among the messages of other relations")


def _words(found: Overlap) -> str:
    first, second = repr(found.first), repr(found.second)
    if found.kind == "symmetric-relation":
        return f"edges of the directed relation {first} whose reverse is one too"
    where = "reversed edges" if found.inverse else "edges"
    return f"edges of relation {first} that are {where} of {second} ({found.share_of_second:.0%} of its edges)"


def _edges(graph: TypedGraph, by_relation: Mapping[str, Rows]) -> _Edges:
    numbers = {name: number for number, name in enumerate(graph.relations)}
    pairs = [np.empty((0, 2), np.int64)]
    owners = [np.empty(0, np.int64)]
    for name, rows in by_relation.items():
        relation = graph.relations[name]
        pairs.append(rows + np.array([graph.offsets[relation.source], graph.offsets[relation.target]]))
        owners.append(np.full(len(rows), numbers[name], dtype=np.int64))
    return _Edges(np.concatenate(pairs), np.concatenate(owners))


def _within(relation: Relation, graph: TypedGraph, pairs: Rows) -> Rows:
    """Rows of the view of a relation as rows within its two types."""
    return pairs if relation.is_within else pairs - np.array([0, len(graph.nodes[relation.source].ids)])


def _shared(
    material: RelationMaterial, asked: _Edges, among: _Edges, *, inverse: bool
) -> Iterator[tuple[int, int, int, int]]:
    """For two relations the number of edges of the first that the second has, and the place of one of them."""
    there = material.with_direction(among) if inverse else material.both_ways(among)
    keys = material.keys(there.pairs, inverse=inverse)
    order = np.argsort(keys, kind="stable")
    keys, numbers = keys[order], there.numbers[order]
    wanted = material.keys(asked.pairs)
    starts, stops = (np.searchsorted(keys, wanted, side=side) for side in ("left", "right"))
    counts = stops - starts
    places = np.repeat(np.arange(len(wanted)), counts)
    ahead = np.cumsum(counts) - counts
    others = numbers[np.repeat(starts - ahead, counts) + np.arange(counts.sum())]
    codes = asked.numbers[places] * len(material.names) + others
    found, first_places, totals = np.unique(codes, return_index=True, return_counts=True)
    for code, place, total in zip(found.tolist(), first_places.tolist(), totals.tolist(), strict=True):
        yield code // len(material.names), code % len(material.names), total, int(places[place])


def _is_chance(material: RelationMaterial, count: int, first: int, second: int, asked: _Edges | None = None) -> bool:
    """Whether two relations of these sizes share about as many edges by chance."""
    relation = material.graph.relations[material.names[second]]
    sources, targets = (len(material.graph.nodes[kind].ids) for kind in (relation.source, relation.target))
    density = (
        len(relation.edges) / max(1, sources * targets) * (2 if relation.is_within and not relation.directed else 1)
    )
    edges = material.edges if asked is None else asked
    return count < _CHANCE * density * int((edges.numbers == first).sum())
