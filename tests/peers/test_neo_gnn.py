"""Neo-GNN: neighbourhoods and their overlap against dense matrices, the mixture and its three losses by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from layered_contract import HIDDEN, LINKS
from peer_contract import PeerContract, small
from peer_graphs import EVERY_PAIR, NODES, masked_graphs
from torch import Tensor

from yinyan.model.decoder import build_decoder
from yinyan.model.losses import LOSSES
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Pairs
from yinyan.peers.gnn import GCN
from yinyan.peers.neo_gnn import OverlapModel, neighbourhoods, overlaps
from yinyan.settings import Settings

pytest.importorskip("torch_geometric")


class TestNeoGNN(PeerContract):
    name = "neo-gnn"
    needs_geometric = True


def dense(links: Tensor, hidden: Tensor | None) -> Tensor:
    """A + 0.1 A²."""
    adjacency = torch.zeros(NODES, NODES)
    for a, b in (links if hidden is None else links[~hidden]).tolist():
        adjacency[a, b] = adjacency[b, a] = 1
    return adjacency + 0.1 * adjacency @ adjacency


@given(graph=masked_graphs())
def test_overlaps_equal_dense_products(graph: tuple[Tensor, Tensor | None]) -> None:
    links, hidden = graph
    expected = dense(links, hidden)
    found = neighbourhoods(MessageGraph.from_pairs(links, NODES), hidden)
    torch.testing.assert_close(
        torch.zeros(NODES * NODES).index_put((found.keys,), found.values).view(NODES, NODES), expected
    )
    assert torch.equal(found.indptr.diff(), (expected > 0).sum(1))
    each = overlaps(found, EVERY_PAIR).product(torch.eye(NODES))
    torch.testing.assert_close(each, expected[EVERY_PAIR[:, 0]] * expected[EVERY_PAIR[:, 1]])


@given(graph=masked_graphs())
def test_rows_of_some_nodes_are_those_of_all(graph: tuple[Tensor, Tensor | None]) -> None:
    links, hidden = graph
    messages, chosen = MessageGraph.from_pairs(links, NODES), torch.tensor([3, 1])
    every, some = neighbourhoods(messages, hidden), neighbourhoods(messages, hidden, chosen)
    wanted = torch.isin(every.keys // NODES, chosen)
    assert torch.equal(some.keys, every.keys[wanted])
    torch.testing.assert_close(some.values, every.values[wanted])
    assert torch.equal(some.indptr.diff()[chosen], every.indptr.diff()[chosen])


def model() -> OverlapModel:
    torch.manual_seed(0)
    settings = Settings().updated(small(encoder={"inputs": "embeddings", "num_steps": 2}))
    encoder = GCN(settings.encoder, NODES, 0)
    return OverlapModel(encoder, build_decoder(settings.decoder, settings.encoder.hidden_size, directed=False))


def structural_by_loops(chosen: OverlapModel, around: Tensor, pair: tuple[int, int]) -> Tensor:
    """g_phi(Σ_i Â_ui x_i Â_vi x_i), node by node."""
    total = torch.zeros(1)
    for node in range(NODES):
        parts = [chosen.edge(value[None]) for value in around[node] if value > 0]
        feature = chosen.node(torch.stack(parts).sum(0) if parts else torch.zeros(1))
        total = total + around[pair[0], node] * feature * around[pair[1], node] * feature
    return chosen.score(total)[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("hidden", [None, HIDDEN], ids=["open", "masked"])
def test_logits_equal_loops(hidden: Tensor | None) -> None:
    chosen, y, around = model(), torch.randn(NODES, 16), dense(LINKS, hidden)
    chosen.alpha.data = torch.tensor([0.4, -0.3])
    found = chosen.parts(y, EVERY_PAIR, MessageGraph.from_pairs(LINKS, NODES), hidden, None)
    structure = torch.stack([structural_by_loops(chosen, around, pair) for pair in EVERY_PAIR.tolist()])
    features = chosen.decoder.of_pairs(y, EVERY_PAIR)
    torch.testing.assert_close(found.structure, structure)
    torch.testing.assert_close(found.features, features)
    share = torch.sigmoid(torch.tensor(0.7))  # softmax of (.4, -.3)
    chance = share * torch.sigmoid(structure) + (1 - share) * torch.sigmoid(features)
    torch.testing.assert_close(torch.sigmoid(found.both), chance)


def test_hidden_edges_are_as_good_as_absent() -> None:
    chosen, whole = model(), MessageGraph.from_pairs(LINKS, NODES)
    y = chosen.encoder(None, whole, hidden=HIDDEN)
    masked = chosen.logits(y, EVERY_PAIR, whole, hidden=HIDDEN)
    left = MessageGraph.from_pairs(LINKS[~HIDDEN], NODES)
    torch.testing.assert_close(masked, chosen.logits(chosen.encoder(None, left), EVERY_PAIR, left))
    assert not torch.allclose(masked, chosen.logits(y, EVERY_PAIR, whole), atol=1e-4)


def test_the_loss_is_that_of_all_three_logits() -> None:
    chosen, messages, y = model(), MessageGraph.from_pairs(LINKS, NODES), torch.randn(NODES, 16)
    links, non_links = LINKS[:4], torch.tensor([[[0, 7], [1, 8]], [[2, 6], [3, 8]], [[0, 5], [1, 4]], [[2, 8], [6, 7]]])
    for kind in ("paper", "logrank"):
        loss = chosen.loss(Pairs(y, links, non_links), messages, kind, hidden=HIDDEN)
        positive, negative = (chosen.parts(y, some, messages, HIDDEN, None) for some in (links, non_links))
        expected = sum(LOSSES[kind](p, n) for p, n in zip(positive, negative, strict=True))
        torch.testing.assert_close(loss, expected)
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for part in (chosen.edge, chosen.node, chosen.score)
               for p in part.parameters())  # fmt: skip
    assert chosen.alpha.grad is not None and chosen.alpha.grad.abs().sum() > 0


def test_extreme_logits_stay_finite() -> None:
    chosen, messages = model(), MessageGraph.from_pairs(LINKS, NODES)
    chosen.score[2].weight.data.mul_(1e6)
    found = chosen.logits(torch.randn(NODES, 16), EVERY_PAIR, messages)
    assert found.isfinite().all() and F.softplus(found).isfinite().all()


def test_scores_do_not_depend_on_the_batch_or_on_the_order_of_ends() -> None:
    chosen, y, messages = model(), torch.randn(NODES, 16), MessageGraph.from_pairs(LINKS, NODES)
    together = chosen.logits(y, EVERY_PAIR.view(8, 9, 2), messages)
    alone = torch.stack([chosen.logits(y, pair, messages) for pair in EVERY_PAIR])
    torch.testing.assert_close(together.flatten(), alone)
    torch.testing.assert_close(chosen.logits(y, EVERY_PAIR.flip(1), messages), alone)
    assert chosen.logits(y, EVERY_PAIR[:0], messages).shape == (0,)
