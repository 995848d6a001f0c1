"""Exact retrieval: the k best, whatever the blocks, equal ones in the order of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from yinyan.errors import InputError
from yinyan.model.decoder import Decoder, build_decoder
from yinyan.retrieval import exact
from yinyan.retrieval.exact import ExactSearch, TopK, best
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import DecoderSettings


@given(
    scores=st.lists(st.sampled_from([-1.5, -1.0, 0.0, 0.25, 2.0]), max_size=30),
    k=st.integers(1, 35),
    gap=st.integers(1, 4),
)
def test_best_equals_sorting(scores: list[float], k: int, gap: int) -> None:
    rows = np.arange(len(scores), dtype=np.int64) * gap + 3
    found = best(rows, np.array(scores, dtype=np.float32), k)
    expected = sorted(zip(scores, rows.tolist(), strict=True), key=lambda pair: (-pair[0], pair[1]))[:k]
    assert found.rows.tolist() == [row for _, row in expected]
    assert found.scores.tolist() == [score for score, _ in expected]


def exact_top_k(decoder: Decoder, y: torch.Tensor, source: int, candidates: np.ndarray[Any, Any], k: int) -> TopK:
    return ExactSearch(decoder).top_k(Snapshot.of(y), np.array([source]), k, None, candidates)[0]


@pytest.mark.parametrize("kind", ["hadamard", "dot", "multi-dot", "distance"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("block", [1, 7, 100_000])
def test_blocks_do_not_matter(kind: str, directed: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_BLOCK", block)
    settings = DecoderSettings(kind=kind, width=8)  # type: ignore[arg-type]
    decoder = build_decoder(settings, 6, directed=directed).double()
    y = torch.randn(50, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    candidates = np.arange(0, 50, 2)
    found = exact_top_k(decoder, y, 5, candidates, 10)
    with torch.no_grad():
        scores = [float(decoder(y[5], y[row])) for row in candidates]
    order = np.argsort(-np.array(scores), kind="stable")[:10]
    assert found.rows.tolist() == candidates[order].tolist()
    np.testing.assert_allclose(found.scores, np.array(scores)[order], rtol=1e-5)
    assert found.scores.dtype == np.float32


@pytest.mark.parametrize("block", [1, 4, 100])
def test_ties_keep_the_order_of_rows_across_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_BLOCK", block)
    decoder = build_decoder(DecoderSettings(kind="dot"), 3, directed=False)
    y = torch.ones(20, 3)
    y[11] = 2
    found = exact_top_k(decoder, y, 0, np.arange(1, 20), 4)
    assert found.rows.tolist() == [11, 1, 2, 3]


def test_no_candidates() -> None:
    decoder = build_decoder(DecoderSettings(kind="dot"), 3, directed=False)
    found = exact_top_k(decoder, torch.ones(4, 3), 0, np.empty(0, dtype=np.int64), 3)
    assert found.rows.size == found.scores.size == 0


@pytest.mark.parametrize("kind", ["hadamard", "dot"])
def test_memory_bounds_the_blocks_and_changes_nothing(kind: str) -> None:
    decoder = build_decoder(DecoderSettings(kind=kind, width=8), 6, directed=False).requires_grad_(False)  # type: ignore[arg-type]
    y = torch.randn(500, 6, generator=torch.Generator().manual_seed(2))
    rows, sources = Snapshot.of(y), np.array([3, 77, 401])
    whole, small = ExactSearch(decoder), ExactSearch(decoder, memory=256)
    assert small._block == 64 and small._together == 1
    for top, other in zip(whole.top_k(rows, sources, 20), small.top_k(rows, sources, 20), strict=True):
        assert np.array_equal(top.rows, other.rows) and np.array_equal(top.scores, other.scores)
    with pytest.raises(InputError, match="'memory' needs to be a positive number of bytes"):
        ExactSearch(decoder, memory=0)


@pytest.mark.parametrize("kind", ["hadamard", "dot", "multi-dot", "distance"])
@pytest.mark.parametrize("compiled", [True, False])
def test_many_equal_scores(kind: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More ties than any buffer holds: the lowest rows come first, wherever blocks end and whoever is asked along."""
    if not compiled:
        monkeypatch.setenv("YINYAN_NATIVE", "0")
    decoder = build_decoder(DecoderSettings(kind=kind, width=8), 6, directed=False).requires_grad_(False)  # type: ignore[arg-type]
    y = torch.randn(6, generator=torch.Generator().manual_seed(4)).expand(5000, 6).contiguous()
    search = ExactSearch(decoder, memory=4 * 333)
    for top, source in zip(search.top_k(Snapshot.of(y), np.array([0, 2, 4999]), 5), (0, 2, 4999), strict=True):
        assert top.rows.tolist() == [row for row in range(6) if row != source][:5]


