"""Weights of exact columns: found where they help, refused where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan.model.reranking import Reranking, Shortlists, fit_reranking, reranking_from_dict
from yinyan.model.shared_neighbours import NUM_COLUMNS


def shortlists(*, helpful: float, sources: int = 120, width: int = 30, seed: int = 0) -> Shortlists:
    """One held-out edge per list, whose last column is larger by `helpful`; scores and other columns are noise."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(sources, width, NUM_COLUMNS)).astype(np.float32)
    hits = np.zeros((sources, width), dtype=bool)
    hits[np.arange(sources), rng.integers(width, size=sources)] = True
    columns[hits, -1] += helpful
    scores = rng.normal(size=(sources, width)).astype(np.float32)
    scores[hits] += 1
    is_there = np.ones_like(hits)
    is_there[::3, -2:] = hits[::3, -2:]  # some lists are shorter
    return Shortlists(scores, columns, hits, is_there)


def test_a_helpful_column_gets_the_weight_of_its_evidence() -> None:
    """Normal columns with means one and two apart: the log odds are <1, score> + 2 <column>, so the ratio is two."""
    found = fit_reranking(shortlists(helpful=2.0, sources=2000))
    assert found is not None
    assert found.mrr_after > found.mrr_before + 0.2
    assert found.weights[-1] == pytest.approx(2.0, rel=0.15)
    assert np.abs(found.weights[:-1]).max() < 0.2


def test_noise_is_refused_more_often_than_not() -> None:
    taken = [fit_reranking(shortlists(helpful=0.0, seed=seed)) for seed in range(12)]
    assert sum(found is not None for found in taken) <= 3


def test_few_held_out_edges_show_nothing() -> None:
    assert fit_reranking(shortlists(helpful=3.0, sources=30)) is None
    assert fit_reranking(shortlists(helpful=3.0, sources=60)) is not None


def test_amounts_and_what_is_stored() -> None:
    reranking = Reranking((1.0, 0.0, -2.0, 0.5, 0.0), 0.1, 0.2)
    columns = np.arange(10, dtype=np.float32).reshape(2, NUM_COLUMNS)
    np.testing.assert_allclose(reranking.amounts(columns), columns @ np.array(reranking.weights))
    assert reranking_from_dict(reranking.to_dict()) == reranking
    assert reranking_from_dict(None) is None


@pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, 3.0, 4.0, float("nan")]])
def test_damaged_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="5 finite weights"):
        reranking_from_dict({"weights": weights, "mrr_before": 0.1, "mrr_after": 0.2})
