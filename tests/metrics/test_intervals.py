"""Bootstrap: intervals cover what they should, agree with drawing at length, and refuse what has no spread."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from yinyan.errors import InputError, SettingsError
from yinyan.metrics import hits_at_k, metric
from yinyan.metrics.intervals import Interval, bootstrap_metric, confidence_interval, paired_difference
from yinyan.metrics.intervals import _student as student


def coverage(draw, truth: float, level: float, trials: int = 300) -> float:  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(7)
    held = 0
    for trial in range(trials):
        found = confidence_interval(draw(generator), level=level, resamples=500, seed=trial)
        held += found.low <= truth <= found.high
    return held / trials


class TestMean:
    @pytest.mark.parametrize(("size", "level"), [(10, 0.95), (40, 0.95), (40, 0.8)])
    def test_it_covers_a_normal_mean_as_often_as_it_says(self, size: int, level: float) -> None:
        assert coverage(lambda g: g.normal(3, 2, size), 3.0, level) == pytest.approx(level, abs=0.045)

    def test_it_covers_a_skewed_mean(self) -> None:
        assert coverage(lambda g: g.exponential(1.0, 60), 1.0, 0.95) > 0.9

    def test_its_width_is_that_of_the_t_interval(self) -> None:
        values = np.random.default_rng(0).normal(size=200)
        found = confidence_interval(values, resamples=20_000)
        half = 1.972 * values.std(ddof=1) / math.sqrt(200)
        assert found.estimate == pytest.approx(values.mean())
        assert found.high - found.low == pytest.approx(2 * half, rel=0.05)
        assert found.low < found.estimate < found.high

    def test_a_higher_level_is_wider_and_stays_within_the_values(self) -> None:
        values = [0.1, 0.4, 0.35, 0.2, 0.9]
        narrow, wide = (confidence_interval(values, level=level) for level in (0.5, 0.99))
        assert wide.low < narrow.low < narrow.high < wide.high
        assert 0.1 <= wide.low <= wide.high <= 0.9

    def test_equal_values_leave_no_doubt(self) -> None:
        assert confidence_interval([0.25] * 4) == Interval(0.25, 0.25, 0.25)

    def test_the_seed_decides(self) -> None:
        values = np.random.default_rng(0).normal(size=30)
        assert confidence_interval(values, seed=1) == confidence_interval(values, seed=1)
        assert confidence_interval(values, seed=1) != confidence_interval(values, seed=2)

    def test_blocks_change_nothing_but_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        values = np.random.default_rng(0).normal(size=30)
        whole = confidence_interval(values)
        monkeypatch.setattr("yinyan.metrics.intervals._BLOCK", 70)
        assert confidence_interval(values) == whole

    @pytest.mark.parametrize(
        ("level", "degrees", "value"),
        [(0.95, 3, 3.182), (0.95, 9, 2.262), (0.95, 100, 1.984), (0.9, 4, 2.132), (0.99, 9, 3.250)],
    )
    def test_students_quantiles_as_tabled(self, level: float, degrees: int, value: float) -> None:
        assert student(level, degrees) == pytest.approx(value, rel=0.01)


class TestPaired:
    def test_what_two_models_share_cancels(self) -> None:
        generator = np.random.default_rng(0)
        hard = generator.normal(0, 5, 50)  # some items are hard for both
        first, second = hard + 0.5 + generator.normal(0, 0.1, 50), hard + generator.normal(0, 0.1, 50)
        found = paired_difference(first, second)
        assert 0.4 < found.low < 0.5 < found.high < 0.6
        apart = confidence_interval(first)
        assert found.high - found.low < 0.1 * (apart.high - apart.low)

    def test_the_order_gives_the_sign(self) -> None:
        assert paired_difference([1.0, 2.0, 4.0], [0.0, 0.5, 1.0]).low > 0
        assert paired_difference([0.0, 0.5, 1.0], [1.0, 2.0, 4.0]).high < 0

    def test_unequal_lengths(self) -> None:
        with pytest.raises(InputError, match=r"'second' needs one value for each of 'first': \(2,\) \(got \(3,\)\)"):
            paired_difference([1.0, 2.0], [1.0, 2.0, 3.0])


def at_length(name: str, positive, negative, resamples: int = 4000) -> Interval:  # type: ignore[no-untyped-def]
    """Drawing every score, and measuring each draw."""
    generator, measure, drawn = np.random.default_rng(99), metric(name), []
    for _ in range(resamples):
        rows = generator.integers(0, len(positive), len(positive))
        columns = rows if negative.ndim == 2 else generator.integers(0, len(negative), len(negative))
        drawn.append(measure(positive[rows], negative[columns]))
    return Interval(measure(positive, negative), *np.quantile(drawn, [0.025, 0.975]))


class TestMetric:
    generator = np.random.default_rng(3)
    positive = np.round(generator.normal(1, 1, 80), 1)  # rounded, so that there are ties
    negative = np.round(generator.normal(0, 1, 300), 1)
    rows = np.round(generator.normal(0, 1, (80, 60)), 1)

    @pytest.mark.parametrize("name", ["hits@1", "hits@20", "hits@300", "mrr", "auc", "ap"])
    def test_shared_negatives(self, name: str) -> None:
        found = bootstrap_metric(name, self.positive, self.negative, resamples=4000)
        assert found == pytest.approx(at_length(name, self.positive, self.negative), abs=0.02)
        assert found.estimate == metric(name)(self.positive, self.negative)

    @pytest.mark.parametrize("name", ["hits@3", "mrr", "auc"])
    def test_negatives_in_rows(self, name: str) -> None:
        found = bootstrap_metric(name, self.positive, self.rows, resamples=2000)
        assert found == pytest.approx(at_length(name, self.positive, self.rows), abs=0.015)

    def test_rows_go_with_their_positives(self) -> None:
        """Each positive is the second of its row; among the rows of others it would be first or last."""
        positive = np.arange(40.0) * 100
        rows = positive[:, None] + [1.0, -1.0, -2.0]
        for measure, value in (("mrr", 0.5), (metric("mrr"), 0.5), ("hits@2", 1.0), (metric("hits@2"), 1.0)):
            assert bootstrap_metric(measure, positive, rows, resamples=50) == Interval(value, value, value)

    def test_a_function_is_drawn_at_length(self) -> None:
        by_name = bootstrap_metric("hits@20", self.positive, self.negative, resamples=4000)
        by_function = bootstrap_metric(
            lambda p, n: hits_at_k(p, n, 20), self.positive, self.negative, resamples=4000, seed=5
        )
        assert by_name == pytest.approx(by_function, abs=0.02)

    @pytest.mark.parametrize("name", ["mrr", "auc", "ap"])
    def test_counting_is_drawing(self, name: str) -> None:
        """Of sorted negatives both draw the same ones, so that every resample has to agree."""
        negative = np.sort(self.negative)
        counted = bootstrap_metric(name, self.positive, negative, resamples=100)
        assert counted == pytest.approx(
            bootstrap_metric(metric(name), self.positive, negative, resamples=100), rel=1e-12
        )

    def test_level_and_seed(self) -> None:
        wide, narrow = (
            bootstrap_metric("auc", self.positive, self.negative, level=x, resamples=300) for x in (0.99, 0.5)
        )
        assert wide.low < narrow.low < narrow.high < wide.high
        other = bootstrap_metric("auc", self.positive, self.negative, level=0.5, resamples=300, seed=1)
        assert other != narrow and other.estimate == narrow.estimate

    def test_separate_scores_leave_no_doubt(self) -> None:
        for name in ("hits@2", "mrr", "auc", "ap"):
            assert bootstrap_metric(name, [3.0, 2.0], [1.0, 0.0, 0.5], resamples=50) == Interval(1.0, 1.0, 1.0)

    def test_fewer_negatives_than_k_is_no_contest(self) -> None:
        assert bootstrap_metric("hits@9", [0.0, 0.0], [1.0, 1.0]) == Interval(1.0, 1.0, 1.0)

    def test_hits_of_many_pairs_take_no_time(self) -> None:
        generator = np.random.default_rng(0)
        positive, negative = generator.normal(1, 1, 130_000), generator.normal(0, 1, 100_000)
        before = time.perf_counter()
        found = bootstrap_metric("hits@20", positive, negative)
        assert time.perf_counter() - before < 2  # drawing at length takes some ten seconds
        assert found.low < found.estimate < found.high


class TestRefused:
    @pytest.mark.parametrize("values", [[], [0.5], 0.5, [[1.0, 2.0]]])
    def test_too_few_values(self, values: object) -> None:
        with pytest.raises(InputError, match=r"'values' needs two values at least .* run more seeds"):
            confidence_interval(values)  # type: ignore[arg-type]

    def test_values_that_are_none(self) -> None:
        with pytest.raises(InputError, match=r"'values' needs finite numbers \(got nan\)"):
            confidence_interval([1.0, math.nan])

    @pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
    def test_level(self, level: float) -> None:
        for call in (
            lambda: confidence_interval([1, 2], level=level),
            lambda: bootstrap_metric("auc", [1, 2], [0, 1], level=level),
        ):
            with pytest.raises(InputError, match=rf"'level' needs to lie between 0 and 1 \(got {level}\)"):
                call()

    def test_resamples(self) -> None:
        with pytest.raises(InputError, match=r"'resamples' needs to be a positive integer \(got 0\)"):
            confidence_interval([1.0, 2.0], resamples=0)

    def test_one_score(self) -> None:
        with pytest.raises(InputError, match=r"two scores at least on either side \(got 1 and 2\)"):
            bootstrap_metric("auc", [1.0], [0.0, 2.0])
        with pytest.raises(InputError, match=r"two scores at least on either side \(got 2 and 1\)"):
            bootstrap_metric("auc", [1.0, 3.0], [0.0])

    def test_what_the_metric_refuses(self) -> None:
        with pytest.raises(SettingsError, match="hits@K"):
            bootstrap_metric("accuracy", [1.0, 2.0], [0.0, 1.0])
        with pytest.raises(InputError, match="'negative' scores hold NaN"):
            bootstrap_metric("auc", [1.0, 2.0], [0.0, math.nan])
