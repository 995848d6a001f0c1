"""Which edges of a graph with relations pass messages, and which are predicted: a split for each predicted relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from yinyan.errors import InputError
from yinyan.graph.typed_graph import Relation, RelationName, TypedGraph
from yinyan.splits.dividing import MINIMUM_EDGES
from yinyan.splits.given import Parts
from yinyan.splits.split import (
    Pairs,
    Rows,
    Split,
    given_split,
    holdout_split,
    random_split,
    with_leaks_allowed,
)
from yinyan.text import counted, listed

__all__ = ["TypedSplit", "given_typed_split", "predicted_relations", "typed_holdout", "typed_split"]

_FEWEST_NEGATIVES = 200  # of a relation for validation, where many relations share them


@dataclass(frozen=True, eq=False)
class TypedSplit:
    """Predicted relations with their splits. Edges of all other relations pass messages at all times."""

    graph: TypedGraph  # with the edges of all parts
    protocol: str  # name of the protocol
    seed: int  # of the parts and the negatives
    parts: Mapping[str, Split]  # of each predicted relation, over `graph.of_relation`
    notes: tuple[str, ...] = ()  # on relations that could not be divided

    @property
    def predicted(self) -> tuple[str, ...]:
        """The names of the predicted relations, in the order of their numbers."""
        return tuple(self.parts)

    def messages(self, when: str) -> dict[str, Rows]:
        """Positions of the edges that pass messages, by relation.

        Parameters
        ----------
        when
            'train', 'valid' or 'test'.

        Returns
        -------
        dict
            Positions in the edges of each relation.

        Examples
        --------
        >>> from yinyan import Graph
        >>> from yinyan.splits.typed_split import typed_split
        >>> graph = Graph.from_triples([(i, "knows", i + 1) for i in range(20)])
        >>> len(typed_split(graph, seed=0).messages("train")["knows"])
        14
        """
        found = {}
        for name, relation in self.graph.relations.items():
            part = self.parts.get(name)
            found[name] = np.arange(len(relation.edges)) if part is None else getattr(part, f"{when}_messages")
        return found

    def describe(self) -> str:
        """How the edges were divided, in words.

        Returns
        -------
        str
            A line for the whole, one for each predicted relation, and one for each note.

        Examples
        --------
        >>> from yinyan import Graph
        >>> from yinyan.splits.typed_split import typed_split
        >>> graph = Graph.from_triples([(i, "knows", i + 1) for i in range(20)])
        >>> typed_split(graph, "knows", seed=0).describe().splitlines()[1]
        "relation 'knows': 14 training, 2 validation, 4 test links"
        """
        others = len(self.graph.relations) - len(self.parts)
        lines = [
            f"protocol '{self.protocol}', seed {self.seed}: {counted(len(self.parts), 'predicted relation')}, "
            f"{counted(others, 'relation')} of messages only"
        ]
        for name, part in self.parts.items():
            lines.append(
                f"relation {name!r}: {len(part.train_targets):,} training, {len(part.valid_targets):,} validation, "
                f"{len(part.test_targets):,} test links"
            )
        return "\n".join([*lines, *self.notes])


def predicted_relations(graph: TypedGraph, predict: RelationName | Sequence[RelationName] | None) -> tuple[str, ...]:
    """The names of the relations to predict: all of them unless given."""
    if predict is None:
        return tuple(graph.relations)
    is_one = isinstance(predict, str) or (isinstance(predict, tuple) and _is_triple(graph, predict))
    wanted: Sequence[RelationName] = [predict] if is_one else list(predict)  # type: ignore[list-item]
    if not wanted:
        raise InputError(f"'predict' needs at least one relation (relations: {listed(list(graph.relations))})")
    return tuple(dict.fromkeys(graph.relation(name).name for name in wanted))


def typed_holdout(
    graph: TypedGraph,
    predict: RelationName | Sequence[RelationName] | None,
    *,
    seed: int,
    valid_share: float,
    valid_negatives: int,
) -> TypedSplit:
    """For a model that will be used: some edges of each predicted relation choose the weights."""
    names = predicted_relations(graph, predict)
    each = _each(valid_negatives, len(names))
    return _divided(
        *(graph, names, predict is None, "holdout", seed),
        lambda relation: holdout_split(
            graph.of_relation(relation.name), seed=seed, valid_share=valid_share, valid_negatives=each
        ),
    )


def typed_split(
    graph: TypedGraph,
    predict: RelationName | Sequence[RelationName] | None = None,
    *,
    seed: int,
    valid_share: float = 0.1,
    test_share: float = 0.2,
    valid_negatives: int = 20_000,
    valid_as_messages: bool = False,
) -> TypedSplit:
    """Split the edges of each predicted relation at random, as `random_split` does (protocol 'clean').

    Parameters
    ----------
    graph
        The graph with relations.
    predict
        The relations whose edges are divided; all unless given. The edges of the others pass messages at all times.
    seed
        Draws the parts and the negatives.
    valid_share, test_share
        Shares of the edges of a relation for validation and test.
    valid_negatives
        Number of negatives for validation, of all relations together.
    valid_as_messages
        Whether validation edges pass messages at test time (protocol 'clean+val').

    Returns
    -------
    TypedSplit
        The split. A relation of fewer than 10 edges is not divided: all of its edges are training edges.

    Raises
    ------
    InputError
        If there is no such relation, or no relation can be divided.

    Examples
    --------
    >>> from yinyan import Graph
    >>> from yinyan.splits.typed_split import typed_split
    >>> graph = Graph.from_triples([(i, "knows", i + 1) for i in range(20)])
    >>> typed_split(graph, "knows", seed=0).predicted
    ('knows',)
    """
    names = predicted_relations(graph, predict)
    each = _each(valid_negatives, len(names))
    return _divided(
        *(graph, names, predict is None, "clean+val" if valid_as_messages else "clean", seed),
        lambda relation: random_split(
            graph.of_relation(relation.name),
            seed=seed,
            valid_share=valid_share,
            test_share=test_share,
            valid_negatives=each,
            valid_as_messages=valid_as_messages,
        ),
    )


def given_typed_split(
    graph: TypedGraph, parts: Mapping[str, Parts], *, seed: int = 0, valid_negatives: int = 20_000
) -> TypedSplit:
    """A split from parts that came with the data, by relation: rows within the two types (protocol 'official').

    The parts of a relation within one type are rows of this type. Of two types, rows of the view `of_relation`.
    """
    each, made = _each(valid_negatives, len(parts)), {}
    for name, given in parts.items():
        view = graph.of_relation(name)
        possible = _possible(graph.relation(name), graph) - view.num_edges
        empty = np.empty((0, 2), np.int64)
        given = replace(given, test_negatives=empty) if given.test_negatives is None else given
        given = replace(given, valid_negatives=empty) if possible <= 0 else given
        split = given_split(view, given, protocol="official", seed=seed, valid_negatives=each)
        made[name] = with_leaks_allowed(split, why) if (why := _reversed(split)) else split
    return TypedSplit(graph, "official", seed, made)


def _divided(
    graph: TypedGraph,
    names: Sequence[str],
    is_default: bool,
    protocol: str,
    seed: int,
    divide: Callable[[Relation], Split],
) -> TypedSplit:
    """A split for each relation; those that are too small keep all edges for training."""
    parts, notes = {}, []
    for name in names:
        relation = graph.relations[name]
        count, possible = len(relation.edges), _possible(relation, graph)
        if count >= possible:
            if not is_default:
                raise InputError(
                    f"relation {name!r} links every pair that it can: there is no link left to predict "
                    "(leave it out of predict=)"
                )
            notes.append(f"relation {name!r} links every pair that it can: its edges are messages only")
        elif not count:
            notes.append(f"relation {name!r} has no edges: nothing is learned of it, and its scores mean little")
            parts[name] = _undivided(graph, relation, protocol, seed)
        elif count < MINIMUM_EDGES or (relation.directed and _num_pairs(relation.edges) < MINIMUM_EDGES):
            notes.append(
                f"relation {name!r} has {counted(count, 'edge')}, fewer than {MINIMUM_EDGES}: none is held out"
            )
            parts[name] = _undivided(graph, relation, protocol, seed)
        else:
            parts[name] = divide(relation)
    if not any(len(part.valid_targets) for part in parts.values()):
        raise InputError(
            f"no predicted relation has {MINIMUM_EDGES} edges, so that none can be held out (predicted: "
            f"{listed(list(names))}): add edges, or predict other relations as well"
        )
    return TypedSplit(graph, protocol, seed, parts, tuple(notes))


def _undivided(graph: TypedGraph, relation: Relation, protocol: str, seed: int) -> Split:
    """All edges of a relation for training."""
    view = graph.of_relation(relation.name)
    none: Pairs = np.empty((0, 2), dtype=np.int64)
    every: Rows = np.arange(view.num_edges, dtype=np.int64)
    return Split(
        graph=view,
        protocol=protocol,
        seed=seed,
        train_targets=view.edges,
        valid_targets=none,
        test_targets=none,
        train_messages=every,
        valid_messages=every,
        test_messages=every,
        known_in_training=every,
        valid_negatives=none,
        test_negatives=none,
        words="of which none is held out",
    )


def _num_pairs(edges: Pairs) -> int:
    """How many unordered pairs some edges are."""
    return len(np.unique(np.sort(edges, axis=1), axis=0))


def _possible(relation: Relation, graph: TypedGraph) -> int:
    """How many edges a relation can have."""
    sources, targets = (len(graph.nodes[kind].ids) for kind in (relation.source, relation.target))
    if not relation.is_within:
        return sources * targets
    return sources * (sources - 1) // (1 if relation.directed else 2)


def _reversed(split: Split) -> str:
    """How many held-out edges are training edges in reverse, in words: such data come with relations that hold both
    ways."""
    held_out = np.concatenate([split.valid_targets, split.test_targets])
    if not split.graph.directed or not len(held_out):
        return ""
    count = int(np.isin(split.graph.find_edges(held_out[:, ::-1]), split.train_messages).sum())
    return (
        f"{count:,} of {len(held_out):,} held-out edges are training edges in reverse, as the data come"
        if count
        else ""
    )


def _each(total: int, count: int) -> int:
    return max(min(total, _FEWEST_NEGATIVES), total // max(1, count))


def _is_triple(graph: TypedGraph, name: tuple[RelationName, ...]) -> bool:
    return len(name) == 3 and name[0] in graph.nodes and name[2] in graph.nodes
