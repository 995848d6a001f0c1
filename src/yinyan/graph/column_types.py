"""Columns of text: which texts mean a missing value, and which columns hold numbers, truth values or times."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["NA_VALUES", "is_text", "known_texts", "na_texts", "plain_text", "typed_column"]

NA_VALUES = (
    *("", "\\N", "NA", "N/A", "n/a", "na", "<NA>", "#N/A", "NaN", "nan", "NULL", "Null", "null"),
    *("None", "none", "-", "?"),
)
_DATES = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
_TYPES = (pa.int64(), pa.float64(), pa.bool_(), *_DATES)


def na_texts(na_values: Sequence[str] | None) -> tuple[str, ...]:
    """The texts that mean a missing value: the usual ones unless given."""
    return NA_VALUES if na_values is None else tuple(na_values)


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type are text, categories of text included."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text, or of what can be written as text, in one arrow type."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string())


def known_texts(column: pa.ChunkedArray, na_values: Sequence[str] = NA_VALUES) -> pa.ChunkedArray:
    """A column of text with null in place of texts that mean a missing value; other columns stay."""
    if not is_text(column.type):
        return column
    if pa.types.is_dictionary(column.type) or column.type == pa.string_view():
        column = plain_text(column)
    missing = pc.is_in(pc.utf8_trim_whitespace(column), value_set=pa.array(na_values, column.type), skip_nulls=True)
    return pc.if_else(missing, pa.scalar(None, column.type), column)


def typed_column(
    column: pa.ChunkedArray, na_values: Sequence[str] = NA_VALUES, *, dates_only: bool = False
) -> pa.ChunkedArray:
    """Turn a column of text into integers, numbers, booleans or times (or only times), if every known value is one."""
    if not is_text(column.type):
        return column
    known = known_texts(column, na_values)
    if known.null_count == len(known):
        return known
    trimmed = pc.utf8_trim_whitespace(known)
    for wanted in _DATES if dates_only else _TYPES:
        try:
            return trimmed.cast(wanted)
        except pa.ArrowInvalid:
            continue
    return known
