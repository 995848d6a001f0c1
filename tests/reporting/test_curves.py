"""The curves of ranking and of calibration."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan.errors import InputError
from yinyan.metrics import average_precision, roc_auc
from yinyan.reporting.curves import precision_recall_curve, roc_curve, score_histogram, thinned


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
