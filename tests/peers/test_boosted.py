"""Gradient-boosted trees over heuristics: the contract of a peer, and columns that never see their own edge."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from peer_contract import PeerContract, auc, bipartite, communities, every_pair, split_of

from contracts import planted_graph
from yinyan.errors import MissingExtraError
from yinyan.graph import Graph
from yinyan.peers import Outcome, Task, boosted, method
from yinyan.splits import Split

pytest.importorskip("sklearn")


class TestBoosted(PeerContract):
    name = "boosted"

    @pytest.fixture(scope="class")
    @classmethod
    def split(cls) -> Split:
        """Eight communities, as common neighbours find them."""
        return split_of(planted_graph(8, 10, inside=0.7, across=0.02))

    def test_scores_are_finite_and_one_for_each_pair(self, outcome: Outcome, split: Split) -> None:
        """As of every peer, though pairs that fall into the same leaves have the same score."""
        pairs = every_pair(split)
        scores = outcome.score(pairs)
        assert scores.shape == (len(pairs),) and np.isfinite(scores).all()
        assert len(np.unique(scores)) > 8
        assert outcome.score(pairs[:0]).shape == (0,)
        np.testing.assert_array_equal(outcome.score(pairs[:3]), scores[:3])


def run(split: Split, **training: float) -> Outcome:
    return method("boosted")(Task(split, settings={"training": training}))


@pytest.mark.parametrize("graph", [communities(), bipartite(), communities(directed=True)], ids=str)
@pytest.mark.parametrize("pairs", [50, 500_000])
def test_blocks_are_the_scores_of_pairs(graph: Graph, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    split = split_of(graph)
    monkeypatch.setattr(boosted, "_PAIRS", pairs)
    outcome = run(split, epochs=5)
    sources, targets = np.array([0, 7, 31]), np.array([45, 52, 60, 79])
    grid = np.stack(np.meshgrid(sources, targets, indexing="ij"), axis=-1).reshape(-1, 2)
    assert outcome.block is not None
    np.testing.assert_allclose(outcome.block(sources, targets), outcome.score(grid).reshape(3, 4))
    assert outcome.block(sources[:0], targets).shape == (0, 4)


def test_columns_of_a_training_edge_do_not_see_it() -> None:
    """In a graph of separate edges an edge has walks of one step only, which its fold hides: it looks like any pair."""
    pairs = np.arange(80).reshape(-1, 2)
    split = split_of(Graph.from_arrays(pairs, num_nodes=80))
    found = boosted._examples(split, 10, np.random.default_rng(0))
    assert found.labels.sum() == len(split.train_targets)
    hidden = found.columns[found.labels]
    assert (hidden[:, :4] == 0).all() and (hidden[:, 4] == 0).all()
    assert (hidden[:, 5] == found.columns[:, 5].min()).all()
    seen = boosted._Trees(None, split.graph.with_edges(split.train_messages)).blocks
    assert (seen.scores("katz", split.train_targets[:, 0])[np.arange(28), split.train_targets[:28, 1]] > 0).all()


def test_negatives_are_no_known_edges_and_weigh_as_much_as_edges() -> None:
    split = split_of(communities())
    found = boosted._examples(split, 20, np.random.default_rng(0))
    assert found.weights[found.labels].sum() == pytest.approx(found.weights[~found.labels].sum())
    assert found.columns.shape == (len(found.labels), len(boosted.COLUMNS)) and np.isfinite(found.columns).all()


@pytest.mark.parametrize("changed", [{"epochs": 2}, {"learning_rate": 0.5}, {"loss_negatives": 4}])
def test_every_setting_that_it_reads_matters(changed: dict[str, float]) -> None:
    split = split_of(communities())
    usual = run(split, epochs=5)
    other = run(split, **{"epochs": 5, **changed})
    assert not np.allclose(usual.score(every_pair(split)), other.score(every_pair(split)))
    assert auc(other, split) > 0.55


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[baselines\]'"):
        run(split_of(communities()))
