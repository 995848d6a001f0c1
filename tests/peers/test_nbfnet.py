"""NBFNet: passes over a part of the graph against loops over all of it."""

from __future__ import annotations

import pytest
import torch
from edge_wise_contract import EdgeWiseContract
from hypothesis import given, settings
from layered_contract import HIDDEN, LINKS
from peer_graphs import EVERY_PAIR, NODES, masked_graphs
from torch import Tensor

from yinyan.model.losses import LOSSES
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Pairs
from yinyan.peers.nbfnet import BellmanFordDecoder, BellmanFordModel
from yinyan.peers.seal import FeatureMap
from yinyan.settings import Settings

SIZE = 3
NOTHING = torch.empty(NODES, 0)


class TestNBFNet(EdgeWiseContract):
    name = "nbfnet"
    epochs = 4


def model(layers: int = 3, size: int = SIZE) -> BellmanFordModel:
    torch.manual_seed(0)
    decoder = BellmanFordDecoder(size, layers)
    for layer in decoder.layers:
        torch.nn.init.normal_(layer.norm.bias)  # type: ignore[arg-type]
    return BellmanFordModel(FeatureMap(Settings(), NODES, 0), decoder)


def pass_by_loops(decoder: BellmanFordDecoder, around: list[list[int]], source: int) -> Tensor:
    """(n, d) after all layers, node by node and message by message."""
    boundary = torch.zeros(NODES, SIZE)
    boundary[source] = decoder.query
    log_degrees = torch.tensor([float(len(near) + 2) for near in around]).log()
    h = boundary
    for layer in decoder.layers:
        rows = []
        for node in range(NODES):
            sent = [layer.relation * h[other] for other in (*around[node], node)]  # type: ignore[operator]
            messages = torch.stack([*sent, boundary[node]])
            mean = messages.mean(0)
            spread = ((messages**2).mean(0) - mean**2).clamp(min=1e-6).sqrt()
            found = torch.cat([mean, messages.max(0).values, messages.min(0).values, spread])
            scale = log_degrees[node] / log_degrees.mean()
            update = layer.linear(torch.cat([h[node], found, scale * found, found / scale.clamp(min=1e-2)]))  # type: ignore[operator]
            rows.append(h[node] + torch.relu(layer.norm(update)))  # type: ignore[operator]
        h = torch.stack(rows)
    return h


def by_loops(decoder: BellmanFordDecoder, links: Tensor, hidden: Tensor | None) -> Tensor:
    """(n, n) logits."""
    around: list[list[int]] = [[] for _ in range(NODES)]
    for a, b in (links if hidden is None else links[~hidden]).tolist():
        around[a].append(b)
        around[b].append(a)
    passes = torch.stack([pass_by_loops(decoder, around, source) for source in range(NODES)])
    ends = (passes + passes.transpose(0, 1)) / 2
    x = torch.cat([ends, decoder.query.expand_as(ends)], dim=-1)
    return decoder.output(torch.relu(decoder.hidden(x)))[..., 0]  # type: ignore[no-any-return]


@settings(max_examples=10)
@given(graph=masked_graphs())
def test_logits_equal_passes_over_the_whole_graph(graph: tuple[Tensor, Tensor | None]) -> None:
    links, hidden = graph
    with torch.no_grad():
        chosen = model()
        found = chosen.logits(NOTHING, EVERY_PAIR, MessageGraph.from_pairs(links, NODES), hidden=hidden)
        expected = by_loops(chosen.path_decoder, links, hidden)
    torch.testing.assert_close(found, expected[EVERY_PAIR[:, 0], EVERY_PAIR[:, 1]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2, 6])
@pytest.mark.parametrize("hidden", [None, HIDDEN], ids=["open", "masked"])
def test_gradients_equal_those_of_loops(layers: int, hidden: Tensor | None) -> None:
    weights, grads = torch.randn(len(EVERY_PAIR), generator=torch.Generator().manual_seed(1)), []
    for loops in (False, True):
        chosen = model(layers)
        if loops:
            scores = by_loops(chosen.path_decoder, LINKS, hidden)[EVERY_PAIR[:, 0], EVERY_PAIR[:, 1]]
        else:
            scores = chosen.logits(NOTHING, EVERY_PAIR, MessageGraph.from_pairs(LINKS, NODES), hidden=hidden)
        (scores * weights).sum().backward()
        grads.append([p.grad for p in chosen.parameters()])
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-4)


def test_hidden_edges_are_as_good_as_absent() -> None:
    chosen, whole = model(), MessageGraph.from_pairs(LINKS, NODES)
    masked = chosen.logits(NOTHING, EVERY_PAIR, whole, hidden=HIDDEN)
    absent = chosen.logits(NOTHING, EVERY_PAIR, MessageGraph.from_pairs(LINKS[~HIDDEN], NODES))
    torch.testing.assert_close(masked, absent)
    assert not torch.allclose(masked, chosen.logits(NOTHING, EVERY_PAIR, whole), atol=1e-3)


def test_paths_longer_than_the_layers_do_not_matter() -> None:
    """On a ring of eight, what starts at a node arrives at the opposite one after four layers, and not after three."""
    ring = torch.tensor([[i, (i + 1) % 8] for i in range(8)])
    for layers, seen in ((3, False), (4, True)):
        chosen, messages = model(layers, 16), MessageGraph.from_pairs(ring, NODES)
        opposite, alone = chosen.logits(NOTHING, torch.tensor([[0, 4], [0, 8]]), messages)
        nowhere = chosen.path_decoder.without_source(messages, None, messages.structure.degrees())[-1][[0, 4]].mean(0)
        decoder = chosen.path_decoder
        expected = decoder.output(torch.relu(decoder.hidden(torch.cat([nowhere, decoder.query]))))[0]
        assert torch.allclose(opposite, expected, atol=1e-6) != seen
        assert not torch.allclose(alone, opposite)


def test_scores_do_not_depend_on_the_batch_or_on_the_order_of_ends() -> None:
    chosen, messages = model(), MessageGraph.from_pairs(LINKS, NODES)
    together = chosen.logits(NOTHING, EVERY_PAIR.view(8, 9, 2), messages)
    assert together.shape == (8, 9)
    alone = torch.stack([chosen.logits(NOTHING, pair, messages) for pair in EVERY_PAIR])
    torch.testing.assert_close(together.flatten(), alone)
    torch.testing.assert_close(chosen.logits(NOTHING, EVERY_PAIR.flip(1), messages), alone)
    assert chosen.logits(NOTHING, EVERY_PAIR[:0], messages).shape == (0,)


def test_the_loss_is_that_of_the_logits() -> None:
    chosen, messages = model(), MessageGraph.from_pairs(LINKS, NODES)
    links, non_links = LINKS[:2], torch.tensor([[[0, 7], [1, 8]], [[2, 6], [3, 8]]])
    loss = chosen.loss(Pairs(NOTHING, links, non_links), messages, "paper", hidden=HIDDEN)
    positive, negative = (chosen.logits(NOTHING, some, messages, hidden=HIDDEN) for some in (links, non_links))
    torch.testing.assert_close(loss, LOSSES["paper"](positive, negative))
