"""Embeddings that follow the live graph: by the rows that a change reaches, or by all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.graph.features import stacked_features
from yinyan.live.embeddings import LiveEmbeddings
from yinyan.live.new_nodes import Inputs, with_table
from yinyan.live.structure import Effect, NewNode, Structure
from yinyan.model.fitted import Fitted, embed_graph, our_encoder
from yinyan.model.messages import MessageGraph
from yinyan.model.tensors import feature_tensor, message_graph

__all__ = ["LocalRenewal", "Renewal", "WholeRenewal", "messages_of", "renewal_for", "why_whole"]

Rows = NDArray[np.int64]

_TOLERANCE = 1e-4  # of a row's length: half of all rows of a large graph move by less than this with every link


def renewal_for(fitted: Fitted) -> Renewal:
    """By changed rows where the model allows, else by embedding all nodes again."""
    return WholeRenewal(fitted) if why_whole(fitted) else LocalRenewal(fitted)


def why_whole(fitted: Fitted) -> str | None:
    """Why a change of this model's graph means all rows again; None where it does not."""
    encoder = our_encoder(fitted.model)
    if encoder.settings.margin is not None:
        return "encoder.margin makes the layers depend on all nodes"
    if not encoder.base.is_row_wise:
        return "encoder.sign_hops or encoder.base_norm make the inputs depend on neighbours"
    if fitted.graph.directed and fitted.graph.weights is not None:
        return "weights of both directions of a link are added up"
    settings = fitted.settings
    sampled = settings.encoder.num_negatives > 0 and not settings.encoder.expected_negatives
    if sampled and settings.training.inference_samples > 1:
        return "training.inference_samples averages over several negative samples"
    return None


class LocalRenewal:
    """Only the rows that a change reaches, by `LiveEmbeddings`."""

    def __init__(self, fitted: Fitted) -> None:
        graph, cpu = fitted.graph, torch.device("cpu")
        weights = graph.weights
        self._live = LiveEmbeddings(
            our_encoder(fitted.model),
            feature_tensor(graph.features, cpu),
            message_graph(graph, fitted.message_edges, cpu),
            seed=fitted.seed,
            mean_weight=1.0 if weights is None else float(weights[fitted.message_edges].mean()),
            tolerance=_TOLERANCE,
        )
        self.inputs = Inputs.of(fitted)

    def apply(self, after: Structure, effects: Sequence[Effect]) -> tuple[Rows, Tensor]:
        """The rows that effects have changed, sorted, and their values: new nodes first, then all links together."""
        live = self._live
        changed = [self._add_nodes(batch) for batch in self._batches(effects)]
        missing: list[tuple[int, int]] = []
        surplus: list[tuple[int, int]] = []
        for a, b in dict.fromkeys((min(p), max(p)) for effect in effects for p in (*effect.added, *effect.removed)):
            wanted = after.has_link(a, b) or after.has_link(b, a)
            if wanted != live.has_link(a, b):
                (missing if wanted else surplus).append((a, b))
        if missing:
            changed.append(live.add_links(np.array(missing)))
        if surplus:
            changed.append(live.remove_links(np.array(surplus)))
        rows = np.unique(np.concatenate(changed)) if changed else np.empty(0, dtype=np.int64)
        return rows, live.embeddings[torch.from_numpy(rows)]

    def drift(self) -> float:
        """As `LiveEmbeddings` counts it."""
        return self._live.drift()

    def _batches(self, effects: Sequence[Effect]) -> list[list[NewNode]]:
        """Nodes that may be added together: none is a neighbour of another of its batch."""
        batches: list[list[NewNode]] = []
        start = n = self._live.num_nodes
        for effect in effects:
            for node in effect.nodes:
                if not batches or any(row >= start for row in node.neighbours):
                    batches.append([])
                    start = n
                batches[-1].append(node)
                n += 1
        return batches

    def _add_nodes(self, nodes: Sequence[NewNode]) -> Rows:
        features = [node.features for node in nodes if node.features is not None]
        given = feature_tensor(stacked_features(features), torch.device("cpu"))
        changed = self._live.add_nodes(given, neighbours=[list(node.neighbours) for node in nodes])
        self.inputs = Inputs((*self.inputs.features, *features), self._live.table)
        return changed


class WholeRenewal:
    """All rows again, for encoders that a change reaches everywhere."""

    def __init__(self, fitted: Fitted) -> None:
        self._fitted, self._moved = fitted, 0
        self.inputs = Inputs.of(fitted)

    def apply(self, after: Structure, effects: Sequence[Effect]) -> tuple[Rows, Tensor]:
        """Every row, and its value."""
        for effect in effects:
            self._moved += len(effect.added) + len(effect.removed) + sum(len(x.neighbours) for x in effect.nodes)
            for node in effect.nodes:
                self.inputs = self.inputs.with_nodes(self._fitted, node.features, [np.array(node.neighbours, np.int64)])
        fitted = self._fitted
        model, messages = with_table(fitted.model, self.inputs.table), messages_of(fitted, after)
        features = feature_tensor(self.inputs.all_features(), torch.device("cpu"))
        return np.arange(after.num_nodes), embed_graph(model, features, messages, fitted.settings, fitted.seed)

    def drift(self) -> float:
        """Changed links, counted each time, as a share of those there were."""
        return self._moved / max(1, self._fitted.graph.num_edges)


Renewal = LocalRenewal | WholeRenewal  # `apply` is called by one thread at a time


def messages_of(fitted: Fitted, structure: Structure) -> MessageGraph:
    """The message graph of now: links of the model that passed no messages still pass none."""
    graph, pairs = fitted.graph, structure.pairs()
    n, known = structure.num_nodes, graph.num_nodes
    inside = (pairs < known).all(axis=1)
    place = np.full(len(pairs), -1, dtype=np.int64)
    place[inside] = graph.find_edges(pairs[inside])
    speaks = np.zeros(graph.num_edges + 1, dtype=bool)
    speaks[fitted.message_edges] = True
    speaks[-1] = True  # a link that the model did not have, found at place -1
    kept = speaks[place]
    pairs, place = pairs[kept], place[kept]
    weights = None
    if graph.weights is not None:
        mean = graph.weights[fitted.message_edges].mean() if fitted.message_edges.size else 1.0
        weights = np.append(graph.weights, np.float32(mean))[place]
    if graph.directed:
        keys, owner = np.unique(pairs.min(axis=1) * n + pairs.max(axis=1), return_inverse=True)
        pairs = np.stack([keys // n, keys % n], axis=1)
        weights = None if weights is None else np.bincount(owner, weights=weights).astype(np.float32)
    return MessageGraph.from_pairs(
        torch.from_numpy(np.ascontiguousarray(pairs)),
        n,
        weights=None if weights is None else torch.from_numpy(weights),
        num_left=structure.num_left,
    )