def test_a_score_that_is_no_number_is_refused() -> None:
    decoder = build_decoder(DecoderSettings(width=8), 6, directed=False).requires_grad_(False)
    y = torch.ones(40, 6)
    y[9] = torch.nan
    for rows in (Snapshot.of(y, check=False), Snapshot.of(torch.ones(40, 6)).updated([0], y[:1])):
        if rows.churn:
            assert ExactSearch(decoder).top_k(rows, np.array([1]), 3)[0].rows.tolist() == [0, 2, 3]
            continue
        with pytest.raises(InputError, match="the score of row 9 is not a number"):
            ExactSearch(decoder).top_k(rows, np.array([1]), 3)


class TestDotsTogether:
    """Exact search of a dot decoder for several sources: matrix products, of which a kernel keeps the best."""

    decoder = build_decoder(DecoderSettings(kind="dot"), 8, directed=False).requires_grad_(False)
    y = torch.randn(9000, 8, generator=torch.Generator().manual_seed(5))
    sources = np.random.default_rng(0).choice(9000, 300, replace=False)  # more than one product has

    @pytest.mark.parametrize("k", [1, 40])
    @pytest.mark.parametrize("compiled", [True, False])
    def test_equal_brute_force(self, k: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if not compiled:
            monkeypatch.setenv("YINYAN_NATIVE", "0")
        scores = self.decoder.of_block(self.y[self.sources], self.y)
        found = ExactSearch(self.decoder).top_k(Snapshot.of(self.y), self.sources, k, lambda row: np.array([0, 7, row]))
        for place, source in enumerate(self.sources.tolist()):
            scores[place, [0, 7, source]] = -torch.inf
            wanted = scores[place].topk(k)
            assert np.array_equal(found[place].rows, wanted.indices.numpy())
            np.testing.assert_allclose(found[place].scores, wanted.values.numpy(), rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("compiled", [True, False])
    def test_changed_rows_and_a_pool(self, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if not compiled:
            monkeypatch.setenv("YINYAN_NATIVE", "0")
        rows = Snapshot.of(self.y).updated([5, 9000], torch.full((2, 8), 9.0)).without([11])
        pool = np.arange(0, 9001, 5)
        search, some = ExactSearch(self.decoder), self.sources[self.sources != 11][:20]
        together = search.top_k(rows, some, 12, None, pool)
        for source, top in zip(some, together, strict=True):
            (alone,) = ExactSearch(self.decoder).top_k(rows, np.array([source]), 12, None, pool)
            assert np.array_equal(top.rows, alone.rows) and np.isin(top.rows, pool).all()
            np.testing.assert_allclose(top.scores, alone.scores, rtol=1e-5, atol=1e-5)

    def test_fewer_than_k_are_fewer(self) -> None:
        found = ExactSearch(self.decoder).top_k(Snapshot.of(self.y[:6]), np.array([0, 3]), 50)
        assert [sorted(top.rows.tolist()) for top in found] == [[1, 2, 3, 4, 5], [0, 1, 2, 4, 5]]

    @pytest.mark.parametrize("compiled", [True, False])
    def test_a_score_that_is_no_number_is_refused(self, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if not compiled:
            monkeypatch.setenv("YINYAN_NATIVE", "0")
        y = self.y.clone()
        y[5000] = torch.nan
        with pytest.raises(InputError, match="the score of row 5,000 is not a number"):
            ExactSearch(self.decoder).top_k(Snapshot.of(y, check=False), np.array([1, 2]), 3)
