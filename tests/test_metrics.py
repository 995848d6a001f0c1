"""Metrics: known values, ties that never flatter, and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yinyan.errors import InputError
from yinyan.metrics import average_precision, hits_at_k, hits_at_rate, mrr, roc_auc

SCORES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)  # few values, so many ties
ALL = [lambda p, n: hits_at_k(p, n, 1), lambda p, n: hits_at_rate(p, n, 0.1), mrr, roc_auc, average_precision]
EACH = pytest.mark.parametrize("metric", ALL, ids=["hits_at_k", "hits_at_rate", "mrr", "roc_auc", "average_precision"])


class TestLiterals:
    positive, negative = [0.9, 0.6, 0.2], [0.8, 0.5, 0.4, 0.1]

    def test_hits(self) -> None:
        found = [hits_at_k(self.positive, self.negative, k) for k in (1, 2, 3, 4)]
        assert found == pytest.approx([1 / 3, 2 / 3, 2 / 3, 1])

    def test_hits_at_rate(self) -> None:
        assert hits_at_rate(self.positive, self.negative, 0.25) == hits_at_k(self.positive, self.negative, 1)
        assert hits_at_rate(self.positive, self.negative, 0.5) == hits_at_k(self.positive, self.negative, 2)
        assert hits_at_rate(self.positive, self.negative, 1e-9) == hits_at_k(self.positive, self.negative, 1)

    def test_mrr(self) -> None:
        assert mrr(self.positive, self.negative) == pytest.approx((1 + 1 / 2 + 1 / 4) / 3)

    def test_roc_auc(self) -> None:
        assert roc_auc(self.positive, self.negative) == pytest.approx((4 + 3 + 1) / 12)

    def test_average_precision(self) -> None:
        assert average_precision(self.positive, self.negative) == pytest.approx((1 + 2 / 3 + 3 / 6) / 3)

    @EACH
    def test_perfect_order_scores_one(self, metric) -> None:  # type: ignore[no-untyped-def]
        assert metric([3.0, 2.0], [1.0, 0.0, -1.0]) == 1.0

    @EACH
    def test_only_the_order_counts(self, metric) -> None:  # type: ignore[no-untyped-def]
        positive, negative = np.array(self.positive), np.array(self.negative)
        assert metric(np.exp(9 * positive), np.exp(9 * negative)) == metric(positive, negative)


class TestTies:
    """A scorer that says the same of every pair knows nothing, and must not look as if it did."""

    positive, negative = np.ones(10), np.ones(99)

    def test_hits_are_none(self) -> None:
        assert hits_at_k(self.positive, self.negative, 1) == 0.0
        assert hits_at_k(self.positive, self.negative, 99) == 0.0
        assert hits_at_rate(self.positive, self.negative, 0.5) == 0.0

    def test_auc_is_a_half(self) -> None:
        assert roc_auc(self.positive, self.negative) == 0.5

    def test_mrr_is_that_of_the_middle(self) -> None:
        assert mrr(self.positive, self.negative) == pytest.approx(1 / 50.5)

    def test_average_precision_is_the_share_of_positives(self) -> None:
        assert average_precision(self.positive, self.negative) == pytest.approx(10 / 109)


class TestBruteForce:
    @given(SCORES, SCORES, st.integers(1, 14))
    def test_hits(self, positive: list[float], negative: list[float], k: int) -> None:
        bar = sorted(negative, reverse=True)[k - 1] if len(negative) >= k else -math.inf
        assert hits_at_k(positive, negative, k) == pytest.approx(sum(p > bar for p in positive) / len(positive))

    @given(SCORES, SCORES)
    def test_mrr(self, positive: list[float], negative: list[float]) -> None:
        wanted = [1 / (1 + (sum(n > p for n in negative) + sum(n >= p for n in negative)) / 2) for p in positive]
        assert mrr(positive, negative) == pytest.approx(sum(wanted) / len(wanted))

    @given(SCORES, st.data())
    def test_mrr_with_negatives_of_its_own(self, positive: list[float], data: st.DataObject) -> None:
        width = data.draw(st.integers(1, 5))
        row = st.lists(st.integers(-3, 3).map(float), min_size=width, max_size=width)
        negative = [data.draw(row) for _ in positive]
        wanted = [mrr([p], row) for p, row in zip(positive, negative, strict=True)]
        assert mrr(positive, negative) == pytest.approx(sum(wanted) / len(wanted))

    @given(SCORES, SCORES)
    def test_roc_auc(self, positive: list[float], negative: list[float]) -> None:
        wins = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
        assert roc_auc(positive, negative) == pytest.approx(sum(wins) / len(wins))

    @given(SCORES, SCORES)
    def test_average_precision(self, positive: list[float], negative: list[float]) -> None:
        area, before = 0.0, 0.0
        for threshold in sorted(set(positive) | set(negative), reverse=True):
            true = sum(p >= threshold for p in positive)
            false = sum(n >= threshold for n in negative)
            recall = true / len(positive)
            area, before = area + (recall - before) * true / (true + false), recall
        assert average_precision(positive, negative) == pytest.approx(area)


class TestRefused:
    @EACH
    @pytest.mark.parametrize(("positive", "negative", "name"), [([], [1.0], "positive"), ([1.0], [], "negative")])
    def test_no_scores(self, metric, positive: list[float], negative: list[float], name: str) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(InputError, match=f"'{name}' needs at least one score"):
            metric(positive, negative)

    @EACH
    @pytest.mark.parametrize(
        ("positive", "negative", "name"),
        [([math.nan, 1.0], [1.0], "positive"), ([1.0], [math.nan], "negative")],
    )
    def test_nan(self, metric, positive: list[float], negative: list[float], name: str) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(InputError, match=f"'{name}' scores hold NaN"):
            metric(positive, negative)

    @pytest.mark.parametrize("k", [0, -3])
    def test_k_below_one(self, k: int) -> None:
        with pytest.raises(InputError, match=rf"'k' needs to be a positive integer \(got {k}\)"):
            hits_at_k([1.0], [0.0], k)


@pytest.mark.parametrize("metric", [ALL[0], ALL[1], roc_auc, average_precision])
def test_shared_negatives_may_come_in_any_shape(metric) -> None:  # type: ignore[no-untyped-def]
    """Of a table of negatives, Hits@K used to take one row's scores for thresholds."""
    positive, negative = np.array([0.9, 0.6, 0.2]), np.array([[0.8, 0.5], [0.4, 0.1]])
    assert metric(positive, negative) == metric(positive, negative.ravel())
    assert hits_at_k(positive, negative, 3) == hits_at_k(positive, negative.ravel(), 3)


def test_mrr_needs_a_row_of_negatives_for_each_positive() -> None:
    with pytest.raises(InputError, match=r"'negative' needs one row a positive: 2 \(got 3\)"):
        mrr([1.0, 2.0], np.zeros((3, 4)))


def test_fewer_negatives_than_k_is_no_contest() -> None:
    assert hits_at_k([0.0, -5.0], [1.0, 2.0], 3) == 1.0
    assert hits_at_k([0.0, -5.0], [1.0, 2.0], 2) == 0.0


@EACH
def test_infinite_scores_have_a_rank(metric) -> None:  # type: ignore[no-untyped-def]
    assert metric([math.inf], [0.0, -math.inf]) == 1.0
