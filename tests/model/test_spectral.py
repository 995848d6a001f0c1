"""The spectral start: eigenvectors of the graph, and a table that the layers turn into them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from contracts import planted_graph
from yinyan.model.encoder import Encoder
from yinyan.model.messages import MessageGraph
from yinyan.model.spectral import leading_eigenvectors, start_spectrally
from yinyan.predictor import LinkPredictor
from yinyan.settings import EncoderSettings


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def messages(nodes: int = 60, seed: int = 0) -> MessageGraph:
    """Two communities and a bridge."""
    rng = np.random.default_rng(seed)
    half = nodes // 2
    within = [(a, b) for a in range(nodes) for b in range(a + 1, nodes) if (a < half) == (b < half)]
    pairs = [pair for pair in within if rng.random() < 0.3]
    return MessageGraph.from_pairs(torch.tensor([*pairs, (0, nodes - 1)]), nodes)


def dense(graph: MessageGraph) -> torch.Tensor:
    return graph.adjacency(self_loops=False)[0].product(torch.eye(graph.num_nodes))


def test_the_largest_eigenvalues_and_their_vectors_are_found() -> None:
    graph = messages()
    vectors, values = leading_eigenvectors(graph, 4, generator())
    exact = torch.linalg.eigvalsh(dense(graph)).flip(0)[:4]
    torch.testing.assert_close(values[:2], exact[:2], atol=1e-3, rtol=0)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(dense(graph) @ vectors[:, :2], vectors[:, :2] * values[:2], atol=2e-2, rtol=0)


def test_the_second_vector_separates_two_communities() -> None:
    vectors, _ = leading_eigenvectors(messages(), 2, generator())
    first, second = vectors[:30, 1], vectors[30:, 1]
    assert (first.sign() == first[0].sign()).all()
    assert (second.sign() == -first[0].sign()).all()


def test_a_graph_with_fewer_nodes_than_columns_gets_what_there_is() -> None:
    vectors, values = leading_eigenvectors(messages(10), 64, generator())
    assert vectors.shape == (10, 10)
    assert values.shape == (10,)
    assert vectors.isfinite().all()


def test_nodes_without_edges_stay_finite() -> None:
    graph = MessageGraph.from_pairs(torch.tensor([[0, 1], [1, 2]]), 9)
    vectors, _ = leading_eigenvectors(graph, 3, generator())
    assert vectors.isfinite().all()


def test_the_layers_turn_the_table_into_weighted_eigenvectors() -> None:
    graph, size = messages(), 3
    settings = EncoderSettings(
        inputs="embeddings", hidden_size=size, embedding_size=size, num_steps=3, step_size=0.8, anchoring=0.0,
        num_negatives=0, output_norm=False, learn_repulsion="no",
    )  # fmt: skip
    encoder = Encoder(settings, graph.num_nodes, 0)
    start_spectrally(encoder, graph, generator())
    vectors, values = leading_eigenvectors(graph, size, generator())
    y = encoder(None, graph).detach()
    wanted = vectors * values.sqrt()
    found = y * (wanted.norm() / y.norm())
    torch.testing.assert_close(found, wanted, atol=0.02, rtol=0)


def test_it_needs_learned_embeddings() -> None:
    encoder = Encoder(EncoderSettings(inputs="features"), 60, 5)
    with pytest.raises(ValueError, match="learned embeddings"):
        start_spectrally(encoder, messages(), generator())


@pytest.mark.parametrize("start", ["random", "spectral"])
def test_the_setting_decides_how_a_run_starts(start: str) -> None:
    model = LinkPredictor(seed=0, embedding_start=start, epochs=1, hidden_size=8, embedding_size=8).fit(planted_graph())
    assert model.settings_.encoder.embedding_start == start
    assert np.isfinite(model.embeddings_).all()
