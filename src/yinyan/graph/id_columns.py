"""Columns of node ids in arrow form: integers, text, or both under a tag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError

__all__ = ["Kind", "id_column", "plain_ids", "recode", "tag"]

Kind: TypeAlias = Literal["integer", "text", "mixed"]

_CURE = "cast the ids to integers or to text, or relabel the nodes"
_INT64 = range(-(2**63), 2**63)


def id_column(values: Any) -> tuple[pa.Array, Kind]:
    """Turn a column of ids into one arrow array in storage form; missing ids stay null."""
    if isinstance(values, pa.ChunkedArray):
        values = _one_array(values)
    if isinstance(values, pa.Array):
        return _from_arrow(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufcMm":
        return _from_arrow(pa.array(np.ascontiguousarray(values.reshape(-1))))
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return _from_arrow(_one_array(pa.chunked_array(values)))
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"expected a list or column of node ids (got {values!r})")
    return _from_python(values.reshape(-1).tolist() if isinstance(values, np.ndarray) else list(values))


def plain_ids(array: pa.Array, kind: Kind) -> list[Any]:
    """The Python ids behind an array in storage form."""
    values = array.to_pylist()
    if kind != "mixed":
        return list(values)
    return [None if v is None else (v[1:] if v[0] == "s" else int(v[1:])) for v in values]


def recode(array: pa.Array, kind: Kind, wanted: Kind) -> pa.Array:
    """Bring an array from one storage form into another; an id that has no such form becomes null."""
    if kind == wanted:
        return array
    stored = pa.int64() if wanted == "integer" else pa.large_string()
    if array.null_count == len(array):
        return pa.nulls(len(array), stored)
    if wanted == "mixed":
        mark = pa.scalar("i" if kind == "integer" else "s", pa.large_string())
        return pc.binary_join_element_wise(mark, array.cast(pa.large_string()), pa.scalar("", pa.large_string()))
    if kind == "mixed":
        plain = plain_ids(array, kind)
        if wanted == "text":
            return pa.array([v if isinstance(v, str) else None for v in plain], stored)
        return pa.array([v if isinstance(v, int) and v in _INT64 else None for v in plain], stored)
    return pa.nulls(len(array), stored)


def tag(spelling: pa.Array, is_text: pa.Array) -> pa.Array:
    """Mark each spelling as text (`s`) or integer (`i`)."""
    spelling = spelling.cast(pa.large_string())
    if spelling.null_count or is_text.null_count or is_text.type != pa.bool_():
        raise InputError("a table of mixed ids needs an id and true or false under 'is_text' in every row")
    numbers = spelling.filter(pc.invert(is_text))
    if not pc.all(pc.match_substring_regex(numbers, r"^(0|-?[1-9][0-9]*)$"), min_count=0).as_py():
        raise InputError("a table of mixed ids holds an integer id that is not spelled as one")
    marks = pc.if_else(is_text, pa.scalar("s", pa.large_string()), pa.scalar("i", pa.large_string()))
    return pc.binary_join_element_wise(marks, spelling, pa.scalar("", pa.large_string()))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """Join chunks; strings get 64-bit offsets first, so that more than 2 GiB of them fit."""
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _from_arrow(array: pa.Array) -> tuple[pa.Array, Kind]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_null(kind):
        return array.cast(pa.large_string()), "text"
    if pa.types.is_large_string(kind):
        return array, "text"
    if pa.types.is_string(kind) or kind == pa.string_view():
        return array.cast(pa.large_string()), "text"
    if pa.types.is_uint64(kind) and len(array) and (pc.max(array).as_py() or 0) not in _INT64:
        return recode(array, "integer", "mixed"), "mixed"
    if pa.types.is_integer(kind):
        return array.cast(pa.int64()), "integer"
    if pa.types.is_floating(kind):
        hint = " (an integer column with missing values becomes one in pandas: use 'Int64')"
        raise InputError(f"node ids are floating-point numbers{hint}: {_CURE}")
    raise InputError(f"node ids must be integers or text (got a column of type {kind}): {_CURE}")


def _from_python(values: list[Any]) -> tuple[pa.Array, Kind]:
    types = set(map(type, values)) - {type(None)}
    if not types <= {int, str}:
        values = [_plain(value) for value in values]
        types = set(map(type, values)) - {type(None)}
    try:
        if types == {int}:
            return pa.array(values, pa.int64()), "integer"
        if types <= {str}:
            return pa.array(values, pa.large_string()), "text"
        tagged = [v if v is None else (f"s{v}" if isinstance(v, str) else f"i{v}") for v in values]
        return pa.array(tagged, pa.large_string()), "mixed"
    except OverflowError:
        return pa.array([v if v is None else f"i{v}" for v in values], pa.large_string()), "mixed"
    except UnicodeEncodeError as error:
        text = error.object if types <= {str} else error.object[1:]
        raise InputError(
            f"id {text!r} holds a lone surrogate, which is not valid text: decode the input with its right encoding"
        ) from None


def _plain(value: Any) -> int | str | None:
    """One id as a Python int or str."""
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise InputError(f"node ids must be integers or text (got {value!r}, a {type(value).__name__}): {_CURE}")
