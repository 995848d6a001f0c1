"""Pairs of nodes from data frames and other tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from yinyan.errors import InputError
from yinyan.graph.columns import find_column, guess_edge_columns, has_edge_names
from yinyan.graph.id_columns import id_column, plain_ids
from yinyan.graph.ids import Id
from yinyan.graph.tables import open_table
from yinyan.text import listed

__all__ = ["is_frame", "pair_columns", "pairs_from_frame", "pairs_from_table"]

_LABEL = "the table of pairs"


def is_frame(source: Any) -> bool:
    """Whether an object holds named columns: a data frame, an arrow table or a dict of columns."""
    if isinstance(source, (str, bytes, np.ndarray)) or hasattr(source, "is_directed"):
        return False
    return isinstance(source, Mapping) or hasattr(source, "__arrow_c_stream__") or hasattr(source, "columns")


def pair_columns(names: Sequence[str], source: str | None = None, target: str | None = None) -> list[str]:
    """The two columns of pairs; those that are not named are guessed."""
    first = None if source is None else find_column(names, source, "source")
    second = None if target is None else find_column(names, target, "target")
    if first is None or second is None:
        guessed = [name for name in guess_edge_columns(names) if name not in (first, second)]
        first, second = first or guessed[0], second or guessed[-1]
    return [first, second]


def pairs_from_frame(frame: Any) -> list[tuple[Id, Id]]:
    """Pairs from a table of two columns, or of more with usual names such as source and target."""
    names = list(open_table(frame, label=_LABEL).names)
    if len(names) != 2 and not has_edge_names(names):
        raise InputError(
            f"a table of pairs needs two columns, or columns called 'source' and 'target' (got {listed(names)}): "
            "select two, for example frame[['a', 'b']]"
        )
    return pairs_from_table(frame, *(names if len(names) == 2 and not has_edge_names(names) else ()))


def pairs_from_table(
    table: Any, source: str | None = None, target: str | None = None, *, header: bool = True
) -> list[tuple[Id, Id]]:
    """Pairs from a file or frame; columns that are not named are guessed as those of an edge table."""
    opened = open_table(table, label=_LABEL, header=header)
    columns = pair_columns(list(opened.names), source, target)
    read = opened.origin.select(columns) if opened.is_empty else opened.read(columns)  # type: ignore[union-attr]
    first, second = (plain_ids(*id_column(read[name])) for name in columns)
    return list(zip(first, second, strict=True))
