"""Decoders with the source folded in score as the decoders do, and a pair's score does not tell its company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from yinyan.model.decoder import build_decoder
from yinyan.native import retrieval_kernels
from yinyan.retrieval.queries import points_of, queries_at
from yinyan.retrieval.scorer import Scorer
from yinyan.settings import DecoderSettings, EncoderSettings

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
    {"kind": "multi-dot", "heads": 1},
    {"kind": "multi-dot", "heads": 5},
    {"kind": "distance"},
]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("sketch_size", [0, 5])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scores_as_the_decoder(
    shape: dict[str, Any], directed: bool, sketch_size: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setenv("YINYAN_NATIVE", "0")
    torch.manual_seed(0)
    decoder = build_decoder(DecoderSettings(**shape), 24, directed=directed, sketch_size=sketch_size)
    decoder.requires_grad_(False)
    for norm in getattr(decoder, "norms", ()):
        for values in norm.parameters():
            values.normal_()
    y = torch.randn(130, 24 + EncoderSettings(sketch_size=sketch_size).structure_columns)
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
    layered = [shape.get("depth", shape.get("heads")) != 1 for shape in SHAPES]
    kinds = ("hadamard", "multi-dot")
    assert served == [shape["kind"] in kinds and deep for shape, deep in zip(SHAPES, layered, strict=True)]


def test_the_kernel_has_no_layers_between_maps_and_residuals() -> None:
    """What a first layer adds to would be the product of mapped embeddings, which nobody computes there."""
    if retrieval_kernels.library() is None:
        pytest.skip("no C++ compiler")
    y = torch.randn(9, 24)
    served = [Scorer(build_decoder(DecoderSettings(**shape), 24, directed=True)).is_canonical(y) for shape in SHAPES]
    assert served == [True, True, True, False, True, False, True, False, True, False, False, True, False]


@pytest.mark.parametrize("sketch_size", [0, 5])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_queries_are_the_first_order_of_scores(shape: dict[str, Any], directed: bool, sketch_size: int) -> None:
    """Near the place where it was taken, a query's product moves as the score does; a linear decoder's everywhere."""
    torch.manual_seed(1)
    decoder = build_decoder(DecoderSettings(**shape), 24, directed=directed, sketch_size=sketch_size).double()
    decoder.requires_grad_(False)
    y = torch.randn(3, 24 + EncoderSettings(sketch_size=sketch_size).structure_columns, dtype=torch.float64)
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


@pytest.mark.parametrize("sketch_size", [0, 5, 20])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_compiled_gradients_are_those_of_autograd(shape: dict[str, Any], directed: bool, sketch_size: int) -> None:
    torch.manual_seed(0)
    decoder = build_decoder(DecoderSettings(**shape), 24, directed=directed, sketch_size=sketch_size)
    decoder.requires_grad_(False)
    for norm in getattr(decoder, "norms", ()):
        for values in norm.parameters():
            values.normal_()
    y, scorer = torch.randn(130, 24 + EncoderSettings(sketch_size=sketch_size).structure_columns), Scorer(decoder)
    if not scorer.is_canonical(y):
        pytest.skip("not compiled")
    places = np.random.default_rng(0).integers(0, 130, (6, 15))  # more than the kernel takes at a time
    found = scorer.mean_gradients(y, y[:6], places)
    wanted = queries_at(scorer.precise, y[:6], y[torch.from_numpy(places)])
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-5)
    assert torch.equal(found[2:3], scorer.mean_gradients(y, y[2:3], places[2:3])), "company shows in the last bits"
    short = places.copy()
    short[:, 4:] = -1
    wanted = queries_at(scorer.precise, y[:6], y[torch.from_numpy(places[:, :4])])
    np.testing.assert_allclose(scorer.mean_gradients(y, y[:6], short).numpy(), wanted.numpy(), atol=1e-5)


@pytest.mark.parametrize("size", [1e-8, 1e-3, 1.0, 3e4, 1e12])
def test_logarithms_of_sketches_hold_at_every_size(size: float) -> None:
    torch.manual_seed(0)
    decoder = build_decoder(DecoderSettings(kind="dot"), 8, directed=False, sketch_size=6).requires_grad_(False)
    y = torch.randn(40, 8 + EncoderSettings(sketch_size=6).structure_columns)
    y[:, 8:] *= size**0.5
    found, wanted = Scorer(decoder).scores(y, y[0]), Scorer(decoder).precise(y[0].double(), y.double())
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [{"kind": "dot"}, {"kind": "hadamard", "depth": 1}], ids=str)
def test_the_kernel_serves_one_inner_product_with_sketches(shape: dict[str, Any]) -> None:
    if retrieval_kernels.library() is None:
        pytest.skip("no C++ compiler")
    decoder = build_decoder(DecoderSettings(**shape), 24, directed=False, sketch_size=8)
    assert Scorer(decoder).is_canonical(torch.randn(9, 24 + EncoderSettings(sketch_size=8).structure_columns))
