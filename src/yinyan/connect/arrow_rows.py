"""Rows of Python objects as an Arrow table, block after block."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError

__all__ = ["arrow_table"]


def arrow_table(names: Sequence[str], blocks: Iterable[Sequence[Sequence[Any]]], what: str) -> pa.Table:
    """A table of blocks of rows; a column has one type, found in its values.

    `what` is where the rows come from, for messages.
    """
    repeated = next((name for name in names if list(names).count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{what}: the query returns two columns named {repeated!r}: rename one, with AS")
    parts = [_part(names, rows, what) for rows in blocks]
    if not parts:
        return pa.table({name: pa.nulls(0) for name in names})
    for name in names:
        kinds = {part.schema.field(name).type for part in parts}
        try:
            pa.unify_schemas([pa.schema([(name, kind)]) for kind in kinds], promote_options="permissive")
        except pa.ArrowException:
            raise _mixed(what, name) from None
    table = pa.concat_tables(parts, promote_options="permissive")
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            table = table.set_column(place, field.name, _plain_numbers(table[field.name]))
    return table


def _part(names: Sequence[str], rows: Sequence[Sequence[Any]], what: str) -> pa.Table:
    columns = {}
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        if any(isinstance(value, uuid.UUID) for value in values):
            values = tuple(None if value is None else str(value) for value in values)
        if any(hasattr(value, "to_native") for value in values):  # dates and times of Neo4j
            values = tuple(None if value is None else value.to_native() for value in values)
        if any(hasattr(value, "element_id") for value in values):
            raise InputError(f"{what}: column {name!r} holds nodes or relationships: return properties, as {name}.id")
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowException, OverflowError, TypeError):
            raise _mixed(what, name) from None
    return pa.table(columns)


def _plain_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimal numbers as integers where they are whole, else as floating point numbers."""
    if column.type.scale <= 0 or pc.all(pc.equal(column, pc.floor(column))).as_py():
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 64 bits
            pass
    return column.cast(pa.float64())


def _mixed(what: str, name: str) -> InputError:
    return InputError(
        f"{what}: column {name!r} holds values of several types: give it one in the query, as CAST({name} AS TEXT)"
    )
