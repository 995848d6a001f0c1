"""What every implementation of a role must do, inherited by the tests of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.decoder import Decoder, build_decoder
from yinyan.graph import Graph
from yinyan.predictor import LinkPredictor
from yinyan.settings import DecoderSettings


class DecoderContract:
    """Scores pairs of embeddings: one at a time or many, either way round unless told otherwise."""

    kind: str
    size = 6
    sketch_size = 0

    def build(self, *, directed: bool = False, **options: Any) -> Decoder:
        torch.manual_seed(0)
        pinned = {"depth": 2, "width": 8, "residual": True, "norm": True, "dropout": 0.3}
        chosen = DecoderSettings(kind=self.kind, **{**pinned, **options})  # type: ignore[arg-type]
        return build_decoder(chosen, self.size, directed=directed, sketch_size=self.sketch_size).double()

    @staticmethod
    def rows(count: int, *, seed: int = 0) -> Tensor:
        return torch.randn(count, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))

    @pytest.fixture(params=[False, True], ids=["undirected", "directed"])
    def decoder(self, request: pytest.FixtureRequest) -> Decoder:
        return self.build(directed=request.param)

    def test_symmetric_unless_directed(self, decoder: Decoder) -> None:
        sources, targets = self.rows(5), self.rows(5, seed=1)
        forth, back = decoder(sources, targets), decoder(targets, sources)
        if decoder.is_symmetric:
            torch.testing.assert_close(forth, back)
        else:
            assert ((forth - back).abs() > 1e-6).all()

    def test_is_directed_only_on_directed_data(self) -> None:
        assert self.build(directed=False, directed_maps=True).is_symmetric
        assert not self.build(directed=True, directed_maps=True).is_symmetric
        assert self.build(directed=True, directed_maps=False, allow_symmetric=True).is_symmetric

    def test_directed_maps_start_near_symmetric(self) -> None:
        directed, plain = self.build(directed=True), self.build()
        plain.load_state_dict({k: v for k, v in directed.state_dict().items() if not k.endswith("_map")})
        sources, targets = self.rows(50), self.rows(50, seed=1)
        together = torch.stack([directed(sources, targets), plain(sources, targets)])
        assert torch.corrcoef(together)[0, 1] > 0.8

    def test_batch_equals_single(self, decoder: Decoder) -> None:
        sources, targets = self.rows(5), self.rows(5, seed=1)
        singles = [decoder(s, t) for s, t in zip(sources, targets, strict=True)]
        assert singles[0].shape == ()
        torch.testing.assert_close(decoder(sources, targets), torch.stack(singles))

    def test_broadcasts(self, decoder: Decoder) -> None:
        sources, targets = self.rows(3), self.rows(4, seed=1)
        grid = decoder(sources[:, None], targets[None])
        assert grid.shape == (3, 4)
        for i in range(3):
            torch.testing.assert_close(grid[i], decoder(sources[i], targets))

    def test_no_pairs(self, decoder: Decoder) -> None:
        assert decoder(self.rows(0), self.rows(0)).shape == (0,)

    @pytest.mark.parametrize("precision", [torch.float32, torch.float64])
    def test_finite_at_extremes(self, decoder: Decoder, precision: torch.dtype) -> None:
        decoder = decoder.to(precision)
        large = torch.full((2, 6), 1e4, dtype=precision, requires_grad=True)
        for other in (large, -large, torch.zeros_like(large)):
            score = decoder(large, other)
            assert score.isfinite().all()
            (grad,) = torch.autograd.grad(score.sum(), large)
            assert grad.isfinite().all()

    def test_gradient_reaches_embeddings_and_parameters(self, decoder: Decoder) -> None:
        sources, targets = (self.rows(5, seed=s).requires_grad_() for s in (0, 1))
        decoder(sources, targets).square().sum().backward()
        for tensor in (sources, targets, *decoder.parameters()):
            assert tensor.grad is not None
            assert tensor.grad.any()

    def test_inference_is_deterministic(self, decoder: Decoder) -> None:
        sources, targets = self.rows(5), self.rows(5, seed=1)
        assert torch.equal(decoder(sources, targets), decoder(sources, targets))

    def test_can_learn_which_pairs_are_links(self, decoder: Decoder) -> None:
        """Equal embeddings are linked and opposite ones are not: every decoder must be able to say so."""
        y = self.rows(20)
        optimizer = torch.optim.Adam(decoder.parameters(), lr=0.02)
        for _ in range(60):
            loss = torch.nn.functional.softplus(torch.cat([-decoder(y, y), decoder(y, -y)])).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert decoder(y, y).min() > decoder(y, -y).max()

    def test_state_survives_a_reload(self, decoder: Decoder) -> None:
        torch.manual_seed(9)
        other = self.build(directed=not decoder.is_symmetric)
        for parameter in other.parameters():
            parameter.data.normal_()
        sources, targets = self.rows(5), self.rows(5, seed=1)
        assert not torch.allclose(other(sources, targets), decoder(sources, targets))
        other.load_state_dict(decoder.state_dict())
        assert torch.equal(other(sources, targets), decoder(sources, targets))


def planted_graph(
    communities: int = 2, size: int = 20, *, inside: float = 0.3, across: float = 0.02, seed: int = 0, **options: Any
) -> Graph:
    """Communities whose members are linked among each other far more often than across: row r is in r // size."""
    rng = np.random.default_rng(seed)
    num_nodes = communities * size
    community = np.arange(num_nodes) // size
    if options.get("directed"):
        source, target = np.nonzero(~np.eye(num_nodes, dtype=bool))
    else:
        source, target = np.triu_indices(num_nodes, 1)
    chance = np.where(community[source] == community[target], inside, across)
    chosen = rng.random(source.size) < chance
    return Graph.from_arrays(np.stack([source, target], axis=1)[chosen], num_nodes=num_nodes, **options)


