"""YinYanGNN from two completions: the weight between them, and the score that it gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from peer_contract import PeerContract, every_pair, split_of

from contracts import planted_graph
from yinyan.errors import SettingsError
from yinyan.metrics import hits_at_k
from yinyan.model.tensors import message_graph
from yinyan.peers import Task, combined, method
from yinyan.peers.combined import chosen_weight, combined_factors, mean_hits
from yinyan.peers.completion import Factors, completed_and_smoothed, completed_factors, smoothed_factors
from yinyan.randomness import Streams
from yinyan.splits import Split
from yinyan.training.data import training_data

CPU = torch.device("cpu")


class TestCombined(PeerContract):
    name = "yinyan-combined"


def dense_split() -> Split:
    return split_of(planted_graph(4, 20, inside=0.7, across=0.0))


def still(size: int = 16) -> dict[str, dict[str, Any]]:
    """Settings under which training changes nothing."""
    training = {"epochs": 1, "learning_rate": 1e-9, "averaging": 0.0, "batch_size": 64, "valid_negatives": 400}
    return {"encoder": {"embedding_size": size, "hidden_size": size}, "training": training}


def drawn(columns: int, seed: int) -> Factors:
    generator = torch.Generator().manual_seed(seed)
    return Factors(torch.randn(80, columns, generator=generator), torch.randn(columns, generator=generator).sign())


def scores(factors: Factors) -> torch.Tensor:
    return (factors.rows * factors.signs) @ factors.rows.T


def test_rows_side_by_side_add_their_scores() -> None:
    first, second = drawn(5, 0), drawn(3, 1)
    together = combined_factors(first, second, 0.4)
    assert together.rows.shape == (80, 8)
    torch.testing.assert_close(scores(together), scores(first) + 0.4 * scores(second))


def test_completion_is_that_of_its_own_function() -> None:
    split = dense_split()
    messages = message_graph(split.graph, split.train_messages, CPU)
    made = completed_and_smoothed(messages, 8, generator=Streams.fresh(0, "spectrum", CPU))
    wanted = (
        completed_factors(messages, 8, generator=Streams.fresh(0, "spectrum", CPU)),
        smoothed_factors(messages, 8, generator=Streams.fresh(0, "spectrum", CPU)),
    )
    for found, expected in zip(made, wanted, strict=True):
        torch.testing.assert_close(scores(found), scores(expected))


def test_the_weight_is_the_best_on_validation_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combined, "RANKS", (5, 10))
    split = dense_split()
    data, first, second = training_data(split.graph, split, CPU), drawn(5, 0), drawn(3, 1)
    hits = {}
    for weight in (0.0, 0.3, 1.0, 3.0):
        both = scores(combined_factors(first, second, weight)).numpy()
        links, others = (both[tuple(pairs.T.numpy())] for pairs in (data.valid_links, data.valid_non_links))
        hits[weight] = mean_hits(links, others)
        assert hits[weight] == pytest.approx(np.mean([hits_at_k(links, others, rank) for rank in (5, 10)]))
    assert len(set(hits.values())) > 1
    assert chosen_weight(first, second, data, tuple(hits)) == max(hits, key=lambda weight: hits[weight])


def test_a_useless_completion_gets_no_weight() -> None:
    split = dense_split()
    data = training_data(split.graph, split, CPU)
    messages = message_graph(split.graph, split.train_messages, CPU)
    good = smoothed_factors(messages, 8, generator=Streams.fresh(0, "spectrum", CPU))
    assert chosen_weight(good, drawn(8, 1)._replace(signs=20 * torch.ones(8)), data) == 0.0


def test_a_score_before_training_is_the_weighted_sum() -> None:
    split = dense_split()
    outcome = method("yinyan-combined")(Task(split, 3, still(), "cpu"))
    messages = message_graph(split.graph, split.train_messages, CPU)
    completed, smoothed = completed_and_smoothed(messages, 8, generator=Streams.fresh(3, "spectrum", CPU))
    weight = chosen_weight(smoothed, completed, training_data(split.graph, split, CPU))
    pairs = every_pair(split)
    expected = scores(combined_factors(smoothed, completed, weight))[tuple(pairs.T)]
    np.testing.assert_allclose(outcome.score(pairs), expected.numpy(), atol=1e-4)


def test_columns_are_halved() -> None:
    with pytest.raises(SettingsError, match=r"encoder\.embedding_size: two completions.*got 15; use 16"):
        method("yinyan-combined")(Task(dense_split(), 0, still(15), "cpu"))
