"""ELPH and BUDDY: sketches against exact sets, counts against breadth-first search, and what a pair may not see."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from layered_contract import HIDDEN, LINKS
from peer_contract import PeerContract, communities, random_graph, small, split_of
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Pairs
from yinyan.peers import Task, method
from yinyan.peers.elph import Convolutions, CountDecoder, CountModel
from yinyan.peers.gae import LinearPropagation
from yinyan.peers.set_sketches import (
    PERMUTATIONS,
    REGISTERS,
    Balls,
    cardinality,
    distance_counts,
    jaccard,
    own_sketches,
)
from yinyan.settings import Settings

NODES = 9
CPU = torch.device("cpu")


class TestBUDDY(PeerContract):
    name = "buddy"


class TestELPH(PeerContract):
    name = "elph"


@pytest.mark.parametrize(("name", "steps"), [("buddy", 0), ("buddy", 3), ("elph", 0), ("elph", 4)])
def test_steps_that_cannot_be_sketched_are_refused(name: str, steps: int) -> None:
    with pytest.raises(SettingsError, match=rf"num_steps: this method sketches 1 to . steps \(got {steps}\)"):
        method(name)(Task(split_of(communities()), settings={"encoder": {"num_steps": steps}}))


# -- sketches


def distances(links: Tensor, nodes: int) -> Tensor:
    """(n, n) steps between nodes by breadth-first search, n for what cannot be reached."""
    near: list[set[int]] = [set() for _ in range(nodes)]
    for a, b in links.tolist():
        near[a].add(b)
        near[b].add(a)
    found = torch.full((nodes, nodes), nodes)
    for source in range(nodes):
        seen, front = {source}, {source}
        for step in itertools.count():
            found[source, sorted(front)] = step
            front = set().union(*(near[node] for node in front)) - seen
            seen |= front
            if not front:
                break
    return found


def counted(far: Tensor, pairs: Tensor, steps: int) -> Tensor:
    """(b, K + 1, K + 1) exact counts by definition; an end is one step away from itself."""
    counts = torch.zeros(len(pairs), steps + 1, steps + 1)
    near = far.clamp(min=1)
    near = torch.where(near <= steps, near, 0)
    for i, j in itertools.product(range(steps + 1), repeat=2):
        if i or j:
            counts[:, i, j] = ((near[pairs[:, 0]] == i) & (near[pairs[:, 1]] == j)).sum(1)
    return counts


def sets(size: int, count: int) -> Tensor:
    """(count, 384) sketches of `count` disjoint sets of this size."""
    return own_sketches(size * count, CPU).view(count, size, -1).amin(1)


@pytest.mark.parametrize(("size", "count"), [(1, 40), (5, 40), (50, 40), (200, 40), (500, 20), (1500, 8)])
def test_cardinality_is_unbiased_and_as_exact_as_256_registers_allow(size: int, count: int) -> None:
    """A standard error of 1.04/√256 = 6.5 %, and less for small sets; the mean of n sets is √n times closer."""
    found = cardinality(sets(size, count)) / size
    assert float((found - 1).square().mean().sqrt()) < 1.4 * 0.065
    assert abs(float(found.mean()) - 1) < 3 * 0.065 / count**0.5


def test_an_own_sketch_has_one_register_and_every_hash() -> None:
    rows = own_sketches(2000, CPU)
    assert rows.shape == (2000, PERMUTATIONS + REGISTERS)
    registers = rows[:, PERMUTATIONS:]
    assert bool(((registers < 1).sum(1) == 1).all())
    ranks = -registers.amin(1).log2()
    for rank, share in ((1, 0.5), (2, 0.25), (3, 0.125)):  # a rank is r once in 2^r
        assert abs(float((ranks == rank).float().mean()) - share) < 0.04
    places = registers.argmin(1)
    assert len(places.unique()) == REGISTERS
    assert torch.equal(own_sketches(10, CPU), rows[:10])
    hashes = rows[:, :PERMUTATIONS]
    assert all(len(column.unique()) > 1995 for column in hashes.T)
    assert float(torch.corrcoef(hashes.T).fill_diagonal_(0).abs().max()) < 0.12  # of 8,128 pairs of functions


@pytest.mark.parametrize(("common", "own"), [(0, 30), (10, 40), (60, 20), (50, 0)])
def test_jaccard_is_as_exact_as_128_permutations_allow(common: int, own: int) -> None:
    """√(J (1 - J) / 128) for each of 30 pairs of sets."""
    size = common + 2 * own
    rows = own_sketches(30 * size, CPU).view(30, size, -1)
    first, second = rows[:, : common + own].amin(1), rows[:, own:].amin(1)
    exact = common / size
    error = (exact * (1 - exact) / PERMUTATIONS) ** 0.5
    found = jaccard(first, second)
    assert float((found - exact).square().mean().sqrt()) <= 1.4 * error
    assert abs(float(found.mean()) - exact) <= 3.5 * error / 30**0.5


@pytest.mark.parametrize("hidden", [False, True], ids=["open", "masked"])
def test_balls_are_the_minima_over_the_nodes_within_steps(hidden: bool) -> None:
    links = random_graph(40, 60)
    mask = torch.arange(60) % 4 == 0 if hidden else None
    far = distances(links if mask is None else links[~mask], 40)
    balls = Balls.of(MessageGraph.from_pairs(links, 40), 3, mask)
    own = own_sketches(40, CPU)
    for steps, ball in enumerate(balls.within):
        expected = torch.stack([own[far[node] <= steps].amin(0) for node in range(40)])
        assert torch.equal(ball, expected)
    torch.testing.assert_close(balls.sizes, torch.stack([cardinality(ball) for ball in balls.within[1:]], dim=1))


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_counts_equal_breadth_first_search_within_the_error_of_sketches(steps: int) -> None:
    """|A ∩ B| is off by √(J (1 - J) / 128) |A ∪ B| from MinHash and by 6.5 % from HyperLogLog; counts are differences
    of up to four of them."""
    links, nodes = random_graph(120, 240), 120
    far = distances(links, nodes)
    pairs = torch.combinations(torch.arange(nodes))[::17]
    exact = counted(far, pairs, steps)
    found = distance_counts(Balls.of(MessageGraph.from_pairs(links, nodes), steps), pairs)
    assert found.shape == (len(pairs), steps + 1, steps + 1) and not found[:, 0, 0].any()
    union = torch.stack([((far[a] <= steps) | (far[b] <= steps)).sum() for a, b in pairs.tolist()])
    allowed = 2 * union * (0.25 / PERMUTATIONS + 0.065**2) ** 0.5
    errors = (found - exact).square().flatten(1).mean(1).sqrt()
    assert bool((errors <= allowed).all())
    assert float((errors / allowed).mean()) < 0.5
    assert abs(float((found - exact).sum((1, 2)).mean() / union.float().mean())) < 0.05
    # the counts follow the truth closely wherever there is something to follow
    for i, j in itertools.product(range(steps + 1), repeat=2):
        truth, guess = exact[:, i, j], found[:, i, j]
        if (i, j) != (0, 0) and float(truth.std()) > 3:
            assert float(torch.corrcoef(torch.stack([truth, guess]))[0, 1]) > 0.7, (i, j)


def test_counts_of_small_sets_are_nearly_exact() -> None:
    """A square with tails: 0 and 2 share 1 and 3."""
    links = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [0, 4], [4, 5], [2, 6]])
    pairs = torch.tensor([[0, 2], [4, 6], [1, 3], [5, 6], [7, 8]])
    found = distance_counts(Balls.of(MessageGraph.from_pairs(links, NODES), 2), pairs)
    torch.testing.assert_close(found, counted(distances(links, NODES), pairs, 2), atol=0.9, rtol=0.0)


def test_the_other_order_is_the_transpose() -> None:
    links = random_graph(60, 100)
    balls = Balls.of(MessageGraph.from_pairs(links, 60), 2)
    pairs = torch.combinations(torch.arange(60))[::7]
    assert len(distance_counts(balls, pairs[:0])) == 0
    back = distance_counts(balls, pairs.flip(1)).transpose(1, 2)
    torch.testing.assert_close(distance_counts(balls, pairs), back)


@pytest.mark.parametrize("steps", [1, 2])
def test_without_its_own_edge_a_pair_counts_as_if_the_edge_had_never_been_there(steps: int) -> None:
    """To the last bit: no estimate of a difference, but the sketches of the smaller graph."""
    links, nodes = random_graph(50, 110), 50
    messages = MessageGraph.from_pairs(links, nodes)
    balls = Balls.of(messages, steps)
    others = random_graph(50, 200)[110:]  # no edges
    mixed = torch.cat([links, others]).flip(1)
    found = distance_counts(balls, mixed, without_edges_of=messages)
    changed = 0
    for row, pair in list(enumerate(mixed))[::5]:
        same = (links == pair.sort().values).all(1)
        smaller = Balls.of(MessageGraph.from_pairs(links[~same], nodes), steps)
        assert torch.equal(found[row], distance_counts(smaller, pair[None])[0])
        changed += not torch.equal(found[row], distance_counts(balls, pair[None])[0])
    assert changed == len(links) // 5  # every edge would count itself


# -- models


def model(*, precomputed: bool, steps: int = 2, norm: bool = True, **decoder: Any) -> CountModel:
    torch.manual_seed(0)
    chosen = {"inputs": "embeddings", "num_steps": steps, "output_norm": False}
    settings = Settings().updated(small(encoder=chosen, decoder={"norm": norm, **decoder}))
    kind = LinearPropagation if precomputed else Convolutions
    encoder = kind(settings.encoder, NODES, 0)
    return CountModel(encoder, CountDecoder(16, steps, settings.decoder), steps, precomputed=precomputed)


def scored(found: CountModel, links: Tensor, pairs: Tensor, hidden: Tensor | None = None) -> Tensor:
    messages = MessageGraph.from_pairs(links, NODES)
    return found.logits(found.encoder(None, messages, hidden=hidden), pairs, messages, hidden=hidden)


def test_hidden_edges_are_as_good_as_absent_to_elph() -> None:
    found, pairs = model(precomputed=False), torch.combinations(torch.arange(NODES))
    masked, absent = scored(found, LINKS, pairs, HIDDEN), scored(found, LINKS[~HIDDEN], pairs)
    torch.testing.assert_close(masked, absent)
    assert not torch.allclose(masked, scored(found, LINKS, pairs), atol=1e-3)


def test_its_own_hidden_edge_is_as_good_as_absent_to_buddy() -> None:
    found = model(precomputed=True)
    for place, pair in enumerate(LINKS):
        hidden = torch.arange(len(LINKS)) == place
        masked = scored(found, LINKS, pair[None], hidden)
        torch.testing.assert_close(masked, scored(found, LINKS[~hidden], pair[None]))
        assert not torch.equal(masked, scored(found, LINKS, pair[None]))


@pytest.mark.parametrize("precomputed", [False, True], ids=["elph", "buddy"])
def test_a_score_does_not_depend_on_the_batch(precomputed: bool) -> None:
    found = model(precomputed=precomputed)
    messages = MessageGraph.from_pairs(LINKS, NODES)
    y = found.encoder(None, messages)
    drops = torch.Generator().manual_seed(0)
    negatives = torch.tensor([[[0, 6]], [[1, 5]], [[7, 8]]])
    for _ in range(3):  # a few steps, so that the running averages are not those at the start
        found.loss(Pairs(y, LINKS[:3], negatives), messages, "paper", drops=drops)
    pairs = torch.combinations(torch.arange(NODES))
    together = found.logits(y, pairs, messages)
    alone = torch.stack([found.logits(y, pair, messages) for pair in pairs])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(found.logits(y, pairs.flip(1), messages), together)
    assert not torch.equal(found.count_decoder.mean, torch.zeros(8))
    assert found.logits(y, pairs.view(6, 6, 2), messages).shape == (6, 6)


def test_running_averages_are_of_the_counts_of_edges_and_negatives_in_both_orders() -> None:
    found = model(precomputed=True)
    messages = MessageGraph.from_pairs(LINKS, NODES)
    negatives = torch.tensor([[[0, 6], [2, 4]], [[1, 5], [8, 0]], [[7, 8], [3, 7]]])
    found.loss(Pairs(found.encoder(None, messages), LINKS[:3], negatives), messages, "paper", drops=torch.Generator())
    both = torch.cat([LINKS[:3], negatives.view(-1, 2)])
    counts = torch.cat([found.counts(pairs, messages, None) for pairs in (both, both.flip(1))]).flatten(1)[:, 1:]
    torch.testing.assert_close(found.count_decoder.mean, 0.1 * counts.mean(0))
    torch.testing.assert_close(found.count_decoder.variance, 0.9 + 0.1 * counts.var(0))


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("norm", [False, True])
def test_the_decoder_equals_its_equation(depth: int, norm: bool) -> None:
    found = model(precomputed=True, norm=norm, depth=depth)
    decoder = found.count_decoder
    decoder.mean.fill_(0.3)
    decoder.variance.fill_(2.0)
    products, counts = torch.randn(4, 16), torch.rand(4, 3, 3)
    x = products
    for linear in decoder.product:
        x = linear(x)
        x = torch.relu(torch.nn.functional.layer_norm(x, x.shape[-1:]) if norm else x)
    orders = [c.flatten(1)[:, 1:] for c in (counts, counts.transpose(1, 2))]
    branch = sum(torch.relu(decoder.counts((order - 0.3) / (2.0 + 1e-5) ** 0.5)) for order in orders) / 2
    expected = decoder.output(torch.cat([branch, x], dim=1))[:, 0]
    torch.testing.assert_close(decoder.combined(products, counts, None), expected)
    assert len(decoder.product) == depth - 1


def test_convolutions_equal_dense_products() -> None:
    found = model(precomputed=False, steps=3)
    encoder = found.encoder
    assert isinstance(encoder, Convolutions)
    visible = LINKS[~HIDDEN]
    dense = torch.eye(NODES)
    dense[visible[:, 0], visible[:, 1]] = dense[visible[:, 1], visible[:, 0]] = 1
    scale = dense.sum(1).rsqrt()
    dense = scale[:, None] * dense * scale
    expected = dense @ encoder.base(None, None)
    for layer in encoder.layers:
        expected = dense @ layer(expected)
    torch.testing.assert_close(encoder(None, MessageGraph.from_pairs(LINKS, NODES), hidden=HIDDEN), expected)


def test_sketches_of_a_graph_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MessageGraph] = []
    of = Balls.of
    monkeypatch.setattr(Balls, "of", lambda messages, *rest: made.append(messages) or of(messages, *rest))
    found, pairs = model(precomputed=True), torch.tensor([[0, 1], [2, 5]])
    graphs = [MessageGraph.from_pairs(links, NODES) for links in (LINKS, LINKS[1:])]
    for graph in (*graphs, *graphs):
        found.counts(pairs, graph, HIDDEN[: len(graph.pairs)])
    assert len(made) == 2 and made[0] is graphs[0] and made[1] is graphs[1]
