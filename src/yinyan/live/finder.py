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
from yinyan.retrieval.index import KINDS, FoundState, Index, build_index
from yinyan.retrieval.index_store import INDEX_FILE, load_index
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["IndexFinder", "finder_for"]

Rows = NDArray[np.int64]

_log = logging.getLogger("yinyan.service")

_MOVED = 0.01  # share of a row's length: a row that moved by less is found in the cell that it was put into
_CHURN = 0.1  # share of rows that changed since the build, from which on the index is built again


def finder_for(fitted: Fitted, kind: str, places: list[Path]) -> IndexFinder:
    """An index of this kind: the first that lies in one of the folders and fits the model, or a new one.

    A new one is left in the last folder, for the other processes of the service.
    """
    if kind not in KINDS:
        raise SettingsError(f"'index' needs to be one of {', '.join(KINDS)} (got {kind!r})")
    decoder, y = fitted.model.decoder, fitted.embeddings

    def build(embeddings: Any) -> Index:
        return build_index(fitted.graph, decoder, embeddings, kind=kind)

    for folder in places:
        if (folder / INDEX_FILE).is_file() and kind != "exact":
            try:
                found = load_index(folder, fitted.graph, decoder, y)
            except StoreError as error:
                _log.warning("the saved index is not used: %s", error)
                continue
            if kind in ("auto", found.metadata.kind):
                return IndexFinder(found, build)
    made = build(y)
    if len(places) > 1:
        made.save(places[-1])
    return IndexFinder(made, build)


class IndexFinder:
    """Asks an index, tells it of changed rows, and has it built again in the background when many have changed."""

    def __init__(self, index: Index, build: Callable[[Any], Index]) -> None:
        self._index, self._build = index, build
        self._fresh: Index | None = None  # built in the background, and not yet told what changed meanwhile
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
