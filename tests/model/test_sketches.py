"""Sketches: inner products that count what two nodes share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from contracts import DecoderContract, planted_graph, tiny
from yinyan.graph import Graph
from yinyan.model import sketches
from yinyan.model.decoder import Decoder, build_decoder
from yinyan.model.messages import MessageGraph
from yinyan.model.sketches import SharedStructure, Sketches
from yinyan.native import graph_kernels
from yinyan.predictor import LinkPredictor
from yinyan.settings import DecoderSettings, EncoderSettings

NODES, SIZE = 30, 4096  # so wide that estimates are near what they estimate


def links(seed: int = 0) -> Tensor:
    pairs = torch.randint(NODES, (120, 2), generator=torch.Generator().manual_seed(seed))
    pairs = pairs[(pairs[:, 0] != pairs[:, 1]) & (pairs != NODES - 1).all(1)]  # the last node has no link
    return pairs.sort(1).values.unique(dim=0)


def dense(pairs: Tensor) -> Tensor:
    a = torch.zeros(NODES, NODES)
    a[pairs[:, 0], pairs[:, 1]] = a[pairs[:, 1], pairs[:, 0]] = 1
    return a


def graph(pairs: Tensor | None = None) -> MessageGraph:
    return MessageGraph.from_pairs(links() if pairs is None else pairs, NODES)


def truths(a: Tensor) -> Tensor:
    """(n, n, 6) what is estimated, counted."""
    degrees = a.sum(1)
    few = torch.where(degrees > 0, 1 / degrees.clamp(min=1), 0.0)
    far = a @ a - torch.diag(degrees)  # walks of two steps that end elsewhere
    counts = torch.stack([a @ a, a @ torch.diag(few) @ a, a @ far + far @ a, far @ far], dim=-1)
    beside = torch.log1p(degrees)
    sums, products = beside[:, None] + beside, beside[:, None] * beside
    return torch.cat([counts.log1p(), sums[..., None], products[..., None]], dim=-1)


@pytest.mark.usefixtures("kernels")
class TestEstimates:
    def estimated(self, messages: MessageGraph, hidden: Tensor | None = None, size: int = SIZE) -> Tensor:
        rows = Sketches(size).of(messages, hidden)
        assert rows.shape == (NODES, EncoderSettings(sketch_size=size).structure_columns)
        return SharedStructure(size, 4, 1).estimates(rows[:, None], rows[None])

    def test_come_near_the_counts(self) -> None:
        """Where the two nodes are one, walks meet themselves, and a count of distinct ones is not estimated."""
        apart = ~torch.eye(NODES, dtype=torch.bool)
        gap = (self.estimated(graph()) - truths(dense(links())))[apart]
        assert gap.abs().mean() < 0.1
        assert gap[:, 1].abs().max() < 0.1  # resource allocation has the least noise
        assert gap[:, 4:].abs().max() < 1e-5

    def test_are_unbiased(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The mean over many signs of the products themselves, for narrow sketches."""
        a, total, rounds = dense(links()), torch.zeros(NODES, NODES), 400
        for seed in range(rounds):
            monkeypatch.setattr("yinyan.model.sketches._SEED", seed)
            near = Sketches(16).of(graph())[:, :16]
            total += near @ near.T
        error = (total / rounds - a @ a).abs()
        noise = torch.outer(a.sum(1), a.sum(1)).sqrt() / 4 / rounds**0.5
        assert bool((error <= 5 * noise + 1e-5).all())

    def test_hidden_links_count_nothing(self) -> None:
        pairs = links()
        hidden = torch.arange(pairs.shape[0]) % 4 == 0
        torch.testing.assert_close(self.estimated(graph(), hidden), self.estimated(graph(pairs[~hidden])))

    def test_a_node_without_links_shares_nothing(self) -> None:
        assert Sketches(64).of(graph())[NODES - 1].abs().max() == 0

    def test_weights_do_not_matter(self) -> None:
        pairs = links()
        weighted = MessageGraph.from_pairs(pairs, NODES, weights=torch.rand(pairs.shape[0]) + 0.1)
        torch.testing.assert_close(Sketches(64).of(weighted), Sketches(64).of(graph()))


def test_signs_stay_where_nodes_are_added() -> None:
    few, many = (Sketches(100).signs(n, torch.device("cpu")) for n in (50, 90))
    assert torch.equal(few, many[:50])
    growing = Sketches(100)
    for n in (3, 50, 51, 90):
        assert torch.equal(growing.signs(n, torch.device("cpu")), many[:n])
    assert few.abs().unique().tolist() == pytest.approx([0.1])
    assert abs(float(many.mean())) < 0.01


