"""What the service answers from: a model and its live graph at one snapshot."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.graph.features import stacked_features
from yinyan.graph.ids import Id
from yinyan.live.finder import IndexFinder
from yinyan.live.names import Labels
from yinyan.live.new_nodes import Inputs, with_table
from yinyan.live.renewal import messages_of
from yinyan.live.search import Search
from yinyan.live.structure import Structure
from yinyan.model.encoder import Encoder
from yinyan.model.fitted import Fitted, our_encoder
from yinyan.model.tensors import feature_tensor
from yinyan.progress import stage
from yinyan.retrieval.exact import Excluded, TopK
from yinyan.retrieval.questions import Questions
from yinyan.retrieval.snapshot import Snapshot
from yinyan.retrieval.state import AnswerState, Evidence
from yinyan.store import load_model, read_manifest

__all__ = ["LiveState", "Served", "model_fingerprint", "served_model"]

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Served:
    """A model as it was saved, and what was made of it for serving."""

    path: Path
    fitted: Fitted
    fingerprint: str
    labels: Labels | None
    search: Search
    finder: IndexFinder

    @functools.cached_property
    def base(self) -> Tensor | None:
        """(n, hidden) f of the nodes that the model was saved with, where a row of it follows from its own inputs."""
        base = self.fitted.encoder.base
        if not base.is_row_wise:
            return None
        return base.of_rows(feature_tensor(self.fitted.graph.features, torch.device("cpu")), base.table)


class LiveState(AnswerState):
    """A model, its edges and nodes at one snapshot, and their embeddings: nothing here ever changes."""

    def __init__(
        self, served: Served, version: int, structure: Structure, snapshot: Snapshot, inputs: Inputs, drift: float
    ) -> None:
        """`version` is that of the last change it has seen."""
        fitted = served.fitted
        self.graph, self.decoder, self.calibration = fitted.graph, fitted.model.decoder, fitted.calibration
        self.served, self.version, self.structure = served, version, structure
        self.snapshot, self.inputs, self.drift = snapshot, inputs, drift

    @functools.cached_property
    def questions(self) -> Questions:
        """The questions, answered from this state."""
        return Questions(self)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return self.structure.num_nodes

    def rows(self, ids: Sequence[Id]) -> Rows:
        """The row of each id."""
        return self.structure.names.rows(ids)

    def ids(self, rows: Rows) -> list[Id]:
        """The ids of some rows."""
        return self.structure.names.take(rows)

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

    def top_k(self, sources: Rows, k: int, excluded: Excluded, pool: Rows | None) -> list[TopK]:
        """By the index that follows the live graph."""
        return self.served.finder.top_k(sources, k, excluded, pool, self.num_nodes)

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
        features, table = stacked_features(self.inputs.features[1:]), encoder.base.table
        new = encoder.base.of_rows(
            feature_tensor(features, torch.device("cpu")), None if table is None else table[first:]
        )
        return torch.cat([known, new])


def served_model(
    path: Path,
    read_labels: Callable[[Fitted], Labels | None],
    finder: Callable[[Fitted], IndexFinder],
    tell: Callable[[str], None] = lambda text: None,
) -> Served:
    """Read a model, mapped from its files, and make what serving needs."""
    fingerprint = model_fingerprint(path)
    with stage(tell, f"reading the model '{path}'"):
        fitted, _ = load_model(path, torch.device("cpu"), mapped=True)
    if model_fingerprint(path) != fingerprint:  # another model was put in its place meanwhile
        return served_model(path, read_labels, finder, tell)
    labels = read_labels(fitted)
    search = Search(fitted.graph.ids, None if labels is None else labels.texts)
    return Served(path, fitted, fingerprint, labels, search, finder(fitted))


def model_fingerprint(path: Path) -> str:
    """A digest of the manifest, which holds digests of all files."""
    return hashlib.sha256(json.dumps(read_manifest(path), sort_keys=True).encode()).hexdigest()
