"""A graph and its split as tensors on a device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.features import Features, SparseFeatures
from yinyan.graph import Graph
from yinyan.messages import MessageGraph
from yinyan.propagation import SparseMatrix
from yinyan.splits import Split, known_pairs
from yinyan.training import TrainingData

__all__ = ["feature_tensor", "message_graph", "pick_device", "training_data"]


def pick_device(name: str) -> torch.device:
    """The device called `name`; 'auto' takes CUDA, then MPS, then the CPU."""
    mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if mps else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise SettingsError(f"'device' needs to be 'auto', 'cpu', 'cuda' or 'mps' (got {name!r})")
    if (device.type == "cuda" and not torch.cuda.is_available()) or (device.type == "mps" and not mps):
        raise SettingsError(f"'device' is {name!r}, and torch finds none here (use 'auto' or 'cpu')")
    return device


def feature_tensor(features: Features | None, device: torch.device) -> Tensor | SparseMatrix | None:
    """Features on a device; sparse ones stay sparse."""
    if features is None:
        return None
    if isinstance(features, SparseFeatures):
        matrix = SparseMatrix.from_csr(
            torch.from_numpy(features.indptr),
            torch.from_numpy(features.indices),
            torch.from_numpy(features.values),
            features.num_columns,
        )
        return matrix.to(device)
    return torch.from_numpy(features).to(device)


def message_graph(
    graph: Graph, chosen: NDArray[np.int64], device: torch.device, place: NDArray[np.int64] | None = None
) -> MessageGraph:
    """The message graph of the `chosen` links (indices into `graph.edges`); directions are forgotten."""
    return _messages(graph, chosen, device, place)[0]


def training_data(
    graph: Graph, split: Split, device: torch.device, place: NDArray[np.int64] | None = None
) -> TrainingData:
    """What training may see: training links, and the validation pairs it is judged by.

    With `place` (n,) node i stands in row place[i] of it all.
    """
    messages, pair_of_message = _messages(graph, split.train_messages, device, place)
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

    known = graph.edges[split.known_in_training]
    return TrainingData(
        features=feature_tensor(features, device),
        messages=messages,
        targets=rows(split.train_targets),
        pair_of_target=torch.from_numpy(pair_of_target).to(device),
        known=known_pairs(graph, known if place is None else place[known]).to(device),
        valid_messages=messages if same else message_graph(graph, split.valid_messages, device, place),
        valid_links=rows(split.valid_targets),
        valid_non_links=rows(split.valid_negatives),
    )


def _messages(
    graph: Graph, chosen: NDArray[np.int64], device: torch.device, place: NDArray[np.int64] | None
) -> tuple[MessageGraph, NDArray[np.int64]]:
    """The message graph, and the unordered pair that each chosen link became."""
    links = graph.edges[chosen] if place is None else place[graph.edges[chosen]]
    weights = None if graph.weights is None else graph.weights[chosen]
    if graph.directed:  # a -> b and b -> a are one message link, their weights added
        keys = links.min(axis=1) * graph.num_nodes + links.max(axis=1)
        kept, pair_of_edge = np.unique(keys, return_inverse=True)
        pairs = np.stack([kept // graph.num_nodes, kept % graph.num_nodes], axis=1)
        if weights is not None:
            weights = np.bincount(pair_of_edge, weights=weights).astype(np.float32)
    else:
        pairs, pair_of_edge = links, np.arange(len(links))
    messages = MessageGraph.from_pairs(
        torch.from_numpy(np.ascontiguousarray(pairs)),
        graph.num_nodes,
        weights=None if weights is None else torch.from_numpy(weights),
        num_left=graph.num_left,
    )
    return messages.to(device), pair_of_edge
