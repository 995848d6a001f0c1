"""Attributes of nodes that conditions can name: columns of the node table, and id, label and degree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from yinyan.graph import Graph
from yinyan.graph.attributes import Attributes, Column
from yinyan.graph.ids import Id, Ids

__all__ = ["ALWAYS", "attribute_names", "attribute_of", "graph_column", "graph_columns"]

ALWAYS = ("id", "label", "degree")  # a column of the node table with such a name is taken in its place, but for the id


def graph_columns(graph: Graph) -> list[str]:
    """The names of the attributes of a graph."""
    return attribute_names(graph.attributes)


def graph_column(graph: Graph, name: str) -> Column:
    """One attribute of all nodes of a graph."""
    return attribute_of(name, graph.ids, graph.attributes, graph.degrees)


def attribute_names(attributes: Attributes | None) -> list[str]:
    """The columns, and those that are always there."""
    return list(dict.fromkeys([*([] if attributes is None else attributes.names), *ALWAYS]))


def attribute_of(
    name: str,
    ids: Ids,
    attributes: Attributes | None,
    degrees: NDArray[np.int64],
    newer: Sequence[tuple[Id, str | None]] = (),
) -> Column:
    """One attribute of all nodes; `newer` has the id and the label of nodes that came after the others."""
    if name == "id":
        return _id_column(ids, [value for value, _ in newer])
    label = None if attributes is None else attributes.label
    if attributes is not None and name in attributes.names:
        column = attributes.column(name)
        return _with_texts(column, [text for _, text in newer]) if name == label else column.extended(len(newer))
    if name == "label":
        if attributes is not None and label is not None:
            return _with_texts(attributes.column(label), [text for _, text in newer])
        return _with_texts(_no_texts(len(ids)), [text for _, text in newer])
    return Column("number", degrees, np.zeros(degrees.size, dtype=np.bool_))


def _id_column(ids: Ids, newer: Sequence[Id]) -> Column:
    """Integer ids are numbers; text, and ids of both types, are text."""
    count = len(ids) + len(newer)
    present = np.zeros(count, dtype=np.bool_)
    stored = ids.to_arrow()["id"]
    if ids.kind == "integer" and all(isinstance(value, int) and abs(value) < 2**63 for value in newer):
        return Column("number", np.concatenate([stored.to_numpy(), np.array(newer, dtype=np.int64)]), present)
    texts = stored.cast(pa.large_string()).combine_chunks()
    texts = pa.concat_arrays(texts.chunks) if isinstance(texts, pa.ChunkedArray) else texts
    if newer:
        texts = pa.concat_arrays([texts, pa.array([str(value) for value in newer], pa.large_string())])
    return Column("text", np.arange(count), present, texts)


def _no_texts(count: int) -> Column:
    return Column("text", np.zeros(count, np.int64), np.ones(count, dtype=np.bool_), pa.array([], pa.large_string()))


def _with_texts(column: Column, more: Sequence[str | None]) -> Column:
    """A text column with further values."""
    if not more or column.texts is None:
        return column
    missing = np.array([text is None for text in more])
    values = np.concatenate([column.values, len(column.texts) + np.arange(len(more))])
    texts = pa.concat_arrays([column.texts, pa.array([text or "" for text in more], pa.large_string())])
    return Column("text", values, np.concatenate([column.missing, missing]), texts)
