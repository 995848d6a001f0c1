"""node2vec: vectors of walks over training links only, frozen in the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from peer_contract import PeerContract, communities, small, split_of

from yinyan.errors import SettingsError
from yinyan.peers import Task
from yinyan.peers.node2vec import Walking, _loss, node2vec, skip_gram
from yinyan.peers.walks import WalkGraph


class TestNode2Vec(PeerContract):
    name = "node2vec"


def test_communities_are_told_apart() -> None:
    graph = communities()
    walked = WalkGraph.from_links(graph.edges, graph.num_nodes)
    vectors = F.normalize(skip_gram(walked, Walking(size=16, length=10, window=3, epochs=3), seed=0), dim=1)
    likeness = vectors @ vectors.T
    inside = likeness[:40, :40].mean() + likeness[40:, 40:].mean()
    assert inside / 2 > likeness[:40, 40:].mean() + 0.2


def test_nodes_without_links_have_zero_vectors() -> None:
    walked = WalkGraph.from_links(np.array([[0, 1], [1, 2]]), 4)
    vectors = skip_gram(walked, Walking(size=4, length=5, epochs=1), seed=0)
    assert vectors.shape == (4, 4) and vectors[3].eq(0).all() and vectors[:3].ne(0).any(1).all()


def test_a_graph_without_links_has_zero_vectors() -> None:
    walked = WalkGraph.from_links(np.empty((0, 2), dtype=np.int64), 4)
    assert skip_gram(walked, Walking(size=4), seed=0).eq(0).all()


def test_the_seed_decides_on_two_threads() -> None:
    graph = communities()
    walked, walking = (
        WalkGraph.from_links(graph.edges, graph.num_nodes),
        Walking(size=32, length=10, window=3, walks_per_node=3, epochs=1),
    )
    torch.set_num_threads(2)
    try:
        first, again, other = (skip_gram(walked, walking, seed) for seed in (1, 1, 2))
    finally:
        torch.set_num_threads(1)
    assert torch.equal(first, again) and not torch.allclose(first, other)


def test_the_loss_equals_its_definition() -> None:
    walking = Walking(window=2, negatives=3.0)
    centres, contexts = torch.randn(6, 4), torch.randn(6, 4)
    walks, pool = torch.tensor([[0, 1, 2, 1], [3, 4, 3, 5]]), torch.tensor([0, 5, 5])
    total, count = 0.0, 0
    for nodes in walks.tolist():
        for i, centre in enumerate(nodes):
            for j, context in enumerate(nodes):
                if 0 < abs(i - j) <= 2:
                    drawn = sum(float(F.softplus(centres[centre] @ contexts[node])) for node in pool.tolist()) / 3
                    total += float(F.softplus(-centres[centre] @ contexts[context])) + 3.0 * drawn
                    count += 1
    assert float(_loss(centres, contexts, walks, pool, walking)) == pytest.approx(total / count, rel=1e-5)


def test_walking_options_change_the_scores() -> None:
    split = split_of(communities())
    task = Task(split, settings=small(training={"epochs": 1}), device="cpu")
    base = Walking(size=8, length=8, window=2, epochs=1)
    pairs = split.test_negatives
    scores = [
        node2vec(task, walking=walking).score(pairs)
        for walking in (base, Walking(size=8, length=8, window=2, epochs=1, p=0.1, q=10.0))
    ]
    assert not np.allclose(*scores)


@pytest.mark.parametrize("wrong", [{"p": 0.0}, {"q": -1.0}, {"length": 1}, {"window": 0}])
def test_impossible_walks_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=f"'{next(iter(wrong))}' needs to be"):
        Walking(**wrong)  # type: ignore[arg-type]
