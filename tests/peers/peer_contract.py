"""What every trained peer must do, inherited by the tests of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from contracts import TINY, planted_graph
from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.metrics import roc_auc
from yinyan.peers import METHODS, Outcome, Task, method
from yinyan.splits import Split, random_split

LEFT_TO_THE_METHOD = ("num_steps", "num_negatives", "expected_negatives", "learn_repulsion", "dropout")
NUM_NODES = 80


def small(**groups: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings that fit a small graph in a moment, without those that make one method differ from another."""
    encoder = {name: value for name, value in TINY["encoder"].items() if name not in LEFT_TO_THE_METHOD}
    training = {**TINY["training"], "batch_size": 64}
    pinned = {"encoder": encoder, "decoder": {**TINY["decoder"], "norm": False}, "training": training}
    return {name: {**values, **groups.get(name, {})} for name, values in pinned.items()}


def community_features(*, sparse: bool = False, columns: int = 12) -> NDArray[np.float32] | SparseFeatures:
    """Bags of words; each community has words of its own."""
    rng = np.random.default_rng(5)
    own = np.arange(columns)[None] % 2 == (np.arange(NUM_NODES) // 40)[:, None]
    words = (rng.random((NUM_NODES, columns)) < np.where(own, 0.5, 0.2)).astype(np.float32)
    if not sparse:
        return words
    rows, places = np.nonzero(words)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=NUM_NODES))])
    return SparseFeatures(indptr, places, words[rows, places], columns)


def communities(*, sparse: bool = False, **options: Any) -> Graph:
    return planted_graph(2, 40, inside=0.3, across=0.02, features=community_features(sparse=sparse), **options)


def bipartite() -> Graph:
    """40 users and 40 items in two tastes, without features."""
    rng = np.random.default_rng(2)
    users, items = (ends.ravel() for ends in np.meshgrid(np.arange(40), np.arange(40), indexing="ij"))
    chosen = rng.random(users.size) < np.where(users % 2 == items % 2, 0.35, 0.03)
    links = np.stack([users, items + 40], axis=1)[chosen]
    return Graph.from_arrays(links, num_nodes=NUM_NODES, sides=np.repeat([0, 1], 40))


def random_graph(nodes: int, edges: int, seed: int = 0) -> Tensor:
    """(edges, 2) distinct pairs."""
    every = torch.combinations(torch.arange(nodes))
    return every[torch.randperm(len(every), generator=torch.Generator().manual_seed(seed))[:edges]]


def split_of(graph: Graph) -> Split:
    return random_split(graph, seed=0, valid_negatives=200)


def every_pair(split: Split) -> NDArray[np.int64]:
    return np.concatenate([split.test_targets, split.test_negatives])


def auc(outcome: Outcome, split: Split) -> float:
    return roc_auc(outcome.score(split.test_targets), outcome.score(split.test_negatives))


class PeerContract:
    """Learns communities from links, by the seed alone, and never from links that it may not see."""

    name: str
    epochs = 15
    least_auc = 0.6
    needs_geometric = False

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _geometric(cls) -> None:
        if cls.needs_geometric:
            pytest.importorskip("torch_geometric")

    @classmethod
    def run(cls, split: Split, *, seed: int = 0, epochs: int | None = None) -> Outcome:
        settings = small(training={"epochs": epochs or cls.epochs, "evaluate_every": 5})
        return method(cls.name)(Task(split, seed=seed, settings=settings, device="cpu"))

    @pytest.fixture(scope="class")
    @classmethod
    def split(cls) -> Split:
        return split_of(communities())

    @pytest.fixture(scope="class")
    @classmethod
    def outcome(cls, split: Split) -> Outcome:
        return cls.run(split)

    def test_beats_chance(self, outcome: Outcome, split: Split) -> None:
        assert auc(outcome, split) > self.least_auc
        assert outcome.validation is not None and outcome.validation > self.least_auc

    def test_scores_are_finite_and_one_for_each_pair(self, outcome: Outcome, split: Split) -> None:
        pairs = every_pair(split)
        scores = outcome.score(pairs)
        assert scores.shape == (len(pairs),)
        assert np.isfinite(scores).all() and len(np.unique(scores)) > len(pairs) // 2
        assert outcome.score(pairs[:0]).shape == (0,)
        np.testing.assert_allclose(outcome.score(pairs[:3]), scores[:3], atol=1e-5)

    def test_symmetric_on_undirected_graphs(self, outcome: Outcome, split: Split) -> None:
        pairs = every_pair(split)
        np.testing.assert_allclose(outcome.score(pairs[:, ::-1]), outcome.score(pairs), atol=1e-4)

    def test_the_seed_decides(self, split: Split) -> None:
        first, again, other = (self.run(split, seed=seed, epochs=1).score(every_pair(split)) for seed in (0, 0, 1))
        assert np.array_equal(first, again)
        assert not np.allclose(first, other)

    def test_held_out_links_are_never_seen(self, split: Split) -> None:
        """Without the test links in the graph at all, the scores are the same."""
        graph = split.graph
        tested = np.isin(np.arange(graph.num_edges), graph.find_edges(split.test_targets))
        left = np.flatnonzero(~tested)
        without = replace(
            split,
            graph=graph.with_edges(left),
            **{
                role: np.searchsorted(left, getattr(split, role))
                for role in ("train_messages", "valid_messages", "test_messages", "known_in_training")
            },
        )
        pairs = every_pair(split)
        both = [self.run(part, epochs=1).score(pairs) for part in (split, without)]
        assert np.array_equal(*both)

    def test_learns_without_features_on_a_bipartite_graph(self) -> None:
        split = split_of(bipartite())
        outcome = self.run(split, epochs=2)
        assert np.isfinite(outcome.score(every_pair(split))).all()

    def test_takes_sparse_features_and_weights(self) -> None:
        graph = communities(sparse=True)
        weighted = replace(graph, weights=np.linspace(0.5, 2, graph.num_edges).astype(np.float32))
        assert isinstance(weighted.features, SparseFeatures)
        split = split_of(weighted)
        assert np.isfinite(self.run(split, epochs=1).score(every_pair(split))).all()

    def test_takes_directed_graphs(self) -> None:
        split = split_of(communities(directed=True))
        assert np.isfinite(self.run(split, epochs=1).score(every_pair(split))).all()

    def test_unknown_settings_are_refused(self, split: Split) -> None:
        with pytest.raises(SettingsError, match=r"encoder\.hiden_size"):
            method(self.name)(Task(split, settings={"encoder": {"hiden_size": 8}}))
        assert METHODS[self.name].words
