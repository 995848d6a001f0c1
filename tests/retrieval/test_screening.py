"""Bounds in bytes: never below a score, and never the cause of another answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder, build_decoder
from yinyan.native import retrieval_kernels
from yinyan.retrieval import exact
from yinyan.retrieval.budgets import Budget
from yinyan.retrieval.building import build_index
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.scorer import Scorer
from yinyan.retrieval.screening import Screen
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import DecoderSettings, EncoderSettings

pytestmark = pytest.mark.skipif(retrieval_kernels.library() is None, reason="there are no compiled kernels")


def decoder_of(
    size: int,
    width: int,
    *,
    scale: float = 1.0,
    directed: bool = False,
    seed: int = 0,
    residual: bool = False,
    sketch_size: int = 0,
) -> Decoder:
    torch.manual_seed(seed)
    settings = DecoderSettings(width=width, residual=residual)
    made = build_decoder(settings, size, directed=directed, sketch_size=sketch_size)
    with torch.no_grad():
        for value in made.parameters():
            value.copy_(torch.randn_like(value) * scale)
    return made.requires_grad_(False)


def rows_of(count: int, size: int, seed: int = 1) -> torch.Tensor:
    """Rows of very different lengths, some equal, some zero."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(count, size, generator=generator)
    y *= torch.randn(count, 1, generator=generator).mul_(2).exp_()
    y[3::17] = y[0]
    y[5::23] = 0
    return y


