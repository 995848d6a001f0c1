"""LPFormer: PageRanks against a dense solve, contexts against brute force, attention against its equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from layered_contract import HIDDEN, LINKS
from peer_contract import PeerContract, random_graph, small
from torch import Tensor

from yinyan.graph import Graph
from yinyan.model.messages import MessageGraph
from yinyan.peers import walk_sums
from yinyan.peers.contexts import Context, PageRanks
from yinyan.peers.lpformer import AttentionDecoder, AttentionModel, NormalisedConvolutions
from yinyan.peers.neighbours import neighbours_of
from yinyan.settings import Settings

NODES = 9


class TestLPFormer(PeerContract):
    name = "lpformer"


def adjacency(links: Tensor, nodes: int) -> Tensor:
    dense = torch.zeros(nodes, nodes, dtype=torch.float64)
    dense[links[:, 0], links[:, 1]] = dense[links[:, 1], links[:, 0]] = 1
    return dense


def pagerank(links: Tensor, nodes: int, restart: float = 0.15) -> Tensor:
    """(n, n) PageRanks from each row's node by a dense solve; a node without edges keeps its walker."""
    dense = adjacency(links, nodes)
    unit = torch.eye(nodes, dtype=torch.float64)
    walks = torch.where(dense.sum(1, keepdim=True) > 0, dense / dense.sum(1, keepdim=True).clamp(min=1), unit)
    return restart * torch.linalg.inv(unit - (1 - restart) * walks)


def expected_context(links: Tensor, nodes: int, pair: Tensor, threshold: float) -> dict[int, tuple[int, float, float]]:
    """Node: kind and PageRanks from both ends, by definition, in the graph without the pair's own edge."""
    left = links[~(links == pair.sort().values).all(1)]
    near, ranks = adjacency(left, nodes) > 0, pagerank(left, nodes)
    u, v = pair.tolist()
    found = {}
    for node in set(range(nodes)) - {u, v}:
        kind = 2 - int(near[u, node]) - int(near[v, node])
        from_u, from_v = float(ranks[u, node]), float(ranks[v, node])
        if kind == 0 or min(from_u, from_v) >= threshold:
            found[node] = (kind, from_u, from_v)
    return found


@pytest.mark.parametrize("edges", [0, 25, 60])
def test_pageranks_equal_a_dense_solve(edges: int) -> None:
    links = random_graph(40, edges)
    exact = pagerank(links, 40)
    found = PageRanks(MessageGraph.from_pairs(links, 40), 0.05)
    first, second = torch.cartesian_prod(torch.arange(40), torch.arange(40)).T
    ranks = found.of(first, second).view(40, 40).double()
    kept = (exact >= 0.0005) | (adjacency(links, 40) > 0) | torch.eye(40).bool()
    torch.testing.assert_close(ranks, torch.where(kept, exact, 0.0), atol=2e-6, rtol=0.0)


@pytest.mark.parametrize(("restart", "least"), [(0.15, 0.0), (0.4, 0.02)])
@pytest.mark.parametrize("block", [100, 10**6])  # sources two at a time, or all at once
def test_sparse_rows_of_pageranks(restart: float, least: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_sums, "_BLOCK", block)
    links = random_graph(40, 50)
    around = neighbours_of(Graph.from_arrays(links.numpy(), num_nodes=40))
    indptr, columns, values = walk_sums.large_pageranks(around, restart=restart, least=least)
    found = torch.zeros(40, 40, dtype=torch.float64)
    found[torch.from_numpy(np.repeat(np.arange(40), np.diff(indptr))), torch.from_numpy(columns)] = torch.from_numpy(
        values
    ).double()
    exact = pagerank(links, 40, restart)
    kept = (exact >= least) | (adjacency(links, 40) > 0) | torch.eye(40).bool()
    torch.testing.assert_close(found, torch.where(kept, exact, 0.0), atol=2e-6, rtol=0.0)


@pytest.mark.parametrize("threshold", [0.002, 0.03])
@pytest.mark.parametrize("edges", [30, 45, 90])  # trees and single edges among the first
def test_contexts_equal_brute_force(edges: int, threshold: float) -> None:
    links, nodes = random_graph(40, edges, seed=edges), 40
    pairs = torch.cat([links, torch.combinations(torch.arange(nodes))[::11]]).flip(1)
    found = PageRanks(MessageGraph.from_pairs(links, nodes), threshold).context(pairs)
    kinds = set()
    for row, pair in enumerate(pairs):
        expected = expected_context(links, nodes, pair, threshold)
        here = found.row == row
        nodes_here = found.node[here].tolist()
        assert sorted(nodes_here) == sorted(expected), pair
        kinds.update(found.kind[here].tolist())
        for node, kind, ranks in zip(nodes_here, found.kind[here].tolist(), found.ranks[here], strict=True):
            assert kind == expected[node][0]
            torch.testing.assert_close(ranks.double(), torch.tensor(expected[node][1:]).double(), atol=2e-4, rtol=0.0)
        left = adjacency(links[~(links == pair.sort().values).all(1)], nodes)
        assert int(found.neighbours[row]) == int((left[pair].sum(0) > 0).sum())
    assert kinds == {0, 1, 2}


