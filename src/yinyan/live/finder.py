"""The best partners of a row, by an index that follows the live graph."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import SettingsError, StoreError
from yinyan.model.fitted import Fitted
from yinyan.progress import stage
from yinyan.retrieval.budgets import Budget
from yinyan.retrieval.building import EXACT_BELOW, KINDS, build_index
from yinyan.retrieval.index import FoundState, Index
from yinyan.retrieval.index_store import index_file, load_index
from yinyan.retrieval.metadata import IndexMetadata
from yinyan.retrieval.relation_names import RelationNames
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["IndexFinder", "finder_for"]

Rows = NDArray[np.int64]

_log = logging.getLogger("yinyan.service")

_MOVED = 0.01  # share of a row's length: a row that moved by less is found in the cell that it was put into
_CHURN = 0.1  # share of rows that changed since the build, from which on the index is built again


def finder_for(
    fitted: Fitted,
    kind: str,
    places: list[Path],
    *,
    names: RelationNames | None = None,
    recall: float | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> IndexFinder:
    """An index of this kind and recall: the first that lies in one of the folders and fits the model, or a new one.

    Of a relation it has the `names` of its nodes and a file of its own.
    A new one is kept in the first folder that can be written to, for the next start and for other processes.
    """
    if kind not in KINDS:
        raise SettingsError(f"'index' needs to be one of {', '.join(KINDS)} (got {kind!r})")
    budget = Budget() if recall is None else Budget(recall=recall)
    decoder, y = fitted.model.decoder, fitted.embeddings

    def build(embeddings: Any, say: Callable[[str], None] = lambda text: None) -> Index:
        made = build_index(fitted.graph, decoder, embeddings, kind=kind, budget=budget, tell=say)
        return made if names is None else made._of_relation(names)

    file = index_file(names)

    for folder in places if kind != "exact" else []:
        if (folder / file).is_file():
            try:
                found = load_index(folder, fitted.graph, decoder, y, names)
            except StoreError as error:
                _log.warning("the saved index is not used: %s", error)
                continue
            unfit = _unfit(found.metadata, kind, recall)
            if unfit is None:
                tell(f"the index in '{folder / file}' is used")
                return IndexFinder(found, build)
            tell(f"the index in '{folder / file}' is not used: {unfit}")
    if names is not None and kind in ("auto", "exact") and fitted.graph.num_nodes < EXACT_BELOW:
        return IndexFinder(build(y), build)  # of many relations none is worth a line
    of_relation = "" if names is None else f" of relation {names.relation.name!r}"
    with stage(tell, f"building an index{of_relation} (kind {kind}, recall {budget.recall:g})") as say:
        made = build(y, say)
    if made.metadata.effort is not None or made.metadata.note is not None:  # others are made at once
        tell(_kept(made, places, file))
    return IndexFinder(made, build)


def _unfit(found: IndexMetadata, kind: str, recall: float | None) -> str | None:
    """Why a saved index is not the one that is asked for."""
    if kind not in ("auto", found.kind):
        return f"its kind is {found.kind}, and {kind} was asked for"
    if recall is not None and found.asked_recall != recall:
        return f"it was built for a recall of {found.asked_recall}, and {recall:g} was asked for"
    return None


def _kept(made: Index, places: list[Path], file: str) -> str:
    """Save an index in the first folder that takes it, and say where."""
    reasons = []
    for folder in places:
        try:
            made.save(folder)
        except StoreError as error:
            reasons.append(str(error))
            continue
        return f"the index is kept in '{folder / file}': the next start reads it"
    return f"the index is not kept, and the next start builds it again: {'; '.join(reasons) or 'no folder was given'}"


class IndexFinder:
    """Asks an index, tells it of changed rows, and has it built again in the background when many have changed."""

    def __init__(self, index: Index, build: Callable[[Any], Index]) -> None:
        self._index, self._build = index, build
        self._fresh: Index | None = None  # built in the background, and without what has changed meanwhile
        self._missed: list[Rows] = []
        self._builder: threading.Thread | None = None

    def __str__(self) -> str:
        return str(self._index.metadata)

    @property
    def state(self) -> FoundState:
        """Rows and search of now; nothing in it changes afterwards."""
        return self._index._state

    @property
    def snapshot(self) -> Snapshot:
        """The rows of now."""
        return self.state.snapshot

    def update(self, rows: Rows, values: Tensor) -> None:
        """Some rows; called by one thread, and readers see the old rows or the new ones."""
        if rows.size:
            self._index.update(rows, values)
            self._missed.append(rows)
            self._follow()

    def refresh(self, values: Tensor) -> None:
        """All rows anew; most of them hardly differ, and an index stays what it is for them."""
        self._index._refresh(values, _MOVED)
        self._missed = [np.arange(values.shape[0])]
        self._follow()

    def _follow(self) -> None:
        """Build the index again where much has changed, and take up one that was built."""
        fresh, self._fresh = self._fresh, None
        if self._builder is None:
            self._missed = []
            if self._index.churn > _CHURN:
                self._builder = threading.Thread(target=self._rebuild, args=(self.snapshot,), name="index", daemon=True)
                self._builder.start()
        elif fresh is not None:  # all that changed while it was built, in one step
            missed = np.unique(np.concatenate(self._missed))
            if missed.size == self.snapshot.num_rows:
                fresh._refresh(self.snapshot.merged(), _MOVED)
            else:
                fresh.update(missed, self.snapshot.gather(missed))
            self._index, self._missed, self._builder = fresh, [], None

    def describe(self) -> dict[str, Any]:
        """What is known of the index."""
        return {**self._index.metadata.to_dict(), "churn": self._index.churn}

    def _rebuild(self, rows: Snapshot) -> None:
        try:
            self._fresh = self._build(rows.merged())
        except Exception as error:  # the old one still answers
            _log.warning("the index could not be built again: %s", error)
