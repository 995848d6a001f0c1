"""What the service answers from: a model and its live graph at one snapshot."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import InputError
from yinyan.graph.attributes import Column
from yinyan.graph.features import stacked_features
from yinyan.graph.ids import Id
from yinyan.graph.typed_graph import RelationName
from yinyan.live.finder import IndexFinder
from yinyan.live.new_nodes import Inputs, with_table
from yinyan.live.renewal import messages_of
from yinyan.live.search import Search
from yinyan.live.structure import LiveLists, Structure
from yinyan.model.encoder import Encoder
from yinyan.model.fitted import Fitted, our_encoder
from yinyan.model.reranking import Reranker
from yinyan.model.tensors import feature_tensor
from yinyan.monitoring.arrivals import arrivals_of_rows
from yinyan.monitoring.drift import Drift, drift_of
from yinyan.monitoring.reference import Reference
from yinyan.retrieval.exact import Excluded, TopK
from yinyan.retrieval.index import FoundState
from yinyan.retrieval.node_columns import attribute_of
from yinyan.retrieval.questions import Questions
from yinyan.retrieval.state import AnswerState, Evidence

__all__ = ["NO_DRIFT", "LiveState", "Measured", "Served"]

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Served:
    """A model as it was saved, and what was made of it for serving."""

    path: Path
    fitted: Fitted
    fingerprint: str
    search: Search
    finder: IndexFinder

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""
        return self.fitted.graph.directed

    @functools.cached_property
    def base(self) -> Tensor | None:
        """(n, hidden) f of the nodes that the model was saved with, where a row of it follows from its own inputs."""
        base = self.fitted.encoder.base
        if not base.is_row_wise:
            return None
        return base.of_rows(feature_tensor(self.fitted.graph.features, torch.device("cpu")), base.table)

    @functools.cached_property
    def reference(self) -> Reference:
        """What edges that came after the fit are compared with."""
        return Reference(self.fitted)

    @functools.cached_property
    def silent(self) -> dict[int, list[int]]:
        """By row, the rows at the other ends of the model's edges that pass no messages."""
        found: dict[int, list[int]] = {}
        for a, b in np.delete(self.fitted.graph.edges, self.fitted.message_edges, axis=0).tolist():
            found.setdefault(a, []).append(b)
            found.setdefault(b, []).append(a)
        return found


class Measured(NamedTuple):
    """How far live rows were from those of a pass over the whole graph."""

    mean: float  # relative difference of a row
    largest: float
    overlap: float  # share of the ten best partners that both have, on a sample of nodes


NO_DRIFT = Measured(0.0, 0.0, 1.0)


class LiveState(AnswerState):
    """A model, its edges and nodes at one snapshot, and their embeddings: nothing here ever changes."""

    def __init__(
        self,
        served: Served,
        version: int,
        structure: Structure,
        found: FoundState,
        inputs: Inputs,
        measured: Measured = NO_DRIFT,
    ) -> None:
        """`version` is that of the last change it has seen; `measured` what the last pass over all rows found."""
        fitted = served.fitted
        self.graph, self.decoder, self.calibration = fitted.graph, fitted.model.decoder, fitted.calibration
        self.base_rate, self.missing_share = fitted.base_rate, fitted.missing_share
        self.served, self.version, self.structure = served, version, structure
        self.found, self.snapshot, self.inputs, self.measured = found, found.snapshot, inputs, measured

    @functools.cached_property
    def reranker(self) -> Reranker | None:  # type: ignore[override]
        """Over the edges of now; None where the model has none."""
        reranking = self.served.fitted.reranking
        return None if reranking is None else Reranker(reranking, LiveLists(self.structure, self.served.silent))

    @functools.cached_property
    def questions(self) -> Questions:
        """The questions, answered from this state."""
        return Questions(self)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return self.structure.num_nodes

    @property
    def num_links(self) -> int:
        """How many edges there are."""
        return self.structure.num_links

    @property
    def num_rejected(self) -> int:
        """How many pairs are never recommended."""
        return self.structure.num_rejected

    def of(self, relation: RelationName | None) -> LiveState:
        """What questions are answered from: this state; a relation is refused, there is one kind of edge."""
        if relation is not None:
            raise InputError(f"this model has one kind of edge, and no relation {relation!r}: leave 'relation' out")
        return self

    @property
    def drift(self) -> float:
        """Links that were added or removed since the model was fitted, as a share of those it had."""
        return self.structure.moved_links / max(1, self.graph.num_edges)

    @functools.cached_property
    def arrived(self) -> Drift | None:
        """How the latest edges since the fit differ from those of training, lists apart; None without any."""
        structure = self.structure
        pairs = [pair for pair in structure.recent if structure.has_link(*pair)]
        if not pairs:
            return None
        found = arrivals_of_rows(self.graph, np.array(pairs, dtype=np.int64))
        return drift_of(self.served.reference, found, with_lists=False, growth=self.drift)

    def rows(self, ids: Sequence[Id]) -> Rows:
        """The row of each node by id, or by a label that one node has."""
        if (typed := next((node for node in ids if isinstance(node, tuple)), None)) is not None:
            raise InputError(f"this model has one type of nodes: name them by id alone (got {typed!r})")
        return self.structure.names.rows_by_name(ids)

    def ids(self, rows: Rows) -> list[Id]:
        """The ids of some rows."""
        return self.structure.names.take(rows)

    def labels(self, rows: Rows) -> list[str | None] | None:
        """The labels of some rows; None where no node has one."""
        return self.structure.names.labels(rows)

    def column(self, name: str) -> Column:
        """One attribute of all nodes: degrees of now; nodes that came later have an id, a label and a degree."""
        names = self.structure.names
        return attribute_of(name, names.base, names.known, self.structure.degrees, names.newer.listed())

    def has_edge(self, a: int, b: int) -> bool:
        """Whether there is an edge from a to b."""
        return self.structure.has_link(a, b)

    def left_out(self, row: int, exclude_known: bool) -> Rows:
        """Rejected partners, and with them those that a node is linked to."""
        rejected = self.structure.rejected.of(row)
        if not exclude_known:
            return rejected
        linked = self.structure.out.of(row)
        return np.concatenate([rejected, linked]) if rejected.size else linked

    def vectors(self, rows: Rows) -> Tensor:
        """(len(rows), d) stored vectors."""
        return self.snapshot.gather(rows)

    def searched(self, sources: Rows, k: int, excluded: Excluded | None, pool: Rows | None) -> list[TopK]:
        """By the index, as it was when this state was made."""
        return self.found.found(sources, min(k, self.num_nodes), excluded, pool)

    def evidence(self) -> Evidence:
        """The encoder and all that it reads, with the rows of new nodes."""
        fitted = self.served.fitted
        encoder = our_encoder(with_table(fitted.model, self.inputs.table))
        features = feature_tensor(self.inputs.all_features(), torch.device("cpu"))
        return Evidence(encoder, features, messages_of(fitted, self.structure), fitted.seed, self._base(encoder))

    def _base(self, encoder: Encoder) -> Tensor | None:
        """(n, hidden) f of now: of nodes that are new, beside those of the model."""
        known, first = self.served.base, self.served.fitted.graph.num_nodes
        if known is None or self.num_nodes == first:
            return known
        features, table = stacked_features(self.inputs.features.listed()[1:]), encoder.base.table
        new = encoder.base.of_rows(
            feature_tensor(features, torch.device("cpu")), None if table is None else table[first:]
        )
        return torch.cat([known, new])
