"""Neural common neighbours: the nodes around a pair against brute force, and what they do to its score."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from layered_contract import HIDDEN, LINKS
from peer_contract import PeerContract, small
from peer_graphs import NODES, masked_graphs
from torch import Tensor, nn

from yinyan.model.encoder import Encoder
from yinyan.model.messages import MessageGraph
from yinyan.peers.ncn import NeighbourDecoder, NeighbourModel, common_neighbours, lone_neighbours
from yinyan.settings import Settings


class TestNCN(PeerContract):
    name = "ncn"


class TestNCNC(PeerContract):
    name = "ncnc"
    epochs = 10


def around(links: Tensor, hidden: Tensor | None) -> list[set[int]]:
    """Visible neighbours by definition."""
    found: list[set[int]] = [set() for _ in range(NODES)]
    for a, b in (links if hidden is None else links[~hidden]).tolist():
        found[a].add(b)
        found[b].add(a)
    return found


@given(graph=masked_graphs())
def test_nodes_around_pairs_equal_brute_force(graph: tuple[Tensor, Tensor | None]) -> None:
    links, hidden = graph
    near = around(links, hidden)
    messages = MessageGraph.from_pairs(links, NODES)
    pairs = torch.tensor([(a, b) for a in range(NODES) for b in range(NODES) if a != b])
    row, node, chance = common_neighbours(messages, pairs, hidden)
    found = sorted(zip(row.tolist(), node.tolist(), strict=True))
    assert found == sorted((i, u) for i, (a, b) in enumerate(pairs.tolist()) for u in near[a] & near[b])
    assert chance.tolist() == [1.0] * len(found)
    lone = sorted(zip(*(part.tolist() for part in lone_neighbours(messages, pairs, hidden)), strict=True))
    expected = [
        (i, u, that)
        for i, (a, b) in enumerate(pairs.tolist())
        for this, that in ((a, b), (b, a))
        for u in near[this] - near[that] - {that}
    ]
    assert lone == sorted(expected)


def test_no_pairs() -> None:
    messages, none = MessageGraph.from_pairs(LINKS, NODES), torch.empty(0, 2, dtype=torch.long)
    assert [len(part) for part in common_neighbours(messages, none, None)] == [0, 0, 0]
    assert [len(part) for part in lone_neighbours(messages, none, HIDDEN)] == [0, 0, 0]
    assert ncn().logits(torch.randn(NODES, 16), none, messages).shape == (0,)


def ncn(*, complete: bool = False, norm: bool = False) -> NeighbourModel:
    torch.manual_seed(0)
    settings = Settings().updated(small(encoder={"inputs": "embeddings"}, decoder={"norm": norm}))
    encoder = Encoder(settings.encoder, NODES, 0)
    return NeighbourModel(encoder, NeighbourDecoder(16, settings.decoder), complete=complete)


def by_hand(model: NeighbourModel, y: Tensor, pair: tuple[int, int], sums: Tensor) -> Tensor:
    """MLP(MLP(y_i ⊙ y_j) + β MLP(Σ y_u)) for one pair."""
    decoder = model.neighbour_decoder

    def mlp(layers: nn.ModuleList, x: Tensor) -> Tensor:
        for linear in layers:
            x = torch.relu(linear(x))
        return x

    mixed = mlp(decoder.product, y[pair[0]] * y[pair[1]]) + decoder.beta * mlp(decoder.around, sums)
    return decoder.output(mlp(decoder.joint, mixed))[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("hidden", [None, HIDDEN], ids=["open", "masked"])
def test_ncn_equals_its_equation(hidden: Tensor | None) -> None:
    model, y, near = ncn(), torch.randn(NODES, 16), around(LINKS, hidden)
    model.neighbour_decoder.beta.data.fill_(0.7)
    pairs = [(0, 2), (1, 3), (4, 6), (0, 8), (7, 8)]
    expected = [by_hand(model, y, (a, b), y[sorted(near[a] & near[b])].sum(0)) for a, b in pairs]
    found = model.logits(y, torch.tensor(pairs), MessageGraph.from_pairs(LINKS, NODES), hidden=hidden)
    torch.testing.assert_close(found, torch.stack(expected))


def test_common_neighbours_move_a_score_and_others_do_not() -> None:
    model, y = ncn(norm=True), torch.randn(NODES, 16)
    pair = torch.tensor([[1, 3]])  # they share 0 and 2
    messages = MessageGraph.from_pairs(LINKS, NODES)
    score = model.logits(y, pair, messages)
    for node in range(NODES):
        moved = y.clone()
        moved[node] += 1
        same = torch.equal(model.logits(moved, pair, messages), score)
        assert same == (node not in (0, 1, 2, 3)), node
    without = MessageGraph.from_pairs(LINKS[1:], NODES)  # 0 is no neighbour of 1 any more
    assert not torch.equal(model.logits(y, pair, without), score)


@pytest.mark.parametrize("complete", [False, True], ids=["plain", "completed"])
def test_symmetric_and_of_any_shape(complete: bool) -> None:
    model, y, messages = ncn(complete=complete), torch.randn(NODES, 16), MessageGraph.from_pairs(LINKS, NODES)
    pairs = torch.randint(0, NODES, (4, 5, 2), generator=torch.Generator().manual_seed(0))
    found = model.logits(y, pairs, messages)
    assert found.shape == (4, 5)
    torch.testing.assert_close(model.logits(y, pairs.flip(-1), messages), found)
    torch.testing.assert_close(model.logits(y, pairs[2, 3], messages), found[2, 3])


def test_completion_by_hand() -> None:
    """0 - 1 - 2 and 2 - 3: of the pair (0, 2) node 1 is common, and 3 counts by the chance of the link 3 - 0."""
    model, y = ncn(complete=True), torch.randn(NODES, 16)
    messages = MessageGraph.from_pairs(torch.tensor([[0, 1], [1, 2], [2, 3]]), NODES)
    chance = torch.sigmoid(by_hand(model, y, (3, 0), torch.zeros(16)))  # 3 and 0 share nobody
    expected = by_hand(model, y, (0, 2), y[1] + chance * y[3])
    torch.testing.assert_close(model.logits(y, torch.tensor([[0, 2]]), messages)[0], expected)
    # with 1 - 2 hidden nobody is common, 1 counts by the chance of 1 - 2 and 3 by that of 3 - 0
    hidden = torch.tensor([False, True, False])
    first, second = (torch.sigmoid(by_hand(model, y, pair, torch.zeros(16))) for pair in ((1, 2), (3, 0)))
    expected = by_hand(model, y, (0, 2), first * y[1] + second * y[3])
    torch.testing.assert_close(model.logits(y, torch.tensor([[0, 2]]), messages, hidden=hidden)[0], expected)


def test_with_nothing_to_complete_it_is_the_plain_one() -> None:
    """In a square 0 and 2 have the same neighbours, and so have two nodes without any."""
    messages = MessageGraph.from_pairs(torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0]]), NODES)
    y, pairs = torch.randn(NODES, 16), torch.tensor([[0, 2], [1, 3], [6, 7]])
    plain, completed = (ncn(complete=complete).logits(y, pairs, messages) for complete in (False, True))
    assert torch.equal(plain, completed)


def test_chances_are_weights_without_a_gradient() -> None:
    messages = MessageGraph.from_pairs(torch.tensor([[0, 1], [1, 2], [2, 3]]), NODES)
    y = torch.randn(NODES, 16, requires_grad=True)
    model = ncn(complete=True)
    model.logits(y, torch.tensor([[0, 2]]), messages).sum().backward()
    weight = model.neighbour_decoder.output.weight.grad
    assert weight is not None and y.grad is not None
    frozen = y.detach()
    chance = torch.sigmoid(by_hand(model, frozen, (3, 0), torch.zeros(16))).detach()
    again = frozen.clone().requires_grad_()
    by_hand(model, again, (0, 2), again[1] + chance * again[3]).backward()
    torch.testing.assert_close(y.grad, again.grad)
