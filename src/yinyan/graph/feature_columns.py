"""How one column of a node table becomes columns of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError
from yinyan.graph.column_plans import ColumnPlan, Kind, Outcome
from yinyan.graph.column_types import NA_VALUES, is_text, known_texts, plain_text, typed_column
from yinyan.graph.columns import says_identifier, says_time
from yinyan.graph.edge_lists import row_name
from yinyan.graph.ids import Ids
from yinyan.graph.token_columns import (
    MOST_CATEGORIES,
    find_separator,
    lists_in_text,
    plan_hashed,
    plan_tokens,
    token_codes,
)
from yinyan.text import counted

__all__ = ["column_block", "column_entries", "kind_in_words", "plan_column"]

Entries: TypeAlias = npt.NDArray[Any]

_FEW_ROWS = 20  # below, distinct integers are an identifier only if the name of the column says so
_NEARLY_UNIQUE = 0.95
_EVEN = 0.2  # largest distance of the values' distribution from an even one: serial numbers and random keys are even
_RECURRING = 5  # rows per distinct text, on average, from which on more texts than MOST_CATEGORIES are hashed
_LONG = 10  # numbers of a vector that is not taken for a list of tokens
_MOSTLY = 0.9
_WORDS = {
    **{"number": "numeric", "flag": "boolean", "category": "categorical"},
    **{"vector": "vector", "tokens": "multi-hot", "hashed": "hashed"},
}


def plan_column(name: str, column: pa.ChunkedArray, ids: Ids | None = None, *, asked: bool = False) -> Outcome:
    """Choose how to encode a column; one that was `asked` for by name may be an identifier or free text."""
    kind = _kind_of(column.type)
    if kind is None:
        return Outcome(None, f"values of type {column.type} are no features")
    if column.null_count == len(column):
        return Outcome(None, "no values")
    if kind == "category":
        return _plan_text(name, column, ids, asked=asked)
    if kind == "tokens" or (kind == "vector" and _are_token_numbers(column)):
        return plan_tokens(name, column, "", asked=asked)
    if kind == "vector":
        return _plan_vector(name, column, ids)
    values = _numbers(name, column, ids)
    if not asked and kind == "number" and not pa.types.is_temporal(column.type) and _is_identifier(name, values):
        return Outcome(
            None,
            "an identifier (whole numbers, nearly all different): name the column under feature_columns (--feature) to "
            "use it",
        )
    return _plan_number(name, values)


def kind_in_words(plan: ColumnPlan, kind: pa.DataType) -> str:
    """What a reader calls the features of a column of this type."""
    return "date" if plan.kind == "number" and pa.types.is_temporal(kind) else _WORDS[plan.kind]


def column_block(
    plan: ColumnPlan, column: pa.ChunkedArray, ids: Ids | None = None, na_values: Sequence[str] = NA_VALUES
) -> npt.NDArray[np.float32]:
    """Encode a column: (rows, plan.width)."""
    block = np.zeros((len(column), plan.width), dtype=np.float32)
    column = _known(plan, column, na_values)
    if plan.kind in ("tokens", "hashed"):
        block[token_codes(plan, _tokens(plan, column))] = 1
        return block
    if plan.kind == "category":
        codes = _codes(column, plan.categories)
        missing = column.is_null().to_numpy()
        known = np.flatnonzero(codes >= 0)
        block[known, codes[known]] = 1
    elif plan.kind == "vector":
        lists = lists_in_text(column) if plan.separator and is_text(column.type) else column
        missing, vectors = _vectors(plan.name, column if lists is None else lists, ids)
        if vectors.shape[1] != plan.size and len(vectors):
            raise InputError(f"column {plan.name!r} needs lists of {plan.size} numbers (got {vectors.shape[1]})")
        block[~missing, : plan.size] = vectors.reshape(-1, plan.size)
    else:
        values = _numbers(plan.name, typed_column(column, na_values), ids)
        missing = np.isnan(values)
        with np.errstate(over="ignore"):
            block[:, 0] = np.where(missing, 0.0, (values - plan.mean) / plan.scale)
        _refuse_infinite(plan.name, block[:, 0], ids)
    if plan.has_missing:
        block[:, plan.size] = missing
    return block


def column_entries(
    plan: ColumnPlan, column: pa.ChunkedArray, ids: Ids | None = None, na_values: Sequence[str] = NA_VALUES
) -> tuple[Entries, ...]:
    """Encode a column as the rows, columns and values of its nonzero entries."""
    column = _known(plan, column, na_values)
    if plan.kind in ("tokens", "hashed"):
        rows, codes = token_codes(plan, _tokens(plan, column))
        return rows, codes, np.ones(len(rows), dtype=np.float32)
    if plan.kind != "category":
        block = column_block(plan, column, ids, na_values)
        rows, columns = np.nonzero(block)
        return rows, columns, block[rows, columns]
    codes = _codes(column, plan.categories)  # without the zeros of a thousand categories
    if plan.has_missing:
        codes[column.is_null().to_numpy()] = plan.size
    rows = np.flatnonzero(codes >= 0)
    return rows, codes[rows], np.ones(len(rows), dtype=np.float32)


def _kind_of(kind: pa.DataType) -> Kind | None:
    types = pa.types
    if types.is_dictionary(kind):
        return "category" if _kind_of(kind.value_type) is not None else None
    if is_text(kind):
        return "category"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = kind.value_type
        if is_text(inner):
            return "tokens"
        return "vector" if types.is_boolean(inner) or _kind_of(inner) == "number" else None
    if types.is_boolean(kind):
        return "flag"
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)
    return "number" if number or types.is_temporal(kind) else None


def _plan_number(name: str, values: npt.NDArray[np.float64]) -> Outcome:
    missing = np.isnan(values)
    known, lost = values[~missing], int(missing.sum())
    if not len(known):
        return Outcome(None, "no values")
    low, high = float(known.min()), float(known.max())
    if low == high and not lost:
        return Outcome(None, "the same value in every row")
    if not (np.setdiff1d(known, [0.0, 1.0]).size):
        note = f"{counted(lost, 'missing value')} filled with 0 and marked in a further column" if lost else ""
        plan = ColumnPlan(name, "flag", has_missing=lost > 0)
        return Outcome(plan, note, int(known.sum()) + lost)
    size = max(abs(low), abs(high))  # so that squares stay finite
    mean = float((known / size).mean()) * size
    scale = float((known / size - mean / size).std()) * size or 1.0
    note = f"{counted(lost, 'missing value')} filled with the mean {mean:.4g} and marked in a further column"
    plan = ColumnPlan(name, "number", mean=mean, scale=scale, has_missing=lost > 0)
    return Outcome(plan, note if lost else "", len(values))


def _plan_text(name: str, column: pa.ChunkedArray, ids: Ids | None, *, asked: bool) -> Outcome:
    """Lists and tokens written as text, else categories, else words if asked for."""
    lists = lists_in_text(column)
    if lists is not None:
        outcome = plan_column(name, lists, ids, asked=asked)
        plan = outcome.plan
        return outcome if plan is None else outcome._replace(plan=replace(plan, separator="[]"))
    distinct = pc.unique(plain_text(column)).drop_null()
    most = max(2, min(MOST_CATEGORIES, len(column) // 2))
    separator = find_separator(column, spaces=len(distinct) > most)
    if separator is not None:
        return plan_tokens(name, column, separator, asked=asked)
    if len(distinct) <= most:
        return _plan_category(name, column, distinct)
    lost = column.null_count
    if len(column) - lost >= _RECURRING * len(distinct):
        return plan_hashed(name, len(distinct), lost, len(column))
    if asked:
        return plan_tokens(name, column, "words", asked=True)
    return Outcome(
        None,
        f"text with more than {most:,} distinct values (name the column under feature_columns, --feature, to use its "
        "words)",
    )


def _plan_category(name: str, column: pa.ChunkedArray, distinct: pa.Array) -> Outcome:
    if len(distinct) == 1 and not column.null_count:
        return Outcome(None, "the same value in every row")
    categories = tuple(sorted(distinct.to_pylist()))
    note = f"{counted(column.null_count, 'missing value')} in a category of their own" if column.null_count else ""
    plan = ColumnPlan(name, "category", len(categories), has_missing=column.null_count > 0, categories=categories)
    return Outcome(plan, note, len(column))


def _plan_vector(name: str, column: pa.ChunkedArray, ids: Ids | None) -> Outcome:
    missing, vectors = _vectors(name, column, ids)
    if not vectors.size:
        return Outcome(None, "lists without numbers")
    if not missing.any() and (vectors == vectors[0]).all():
        return Outcome(None, "the same value in every row")
    lost = int(missing.sum())
    note = f"{counted(lost, 'missing vector')} filled with zeros and marked in a further column" if lost else ""
    plan = ColumnPlan(name, "vector", vectors.shape[1], has_missing=lost > 0)
    return Outcome(plan, note, int(np.count_nonzero(vectors)) + lost)


def _are_token_numbers(column: pa.ChunkedArray) -> bool:
    """Whether lists hold whole numbers and differ in length: numbers of tokens, not vectors."""
    if pa.types.is_fixed_size_list(column.type) or not pa.types.is_integer(column.type.value_type):
        return False
    lengths = np.asarray(pc.list_value_length(column).drop_null(), dtype=np.int64)
    usual = int(np.bincount(lengths).argmax()) if len(lengths) else 0
    is_vector = usual >= _LONG and (lengths == usual).mean() >= _MOSTLY  # some of which are damaged
    return len(np.unique(lengths)) > 1 and not is_vector


def _is_identifier(name: str, values: npt.NDArray[np.float64]) -> bool:
    """Whether numbers only tell rows apart: whole, nearly all different, and named or spread as keys are."""
    known = values[~np.isnan(values)]
    if not len(known) or (known != np.floor(known)).any():
        return False
    distinct = np.unique(known)
    if len(distinct) < 2 or len(distinct) < _NEARLY_UNIQUE * len(known):
        return False
    if says_identifier(name):
        return len(distinct) > 2  # 0 and 1 are a truth value
    if len(known) < _FEW_ROWS or says_time(name):
        return False
    place = (distinct - distinct[0]) / (distinct[-1] - distinct[0])
    distance = np.abs(place - np.linspace(0, 1, len(distinct))).max()
    return bool(np.median(np.diff(distinct)) <= 2 or distance <= _EVEN)


def _known(plan: ColumnPlan, column: pa.ChunkedArray, na_values: Sequence[str]) -> pa.ChunkedArray:
    """A column with null for texts that mean a missing value, but for those that are categories of the plan."""
    kept = plan.categories if plan.kind == "category" else ()
    return known_texts(column, [text for text in na_values if text not in kept])


def _tokens(plan: ColumnPlan, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, refused unless it holds tokens."""
    kind = column.type
    if not (is_text(kind) or _kind_of(kind) in ("tokens", "vector") or pa.types.is_null(kind)):
        single = not plan.separator and pa.types.is_integer(kind)
        if not single:
            raise InputError(f"column {plan.name!r} needs text or lists of text (got {kind})")
        column = column.cast(pa.large_string())
    return column.cast(pa.large_string()) if pa.types.is_null(kind) else column


