"""SEAL: labels by shortest paths, the read-out by loops, and an edge that its own pair never sees."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from edge_wise_contract import EdgeWiseContract
from hypothesis import given
from layered_contract import HIDDEN, LINKS
from numpy.typing import NDArray
from peer_contract import communities, small, split_of
from peer_graphs import EVERY_PAIR, NODES, masked_graphs, plain_graph, subgraph_by_hand
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.peers import seal as module
from yinyan.peers.contract import Task
from yinyan.peers.enclosing import enclosing_subgraphs
from yinyan.peers.seal import SealModel, builder, drnl_labels, hops_of, pooled_nodes, seal
from yinyan.settings import Settings
from yinyan.splits import Split

KEPT = 10


class TestSEAL(EdgeWiseContract):
    name = "seal"
    epochs = 3


def by_definition(subgraph: nx.Graph, pair: tuple[int, int]) -> dict[int, int]:
    """DRNL labels: the distance to one end, with the other end taken out, and vice versa."""
    source, target = pair
    to_source, to_target = (
        nx.single_source_shortest_path_length(subgraph.subgraph(set(subgraph) - {other}), end)
        for end, other in ((source, target), (target, source))
    )
    labels = {source: 1, target: 1}
    for node in set(subgraph) - {source, target}:
        labels[node] = 0
        if node in to_source and node in to_target:
            near, far = sorted((to_source[node], to_target[node]))
            half, odd = divmod(near + far, 2)
            labels[node] = 1 + near + half * (half + odd - 1)
    return labels


@given(graph=masked_graphs())
def test_labels_equal_their_definition(graph: tuple[Tensor, Tensor | None]) -> None:
    links, hidden = graph
    messages, plain = MessageGraph.from_pairs(links, NODES), plain_graph(links, hidden)
    found = enclosing_subgraphs(messages, EVERY_PAIR, 2, hidden=hidden, own_edge=False)
    labels = drnl_labels(found)
    for place, pair in enumerate(EVERY_PAIR.tolist()):
        rows = found.pair == place
        expected = by_definition(subgraph_by_hand(plain, pair, 2, own_edge=False), pair)
        assert dict(zip(found.node[rows].tolist(), labels[rows].tolist(), strict=True)) == expected


def test_labels_of_the_paper() -> None:
    """Distances (1, 1), (1, 2) and (2, 2) have the labels 2, 3 and 5 there."""
    links = torch.tensor([[0, 2], [2, 1], [0, 3], [3, 4], [4, 1], [3, 5], [4, 5]])
    found = enclosing_subgraphs(MessageGraph.from_pairs(links, 7), torch.tensor([[0, 1]]), 2, own_edge=False)
    assert found.node.tolist() == [0, 1, 2, 3, 4, 5]
    assert drnl_labels(found).tolist() == [1, 1, 2, 3, 3, 5]


def model(*, layers: int = 3, hops: int = 2, kept: int = KEPT, features: bool = True) -> SealModel:
    torch.manual_seed(0)
    settings = Settings().updated(small(encoder={"num_steps": layers, "hidden_size": 5}))
    found = builder(hops, kept)(settings, communities() if features else replace(communities(), features=None))
    assert isinstance(found, SealModel)
    return found


def by_loops(seal_model: SealModel, y: Tensor, graph: nx.Graph, pair: tuple[int, int]) -> Tensor:
    """The logit of one pair with dense matrices, one node after the other."""
    decoder = seal_model.subgraph_decoder
    subgraph = subgraph_by_hand(graph, pair, seal_model.hops, own_edge=False)
    labels, nodes = by_definition(subgraph, pair), sorted(subgraph)
    adjacency = torch.from_numpy(nx.to_numpy_array(subgraph, nodelist=nodes)).float() + torch.eye(len(nodes))
    scale = torch.diag(adjacency.sum(1) ** -0.5)
    propagate = scale @ adjacency @ scale
    x = torch.stack([decoder.labels.weight[labels[node]] + y[node] for node in nodes])
    every = [torch.tanh(propagate @ x + decoder.first_bias)]
    for layer in decoder.layers:
        weight, bias = layer.linear.weight, layer.linear.bias  # type: ignore[union-attr]
        every.append(torch.tanh(propagate @ every[-1] @ weight.T + bias))  # type: ignore[operator]
    rows = sorted(torch.cat(every, dim=1), key=lambda row: -row[-1].item())[: decoder.kept]
    rows += [torch.zeros_like(rows[0])] * (decoder.kept - len(rows))
    x = torch.relu(torch.stack([decoder.nodes(row) for row in rows]))
    x = torch.stack([torch.maximum(x[i], x[i + 1]) for i in range(0, len(x) - 1, 2)])
    x = torch.relu(decoder.neighbouring(x.T[None]))
    return decoder.output(torch.relu(decoder.hidden(x.flatten())))[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("hidden", [None, HIDDEN], ids=["open", "masked"])
@pytest.mark.parametrize(("layers", "hops", "kept"), [(3, 2, 10), (1, 1, 13)])
def test_logits_equal_loops(hidden: Tensor | None, layers: int, hops: int, kept: int) -> None:
    chosen, y = model(layers=layers, hops=hops, kept=kept), torch.randn(NODES, 5)
    found = chosen.logits(y, EVERY_PAIR, MessageGraph.from_pairs(LINKS, NODES), hidden=hidden)
    graph = plain_graph(LINKS, hidden)
    expected = torch.stack([by_loops(chosen, y, graph, pair) for pair in EVERY_PAIR.tolist()])
    torch.testing.assert_close(found, expected)


def test_a_large_subgraph_keeps_only_its_first_nodes() -> None:
    """A star of 30 leaves has more nodes than are kept."""
    links = torch.tensor([[0, leaf] for leaf in range(1, 31)])
    chosen, y = model(), torch.randn(31, 5)
    found = chosen.logits(y, torch.tensor([[1, 2], [0, 3]]), MessageGraph.from_pairs(links, 31))
    graph = nx.Graph(links.tolist())
    torch.testing.assert_close(found, torch.stack([by_loops(chosen, y, graph, p) for p in ((1, 2), (0, 3))]))


def test_the_own_edge_is_invisible_and_others_are_not() -> None:
    chosen, y = model(), torch.randn(NODES, 5)
    messages = MessageGraph.from_pairs(LINKS, NODES)
    for place, pair in enumerate(LINKS.tolist()):
        without = MessageGraph.from_pairs(torch.cat([LINKS[:place], LINKS[place + 1 :]]), NODES)
        scores = [chosen.logits(y, torch.tensor([pair]), some) for some in (messages, without)]
        assert torch.equal(*scores)
        hidden = torch.arange(len(LINKS)) == place
        assert torch.equal(chosen.logits(y, torch.tensor([pair]), messages, hidden=hidden), scores[0])
    pair = torch.tensor([[1, 3]])
    assert not torch.equal(chosen.logits(y, pair, messages), chosen.logits(y, pair, without))  # it lacks 7 - 1


def test_scores_do_not_depend_on_the_batch_or_on_the_order_of_ends() -> None:
    chosen, y, messages = model(), torch.randn(NODES, 5), MessageGraph.from_pairs(LINKS, NODES)
    together = chosen.logits(y, EVERY_PAIR.view(8, 9, 2), messages)
    assert together.shape == (8, 9)
    alone = torch.stack([chosen.logits(y, pair, messages) for pair in EVERY_PAIR])
    torch.testing.assert_close(together.flatten(), alone, rtol=0, atol=1e-6)
    torch.testing.assert_close(chosen.logits(y, EVERY_PAIR.flip(1), messages), together.flatten(), rtol=0, atol=1e-6)


def test_without_features_labels_are_all_it_reads() -> None:
    chosen, messages = model(features=False), MessageGraph.from_pairs(LINKS, NODES)
    y = chosen.encoder(None, messages)
    assert y.shape == (NODES, 0)
    expected = by_loops(chosen, torch.zeros(NODES, 5), plain_graph(LINKS, None), (0, 4))
    torch.testing.assert_close(chosen.logits(y, torch.tensor([[0, 4]]), messages)[0], expected)


def test_dropout_comes_from_the_generator_only() -> None:
    chosen, y, messages = model(), torch.randn(NODES, 5), MessageGraph.from_pairs(LINKS, NODES)
    first, again, other, still = (
        chosen.logits(y, EVERY_PAIR, messages, drops=None if seed is None else torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2, None)
    )
    assert torch.equal(first, again) and not torch.equal(first, other) and not torch.equal(first, still)


def test_nodes_kept_by_sort_pool() -> None:
    assert pooled_nodes(torch.arange(1, 101)) == 60
    assert pooled_nodes(torch.tensor([3, 4, 5])) == 10


def test_hops_follow_the_rule_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    split = split_of(communities())
    for better, hops in ((True, 2), (False, 1)):
        monkeypatch.setattr(module, "adamic_adar", lambda graph, pairs, better=better: ranked(split, pairs) * better)
        monkeypatch.setattr(module, "common_neighbours", lambda graph, pairs: np.zeros(len(pairs)))
        assert hops_of(split) == hops


def ranked(split: Split, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """A heuristic that is always right."""
    return np.full(len(pairs), float(np.array_equal(pairs, split.valid_targets)))


def test_large_subgraphs_and_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two hops reach too many nodes it is one; a loss over a sample of the edges, all of which pass messages."""
    split = split_of(communities())
    monkeypatch.setattr(module, "hops_of", lambda split: 2)
    wide, _ = module._sizes(split, 0)
    monkeypatch.setattr(module, "_LARGE", 3)
    assert (wide, module._sizes(split, 0)[0]) == (2, 1)
    monkeypatch.setattr(module, "_MOST_TARGETS", 50)
    sampled, other = (module._sampled(split, seed) for seed in (0, 1))
    assert len(sampled.train_targets) == len(np.unique(sampled.train_targets, axis=0)) == 50
    assert np.array_equal(sampled.train_messages, split.train_messages)
    assert not np.array_equal(sampled.train_targets, other.train_targets)
    known = {tuple(pair) for pair in split.train_targets.tolist()}
    assert all(tuple(pair) in known for pair in sampled.train_targets.tolist())
    scores = seal(Task(sampled, settings=small(training={"epochs": 1, "batch_size": 20}), device="cpu")).score(
        split.test_targets
    )
    assert np.isfinite(scores).all()
