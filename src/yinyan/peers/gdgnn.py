"""GDGNN: one pass of a graph network, and a decoder that pools embeddings over shortest paths between the ends."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.model.encoder import NodeEncoder
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model
from yinyan.peers.contract import Outcome, Task, trained
from yinyan.peers.gnn import GCN
from yinyan.peers.ncn import Around, common_neighbours, sums_around
from yinyan.peers.pair_walks import three_steps
from yinyan.randomness import dropout
from yinyan.settings import DecoderSettings, Settings

__all__ = ["GeodesicDecoder", "GeodesicModel", "Geodesics", "gdgnn", "gdgnn_horizontal", "geodesics"]

Pooling = Literal["vertical", "horizontal"]

_CUT_OFF = 3  # edges of the longest shortest path that is looked for
_BEYOND = _CUT_OFF + 2.0  # what stands for a longer distance, as published


class Geodesics(NamedTuple):
    """Shortest paths between the ends of pairs, of three edges at most."""

    distance: Tensor  # (b,) edges; _BEYOND where there is no path so short
    first: Around  # neighbours of the first end on any shortest path
    second: Around  # neighbours of the second end
    path: Around  # the nodes of one shortest path, ends among them: of several the one of the smallest node numbers


def geodesics(messages: MessageGraph, pairs: Tensor, hidden: Tensor | None) -> Geodesics:
    """Shortest paths over visible edges between the ends of (b, 2) pairs."""
    n, none = messages.num_nodes, pairs.new_empty(0)
    distance = torch.full((len(pairs),), _BEYOND, dtype=messages.weights.dtype, device=pairs.device)
    same, linked = pairs[:, 0] == pairs[:, 1], messages.known.contains(pairs, hidden)
    distance[same], distance[linked] = 0.0, 1.0
    one = torch.nonzero(linked)[:, 0]
    firsts, seconds, inner = [one * n + pairs[one, 1]], [one * n + pairs[one, 0]], [none]

    left = torch.nonzero(~(same | linked))[:, 0]
    row, node, _ = common_neighbours(messages, pairs[left], hidden)
    two = left[row] * n + node
    distance[left[row]] = 2.0
    firsts.append(two)
    seconds.append(two)
    inner.append(_smallest(left[row], node, len(pairs), n))

    left = torch.nonzero(distance == _BEYOND)[:, 0]
    for walks in three_steps(messages, pairs[left], hidden):
        rows = left[walks.row]
        distance[rows] = 3.0
        firsts.append(torch.unique(rows * n + walks.first))
        seconds.append(torch.unique(rows * n + walks.second))
        low, high = torch.minimum(walks.first, walks.second), torch.maximum(walks.first, walks.second)
        best = _smallest(rows, low * n + high, len(pairs), n * n)
        of, both = best // (n * n), best % (n * n)
        inner += [of * n + both // n, of * n + both % n]

    near = torch.nonzero((distance > 0) & (distance < _BEYOND))[:, 0]
    inner += [near * n + pairs[near, end] for end in (0, 1)]
    return Geodesics(distance, *(_around(torch.cat(keys), messages) for keys in (firsts, seconds, inner)))


def _smallest(rows: Tensor, values: Tensor, count: int, base: int) -> Tensor:
    """row * base + the smallest of the values of each row that has any."""
    least = values.new_full((count,), base).scatter_reduce(0, rows, values, "amin")
    found = torch.nonzero(least < base)[:, 0]
    return found * base + least[found]


def _around(keys: Tensor, messages: MessageGraph) -> Around:
    n = messages.num_nodes
    return Around(keys // n, keys % n, messages.weights.new_ones(len(keys)))


class GeodesicDecoder(Decoder):
    """MLP([y_i, y_j, distance, pooled]), the mean over both orders of the ends, so that a pair scores the same.

    Vertical: MLP of the sum over the neighbours of each end that lie on shortest paths. Horizontal: the sum over the
    nodes of one shortest path. Without the batch normalisation of the published MLPs.
    """

    def __init__(self, size: int, settings: DecoderSettings, pooling: Pooling) -> None:
        super().__init__(size, directed=False)
        self.settings = settings
        self.pooling = pooling
        self.of_end = nn.Sequential(nn.Linear(size, 2 * size), nn.ReLU(), nn.Linear(2 * size, size))
        widths = [(4 if pooling == "vertical" else 3) * size + 1, *[settings.width] * (settings.depth - 1)]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:], strict=False))
        self.output = nn.Linear(widths[-1], 1)

    def scores(self, y: Tensor, pairs: Tensor, found: Geodesics, drops: torch.Generator | None) -> Tensor:
        """(b,) logits of (b, 2) pairs with the shortest paths between their ends."""
        ends = y.index_select(0, pairs.reshape(-1)).view(-1, 2, y.shape[1])
        left, right, distance = ends[:, 0], ends[:, 1], found.distance[:, None]
        if self.pooling == "vertical":
            first, second = (self.of_end(sums_around(y, end, len(pairs))) for end in (found.first, found.second))
            orders = [[left, right, distance, first, second], [right, left, distance, second, first]]
        else:
            path = sums_around(y, found.path, len(pairs))
            orders = [[left, right, distance, path], [right, left, distance, path]]
        x = torch.stack([torch.cat(order, dim=1) for order in orders])
        for layer in self.layers:
            x = layer(x)
            x = F.layer_norm(x, x.shape[-1:]) if self.settings.norm else x
            x = dropout(F.relu(x), self.settings.dropout, drops)
        return self.output(x).mean(0)[:, 0]  # type: ignore[no-any-return]


class GeodesicModel(Model):
    """An encoder, and a decoder that reads shortest paths over the edges that are not hidden."""

    def __init__(self, encoder: NodeEncoder, decoder: GeodesicDecoder) -> None:
        super().__init__(encoder, decoder)
        self.geodesic_decoder = decoder

    def logits(
        self,
        y: Tensor,
        pairs: Tensor,
        messages: MessageGraph,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """(...) logits of (..., 2) pairs."""
        flat = pairs.reshape(-1, 2)
        found = geodesics(messages, flat, hidden)
        return self.geodesic_decoder.scores(y, flat, found, drops).view(pairs.shape[:-1])


def gdgnn(task: Task) -> Outcome:
    """Kong, Chen, Zhang: Geodesic Graph Neural Network (NeurIPS 2022), with vertical geodesics and a GCN."""
    return _run(task, "vertical")


def gdgnn_horizontal(task: Task) -> Outcome:
    """The same with horizontal geodesics."""
    return _run(task, "horizontal")


def _run(task: Task, pooling: Pooling) -> Outcome:
    def build(settings: Settings, graph: Graph) -> Model:
        num_features = 0 if graph.features is None else graph.features.shape[1]
        encoder = GCN(settings.encoder, graph.num_nodes, num_features)
        return GeodesicModel(encoder, GeodesicDecoder(settings.encoder.hidden_size, settings.decoder, pooling))

    own = {
        "encoder": {"num_steps": 2, "dropout": 0.3, "hidden_size": 64},  # 32 as published
        "decoder": {"dropout": 0.3, "depth": 3, "norm": True, "width": 64},
        "training": {"weight_decay": 0.05},
    }
    return trained(task, build, own, fixed={"encoder": {"num_negatives": 0}})