def test_no_pairs_and_no_edges() -> None:
    none = torch.empty(0, 2, dtype=torch.long)
    found = PageRanks(MessageGraph.from_pairs(LINKS, NODES), 0.01).context(none)
    assert [len(part) for part in found] == [0, 0, 0, 0, 0]
    bare = PageRanks(MessageGraph.from_pairs(none, NODES), 0.01).context(torch.tensor([[0, 1]]))
    assert len(bare.row) == 0 and bare.neighbours.tolist() == [0]


def model(*, threshold: float = 0.01, steps: int = 1, **decoder: Any) -> AttentionModel:
    torch.manual_seed(0)
    chosen = {"inputs": "embeddings", "num_steps": steps}
    settings = Settings().updated(small(encoder=chosen, decoder=decoder))
    encoder = NormalisedConvolutions(settings.encoder, NODES, 0)
    return AttentionModel(encoder, AttentionDecoder(16, settings.decoder), threshold)


def scored(found: AttentionModel, links: Tensor, pairs: Tensor, hidden: Tensor | None = None) -> Tensor:
    messages = MessageGraph.from_pairs(links, NODES)
    return found.logits(found.encoder(None, messages, hidden=hidden), pairs, messages, hidden=hidden)


def test_its_own_hidden_edge_is_as_good_as_absent() -> None:
    found = model()
    for place, pair in enumerate(LINKS):
        hidden = torch.arange(len(LINKS)) == place
        masked = scored(found, LINKS, pair[None], hidden)
        torch.testing.assert_close(masked, scored(found, LINKS[~hidden], pair[None]), atol=1e-5, rtol=1e-4)
        assert not torch.equal(masked, scored(found, LINKS, pair[None]))


def test_the_encoder_does_not_see_hidden_edges() -> None:
    encoder = model(steps=2).encoder
    masked = encoder(None, MessageGraph.from_pairs(LINKS, NODES), hidden=HIDDEN)
    torch.testing.assert_close(masked, encoder(None, MessageGraph.from_pairs(LINKS[~HIDDEN], NODES)))
    assert not torch.allclose(masked, encoder(None, MessageGraph.from_pairs(LINKS, NODES)), atol=1e-3)


def test_a_score_does_not_depend_on_the_batch_or_the_order_of_ends() -> None:
    found, y, messages = model(), torch.randn(NODES, 16), MessageGraph.from_pairs(LINKS, NODES)
    pairs = torch.combinations(torch.arange(NODES))
    together = found.logits(y, pairs, messages)
    alone = torch.stack([found.logits(y, pair, messages) for pair in pairs])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(found.logits(y, pairs.flip(1), messages), together)
    assert found.logits(y, pairs.view(6, 6, 2), messages).shape == (6, 6)
    assert found.logits(y, pairs[:0], messages).shape == (0,)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_decoder_equals_its_equation(depth: int) -> None:
    decoder = model(depth=depth).attention_decoder
    decoder.bias.data.normal_()
    y = torch.randn(NODES, 16)
    context = Context(
        torch.tensor([0, 2, 0, 2, 0]),
        torch.tensor([3, 4, 5, 6, 7]),
        torch.tensor([0, 1, 2, 0, 1]),
        torch.rand(5, 2),
        torch.tensor([2, 7, 3]),
    )
    pairs = torch.tensor([[0, 1], [2, 8], [1, 8]])
    found = decoder.combined(y, pairs, context, None)
    for row, (u, v) in enumerate(pairs.tolist()):
        z, scores, kinds = [], [], [0.0] * 3
        for r, node, kind, (a, b) in zip(*(part.tolist() for part in context[:4]), strict=True):
            if r == row:
                kinds[kind] += 1
                place = decoder.places[kind](torch.tensor([a, b])) + decoder.places[kind](torch.tensor([b, a]))
                z.append(decoder.key(torch.cat([y[node], place])))
                match = z[-1] * (decoder.query(y[u]) + decoder.query(y[v]))
                scores.append(torch.nn.functional.leaky_relu(match, 0.2) @ decoder.attention[:, 0])
        weights = torch.stack(scores).softmax(0) if scores else torch.empty(0)
        summed = sum((w * vector for w, vector in zip(weights, z, strict=True)), torch.zeros(16))
        counts = torch.tensor([*kinds, float(context.neighbours[row])])
        pairwise = decoder.pairwise(torch.cat([decoder.norm(summed + decoder.bias), counts]))
        x = torch.cat([decoder.product(y[u] * y[v]), pairwise])
        for linear in decoder.hidden:
            x = torch.relu(linear(x))
        torch.testing.assert_close(found[row], decoder.output(x)[0])


def test_dropout_comes_from_the_generator_only() -> None:
    found, y, messages = model(dropout=0.5), torch.randn(NODES, 16), MessageGraph.from_pairs(LINKS, NODES)
    pairs = torch.combinations(torch.arange(NODES))
    first, again, other = (
        found.logits(y, pairs, messages, drops=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(found.logits(y, pairs, messages), found.logits(y, pairs, messages))


def test_a_higher_threshold_leaves_nodes_out() -> None:
    messages, pairs = MessageGraph.from_pairs(LINKS, NODES), torch.combinations(torch.arange(NODES))
    few, many = (len(PageRanks(messages, threshold).context(pairs).row) for threshold in (0.2, 0.01))
    assert few < many
    y = torch.randn(NODES, 16)
    scores = [model(threshold=threshold).logits(y, pairs, messages) for threshold in (0.2, 0.01)]
    assert not torch.equal(*scores)
