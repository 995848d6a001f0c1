"""What training of relations may see, as tensors: message graphs, target triples, validation triples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.graph.typed_graph import TypedGraph
from yinyan.model.messages import MessageGraph
from yinyan.model.typed_encoder import TypedFeatures
from yinyan.model.typed_tensors import typed_features, typed_messages
from yinyan.sampling import KnownPairs, KnownTriples, Space
from yinyan.splits import known_pairs
from yinyan.splits.typed_split import TypedSplit
from yinyan.training.data import Lists, num_lists, valid_lists

__all__ = ["OneRelation", "TypedData", "spaces_of", "typed_data"]

Rows = NDArray[np.int64]


class OneRelation(NamedTuple):
    """What negatives are drawn with if one relation is predicted: as in a plain graph."""

    known: KnownPairs  # over the rows of the relation's view
    rows: Tensor  # (view,) the row of each among all nodes
    places: Tensor  # (n,) the row in the view


@dataclass(frozen=True)
class TypedData:
    """What a step may see, on the training device. Triples are (source, target, number of a predicted relation)."""

    features: TypedFeatures
    messages: MessageGraph
    targets: Tensor  # (m, 3)
    pair_of_target: Tensor  # (m,) the message pair that must hide while a target is predicted; -1 for none
    known: KnownTriples  # all that loss negatives may know
    alone: OneRelation | None  # where one relation is predicted
    valid_messages: MessageGraph
    valid_links: Tensor  # (·, 3)
    valid_non_links: Tensor  # (·, 3)
    valid_lists: Tensor  # (e, 1 + c, 3) ends of validation edges with their partner first, then candidates
    is_rival: Tensor  # (e, c) whether a candidate is no known partner


def typed_data(split: TypedSplit, device: torch.device, *, ranked: bool, maps: bool = False) -> TypedData:
    """What training may see: training edges, and the validation edges it is judged by, if `ranked` with lists."""
    graph, parts = split.graph, list(split.parts.items())
    messages, pair_of_edge = typed_messages(graph, split.messages("train"), device, maps=maps)
    rows = [graph.rows_of_view(graph.relations[name]) for name, _ in parts]

    def placed(which: str) -> Tensor:
        found = [_triples(getattr(part, which), rows[n], n) for n, (_, part) in enumerate(parts)]
        return torch.from_numpy(np.concatenate(found)).to(device)

    hidden = []
    for name, part in parts:
        edge_of_target = part.graph.find_edges(part.train_targets)
        hidden.append(np.where(edge_of_target >= 0, pair_of_edge[name][edge_of_target], -1))
    same = all(np.array_equal(part.train_messages, part.valid_messages) for _, part in parts)
    valid = messages if same else typed_messages(graph, split.messages("valid"), device, maps=maps)[0]
    known = [part.graph.edges[part.known_in_training] for _, part in parts]
    triples = np.concatenate([_triples(edges, rows[n], n) for n, edges in enumerate(known)])
    lists = _lists(split, rows) if ranked else Lists(np.empty((0, 1, 3), np.int64), np.empty((0, 0), np.bool_))
    return TypedData(
        features=typed_features(graph, device),
        messages=messages,
        targets=placed("train_targets"),
        pair_of_target=torch.from_numpy(np.concatenate(hidden)).to(device),
        known=KnownTriples.of(graph.num_nodes, spaces_of(graph, split.predicted), torch.from_numpy(triples)).to(device),
        alone=_alone(split, known[0], rows[0], device) if len(parts) == 1 else None,
        valid_messages=valid,
        valid_links=placed("valid_targets"),
        valid_non_links=placed("valid_negatives"),
        valid_lists=torch.from_numpy(lists.pairs).to(device),
        is_rival=torch.from_numpy(lists.is_rival).to(device),
    )


def spaces_of(graph: TypedGraph, names: tuple[str, ...]) -> list[Space]:
    """Where the ends of some relations lie among all rows."""
    found = []
    for name in names:
        relation = graph.relations[name]
        (a, count), (b, other) = (
            (graph.offsets[kind], len(graph.nodes[kind].ids)) for kind in (relation.source, relation.target)
        )
        found.append(Space(a, count, b, other, directed=relation.directed))
    return found


def _triples(pairs: Rows, rows: Rows, number: int) -> Rows:
    """(..., 3) of (..., 2) rows of a view."""
    placed = rows[pairs]
    return np.concatenate([placed, np.full((*placed.shape[:-1], 1), number)], axis=-1)


def _alone(split: TypedSplit, known: Rows, rows: Rows, device: torch.device) -> OneRelation:
    (part,) = split.parts.values()
    places = np.full(split.graph.num_nodes, -1)
    places[rows] = np.arange(len(rows))
    return OneRelation(
        known_pairs(part.graph, known).to(device),
        torch.from_numpy(rows).to(device),
        torch.from_numpy(places).to(device),
    )


def _lists(split: TypedSplit, rows: list[Rows]) -> Lists:
    """The lists of all predicted relations, as wide as the widest; with several they share the number of lists."""
    parts, most = list(split.parts.values()), None
    total = sum(len(part.valid_targets) for part in parts)
    found = []
    for number, part in enumerate(parts):
        if not len(part.valid_targets):
            continue
        if len(parts) > 1:
            targets = sum(len(p.train_targets) for p in parts)
            share = len(part.valid_targets) / total
            most = max(1, round(share * num_lists(targets, min(part.graph.num_nodes, 500))))
        lists = valid_lists(part, most)
        found.append(Lists(_triples(lists.pairs, rows[number], number), lists.is_rival))
    width = max(lists.is_rival.shape[1] for lists in found)
    pairs = [np.pad(x.pairs, ((0, 0), (0, 1 + width - x.pairs.shape[1]), (0, 0)), mode="edge") for x in found]
    rivals = [np.pad(x.is_rival, ((0, 0), (0, width - x.is_rival.shape[1]))) for x in found]
    return Lists(np.concatenate(pairs), np.concatenate(rivals))
