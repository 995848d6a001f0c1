"""What training may see, as tensors: message graphs, target edges, validation pairs, and fresh negatives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.model.tensors import feature_tensor, message_graph, message_pairs
from yinyan.randomness import named_seed
from yinyan.sampling import KnownPairs, draw_pairs
from yinyan.settings import TrainingSettings
from yinyan.splits import Split, known_pairs

__all__ = [
    "MOST_CANDIDATES",
    "Lists",
    "TrainingData",
    "draw_loss_negatives",
    "num_listed",
    "num_lists",
    "training_data",
    "valid_lists",
]

_LISTED = 50_000  # pairs of validation lists, or as many as there are edges: fewer than an epoch decodes
_MOST_LISTED = 1_000_000
MOST_CANDIDATES, _FEWEST_ENDS = 500, 100  # per list, and lists


@dataclass(frozen=True)
class TrainingData:
    """What a step may see, on the training device."""

    features: Tensor | SparseMatrix | None
    messages: MessageGraph  # training links only
    targets: Tensor  # (m, 2) training links, source first
    pair_of_target: Tensor  # (m,) the message pair that must hide while a target is predicted; -1 for none
    known: KnownPairs  # all that loss negatives may know
    valid_messages: MessageGraph  # the links that pass messages when validation links are scored
    valid_links: Tensor  # (·, 2)
    valid_non_links: Tensor  # (·, 2), or (·, k, 2): each link's own
    # (e, 1 + c, 2) ends of validation links with their partner first, then candidates
    valid_lists: Tensor = field(default_factory=lambda: torch.empty(0, 1, 2, dtype=torch.int64))
    # (e, c) whether a candidate is no known partner
    is_rival: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.bool))
    # moments by number, in order, where the split is by time: (m,) of targets, (·,) of message pairs, their first
    target_times: Tensor | None = None
    message_times: Tensor | None = None


def training_data(
    graph: Graph,
    split: Split,
    device: torch.device,
    place: NDArray[np.int64] | None = None,
    *,
    ranked: bool = False,
) -> TrainingData:
    """What training may see: training links, and the validation pairs it is judged by, if `ranked` with lists.

    With `place` (n,) node i stands in row place[i] of it all.
    """
    messages, pair_of_message = message_pairs(graph, split.train_messages, device, place)
    same = np.array_equal(split.train_messages, split.valid_messages)
    pair_of_edge = np.full(graph.num_edges, -1)
    pair_of_edge[split.train_messages] = pair_of_message
    edge_of_target = graph.find_edges(split.train_targets)
    pair_of_target = np.where(edge_of_target >= 0, pair_of_edge[edge_of_target], -1)
    features = graph.features
    if place is not None and features is not None:
        order = np.argsort(place)
        features = features.take(order) if isinstance(features, SparseFeatures) else features[order]

    def rows(pairs: NDArray[np.int64]) -> Tensor:
        placed = pairs if place is None else place[pairs]
        return torch.from_numpy(np.ascontiguousarray(placed)).to(device)

    # of a large graph the pairs take as much memory as the layers: where all are the same they are held once
    plain = not graph.directed and np.array_equal(edge_of_target, split.train_messages)
    if not graph.directed and np.array_equal(split.known_in_training, split.train_messages):
        known = messages.known
    else:
        edges = graph.edges[split.known_in_training]
        known = known_pairs(graph, edges if place is None else place[edges]).to(device)
    times = _times(split, pair_of_message, edge_of_target)
    lists = valid_lists(split) if ranked else Lists(np.empty((0, 1, 2), np.int64), np.empty((0, 0), np.bool_))
    return TrainingData(
        features=feature_tensor(features, device),
        messages=messages,
        targets=messages.pairs if plain else rows(split.train_targets),
        pair_of_target=torch.from_numpy(pair_of_target.astype(_place_type(graph.num_edges))).to(device),
        known=known,
        valid_messages=messages if same else message_graph(graph, split.valid_messages, device, place),
        valid_links=rows(split.valid_targets),
        valid_non_links=rows(split.valid_negatives),
        valid_lists=rows(lists.pairs),
        is_rival=torch.from_numpy(lists.is_rival).to(device),
        target_times=None if times is None else torch.from_numpy(times[0]).to(device),
        message_times=None if times is None else torch.from_numpy(times[1]).to(device),
    )


def _times(
    split: Split, pair_of_message: NDArray[np.int64], edge_of_target: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Moments of the targets and of the message pairs, if the split is by time and every target is an edge."""
    times = split.graph.times
    if times is None or not split.is_by_time or (edge_of_target < 0).any():
        return None
    numbers = np.unique(times, return_inverse=True)[1].reshape(-1).astype(np.int64)
    count = int(pair_of_message.max()) + 1 if pair_of_message.size else 0
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, pair_of_message, numbers[split.train_messages])
    return numbers[edge_of_target], first


