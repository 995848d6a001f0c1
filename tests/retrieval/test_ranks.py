"""Ranks that are counted, against ranks by sorting; parts of the rows add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.model.decoder import Decoder, build_decoder
from yinyan.retrieval import counting
from yinyan.retrieval.counting import num_reaching
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.ranks import ranks_of
from yinyan.retrieval.scorer import Scorer
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import DecoderSettings

N, SIZE = 300, 8
KINDS = ("hadamard", "dot", "distance")
RNG = np.random.default_rng(0)
ROWS = torch.from_numpy(RNG.normal(size=(N, SIZE)).astype(np.float32))
ROWS[200:210] = ROWS[100:110]  # equal rows have equal scores


def decoder_of(kind: str) -> Decoder:
    torch.manual_seed(1)
    return build_decoder(DecoderSettings(kind=kind, width=8), SIZE, directed=False).eval()  # type: ignore[arg-type]


def by_sorting(
    scores: NDArray[np.float32], source: int, relevant: list[int], barred: list[int], pool: NDArray[np.int64]
) -> list[int]:
    """Each relevant row below all others of its score."""
    others = [row for row in pool.tolist() if row not in (source, *barred, *relevant)]
    best = sorted((float(scores[row]) for row in relevant), reverse=True)
    return [sum(float(scores[row]) >= bar for row in others) + place for place, bar in enumerate(best, start=1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize("pool", [None, np.arange(120, N), np.arange(0, N, 2)], ids=["all", "range", "some"])
def test_counted_ranks_are_sorted_ranks(
    kind: str, block: int, pool: NDArray[np.int64] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_BLOCK", block)
    decoder = decoder_of(kind)
    scorer, search, rows = Scorer(decoder), ExactSearch(decoder), Snapshot.of(ROWS)
    everyone = np.arange(N) if pool is None else pool
    sources, relevant, barred = np.array([3, 104, 250]), [], []
    for source in sources.tolist():
        free = np.setdiff1d(everyone, [source])
        drawn = np.random.default_rng(source).permutation(free)
        relevant.append(np.union1d(drawn[:5], np.intersect1d(free, [202, 206])))
        barred.append(np.setdiff1d(drawn[10:20], relevant[-1]))
    found = ranks_of(search, scorer, rows, sources, relevant, barred, pool)
    for place, source in enumerate(sources.tolist()):
        scores = scorer.canonical(ROWS, ROWS[source], np.arange(N))
        expected = by_sorting(scores, source, relevant[place].tolist(), barred[place].tolist(), everyone)
        assert found[place].tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_parts_add_up(kind: str) -> None:
    scorer, own = Scorer(decoder_of(kind)), ROWS[7]
    bars = scorer.canonical(ROWS, own, np.array([100, 105, 203, 9]))
    whole = num_reaching(scorer, ROWS, own, bars, np.array([7]))
    for cut in (1, 150, 204):
        first = num_reaching(scorer, ROWS[:cut], own, bars, np.array([7])[np.array([7]) < cut])
        second = num_reaching(scorer, ROWS[cut:], own, bars, np.array([7 - cut])[np.array([7 - cut]) >= 0])
        assert np.array_equal(first + second, whole)
    assert whole[2] == num_reaching(scorer, ROWS, own, bars, np.array([7, 203]))[2] + 1, "itself reaches its bar"
    assert num_reaching(scorer, ROWS, own, bars[:0], np.array([7])).shape == (0,)


def test_scores_that_are_no_numbers_are_refused() -> None:
    scorer, broken = Scorer(decoder_of("hadamard")), ROWS.clone()
    broken[12] = float("nan")
    with pytest.raises(InputError, match="score of row 12 is not a number"):
        num_reaching(scorer, broken, broken[7], np.zeros(1, np.float32), np.array([7]))