# every setting at a value of its own, so that a better default tomorrow does not change what these tests see
TINY: dict[str, dict[str, Any]] = {
    "encoder": {
        "hidden_size": 16,
        "embedding_size": 8,
        "num_layers": 1,
        "sign_hops": 0,
        "num_steps": 4,
        "step_size": 0.5,
        "anchoring": 0.5,
        "attraction": 1.0,
        "repulsion": 0.3,
        "learn_repulsion": "softplus",
        "num_negatives": 1,
        "sampler": "global",
        "expected_negatives": True,
        "sketch_size": 0,
        "margin": None,
        "self_loops": False,
        "feature_dropout": 0.3,
        "dropout": 0.3,
        "output_norm": True,
    },
    "decoder": {
        "kind": "hadamard",
        "depth": 2,
        "width": 16,
        "residual": True,
        "norm": True,
        "dropout": 0.3,
        "directed_maps": True,
        "allow_symmetric": False,
    },
    "training": {
        "averaging": 0.0,
        "epochs": 3,
        "batch_size": 16,
        "learning_rate": 0.01,
        "weight_decay": 1e-4,
        "schedule": "cosine",
        "warmup": 0.05,
        "clip_norm": 1.0,
        "loss": "paper",
        "loss_negatives": 3,
        "loss_sampler": "global",
        "mask_targets": True,
        "selection": "balanced",
        "validation_share": 0.1,
        "validation_negatives": 200,
        "evaluate_every": 1,
        "patience": 20,
        "inference_samples": 1,
    },
}


def tiny(**groups: Any) -> dict[str, Any]:
    """Parameters of a predictor that fits a small graph in a moment; `groups` override single settings."""
    merged = {name: {**values, **groups.pop(name, {})} for name, values in TINY.items()}
    return {**merged, "device": "cpu", **groups}


