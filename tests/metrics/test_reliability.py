"""Stated against observed probabilities, and their expected error."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan.errors import InputError
from yinyan.metrics import expected_calibration_error, reliability_bins


def sample(count: int = 40_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities as those of recommended links, most of them small, and hits drawn by them."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 6, count)
    return p, rng.random(count) < p


def test_probabilities_that_hold_lie_on_the_diagonal() -> None:
    p, hits = sample()
    bins = reliability_bins(p, hits)
    assert bins.counts.tolist() == [4_000] * 10 and bins.weights.tolist() == pytest.approx([0.1] * 10)
    assert (np.diff(bins.predicted) > 0).all()
    assert ((bins.low <= bins.predicted) & (bins.predicted <= bins.high)).sum() >= 8
    assert expected_calibration_error(p, hits) < 0.01


def test_overconfidence_lies_off_the_diagonal() -> None:
    bins = reliability_bins([0.95] * 100, [True] * 50 + [False] * 50)
    assert bins.observed.tolist() == [0.5] and bins.predicted.tolist() == pytest.approx([0.95])
    assert (bins.low[0], bins.high[0]) == pytest.approx((0.4038, 0.5962), abs=1e-4)  # Wilson, 50 of 100
    assert expected_calibration_error([0.95] * 100, [True] * 50 + [False] * 50) == pytest.approx(0.45)


def test_the_error_sees_what_the_means_hide() -> None:
    """Half of the rows are stated too high and half too low: the means agree, the bins do not."""
    p, hits = [0.2] * 50 + [0.4] * 50, [False] * 30 + [True] * 20 + [False] * 40 + [True] * 10
    assert np.mean(p) == pytest.approx(np.mean(hits))
    assert expected_calibration_error(p, hits, num_bins=2) == pytest.approx(0.2)
    assert expected_calibration_error(p, hits, num_bins=1) == pytest.approx(0.0)


def test_a_weight_stands_for_as_many_rows() -> None:
    p, hits = np.array([0.1, 0.2, 0.3, 0.4]), np.array([False, True, False, True])
    copied = reliability_bins(np.repeat(p, [1, 1, 3, 3]), np.repeat(hits, [1, 1, 3, 3]), num_bins=1)
    weighted = reliability_bins(p, hits, [1, 1, 3, 3], num_bins=1)
    assert weighted.predicted == pytest.approx(copied.predicted) and weighted.observed == pytest.approx(copied.observed)
    assert weighted.high[0] - weighted.low[0] > copied.high[0] - copied.low[0], "four rows are worth less than eight"


def test_equal_probabilities_share_a_bin() -> None:
    bins = reliability_bins([0.3] * 7 + [0.9], [True] * 8, num_bins=4)
    assert bins.counts.tolist() == [7, 1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (([], []), "not empty"),
        (([0.5], [True, False]), "same length"),
        (([1.1], [True]), "between 0 and 1"),
        (([np.nan], [True]), "between 0 and 1"),
        (([0.5], [True], [0.0]), "positive"),
    ],
)
def test_what_is_no_probability_is_refused(given: tuple, words: str) -> None:
    with pytest.raises(InputError, match=words):
        reliability_bins(*given)


def test_no_bins_are_refused() -> None:
    with pytest.raises(InputError, match="'num_bins' needs to be a positive integer"):
        reliability_bins([0.5], [True], num_bins=0)
