"""Calibration: known parameters come back, probabilities mean what they say, at any base rate."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yinyan.errors import InputError
from yinyan.model.calibration import (
    IsotonicCalibration,
    PlattCalibration,
    calibration_from_dict,
    fit_calibration,
    shifted,
)

METHODS = ["platt", "isotonic"]
scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=12)
chances = st.floats(0.001, 0.999)


def logistic_sample(
    slope: float, intercept: float, count: int = 60_000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of links and non-links with P(link | score) = σ(slope · score + intercept) at base rate 1/2.

    Two normal distributions of variance v and means m ± d have log odds (2d / v) (score - m).
    """
    rng = np.random.default_rng(seed)
    half, middle = slope / 2, -intercept / slope  # v = 1
    return rng.normal(middle + half, 1, count), rng.normal(middle - half, 1, count)


# -- Platt ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slope", "intercept"), [(1.0, 0.0), (2.0, -3.0), (0.3, 1.0)])
def test_platt_recovers_known_parameters(slope: float, intercept: float) -> None:
    found = fit_calibration(*logistic_sample(slope, intercept), "platt")
    assert isinstance(found, PlattCalibration)
    assert found.slope == pytest.approx(slope, rel=0.05)
    assert found.intercept == pytest.approx(intercept, rel=0.05, abs=0.05)


def test_platt_does_not_mind_how_many_non_links_were_sampled() -> None:
    positive, negative = logistic_sample(1.5, -1)
    balanced = fit_calibration(positive, negative, "platt")
    lopsided = fit_calibration(positive[:6_000], negative, "platt")
    grid = np.linspace(-3, 5, 9)
    np.testing.assert_allclose(lopsided.probabilities(grid), balanced.probabilities(grid), atol=0.03)


@pytest.mark.parametrize(("scale", "offset"), [(1e-6, 0.0), (1e6, 0.0), (1.0, 1e5)])
def test_platt_does_not_mind_the_unit_of_scores(scale: float, offset: float) -> None:
    positive, negative = logistic_sample(2, 0, 2000)
    plain = fit_calibration(positive, negative, "platt")
    scaled = fit_calibration(scale * positive + offset, scale * negative + offset, "platt")
    grid = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(scaled.probabilities(scale * grid + offset), plain.probabilities(grid), atol=1e-5)


def test_platt_is_where_the_gradient_of_the_loss_vanishes() -> None:
    positive, negative = np.array([0.5, 2.0, 1.0]), np.array([-1.0, 0.7, 0.0, -2.0])
    found = fit_calibration(positive, negative, "platt")
    up, down = 4 / 5 - found.probabilities(positive), 1 / 6 - found.probabilities(negative)
    assert up.mean() + down.mean() == pytest.approx(0, abs=1e-8)
    assert (up * positive).mean() + (down * negative).mean() == pytest.approx(0, abs=1e-8)


def test_scores_that_mislead_say_nothing() -> None:
    """Links below non-links: a falling curve is refused, and what is left is the base rate."""
    found = fit_calibration(np.linspace(-3, -1, 50), np.linspace(1, 3, 5000), "platt")
    assert isinstance(found, PlattCalibration)
    assert found.slope == 0
    assert found.probabilities([-9.0, 0.0, 9.0]) == pytest.approx([0.5] * 3, abs=0.01)


# -- isotonic ------------------------------------------------------------------------------------------------


def test_isotonic_by_hand() -> None:
    """Links at 1 and 3, non-links at 0 and 2: the inversion at 1 and 2 is pooled to one half."""
    found = fit_calibration([1.0, 3.0], [0.0, 2.0], "isotonic")
    assert isinstance(found, IsotonicCalibration)
    assert found.knots == (0, 1, 2, 3)
    assert found.values == pytest.approx((0.25, 0.5, 0.5, 0.75))  # smoothed labels: 1/4 and 3/4
    assert found.probabilities([-1, 0.5, 1.7, 2.5, 9]) == pytest.approx([0.25, 0.375, 0.5, 0.625, 0.75])


@given(positive=scores, negative=scores)
def test_isotonic_is_the_best_rising_curve(positive: list[float], negative: list[float]) -> None:
    """Against the closed form of isotonic regression: max over starts of min over ends of the mean between."""
    found = fit_calibration(positive, negative, "isotonic")
    p, n = len(positive), len(negative)
    places = sorted({*positive, *negative})
    mass = [positive.count(s) / (2 * p) + negative.count(s) / (2 * n) for s in places]
    gain = [positive.count(s) / (2 * p) * (p + 1) / (p + 2) + negative.count(s) / (2 * n) / (n + 2) for s in places]
    best = [
        max(min(sum(gain[a : b + 1]) / sum(mass[a : b + 1]) for b in range(i, len(places))) for a in range(i + 1))
        for i in range(len(places))
    ]
    np.testing.assert_allclose(found.probabilities(places), best, atol=1e-12)