@given(
    size=st.integers(1, 40),
    width=st.integers(1, 70),
    count=st.integers(1, 60),
    scale=st.sampled_from([1e-6, 0.1, 1.0, 1e4]),
    directed=st.booleans(),
    seed=st.integers(0, 1000),
    residual=st.booleans(),
    sketch_size=st.sampled_from([0, 5, 16, 33]),
)
def test_no_score_is_above_its_bound(
    size: int, width: int, count: int, scale: float, directed: bool, seed: int, residual: bool, sketch_size: int
) -> None:
    width = size if residual else width  # of another width there is no residual
    decoder = decoder_of(
        size, width, scale=scale, directed=directed, seed=seed, residual=residual, sketch_size=sketch_size
    )
    scorer, y = Scorer(decoder), rows_of(count, size + EncoderSettings(sketch_size=sketch_size).structure_columns, seed)
    screen = Screen.of(y, size)
    assert screen is not None
    for source, bounds in enumerate(scorer.bounds(screen, y, y[:4])):
        scores = scorer.scores(y, y[source])
        assert (bounds(0, count) >= scores).all()
        assert (bounds(count // 2, count) >= scores[count // 2 :]).all()
        np.testing.assert_allclose(bounds(count // 2, count), bounds(0, count)[count // 2 :], rtol=1e-4, atol=1e-6)


def test_bounds_are_near_enough_to_spare_most_rows() -> None:
    torch.manual_seed(0)
    scorer, y = Scorer(build_decoder(DecoderSettings(width=64), 64, directed=False)), torch.randn(20_000, 64)
    screen = Screen.of(y, 64)
    assert screen is not None
    assert screen.num_bytes == Screen.bytes_for(20_000, 64) < 0.32 * y.numel() * 4
    scores, bounds = scorer.scores(y, y[0]), scorer.bounds(screen, y, y[:1])[0](0, 20_000)
    assert (bounds >= np.sort(scores)[-100]).sum() < 2_000


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Screens for few rows and on any processor."""
    monkeypatch.setattr(exact, "_SCREENED_ROWS", 1)
    monkeypatch.setattr(exact, "_SCREENED", 0)
    monkeypatch.setattr(retrieval_kernels, "screens_quickly", lambda: True)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("k", [1, 7, 100, 2_999, 3_000, 5_000])
@pytest.mark.parametrize("memory", [400, 64 << 20])
@pytest.mark.parametrize(("width", "sketch_size"), [(40, 0), (24, 0), (40, 8), (24, 16)])
def test_the_answer_is_that_of_scoring_all(
    k: int, memory: int, width: int, sketch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "_FRONT", 50)
    decoder = decoder_of(24, width, residual=True, sketch_size=sketch_size)  # which there is for a width of 24
    y = rows_of(3_000, 24 + EncoderSettings(sketch_size=sketch_size).structure_columns)
    rows, sources = Snapshot.of(y), np.array([0, 2, 5, 19, 2_999])
    with_it, without = ExactSearch(decoder, memory=memory), ExactSearch(decoder, memory=memory, screen=False)
    assert with_it.prepare(rows) > 0 == without.prepare(rows)

    def known(source: int) -> np.ndarray:
        return np.arange(source, 3_000, 3)

    for excluded in (None, known):
        for a, b in zip(
            with_it.top_k(rows, sources, k, excluded), without.top_k(rows, sources, k, excluded), strict=True
        ):
            assert np.array_equal(a.rows, b.rows)
            assert np.array_equal(a.scores, b.scores)


@pytest.mark.usefixtures("everywhere")
def test_rows_that_changed_are_seen() -> None:
    decoder, y = decoder_of(24, 40), rows_of(500, 24)
    rows = Snapshot.of(y).updated([3, 500, 501], torch.randn(3, 24) * 30).without([7, 8])
    sources = np.array([0, 3, 501])
    both = [search.top_k(rows, sources, 20) for search in (ExactSearch(decoder), ExactSearch(decoder, screen=False))]
    for a, b in zip(*both, strict=True):
        assert np.array_equal(a.rows, b.rows)
        assert np.array_equal(a.scores, b.scores)
    assert {3, 500, 501} & set(both[0][0].rows.tolist())


@pytest.mark.usefixtures("everywhere")
def test_a_number_that_is_none_is_refused_as_without() -> None:
    decoder, y = decoder_of(24, 40), rows_of(500, 24)
    y[77, 3] = torch.nan
    assert Screen.of(y, 24) is None
    with pytest.raises(InputError, match="row 77 is not a number"):
        ExactSearch(decoder).top_k(Snapshot.of(y, check=False), np.array([0]), 20)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(
    "decoder",
    [
        build_decoder(DecoderSettings(width=24, norm=True), 24, directed=False),
        build_decoder(DecoderSettings(kind="dot"), 24, directed=False, sketch_size=8),
        build_decoder(DecoderSettings(width=24, depth=3), 24, directed=False),
        build_decoder(DecoderSettings(kind="dot"), 24, directed=False),
    ],
    ids=["norm", "dot with sketches", "deep", "dot"],
)
def test_other_decoders_are_scored_in_full(decoder: Decoder) -> None:
    columns = 24 + (25 if decoder.structure is not None else 0)
    search, rows = ExactSearch(decoder), Snapshot.of(rows_of(400, columns))
    assert search.prepare(rows) == 0
    assert len(search.top_k(rows, np.array([0]), 5)[0].rows) == 5


def test_few_questions_make_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_SCREENED_ROWS", 1)
    monkeypatch.setattr(retrieval_kernels, "screens_quickly", lambda: True)
    search, rows = ExactSearch(decoder_of(8, 8)), Snapshot.of(rows_of(200, 8))
    made: list[int] = []
    of = Screen.of
    monkeypatch.setattr(Screen, "of", lambda y, size: made.append(size) or of(y, size))
    search.top_k(rows, np.arange(15), 3)
    assert not made
    search.top_k(rows, np.arange(3), 3)
    search.top_k(rows, np.arange(3), 3)
    assert made == [8]


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(("megabytes", "held"), [(None, 500 * 36), (1, 500 * 36), (0.01, 0)])
def test_an_exact_index_does_without_where_there_is_no_room(megabytes: float | None, held: int) -> None:
    graph = Graph.from_arrays(np.empty((0, 2), np.int64), num_nodes=500)
    budget = Budget(recall=None, megabytes=megabytes, k=5)
    index = build_index(graph, decoder_of(24, 40), rows_of(500, 24), kind="exact", budget=budget)
    assert index.metadata.bytes == held
