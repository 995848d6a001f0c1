"""The curves of ranking and of calibration."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan.errors import InputError
from yinyan.metrics import average_precision, roc_auc
from yinyan.reporting.curves import precision_recall_curve, reliability_bins, roc_curve, score_histogram, thinned


@pytest.mark.parametrize(
    ("positive", "negative", "roc", "precision"),
    [
        ([3.0, 2.0], [1.0, 0.0], 1.0, 1.0),
        ([0.0, 1.0], [2.0, 3.0], 0.0, 5 / 12),  # precisions 1/3 and 2/4
        ([1.0, 1.0], [1.0, 1.0], 0.5, 0.5),  # one tie: chance, not luck
        ([2.0, 1.0], [1.0, 0.0], 0.875, 0.5 * 1 + 0.5 * 2 / 3),
        ([1e9], [-1e9], 1.0, 1.0),
        ([0.8, 0.4], [0.6, 0.2], 0.75, 0.5 * 1 + 0.5 * 2 / 3),
    ],
)
def test_areas_are_known_literals(positive, negative, roc, precision):
    fpr, tpr, area = roc_curve(positive, negative)
    assert area == pytest.approx(roc)
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    recall, _, area = precision_recall_curve(positive, negative)
    assert area == pytest.approx(precision)
    assert (recall[0], recall[-1]) == (0, 1)


def test_areas_agree_with_the_metrics():
    generator = np.random.default_rng(0)
    positive, negative = generator.integers(2, 9, 200) / 4, generator.integers(0, 7, 500) / 4  # many ties
    assert roc_curve(positive, negative)[2] == pytest.approx(roc_auc(positive, negative))
    assert precision_recall_curve(positive, negative)[2] == pytest.approx(average_precision(positive, negative))


@pytest.mark.parametrize("curve", [roc_curve, precision_recall_curve, score_histogram])
@pytest.mark.parametrize("positive", [[], [np.nan, 1.0]])
def test_curves_need_scores(curve, positive):
    with pytest.raises(InputError, match="none of them NaN"):
        curve(positive, [0.0])


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (1.0, 9.0)])
def test_calibrated_probabilities_lie_on_the_diagonal(alpha, beta):
    generator = np.random.default_rng(0)
    probability = generator.beta(alpha, beta, 400_000)
    is_link = generator.random(probability.size) < probability
    negative = probability[~is_link][::5]  # fewer non-links than there are: the base rate makes up for it
    bins = reliability_bins(probability[is_link], negative, base_rate=float(is_link.mean()))
    sure = bins.high - bins.low < 0.05
    assert sure.sum() >= 4
    assert np.abs(bins.observed - bins.predicted)[sure].max() < 0.02
    assert ((bins.low <= bins.predicted) & (bins.predicted <= bins.high)).mean() >= 0.7
    assert bins.counts.sum() == is_link.sum() + negative.size


def test_overconfidence_lies_off_the_diagonal():
    bins = reliability_bins([0.95] * 50, [0.95] * 50)
    assert bins.observed.tolist() == [0.5]
    assert bins.predicted.tolist() == pytest.approx([0.95])
    assert (bins.low[0], bins.high[0]) == pytest.approx((0.4038, 0.5962), abs=1e-4)  # Wilson, 50 of 100


def test_the_base_rate_weighs_the_non_links():
    bins = reliability_bins([0.5] * 10, [0.5] * 10, base_rate=0.1)
    assert bins.observed.tolist() == pytest.approx([0.1])


@pytest.mark.parametrize("base_rate", [0.0, 1.0, -0.1])
def test_an_impossible_base_rate_is_refused(base_rate):
    with pytest.raises(InputError, match="'base_rate' needs to lie between 0 and 1"):
        reliability_bins([0.5], [0.5], base_rate=base_rate)


@pytest.mark.parametrize("probabilities", [[], [1.1], [-0.1], [np.nan]])
def test_what_is_no_probability_is_refused(probabilities):
    with pytest.raises(InputError, match="between 0 and 1"):
        reliability_bins(probabilities, [0.5])


def test_a_histogram_has_shares_of_each_kind():
    edges, positive, negative = score_histogram([1.0, 1.0, 0.0, 0.9], [0.0, -1.0], num_bins=4)
    assert edges.tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert positive.tolist() == [0, 0, 0.25, 0.75] and negative.tolist() == [0.5, 0, 0.5, 0]


@pytest.mark.parametrize("scores", [[2.0, 2.0], [np.inf, -np.inf], [1.0, np.inf]])
def test_a_histogram_of_equal_or_infinite_scores(scores):
    edges, positive, negative = score_histogram(scores, [scores[0]])
    assert np.isfinite(edges).all() and (np.diff(edges) > 0).all()
    assert positive.sum() == negative.sum() == 1


def test_a_thinned_curve_keeps_its_ends_and_its_shape():
    x = np.linspace(0, 1, 5000)
    thin_x, thin_y = thinned(x, x**2, most=50)
    assert len(thin_x) <= 52 and (thin_x[0], thin_y[-1]) == (0, 1)
    assert np.abs(np.interp(x, thin_x, thin_y) - x**2).max() < 0.01
    assert len(thinned(x[:30], x[:30], most=50)[0]) == 30
