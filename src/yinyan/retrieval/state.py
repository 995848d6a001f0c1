"""What questions are answered from: a graph, its ids, its embeddings and a search over them, at one snapshot."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.graph import Graph
from yinyan.graph.attributes import Column
from yinyan.graph.ids import Id
from yinyan.model.calibration import Calibration
from yinyan.model.decoder import Decoder
from yinyan.model.encoder import Encoder
from yinyan.model.fitted import Fitted
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.model.reranking import Reranker
from yinyan.model.scoring import decode
from yinyan.model.shared_neighbours import CompressedLists
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.retrieval.exact import ExactSearch, Excluded, TopK
from yinyan.retrieval.node_columns import graph_column, graph_columns
from yinyan.retrieval.relation_names import RelationNames, as_list, is_id
from yinyan.retrieval.reranking import reranked, shortlist_for
from yinyan.retrieval.shards import Search
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["AnswerState", "Evidence", "FittedState", "SearchState", "linked_rows", "pair_scores", "reranker_of"]

Rows = NDArray[np.int64]


class Evidence(NamedTuple):
    """The encoder with all that it reads: what an explanation goes through again."""

    encoder: Encoder
    features: Tensor | SparseMatrix | None
    messages: MessageGraph
    seed: int
    f: Tensor | None = None  # (n, hidden) the base model's output, where it is known


class SearchState:
    """Enough to name partners: an index has this much. What a graph answers is answered here."""

    graph: Graph
    decoder: Decoder  # what scores two vectors
    reranker: Reranker | None = None  # what is added to its scores
    names: RelationNames | None = None  # of the nodes of a relation; else those of the graph

    @property
    def num_nodes(self) -> int:
        """How many nodes have an id."""
        return self.graph.num_nodes

    @functools.cached_property
    def num_left(self) -> int | None:
        """How many rows, from the first on, are of side 0; None unless bipartite."""
        return self.graph.num_left

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""
        return self.graph.directed

    def is_node(self, value: Any) -> bool:
        """Whether a value names one node; of a relation, (type, id) does too."""
        return is_id(value) if self.names is None else self.names.is_node(value)

    def listed(self, nodes: Any) -> list[Any]:
        """One node or several as a list."""
        return as_list(nodes) if self.names is None else self.names.listed(nodes)

    def rows(self, nodes: Sequence[Any]) -> Rows:
        """The row of each node by id, or by a label that one node has; an unknown one is refused by name."""
        return self.graph.rows_of(nodes) if self.names is None else self.names.rows(nodes)

    def pair_rows(self, pairs: Sequence[Sequence[Any]]) -> Rows:
        """(p, 2) rows of pairs; of a relation, the place of an id in its pair says its type."""
        if self.names is not None:
            return self.names.pair_rows(pairs)
        return self.rows([end for pair in pairs for end in pair]).reshape(-1, 2)

    def partner_rows(self, nodes: Any, asked: Rows) -> Rows:
        """The rows of candidates for the rows that are asked about; of a relation, an id is one of the other type."""
        return self.rows(as_list(nodes)) if self.names is None else self.names.partner_rows(nodes, asked)

    def ids(self, rows: Rows) -> list[Id]:
        """The ids of some rows."""
        return self.graph.ids.take(rows) if self.names is None else self.names.ids(rows)

    def types(self, rows: Rows) -> list[str] | None:
        """The type of each row; None without relations."""
        return None if self.names is None else self.names.types(rows)

    def labels(self, rows: Rows) -> list[str | None] | None:
        """The labels of some rows; None where there are none at all."""
        return self.graph.labels_of(rows)

    def column_names(self) -> list[str]:
        """Names of the attributes that conditions can use."""
        return graph_columns(self.graph)

    def column(self, name: str) -> Column:
        """One attribute of all nodes."""
        own = self.names.id_column() if name == "id" and self.names is not None else None
        return graph_column(self.graph, name) if own is None else own

    def left_out(self, row: int, exclude_known: bool) -> Rows:
        """Rows that are never partners of a row, and those that it is linked to if they are excluded."""
        return linked_rows(self.graph, row) if exclude_known else np.empty(0, dtype=np.int64)

    def vectors(self, rows: Rows) -> Tensor:
        """(len(rows), d) stored vectors: embedding and sketches."""
        raise NotImplementedError

    def top_k(self, sources: Rows, k: int, excluded: Excluded | None, pool: Rows | None) -> list[TopK]:
        """For each source the best `k` of `pool` (sorted rows; all without), but for itself and the excluded.

        A reranked score is computed for the best candidates by the decoder's score alone.
        """
        if self.reranker is None:
            return self.searched(sources, k, excluded, pool)
        found = self.searched(sources, shortlist_for(k), excluded, pool)
        return reranked(self.reranker, sources, found, k)

    def searched(self, sources: Rows, k: int, excluded: Excluded | None, pool: Rows | None) -> list[TopK]:
        """The same by the decoder's score."""
        raise NotImplementedError