class TestGates:
    def test_open_ones_change_nothing_and_shut_ones_hide(self) -> None:
        pairs, sketches = links(), Sketches(64)
        touched = (pairs == 3).any(1)
        ends = torch.cat([pairs[touched], pairs[touched].flip(1)])
        for gates, left in ((torch.ones(len(ends)), pairs), (torch.zeros(len(ends)), pairs[~touched])):
            for some in (torch.tensor([3, 7]), torch.tensor([12]), torch.tensor([5, 3, NODES - 1])):
                gated = sketches.gated(graph(), some, ends[:, 0], ends[:, 1])(gates)
                torch.testing.assert_close(gated, sketches.of(graph(left))[some], atol=1e-5, rtol=1e-5)


class TestHadamardWithSketches(DecoderContract):
    kind = "hadamard"
    size, sketch_size = 2, 1  # rows of six: two of the embedding, four of the sketch


class TestDotWithSketches(DecoderContract):
    kind = "dot"
    size, sketch_size = 2, 1


class TestMultiDotWithSketches(DecoderContract):
    kind = "multi-dot"
    size, sketch_size = 2, 1

    def build(self, *, directed: bool = False, **options: Any) -> Decoder:
        return super().build(directed=directed, **{"heads": 2, **options})


class TestDistanceWithSketches(DecoderContract):
    kind = "distance"
    size, sketch_size = 2, 1


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
def test_pairs_of_rows_score_as_their_rows(directed: bool, depth: int) -> None:
    decoder = build_decoder(DecoderSettings(depth=depth, width=8), 5, directed=directed, sketch_size=7)
    y = torch.randn(12, 5 + EncoderSettings(sketch_size=7).structure_columns, requires_grad=True)
    pairs = torch.randint(12, (4, 3, 2))
    together = decoder.of_pairs(y, pairs)
    torch.testing.assert_close(together, decoder(y[pairs[..., 0]], y[pairs[..., 1]]))
    (slope,) = torch.autograd.grad(together.sum(), y)
    assert slope[:, :5].any() and not slope[:, 5:].any()
    assert decoder.of_pairs(y, pairs[:0]).shape == (0, 3)


@pytest.mark.parametrize("size", [1, 16, 37, 64])
def test_the_compiled_estimates_are_those_of_torch(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if graph_kernels.library() is None:
        pytest.skip(f"no compiled kernels: {graph_kernels.why_not()}")
    structure = SharedStructure(size, 4, 1)
    wide = 3 * torch.randn(30, 5 + 3 * size + 1, generator=torch.Generator().manual_seed(size))
    rows, pairs = wide[:, 5:], torch.randint(30, (200, 2), generator=torch.Generator().manual_seed(1))
    compiled = structure.of_pairs(rows, pairs)
    assert compiled.shape == (200, 6)
    monkeypatch.setattr(graph_kernels, "library", lambda: None)
    monkeypatch.setattr(sketches, "_PAIRS", 64)
    torch.testing.assert_close(compiled, structure.of_pairs(rows, pairs), rtol=1e-5, atol=1e-5)


class TestModels:
    @pytest.fixture
    def model(self) -> LinkPredictor:
        return LinkPredictor(**tiny(encoder={"sketch_size": 64})).fit(planted_graph())

    def test_save_load_and_ask(self, model: LinkPredictor, tmp_path: Path) -> None:
        model.save(tmp_path / "model")
        again = LinkPredictor.load(tmp_path / "model")
        assert again.score([(0, 5), (3, 30)]).tolist() == model.score([(0, 5), (3, 30)]).tolist()
        assert again.recommend([0], k=5).targets == model.recommend([0], k=5).targets

    def test_new_nodes_can_be_added(self, model: LinkPredictor) -> None:
        grown = model.extended([40], None, [(40, 0), (40, 1)])
        assert np.isfinite(grown.score([(40, 2)])).all()
        assert grown.embeddings_.shape == (41, 16 + EncoderSettings(sketch_size=64).structure_columns)

    def test_structure_alone_is_learned(self) -> None:
        """Links close triangles, and random features say nothing."""
        rng = np.random.default_rng(0)
        cliques = [np.stack(np.triu_indices(6, 1), axis=1) + 6 * k for k in range(40)]
        edges = np.concatenate(cliques)
        edges = edges[rng.random(len(edges)) < 0.7]
        features = rng.normal(size=(240, 4)).astype(np.float32)
        made = Graph.from_arrays(edges, num_nodes=240, features=features)
        encoder = {"inputs": "features", "num_steps": 0, "sketch_size": 128}
        scores = {}
        for size in (0, 128):
            options = tiny(encoder={**encoder, "sketch_size": size}, training={"epochs": 30, "learning_rate": 0.02})
            scores[size] = LinkPredictor(**options).fit(made).metrics_["auc"]
        assert scores[128] > 0.9 > scores[0] + 0.1