def _codes(column: pa.ChunkedArray, categories: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """The number of each value's category, -1 where it has none."""
    found = pc.index_in(plain_text(column), value_set=pa.array(categories, pa.large_string()), skip_nulls=True)
    return np.asarray(found.fill_null(-1).to_numpy(), dtype=np.int64)


def _numbers(name: str, column: pa.ChunkedArray, ids: Ids | None) -> npt.NDArray[np.float64]:
    """A column as numbers, NaN where they are missing; times in seconds."""
    kind = column.type
    if _kind_of(kind) not in ("number", "flag"):
        raise InputError(f"column {name!r} needs numbers (got {kind})")
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_temporal(kind):
        unit = pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us")
        unit = pa.duration("us") if pa.types.is_duration(kind) else unit
        column = pc.divide(column.cast(unit, safe=False).cast(pa.int64()).cast(pa.float64()), 1e6)
    values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    _refuse_infinite(name, values, ids)
    return values


def _vectors(
    name: str, column: pa.ChunkedArray, ids: Ids | None
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
    """Which rows are missing, and the vectors of the others."""
    if _kind_of(column.type) != "vector":
        raise InputError(f"column {name!r} needs lists of numbers (got {column.type})")
    missing = column.is_null().to_numpy()
    present = np.flatnonzero(~missing)
    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    lengths = pc.list_value_length(array).drop_null().to_numpy()
    size = int(lengths[0]) if len(lengths) else 0
    if (lengths != size).any():
        row = int(present[np.argmax(lengths != size)])
        raise InputError(f"column {name!r} has lists of different lengths, first at {_row_name(row, ids)}")
    flat = array.flatten()
    flat = flat.cast(pa.uint8()) if pa.types.is_boolean(flat.type) else flat
    with np.errstate(over="ignore"):
        values = np.asarray(flat.cast(pa.float64(), safe=False), dtype=np.float64).astype(np.float32)
    if not np.isfinite(values).all():
        place = int(np.argmax(~np.isfinite(values)))
        where = _row_name(int(present[place // size]), ids)
        raise InputError(f"column {name!r} holds a missing or infinite number at {where}, place {place % size}")
    return missing, values.reshape(len(present), size)


def _refuse_infinite(name: str, values: npt.NDArray[Any], ids: Ids | None) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        where = _row_name(int(np.argmax(infinite)), ids)
        raise InputError(f"column {name!r} is infinite or too large at {where}: mend it or leave it empty")


def _row_name(row: int, ids: Ids | None) -> str:
    return row_name(row) if ids is None else f"node {ids[row]!r}"
