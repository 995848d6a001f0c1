"""A saved model, read for serving: with relations or without."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from yinyan.graph import Graph
from yinyan.live.finder import IndexFinder
from yinyan.live.live_state import Served
from yinyan.live.search import Search
from yinyan.live.typed_state import RelationFinders, TypedServed, without_labels
from yinyan.model.fitted import Fitted
from yinyan.model.typed_fitted import TypedFitted
from yinyan.progress import stage
from yinyan.retrieval.building import EXACT_BELOW
from yinyan.retrieval.relation_names import RelationNames
from yinyan.store import any_fitted_model, opened_model, read_manifest

__all__ = ["Finder", "model_fingerprint", "served_model"]

Finder = Callable[[Fitted, RelationNames | None], IndexFinder]


def served_model(
    path: Path,
    named: Callable[[Graph], Graph],
    finder: Finder,
    tell: Callable[[str], None] = lambda text: None,
    *,
    labels: bool = True,
) -> Served | TypedServed:
    """Read a model, mapped from its files, and make what serving needs.

    `named` gives the graph of a model without relations other labels; without `labels` one with relations has none.
    """
    with (
        stage(tell, f"reading the model '{path}'"),
        opened_model(path) as opened,
    ):  # one save, whatever is saved meanwhile
        fingerprint = _fingerprint_of(opened.manifest)
        fitted, _ = any_fitted_model(opened, torch.device("cpu"), mapped=True)
    if isinstance(fitted, TypedFitted):
        whole = fitted if labels else without_labels(fitted)
        relations = whole.graph.relations
        makers = {
            name: partial(finder, own, RelationNames(whole.graph, relations[name]))
            for name, own in whole.relations.items()
        }
        large = [name for name, own in whole.relations.items() if own.graph.num_nodes >= EXACT_BELOW]
        return TypedServed(path, whole, fingerprint, RelationFinders(makers, large))
    fitted = replace(fitted, graph=named(fitted.graph))
    known = fitted.graph.attributes
    search = Search(fitted.graph.ids, None if known is None or known.labels is None else known.labels.to_pylist())
    return Served(path, fitted, fingerprint, search, finder(fitted, None))


def model_fingerprint(path: Path) -> str:
    """A digest of the manifest, which holds digests of all files."""
    return _fingerprint_of(read_manifest(path))


def _fingerprint_of(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
