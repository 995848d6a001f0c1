"""Metrics: known values, ties that never flatter, and brute force."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from yinyan.errors import InputError, SettingsError
from yinyan.metrics import average_precision, hits_at_k, hits_at_rate, hits_in_own_ranking, metric, mrr, ranks, roc_auc

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
    with pytest.raises(InputError, match=r"'negative' needs one row per positive: 2 \(got 3\)"):
        mrr([1.0, 2.0], np.zeros((3, 4)))


def test_fewer_negatives_than_k_is_no_contest() -> None:
    assert hits_at_k([0.0, -5.0], [1.0, 2.0], 3) == 1.0
    assert hits_at_k([0.0, -5.0], [1.0, 2.0], 2) == 0.0


@EACH
def test_infinite_scores_have_a_rank(metric) -> None:  # type: ignore[no-untyped-def]
    assert metric([math.inf], [0.0, -math.inf]) == 1.0


class TestOwnRanking:
    """Each positive is ranked in its own row: here at 1, at 2 and, tied with two of four, between 1 and 3."""

    positive = np.array([5.0, 3.0, 2.0])
    negative = np.array([[1.0, 2, 3, 4, 0], [9.0, 1, 1, 1, 1], [2.0, 2, 1, 0, 0]])

    def test_literals(self) -> None:
        assert ranks(self.positive, self.negative).tolist() == [1, 2, 2]
        assert hits_in_own_ranking(self.positive, self.negative, 1) == pytest.approx(1 / 3)
        assert hits_in_own_ranking(self.positive, self.negative, 2) == 1

    def test_a_rank_between_two_is_no_hit_of_the_lower(self) -> None:
        assert hits_in_own_ranking([1.0], [[1.0, 0, 0]], 1) == 0  # rank 1.5
        assert hits_in_own_ranking([1.0], [[1.0, 0, 0]], 2) == 1

    def test_rows_are_not_pooled(self) -> None:
        positive, negative = [1.0, 10.0], [[0.0], [11.0]]
        assert hits_in_own_ranking(positive, negative, 1) == 0.5
        assert hits_at_k(positive, negative, 1) == 0

    @given(st.integers(1, 4), st.integers(0, 10_000))
    def test_brute_force(self, k: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        positive, negative = generator.integers(0, 4, 6), generator.integers(0, 4, (6, 7))
        hits = [
            1 + (sum(n > p for n in row) + sum(n >= p for n in row)) / 2 <= k
            for p, row in zip(positive.tolist(), negative.tolist(), strict=True)
        ]
        assert hits_in_own_ranking(positive, negative, k) == pytest.approx(sum(hits) / 6)

    def test_so_few_negatives_that_a_constant_would_be_right(self) -> None:
        with pytest.raises(InputError, match=r"Hits@3 needs at least 5 negatives per positive \(got 4\)"):
            hits_in_own_ranking(np.ones(2), np.ones((2, 4)), 3)
        assert hits_in_own_ranking(np.ones(2), np.ones((2, 5)), 3) == 0

    def test_refused(self) -> None:
        with pytest.raises(InputError, match=r"'negative' needs one row per positive \(got shape \(2,\)\)"):
            hits_in_own_ranking([1.0], [0.0, 1.0], 1)
        with pytest.raises(InputError, match=r"'negative' needs one row per positive: 1 \(got 2\)"):
            hits_in_own_ranking([1.0], [[0.0], [1.0]], 1)
        with pytest.raises(InputError, match=r"'k' needs to be a positive integer \(got 0\)"):
            hits_in_own_ranking([1.0], [[0.0]], 0)
        with pytest.raises(InputError, match="'negative' needs at least one score"):
            hits_in_own_ranking([1.0], np.zeros((1, 0)), 1)


class TestByName:
    positive = np.array([0.9, 0.6, 0.2])
    shared = np.array([0.8, 0.5, 0.4, 0.1])
    rows = np.array([[0.8, 0.95, 0.4], [0.1, 0.2, 0.3], [0.3, 0.1, 0.0]])

    def test_shared_negatives(self) -> None:
        assert metric("hits@2")(self.positive, self.shared) == hits_at_k(self.positive, self.shared, 2)
        assert metric("hits@1")(self.positive, self.shared) == hits_at_k(self.positive, self.shared, 1)
        assert metric("mrr")(self.positive, self.shared) == mrr(self.positive, self.shared)
        assert metric("auc")(self.positive, self.shared) == roc_auc(self.positive, self.shared)
        assert metric("ap")(self.positive, self.shared) == average_precision(self.positive, self.shared)

    def test_negatives_in_rows(self) -> None:
        assert metric("hits@1")(self.positive, self.rows) == pytest.approx(1 / 3)  # pooled, none would be above .95
        assert metric("mrr")(self.positive, self.rows) == pytest.approx((1 / 2 + 1 + 1 / 2) / 3)
        assert metric("auc")(self.positive, self.rows) == roc_auc(self.positive, self.rows.ravel())

    @pytest.mark.parametrize("name", ["hits", "hits@", "hits@0", "hits@-3", "hits@2.5", "Hits@20", "accuracy", ""])
    def test_unknown_names(self, name: str) -> None:
        with pytest.raises(SettingsError, match=rf"one of hits@K \(such as hits@20\), mrr, auc, ap \(got '{name}'\)"):
            metric(name)

    @pytest.mark.parametrize("constant", [0.0, -1e9, math.inf, -math.inf])
    @pytest.mark.parametrize("shape", [(500,), (20, 500)])
    @pytest.mark.parametrize(
        ("name", "most"),
        [("hits@1", 0), ("hits@20", 0), ("hits@100", 0), ("mrr", 0.004), ("auc", 0.5), ("ap", 0.04)],
    )
    def test_a_constant_scorer_never_looks_good(
        self, name: str, most: float, shape: tuple[int, ...], constant: float
    ) -> None:
        assert metric(name)(np.full(20, constant), np.full(shape, constant)) <= most


@pytest.fixture(scope="module")
def evaluator() -> Any:
    """OGB's own, read from its file: importing all of `ogb` asks the network whether it is out of date."""
    pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    package = importlib.util.find_spec("ogb")
    if package is None or package.origin is None:
        pytest.skip("ogb is not installed")
    file = Path(package.origin).parent / "linkproppred" / "evaluate.py"
    spec = importlib.util.spec_from_file_location("ogb_evaluate", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Evaluator


VALUES = {
    "distinct": lambda g, size: g.normal(size=size),
    "ties everywhere": lambda g, size: g.integers(0, 3, size).astype(float),
    "constant": lambda g, size: np.full(size, 0.25),
    "infinities": lambda g, size: g.choice([-math.inf, -1.0, 0.0, math.inf], size),
    "huge": lambda g, size: g.choice([-1e300, 1e-300, 0.0, 1e300], size),
    "close": lambda g, size: 1 + g.integers(0, 3, size) * np.finfo(np.float64).eps,
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
class TestAsOgb:
    def scores(self, kind: str, seed: int, dtype: type, *sizes: Any) -> list[Any]:
        generator = np.random.default_rng(seed)
        with np.errstate(over="ignore"):
            return [VALUES[kind](generator, size).astype(dtype) for size in sizes]

    @pytest.mark.parametrize("num_negatives", [1, 19, 20, 21, 200])
    def test_hits(self, evaluator: Any, kind: str, seed: int, dtype: type, num_negatives: int) -> None:
        positive, negative = self.scores(kind, seed, dtype, 40, num_negatives)
        theirs = evaluator("ogbl-ddi")
        for k in (1, 20, 50):
            theirs.K = k
            for wrap in (np.asarray, torch.from_numpy):
                found = theirs.eval({"y_pred_pos": wrap(positive), "y_pred_neg": wrap(negative)})[f"hits@{k}"]
                assert hits_at_k(positive, negative, k) == found
                assert metric(f"hits@{k}")(positive, negative) == found

    @pytest.mark.parametrize("num_negatives", [1, 5, 100])
    def test_mrr_and_hits_in_own_ranking(
        self, evaluator: Any, kind: str, seed: int, dtype: type, num_negatives: int
    ) -> None:
        positive, negative = self.scores(kind, seed, dtype, 40, (40, num_negatives))
        # of numpy arrays its sum(dim=1) fails
        given = {"y_pred_pos": torch.from_numpy(positive), "y_pred_neg": torch.from_numpy(negative)}
        found = {
            name: float(values.double().mean()) for name, values in evaluator("ogbl-citation2").eval(given).items()
        }
        assert mrr(positive, negative) == pytest.approx(found["mrr_list"], rel=1e-6)  # theirs are floats
        for k in (1, 3, 10):
            if num_negatives > 2 * (k - 1):
                assert hits_in_own_ranking(positive, negative, k) == pytest.approx(found[f"hits@{k}_list"])

    def test_roc_auc(self, evaluator: Any, kind: str, seed: int, dtype: type) -> None:
        if kind == "infinities":
            pytest.skip("sklearn takes finite scores only")
        if kind == "huge" and dtype is np.float32:
            pytest.skip("1e300 is infinite as a float")
        positive, negative = self.scores(kind, seed, dtype, 40, 90)
        found = evaluator("ogbl-vessel").eval({"y_pred_pos": positive, "y_pred_neg": negative})["rocauc"]
        assert roc_auc(positive, negative) == pytest.approx(found)
