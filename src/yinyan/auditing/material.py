"""What an audit looks at: the pairs of every role, whoever made the split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.auditing.findings import Tally
from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.edge_lists import distinct
from yinyan.splits import Parts, Split

__all__ = ["ACROSS", "NAMES", "AnyPairs", "Mask", "Material", "contains", "material_of", "of_one_node"]

Pairs = NDArray[np.int64]
Keys = NDArray[np.int64]
Mask = NDArray[np.bool_]
AnyPairs = NDArray[np.int64] | NDArray[np.int32]
IsBad = Callable[[AnyPairs], Mask]

NAMES = {"train": "training", "valid": "validation", "test": "test"}
ACROSS = (("valid", "train"), ("test", "train"), ("test", "valid"))  # a part, and one that the model meets earlier
_BLOCK = 1 << 20  # pairs looked at together: (p, k, 2) may hold a hundred million


@dataclass(frozen=True, eq=False)
class Material:
    """A split's pairs by part; parts and roles that it does not have are absent."""

    graph: Graph | None
    num_nodes: int
    targets: Mapping[str, Pairs]
    negatives: Mapping[str, AnyPairs]  # (·, 2), or (p, k, 2): each target's own
    messages: Mapping[str, Pairs]  # what passes messages when a part is scored
    known: Pairs | None  # what training's sampler of negatives knows
    temporal: bool = False

    @property
    def directed(self) -> bool:
        """Whether a -> b and b -> a are two links."""
        return self.graph is not None and self.graph.directed

    @property
    def num_possible(self) -> int:
        """How many pairs could be links."""
        if self.graph is not None and self.graph.num_left is not None:
            return self.graph.num_left * (self.num_nodes - self.graph.num_left)
        return self.num_nodes * (self.num_nodes - 1) // (1 if self.directed else 2)

    def ordered(self, pairs: AnyPairs) -> Keys:
        """(...) numbers for (..., 2) pairs, whose order matters."""
        return pairs[..., 0].astype(np.int64) * self.num_nodes + pairs[..., 1]

    def keys(self, pairs: AnyPairs) -> Keys:
        """(...) numbers for (..., 2) pairs; their order matters in a directed graph only."""
        if self.directed:
            return self.ordered(pairs)
        first, second = pairs[..., 0].astype(np.int64), pairs[..., 1].astype(np.int64)
        return np.minimum(first, second) * self.num_nodes + np.maximum(first, second)

    def pair_of(self, key: int) -> tuple[Any, Any]:
        """A pair in the caller's ids."""
        return self._named(divmod(key, self.num_nodes))

    @cached_property
    def target_keys(self) -> dict[str, Keys]:
        """Each part's links, sorted and distinct."""
        return {part: distinct(self.keys(pairs)) for part, pairs in self.targets.items()}

    @cached_property
    def true_keys(self) -> Keys:
        """All links that are known to exist, sorted and distinct."""
        absent = [keys[~contains(self.graph_keys, keys)] for keys in self.target_keys.values()]
        return distinct(np.concatenate([self.graph_keys, *absent])) if any(map(len, absent)) else self.graph_keys

    @cached_property
    def graph_keys(self) -> Keys:
        """The graph's links, sorted and distinct; none if there is no graph."""
        return np.empty(0, dtype=np.int64) if self.graph is None else self.keys(self.graph.edges)

    def among(self, keys: Keys) -> IsBad:
        """A question to pairs: are they among these sorted keys?"""
        return lambda pairs: contains(keys, self.keys(pairs))

    def reversed_among(self, ordered: Keys) -> IsBad:
        """A question to pairs of two nodes: is their reverse among these sorted keys, whose order matters?"""
        return lambda pairs: contains(ordered, self.ordered(pairs[:, ::-1])) & ~of_one_node(pairs)

    @property
    def one_sided(self) -> IsBad | None:
        """A question to pairs: are they within one side of the bipartite graph? None if the graph is not."""
        if self.graph is None or self.graph.sides is None:
            return None
        sides = self.graph.sides
        return lambda pairs: sides[pairs[:, 0]] == sides[pairs[:, 1]]

    def blocks(self, pairs: AnyPairs) -> Iterator[tuple[int, AnyPairs]]:
        """Parts of a long array, each with the place where it begins."""
        step = max(1, _BLOCK // max(1, int(np.prod(pairs.shape[1:-1]))))
        for start in range(0, len(pairs), step):
            yield start, pairs[start : start + step]

    def tally(self, pairs: AnyPairs, is_bad: IsBad) -> Tally:
        """How many of (..., 2) pairs are bad; `is_bad` is asked for (b, 2) pairs at a time."""
        return self.tally_rows(pairs, lambda start, block: is_bad(block.reshape(-1, 2)))

    def tally_marked(self, pairs: Pairs, bad: Mask) -> Tally:
        """How many of (b, 2) pairs a mask marks."""
        return self.tally_rows(pairs, lambda start, block: bad[start : start + len(block)])

    def tally_rows(self, pairs: AnyPairs, is_bad: Callable[[int, AnyPairs], Mask]) -> Tally:
        """How many of (..., 2) pairs are bad; `is_bad` sees whole rows, and the place of the first."""
        count, example = 0, None
        for start, block in self.blocks(pairs):
            bad = is_bad(start, block).reshape(-1)
            count += int(bad.sum())
            if example is None and bad.any():
                a, b = block.reshape(-1, 2)[int(bad.argmax())]
                example = self._named((int(a), int(b)))
        return count, max(1, pairs.size // 2), example

    def _named(self, pair: tuple[int, int]) -> tuple[Any, Any]:
        return pair if self.graph is None else (self.graph.ids[pair[0]], self.graph.ids[pair[1]])


def contains(keys: Keys, asked: Keys) -> Mask:
    """Which of `asked` are among sorted `keys`."""
    if not len(keys):
        return np.zeros(asked.shape, dtype=np.bool_)
    found: Mask = keys[np.minimum(np.searchsorted(keys, asked), len(keys) - 1)] == asked
    return found


def of_one_node(pairs: AnyPairs) -> Mask:
    """Which of (b, 2) pairs join a node to itself."""
    same: Mask = pairs[:, 0] == pairs[:, 1]
    return same


def material_of(split: Split | Parts, graph: Graph | None) -> Material:
    """A split of ours, or one that somebody else made, as what an audit looks at."""
    if isinstance(split, Split):
        if graph is not None and graph is not split.graph:
            raise InputError("a Split brings its graph: leave 'graph' out, or give the one that it was made from")
        targets = {part: getattr(split, f"{part}_targets") for part in NAMES}
        negatives = {"valid": split.valid_negatives, "test": split.test_negatives}
        edges = split.graph.edges
        messages = {"valid": edges[split.valid_messages], "test": edges[split.test_messages]}
        known, temporal = edges[split.known_in_training], split.is_by_time
        return _checked(Material(split.graph, split.graph.num_nodes, targets, negatives, messages, known, temporal))
    if not isinstance(split, Parts):
        raise InputError(f"an audit needs a Split or Parts (got {type(split).__name__}): see yinyan.splits")
    targets = {part: getattr(split, part) for part in NAMES}
    given = {part: getattr(split, f"{part}_negatives") for part in NAMES}
    negatives = {part: pairs for part, pairs in given.items() if pairs is not None}
    rows = [int(pairs.max()) + 1 for pairs in (*targets.values(), *negatives.values()) if pairs.size]
    num_nodes = max(rows, default=0) if graph is None else graph.num_nodes
    return _checked(Material(graph, num_nodes, targets, negatives, {}, None))


def _checked(material: Material) -> Material:
    """Refuse rows that are no nodes: nothing true can be said of such pairs."""
    for role, by_part in (("links", material.targets), ("negatives", material.negatives)):
        for part, pairs in by_part.items():
            if pairs.size and not 0 <= pairs.min() <= pairs.max() < material.num_nodes:
                raise InputError(
                    f"the {NAMES[part]} {role} name row {int(pairs.max()):,}, but the graph has "
                    f"{material.num_nodes:,} nodes, rows 0 to {material.num_nodes - 1:,}: it is another graph's split"
                )
    return material