class PredictorContract:
    """Answers about a graph of one kind: one by one or together, before and after a reload, in the caller's ids."""

    @staticmethod
    def make_graph() -> Graph:
        raise NotImplementedError

    @staticmethod
    def params() -> dict[str, Any]:
        return tiny()

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> LinkPredictor:
        return LinkPredictor(**cls.params()).fit(cls.make_graph())

    @staticmethod
    def may_be_recommended(graph: Graph, source: int) -> set[int]:
        """By definition, from the list of links alone."""
        taken = {int(b) for a, b in graph.edges if a == source}
        if not graph.directed:
            taken |= {int(a) for a, b in graph.edges if b == source}
        sides = graph.sides
        return {
            row
            for row in range(graph.num_nodes)
            if row != source and row not in taken and (sides is None or sides[row] != sides[source])
        }

    def test_recommends_what_brute_force_finds(self, model: LinkPredictor) -> None:
        graph = model.graph_
        for source in range(0, graph.num_nodes, 3):
            allowed = self.may_be_recommended(graph, source)
            name = graph.ids[source]
            scores = {row: model.score((name, graph.ids[row])) for row in allowed}
            found = model.recommend(name, k=5)
            rows = [graph.ids.row(target) for target in found.targets]
            assert set(rows) <= allowed
            assert len(set(rows)) == len(rows) == min(5, len(allowed))
            assert set(found.sources) == {name}
            assert found.ranks.tolist() == list(range(1, len(rows) + 1))
            assert (np.diff(found.scores) <= 0).all()
            best = sorted(scores.values(), reverse=True)[:5]
            np.testing.assert_allclose(found.scores, best, atol=1e-5)
            np.testing.assert_allclose(found.scores, [scores[row] for row in rows], atol=1e-5)

    def test_scalar_and_batch_agree(self, model: LinkPredictor) -> None:
        ids = model.graph_.ids
        names = ids.take(range(6))
        pairs = list(zip(names[:3], ids.take([len(ids) - 1, len(ids) - 2, len(ids) - 3]), strict=True))
        together, apart = model.recommend(names, k=4), [model.recommend(name, k=4) for name in names]
        assert list(together) == [row for found in apart for row in found]
        scores, chances = model.score(pairs), model.predict_proba(pairs)
        assert scores.shape == chances.shape == (3,)
        for i, pair in enumerate(pairs):
            assert isinstance(model.score(pair), float) and isinstance(model.predict_proba(pair), float)
            assert model.score(pair) == pytest.approx(scores[i], abs=1e-5)
            assert model.predict_proba(pair) == pytest.approx(chances[i], abs=1e-5)
        vectors = model.embed(names)
        assert vectors.shape == (6, 16)
        for name, vector in zip(names, vectors, strict=True):
            assert np.array_equal(model.embed(name), vector)

    def test_answers_in_the_callers_ids(self, model: LinkPredictor) -> None:
        ids = model.graph_.ids
        known = {(type(value), value) for value in ids.take(range(len(ids)))}
        found = model.recommend(ids.take(range(len(ids))), k=3)
        assert {(type(value), value) for value in found.targets} <= known
        assert {(type(value), value) for value in found.sources} <= known

    def test_probabilities_rise_with_scores(self, model: LinkPredictor) -> None:
        graph = model.graph_
        pairs = [(graph.ids[0], graph.ids[row]) for row in range(1, graph.num_nodes)]
        scores, chances = model.score(pairs), model.predict_proba(pairs)
        assert ((chances > 0) & (chances < 1)).all()
        assert (np.diff(chances[np.argsort(scores)]) >= 0).all()

    def test_the_same_seed_gives_the_same_scores(self, model: LinkPredictor) -> None:
        again = LinkPredictor(**self.params()).fit(self.make_graph())
        other = LinkPredictor(**{**self.params(), "seed": 1}).fit(self.make_graph())
        assert np.array_equal(again.embeddings_, model.embeddings_)
        pairs = self.some_pairs(model)
        assert np.array_equal(again.score(pairs), model.score(pairs))
        assert not np.allclose(other.score(pairs), model.score(pairs))

    def test_a_reload_changes_nothing(self, model: LinkPredictor, tmp_path: Path) -> None:
        model.save(tmp_path / "model")
        back = LinkPredictor.load(tmp_path / "model", device="cpu")
        pairs = self.some_pairs(model)
        assert np.array_equal(back.score(pairs), model.score(pairs))
        assert np.array_equal(back.predict_proba(pairs), model.predict_proba(pairs))
        assert np.array_equal(back.embeddings_, model.embeddings_)
        assert back.graph_.ids == model.graph_.ids
        assert np.array_equal(back.graph_.edges, model.graph_.edges)
        assert back.get_params() == model.get_params()
        name = model.graph_.ids[3]
        assert list(back.recommend(name, k=7)) == list(model.recommend(name, k=7))
        source, target = pairs[0]
        assert back.explain(source, target) == model.explain(source, target)

    def test_explains_the_score_it_gives(self, model: LinkPredictor) -> None:
        source, target = self.some_pairs(model)[0]
        told = model.explain(source, target)
        assert told.score == pytest.approx(model.score((source, target)), abs=1e-5)
        assert told.score_alone + sum(c.amount for c in told.contributions) + told.residue == pytest.approx(told.score)
        assert {c.kind for c in told.contributions} == {"attracts", "repels"}

    @staticmethod
    def some_pairs(model: LinkPredictor) -> list[tuple[Any, Any]]:
        """Each node with one of the later rows, so that a bipartite graph's pairs have both sides."""
        ids = model.graph_.ids
        half = len(ids) // 2
        return [(ids[row], ids[half + row]) for row in range(half)]


def distances(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
    """Between the rows of two matrices, as a share of the first's own spread about its mean."""
    spread = np.linalg.norm(first - first.mean(0), axis=1).mean()
    return np.asarray(np.linalg.norm(first - second, axis=1) / spread)
