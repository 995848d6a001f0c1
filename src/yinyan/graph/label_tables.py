"""Labels and attributes of known nodes, from a table beside the graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from yinyan.errors import InputError
from yinyan.graph.attributes import Attributes, kept_attributes, stored_column
from yinyan.graph.column_types import NA_VALUES, typed_column
from yinyan.graph.columns import find_column, guess_column
from yinyan.graph.csv_files import CsvLayout
from yinyan.graph.ids import Ids
from yinyan.graph.labels import LABEL_NAMES, guess_label
from yinyan.graph.tables import TableSource, open_table
from yinyan.text import listed

__all__ = ["attribute_column", "attribute_names", "label_name", "read_attributes"]

Rows: TypeAlias = npt.NDArray[np.int64]
LabelChoice: TypeAlias = str | int | Literal[False] | None
AttributeChoice: TypeAlias = Sequence[str | int] | Literal[False] | None

_SAMPLE = 1_000  # rows by which the column of ids is found
_LEADING_ZERO = r"^\s*[-+]?0[0-9]"


def read_attributes(ids: Ids, source: Any, node_id: str | int | None, label: LabelChoice) -> Attributes:
    """The attributes of some nodes by a table of nodes; rows of other nodes are left out."""
    opened = open_table(source, label="the table of labels")
    names = list(opened.names)
    table = opened.read([name for name in names if name in _stored_names(opened)])
    key = _id_column(ids, table, opened.label) if node_id is None else find_column(names, node_id, "id")
    rest = {name: attribute_column(opened, table[name]) for name in table.column_names if name != key}
    if not rest:
        raise InputError(f"{opened.label} has one column, {key!r}: a table of labels needs an id and a label")
    chosen = label_name(rest, label, names)
    if chosen is not None and chosen not in rest:
        raise InputError(f"column {chosen!r} of {opened.label} holds no labels: choose one of {listed(list(rest))}")
    if chosen is None and label is None:  # a table that is given for its labels has some
        usual = [name for word in (*LABEL_NAMES, "text", "description") for name in rest if name.casefold() == word]
        chosen = (usual or list(rest))[0]
    rows = _find(ids, table[key])
    if not (rows >= 0).any():
        raise InputError(f"no id in column {key!r} of {opened.label} is a node (name the column: --id-column)")
    place = np.full(len(ids), -1, dtype=np.int64)
    place[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    kept, _ = kept_attributes(rest, chosen)
    if kept is None:
        raise InputError(f"{opened.label} has no column of text, numbers, truth values or times beside {key!r}")
    return kept.take(place)


def label_name(columns: dict[str, pa.ChunkedArray], label: LabelChoice, names: Sequence[str]) -> str | None:
    """The column of labels: as chosen by its name or position among all `names`, or guessed."""
    if label is None:
        return guess_label(columns)
    return None if label is False else find_column(names, label, "label")


def attribute_names(opened: TableSource, id_name: str, chosen: AttributeChoice, label: LabelChoice) -> list[str]:
    """Columns of a node table that are read as attributes."""
    names = [name for name in opened.names if name != id_name and name.strip()]
    named = [find_column(list(opened.names), label, "label")] if label is not None and label is not False else []
    if chosen is not None:
        found = [] if chosen is False else [find_column(list(opened.names), column, "attribute") for column in chosen]
        if id_name in (*found, *named):
            raise InputError(f"column {id_name!r} holds the node ids and is called 'id' in conditions: leave it out")
        named += found
    if chosen is None or label is None:  # a label is guessed from all columns
        named += _stored_names(opened)
    return [name for name in names if name in named]


def attribute_column(
    opened: TableSource, column: pa.ChunkedArray, na_values: Sequence[str] = NA_VALUES
) -> pa.ChunkedArray:
    """A column with its types: text of a CSV file that spells numbers is numbers, unless zeros lead them."""
    if not opened.is_text:
        return column
    typed = typed_column(column, na_values)
    if pa.types.is_integer(typed.type) and pc.any(pc.match_substring_regex(column, _LEADING_ZERO)).as_py():
        return column
    return typed


def _stored_names(opened: TableSource) -> set[str]:
    """Columns of a type that is kept; those of a text file may all be."""
    if isinstance(opened.origin, CsvLayout):
        return set(opened.names)
    schema = pq.read_schema(opened.origin) if isinstance(opened.origin, Path) else opened.origin.schema
    empty = {field.name: pa.chunked_array([], field.type) for field in schema if field.name in opened.names}
    return {name for name, column in empty.items() if stored_column(column) is not None}


def _id_column(ids: Ids, table: pa.Table, label: str) -> str:
    """The column whose values are ids of nodes, by its usual name or by its content."""
    usual = guess_column(table.column_names, "node id")
    few = table.slice(0, _SAMPLE)
    hits = {name: int((_find(ids, few[name]) >= 0).sum()) for name in table.column_names}
    if usual is not None and hits[usual]:
        return usual
    best = max(hits, key=lambda name: hits[name])
    if not hits[best] and usual is None and table.num_rows > _SAMPLE:
        return str(table.column_names[0])  # nodes of the graph may come later
    return best if hits[best] else usual or str(table.column_names[0])


def _find(ids: Ids, column: pa.ChunkedArray) -> Rows:
    """Rows of a column's ids: text may mean an integer id, and integers text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _find(ids, column.cast(kind.value_type))
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not text and not pa.types.is_integer(kind):
        return np.full(len(column), -1, dtype=np.int64)
    found = ids.find(column)
    if ids.kind == "text" and not text:
        return ids.find(column.cast(pa.large_string()))
    if text and ids.kind != "text":
        spelled = pc.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,17})$").fill_null(False)
        numbers = pc.if_else(spelled, column.cast(pa.large_string()), pa.scalar(None, pa.large_string()))
        found = np.where(found < 0, ids.find(numbers.cast(pa.int64())), found)
    return found
