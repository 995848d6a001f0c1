"""Embeddings that follow the live graph: by the rows that a change reaches, or by all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.graph.features import stacked_features
from yinyan.live.embeddings import LiveEmbeddings
from yinyan.live.new_nodes import Inputs, batches, with_table
from yinyan.live.structure import Effect, NewNode, Structure
from yinyan.model.fitted import Fitted, embed_graph, our_encoder
from yinyan.model.messages import MessageGraph
from yinyan.model.tensors import ages_of, feature_tensor, mean_row, pair_means
from yinyan.retrieval.growing import GrowingRows

if TYPE_CHECKING:
    from yinyan.live.live_state import LiveState

__all__ = [
    "LocalRenewal",
    "Renewal",
    "WholeRenewal",
    "fresh_embeddings",
    "grown_inputs",
    "messages_of",
    "renewal_for",
    "why_whole",
]

Rows = NDArray[np.int64]

_SMALL = 4_000_000  # multiplications, one per message and dimension: a few milliseconds
_TOLERANCE = 1e-4  # of a row's length: half of all rows of a large graph move by less than this with every link


def renewal_for(fitted: Fitted, structure: Structure | None = None, inputs: Inputs | None = None) -> Renewal:
    """By changed rows where the model allows and that is faster, else by embedding all nodes again.

    It begins with one pass over the whole graph, as it is by `structure` and `inputs`, or as it was fitted.
    """
    structure = structure or Structure.of(fitted.graph)
    kind = WholeRenewal if why_whole(fitted) or _is_small(fitted, structure) else LocalRenewal
    return kind(fitted, structure, inputs)


def fresh_embeddings(state: LiveState) -> Tensor:
    """(n, d) what a pass over the whole live graph gives: the measure of the rows that a state answers from."""
    return _fresh(state.served.fitted, state.structure, state.inputs)


def _fresh(fitted: Fitted, structure: Structure, inputs: Inputs) -> Tensor:
    model = with_table(fitted.model, inputs.table)
    features = feature_tensor(inputs.all_features(), torch.device("cpu"))
    return embed_graph(model, features, messages_of(fitted, structure), fitted.settings, fitted.seed)


def _is_small(fitted: Fitted, structure: Structure) -> bool:
    """Whether a pass over all rows takes a few milliseconds: then every change may have one."""
    settings = fitted.settings.encoder
    return (settings.num_steps + 1) * (structure.num_links + structure.num_nodes) * settings.hidden_size <= _SMALL


def why_whole(fitted: Fitted) -> str | None:
    """Why a change of this model's graph means all rows again; None where it does not."""
    encoder = our_encoder(fitted.model)
    if encoder.settings.margin is not None:
        return "encoder.margin makes the layers depend on all nodes"
    if encoder.settings.half_life is not None:
        return "encoder.half_life weighs every edge beside the latest"
    if encoder.edge_weights is not None:
        return "weights that are learned from edge features are scaled to a mean of 1 over all edges"
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

    def __init__(self, fitted: Fitted, structure: Structure | None = None, inputs: Inputs | None = None) -> None:
        self._fitted = fitted
        self.inputs = inputs or Inputs.of(fitted)
        structure = structure or Structure.of(fitted.graph)
        graph = fitted.graph
        messages, mean = _messages_and_mean(fitted, structure)
        self._live = LiveEmbeddings(
            our_encoder(with_table(fitted.model, self.inputs.table)),
            feature_tensor(self.inputs.all_features(), torch.device("cpu")),
            messages,
            seed=fitted.seed,
            mean_weight=mean,
            tolerance=_TOLERANCE,
        )
        is_silent = np.ones(graph.num_edges, dtype=bool)
        is_silent[fitted.message_edges] = False
        self._silent = set(map(tuple, graph.edges[is_silent].tolist()))
        self._new_weight = None if graph.weights is None else _mean_weight(fitted)
        self.changed = 0  # links that were added or removed since the pass over all rows

    @property
    def values(self) -> Tensor:
        """(n, d) all rows, in a matrix of their own."""
        return self._live.embeddings.clone()

    def apply(self, after: Structure, effects: Sequence[Effect]) -> tuple[Rows, Tensor]:
        """The rows that effects have changed, sorted, and their values: new nodes first, then all links together."""
        live = self._live
        changed = self._add_nodes([node for effect in effects for node in effect.nodes])
        missing: list[tuple[int, int]] = []
        surplus: list[tuple[int, int]] = []
        for a, b in dict.fromkeys((min(p), max(p)) for effect in effects for p in (*effect.added, *effect.removed)):
            wanted = self._speaks(after, a, b) or self._speaks(after, b, a)
            if wanted != live.has_link(a, b):
                (missing if wanted else surplus).append((a, b))
        if missing:
            weights = None if self._new_weight is None else np.full(len(missing), self._new_weight)
            changed.append(live.add_links(np.array(missing), weights=weights))
        if surplus:
            changed.append(live.remove_links(np.array(surplus)))
        self.changed += len(missing) + len(surplus)
        rows = np.unique(np.concatenate(changed)) if changed else np.empty(0, dtype=np.int64)
        return rows, live.embeddings[torch.from_numpy(rows)]

    def _speaks(self, after: Structure, a: int, b: int) -> bool:
        """Whether a link is there that passes messages: those of the model that passed none still pass none."""
        return (
            after.has_link(a, b)
            and ((a, b) if self._fitted.graph.directed else (min(a, b), max(a, b))) not in self._silent
        )

    def _add_nodes(self, nodes: Sequence[NewNode]) -> list[Rows]:
        changed = []
        near = [np.array(node.neighbours, dtype=np.int64) for node in nodes]
        place = 0
        for batch in batches(near, self._live.num_nodes):
            chosen = nodes[place : place + len(batch)]
            place += len(batch)
            features = [node.features for node in chosen if node.features is not None]
            given = feature_tensor(stacked_features(features), torch.device("cpu"))
            changed.append(self._live.add_nodes(given, neighbours=[rows.tolist() for rows in batch]))
            table = self._live.table
            rows = None if table is None else GrowingRows(table, table.shape[0])
            self.inputs = Inputs(self.inputs.features.extended(features), rows)
        self.changed += sum(map(len, near)) + len(nodes)
        return changed


