"""Decoders with the source folded in score as the decoders do, and a pair's score does not tell its company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from yinyan.model.decoder import build_decoder
from yinyan.model.sketches import sketch_width
from yinyan.native import retrieval_kernels
from yinyan.retrieval.queries import points_of, queries_at
from yinyan.retrieval.scorer import Scorer
from yinyan.settings import DecoderSettings

SHAPES: list[dict[str, Any]] = [
    {"kind": "hadamard", "width": 24},  # a residual of its own width
    {"kind": "hadamard", "width": 40, "residual": True},  # none, and more than one panel
    {"kind": "hadamard", "width": 24, "residual": True},
    {"kind": "hadamard", "depth": 1},
    {"kind": "hadamard", "depth": 3, "width": 9},
    {"kind": "hadamard", "depth": 3, "width": 24, "residual": True, "norm": True},
    {"kind": "hadamard", "depth": 4, "width": 40, "residual": True},
    {"kind": "hadamard", "depth": 2, "width": 24, "residual": True, "norm": True},
    {"kind": "hadamard", "depth": 2, "width": 33, "norm": True},
    {"kind": "dot"},
    {"kind": "distance"},
]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("sketch_size", [0, 5])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scores_as_the_decoder(
    shape: dict[str, Any], directed: bool, sketch_size: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YINYAN_NATIVE", "1" if compiled else "0")
    torch.manual_seed(0)
    decoder = build_decoder(DecoderSettings(**shape), 24, directed=directed, sketch_size=sketch_size)
    decoder.requires_grad_(False)
    for norm in getattr(decoder, "norms", ()):
        for values in norm.parameters():
            values.normal_()
    y = torch.randn(130, 24 + sketch_width(sketch_size))
    scorer, rng = Scorer(decoder), np.random.default_rng(0)
    expected = decoder(y[3], y).numpy()
    np.testing.assert_allclose(scorer.scores(y, y[3]), expected, atol=1e-4)
    np.testing.assert_allclose(scorer.scores(y, y[3], None, 50, 77), expected[50:77], atol=1e-4)
    rows = rng.integers(0, 130, 41)
    np.testing.assert_allclose(scorer.scores(y, y[3], rows), expected[rows], atol=1e-4)
    candidates = rng.integers(-1, 130, (6, 31))
    found = scorer.candidates(y, y[:6], candidates)
    for source in range(6):
        there = candidates[source] >= 0
        wanted = decoder(y[source], y[candidates[source][there]]).numpy()
        np.testing.assert_allclose(found[source][there], wanted, atol=1e-4)
        assert np.isneginf(found[source][~there]).all()
        one = [
            scorer.canonical(y, y[source], candidates[source, place : place + 1])[0] for place in np.flatnonzero(there)
        ]
        assert np.array_equal(found[source][there], np.array(one, dtype=np.float32)), "company shows in the last bits"
    y[9] = y[11]
    both = scorer.canonical(y, y[3], np.array([9, 4, 11]))
    assert both[0] == both[2]


def test_the_kernel_serves_the_usual_decoders() -> None:
    if retrieval_kernels.library() is None:
        pytest.skip("no C++ compiler")
    y = torch.randn(9, 24)
    served = [Scorer(build_decoder(DecoderSettings(**shape), 24, directed=False)).is_canonical(y) for shape in SHAPES]
    assert served == [shape["kind"] == "hadamard" and shape.get("depth") != 1 for shape in SHAPES]


def test_the_kernel_has_no_layers_between_maps_and_residuals() -> None:
    """What a first layer adds to would be the product of mapped embeddings, which nobody computes there."""
    if retrieval_kernels.library() is None:
        pytest.skip("no C++ compiler")
    y = torch.randn(9, 24)
    served = [Scorer(build_decoder(DecoderSettings(**shape), 24, directed=True)).is_canonical(y) for shape in SHAPES]
    assert served == [True, True, True, False, True, False, True, False, True, False, False]


@pytest.mark.parametrize("sketch_size", [0, 5])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_queries_are_the_first_order_of_scores(shape: dict[str, Any], directed: bool, sketch_size: int) -> None:
    """Near the place where it was taken, a query's product moves as the score does; a linear decoder's everywhere."""
    torch.manual_seed(1)
    decoder = build_decoder(DecoderSettings(**shape), 24, directed=directed, sketch_size=sketch_size).double()
    decoder.requires_grad_(False)
    y = torch.randn(3, 24 + sketch_width(sketch_size), dtype=torch.float64)
    step = 1e-6 * torch.randn_like(y[1])
    (query,) = queries_at(decoder, y[:1], y[None, 1:2])
    moved = decoder(y[0], y[1] + step) - decoder(y[0], y[1])
    before, after = points_of(decoder, torch.stack([y[1], y[1] + step])) @ query
    assert float(after - before) == pytest.approx(float(moved), rel=1e-3, abs=1e-12)
    several = queries_at(decoder, y[:1], y[None, 1:])
    apart = torch.cat([queries_at(decoder, y[:1], y[None, place : place + 1]) for place in (1, 2)])
    torch.testing.assert_close(several[0], apart.mean(0))


def test_products_of_a_linear_decoder_rank_as_its_scores() -> None:
    for kind in ("dot", "distance"):
        decoder = build_decoder(DecoderSettings(kind=kind), 6, directed=True).requires_grad_(False)  # type: ignore[arg-type]
        y = torch.randn(40, 6)
        products = points_of(decoder, y) @ queries_at(decoder, y[:1], y[:1, None])[0]
        scores = decoder(y[0], y)
        assert products.argsort().tolist() == scores.argsort().tolist()
        torch.testing.assert_close(products - products.mean(), scores - scores.mean(), atol=1e-4, rtol=1e-4)
