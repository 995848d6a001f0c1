"""The caller's opaque node ids, and the row numbers they stand for."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from os.path import commonprefix
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph.id_columns import Kind, id_column, plain_ids, recode, tag

__all__ = ["Id", "Ids", "Kind", "spelled_integer"]

Id: TypeAlias = int | str
Rows: TypeAlias = npt.NDArray[np.int64]

_FEW = 64  # up to here a binary search per id beats hashing every id of the graph
_ALL_CANDIDATES = 2_000  # up to here difflib may look at every id
_ALIKE = 0.5  # how alike two spellings must be, from 0 to 1
_WINDOW = 40  # neighbours in sort order that difflib looks at in larger graphs


class Ids:
    """Distinct ids in row order: `'007'`, `7` and `'7'` are three nodes.

    Integers are held as int64 and text as large_string. Ids of both types, or integers beyond int64,
    are held as tagged text (`i7`, `s7`) and decoded on the way out.
    """

    def __init__(self, array: pa.Array, kind: Kind) -> None:
        """Wrap an array of distinct ids that is already in storage form; use a named constructor instead."""
        self._array = array
        self._kind: Kind = kind

    @classmethod
    def from_values(cls, values: Iterable[Id] | pa.Array | pa.ChunkedArray | npt.NDArray[Any]) -> Ids:
        """Take distinct ids in order; a duplicate is refused by name."""
        array, kind = id_column(values)
        if array.null_count:
            row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise InputError(f"id number {row + 1:,} is missing: every node needs an id")
        _refuse_duplicates(array, kind)
        return cls(array, kind)

    @classmethod
    def integers(cls, count: int) -> Ids:
        """Make the ids 0, 1, ..., count - 1."""
        return cls(pa.array(np.arange(count, dtype=np.int64)), "integer")

    @classmethod
    def encode(cls, *columns: Any) -> tuple[Ids, list[Rows]]:
        """Number the distinct ids of some columns by first appearance, column after column; null gives -1."""
        parts = [id_column(column) for column in columns]
        kind = _common_kind([kind for array, kind in parts if array.null_count < len(array)])
        lengths = [len(array) for array, _ in parts]
        arrays = [recode(array, old, kind) for array, old in parts]
        del parts
        joined = pa.concat_arrays(arrays) if arrays else pa.array([], pa.int64())
        del arrays
        encoded = joined.dictionary_encode()  # one call: chunk by chunk is several times slower
        del joined
        indices = encoded.indices.fill_null(-1) if encoded.indices.null_count else encoded.indices
        rows = indices.to_numpy().astype(np.int64)
        return cls(encoded.dictionary, kind), np.split(rows, np.cumsum(lengths)[:-1])

    @property
    def kind(self) -> Kind:
        """What the ids are: `"integer"`, `"text"` or `"mixed"`."""
        return self._kind

    @property
    def is_text(self) -> bool:
        """Whether every id is text."""
        return self._kind == "text"

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, row: int) -> Id:
        value: Id = plain_ids(self._array.slice(range(len(self))[row], 1), self._kind)[0]
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return NotImplemented
        return bool(self._kind == other._kind and self._array.equals(other._array))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(repr(value) for value in self.take(range(min(3, len(self)))))
        return f"Ids({len(self):,} {self._kind}: {shown}{', ...' if len(self) > 3 else ''})"

    def take(self, rows: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[Id]:
        """Return the ids of some rows."""
        return plain_ids(self._array.take(pa.array(_checked_rows(rows, len(self)))), self._kind)

    def select(self, rows: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Ids:
        """Return these rows as ids of their own; a row given twice is refused."""
        array = self._array.take(pa.array(_checked_rows(rows, len(self))))
        _refuse_duplicates(array, self._kind)
        return Ids(array, self._kind)

    def find(self, ids: Iterable[Id] | pa.Array | pa.ChunkedArray | npt.NDArray[Any]) -> Rows:
        """Return the row of each id, or -1 where it is unknown."""
        return self._find(*id_column(ids))

    def _find(self, array: pa.Array, kind: Kind) -> Rows:
        wanted = recode(array, kind, self._kind)
        if len(wanted) == 0 or len(self) == 0:
            return np.full(len(wanted), -1, dtype=np.int64)
        if len(wanted) <= _FEW:
            return np.array([self._search(value) for value in wanted.to_pylist()], dtype=np.int64)
        found = pc.index_in(wanted, value_set=self._array, skip_nulls=True)
        return np.asarray(found.fill_null(-1).to_numpy(), dtype=np.int64)

    def rows(self, ids: Iterable[Id] | pa.Array | pa.ChunkedArray | npt.NDArray[Any]) -> Rows:
        """Return the row of each id; the first unknown one is refused by name."""
        array, kind = id_column(ids)
        found = self._find(array, kind)
        if (found < 0).any():
            value = plain_ids(array.slice(int(np.argmax(found < 0)), 1), kind)[0]
            raise UnknownNodeError(self.unknown(value))
        return found

    def row(self, value: Id) -> int:
        """Return the row of one id, or refuse it by name."""
        return int(self.rows([value])[0])

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, str, np.integer)):
            return False
        return bool(self.find([value])[0] >= 0)

    def parse(self, text: str) -> Id:
        """Return the id that some text means: that text if it is an id, else the integer it spells."""
        found = self.spelled(text)
        if found not in self:
            raise UnknownNodeError(self.unknown(text))
        return found

    def spelled(self, text: str) -> Id:
        """Return the integer that some text spells if that is an id and the text is none; else the text."""
        number = None if text in self else spelled_integer(text)
        return number if number is not None and number in self else text

    def nearest(self, value: Id, k: int = 3) -> list[Id]:
        """Return up to k ids spelled like this one, best first; in large graphs among a bounded choice.

        Ids that differ by case alone come first.
        """
        text = str(value)
        matcher = difflib.SequenceMatcher(b=text)
        scored: list[tuple[float, int, Id]] = [(1.0, len(text), candidate) for candidate in self._of_other_case(value)]
        known = {candidate for _, _, candidate in scored}
        for candidate in self._candidates(value):
            if candidate in known:
                continue
            matcher.set_seq1(str(candidate))
            if candidate != value and matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE:
                shared = commonprefix([text, str(candidate)])  # noqa: RUF071 - of text, not of paths
                scored.append((matcher.ratio(), len(shared), candidate))
        scored.sort(key=lambda entry: entry[:2], reverse=True)
        return [candidate for _, _, candidate in scored[:k]]

    def extended(self, values: Iterable[Id] | pa.Array | pa.ChunkedArray | npt.NDArray[Any]) -> Ids:
        """Return these ids followed by new ones; a value that is already here is refused."""
        return self.concat(Ids.from_values(values))

    def concat(self, other: Ids) -> Ids:
        """Return these ids followed by another set's; an id in both is refused."""
        if not len(self) or not len(other):
            return self if len(self) else other
        found = self._find(other._array, other._kind) >= 0
        if found.any():
            known = other[int(np.argmax(found))]
            raise InputError(f"node {known!r} is already in the graph: leave it out of the new ids")
        kind = _common_kind([self._kind, other._kind])
        parts = [recode(ids._array, ids._kind, kind) for ids in (self, other)]
        return Ids(pa.concat_arrays(parts), kind)

    def to_arrow(self) -> pa.Table:
        """Return a table that survives Parquet: column `id`, and `is_text` where the types are mixed."""
        if self._kind != "mixed":
            return pa.table({"id": self._array})
        return pa.table(
            {
                "id": pc.utf8_slice_codeunits(self._array, 1),
                "is_text": pc.starts_with(self._array, "s"),
            }
        )

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Ids:
        """Read back what `to_arrow` wrote."""
        if "id" not in table.column_names:
            raise InputError(f"a table of ids needs a column 'id' (got {', '.join(table.column_names)})")
        if "is_text" not in table.column_names:
            return cls.from_values(table["id"])
        tagged = tag(table["id"].combine_chunks(), table["is_text"].combine_chunks())
        _refuse_duplicates(tagged, "mixed")
        return cls(tagged, "mixed")

    @cached_property
    def _order(self) -> Rows:
        """The rows sorted by stored value (code points for text)."""
        if self._kind == "integer":
            return np.argsort(self._array.to_numpy(), kind="stable")
        return np.asarray(pc.sort_indices(self._array).to_numpy(), dtype=np.int64)

    def _place(self, stored: Any) -> int:
        """Where a stored value belongs in sort order."""
        return bisect_left(self._order, stored, key=lambda row: self._array[int(row)].as_py())

    def _search(self, stored: Any) -> int:
        if stored is None:
            return -1
        place = self._place(stored)
        if place == len(self):
            return -1
        row = int(self._order[place])
        return row if self._array[row].as_py() == stored else -1

    def _candidates(self, value: Id) -> list[Id]:
        """Ids to compare with an unknown one: all of a small graph, else those next to its prefixes."""
        if len(self) <= _ALL_CANDIDATES:
            return self.take(range(len(self)))
        places: set[int] = set(range(0, len(self), len(self) // 100))
        text = str(value)
        for end in range(len(text), 0, -1):
            for stored in self._stored_forms(text[:end]):
                place = self._place(stored)
                places.update(range(max(0, place - _WINDOW), min(len(self), place + _WINDOW)))
            if len(places) > _ALL_CANDIDATES:
                break
        return self.take(self._order[sorted(places)])

    def _of_other_case(self, value: Id) -> list[Id]:
        """Ids that are this text but for upper and lower case: one pass over all ids."""
        if self._kind == "integer" or not isinstance(value, str):
            return []
        wanted = pc.utf8_lower(pa.scalar(value if self._kind == "text" else f"s{value}", pa.large_string()))
        same = pc.equal(pc.utf8_lower(self._array), wanted).to_numpy(zero_copy_only=False)
        return [candidate for candidate in self.take(np.flatnonzero(same)[:_WINDOW]) if candidate != value]

    def _stored_forms(self, text: str) -> list[Any]:
        """How some text would be stored here, as text and as an integer."""
        number = spelled_integer(text)
        forms = [text] if number is None else [text, number]
        return list(recode(*id_column(forms), self._kind).drop_null().to_pylist())

    def unknown(self, value: Id | None, more: str = "") -> str:
        """The message for an id that is not here; `more` is said after the nearest ids."""
        if value is None:
            return "a node id is missing"
        name = f"node {value!r} is not in the graph"
        if isinstance(value, int) and str(value) in self:
            return f"{name}, but {str(value)!r} (text) is: ids read from CSV are text"
        number = spelled_integer(value) if isinstance(value, str) else None
        if number is not None and number in self:
            return f"{name}, but {number} (an integer) is: pass it without quotes"
        near = ", ".join(repr(candidate) for candidate in self.nearest(value))
        return f"{name} ({len(self):,} nodes{'; nearest: ' + near if near else ''}{more})"


def _common_kind(kinds: list[Kind]) -> Kind:
    return kinds[0] if len(set(kinds)) == 1 else ("mixed" if kinds else "text")


def _refuse_duplicates(array: pa.Array, kind: Kind) -> None:
    encoded = array.dictionary_encode()
    if len(encoded.dictionary) < len(array):
        repeated = encoded.indices.to_numpy() != np.arange(len(array))
        value = plain_ids(array.slice(int(np.argmax(repeated)), 1), kind)[0]
        raise InputError(f"id {value!r} occurs more than once: node ids must be distinct")


def spelled_integer(text: str) -> int | None:
    """The integer whose usual spelling is this text; `'007'` spells none."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 4000:
        return None
    return int(text) if str(int(text)) == text else None


def _checked_rows(rows: Sequence[int] | npt.NDArray[np.integer[Any]], count: int) -> Rows:
    """Rows as int64, each within 0..count-1."""
    array = np.asarray(rows, dtype=np.int64).reshape(-1)
    bad = (array < 0) | (array >= count)
    if bad.any():
        raise InputError(f"row {int(array[np.argmax(bad)])} is out of range (the graph has {count:,} nodes)")
    return array
