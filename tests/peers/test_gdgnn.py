"""GDGNN: shortest paths against networkx, pooled by definition."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given
from layered_contract import HIDDEN, LINKS
from peer_contract import PeerContract, small
from test_ncn import NODES, masked_graphs
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.peers.gdgnn import GeodesicDecoder, GeodesicModel, Geodesics, geodesics
from yinyan.peers.gnn import GCN
from yinyan.peers.ncn import Around
from yinyan.settings import Settings

ALL_PAIRS = torch.tensor([(i, j) for i in range(NODES) for j in range(NODES)])


class TestGDGNN(PeerContract):
    name = "gdgnn"
    epochs = 45  # it learns nothing in the first twenty
    needs_geometric = True


class TestHorizontal(PeerContract):
    name = "gdgnn-horizontal"
    needs_geometric = True


def sets(around: Around, count: int) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(count)]
    for row, node in zip(around.row.tolist(), around.node.tolist(), strict=True):
        assert node not in found[row]
        found[row].add(node)
    return found


@given(graph=masked_graphs())
def test_shortest_paths_equal_those_of_networkx(graph: tuple[Tensor, Tensor | None]) -> None:
    links, hidden = graph
    visible = nx.Graph((links if hidden is None else links[~hidden]).tolist())
    visible.add_nodes_from(range(NODES))
    distances = dict(nx.all_pairs_shortest_path_length(visible))
    found = geodesics(MessageGraph.from_pairs(links, NODES), ALL_PAIRS, hidden)
    parts = [sets(part, len(ALL_PAIRS)) for part in found[1:]]
    for place, (i, j) in enumerate(ALL_PAIRS.tolist()):
        distance = distances[i].get(j, 9)
        first, second, path = (part[place] for part in parts)
        if not 0 < distance <= 3:
            assert found.distance[place] == (0 if i == j else 5) and not first | second | path
            continue
        paths = list(nx.all_shortest_paths(visible, i, j))
        assert found.distance[place] == distance
        assert first == {line[1] for line in paths} and second == {line[-2] for line in paths}
        assert sorted(path) == min((sorted(line) for line in paths), key=lambda line: sorted(set(line) - {i, j}))


def model(pooling: str) -> GeodesicModel:
    pytest.importorskip("torch_geometric")
    torch.manual_seed(0)
    settings = Settings().updated(small(encoder={"inputs": "embeddings", "num_steps": 2, "num_negatives": 0}))
    decoder = GeodesicDecoder(16, settings.decoder, pooling)  # type: ignore[arg-type]
    return GeodesicModel(GCN(settings.encoder, NODES, 0), decoder)


def by_hand(decoder: GeodesicDecoder, y: Tensor, found: Geodesics, place: int) -> Tensor:
    """Both orders of one pair's ends, and their mean."""
    i, j = ALL_PAIRS[place].tolist()
    first, second, path = (y[sorted(sets(part, len(ALL_PAIRS))[place])].sum(0) for part in found[1:])
    scores = []
    for ends, around in (((i, j), (first, second)), ((j, i), (second, first))):
        pooled = [decoder.of_end(x) for x in around] if decoder.pooling == "vertical" else [path]
        x = torch.cat([y[ends[0]], y[ends[1]], found.distance[place, None], *pooled])
        for layer in decoder.layers:
            x = torch.relu(layer(x))
        scores.append(decoder.output(x)[0])
    return torch.stack(scores).mean()


@pytest.mark.parametrize("pooling", ["vertical", "horizontal"])
@pytest.mark.parametrize("hidden", [None, HIDDEN], ids=["open", "masked"])
def test_a_score_equals_its_equation(pooling: str, hidden: Tensor | None) -> None:
    made, y, messages = model(pooling), torch.randn(NODES, 16), MessageGraph.from_pairs(LINKS, NODES)
    found = geodesics(messages, ALL_PAIRS, hidden)
    expected = [by_hand(made.geodesic_decoder, y, found, place) for place in range(len(ALL_PAIRS))]
    torch.testing.assert_close(made.logits(y, ALL_PAIRS, messages, hidden=hidden), torch.stack(expected))


@pytest.mark.parametrize("pooling", ["vertical", "horizontal"])
def test_hidden_edges_are_as_good_as_absent_and_batches_do_not_matter(pooling: str) -> None:
    made, y, messages = model(pooling), torch.randn(NODES, 16), MessageGraph.from_pairs(LINKS, NODES)
    masked = made.logits(y, ALL_PAIRS, messages, hidden=HIDDEN)
    absent = MessageGraph.from_pairs(LINKS[~HIDDEN], NODES)
    torch.testing.assert_close(masked, made.logits(y, ALL_PAIRS, absent))
    together = made.logits(y, ALL_PAIRS, messages)
    assert not torch.allclose(masked, together, atol=1e-3)
    torch.testing.assert_close(torch.stack([made.logits(y, pair, messages) for pair in ALL_PAIRS]), together)
    rows = made.encoder(None, messages, hidden=HIDDEN), made.encoder(None, absent)
    torch.testing.assert_close(*rows)
