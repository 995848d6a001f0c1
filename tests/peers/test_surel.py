"""SUREL and SUREL+: landing counts by loops, the tree of walks against torch's LSTM, joins by definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from layered_contract import HIDDEN, LINKS
from peer_contract import PeerContract, communities, every_pair, small, split_of
from test_ncn import NODES
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.model.encoder import Encoder
from yinyan.model.messages import MessageGraph
from yinyan.peers import Task
from yinyan.peers.surel import JoinedModel, JoinedReader, SetReader, WalkReader, surel, surel_plus
from yinyan.peers.walk_sets import WalkSets, WalkShape, in_ranges, walk_sets
from yinyan.peers.walks import WalkGraph, walk
from yinyan.settings import Settings

SHAPE = WalkShape(walks=20, steps=3)
ALL_PAIRS = torch.combinations(torch.arange(NODES))
MESSAGES = MessageGraph.from_pairs(LINKS, NODES)


class TestSUREL(PeerContract):
    name = "surel"
    epochs = 5


class TestSURELPlus(PeerContract):
    name = "surel+"
    epochs = 10


def walked(hidden: Tensor | None = None, seed: int = 4) -> np.ndarray:
    """(n, walks, steps + 1) the same walks, listed; nodes without edges stay."""
    graph = WalkGraph.from_links(MESSAGES.visible(hidden).numpy(), NODES)
    starts = np.repeat(np.arange(NODES), SHAPE.walks)
    nodes = np.repeat(starts[:, None], SHAPE.steps + 1, axis=1)
    moving = graph.degrees[starts] > 0
    nodes[moving] = walk(graph, starts[moving], SHAPE.steps + 1, 1, 1, np.random.default_rng(seed))
    return nodes.reshape(NODES, SHAPE.walks, -1)


def landing(nodes: np.ndarray) -> np.ndarray:
    """(root, node, step) shares of walks, one walk at a time."""
    shares = np.zeros((NODES, NODES, SHAPE.steps + 1), dtype=np.float32)
    for root, walks in enumerate(nodes):
        for one in walks:
            for step, node in enumerate(one):
                shares[root, node, step] += 1 / SHAPE.walks
    return shares


def sets_of(hidden: Tensor | None = None) -> WalkSets:
    return walk_sets(MESSAGES, torch.arange(NODES), SHAPE, 4, hidden)


@pytest.mark.parametrize("hidden", [None, HIDDEN], ids=["open", "masked"])
def test_landing_counts_by_loops(hidden: Tensor | None) -> None:
    sets, expected = sets_of(hidden), landing(walked(hidden))
    root, node = torch.meshgrid(torch.arange(NODES), torch.arange(NODES), indexing="ij")
    found = sets.landing[sets.lookup(root.reshape(-1), node.reshape(-1))].view(NODES, NODES, -1)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    owner, entry, _ = in_ranges(sets.begin, torch.tensor([3, 0]))
    met = [(owner == row).nonzero()[:, 0] for row in (0, 1)]
    for places, root_row in zip(met, (3, 0), strict=True):
        assert set((sets.keys[entry[places]] % NODES).tolist()) == set(np.unique(walked(hidden)[root_row]).tolist())


def test_the_tree_holds_every_walk_by_its_share() -> None:
    sets, nodes = sets_of(), walked()
    for root in range(NODES):
        lines: dict[tuple[int, ...], float] = {}
        level = sets.levels[-1]
        for leaf in range(int(level.begin[root]), int(level.begin[root + 1])):
            place, line = leaf, []
            for depth in range(SHAPE.steps, -1, -1):
                line.append(int(sets.levels[depth].node[place]))
                place = int(sets.levels[depth].parent[place]) if depth else place
            lines[tuple(line[::-1])] = float(sets.share[leaf])
        distinct, counts = np.unique(nodes[root], axis=0, return_counts=True)
        expected = {tuple(one): count / SHAPE.walks for one, count in zip(distinct.tolist(), counts, strict=True)}
        assert lines == pytest.approx(expected)


def test_walks_take_visible_edges_only() -> None:
    visible = {tuple(sorted(edge)) for edge in LINKS[~HIDDEN].tolist()}
    level = sets_of(HIDDEN).levels[1]
    steps = {tuple(sorted(edge)) for edge in zip(level.parent.tolist(), level.node.tolist(), strict=True)}
    assert {edge for edge in steps if edge[0] != edge[1]} <= visible
    assert (7, 7) in steps and (8, 8) in steps  # no visible edge: they stay


def settings() -> Settings:
    return Settings().updated(small(encoder={"inputs": "random", "num_steps": 0, "num_negatives": 0}))


def readers(features: int = 5) -> list[JoinedReader]:
    torch.manual_seed(0)
    decoder = settings().decoder
    return [
        *(WalkReader(6, decoder, steps=3, features=features, layers=layers) for layers in (1, 2)),
        *(SetReader(6, decoder, steps=3, features=features, pooling=how) for how in ("attention", "mean")),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("features", [0, 5])
def test_the_tree_gives_what_an_lstm_over_walks_gives(layers: int, features: int) -> None:
    torch.manual_seed(0)
    reader = WalkReader(6, settings().decoder, steps=3, features=features, layers=layers)
    y, shares, nodes = torch.randn(NODES, features), torch.from_numpy(landing(walked())), torch.from_numpy(walked())
    lstm = nn.LSTM(6 + features, 6, num_layers=layers, batch_first=True)
    extra = torch.zeros(24, 0) if reader.of_features is None else reader.of_features.weight
    state: dict[str, Tensor] = {"weight_ih_l0": torch.cat([reader.of_position.weight, extra], dim=1)}
    state |= {"bias_ih_l0": reader.of_position.bias}
    for number, part in enumerate(reader.recurrent):
        state |= {f"weight_hh_l{number}": part.weight, f"bias_hh_l{number}": part.bias}  # type: ignore[dict-item]
    for number, part in enumerate(reader.between, start=1):
        state |= {f"weight_ih_l{number}": part.weight, f"bias_ih_l{number}": part.bias}  # type: ignore[dict-item]
    lstm.load_state_dict(state)
    for i, j in [(0, 2), (3, 4), (7, 8)]:
        walks = nodes[i]
        position = reader.positions(shares[i, walks]) + reader.positions(shares[j, walks])
        expected = lstm(torch.cat([position, y[walks]], dim=-1))[0][:, -1].mean(0)
        own, other = torch.tensor([i]), torch.tensor([j])
        torch.testing.assert_close(reader.joined(y, sets_of(), own, other, own)[0], expected)


def test_sets_are_pooled_by_definition() -> None:
    attention, mean = readers()[2:]
    assert isinstance(attention, SetReader) and attention.gate is not None and attention.value is not None
    y, shares = torch.randn(NODES, 5), torch.from_numpy(landing(walked()))
    for i, j in [(0, 2), (3, 4), (7, 8)]:
        met = np.unique(walked()[i])
        for reader in (attention, mean):
            x = reader.positions(shares[i, met]) + reader.positions(shares[j, met])
            pooled = (torch.softmax(attention.gate(x), dim=0) * attention.value(x)).sum(0)
            expected = torch.cat([pooled if reader is attention else x.mean(0), y[i]])
            own, other = torch.tensor([i]), torch.tensor([j])
            torch.testing.assert_close(reader.joined(y, sets_of(), own, other, own)[0], expected)


@pytest.mark.parametrize("number", range(4))
def test_hidden_edges_are_as_good_as_absent_and_batches_do_not_matter(number: int) -> None:
    reader, y = readers()[number], torch.randn(NODES, 5)
    model = JoinedModel(Encoder(settings().encoder, NODES, 0), reader, SHAPE, 4)
    masked = model.logits(y, ALL_PAIRS, MESSAGES, hidden=HIDDEN)
    absent = MessageGraph.from_pairs(LINKS[~HIDDEN], NODES)
    torch.testing.assert_close(masked, model.logits(y, ALL_PAIRS, absent))
    together = model.logits(y, ALL_PAIRS, MESSAGES)
    assert not torch.allclose(masked, together, atol=1e-3)
    alone = torch.stack([model.logits(y, pair, MESSAGES) for pair in ALL_PAIRS])
    torch.testing.assert_close(alone, together)
    generators = (torch.Generator().manual_seed(2) for _ in range(2))  # in training walks come from it
    drawn = model.logits(y, ALL_PAIRS, MESSAGES, hidden=HIDDEN, drops=next(generators))
    torch.testing.assert_close(drawn, model.logits(y, ALL_PAIRS, absent, drops=next(generators)))


def test_more_walks_and_steps_are_another_model() -> None:
    split = split_of(communities())
    task = Task(split, settings=small(training={"epochs": 1}), device="cpu")
    runs: list[Any] = [lambda shape: surel(task, shape=shape), lambda shape: surel_plus(task, shape=shape)]
    for run in runs:
        scores = [run(shape).score(every_pair(split)) for shape in (WalkShape(5, 2), WalkShape(10, 2), WalkShape(5, 1))]
        assert not np.allclose(scores[0], scores[1]) and not np.allclose(scores[0], scores[2])
    pooled = [surel_plus(task, pooling=how).score(every_pair(split)) for how in ("attention", "mean")]  # type: ignore[arg-type]
    assert not np.allclose(*pooled)


def test_a_walk_needs_a_step() -> None:
    with pytest.raises(SettingsError, match="'steps' needs to be at least 1"):
        WalkShape(steps=0)
    with pytest.raises(SettingsError, match="'walks' needs to be at least 1"):
        WalkShape(walks=0)
