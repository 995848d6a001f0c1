"""What nodes are called: ids of the model and of nodes that came later, and their labels and attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph.ids import Id, Ids

__all__ = ["IdKind", "Labels", "Lookup", "Names"]

Rows = NDArray[np.int64]
IdKind = Literal["auto", "text", "integer"]


@dataclass(frozen=True)
class Labels:
    """A table beside the model: a label for each node that has one, and columns to show."""

    texts: Sequence[str | None]  # one a row of the model
    attributes: pa.Table | None = None
    place: NDArray[np.int64] | None = None  # of each row in `attributes`, or -1

    def shown(self, row: int) -> dict[str, Any]:
        """What the table says of a node."""
        if self.attributes is None or self.place is None or row >= self.place.size or self.place[row] < 0:
            return {}
        cells = self.attributes.slice(int(self.place[row]), 1).to_pylist()[0]
        return {name: _plain(value) for name, value in cells.items()}


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
    """Ids in row order; like all parts of a snapshot it never changes."""

    lookup: Lookup
    labels: Labels | None = None
    new_ids: tuple[Id, ...] = ()
    new_labels: Mapping[int, str] = field(default_factory=dict)  # by row
    new_rows: Mapping[Id, int] = field(default_factory=dict)

    @property
    def base(self) -> Ids:
        """The ids of the model."""
        return self.lookup.ids

    def __len__(self) -> int:
        return len(self.base) + len(self.new_ids)

    def rows(self, ids: Sequence[Id]) -> Rows:
        """The row of each id; the first unknown one is refused by name."""
        found = self.lookup.find(ids)
        for place in np.flatnonzero(found < 0).tolist():
            row = self.new_rows.get(ids[place])
            if row is None:
                return self.base.rows([ids[place]])  # which says what is wrong
            found[place] = row
        return found

    def row(self, value: Id) -> int:
        """The row of one id."""
        return int(self.rows([value])[0])

    def parsed(self, text: str, kind: IdKind) -> int:
        """The row of an id in an address: as text, as an integer, or as whichever there is."""
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
        return self.row(text if number is None or number not in self else number)

    def __contains__(self, value: Id) -> bool:
        return value in self.new_rows or bool(self.lookup.find([value])[0] >= 0)

    def take(self, rows: Rows) -> list[Id]:
        """The ids of some rows."""
        count = len(self.base)
        if not self.new_ids or not (rows >= count).any():
            return self.base.take(rows)
        old = iter(self.base.take(rows[rows < count]))
        return [self.new_ids[row - count] if row >= count else next(old) for row in rows.tolist()]

    def __getitem__(self, row: int) -> Id:
        count = len(self.base)
        return self.new_ids[row - count] if row >= count else self.base[row]

    def label(self, row: int) -> str | None:
        """A node's label, if it has one."""
        if row >= len(self.base):
            return self.new_labels.get(row)
        return None if self.labels is None else self.labels.texts[row]

    def attributes(self, row: int) -> dict[str, Any]:
        """What the table of labels says of a node."""
        return {} if self.labels is None else self.labels.shown(row)

    def extended(self, ids: Sequence[Id], labels: Sequence[str | None]) -> Names:
        """With more nodes, whose ids are not here yet."""
        start = len(self)
        fresh = {value: start + place for place, value in enumerate(ids)}
        if len(fresh) != len(ids):
            twice = next(value for place, value in enumerate(ids) if value in ids[:place])
            raise InputError(f"id {twice!r} occurs more than once: node ids must be distinct")
        said = {start + place: label for place, label in enumerate(labels) if label is not None}
        return Names(
            self.lookup,
            self.labels,
            (*self.new_ids, *ids),
            {**self.new_labels, **said},
            {**self.new_rows, **fresh},
        )


def _plain(value: Any) -> Any:
    """A cell of a table as JSON has it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return str(value)


def _integer(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 4000 or str(int(text)) != text:
        raise UnknownNodeError(f"{text[:80]!r} spells no integer id (leave kind=integer out, or pass kind=text)")
    return int(text)
