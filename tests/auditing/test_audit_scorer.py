"""Audits of scorers: a planted dependence on the batch is found with its size, and noise is distinguished from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import yinyan
from yinyan.auditing import Audit, Finding, audit_scorer
from yinyan.errors import InputError, LeakError
from yinyan.metrics import roc_auc

NODES, EACH = 40, 50
Scorer = Callable[[NDArray[np.int64]], Any]


def labelled(each: int = EACH) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Links within two communities and negatives across them, in one random order."""
    rng = np.random.default_rng(3)
    ends = rng.integers(0, NODES // 2, (2 * each, 2)) * 2
    positive = rng.permutation(np.arange(2 * each) < each)
    ends[:, 1] += ~positive
    return ends, positive


PAIRS, POSITIVE = labelled()
ROWS = np.random.default_rng(0).normal(size=(NODES, 4)) + 0.3 * (-1) ** np.arange(NODES)[:, None]


def product(pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray((ROWS[pairs[:, 0]] * ROWS[pairs[:, 1]]).sum(1))


def batch_norm(*, training: bool) -> Scorer:
    """A decoder with BatchNorm, left in training mode or not."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)).train(training)
    rows = torch.from_numpy(ROWS).float()

    def score(pairs: NDArray[np.int64]) -> torch.Tensor:
        ends = torch.from_numpy(pairs)
        return network(rows[ends[:, 0]] * rows[ends[:, 1]])[:, 0]  # with a gradient, as from a forgetful caller

    return score


def column_sums(pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Common neighbours, each divided by how often it is one in the batch: what OCN's released code does."""
    same = np.arange(NODES)[:, None] % 2 == np.arange(NODES) % 2
    near = np.random.default_rng(4).random((NODES, NODES)) < np.where(same, 0.4, 0.2)
    common = (near[pairs[:, 0]] & near[pairs[:, 1]]).astype(np.float64)
    return np.asarray((common / np.maximum(common.sum(0), 1)).sum(1))


def find(found: Audit, kind: str, batches: str = "") -> Finding:
    (finding,) = (f for f in found.findings if f.kind == kind and batches in f.words.split(":")[0])
    return finding


def looked_at(score: Scorer, **options: Any) -> Audit:
    return audit_scorer(score, PAIRS, POSITIVE, raises=False, **options)


class TestClean:
    @pytest.mark.parametrize("score", [product, batch_norm(training=False)], ids=["product", "eval mode"])
    def test_passes_without_a_finding(self, score: Scorer) -> None:
        found = audit_scorer(score, PAIRS, POSITIVE)
        assert found.findings == ()
        assert (
            len(found.checked) == 5
            and "the scores one pair at a time against those in one mixed batch: 64 pairs" in found.checked
        )

    def test_rounding_is_no_leak(self) -> None:
        def by_order(pairs: NDArray[np.int64]) -> NDArray[np.float64]:
            return product(pairs) * (1 + 1e-7 * np.arange(len(pairs)))

        assert audit_scorer(by_order, PAIRS, POSITIVE).findings == ()
        assert looked_at(lambda pairs: product(pairs) * (1 + 1e-4 * np.arange(len(pairs)))).leaks

    def test_a_constant_offset_hides_no_leak(self) -> None:
        assert audit_scorer(lambda pairs: product(pairs) + 1000, PAIRS, POSITIVE).findings == ()
        assert looked_at(lambda pairs: product(pairs) + 1000 + 0.1 * len(pairs) / EACH).leaks

    def test_constant_scores(self) -> None:
        assert audit_scorer(lambda pairs: np.ones(len(pairs)), PAIRS, POSITIVE).findings == ()
        assert find(looked_at(lambda pairs: np.full(len(pairs), len(pairs))), "batch-dependent", "links").count == 100

    def test_ids_of_the_caller(self) -> None:
        names = np.char.add("n", PAIRS.astype(str))
        score = lambda pairs: product(np.char.lstrip(pairs, "n").astype(np.int64))  # noqa: E731
        assert audit_scorer(score, names.tolist(), POSITIVE.astype(int).tolist()).findings == ()
        found = audit_scorer(lambda pairs: score(pairs) - score(pairs).mean(), names, POSITIVE, raises=False)
        assert found.leaks[0].example == (f"n{PAIRS[0, 0]}", f"n{PAIRS[0, 1]}")


class TestPlanted:
    def test_batch_norm_in_training_mode(self) -> None:
        score = batch_norm(training=True)
        with pytest.raises(
            LeakError, match=r"the scorer has 2 leaks\nbatch-dependent: scores that differ in one batch"
        ):
            audit_scorer(score, PAIRS, POSITIVE)
        found = looked_at(score)
        pure = find(found, "batch-dependent", "one batch of links and one of negatives")
        self.check_size(score, pure)
        alone = find(found, "fails-alone")
        assert (alone.severity, alone.count, alone.share) == ("warning", 64, 1.0)
        assert "Expected more than 1 value per channel" in alone.words and "module.eval()" in alone.words
        assert find(found, "batch-dependent", "3 shuffled batches").count > 50

    def test_column_sums_over_the_batch(self) -> None:
        found = looked_at(column_sums)
        pure = find(found, "batch-dependent", "one batch of links and one of negatives")
        self.check_size(column_sums, pure)
        assert pure.sizes is not None and abs(pure.sizes["auc_pure"] - pure.sizes["auc_mixed"]) > 0.03
        assert {f.kind for f in found.findings} == {"batch-dependent"} and len(found.leaks) == 3
        assert find(found, "batch-dependent", "one pair at a time").sizes is not None

    @staticmethod
    def check_size(score: Scorer, finding: Finding) -> None:
        """Against the definition, computed here."""
        mixed, pure = np.asarray(torch.as_tensor(score(PAIRS)).detach(), dtype=np.float64), np.empty(2 * EACH)
        for part in (POSITIVE, ~POSITIVE):
            pure[part] = np.asarray(torch.as_tensor(score(PAIRS[part])).detach())
        difference = np.abs(pure - mixed).max() / mixed.std()
        aucs = [roc_auc(scores[POSITIVE], scores[~POSITIVE]) for scores in (pure, mixed)]
        assert finding.sizes == pytest.approx({"difference": difference, "auc_pure": aucs[0], "auc_mixed": aucs[1]})
        assert f"{difference:.2g} standard deviations" in finding.words
        assert f"the AUC is {aucs[0]:.4f} in these batches and {aucs[1]:.4f} in a mixed one" in finding.words
        assert finding.severity == "leak" and finding.count > 0.9 * 2 * EACH and difference > 0.05

    def test_a_label_that_the_batch_reveals(self) -> None:
        """The worst case: noise in a mixed batch, perfect in batches of one label."""
        rows = np.random.default_rng(1).normal(size=(NODES, NODES))

        def score(pairs: NDArray[np.int64]) -> NDArray[np.float64]:
            across = ((pairs[:, 0] + pairs[:, 1]) % 2).mean()
            return np.asarray(rows[pairs[:, 0], pairs[:, 1]] - 100 * across)

        sizes = find(looked_at(score), "batch-dependent", "links").sizes
        assert sizes is not None and sizes["auc_pure"] == 1.0 and sizes["auc_mixed"] < 0.7

    def test_an_order_that_matters(self) -> None:
        assert find(looked_at(lambda pairs: product(pairs) + np.arange(len(pairs))), "batch-dependent", "shuffled")


class TestNoise:
    def test_noise_is_no_dependence_on_the_batch(self) -> None:
        rng = np.random.default_rng(0)
        found = audit_scorer(lambda pairs: product(pairs) + 0.1 * rng.normal(size=len(pairs)), PAIRS, POSITIVE)
        (finding,) = found.findings
        assert (finding.kind, finding.severity) == ("not-deterministic", "warning")
        assert finding.sizes is not None and 0.1 < finding.sizes["difference"] < 1.0

    def test_a_leak_above_the_noise_is_found_beside_it(self) -> None:
        rng = np.random.default_rng(0)
        found = looked_at(lambda pairs: product(pairs) + len(pairs) + 0.1 * rng.normal(size=len(pairs)))
        assert {f.kind for f in found.findings} == {"not-deterministic", "batch-dependent"}


class TestNaN:
    def test_everywhere(self) -> None:
        found = audit_scorer(lambda pairs: np.full(len(pairs), np.nan), PAIRS, POSITIVE)
        assert [(f.kind, f.count) for f in found.findings] == [("nan-scores", 2 * EACH)]

    def test_alone_only(self) -> None:
        """A standard deviation of one score is NaN: other scores than in a batch, so a leak."""

        def standardised(pairs: NDArray[np.int64]) -> NDArray[np.float64]:
            scores = product(pairs)
            with np.errstate(invalid="ignore"):
                return np.asarray((scores - scores.mean()) / scores.std())

        finding = find(looked_at(standardised), "batch-dependent", "one pair at a time")
        assert finding.count == 64 and "64 scores became NaN" in finding.words

    def test_of_some_pairs_hides_no_leak_and_has_no_auc(self) -> None:
        def score(pairs: NDArray[np.int64]) -> NDArray[np.float64]:
            return np.where(pairs[:, 0] == PAIRS[0, 0], np.nan, product(pairs) + len(pairs))

        found = looked_at(score)
        assert find(found, "nan-scores").count == (PAIRS[:, 0] == PAIRS[0, 0]).sum()
        sizes = find(found, "batch-dependent", "links").sizes
        assert sizes is not None and list(sizes) == ["difference"]

    def test_infinities_equal_themselves(self) -> None:
        score = lambda pairs: np.where(pairs[:, 0] < 10, -np.inf, product(pairs))  # noqa: E731
        assert audit_scorer(score, PAIRS, POSITIVE).findings == ()


class TestAlone:
    def test_a_scorer_that_fails_on_some_pairs(self) -> None:
        def score(pairs: NDArray[np.int64]) -> NDArray[np.float64]:
            if len(pairs) == 1 and pairs[0, 0] == PAIRS[0, 0]:
                raise RuntimeError("no single pairs")
            return product(pairs)

        (finding,) = audit_scorer(score, PAIRS, POSITIVE).findings
        assert finding.kind == "fails-alone" and 0 < finding.count < 64
        assert "'RuntimeError: no single pairs'" in finding.words

    def test_a_scorer_that_squeezes(self) -> None:
        (finding,) = audit_scorer(lambda pairs: product(pairs).squeeze(), PAIRS, POSITIVE).findings
        assert (
            finding.kind == "fails-alone" and "needs to return one score per pair, (1,) (got shape ())" in finding.words
        )


class TestInput:
    @pytest.mark.parametrize(
        ("pairs", "labels", "words"),
        [
            (PAIRS, np.ones(2 * EACH), r"at least 5 pairs of each label \(got 100 links and 0 negatives\)"),
            (PAIRS[:8], POSITIVE[:8], r"at least 5 pairs of each label"),
            (PAIRS, POSITIVE[:-1], r"'labels' needs one label per pair, \(100,\) \(got shape \(99,\)\)"),
            (PAIRS, np.where(POSITIVE, 1, -1), r"1 for links and 0 for negatives \(got -1\)"),
            (PAIRS.ravel(), POSITIVE, r"'pairs' needs the shape \(pairs, 2\) \(got \(200,\)\)"),
            (PAIRS.T, POSITIVE, r"'pairs' needs the shape \(pairs, 2\) \(got \(2, 100\)\)"),
        ],
    )
    def test_refused(self, pairs: Any, labels: Any, words: str) -> None:
        with pytest.raises(InputError, match=words):
            audit_scorer(product, pairs, labels)

    def test_five_of_each_are_enough(self) -> None:
        assert audit_scorer(product, *labelled(5)).findings == ()
        assert audit_scorer(column_sums, *labelled(5), raises=False).leaks

    def test_scores_of_another_shape(self) -> None:
        with pytest.raises(InputError, match=r"one score per pair, \(100,\) \(got shape \(100, 1\)\)"):
            audit_scorer(lambda pairs: product(pairs)[:, None], PAIRS, POSITIVE)

    def test_no_function(self) -> None:
        with pytest.raises(InputError, match="'score' needs to be a function of pairs"):
            audit_scorer(product(PAIRS), PAIRS, POSITIVE)  # type: ignore[arg-type]

    def test_an_error_of_the_scorer_is_the_callers(self) -> None:
        with pytest.raises(ZeroDivisionError):
            audit_scorer(lambda pairs: 1 / 0, PAIRS, POSITIVE)


def test_public_and_plain_for_json() -> None:
    assert yinyan.audit_scorer is audit_scorer
    plain = json.loads(json.dumps(looked_at(column_sums).to_dict()))
    assert plain["leaks"] == 3 and set(plain["findings"][0]["sizes"]) == {"difference", "auc_pure", "auc_mixed"}