# -- both ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@given(positive=scores, negative=scores)
def test_curves_rise_and_stay_within_bounds(method: str, positive: list[float], negative: list[float]) -> None:
    curve = fit_calibration(positive, negative, method).probabilities(np.linspace(-20, 20, 81))  # type: ignore[arg-type]
    assert np.isfinite(curve).all()
    assert (np.diff(curve) >= -1e-12).all()
    assert curve.min() >= 0 and curve.max() <= 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [1, 20])
def test_a_separated_sample_does_not_prove_certainty(method: str, count: int) -> None:
    found = fit_calibration(np.full(count, 5.0), np.full(count, -5.0), method)  # type: ignore[arg-type]
    low, high = found.probabilities([-5.0, 5.0])
    assert low == pytest.approx(1 / (count + 2), abs=1e-6)
    assert high == pytest.approx((count + 1) / (count + 2), abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_equal_scores_give_the_base_rate(method: str) -> None:
    found = fit_calibration([2.0] * 3, [2.0] * 3, method)  # type: ignore[arg-type]
    assert found.probabilities(2.0) == pytest.approx(0.5)


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_hold_on_fresh_pairs(method: str) -> None:
    found = fit_calibration(*logistic_sample(1.5, 0.5), method)  # type: ignore[arg-type]
    positive, negative = logistic_sample(1.5, 0.5, seed=1)
    told = np.concatenate([found.probabilities(positive), found.probabilities(negative)])
    true = np.repeat([1.0, 0.0], [len(positive), len(negative)])
    bins = np.clip((told * 10).astype(int), 0, 9)
    gaps = [abs(told[bins == b].mean() - true[bins == b].mean()) for b in range(10) if (bins == b).sum() > 500]
    assert len(gaps) >= 8
    assert max(gaps) < 0.02


@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_probabilities_hold_at_another_base_rate(rate: float) -> None:
    found = fit_calibration(*logistic_sample(1.5, 0.5), "platt")
    positive, negative = logistic_sample(1.5, 0.5, seed=1)
    few = positive[: int(len(negative) * rate / (1 - rate))]
    told = np.concatenate([shifted(found.probabilities(s), rate) for s in (few, negative)])
    true = np.repeat([1.0, 0.0], [len(few), len(negative)])
    assert told.mean() == pytest.approx(rate, rel=0.05)
    likely = told > np.quantile(told, 0.9)
    assert told[likely].mean() == pytest.approx(true[likely].mean(), rel=0.1)


@pytest.mark.parametrize("method", METHODS)
def test_json_keeps_it_all(method: str) -> None:
    found = fit_calibration(*logistic_sample(1, 0, 50), method)  # type: ignore[arg-type]
    back = calibration_from_dict(json.loads(json.dumps(found.to_dict())))
    assert back == found
    assert np.array_equal(back.probabilities([0.1, 2.0]), found.probabilities([0.1, 2.0]))


@pytest.mark.parametrize("method", METHODS)
def test_nothing_to_fit_on_is_refused(method: str) -> None:
    for positive, negative in (([], [1.0]), ([1.0], [])):
        with pytest.raises(InputError, match="needs held-out links and negatives"):
            fit_calibration(positive, negative, method)  # type: ignore[arg-type]


def test_extreme_scores_do_not_overflow() -> None:
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert PlattCalibration(1.0, 0.0).probabilities([-1e9, 1e9]) == pytest.approx([0.0, 1.0])


# -- base rates ----------------------------------------------------------------------------------------------


@given(chance=chances, rate=chances)
def test_odds_are_multiplied_by_the_rates_odds(chance: float, rate: float) -> None:
    told = float(shifted(chance, rate))
    assert told / (1 - told) == pytest.approx(chance / (1 - chance) * rate / (1 - rate), rel=1e-9)
    assert float(shifted(chance, 0.5)) == pytest.approx(chance, rel=1e-12)
    assert float(shifted(0.5, rate)) == pytest.approx(rate, rel=1e-12)


def test_shapes_and_certainties_stay() -> None:
    assert shifted([[0.0, 0.5], [1.0, 0.2]], 0.1).shape == (2, 2)
    assert shifted([0.0, 1.0], 0.1).tolist() == [0, 1]
    assert np.ndim(shifted(0.3, 0.1)) == 0


@pytest.mark.parametrize("rate", [0, 1, -0.1, 1.5, float("nan"), float("inf")])
def test_impossible_base_rates_are_refused(rate: float) -> None:
    with pytest.raises(InputError, match="'base_rate' needs to lie between 0 and 1"):
        shifted([0.5], rate)
