"""What a question is answered from: a model and its graph as they stand at one moment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.fitting import Fitted
from yinyan.retrieval.exact import TopK
from yinyan.service.names import Labels
from yinyan.service.renewal import Inputs
from yinyan.service.search import Search
from yinyan.service.structure import Structure
from yinyan.service.vectors import Vectors
from yinyan.store import load_model, read_manifest

__all__ = ["Finder", "Moment", "Served", "model_fingerprint", "served_model"]

Rows = NDArray[np.int64]


class Finder(Protocol):
    """Names the best partners of a row."""

    def top_k(
        self, moment: Moment, sources: Sequence[int], k: int, excluded: Callable[[int], Rows], pool: Rows | None
    ) -> list[TopK]:
        """The k best rows of each source, best first, without those `excluded`; of `pool` (sorted) alone, if given."""
        ...

    def update(self, rows: Rows, vectors: Vectors) -> None:
        """Some rows have changed, or are new."""
        ...

    def describe(self) -> dict[str, Any]:
        """What kind of index this is."""
        ...


@dataclass(frozen=True, eq=False)
class Served:
    """A model as it was saved, and what was made of it for serving."""

    path: Path
    fitted: Fitted
    fingerprint: str
    labels: Labels | None
    search: Search
    finder: Finder


@dataclass(frozen=True, eq=False)
class Moment:
    """A model, the links and nodes of now, their embeddings: nothing here ever changes."""

    served: Served
    version: int  # of the last change it has seen
    structure: Structure
    vectors: Vectors
    inputs: Inputs
    drift: float = 0.0


def served_model(path: Path, read_labels: Callable[[Fitted], Labels | None], finder: Callable[..., Finder]) -> Served:
    """Read a model, mapped from its files, and make what serving needs."""
    fingerprint = model_fingerprint(path)
    fitted, _ = load_model(path, torch.device("cpu"), mapped=True)
    if model_fingerprint(path) != fingerprint:  # another model was put in its place meanwhile
        return served_model(path, read_labels, finder)
    labels = read_labels(fitted)
    search = Search(fitted.graph.ids, None if labels is None else labels.texts)
    return Served(path, fitted, fingerprint, labels, search, finder(fitted))


def model_fingerprint(path: Path) -> str:
    """A digest of the manifest, which holds digests of all files."""
    return hashlib.sha256(json.dumps(read_manifest(path), sort_keys=True).encode()).hexdigest()
