"""Graphs from a table of edges and a table of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError
from yinyan.graph.columns import find_column, guess_edge_columns, guess_time_column, guess_weight_column
from yinyan.graph.edge_lists import Rows, Times, checked_times, checked_weights, merge_edges, row_name
from yinyan.graph.graph import Graph
from yinyan.graph.ids import Ids
from yinyan.graph.node_tables import NodeTable, id_values, read_nodes
from yinyan.graph.table_options import TableOptions
from yinyan.graph.tables import TableSource, open_table, typed_column
from yinyan.text import counted

__all__ = ["graph_from_table"]


@dataclass(frozen=True)
class _Roles:
    """The columns of the edge table, all by name."""

    source: str
    target: str
    weight: str | None
    time: str | None
    guessed: frozenset[str]  # roles, not columns


@dataclass
class _EdgeColumns:
    """The rows of the edge table that have both ends."""

    source: Any
    target: Any
    weights: npt.NDArray[np.float64] | None
    times: Times | None
    notes: list[str]


def graph_from_table(edges: Any, options: TableOptions) -> Graph:
    """Build a graph from a table of edges and perhaps one of nodes; see `Graph.from_table`."""
    opened = _open(edges, options, "the edge table")
    roles = _choose_roles(opened, options)
    read = _read_edges(opened, roles, options)
    notes = read.notes
    ids, (source, target) = Ids.encode(read.source, read.target)
    read.source = read.target = None  # ten million strings
    notes += _odd_ids(ids) if opened.is_text else []
    num_first = _first_side(ids, source, target) if options.bipartite else None
    table = NodeTable(ids, None, None, ())
    if options.nodes is not None:
        described = _open(options.nodes, options, "the node table")
        table = read_nodes(described, ids, options, edges_label=opened.label)
    merged = merge_edges(
        source, target, len(table.ids), weights=read.weights, times=read.times, directed=options.directed
    )
    sides = None
    if num_first is not None:
        sides = (np.arange(len(table.ids)) >= num_first).astype(np.int8)
    return Graph(
        table.ids,
        merged.edges,
        merged.weights,
        merged.times,
        table.features,
        sides,
        options.directed,
        table.encoder,
        (*notes, *merged.notes, *table.notes),
    )


def _open(source: Any, options: TableOptions, label: str) -> TableSource:
    return open_table(
        source, header=options.header, delimiter=options.delimiter, encoding=options.encoding, label=label
    )


def _choose_roles(opened: TableSource, columns: TableOptions) -> _Roles:
    names, guessed = list(opened.names), set()
    source = None if columns.source is None else find_column(names, columns.source, "source")
    target = None if columns.target is None else find_column(names, columns.target, "target")
    if source is None or target is None:
        guesses = guess_edge_columns(names)
        spare = [name for name in (*guesses, *names) if name not in (source, target) and name.strip()]
        guessed |= {role for role, name in (("source", source), ("target", target)) if name is None}
        if source is None and target is None:
            source, target = guesses
        elif source is None:
            source = spare[0]
        else:
            target = guesses[1] if guesses[1] != source else spare[0]
    if source == target:
        raise InputError(f"source and target are the same column {source!r}: name two columns of {opened.label}")
    rest = [name for name in names if name not in (source, target)]
    chosen: list[str | None] = []
    for role, given, guess in (
        ("weight", columns.weight, guess_weight_column),
        ("time", columns.time, guess_time_column),
    ):
        name = None if given is False else guess(rest) if given is None else find_column(names, given, role)
        guessed |= {role} if given is None and name is not None else set()
        chosen.append(name)
    return _Roles(str(source), str(target), chosen[0], chosen[1], frozenset(guessed))


def _read_edges(opened: TableSource, roles: _Roles, options: TableOptions) -> _EdgeColumns:
    wanted = [name for name in (roles.source, roles.target, roles.weight, roles.time) if name is not None]
    table = opened.read(wanted)
    notes = _role_notes(roles)
    whole = pc.and_(table[roles.source].is_valid(), table[roles.target].is_valid())
    rows: Rows | None = None
    if table[roles.source].null_count or table[roles.target].null_count:
        rows = np.flatnonzero(whole.to_numpy())
        lost = table.num_rows - len(rows)
        if not len(rows):
            raise InputError(f"{opened.label} has no row with both a {roles.source!r} and a {roles.target!r}")
        notes.append(f"dropped {counted(lost, 'row')} of {opened.label} without both ends")
        table = table.filter(whole)

    def name_of(position: int) -> str:
        return row_name(position if rows is None else int(rows[position]))

    weights = _values(table, opened, roles.weight, "weight", roles, notes, name_of)
    times = _values(table, opened, roles.time, "time", roles, notes, name_of)
    prefixes = options.prefixes or ("", "")
    ends = [
        _prefixed(id_values(table[name], options.id_type, f"{opened.label}, column {name!r}"), prefix)
        for name, prefix in zip((roles.source, roles.target), prefixes, strict=True)
    ]
    return _EdgeColumns(ends[0], ends[1], weights, times, notes)


def _role_notes(roles: _Roles) -> list[str]:
    named = {"source": roles.source, "target": roles.target, "weight": roles.weight, "time": roles.time}
    guessed = [f"{role} = {name!r}" for role, name in named.items() if role in roles.guessed]
    return [f"columns: {', '.join(guessed)} (guessed)"] if guessed else []


def _values(
    table: pa.Table,
    opened: TableSource,
    name: str | None,
    role: Literal["weight", "time"],
    roles: _Roles,
    notes: list[str],
    name_of: Callable[[int], str],
) -> Any:
    """The weights or times of the edges; a guessed column that holds neither is left alone."""
    if name is None:
        return None
    column = typed_column(table[name])
    kind = column.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    dated = role == "time" and (pa.types.is_date(kind) or pa.types.is_timestamp(kind))
    what = f"{opened.label}: {role} {name!r}"
    if not number and not dated:
        if role in roles.guessed:
            notes.append(f"{opened.label}: column {name!r} holds no numbers and is not used as {role}")
            return None
        raise InputError(f"{what} needs numbers{' or dates like 2024-05-31' if role == 'time' else ''} (got {kind})")
    if column.null_count:
        position = int(np.argmax(column.is_null().to_numpy()))
        raise InputError(f"{what} is missing in {name_of(position)}: fill it in, or pass {role}=False (--no-{role})")
    if dated:
        column = (
            pc.floor_temporal(column.cast(pa.timestamp("us")), unit="second").cast(pa.timestamp("s")).cast(pa.int64())
        )
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    if role == "weight":
        return checked_weights(column.to_numpy(), name_of, what)
    return checked_times(column.to_numpy(), name_of, what)


def _prefixed(column: pa.ChunkedArray, prefix: str) -> pa.ChunkedArray:
    if not prefix:
        return column
    text = column.cast(pa.large_string())
    return pc.binary_join_element_wise(pa.scalar(prefix, text.type), text, pa.scalar("", text.type))


def _first_side(ids: Ids, source: Rows, target: Rows) -> int:
    """How many nodes side 0 has: the sources were numbered first."""
    count = int(source.max()) + 1
    both = np.unique(target[target < count])
    if len(both):
        named = ", ".join(repr(value) for value in ids.take(both[:3]))
        raise InputError(
            f"{counted(len(both), 'id')} on both sides of the bipartite graph "
            f"({named}{', ...' if len(both) > 3 else ''}): "
            'pass prefixes=("user:", "item:") (--prefixes) to make the ids of the two sides different'
        )
    return count


def _odd_ids(ids: Ids) -> list[str]:
    """A note on ids with spaces around them, which look like others but are not."""
    column = ids.to_arrow()["id"]
    if not ids.is_text:
        return []
    odd = pc.sum(pc.not_equal(column, pc.utf8_trim_whitespace(column))).as_py() or 0
    return [f"spaces before or after ids are kept ({counted(odd, 'id')})"] if odd else []
