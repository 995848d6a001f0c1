"""What nodes are called: ids of the model and of nodes that came later, and their labels and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import UnknownNodeError
from yinyan.graph.attributes import Attributes
from yinyan.graph.ids import Id, Ids, spelled_integer
from yinyan.graph.labels import LabelFinder, rows_by_name
from yinyan.retrieval.growing import GrowingList

__all__ = ["IdKind", "Lookup", "Names"]

Rows = NDArray[np.int64]
IdKind = Literal["auto", "text", "integer"]


class Lookup:
    """Rows of ids by their hashes, in two arrays: a few microseconds for any number of ids, and 16 bytes a node."""

    def __init__(self, ids: Ids) -> None:
        self.ids = ids
        hashes = np.fromiter(map(hash, ids.take(range(len(ids)))), dtype=np.int64, count=len(ids))
        self._rows = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._rows]

    def find(self, ids: Sequence[Id]) -> Rows:
        """The row of each id, or -1."""
        if not len(self.ids) or not len(ids):
            return np.full(len(ids), -1, dtype=np.int64)
        wanted = np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids))
        places = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
        rows = self._rows[places]
        for place, (known, value) in enumerate(zip(self.ids.take(rows), ids, strict=True)):
            if known != value:  # unknown, or two ids of one hash
                rows[place] = self.ids.find([value])[0] if self._hashes[places[place]] == wanted[place] else -1
        return rows


@dataclass(frozen=True)
class Names:
    """Ids in row order. New ones are appended to a store that later versions share; a version reads its own alone."""

    lookup: Lookup
    known: Attributes | None = None  # of the model's nodes, or of a table beside it
    finder: LabelFinder | None = None  # of their labels
    newer: GrowingList[tuple[Id, str | None]] = field(default_factory=GrowingList)  # id and label of later nodes
    _rows: dict[Id, int] = field(default_factory=dict)  # of those in the store, also of versions after this one

    @property
    def base(self) -> Ids:
        """The ids of the model."""
        return self.lookup.ids

    def __len__(self) -> int:
        return len(self.base) + self.num_new

    @property
    def num_new(self) -> int:
        """How many nodes came after the model."""
        return len(self.newer)

    @property
    def new_ids(self) -> list[Id]:
        """The ids of nodes that came after the model, in row order."""
        return [value for value, _ in self.newer.listed()]

    def find(self, ids: Sequence[Id]) -> Rows:
        """The row of each id, or -1."""
        found, count = self.lookup.find(ids), len(self)
        for place in np.flatnonzero(found < 0).tolist() if self.num_new else ():
            row = self._rows.get(ids[place], count)
            if row < count:  # what a later version has, this one does not
                found[place] = row
        return found

    def rows(self, ids: Sequence[Id]) -> Rows:
        """The row of each id; the first unknown one is refused by name."""
        found = self.find(ids)
        if (found < 0).any():
            return self.base.rows([ids[int(np.argmax(found < 0))]])  # which says what is wrong
        return found

    def row(self, value: Id) -> int:
        """The row of one id."""
        return int(self.rows([value])[0])

    def rows_by_name(self, names: Sequence[Id]) -> Rows:
        """The row of each node by id, or by a label that one node has."""
        return rows_by_name(names, self.find, self.base, self.__getitem__, self.label_finder)

    @cached_property
    def label_finder(self) -> LabelFinder | None:
        """What finds rows by label, those of nodes that came after the model included."""
        listed = enumerate(self.newer.listed(), len(self.base))
        newer = [(row, label) for row, (_, label) in listed if label]
        finder = self.finder or (LabelFinder(None) if newer else None)
        return finder if finder is None or not newer else finder.extended(newer)

    def parsed(self, text: str, kind: IdKind) -> int:
        """The row of a node in an address: an id as text, as an integer, or as whichever there is, else a label."""
        if kind == "text":
            return self.row(text)
        if kind == "integer":
            return self.row(_integer(text))
        if text in self:
            return self.row(text)
        try:
            number = _integer(text)
        except UnknownNodeError:
            number = None
        return int(self.rows_by_name([text if number is None or number not in self else number])[0])

    def __contains__(self, value: Id) -> bool:
        return bool(self.find([value])[0] >= 0)

    def take(self, rows: Rows) -> list[Id]:
        """The ids of some rows."""
        count = len(self.base)
        if not self.num_new or not (rows >= count).any():
            return self.base.take(rows)
        old = iter(self.base.take(rows[rows < count]))
        return [self.newer[row - count][0] if row >= count else next(old) for row in rows.tolist()]

    def __getitem__(self, row: int) -> Id:
        count = len(self.base)
        return self.newer[row - count][0] if row >= count else self.base[row]

    def label(self, row: int) -> str | None:
        """A node's label, if it has one."""
        if row >= len(self.base):
            return self.newer[row - len(self.base)][1]
        labels = None if self.known is None else self.known.labels
        return None if labels is None else labels[row].as_py()

    def labels(self, rows: Rows) -> list[str | None] | None:
        """The labels of some rows; None where no node has one."""
        if self.label_finder is None:
            return None
        count = len(self.base)
        known = None if self.known is None else self.known.labels_of(np.minimum(rows, count - 1))
        found = known or [None] * rows.size
        for place in np.flatnonzero(rows >= count).tolist():
            found[place] = self.newer[int(rows[place]) - count][1]
        return found

    def attributes(self, row: int) -> dict[str, Any]:
        """What the model, or the table of labels, has of a node."""
        return {} if self.known is None else self.known.shown(row)

    def extended(self, ids: Sequence[Id], labels: Sequence[str | None]) -> Names:
        """With more nodes, whose ids are not here yet and are distinct."""
        newer = self.newer.extended(list(zip(ids, labels, strict=True)))
        rows = self._rows
        if len(rows) != self.num_new:  # another version was appended to, and abandoned or kept: its rows stay its own
            rows = {value: row for row, value in enumerate(self.new_ids, len(self.base))}
        rows.update((value, row) for row, value in enumerate(ids, len(self)))
        return Names(self.lookup, self.known, self.finder, newer, rows)


def _integer(text: str) -> int:
    number = spelled_integer(text)
    if number is None:
        raise UnknownNodeError(f"{text[:80]!r} spells no integer id (leave kind=integer out, or pass kind=text)")
    return number
