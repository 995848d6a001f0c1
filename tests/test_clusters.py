"""Clusters: parts of even size, layers over a few of them, and training that misses nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import test_training as loop
from yinyan.batches import Clusters, WholeGraph
from yinyan.clusters import partition
from yinyan.encoder import Encoder, NodeEncoder
from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.histories import Histories
from yinyan.messages import MessageGraph
from yinyan.propagation import SparseMatrix
from yinyan.randomness import Streams
from yinyan.settings import EncoderSettings
from yinyan.splits import random_split
from yinyan.tensors import training_data
from yinyan.training import Model, TrainingData, TrainingState, train

CPU = torch.device("cpu")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rings(count: int, size: int) -> Tensor:
    """(m, 2) links of so many rings that are not linked to each other."""
    nodes = torch.arange(count * size).view(count, size)
    return torch.stack([nodes, nodes.roll(1, dims=1)], dim=-1).view(-1, 2)


class TestPartition:
    @pytest.mark.parametrize("num_parts", [1, 2, 7, 40])
    def test_every_node_has_a_part_of_even_size(self, num_parts: int) -> None:
        pairs = torch.randint(200, (600, 2), generator=seeded())
        part = partition(pairs[pairs[:, 0] != pairs[:, 1]], 200, num_parts, seeded(1))
        sizes = torch.bincount(part, minlength=num_parts)
        assert part.shape == (200,)
        assert part.min() >= 0
        assert sizes.numel() == num_parts
        assert sizes.max() <= np.ceil(1.05 * 200 / num_parts)

    def test_few_links_are_cut(self) -> None:
        """A ring of 4,000 nodes in 8 parts; random parts would keep an eighth of the links."""
        pairs = rings(1, 4_000)
        part = partition(pairs, 4_000, 8, seeded())
        assert (part[pairs[:, 0]] == part[pairs[:, 1]]).double().mean() > 0.85

    def test_communities_stay_together(self) -> None:
        group = torch.arange(400) % 4
        pairs = torch.triu_indices(400, 400, offset=1).T
        share = torch.where(group[pairs[:, 0]] == group[pairs[:, 1]], 0.2, 0.004)
        pairs = pairs[torch.rand(len(pairs), generator=seeded()) < share]
        part = partition(pairs, 400, 4, seeded(1))
        assert (part[pairs[:, 0]] == part[pairs[:, 1]]).double().mean() > 0.7

    def test_a_graph_without_links_is_shared_out(self) -> None:
        part = partition(torch.empty(0, 2, dtype=torch.long), 9, 3, seeded())
        assert torch.bincount(part).tolist() == [3, 3, 3]

    def test_more_parts_than_nodes(self) -> None:
        assert partition(rings(1, 3), 3, 8, seeded()).unique().numel() <= 3

    def test_the_generator_decides(self) -> None:
        one, again, other = (partition(rings(1, 500), 500, 5, seeded(seed)) for seed in (0, 0, 1))
        assert torch.equal(one, again)
        assert not torch.equal(one, other)


NODES, FEATURES = 60, 4
KINDS: dict[str, dict[str, Any]] = {
    "expected": {},
    "expected by source": {"sampler": "source"},
    "sampled": {"num_negatives": 2, "expected_negatives": False},
    "sampled as one": {"num_negatives": 2, "expected_negatives": False, "learn_repulsion": "no"},
    "none": {"num_negatives": 0},
    "no layers": {"num_steps": 0},
    "self loops": {"self_loops": True, "output_norm": False},
    "safe": {"step_size": "safe", "num_layers": 2},
    "features": {"inputs": "features"},
    "random": {"inputs": "random", "learn_repulsion": "sigmoid"},
}


@pytest.fixture(scope="module")
def data() -> TrainingData:
    graph = loop.planted()
    return training_data(graph, random_split(graph, seed=1, valid_negatives=300), CPU)


def encoder(**options: Any) -> Encoder:
    torch.manual_seed(3)
    calm = {"dropout": 0.0, "feature_dropout": 0.0, "num_steps": 3}
    return Encoder(EncoderSettings(**{**loop.ENCODER, **calm, **options}), NODES, FEATURES)


def gradients(made: Encoder, y: Tensor) -> dict[str, Tensor]:
    made.zero_grad()
    (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
    return {name: p.grad.clone() for name, p in made.named_parameters() if p.grad is not None}


def refreshed(made: Encoder, data: TrainingData, hidden: Tensor | None = None) -> Histories:
    histories = Histories(made, data.features, data.messages)
    histories.refresh(negatives=seeded(7), hidden=hidden)
    return histories


def sparse(features: Tensor) -> SparseMatrix:
    rows, columns = features.nonzero().T
    indptr = torch.bincount(rows, minlength=len(features)).cumsum(0)
    return SparseMatrix.from_csr(
        torch.cat([indptr.new_zeros(1), indptr]), columns, features[rows, columns], features.shape[1]
    )


@pytest.mark.parametrize("kind", KINDS)
class TestExactness:
    """What the layers over some nodes compute, against the whole graph's."""

    def test_all_nodes_are_the_whole_graph(self, data: TrainingData, kind: str) -> None:
        made = encoder(**KINDS[kind])
        hidden = torch.arange(len(data.messages.pairs)) % 4 == 0
        whole = made(data.features, data.messages, negatives=seeded(7), hidden=hidden)
        expected = gradients(made, whole)
        y = refreshed(made, data, hidden).embed(torch.arange(NODES))
        torch.testing.assert_close(y, whole, atol=1e-5, rtol=1e-5)
        found = gradients(made, y)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, atol=1e-5, rtol=1e-4, msg=name)

    def test_some_nodes_with_fresh_histories_are_exact(self, data: TrainingData, kind: str) -> None:
        made = encoder(**KINDS[kind])
        whole = made(data.features, data.messages, negatives=seeded(7))
        histories = refreshed(made, data)
        for size in (1, 13, 40):  # one after the other: what was overwritten is what stood there
            nodes = torch.randperm(NODES, generator=seeded(size))[:size].sort().values
            torch.testing.assert_close(histories.embed(nodes), whole[nodes], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(histories.final(torch.arange(NODES)), whole, atol=1e-5, rtol=1e-5)


class TestHistories:
    def test_what_was_computed_is_remembered(self, data: TrainingData) -> None:
        """After a change of weights, the neighbours hear of the computed nodes' new embeddings and of no others'."""
        made = encoder(num_steps=1, output_norm=False)
        histories = refreshed(made, data)
        before = histories.final(torch.arange(NODES))
        with torch.no_grad():
            made.base.bias += 1.0
        first, second = torch.arange(20), torch.arange(20, 40)
        unaware = refreshed_as(histories).embed(second)
        histories.embed(first)
        aware = histories.embed(second)
        assert not torch.allclose(aware, unaware)
        after = histories.final(torch.arange(NODES))
        assert not torch.equal(after[:40], before[:40])
        assert torch.equal(after[40:], before[40:])

    def test_the_sums_of_low_rank_graphs_follow(self, data: TrainingData) -> None:
        made = encoder(sampler="source")
        histories = refreshed(made, data)
        with torch.no_grad():
            made.base.bias += 1.0
        histories.embed(torch.arange(10, 35))
        for stored, sums in zip(histories._layers, histories._sums, strict=True):
            factors = histories._terms.non_links[0].adjacency.factors  # type: ignore[attr-defined]
            torch.testing.assert_close(sums[1], factors.T @ stored, atol=1e-5, rtol=1e-5)

    def test_what_the_others_told_is_a_constant(self, data: TrainingData) -> None:
        made = encoder(inputs="embeddings")
        gradients(made, refreshed(made, data).embed(torch.arange(25)))
        table = made.base.table.grad  # type: ignore[union-attr]
        assert table is not None
        assert (table[:25] != 0).any(1).all()
        assert not table[25:].any()

    def test_sparse_features(self, data: TrainingData) -> None:
        made, nodes = encoder(inputs="features"), torch.arange(5, 30)
        dense = refreshed(made, data).embed(nodes)
        assert isinstance(data.features, Tensor)
        again = refreshed(made, replace(data, features=sparse(data.features))).embed(nodes)
        torch.testing.assert_close(again, dense, atol=1e-5, rtol=1e-5)

    def test_half_the_bytes(self, data: TrainingData) -> None:
        made = encoder(storage="bfloat16")
        histories = refreshed(made, data)
        assert {stored.dtype for stored in histories._layers} == {torch.bfloat16}
        nodes = torch.arange(30)
        whole = made(data.features, data.messages, negatives=seeded(7))[nodes]
        torch.testing.assert_close(histories.embed(nodes), whole, atol=0.05, rtol=0.05)

    @pytest.mark.parametrize(
        ("name", "value"), [("margin", 0.1), ("sign_hops", 1), ("base_norm", True)], ids=lambda v: str(v)
    )
    def test_what_needs_all_nodes_is_refused(self, data: TrainingData, name: str, value: Any) -> None:
        made = encoder(**{name: value})
        with pytest.raises(SettingsError, match=rf"training\.clusters: encoder\.{name} .*or clusters = 1"):
            Histories(made, data.features, data.messages)


def refreshed_as(histories: Histories) -> Histories:
    """A copy whose memory is its own."""
    copy = Histories(histories.encoder, histories.features, histories.messages)
    copy._terms, copy._step_size = histories._terms, histories._step_size
    copy._layers = [stored.clone() for stored in histories._layers]
    copy._sums = [[None if total is None else total.clone() for total in sums] for sums in histories._sums]
    copy._final = histories._final.clone()
    return copy


CLUSTERED = {"clusters": 4, "clusters_per_step": 2}


class TestPieces:
    def pieces(self, data: TrainingData, **options: Any) -> tuple[Clusters, list[Any]]:
        made = Clusters(encoder(), data, loop.settings(**{**CLUSTERED, **options}))
        return made, list(made.pieces(torch.arange(len(data.targets)), None, Streams(5, CPU)))

    def test_every_target_is_in_one_piece(self, data: TrainingData) -> None:
        made, pieces = self.pieces(data)
        assert made.num_pieces == len(pieces) == 2
        seen = sorted(tuple(sorted(link)) for piece in pieces for link in piece.links.tolist())
        assert seen == sorted(map(tuple, data.targets.tolist()))
        assert sum(len(piece.y) for piece in pieces) == NODES

    def test_directed_targets_keep_their_direction(self) -> None:
        graph = loop.planted(directed=True)
        data = training_data(graph, random_split(graph, seed=1, valid_negatives=300), CPU)
        for sampler in ("global", "source"):
            _, pieces = self.pieces(data, loss_sampler=sampler)
            seen = sorted(tuple(link) for piece in pieces for link in piece.links.tolist())
            assert seen == sorted(map(tuple, data.targets.tolist()))
            for piece in pieces:
                rows, links, non_links = piece.pairs(piece.y, piece.links)
                assert int(non_links.max()) < len(rows) and int(links.max()) < len(rows)

    def test_rows_are_the_embeddings_of_the_ends(self, data: TrainingData) -> None:
        """Without dropout and before any update, all pieces and memories are the whole graph's embeddings."""
        made, pieces = self.pieces(data)
        whole = made.histories.encoder(data.features, data.messages, negatives=seeded(7))
        for piece in pieces:
            rows, links, non_links = piece.pairs(piece.y, piece.links)
            torch.testing.assert_close(rows[links], whole[piece.links], atol=1e-5, rtol=1e-5)
            assert non_links.shape == (len(links), 3, 2)

    @pytest.mark.parametrize("sampler", ["global", "source"])
    def test_non_links_are_none_and_have_an_end_in_the_piece(self, data: TrainingData, sampler: str) -> None:
        made, pieces = self.pieces(data, loss_sampler=sampler)
        for piece in pieces:
            nodes, generator = piece.pairs.args[1], seeded()
            drawn = made._non_links(generator, nodes, piece.links).view(-1, 2)
            assert not data.known.contains(drawn).any()
            assert torch.isin(drawn, nodes).any(1).all()

    def test_every_pair_weighs_as_much_as_in_the_whole_graph(self, data: TrainingData) -> None:
        """Without layers a gradient reaches no further than the ends, and the mean over many lots is the whole's."""
        made = encoder(num_steps=0, inputs="embeddings", num_negatives=0)
        clusters, streams = Clusters(made, data, loop.settings(**CLUSTERED)), Streams(5, CPU)
        weight = torch.randn(len(data.targets), generator=seeded())
        places = {frozenset(link): place for place, link in enumerate(data.targets.tolist())}

        def gradient(y: Tensor, pairs: Tensor, links: Tensor) -> Tensor:
            chosen = weight[[places[frozenset(link)] for link in links.tolist()]]
            ends = y[pairs]
            made.zero_grad()
            (chosen * (ends[:, 0] * ends[:, 1]).sum(1)).sum().backward()
            return made.base.table.grad.clone()  # type: ignore[union-attr]

        whole = made(data.features, data.messages)
        expected = gradient(whole, data.targets, data.targets)
        total, rounds = torch.zeros_like(expected), 200
        for _ in range(rounds):
            for piece in clusters.pieces(torch.arange(len(data.targets)), None, streams):
                rows, links, _ = piece.pairs(piece.y, piece.links)
                total += gradient(rows, links, piece.links)
        assert (total / rounds - expected).norm() < 0.1 * expected.norm()


class TestTraining:
    def test_all_clusters_at_once_are_the_whole_graph(self, data: TrainingData) -> None:
        """One piece with the whole's pairs gives the whole's loss, to rounding."""
        whole = WholeGraph(encoder(), data, loop.settings())
        batch = torch.arange(60)
        hidden = torch.zeros(len(data.messages.pairs), dtype=torch.bool)
        hidden[data.pair_of_target[batch]] = True
        (one,) = whole.pieces(batch, hidden, Streams(5, CPU))
        made = Clusters(encoder(), data, loop.settings(clusters=4, clusters_per_step=4))
        (other,) = made.pieces(batch, hidden, Streams(5, CPU))
        torch.testing.assert_close(other.y, one.y, atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize("options", [{}, {"num_negatives": 2, "expected_negatives": False}], ids=str)
    def test_learns(self, data: TrainingData, options: dict[str, Any]) -> None:
        before = loop.roc_auc(*loop.scores(loop.build(**options), data))
        model, state = loop.run(data, loop.build(**options), epochs=15, learning_rate=0.02, **CLUSTERED)
        assert loop.roc_auc(*loop.scores(model, data)) > before + 0.1
        assert state.history[-1].loss < state.history[0].loss

    def test_targets_are_hidden_from_all_that_meets_them(
        self, data: TrainingData, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        masks: list[Tensor | None] = []
        original = MessageGraph.terms

        def spy(self: MessageGraph, *args: Any, hidden: Tensor | None = None) -> Any:
            masks.append(hidden)
            return original(self, *args, hidden=hidden)

        monkeypatch.setattr(MessageGraph, "terms", spy)
        orders: list[Tensor] = []
        chosen = loop.settings(epochs=1, **CLUSTERED)
        train(loop.build(), data, chosen, Streams(5, CPU), on_step=lambda s: orders.append(s.order) is None and False)
        (mask,) = masks  # once a step: every piece works with the terms of its refreshing
        assert mask is not None
        assert set(mask.nonzero().flatten().tolist()) == set(data.pair_of_target[orders[0][:60]].tolist())

    @pytest.mark.parametrize("options", [{"updates_per_propagation": 2, "batch_size": 40}, {"averaging": 0.9}], ids=str)
    def test_stop_and_resume(self, data: TrainingData, options: dict[str, Any]) -> None:
        case = loop.TestStopAndResume()
        chosen = loop.settings(**{"epochs": 2, "batch_size": 80, "patience": 0, **CLUSTERED, **options})
        model = loop.build(**case.options)
        state = train(model, data, chosen, Streams(5, CPU))
        for stop_after in (1, 2, 3):
            other, ended, steps = case.interrupted(data, stop_after, chosen)
            assert steps == stop_after
            assert ended.history == state.history
            assert loop.same(loop.weights(model), loop.weights(other))

    def test_the_schedule_counts_every_piece(self, data: TrainingData) -> None:
        rates: list[float] = []
        model, chosen = loop.build(), loop.settings(epochs=2, schedule="linear", warmup=0.0, **CLUSTERED)
        optimizer = loop.build_optimizer(model, chosen)
        step = optimizer.step
        optimizer.step = lambda: rates.append(optimizer.param_groups[0]["lr"]) or step()  # type: ignore[method-assign, func-returns-value]
        state: TrainingState = train(model, data, chosen, Streams(5, CPU), optimizer=optimizer)
        total = 2 * 2 * -(-len(data.targets) // 60)
        assert rates == [loop.learning_rate(chosen, done, total) for done in range(total)]
        assert state.history[-1].learning_rate == rates[-1]

    @pytest.mark.parametrize(("name", "value"), [("clusters", 5), ("clusters_per_step", 1)])
    def test_each_setting_matters(self, data: TrainingData, name: str, value: int) -> None:
        one, other = (loop.run(data, epochs=1, **{**CLUSTERED, **more})[0] for more in ({}, {name: value}))
        assert not loop.same(loop.weights(one), loop.weights(other))

    def test_more_together_than_there_are_is_refused(self, data: TrainingData) -> None:
        for clusters in (1, 2):
            with pytest.raises(SettingsError, match=rf"clusters_per_step: needs to be at most .*clusters, {clusters}"):
                loop.run(data, clusters=clusters, clusters_per_step=3)

    def test_other_models_are_refused(self, data: TrainingData) -> None:
        class Other(NodeEncoder):
            pass

        class Looking(Model):
            def logits(self, *args: Any, **options: Any) -> Tensor:
                raise NotImplementedError

        with pytest.raises(SettingsError, match=r"training\.clusters: Other computes the whole graph \(use 1\)"):
            loop.run(data, Model(Other(), loop.build().decoder), **CLUSTERED)
        with pytest.raises(SettingsError, match=r"training\.clusters: Looking looks at the whole graph \(use 1\)"):
            loop.run(data, Looking(encoder(), loop.build().decoder), **CLUSTERED)

    def test_the_same_run_twice_on_two_threads_is_the_same(self, data: TrainingData) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            ends = [loop.weights(loop.run(data, loss_negatives=200, epochs=2, **CLUSTERED)[0]) for _ in range(2)]
        finally:
            torch.set_num_threads(before)
        assert loop.same(*ends)

    def test_a_bipartite_graph(self) -> None:
        rng = np.random.default_rng(0)
        pairs = np.stack([rng.integers(0, 25, 300), rng.integers(25, 60, 300)], axis=1)
        graph = Graph.from_arrays(np.unique(pairs, axis=0), num_nodes=60, sides=np.arange(60) >= 25)
        data = training_data(graph, random_split(graph, seed=1, valid_negatives=100), CPU)
        model = loop.build(inputs="embeddings")
        _, state = loop.run(data, model, epochs=2, **CLUSTERED)
        assert state.finished
