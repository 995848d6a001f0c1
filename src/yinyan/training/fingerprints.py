"""Digests of what a model can see: of a graph, and of all that training reads."""

from __future__ import annotations

import hashlib

import numpy as np

from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.settings import Settings
from yinyan.splits import Split

__all__ = ["graph_fingerprint", "training_fingerprint"]


def graph_fingerprint(graph: Graph) -> str:
    """A digest of what a model can see of a graph."""
    digest = hashlib.blake2b(f"{graph.num_nodes}/{graph.directed}/{graph.num_left}".encode(), digest_size=16)
    features = graph.features
    if isinstance(features, SparseFeatures):
        arrays = [features.indptr, features.indices, features.values]
    else:
        arrays = [] if features is None else [features]
    for array in (graph.edges, graph.weights, graph.edge_features, *arrays):
        if array is not None:
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def training_fingerprint(split: Split, settings: Settings, seed: int) -> str:
    """A digest of all that training sees; what is done at test time is no part of it."""
    roles = (
        *(split.train_targets, split.valid_targets, split.train_messages, split.valid_messages),
        *(split.known_in_training, split.valid_negatives),
    )
    digests = [hashlib.blake2b(np.ascontiguousarray(r).data, digest_size=16).hexdigest() for r in roles]
    marks = (graph_fingerprint(split.graph), *digests, seed, settings.to_toml())
    return hashlib.blake2b(repr(marks).encode(), digest_size=16).hexdigest()
