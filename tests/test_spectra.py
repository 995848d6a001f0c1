"""A table that starts at the leading eigenvectors of the links."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from contracts import tiny
from yinyan import Graph, LinkPredictor
from yinyan.decoder import build_decoder
from yinyan.encoder import BaseModel
from yinyan.errors import SettingsError
from yinyan.messages import MessageGraph
from yinyan.settings import DecoderSettings, EncoderSettings
from yinyan.spectra import leading_eigenvectors, start_from_factors


def blocks(count: int, each: int) -> torch.Tensor:
    """Pairs of complete bipartite blocks of different sizes: few large eigenvalues, of both signs."""
    pairs, first = [], 0
    for size in range(each, each + count):
        pairs += [(first + a, first + size + b) for a in range(size) for b in range(size)]
        first += 2 * size
    return torch.tensor(pairs)


def messages_of(pairs: torch.Tensor, weights: torch.Tensor | None = None) -> tuple[MessageGraph, torch.Tensor]:
    n = int(pairs.max()) + 1
    dense = torch.zeros(n, n, dtype=torch.float64)
    dense[pairs[:, 0], pairs[:, 1]] = 1 if weights is None else weights / weights.mean()
    made = MessageGraph.from_pairs(pairs, n, weights=weights, dtype=torch.float64)
    return made, dense + dense.T


@pytest.mark.parametrize("weighted", [False, True])
def test_they_are_the_leading_ones(weighted: bool) -> None:
    pairs = blocks(4, 3)
    weights = torch.rand(len(pairs), dtype=torch.float64, generator=torch.Generator().manual_seed(2)) + 0.5
    messages, dense = messages_of(pairs, weights if weighted else None)
    vectors, values = leading_eigenvectors(messages, 8, torch.Generator().manual_seed(0))
    expected = torch.linalg.eigvalsh(dense)
    expected = expected[expected.abs().argsort(descending=True)[:8]]
    torch.testing.assert_close(values.abs(), expected.abs(), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(dense @ vectors, vectors * values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(8, dtype=torch.float64))


def test_more_columns_than_nodes_are_zeros() -> None:
    messages, _ = messages_of(torch.tensor([[0, 1], [1, 2]]))
    vectors, values = leading_eigenvectors(messages, 7, torch.Generator().manual_seed(0))
    assert vectors.shape == (3, 7)
    assert (vectors[:, 3:] == 0).all()
    assert (values[3:] == 0).all()
    torch.testing.assert_close(values[:2].abs(), torch.full((2,), 2**0.5, dtype=torch.float64))


def test_before_the_first_step_a_score_is_the_approximated_entry() -> None:
    messages, dense = messages_of(blocks(3, 3))  # of rank six
    settings = EncoderSettings(inputs="embeddings", embedding_size=6, hidden_size=6)
    base = BaseModel(settings, dense.shape[0], 0).double()
    decoder = build_decoder(DecoderSettings(depth=1), 6, directed=False).double()
    vectors, values = leading_eigenvectors(messages, 6, torch.Generator().manual_seed(0))
    start_from_factors(base, decoder, vectors * values.abs().sqrt(), values.sign())
    with torch.no_grad():
        y = base(None, None)
        scores = decoder(y[:, None], y[None])
    torch.testing.assert_close(scores, dense, rtol=1e-6, atol=1e-6)


def test_it_learns_from_there_and_is_repeatable() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_arrays(rng.integers(0, 40, (300, 2)))
    settings = tiny(encoder={"inputs": "embeddings", "table_start": "spectral"}, training={"loss": "squared"})
    first, second = (LinkPredictor(**settings).fit(graph) for _ in range(2))
    assert np.array_equal(first.embeddings_, second.embeddings_)
    assert first.fitted_.settings.encoder.table_start == "spectral"


@pytest.mark.parametrize("inputs", ["random", "features"])
def test_there_has_to_be_a_learned_table(inputs: str) -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_arrays(rng.integers(0, 40, (300, 2)), features=rng.normal(size=(40, 5)).astype(np.float32))
    with pytest.raises(SettingsError, match="'spectral' is for learned embeddings"):
        LinkPredictor(**tiny(encoder={"inputs": inputs, "table_start": "spectral"})).fit(graph)
