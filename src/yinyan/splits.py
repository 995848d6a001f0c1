"""What is message and what is target, for training, validation and test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.randomness import named_seed
from yinyan.sampling import KnownPairs, distinct_pairs
from yinyan.wording import counted

__all__ = ["Split", "holdout_split", "known_pairs", "random_split"]

Pairs = NDArray[np.int64]

MINIMUM_LINKS = 10  # below, a tenth held out for validation is less than a link


@dataclass(frozen=True, eq=False)
class Split:
    """Links divided by role. Index arrays point into `graph.edges`; false pairs are true non-links."""

    graph: Graph
    protocol: str
    seed: int
    train_targets: Pairs  # (·,) links that the loss sees
    valid_targets: Pairs  # (·,) links that choose the weights
    test_targets: Pairs  # (·,) links that are scored once
    train_messages: Pairs  # (·,) links that the encoder sees in training and at validation
    test_messages: Pairs  # (·,) links that the encoder sees at test time
    valid_negatives: Pairs  # (·, 2) non-links
    test_negatives: Pairs  # (·, 2) non-links

    def describe(self) -> str:
        """What was done, in words."""
        g = self.graph
        unit = "unordered pairs, so that a link and its reverse share a part"
        parts = f"{self.train_targets.size:,} training, {self.valid_targets.size:,} validation"
        lines = [
            f"protocol '{self.protocol}', seed {self.seed}: {g.num_edges:,} links split by {unit}",
            f"targets: {parts}, {self.test_targets.size:,} test links",
            f"messages: {self.train_messages.size:,} links in training and validation, "
            f"{self.test_messages.size:,} at test time; no target is among the messages that score it",
            f"negatives: {len(self.valid_negatives):,} validation and {len(self.test_negatives):,} test pairs, "
            "uniform true non-links; training draws its own and knows training links only",
        ]
        return "\n".join(lines)


def random_split(
    graph: Graph,
    *,
    seed: int,
    valid_share: float = 0.1,
    test_share: float = 0.2,
    valid_negatives: int = 20_000,
    validation_messages: bool = False,
) -> Split:
    """The clean protocol: links split at random by unordered pair, as many test non-links as test links.

    With `validation_messages` (protocol `clean+val`) the encoder also sees the validation links at test time.
    """
    train, valid, test = _divide(graph, seed, valid_share, test_share)
    false_test, false_valid = _non_links(graph, seed, test.size, valid_negatives)
    return Split(
        graph=graph,
        protocol="clean+val" if validation_messages else "clean",
        seed=seed,
        train_targets=train,
        valid_targets=valid,
        test_targets=test,
        train_messages=train,
        test_messages=np.sort(np.concatenate([train, valid])) if validation_messages else train,
        valid_negatives=false_valid,
        test_negatives=false_test,
    )


def holdout_split(graph: Graph, *, seed: int, valid_share: float, valid_negatives: int) -> Split:
    """For a model that will be used: some links choose the weights, and the final embeddings see them all."""
    train, valid, test = _divide(graph, seed, valid_share, 0.0)
    return Split(
        graph=graph,
        protocol="holdout",
        seed=seed,
        train_targets=train,
        valid_targets=valid,
        test_targets=test,
        train_messages=train,
        test_messages=np.arange(graph.num_edges, dtype=np.int64),
        valid_negatives=_non_links(graph, seed, 0, valid_negatives)[1],
        test_negatives=np.empty((0, 2), dtype=np.int64),
    )


def known_pairs(graph: Graph, target_edges: Pairs) -> KnownPairs:
    """The pairs that a sampler must avoid, given (m, 2) rows of links it may know."""
    pairs = torch.as_tensor(target_edges, dtype=torch.long)
    return KnownPairs.from_pairs(pairs, graph.num_nodes, graph.num_left, directed=graph.directed)


def _divide(graph: Graph, seed: int, valid_share: float, test_share: float) -> tuple[Pairs, Pairs, Pairs]:
    """Shuffled indices of training, validation and test links; a link and its reverse go together."""
    low, high = graph.edges.min(axis=1), graph.edges.max(axis=1)
    _, pair = np.unique(low * graph.num_nodes + high, return_inverse=True)
    count = int(pair.max()) + 1 if pair.size else 0
    if count < MINIMUM_LINKS:
        raise InputError(
            f"the graph has {counted(count, 'link')} between different nodes; at least {MINIMUM_LINKS} are needed "
            "to hold some out (add links, or merge graphs)"
        )
    num_test = round(test_share * count)
    num_valid = max(1, round(valid_share * count))
    if min(valid_share, test_share) < 0 or num_test + num_valid >= count:
        raise InputError(
            "'valid_share' and 'test_share' need to be positive and to leave links for training "
            f"(got {valid_share} and {test_share})"
        )
    place = np.random.default_rng(named_seed(seed, "split")).permutation(count)[pair]
    test = np.flatnonzero(place < num_test)
    valid = np.flatnonzero((place >= num_test) & (place < num_test + num_valid))
    return np.flatnonzero(place >= num_test + num_valid), valid, test


def _non_links(graph: Graph, seed: int, num_test: int, num_valid: int) -> tuple[Pairs, Pairs]:
    """Disjoint test and validation non-links; where a graph has too few, half of them serve the test."""
    generator = torch.Generator().manual_seed(named_seed(seed, "evaluation_negatives"))
    pairs = distinct_pairs(known_pairs(graph, graph.edges), num_test + num_valid, generator).numpy()
    if len(pairs) < num_test + num_valid:
        num_test = min(num_test, len(pairs) // 2)
    return pairs[:num_test], pairs[num_test:]