class WholeRenewal:
    """All rows again, for encoders that a change reaches everywhere, and for graphs so small that it takes no time."""

    changed = 0  # links since the pass over all rows: each change has its own

    def __init__(self, fitted: Fitted, structure: Structure | None = None, inputs: Inputs | None = None) -> None:
        self._fitted = fitted
        self.inputs = inputs or Inputs.of(fitted)
        self._structure = structure or Structure.of(fitted.graph)
        self._values: Tensor | None = None

    @property
    def values(self) -> Tensor:
        """(n, d) all rows."""
        if self._values is None:
            self._values = _fresh(self._fitted, self._structure, self.inputs)
        return self._values

    def apply(self, after: Structure, effects: Sequence[Effect]) -> tuple[Rows, Tensor]:
        """Every row, and its value."""
        nodes = [node for effect in effects for node in effect.nodes]
        self.inputs = grown_inputs(self._fitted, self.inputs, nodes)
        self._structure, self._values = after, None
        return np.arange(after.num_nodes), self.values


def grown_inputs(fitted: Fitted, inputs: Inputs, nodes: Sequence[NewNode]) -> Inputs:
    """What the encoder reads once some nodes have arrived."""
    features = [node.features for node in nodes if node.features is not None]
    return inputs.with_nodes(fitted, features, [np.array(node.neighbours, dtype=np.int64) for node in nodes])


Renewal = LocalRenewal | WholeRenewal  # `apply` is called by one thread at a time


def messages_of(fitted: Fitted, structure: Structure) -> MessageGraph:
    """The message graph of now: links of the model that passed no messages still pass none."""
    return _messages_and_mean(fitted, structure)[0]


def _mean_weight(fitted: Fitted) -> float:
    """The weight of a link that the model did not have."""
    weights = fitted.graph.weights
    return 1.0 if weights is None or not fitted.message_edges.size else float(weights[fitted.message_edges].mean())


def _messages_and_mean(fitted: Fitted, structure: Structure) -> tuple[MessageGraph, float]:
    """The message graph, and what its weights were divided by."""
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
        weights = np.append(graph.weights, np.float32(_mean_weight(fitted)))[place]
    # a link that the model did not have is as young as the latest
    times = None if graph.times is None else np.append(graph.times, graph.times.max(initial=0))[place]
    described = None
    if graph.edge_features is not None:  # a link that the model did not have is like the mean of the others
        described = np.append(graph.edge_features, mean_row(graph.edge_features), axis=0)[place]
    owner = np.arange(len(pairs))
    if graph.directed:
        keys, owner = np.unique(pairs.min(axis=1) * n + pairs.max(axis=1), return_inverse=True)
        pairs = np.stack([keys // n, keys % n], axis=1)
        weights = None if weights is None else np.bincount(owner, weights=weights).astype(np.float32)
    messages = MessageGraph.from_pairs(
        torch.from_numpy(np.ascontiguousarray(pairs)),
        n,
        weights=None if weights is None else torch.from_numpy(weights),
        ages=None if times is None else ages_of(times, owner, len(pairs)),
        num_left=structure.num_left,
        features=None if described is None else pair_means(described, owner, len(pairs)),
    )
    return messages, 1.0 if weights is None or not weights.size else float(weights.mean())
