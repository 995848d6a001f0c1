"""Orthogonal common neighbours: both orders and their normalisation against dense matrices, and the batch's part."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from layered_contract import HIDDEN, LINKS
from peer_contract import PeerContract, every_pair, small
from test_ncn import NODES, masked_graphs
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.peers import Outcome
from yinyan.peers.gae import LinearPropagation
from yinyan.peers.ncn import common_neighbours
from yinyan.peers.ocn import OrderDecoder, OrderModel, batch_sums, normalisation, second_order
from yinyan.settings import Settings
from yinyan.splits import Split

ALL_PAIRS = torch.combinations(torch.arange(NODES))


class TestOCN(PeerContract):
    name = "ocn"


class TestOCNP(PeerContract):
    name = "ocnp"


class _ByBatch(PeerContract):
    """The one family whose scores are allowed to depend on the batch, because the published ones do."""

    def test_scores_are_finite_and_one_for_each_pair(self, outcome: Outcome, split: Split) -> None:
        pairs = every_pair(split)
        scores = outcome.score(pairs)
        assert scores.shape == (len(pairs),) and np.isfinite(scores).all()
        assert outcome.score(pairs[:0]).shape == (0,)
        assert not np.allclose(outcome.score(pairs[:3]), scores[:3], atol=1e-5)


class TestOCNAsPublished(_ByBatch):
    name = "ocn-as-published"


class TestOCNPAsPublished(_ByBatch):
    name = "ocnp-as-published"


def adjacency(links: Tensor, hidden: Tensor | None) -> Tensor:
    a = torch.zeros(NODES, NODES)
    for i, j in (links if hidden is None else links[~hidden]).tolist():
        a[i, j] = a[j, i] = 1
    return a


def dense(links: Tensor, hidden: Tensor | None, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """(b, n) C¹ and C² by powers of the adjacency matrix: walks that return to their start are no second step."""
    a = adjacency(links, hidden)
    two = ((a @ a) > 0).float().fill_diagonal_(0)
    i, j = pairs.T
    return a[i] * a[j], a[i] * two[j] + two[i] * a[j]


def listed(around: tuple[Tensor, Tensor, Tensor], count: int) -> Tensor:
    row, node, chance = around
    return torch.zeros(count, NODES).index_put_((row, node), chance, accumulate=True)


@given(graph=masked_graphs())
def test_both_orders_equal_powers_of_the_adjacency_matrix(graph: tuple[Tensor, Tensor | None]) -> None:
    links, hidden = graph
    messages = MessageGraph.from_pairs(links, NODES)
    pairs = torch.tensor([(i, j) for i in range(NODES) for j in range(NODES) if i != j])
    first, second = dense(links, hidden, pairs)
    assert torch.equal(listed(common_neighbours(messages, pairs, hidden), len(pairs)), first)
    assert torch.equal(listed(second_order(messages, pairs, hidden), len(pairs)), second)


@given(graph=masked_graphs())
def test_weights_are_column_sums_over_all_pairs_and_orders_are_orthogonal(graph: tuple[Tensor, Tensor | None]) -> None:
    links, hidden = graph
    first, second = dense(links, hidden, ALL_PAIRS)
    found = normalisation(MessageGraph.from_pairs(links, NODES), hidden)
    for weights, order in ((found.first, first), (found.second, second)):
        sums = order.sum(0)
        torch.testing.assert_close(weights, torch.where(sums > 0, 1 / sums, 0.0))
    plain, rest = first * found.first, second * found.second - found.overlap * first * found.first
    assert abs(float((plain * rest).sum())) < 1e-5


def model(*, orthogonal: bool = True, by_batch: bool = False) -> OrderModel:
    torch.manual_seed(0)
    settings = Settings().updated(small(encoder={"inputs": "embeddings", "num_steps": 1}))
    encoder, decoder = LinearPropagation(settings.encoder, NODES, 0), OrderDecoder(16, settings.decoder)
    return OrderModel(encoder, decoder, orthogonal=orthogonal, by_batch=by_batch)


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("hidden", [None, HIDDEN], ids=["open", "masked"])
def test_a_score_equals_its_equation(orthogonal: bool, hidden: Tensor | None) -> None:
    made, y = model(orthogonal=orthogonal), torch.randn(NODES, 16)
    found = made.logits(y, ALL_PAIRS, MessageGraph.from_pairs(LINKS, NODES), hidden=hidden)
    first, second = dense(LINKS, hidden, ALL_PAIRS)
    one, two = (order / order.sum(0).clamp(min=1) for order in (first, second))
    rest = two - (two * one).sum() / (one * one).sum() * one if orthogonal else second
    products = y[ALL_PAIRS[:, 0]] * y[ALL_PAIRS[:, 1]]
    torch.testing.assert_close(found, made.order_decoder.of_orders(products, one @ y, rest @ y, None))


@pytest.mark.parametrize("by_batch", [False, True])
def test_hidden_edges_are_as_good_as_absent(by_batch: bool) -> None:
    made, y = model(by_batch=by_batch), torch.randn(NODES, 16)
    made.inner += 0.3
    masked = made.logits(y, ALL_PAIRS, MessageGraph.from_pairs(LINKS, NODES), hidden=HIDDEN)
    torch.testing.assert_close(masked, made.logits(y, ALL_PAIRS, MessageGraph.from_pairs(LINKS[~HIDDEN], NODES)))
    assert not torch.allclose(masked, made.logits(y, ALL_PAIRS, MessageGraph.from_pairs(LINKS, NODES)), atol=1e-3)


def test_a_score_depends_on_the_batch_only_as_published() -> None:
    y, messages = torch.randn(NODES, 16), MessageGraph.from_pairs(LINKS, NODES)
    for by_batch in (False, True):
        made = model(by_batch=by_batch)
        together = made.logits(y, ALL_PAIRS, messages)
        alone = torch.cat([made.logits(y, pair[None], messages) for pair in ALL_PAIRS])
        assert torch.allclose(alone, together, atol=1e-6) != by_batch


def test_as_published_by_dense_matrices() -> None:
    """Columns of a single one get weight 0, the inner product is a running mean over the calls of training."""
    made, y = model(by_batch=True), torch.randn(NODES, 16)
    messages, inners = MessageGraph.from_pairs(LINKS, NODES), []
    drops = torch.Generator().manual_seed(0)
    for pairs in (ALL_PAIRS[:20], ALL_PAIRS[20:]):
        made.logits(y, pairs, messages, drops=drops)
        first, second = dense(LINKS, None, pairs)
        sums = first.sum(0)
        one = first * torch.where(sums > 1, 1 / sums.clamp(min=1), 0.0)
        inners.append((one * second).sum())
    torch.testing.assert_close(made.inner, torch.stack(inners).mean())
    rest = second - made.inner / one.max() * one
    columns = rest.sum(0)
    rest = rest / torch.where(columns == 0, 1.0, columns)
    products = y[pairs[:, 0]] * y[pairs[:, 1]]
    expected = made.order_decoder.of_orders(products, one @ y, rest @ y, None)
    torch.testing.assert_close(made.logits(y, pairs, messages), expected)
    assert made.calls == 2


def test_batch_sums_of_a_square() -> None:
    """0 and 2 are common neighbours of 1 and 3, and the other way round."""
    messages = MessageGraph.from_pairs(torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0]]), 4)
    pairs = torch.tensor([[0, 2], [0, 2], [1, 3]])
    assert batch_sums(common_neighbours(messages, pairs, None), 4).tolist() == [0.0, 0.5, 0.0, 0.5]
