"""Enclosing subgraphs against a search by hand, over visible edges only."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peer_graphs import EVERY_PAIR, NODES, masked_graphs, plain_graph, subgraph_by_hand
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.peers import enclosing
from yinyan.peers.enclosing import Subgraphs, blocks_of_pairs, enclosing_subgraphs


def of_pair(subgraphs: Subgraphs, place: int) -> tuple[list[int], set[tuple[int, int]]]:
    """Nodes of a subgraph, and its edges in both directions."""
    rows = (subgraphs.pair == place).nonzero()[:, 0].tolist()
    node, indptr, columns = subgraphs.node.tolist(), subgraphs.indptr.tolist(), subgraphs.columns.tolist()
    edges = [(node[row], node[columns[slot]]) for row in rows for slot in range(indptr[row], indptr[row + 1])]
    assert len(edges) == len(set(edges))
    return [node[row] for row in rows], set(edges)


@given(graph=masked_graphs(), hops=st.integers(1, 3), own_edge=st.booleans())
def test_subgraphs_equal_a_search_by_hand(graph: tuple[Tensor, Tensor | None], hops: int, own_edge: bool) -> None:
    links, hidden = graph
    plain, messages = plain_graph(links, hidden), MessageGraph.from_pairs(links, NODES)
    found = enclosing_subgraphs(messages, EVERY_PAIR, hops, hidden=hidden, own_edge=own_edge)
    assert torch.equal(found.node[found.ends], EVERY_PAIR)
    for place, pair in enumerate(EVERY_PAIR.tolist()):
        expected = subgraph_by_hand(plain, pair, hops, own_edge=own_edge)
        nodes, edges = of_pair(found, place)
        assert nodes == sorted(expected.nodes)
        assert edges == {edge for a, b in expected.edges for edge in ((a, b), (b, a))}


@given(graph=masked_graphs(), without=st.booleans())
def test_distances_are_those_of_shortest_paths(graph: tuple[Tensor, Tensor | None], without: bool) -> None:
    links, hidden = graph
    messages, plain = MessageGraph.from_pairs(links, NODES), plain_graph(links, hidden)
    found = enclosing_subgraphs(messages, EVERY_PAIR, 2, hidden=hidden, own_edge=True)
    distances = found.distances(found.ends[:, 0], found.ends[:, 1] if without else None)
    for place, pair in enumerate(EVERY_PAIR.tolist()):
        around = subgraph_by_hand(plain, pair, 2, own_edge=True)
        if without:
            around.remove_node(pair[1])
        expected = nx.single_source_shortest_path_length(around, pair[0])
        rows = found.pair == place
        assert distances[rows].tolist() == [expected.get(node, -1) for node in found.node[rows].tolist()]


def some_messages() -> MessageGraph:
    links = torch.randint(0, NODES, (14, 2), generator=torch.Generator().manual_seed(0))
    return MessageGraph.from_pairs(links[links[:, 0] != links[:, 1]].sort(1).values.unique(dim=0), NODES)


def test_parts_are_joined_as_if_they_were_one(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = some_messages()
    whole = enclosing_subgraphs(messages, EVERY_PAIR, 2, own_edge=False)
    monkeypatch.setattr(enclosing, "_CELLS", 5 * NODES)
    parts = enclosing_subgraphs(messages, EVERY_PAIR, 2, own_edge=False)
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


def test_sorting_finds_what_reading_the_table_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    messages, found = some_messages(), []
    for cost in (0, 10**9):  # of sorting: always less, never less
        monkeypatch.setattr(enclosing, "_SORTED", cost)
        found.append(enclosing_subgraphs(messages, EVERY_PAIR, 3, own_edge=False))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_blocks_hold_all_pairs_in_order_and_few_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = MessageGraph.from_pairs(torch.tensor([[0, i] for i in range(1, NODES)]), NODES)
    assert [len(block) for block in blocks_of_pairs(messages, EVERY_PAIR, 2)] == [len(EVERY_PAIR)]
    monkeypatch.setattr(enclosing, "_SLOTS", 64)
    blocks = list(blocks_of_pairs(messages, EVERY_PAIR, 1))
    assert torch.equal(torch.cat(blocks), EVERY_PAIR)
    edges = [len(enclosing_subgraphs(messages, block, 1, own_edge=True).columns) for block in blocks]
    assert len(blocks) > 5 and max(edges) <= 64 + 2 * len(messages.pairs)


def test_no_pairs() -> None:
    messages, none = MessageGraph.from_pairs(torch.tensor([[0, 1]]), NODES), torch.empty(0, 2, dtype=torch.long)
    assert sum(len(block) for block in blocks_of_pairs(messages, none, 2)) == 0
    found = enclosing_subgraphs(messages, none, 2, own_edge=False)
    assert [len(part) for part in found] == [0, 0, 0, 1, 0]
