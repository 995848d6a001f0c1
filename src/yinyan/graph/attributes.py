"""Attributes of nodes: columns of a node table that are kept to be shown and to be filtered by, a label among them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError
from yinyan.text import listed

__all__ = [
    "MOST_BYTES",
    "MOST_COLUMNS",
    "Attributes",
    "Column",
    "ColumnKind",
    "as_text",
    "attributes_of_rows",
    "comparable_column",
    "kept_attributes",
    "stored_column",
]

ColumnKind: TypeAlias = Literal["text", "number", "flag", "time"]
Rows: TypeAlias = npt.NDArray[np.int64]

MOST_COLUMNS = 64  # of a node table that are kept
MOST_BYTES = 256 << 20  # of memory that they take together
_TEXT = pa.large_string()
_CODED = pa.dictionary(pa.int32(), _TEXT)
_STORED = (_TEXT, _CODED, pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us"))


class Column(NamedTuple):
    """One attribute of all nodes, as arrays that can be compared at once."""

    kind: ColumnKind
    values: npt.NDArray[Any]  # (n,) numbers, truth values, microseconds since 1970, or places in `texts`
    missing: npt.NDArray[np.bool_]  # (n,)
    texts: pa.Array | None = None  # distinct values of a text column

    def value(self, row: int) -> Any:
        """The value of one node, None where it is missing; times in microseconds."""
        if self.missing[row]:
            return None
        return self.values[row].item() if self.texts is None else self.texts[int(self.values[row])].as_py()

    def extended(self, count: int) -> Column:
        """With `count` more nodes, whose values are missing."""
        more = np.zeros(count, dtype=self.values.dtype)
        missing = np.concatenate([self.missing, np.ones(count, dtype=np.bool_)])
        return Column(self.kind, np.concatenate([self.values, more]), missing, self.texts)


@dataclass(frozen=True, eq=False)
class Attributes:
    """Columns with one row per node: text, numbers, truth values and times."""

    table: pa.Table  # in the types of `stored_column`
    label: str | None = None  # the column that people call nodes by

    def __post_init__(self) -> None:
        if self.label is not None and self.label not in self.table.column_names:
            raise InputError(f"there is no label column {self.label!r} (the attributes are {listed(self.names)})")
        for field in self.table.schema:
            if field.type not in _STORED:
                raise InputError(f"attribute {field.name!r} needs text, numbers, truth values or times ({field.type})")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    @cached_property
    def labels(self) -> pa.Array | None:
        """(n,) texts, null where a node has none; None where no column is the label."""
        if self.label is None:
            return None
        texts = as_text(self.table[self.label]).combine_chunks()
        texts = pa.concat_arrays(texts.chunks) if isinstance(texts, pa.ChunkedArray) else texts
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, _TEXT), texts)

    def labels_of(self, rows: Rows) -> list[str | None] | None:
        """The labels of some rows; None where there are none at all."""
        return None if self.labels is None else list(self.labels.take(pa.array(rows)).to_pylist())

    def take(self, rows: Rows) -> Attributes:
        """The attributes of other rows, in their order; -1 stands for a node without any."""
        return Attributes(self.table.take(pa.array(rows, mask=rows < 0)), self.label)

    def shown(self, row: int) -> dict[str, Any]:
        """What is known of a node, as JSON has it; missing values are left out."""
        if not 0 <= row < len(self):
            return {}
        cells = self.table.slice(row, 1).to_pylist()[0]
        return {name: _plain(value) for name, value in cells.items() if value is not None}

    def column(self, name: str) -> Column:
        """A column in the form that filters compare; it is made once."""
        kept: dict[str, Column] = self.__dict__.setdefault("_columns", {})
        if name not in kept:
            kept[name] = comparable_column(self.table[name])
        return kept[name]


def comparable_column(column: pa.ChunkedArray) -> Column:
    """A stored column as arrays."""
    missing = column.is_null().to_numpy()
    kind = column.type
    if kind in (_TEXT, _CODED):
        coded = column.cast(_CODED) if kind == _CODED else column.dictionary_encode()
        joined = coded.unify_dictionaries().combine_chunks()
        joined = joined.chunk(0) if isinstance(joined, pa.ChunkedArray) and joined.num_chunks else joined
        if isinstance(joined, pa.ChunkedArray):  # no rows at all
            return Column("text", np.empty(0, np.int64), missing, pa.array([], _TEXT))
        return Column("text", joined.indices.fill_null(0).to_numpy().astype(np.int64), missing, joined.dictionary)
    if pa.types.is_timestamp(kind):
        return Column("time", column.cast(pa.int64()).fill_null(0).to_numpy(), missing)
    if pa.types.is_boolean(kind):
        return Column("flag", column.fill_null(False).to_numpy(), missing)
    values = column.fill_null(0).to_numpy()
    return Column("number", values, missing | np.isnan(values))


def stored_column(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """A column in a type that is kept; None for lists and other types that are not."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        return stored_column(column.cast(kind.value_type))
    if types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view():
        column = column.cast(_TEXT)
        coded = column.dictionary_encode()
        distinct = len(coded.unify_dictionaries().chunk(0).dictionary) if coded.num_chunks else 0
        return coded.cast(_CODED) if 2 * distinct <= len(column) else column
    if types.is_boolean(kind):
        return column
    if types.is_integer(kind):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 64 bits with a sign
            return column.cast(pa.float64(), safe=False)
    if types.is_floating(kind) or types.is_decimal(kind):
        return column.cast(pa.float64(), safe=False)
    if types.is_timestamp(kind) or types.is_date(kind):
        return column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.timestamp("us"))
    return None


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as text; lists have no such form."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    try:
        return column.cast(_TEXT)
    except pa.ArrowNotImplementedError:
        raise InputError(f"a column of labels needs text or numbers (got {kind})") from None


