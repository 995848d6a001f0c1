"""A graph with relations as tensors on a device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.graph.typed_graph import TypedGraph
from yinyan.model.messages import MessageGraph
from yinyan.model.relation_messages import relation_messages
from yinyan.model.tensors import feature_tensor, message_pairs
from yinyan.model.typed_encoder import TypedFeatures

__all__ = ["typed_features", "typed_messages"]

Rows = NDArray[np.int64]


def typed_features(graph: TypedGraph, device: torch.device) -> TypedFeatures:
    """The features of each type on a device."""
    return tuple(feature_tensor(kind.features, device) for kind in graph.nodes.values())


def typed_messages(
    graph: TypedGraph, chosen: Mapping[str, Rows], device: torch.device, *, maps: bool = False
) -> tuple[MessageGraph, dict[str, Rows]]:
    """The message graph of the chosen edges of each relation, and the message pair of each edge, -1 for none.

    With one relation, and without `maps`, it is that of a plain graph.
    """
    pairs, weights, places, first = [], [], {}, 0
    cpu = torch.device("cpu")
    for name, relation in graph.relations.items():
        made, pair_of_chosen = message_pairs(graph.of_relation(name), chosen[name], cpu, None)
        pairs.append(torch.from_numpy(graph.rows_of_view(relation))[made.pairs])
        weights.append(made.weights if made.weighted else None)
        places[name] = np.full(len(relation.edges), -1)
        places[name][chosen[name]] = first + pair_of_chosen
        first += len(made.pairs)
    if len(pairs) == 1 and len(graph.nodes) == 1 and not maps:
        return made.to(device), places
    if len(pairs) == 1 and not maps:
        plain = MessageGraph.from_pairs(pairs[0], graph.num_nodes, weights=weights[0], num_left=graph.num_left)
        return plain.to(device), places
    found = relation_messages(pairs, graph.num_nodes, weights=weights, num_left=graph.num_left)
    return found.to(device), places
