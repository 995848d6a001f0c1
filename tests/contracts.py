"""What every implementation of a role must do, inherited by the tests of each."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import InputError, SettingsError, StoreError, UnknownNodeError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder, build_decoder
from yinyan.predictor import LinkPredictor
from yinyan.retrieval.budgets import Budget
from yinyan.retrieval.building import build_index
from yinyan.retrieval.index import Index
from yinyan.retrieval.index_store import load_index
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import DecoderSettings, EncoderSettings


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


def bipartite_graph(ids: Any = None) -> Graph:
    """15 and 25 nodes in two groups: like meets like, mostly."""
    rng = np.random.default_rng(0)
    left, right = (grid.ravel() for grid in np.meshgrid(range(15), range(15, 40), indexing="ij"))
    chosen = rng.random(left.size) < np.where(left % 2 == right % 2, 0.6, 0.05)
    sides = np.repeat([0, 1], [15, 25])
    return Graph.from_arrays(np.stack([left, right], axis=1)[chosen], ids=ids, num_nodes=40, sides=sides)


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
        "valid_share": 0.1,
        "valid_negatives": 200,
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


def clustered_rows(count: int, size: int, *, clusters: int = 12, seed: int = 0) -> Tensor:
    """Embeddings as training leaves them: groups of similar rows, some longer than others."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(clusters, size, generator=generator)
    member = torch.randint(clusters, (count,), generator=generator)
    lengths = 0.7 + 0.6 * torch.rand(count, 1, generator=generator)
    return (centres[member] + 0.4 * torch.randn(count, size, generator=generator)) * lengths