def kept_attributes(
    columns: Mapping[str, pa.ChunkedArray], label: str | None = None, named: Iterable[str] | None = None
) -> tuple[Attributes | None, list[str]]:
    """The columns that are kept, the label first, and notes on those that are not.

    Columns beyond `MOST_COLUMNS` and `MOST_BYTES` are left out, unless they are `named` by the caller.
    """
    order = sorted(columns, key=lambda name: name != label)
    asked = None if named is None else set(named)
    kept: dict[str, pa.ChunkedArray] = {}
    size, beyond, refused = 0, [], []
    for name in order:
        column = stored_column(as_text(columns[name]) if name == label else columns[name])
        if column is None:
            refused.append(name)
        elif column.null_count == len(column) and name != label and asked is None:
            continue
        elif asked is None and name != label and (len(kept) >= MOST_COLUMNS or size + column.nbytes > MOST_BYTES):
            beyond.append(name)
        else:
            kept[name] = column
            size += column.nbytes
    if asked is not None and refused:
        raise InputError(f"attributes need text, numbers, truth values or times: {listed(refused, 3)} holds none")
    notes = []
    if beyond:
        notes.append(
            f"attributes: {len(beyond):,} columns are not kept for filters ({listed(beyond, 3)}): the first "
            f"{MOST_COLUMNS} columns of up to {MOST_BYTES >> 20} MB are; name others with attributes= (--attribute)"
        )
    return (
        Attributes(pa.table({name: kept[name] for name in columns if name in kept}), label) if kept else None
    ), notes


def attributes_of_rows(records: Sequence[Mapping[str, Any]]) -> Attributes | None:
    """Attributes from one mapping per node; what is no text, number, truth value or time is left out."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name in dict.fromkeys(str(name) for record in records for name in record):
        try:
            column = pa.chunked_array([pa.array([record.get(name) for record in records])])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue  # values of several types are no column
        if stored_column(column) is not None:
            columns[name] = column
    return kept_attributes(columns)[0]


def _plain(value: Any) -> Any:
    """A cell of a table as JSON has it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)