class AnswerState(SearchState):
    """Enough for every question: a fitted model and a service's live state have this much."""

    calibration: Calibration  # what turns scores into probabilities
    base_rate: float  # that probabilities hold for: the share of missing edges among the candidates
    missing_share: float  # the same number of edges as a share of the known ones

    def has_edge(self, a: int, b: int) -> bool:
        """Whether there is an edge from a to b; undirected, between them."""
        return bool(self.graph.has_edges([(a, b)])[0])

    def evidence(self) -> Evidence:
        """What scores follow from, to be made once per snapshot."""
        raise NotImplementedError


class FittedState(AnswerState):
    """A fitted model. Its search is kept, so that a screen is made once and not per question."""

    def __init__(self, fitted: Fitted, names: RelationNames | None = None) -> None:
        self.fitted, self.graph, self.names = fitted, fitted.graph, names
        self.decoder, self.calibration = fitted.model.decoder, fitted.calibration
        self.base_rate, self.missing_share = fitted.base_rate, fitted.missing_share
        self.reranker = reranker_of(fitted)
        self.search: Search = ExactSearch(self.decoder)
        self._snapshot = Snapshot.of(fitted.embeddings, check=False)
        self._versions = _versions(fitted)

    def is_of(self, fitted: Fitted) -> bool:
        """Whether this is still the state of a model: the same one, and no value written in place since."""
        return self.fitted is fitted and self._versions == _versions(fitted)

    def vectors(self, rows: Rows) -> Tensor:
        """(len(rows), d) stored vectors."""
        return self._snapshot.gather(rows)

    def searched(self, sources: Rows, k: int, excluded: Excluded | None, pool: Rows | None) -> list[TopK]:
        """Exactly."""
        return self.search.top_k(self._snapshot, sources, k, excluded, pool)

    def evidence(self) -> Evidence:
        """The encoder, its features and its message graph."""
        fitted, device = self.fitted, self.fitted.embeddings.device
        features = feature_tensor(self.graph.features, device)
        return Evidence(fitted.encoder, features, message_graph(self.graph, fitted.message_edges, device), fitted.seed)


def linked_rows(graph: Graph, row: int) -> Rows:
    """The rows that a node is linked to: of a directed graph, those that it points to. Unknown rows have none."""
    if row >= graph.num_nodes:
        return np.empty(0, dtype=np.int64)
    if not graph.directed:
        return graph.neighbours(row)
    start, stop = np.searchsorted(graph.edges[:, 0], [row, row + 1])  # the reverse of an edge is still a question
    return graph.edges[start:stop, 1]


def pair_scores(state: SearchState, pairs: Rows) -> NDArray[np.float32]:
    """(p,) scores of (p, 2) pairs of rows."""
    rows = torch.from_numpy(np.ascontiguousarray(pairs, dtype=np.int64))
    scores = decode(state.decoder, lambda some: state.vectors(some.numpy()), rows)
    return scores if state.reranker is None else scores + state.reranker.of_pairs(rows.numpy())


def reranker_of(fitted: Fitted) -> Reranker | None:
    """The reranker of a model over the edges that pass messages; None without one."""
    if fitted.reranking is None:
        return None
    lists = CompressedLists.from_pairs(fitted.graph.edges[fitted.message_edges], fitted.graph.num_nodes)
    return Reranker(fitted.reranking, lists)


def _versions(fitted: Fitted) -> list[int]:
    """How often embeddings and decoder were written to in place."""
    return [tensor._version for tensor in (fitted.embeddings, *fitted.model.decoder.parameters())]