class IndexContract:
    """Finds what brute force finds, as often as it says; one by one or together; after every change."""

    kind: str  # of the index
    decoder_kind = "hadamard"
    options: ClassVar[dict[str, Any]] = {}
    sketch_size = 0
    count, size, k = 3000, 16, 10

    @classmethod
    def decoder(cls, *, directed: bool = False) -> Decoder:
        """One that has learned to tell near rows from far ones, as an index may expect of its model."""
        return copy.deepcopy(cls._learned(directed))

    @classmethod
    @functools.cache
    def _learned(cls, directed: bool) -> Decoder:
        torch.manual_seed(3)
        settings = DecoderSettings(**{"kind": cls.decoder_kind, "width": 24, **cls.options})
        made = build_decoder(settings, cls.size, directed=directed, sketch_size=cls.sketch_size)
        y = cls.rows(400)
        near = torch.cdist(y[:, : cls.size], y[:, : cls.size]).fill_diagonal_(torch.inf).argmin(1)
        optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
        for _ in range(40):
            far = torch.randint(400, (400,))
            loss = torch.nn.functional.softplus(torch.cat([-made(y, y[near]), made(y, y[far])])).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return made.requires_grad_(False)

    @classmethod
    def rows(cls, count: int | None = None, seed: int = 0) -> Tensor:
        y = clustered_rows(count or cls.count, cls.size, seed=seed)
        if not cls.sketch_size:
            return y
        return torch.cat(
            [
                y,
                clustered_rows(len(y), EncoderSettings(sketch_size=cls.sketch_size).structure_columns, seed=seed + 1)
                * 0.3,
            ],
            dim=1,
        )

    @classmethod
    def graph(cls, **options: Any) -> Graph:
        pairs = np.random.default_rng(5).integers(0, cls.count, (2000, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        return Graph.from_arrays(pairs, ids=[f"n{row}" for row in range(cls.count)], **options)

    @classmethod
    def build(cls, *, graph: Graph | None = None, directed: bool = False, **options: Any) -> Index:
        budget = Budget(**{"recall": 0.9, "k": cls.k, **options})
        graph = graph or cls.graph()
        return build_index(graph, cls.decoder(directed=directed), cls.rows(), kind=cls.kind, budget=budget, sample=16)

    @pytest.fixture(scope="class")
    @classmethod
    def index(cls) -> Index:
        return cls.build()

    @staticmethod
    def truth(decoder: Decoder, y: Tensor, source: int, allowed: set[int], k: int) -> list[int]:
        rows = sorted(allowed - {source})
        scores = decoder.double()(y[source].double(), y[rows].double()).float().tolist()
        decoder.float()
        return [row for _, row in sorted(zip(scores, rows, strict=True), key=lambda pair: (-pair[0], pair[1]))[:k]]

    def recall(self, index: Index, y: Tensor, sources: list[int], allowed: set[int]) -> float:
        found = index.top_k(np.array(sources), self.k, pool=np.array(sorted(allowed)))
        exact = [self.truth(self.decoder(), y, source, allowed, self.k) for source in sources]
        shares = [len(set(top.rows.tolist()) & set(best)) / len(best) for top, best in zip(found, exact, strict=True)]
        return float(np.mean(shares))

    def test_recall_is_what_it_says(self, index: Index) -> None:
        sources = np.arange(7, self.count, 60)
        found = index.top_k(sources, self.k)
        exact = [self.truth(self.decoder(), self.rows(), int(s), set(range(self.count)), self.k) for s in sources]
        shares = [len(set(top.rows.tolist()) & set(best)) / self.k for top, best in zip(found, exact, strict=True)]
        assert np.mean(shares) >= 0.9 - 0.05
        assert index.metadata.recall >= 0.9 - 0.05
        assert self.kind == index.metadata.kind

    def test_scores_are_the_decoders(self, index: Index) -> None:
        y, decoder = self.rows(), self.decoder()
        for source, top in zip((3, 900), index.top_k([3, 900], self.k), strict=True):
            np.testing.assert_allclose(top.scores, decoder(y[source], y[top.rows]).numpy(), atol=1e-4)
            assert (np.diff(top.scores) <= 0).all()
            assert source not in top.rows

    def test_together_or_one_by_one(self, index: Index) -> None:
        sources = np.arange(0, 300, 7)
        for source, top in zip(sources, index.top_k(sources, self.k), strict=True):
            alone = index.top_k(np.array([source]), self.k)[0]
            assert np.array_equal(top.rows, alone.rows)
            assert np.array_equal(top.scores, alone.scores)

    def test_recommends_in_the_callers_ids_and_nothing_known(self, index: Index) -> None:
        graph = self.graph()
        hub = int(np.bincount(graph.edges.ravel()).argmax())
        found = index.recommend([f"n{hub}", "n5"], k=self.k)
        assert len(found) == 2 * self.k and found.ranks.tolist() == [*range(1, self.k + 1)] * 2
        rows = {int(target[1:]) for source, target, _, _ in found if source == f"n{hub}"}
        assert rows.isdisjoint({hub, *graph.neighbours(hub).tolist()})
        best = index.top_k([hub], 3)[0].rows
        some = Graph.from_arrays(np.stack([np.full(3, hub), best], axis=1), ids=graph.ids)
        fresh = Index(some, self.decoder(), Snapshot.of(self.rows()), index.search, index.metadata)
        assert {f"n{row}" for row in best}.isdisjoint(fresh.recommend(f"n{hub}", 5).targets)
        assert f"n{best[0]}" == fresh.recommend(f"n{hub}", 1, exclude_known=False).targets[0]

    def test_candidates_can_be_restricted(self, index: Index) -> None:
        few = [f"n{row}" for row in range(40, 60)]
        assert set(index.recommend("n2", 50, among=few, exclude_known=False).targets) == set(few)
        for where in (lambda node: int(node[1:]) % 3 == 0, np.arange(self.count) % 3 == 0):
            found = index.recommend(["n2", "n8"], 7, where=where)
            assert len(found) == 14 and all(int(target[1:]) % 3 == 0 for target in found.targets)
        both = index.recommend("n2", 30, among=few, where=lambda node: node < "n45", exclude_known=False)
        assert set(both.targets) == {"n40", "n41", "n42", "n43", "n44"}
        assert len(index.recommend("n2", 5, among=[])) == len(index.recommend([], 5)) == 0
        with pytest.raises(InputError, match="3,000 booleans"):
            index.recommend("n2", where=np.ones(5, dtype=bool))

    def test_never_short(self, index: Index) -> None:
        """A question that the cells do not answer is answered by looking at all."""
        everyone = index.top_k([4], self.count)[0].rows
        assert set(everyone.tolist()) == set(range(self.count)) - {4}
        near = index.top_k([4], 200)[0].rows
        left = index.top_k([4], 9, lambda source: np.setdiff1d(np.arange(self.count), [11, 22, 33]))[0]
        assert set(left.rows.tolist()) == {11, 22, 33}
        assert near.size == 200
        nobody = index.top_k([4], 3, lambda source: np.arange(self.count))[0]
        assert nobody.rows.size == nobody.scores.size == 0

    def test_bad_questions(self, index: Index) -> None:
        for k in (0, -1, 2.5, True):
            with pytest.raises(InputError, match="'k' needs to be a positive integer"):
                index.recommend("n1", k)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"row 3,000 is not among the 3,000 rows"):
            index.top_k([3000], 2)
        with pytest.raises(UnknownNodeError, match="node 'nobody'"):
            index.recommend("nobody")

    def test_numbers_that_are_none_are_refused(self, index: Index) -> None:
        y = self.rows()
        y[17, 2] = torch.nan
        with pytest.raises(InputError, match="1 rows hold NaN or infinity, the first is row 17"):
            build_index(self.graph(), self.decoder(), y, kind=self.kind)
        with pytest.raises(InputError, match="the first is row 17"):
            index.update([17], y[17:18])

    def test_other_sides_of_a_bipartite_graph(self) -> None:
        pairs = np.random.default_rng(1).integers(0, 1400, (900, 2))
        graph = Graph.from_table({"a": pairs[:, 0], "b": pairs[:, 1] + 1400}, bipartite=True)
        y = self.rows(graph.num_nodes)
        budget = Budget(recall=0.8, k=self.k)
        index = build_index(graph, self.decoder(), y, kind=self.kind, budget=budget, sample=8)
        sides = dict(zip(graph.ids.take(range(graph.num_nodes)), graph.sides.tolist(), strict=True))
        found = index.recommend(graph.ids.take([0, graph.num_nodes - 1, 1]), 5)
        assert len(found) == 15
        assert all(sides[r.source] != sides[r.target] for r in found)

    def test_direction(self) -> None:
        graph = self.graph(directed=True)
        index = self.build(graph=graph, directed=True)
        y, decoder = self.rows(), self.decoder(directed=True)
        found = [index.top_k([s], self.k)[0].rows.tolist() for s in (1, 50, 700)]
        exact = [self.truth(decoder, y, s, set(range(self.count)), self.k) for s in (1, 50, 700)]
        assert np.mean([len(set(f) & set(e)) / self.k for f, e in zip(found, exact, strict=True)]) >= 0.7
        source, target = graph.edges[0]
        assert graph.ids[target] not in index.recommend(graph.ids[source], 100).targets

    def test_changes_count_at_once(self) -> None:
        index, y = self.build(), self.rows()
        before = index.top_k([5], 4)[0].rows.tolist()
        index.remove(before[:1])
        assert index.top_k([5], 3)[0].rows.tolist() == before[1:]
        with pytest.raises(InputError, match="was removed"):
            index.top_k(before[:1], 3)
        index.update(before[:1], y[before[:1]])
        assert index.top_k([5], 4)[0].rows.tolist() == before
        index.update([self.count, 77], torch.stack([y[before[0]], y[before[0]]]))
        found = index.top_k([5], 6)[0]
        assert {before[0], 77, self.count} <= set(found.rows.tolist())
        tied = found.rows[np.isin(found.rows, [before[0], 77, self.count])]
        assert tied.tolist() == sorted(tied.tolist()), "equal scores in the order of rows"
        assert index.recommend("n5", 3).targets, "a row without an id is nobody's recommendation"
        assert len(index.recommend("n5", self.count, exclude_known=False)) == self.count - 1
        with pytest.raises(InputError, match="row 3,001 is missing"):
            index.update([self.count + 2], y[:1])
        with pytest.raises(InputError, match="needs the shape"):
            index.update([1, 2], y[:1])
        with pytest.raises(InputError, match="names a row twice"):
            index.update([1, 1], y[:2])

    def test_a_tenth_of_churn(self) -> None:
        index, y = self.build(), self.rows()
        assert index.advice is None
        rng = np.random.default_rng(2)
        moved = rng.choice(self.count, 200, replace=False)
        y[moved] = self.rows(200, seed=9)
        gone = np.setdiff1d(rng.choice(self.count, 140, replace=False), moved)
        index.update(moved, y[moved])
        index.remove(gone)
        assert index.churn == pytest.approx((200 + gone.size) / self.count)
        allowed = set(range(self.count)) - set(gone.tolist())
        sources = sorted(allowed)[::97]
        assert self.recall(index, y, sources, allowed) >= 0.85
        if self.kind == "exact":
            assert index.advice is None and index.measure() == 1.0
            return
        assert "of the rows have changed since the build" in str(index.advice)
        assert index.measure(sample=16) == index.metadata.recall >= 0.85
        assert index.advice is None
        with pytest.raises(SettingsError, match="call rebuild"):
            index.save("anywhere")
        index.rebuild()
        assert self.recall(index, y, sources, allowed) >= 0.85
        assert set(gone.tolist()).isdisjoint(index.top_k([sources[0]], 500)[0].rows.tolist())

    def test_whoever_reads_sees_one_state(self) -> None:
        """A change in the midst of a question, here by the question's own callback, has no part in the answer."""
        index = self.build()
        before = index.top_k([5], 4)[0]

        def excluded(source: int) -> NDArray[np.int64]:
            index.remove(before.rows[:1]) if not index.churn else None
            return np.empty(0, np.int64)

        assert np.array_equal(index.top_k([5], 4, excluded)[0].rows, before.rows)
        assert before.rows[0] not in index.top_k([5], 4)[0].rows

    def test_a_reload_changes_nothing(self, index: Index, tmp_path: Path) -> None:
        y, graph, decoder = self.rows(), self.graph(), self.decoder()
        index.save(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["index.safetensors"]
        back = load_index(tmp_path, graph, decoder, y)
        assert back.metadata == index.metadata
        assert list(back.recommend(["n1", "n9"], 8)) == list(index.recommend(["n1", "n9"], 8))
        changed = y.clone()
        changed[0, 0] += 1
        with pytest.raises(StoreError, match="another model: this one has changed"):
            load_index(tmp_path, graph, decoder, changed)
        next(decoder.parameters()).add_(1)
        with pytest.raises(StoreError, match="another model: this one has changed"):
            load_index(tmp_path, graph, decoder, y)
        whole = (tmp_path / "index.safetensors").read_bytes()
        for broken in (whole[:-1], whole[:40], b"", b"\xff" * 64):
            (tmp_path / "index.safetensors").write_bytes(broken)
            with pytest.raises(StoreError, match="is damaged"):
                load_index(tmp_path, graph, self.decoder(), y)
        with pytest.raises(StoreError, match="has no index"):
            load_index(tmp_path / "absent", graph, decoder, y)
