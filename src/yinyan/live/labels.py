"""Labels and attributes of nodes, from a table beside the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.columns import find_column
from yinyan.graph.tables import read_table
from yinyan.live.names import Labels

__all__ = ["read_labels"]

_ID_NAMES = ("id", "node", "node_id", "nodeid", "paper", "name")
_LABEL_NAMES = ("label", "title", "name", "text", "description")


def read_labels(graph: Graph, path: Path, id_column: str | None, label_column: str | None) -> Labels:
    """The table's rows by node; rows of nodes that the model does not know are left out."""
    table = read_table(path)
    names = table.column_names
    key = find_column(names, id_column, "id") if id_column is not None else _guessed(names, _ID_NAMES)
    said = find_column(names, label_column, "label") if label_column is not None else None
    if said is None:
        rest = [name for name in names if name != key]
        if not rest:
            raise InputError(f"'{path}' has one column, {key!r}: a table of labels needs an id and a label")
        said = _guessed(rest, _LABEL_NAMES)
    own = _own_ids(graph, table[key])
    rows = graph.ids.find(own) if own else np.empty(0, dtype=np.int64)
    if own and not (rows >= 0).any():
        raise InputError(f"no id in column {key!r} of '{path}' is a node of the model (name the column: --id-column)")
    place = np.full(graph.num_nodes, -1, dtype=np.int64)
    place[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    words = pc.cast(table[said], pa.large_string()).to_pylist()
    texts = [None if at < 0 or not words[at] else words[at] for at in place.tolist()]
    return Labels(texts, table.drop_columns([key]), place)


def _guessed(names: list[str], usual: tuple[str, ...]) -> str:
    by_fold = {name.casefold(): name for name in reversed(names)}
    return next((by_fold[word] for word in usual if word in by_fold), names[0])


def _own_ids(graph: Graph, column: pa.ChunkedArray) -> list[Any]:
    """A column's ids in the model's types: text from a CSV may mean an integer id."""
    values: list[Any] = column.to_pylist()
    if graph.ids.kind == "integer":
        return [int(v) if isinstance(v, str) and v.removeprefix("-").isdecimal() else v for v in values]
    if graph.ids.kind == "text":
        return [v if v is None or isinstance(v, str) else str(v) for v in values]
    return values