class Lists(NamedTuple):
    """Ends of validation edges, each with its partner and candidates."""

    pairs: NDArray[np.int64]  # (e, 1 + c, 2)
    is_rival: NDArray[np.bool_]  # (e, c)


def num_listed(split: Split) -> int:
    """Pairs that are scored to rank validation edges in lists."""
    count = min(split.graph.num_nodes, MOST_CANDIDATES)
    ends = len(split.valid_targets) * (1 if split.graph.directed else 2)
    return count * min(ends, num_lists(len(split.train_targets), count))


def num_lists(num_targets: int, count: int) -> int:
    """How many ends of validation edges have lists of `count` candidates, beside so many training edges."""
    return max(_FEWEST_ENDS, min(_MOST_LISTED, max(_LISTED, num_targets)) // max(1, count))


def valid_lists(split: Split, most: int | None = None) -> Lists:
    """The partners of some ends of validation edges among candidates: all nodes of a small graph, drawn ones else.

    `most` are the ends, where there is another limit than the one that fits the number of training edges.
    """
    graph, generator = split.graph, np.random.default_rng(named_seed(split.seed, "validation lists"))
    links, sides = split.valid_targets, graph.sides
    ends = links if graph.directed else np.concatenate([links, links[:, ::-1]])
    count = min(graph.num_nodes, MOST_CANDIDATES)
    limit = num_lists(len(split.train_targets), count) if most is None else most
    ends = ends[np.sort(generator.permutation(len(ends))[:limit])]
    candidates = np.broadcast_to(np.arange(graph.num_nodes), (len(ends), graph.num_nodes))
    if graph.num_nodes > count:
        candidates = generator.integers(graph.num_nodes, size=(len(ends), count))
        if graph.num_left is not None:  # of the other side
            left, on_left = graph.num_left, ends[:, :1] < graph.num_left
            candidates = np.where(on_left, left + candidates % (graph.num_nodes - left), candidates % left)
    pairs = np.stack([np.broadcast_to(ends[:, :1], candidates.shape), candidates], axis=2)
    found = graph.find_edges(pairs.reshape(-1, 2)).reshape(candidates.shape)
    is_known = np.zeros(graph.num_edges + 1, dtype=np.bool_)  # the last is that of no edge
    is_known[split.known_in_training] = is_known[split.train_messages] = True
    is_known[graph.find_edges(links)] = True
    is_rival = ~is_known[found] & (candidates != ends[:, :1])
    if sides is not None:
        is_rival &= sides[candidates] != sides[ends[:, :1]]
    return Lists(np.concatenate([ends[:, None], pairs], axis=1), is_rival)


def _place_type(count: int) -> type[np.integer[Any]]:
    """Of numbers below `count`: half the bytes, wherever they suffice."""
    return np.int32 if count < 2**31 else np.int64


def draw_loss_negatives(
    known: KnownPairs, links: Tensor, settings: TrainingSettings, generator: torch.Generator
) -> Tensor:
    """(b, N, 2) non-links; on a directed graph the last of several is the reversed link, where that is none."""
    count = settings.loss_negatives
    sources = links[:, 0].repeat_interleave(count) if settings.loss_sampler == "source" else None
    pairs = draw_pairs(known, links.shape[0] * count, generator, sources=sources).view(-1, count, 2)
    if known.directed and count > 1:
        reverse = links.flip(1)
        pairs[:, -1] = torch.where(known.contains(reverse)[:, None], pairs[:, -1], reverse)
    return pairs
