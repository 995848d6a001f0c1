"""Changes computed locally equal the layers run again over the changed graph, with the frozen negative part.

Of expected negatives, what a row meets is frozen; what it is, its rate and degree, is that of now."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from yinyan.errors import InputError, SettingsError
from yinyan.live import embeddings
from yinyan.live.embeddings import LiveEmbeddings
from yinyan.model.encoder import Encoder
from yinyan.model.energy import EnergyTerms
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import LowRankOperator, SparseMatrix, SymmetricOperator
from yinyan.model.sketches import Sketches
from yinyan.randomness import Streams
from yinyan.settings import EncoderSettings

NODES, LEFT, FEATURES = 70, 30, 6  # node 0 is a hub, the last five have no link
SETTINGS: dict[str, Any] = {
    "inputs": "both", "hidden_size": 18, "embedding_size": 5, "num_layers": 1, "base_norm": False, "sign_hops": 0,
    "num_steps": 3, "step_size": 0.4, "anchoring": 0.5, "attraction": 1.0, "repulsion": 0.3,
    "learn_repulsion": "softplus", "num_negatives": 2, "sampler": "global", "expected_negatives": False,
    "margin": None, "self_loops": False, "feature_dropout": 0.5, "dropout": 0.5, "output_norm": True,
    "sketch_size": 0, "storage": "float32", "recompute": False,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "sampled": {},
    "one λ": {"learn_repulsion": "no"},
    "source": {"sampler": "source", "num_negatives": 1},
    "expected": {"expected_negatives": True},
    "expected source": {"expected_negatives": True, "sampler": "source"},
    "none": {"num_negatives": 0},
    "safe": {"step_size": "safe", "learn_repulsion": "sigmoid", "num_negatives": 1},
    "self loops": {"self_loops": True, "expected_negatives": True},
    "not normed": {"output_norm": False, "num_layers": 2},
    "features": {"inputs": "features", "num_negatives": 1},
    "no step": {"num_steps": 0},
    "one step": {"num_steps": 1, "expected_negatives": True},
    "two steps": {"num_steps": 2},
}


class World:
    """A live object, and the dense matrices of the same graph, changed beside it."""

    def __init__(
        self, *, seed: int = 0, bipartite: bool = False, weighted: bool = False, dtype: str = "float32", **options: Any
    ) -> None:
        self.rng, self.kind = np.random.default_rng(seed), getattr(torch, dtype)
        torch.manual_seed(seed)
        self.settings = EncoderSettings(**{**SETTINGS, **options})
        self.encoder = Encoder(self.settings, NODES, FEATURES).to(self.kind)
        self.encoder.base.bias.data.normal_()
        self.left = LEFT if bipartite else None
        self.features = torch.randn(NODES, FEATURES, dtype=self.kind)
        self.table = None if self.encoder.base.table is None else self.encoder.base.table.detach().clone()
        pairs = torch.cat([torch.tensor([[0, j] for j in range(LEFT, NODES - 8)]), torch.tensor([[1, LEFT], [3, 60]])])
        more = torch.from_numpy(np.stack([self.rng.integers(0, 25, 90), self.rng.integers(LEFT, 60, 90)], axis=1))
        pairs = torch.unique(torch.cat([pairs, more]), dim=0)
        if not bipartite:
            pairs = torch.cat([pairs, torch.tensor([[0, 1], [1, 2], [40, 41]])])
        weights = torch.rand(len(pairs), dtype=self.kind) + 0.2 if weighted else None
        self.messages = MessageGraph.from_pairs(pairs, NODES, weights=weights, num_left=self.left, dtype=self.kind)
        self.mean = 1.0 if weights is None else float(weights.mean())
        self.adjacency = torch.zeros(NODES, NODES, dtype=torch.float64)
        for (i, j), w in zip(pairs.tolist(), self.messages.weights.tolist(), strict=True):
            self.adjacency[i, j] = self.adjacency[j, i] = w
        self.adjacency_at_build = self.adjacency.clone()
        self.terms: EnergyTerms = self.messages.terms(
            self.settings, self.encoder.repulsion().detach(), Streams.fresh(0, "inference/0", torch.device("cpu"))
        )
        self.live = LiveEmbeddings(self.encoder, self.features, self.messages, mean_weight=self.mean)
        self.frozen_sums: list[Tensor] = []
        self.frozen_sums = self.full()[1]

    def full(self) -> tuple[Tensor, list[Tensor]]:
        """The embeddings by dense float64 matrices; where no sums Uᵀ Y(t) are frozen yet, they are taken."""
        n, s, sums = len(self.adjacency), self.settings, []
        terms = self.terms
        step = self.encoder.step_size(terms.anchor, terms.anchor, terms)
        plain = self.adjacency.sum(1)
        degrees = plain + s.self_loops
        inverse = torch.where(degrees > 0, 1 / degrees, 0.0)
        links = inverse.sqrt()[:, None] * self.adjacency * inverse.sqrt()
        at_build = 1 / terms.anchor[:, 0].double() - (self.build_degrees() + s.self_loops)
        repelled = torch.zeros(n, dtype=torch.float64)
        if terms.negatives:
            repelled[:NODES] = at_build.clamp(min=0).nan_to_num(posinf=0)
        expected = bool(terms.negatives) and s.expected_negatives
        if expected:
            u, core, spread, repelled = self.mean_negatives()
        anchor = torch.where(degrees + repelled > 0.1, 1 / (degrees + repelled), 0.0)[:, None]
        pushes = [float(r) / len(terms.negatives) for r in terms.repulsion]
        f = self.encoder.base.of_rows(self.features, self.table).double()
        y = f
        for t in range(s.num_steps):
            half = s.anchoring * anchor * (y - f) + s.attraction * ((plain * inverse)[:, None] * y - links @ y)
            for push, graph in zip(pushes, terms.negatives, strict=True):
                if isinstance(graph.adjacency, SymmetricOperator):
                    apart = graph.diagonal.double() * y[:NODES]
                    apart = apart - graph.adjacency.product(torch.eye(NODES, dtype=self.kind)).double() @ y[:NODES]
                    half[:NODES] -= push * apart
                else:
                    sums.append(self.frozen_sums[t] if self.frozen_sums else u.T @ y)
                    half -= push * (spread[:, None] * y - u @ (core @ sums[t]))
            y = y - step * half
        with torch.no_grad():
            return self.encoder.finish(y.to(self.kind)), sums

    def mean_negatives(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """U, C, the diagonal of L̃⁻ and D⁻ of expected negatives: each row meets the graph as it was built."""
        n, s, left = len(self.adjacency), self.settings, self.left
        graph = self.terms.negatives[0].adjacency
        assert isinstance(graph, LowRankOperator)
        at_build, now = ((a > 0).sum(1).double() for a in (self.adjacency_at_build, self.adjacency))
        side = torch.zeros(n, dtype=torch.long) if left is None else (torch.arange(n) >= left).long()
        partners = torch.tensor([NODES - 1.0] if left is None else [NODES - left, float(left)], dtype=torch.float64)[
            side
        ]
        groups = [slice(0, NODES)] if left is None else [slice(0, left), slice(left, NODES)]
        means = torch.stack([at_build[group].mean() for group in groups])
        rate = (now if s.sampler == "source" else means[side]) / 2 / partners
        old = (at_build if s.sampler == "source" else means[side[:NODES]]) / 2 / partners[:NODES]
        totals = torch.stack([old[group].sum() for group in groups])
        degrees = (NODES - 2) * rate + totals[0] if left is None else partners * rate + totals[1 - side]
        scale = (1 / (s.num_negatives * degrees)).sqrt()
        columns = [scale, rate * scale]
        if left is not None:
            columns = [c * (side == place) for place in (0, 1) for c in columns]
        spread = 1 / s.num_negatives + (2 * rate * scale.square() if left is None else 0 * rate)
        return torch.stack(columns, dim=1), graph.core.double(), spread, degrees * s.num_negatives

    def build_degrees(self) -> Tensor:
        return self.messages.structure.degrees(self.messages.weights).double()

    def check(self, atol: float = 1e-5) -> None:
        torch.testing.assert_close(self.live.embeddings, self.full()[0], rtol=1e-5, atol=atol)

    def link(self, i: int, j: int, weight: float | None = None) -> np.ndarray:
        self.adjacency[i, j] = self.adjacency[j, i] = 1.0 if weight is None else weight / self.mean
        return self.live.add_links([[i, j]], weights=None if weight is None else [weight])

    def cut(self, i: int, j: int) -> np.ndarray:
        self.adjacency[i, j] = self.adjacency[j, i] = 0
        return self.live.remove_links([[j, i]])

    def draw(self, *, linked: bool) -> tuple[int, int]:
        n = len(self.adjacency)
        while True:
            i, j = (int(x) for x in self.rng.integers(0, n, 2))
            apart = i != j if self.left is None else (i < self.left) != (j < self.left)
            if apart and bool(self.adjacency[i, j] > 0) == linked:
                return i, j

    def wander(self, count: int, *, weighted: bool = False) -> None:
        """So many random changes."""
        for _ in range(count):
            if self.rng.random() < 0.5:
                self.link(*self.draw(linked=False), weight=float(self.rng.random()) + 0.1 if weighted else None)
            else:
                self.cut(*self.draw(linked=True))


@pytest.mark.parametrize("name", KINDS)
def test_starts_as_the_encoder_embeds(kernels: str, name: str) -> None:
    world = World(**KINDS[name])
    with torch.no_grad():
        whole = world.encoder(
            world.features, world.messages, negatives=Streams.fresh(0, "inference/0", torch.device("cpu"))
        )
    torch.testing.assert_close(world.live.embeddings, whole, rtol=1e-5, atol=1e-5)
    world.check()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_random_changes_equal_a_full_computation(kernels: str, name: str, seed: int) -> None:
    world = World(seed=seed, **KINDS[name])
    for _ in range(6):
        world.wander(8)
        world.check()


@pytest.mark.parametrize("expected", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_bipartite_and_weighted_graphs(kernels: str, expected: bool, weighted: bool) -> None:
    world = World(bipartite=True, weighted=weighted, expected_negatives=expected, self_loops=weighted)
    for _ in range(6):
        world.wander(8, weighted=weighted)
        world.check()


@pytest.mark.parametrize("name", ["sampled", "expected", "none"])
class TestPlaces:
    def test_a_hub(self, name: str) -> None:
        world = World(**KINDS[name])
        assert world.link(0, 66).size > 30
        world.check()
        for j in range(LEFT, 50):
            world.cut(0, j)
        world.check()

    def test_a_first_link_and_a_last_one_lost(self, name: str) -> None:
        world = World(**KINDS[name])
        before = world.live.embeddings.clone()
        assert world.adjacency[68].sum() == 0
        world.link(68, 69)
        world.check()
        world.link(68, 5)
        world.cut(68, 69)
        world.cut(68, 5)
        world.check()
        torch.testing.assert_close(world.live.embeddings, before, rtol=0, atol=1e-6)

    def test_the_order_does_not_matter_and_what_is_undone_is_gone(self, name: str) -> None:
        ways = [World(**KINDS[name]) for _ in range(3)]
        before = ways[0].live.embeddings.clone()
        links = [ways[0].draw(linked=False) for _ in range(6)]
        links = list(dict.fromkeys(tuple(sorted(link)) for link in links))
        for link in links:
            ways[0].link(*link)
        for link in reversed(links):
            ways[1].link(*link)
        ways[2].live.add_links(links)
        for way in ways[1:]:
            torch.testing.assert_close(way.live.embeddings, ways[0].live.embeddings, rtol=0, atol=1e-6)
        assert ways[0].live.drift() == pytest.approx(len(links) / len(ways[0].messages.pairs))
        ways[2].live.remove_links(links)
        torch.testing.assert_close(ways[2].live.embeddings, before, rtol=0, atol=1e-6)
        assert ways[2].live.drift() == 0

    def test_all_rows_that_changed_are_named_and_no_others(self, name: str) -> None:
        world = World(**KINDS[name] | {"num_steps": 1})
        before = world.live.embeddings.clone()
        i, j = 3, 44
        assert not world.adjacency[i, j]
        rows = world.link(i, j)
        near = (world.adjacency[i] > 0) | (world.adjacency[j] > 0)
        near[[i, j]] = True
        assert rows.tolist() == near.nonzero()[:, 0].tolist()
        moved = (world.live.embeddings != before).any(1)
        assert set(moved.nonzero()[:, 0].tolist()) <= set(rows.tolist())
        assert moved[i] and moved[j]


class TestFeatures:
    @pytest.mark.parametrize("name", ["sampled", "expected", "features", "no step", "not normed"])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_other_features(self, kernels: str, name: str, sparse: bool) -> None:
        world = World(**KINDS[name])
        rows, values = [7, 0, 69], torch.randn(3, FEATURES)
        world.features[rows] = values
        indptr = torch.arange(4) * FEATURES
        matrix = SparseMatrix.from_csr(indptr, torch.arange(FEATURES).repeat(3), values.flatten(), FEATURES)
        changed = world.live.set_features(rows, matrix if sparse else values)
        world.check()
        assert set(rows) <= set(changed.tolist())
        assert name != "no step" or changed.tolist() == [0, 7, 69]

    def test_the_caller_s_tensors_are_left_alone(self) -> None:
        world = World()
        before, table = world.features.clone(), world.encoder.base.table.detach().clone()  # type: ignore[union-attr]
        world.live.set_features([3], torch.ones(1, FEATURES))
        world.live.add_nodes(torch.ones(1, FEATURES), neighbours=[[3]])
        assert torch.equal(world.features, before)
        assert torch.equal(world.encoder.base.table, table)  # type: ignore[arg-type]


def grown(world: World, count: int, near: list[list[int]]) -> np.ndarray:
    n = len(world.adjacency)
    more = torch.randn(count, FEATURES, dtype=world.kind)
    bigger = torch.zeros(n + count, n + count, dtype=torch.float64)
    bigger[:n, :n] = world.adjacency
    for place, rows in enumerate(near):
        bigger[n + place, rows] = bigger[rows, n + place] = 1
    world.adjacency = bigger
    world.features = torch.cat([world.features, more])
    if world.table is not None:
        means = [world.table[r].mean(0) if (r := [x for x in rows if x < n]) else 0 * world.table[0] for rows in near]
        world.table = torch.cat([world.table, torch.stack(means)])
    return world.live.add_nodes(more, neighbours=near)


class TestNewNodes:
    @pytest.mark.parametrize("name", ["sampled", "expected", "none", "self loops", "features", "no step"])
    def test_equal_a_full_computation(self, kernels: str, name: str) -> None:
        world = World(**KINDS[name])
        rows = grown(world, 3, [[0, 5], [], [70, 68]])
        assert {70, 71, 72} <= set(rows.tolist())
        assert world.live.embeddings.shape[0] == world.live.num_nodes == 73
        world.check()
        for _ in range(20):  # beyond any room that was left
            grown(world, 1, [[len(world.adjacency) - 1, 3]])
        world.wander(15)
        world.check()

    def test_without_links(self) -> None:
        world = World()
        world.features = torch.cat([world.features, torch.ones(1, FEATURES)])
        world.table = torch.cat([world.table, torch.zeros(1, 5)])  # type: ignore[list-item]
        world.adjacency = torch.nn.functional.pad(world.adjacency, (0, 1, 0, 1))
        assert world.live.add_nodes(torch.ones(1, FEATURES)).tolist() == [70]
        world.check()

    def test_by_neighbours_alone(self) -> None:
        for inputs in ("embeddings", "random"):
            world = World(inputs=inputs)
            assert {70, 71, 5} <= set(world.live.add_nodes(None, neighbours=[[5], []]).tolist())
            assert world.live.embeddings[70:].any(1).all()

    def test_are_of_the_second_side(self) -> None:
        world = World(bipartite=True)
        grown(world, 1, [[2, 4]])
        world.check()
        with pytest.raises(InputError, match="one side of a bipartite graph"):
            world.live.add_links([[70, 69]])


class TestPrecision:
    def test_double(self) -> None:
        world = World(dtype="float64")
        world.wander(30)
        world.check(1e-7)

    @pytest.mark.parametrize("by_setting", [False, True])
    def test_half(self, kernels: str, by_setting: bool) -> None:
        world = World(storage="bfloat16" if by_setting else "float32")
        world.live = LiveEmbeddings(world.encoder, world.features, world.messages, storage="bfloat16")
        world.wander(20)
        world.check(0.1)
        assert world.live.embeddings.dtype == torch.float32
        assert (world.live.embeddings - world.full()[0]).abs().mean() < 0.01


class TestTolerance:
    @pytest.mark.parametrize("tolerance", [1e-3, 1e-1])
    def test_changes_are_followed_as_far_as_they_matter(self, kernels: str, tolerance: float) -> None:
        options: dict[str, Any] = {"num_negatives": 0, "num_steps": 4, "output_norm": False}
        world, careful = World(**options), World(**options)
        world.live = LiveEmbeddings(world.encoder, world.features, world.messages, tolerance=tolerance)
        told, reached = 0, 0
        for _ in range(6):
            i, j = careful.draw(linked=False)
            told += world.link(i, j).size
            reached += careful.link(i, j).size
        whole = world.full()[0]
        apart = (world.live.embeddings - whole).norm(dim=1) / whole.norm(dim=1)
        assert float(apart.max()) < 6 * tolerance
        assert told < reached

    def test_new_nodes_are_told_in_any_case(self) -> None:
        world = World()
        world.live = LiveEmbeddings(world.encoder, world.features, world.messages, tolerance=0.5)
        assert NODES in world.live.add_nodes(world.features[:1], neighbours=[[]])

    @pytest.mark.parametrize("wrong", [-0.1, 1.0])
    def test_a_tolerance_is_a_share(self, wrong: float) -> None:
        world = World()
        with pytest.raises(SettingsError, match="'tolerance' needs to lie between 0 and 1"):
            LiveEmbeddings(world.encoder, world.features, world.messages, tolerance=wrong)


class TestRebuilding:
    @pytest.mark.parametrize("name", ["sampled", "expected", "none"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_equals_a_new_object(self, name: str, weighted: bool) -> None:
        world = World(weighted=weighted, **KINDS[name] | {"inputs": "features"})
        world.wander(30, weighted=weighted)
        grown(world, 1, [[3, 4]])
        assert world.live.drift() > 0.05
        world.live.rebuild()
        assert world.live.drift() == 0
        pairs = torch.triu(world.adjacency).nonzero()
        weights = world.adjacency[pairs[:, 0], pairs[:, 1]].float()
        messages = MessageGraph.from_pairs(pairs, 71, weights=weights)
        fresh = LiveEmbeddings(world.encoder, world.features, messages)
        torch.testing.assert_close(world.live.embeddings, fresh.embeddings, rtol=1e-5, atol=1e-5)
        assert world.live.num_links == len(pairs)
        for live in (world.live, fresh):  # and goes on from there
            live.add_links([[68, 69]], weights=[0.7 * (world.live._mean_weight if live is world.live else 1.0)])
        torch.testing.assert_close(world.live.embeddings, fresh.embeddings, rtol=1e-5, atol=1e-5)

    def test_few_changes_are_nearly_a_rebuild(self) -> None:
        world = World(expected_negatives=True)
        world.wander(2)
        frozen = world.live.embeddings.clone()
        world.live.rebuild()
        assert (world.live.embeddings - frozen).abs().mean() < 0.02

    def test_room_is_made_as_it_is_needed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        packed: list[int] = []
        pack = embeddings.RowLists.pack
        monkeypatch.setattr(embeddings.RowLists, "pack", lambda lists, more: (packed.append(more), pack(lists, more)))
        world = World(num_negatives=0)
        for i in range(8):
            for j in range(i + 1, 69):
                if not world.adjacency[i, j]:
                    world.link(i, j)
        world.check()
        assert 1 < len(packed) < 20  # of some 400 changes, most of which fill a row


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda live: live.add_links([[3, 4], [5, 70]]), r"row 70 is not among the 70 rows \(give 0 to 69\)"),
            (lambda live: live.add_links([[3, 4], [-1, 5]]), "row -1 is not among the"),
            (lambda live: live.remove_links([[0, 30], [0, 99]]), "row 99 is not among the"),
            (lambda live: live.add_links([[66, 67], [30, 0]]), "there is already a link between rows 30 and 0"),
            (lambda live: live.remove_links([[0, 30], [66, 67]]), "there is no link between rows 66 and 67"),
            (lambda live: live.add_links([[66, 67], [5, 5]]), "row 5 cannot be linked to itself"),
            (lambda live: live.add_links([[66, 67], [67, 66]]), "names a link twice"),
            (lambda live: live.add_links([66, 67]), r"'pairs' needs to be integers of the shape \(m, 2\)"),
            (lambda live: live.add_links([[0.5, 67]]), r"'pairs' needs to be integers"),
            (lambda live: live.add_links([[66, 67]], weights=[-1.0]), "positive number for each of the 1 links"),
            (lambda live: live.add_links([[66, 67]], weights=[1.0, 2.0]), "positive number for each of the 1 links"),
            (lambda live: live.set_features([70], torch.ones(1, FEATURES)), "row 70 is not among the"),
            (lambda live: live.set_features([3], torch.ones(1, 2)), r"need the shape \(1, 6\) \(got \(1, 2\)\)"),
            (lambda live: live.set_features([3, 3], torch.ones(2, FEATURES)), "names a row twice"),
            (lambda live: live.add_nodes(torch.ones(1, 2)), r"need the shape \(1, 6\) \(got \(1, 2\)\)"),
            (lambda live: live.add_nodes(None), "need features or neighbours"),
            (lambda live: live.add_nodes(None, neighbours=[[1]]), r"need the shape \(1, 6\) \(got None\)"),
            (lambda live: live.add_nodes(torch.ones(1, FEATURES), neighbours=[[71]]), "row 71 is not among the"),
            (lambda live: live.add_nodes(torch.ones(1, FEATURES), neighbours=[[70]]), "linked to itself"),
            (
                lambda live: live.add_nodes(torch.ones(1, FEATURES), neighbours=[[0.5]]),
                "'neighbours' needs to be integers",
            ),
            (lambda live: live.add_nodes(torch.ones(1, FEATURES), neighbours=[[3, 3]]), "names a link twice"),
            (lambda live: live.add_nodes(torch.ones(2, FEATURES), neighbours=[[3]]), "a list for each new node: 2"),
        ],
    )
    def test_change_nothing(self, call: Any, message: str) -> None:
        world = World()
        before = world.live.embeddings.clone()
        with pytest.raises(InputError, match=message):
            call(world.live)
        assert torch.equal(world.live.embeddings, before)
        assert world.live.drift() == 0 and world.live.num_nodes == NODES
        world.link(66, 67)  # and all goes on
        world.check()

    def test_no_change_is_no_error(self) -> None:
        live = World().live
        assert live.add_links([]).size == live.remove_links(np.empty((0, 2), dtype=np.int64)).size == 0

    def test_two_of_one_side(self) -> None:
        with pytest.raises(InputError, match="rows 1 and 2 are on one side of a bipartite graph"):
            World(bipartite=True).live.add_links([[1, 2]])

    def test_no_features_to_change(self) -> None:
        with pytest.raises(InputError, match="reads no features"):
            World(inputs="embeddings").live.set_features([3], torch.ones(1, FEATURES))

    @pytest.mark.parametrize("options", [{"margin": 0.5}, {"sign_hops": 1}, {"num_layers": 2, "base_norm": True}])
    def test_encoders_without_a_local_form(self, options: dict[str, Any]) -> None:
        with pytest.raises(SettingsError, match="without margin, sign_hops and base_norm"):
            World(**options)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("options", [{}, {"num_steps": 0, "expected_negatives": True}])
def test_sketches_follow_every_change(options: dict[str, Any]) -> None:
    """They equal those of the changed graph, and every row that differs is said to have changed."""
    world = World(sketch_size=24, weighted=True, **options)
    live, size = world.live, world.settings.hidden_size
    changes = (
        lambda: live.add_links([[2, 3], [5, 69], [69, 68]]),
        lambda: live.remove_links([[2, 3], [0, 1]]),
        lambda: live.add_nodes(torch.randn(3, FEATURES), neighbours=[[0, 70 + 1], [], [4]]),
        lambda: live.set_features([7, 4], torch.randn(2, FEATURES)),
    )
    for change in changes:
        before = live.embeddings.clone()
        changed = set(change().tolist())
        now = live.embeddings
        pairs, _ = live._links.pairs(live.num_nodes)
        messages = MessageGraph.from_pairs(torch.from_numpy(pairs), live.num_nodes)
        expected = Sketches(24).of(messages)
        torch.testing.assert_close(now[:, size:], expected, atol=1e-5, rtol=1e-5)
        moved = (now[: len(before)] - before).abs().amax(1) > 1e-6
        assert set(moved.nonzero()[:, 0].tolist()) <= changed
        assert set(range(len(before), len(now))) <= changed
