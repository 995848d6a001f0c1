"""A graph and its split as tensors on a device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.graph.features import Features, SparseFeatures
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix

__all__ = ["ages_of", "feature_tensor", "mean_row", "message_graph", "message_pairs", "pair_means", "pick_device"]


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
    return message_pairs(graph, chosen, device, place)[0]


def message_pairs(
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
        ages=None if graph.times is None else ages_of(graph.times[chosen], pair_of_edge, len(pairs)),
        num_left=graph.num_left,
        features=None
        if graph.edge_features is None
        else pair_means(graph.edge_features[chosen], pair_of_edge, len(pairs)),
    )
    return messages.to(device), pair_of_edge


def mean_row(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """(1, c) the mean: what stands for an edge whose features are not known."""
    return rows.mean(axis=0, keepdims=True) if len(rows) else np.zeros((1, rows.shape[1]), dtype=np.float32)


def pair_means(rows: NDArray[np.float32], pair_of_edge: NDArray[np.int64], count: int) -> Tensor:
    """(count, c) features of each pair; of two directions the mean, so that they weigh alike."""
    total = np.zeros((count, rows.shape[1]), dtype=np.float32)
    np.add.at(total, pair_of_edge, rows)
    return torch.from_numpy(
        total / np.maximum(np.bincount(pair_of_edge, minlength=count), 1)[:, None].astype(np.float32)
    )


def ages_of(times: NDArray[np.int64] | NDArray[np.float64], pair_of_edge: NDArray[np.int64], count: int) -> Tensor:
    """(count,) by how much each pair is older than the latest; two directions are as old as the younger."""
    ages = times.max() - times if len(times) else times
    youngest = np.full(count, np.inf)
    np.minimum.at(youngest, pair_of_edge, ages)
    return torch.from_numpy(youngest.astype(np.float32))
