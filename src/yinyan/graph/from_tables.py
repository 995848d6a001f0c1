"""Graphs from a table of edges and a table of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError
from yinyan.graph.column_report import ColumnReport, ColumnUse
from yinyan.graph.column_types import na_texts, typed_column
from yinyan.graph.columns import find_column, guess_column, guess_edge_columns, two_kinds
from yinyan.graph.edge_lists import Rows, Times, checked_times, checked_weights, merge_edges, row_name
from yinyan.graph.features import FeatureEncoder, fit_columns
from yinyan.graph.graph import Graph
from yinyan.graph.ids import Ids
from yinyan.graph.node_tables import NodeTable, id_values, prefixed, read_nodes, refuse_missing_ids
from yinyan.graph.table_options import TableOptions
from yinyan.graph.tables import TableSource, open_table
from yinyan.text import counted, listed

__all__ = ["EdgeRows", "Roles", "choose_roles", "edge_values", "graph_from_table", "open_with", "read_edges"]

_FEW_EDGES = 20  # below, sources and targets often share no id by chance
_ALMOST_NONE = 0.01  # share of ids on both sides that typing errors may explain


class Roles(NamedTuple):
    """The columns of the edge table, all by name."""

    source: str
    target: str
    weight: str | None
    time: str | None
    guessed: set[str]  # roles, not columns


class EdgeRows(NamedTuple):
    """The rows of the edge table that have both ends."""

    ids: Ids
    source: Rows
    target: Rows
    weights: npt.NDArray[np.float64] | None
    times: Times | None
    notes: list[str]
    uses: tuple[ColumnUse, ...]
    features: npt.NDArray[np.float32] | None = None  # (rows, c)
    encoder: FeatureEncoder | None = None  # of the edge features


def graph_from_table(edges: Any, options: TableOptions) -> Graph:
    """Build a graph from a table of edges and perhaps one of nodes; see `Graph.from_table`."""
    edges, nodes = options.sources(edges)
    opened = open_with(edges, options, "the edge table")
    roles = choose_roles(opened, options)
    read = read_edges(opened, roles, options)
    num_first = _first_side(read.ids, read.source, read.target) if options.bipartite else None
    table = NodeTable(read.ids)
    if nodes is not None:
        described = open_with(nodes, options, "the node table")
        table = read_nodes(described, read.ids, options, edges_label=opened.label)
    merged = merge_edges(
        *(read.source, read.target, len(table.ids)),
        weights=read.weights,
        times=read.times,
        features=read.features,
        directed=options.directed,
    )
    notes, uses, encoder = read.notes, read.uses, read.encoder
    del read
    pa.default_memory_pool().release_unused()  # what reading took, of a large table more than the graph
    sides = None if num_first is None else (np.arange(len(table.ids)) >= num_first).astype(np.int8)
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
        ColumnReport((*uses, *table.uses)),
        table.attributes,
        merged.features,
        encoder,
    )


def open_with(source: Any, options: TableOptions, label: str) -> TableSource:
    """A table of edges or of nodes, as the options say."""
    return open_table(
        source,
        header=options.header,
        delimiter=options.delimiter,
        encoding=options.encoding,
        label=label,
        na_values=na_texts(options.na_values),
    )


def choose_roles(opened: TableSource, options: TableOptions) -> Roles:
    """The columns of an edge table: as named, else guessed."""
    names = list(opened.names)
    given = {role: getattr(options, role) for role in ("source", "target", "weight", "time")}
    named = {role: column for role, column in given.items() if column is not None and column is not False}
    chosen = {role: find_column(names, column, role) for role, column in named.items()}
    source, target = chosen.get("source"), chosen.get("target")
    if source is None or target is None:
        first, second = guess_edge_columns(names)
        spare = [name for name in (first, second, *names) if name not in (source, target) and name.strip()]
        if target is None:
            target = second if second != source else spare[0]
        if source is None:
            source = first if first != target else spare[0]
    if source == target:
        raise InputError(f"source and target are the same column {source!r}: name two columns of {opened.label}")
    rest = [name for name in names if name not in (source, target)]
    weight = guess_column(rest, "weight") if given["weight"] is None else chosen.get("weight")
    time = guess_column(rest, "time") if given["time"] is None else chosen.get("time")
    return Roles(source, target, weight, time, {role for role, column in given.items() if column is None})


def read_edges(opened: TableSource, roles: Roles, options: TableOptions) -> EdgeRows:
    """The rows with both ends; the ids of both columns are numbered together."""
    asked, roles = _asked_features(opened, roles, options)
    named = {"source": roles.source, "target": roles.target, "weight": roles.weight, "time": roles.time}
    table = opened.read([name for name in (*named.values(), *asked) if name is not None])
    guessed = [f"{role} = {name!r}" for role, name in named.items() if role in roles.guessed and name is not None]
    notes = [f"columns: {', '.join(guessed)} (guessed)"] if guessed else []
    for end in (roles.source, roles.target):
        refuse_missing_ids(table[end], options, f"{opened.label}, column {end!r}")
    rows: Rows | None = None
    if table[roles.source].null_count or table[roles.target].null_count:
        whole = pc.and_(table[roles.source].is_valid(), table[roles.target].is_valid())
        rows = np.flatnonzero(whole.to_numpy())
        lost = table.num_rows - len(rows)
        if not len(rows):
            raise InputError(f"{opened.label} has no row with both a {roles.source!r} and a {roles.target!r}")
        notes.append(f"dropped {counted(lost, 'row')} of {opened.label} without both ends")
        table = table.filter(whole)

    def name_of(position: int) -> str:
        return row_name(position if rows is None else int(rows[position]))

    na_values = na_texts(options.na_values)
    weights = edge_values(table, opened, roles.weight, "weight", roles, notes, name_of, na_values)
    times = edge_values(table, opened, roles.time, "time", roles, notes, name_of, na_values)
    ends = [
        prefixed(id_values(table[name], options.id_type, f"{opened.label}, column {name!r}"), prefix)
        for name, prefix in zip((roles.source, roles.target), options.prefixes or ("", ""), strict=True)
    ]
    ids, (source, target) = Ids.encode(*ends)
    notes += _odd_ids(ids) if opened.is_text else []
    if not options.bipartite:
        notes += _bipartite_remark(roles, source, target)
    used = {**named, "weight": None if weights is None else roles.weight, "time": None if times is None else roles.time}
    features, encoder, more = _edge_features(table, asked, opened, na_values)
    notes += [f"edge features: {note}" for note in encoder.notes] if encoder is not None else []
    uses = tuple(more.get(use.column, use) for use in _uses(opened, roles, used))
    return EdgeRows(ids, source, target, weights, times, notes, uses, features, encoder)


def _asked_features(opened: TableSource, roles: Roles, options: TableOptions) -> tuple[list[str], Roles]:
    """The columns of edge features, and the roles of the others: what was guessed gives way."""
    names = list(opened.names)
    asked = list(dict.fromkeys(find_column(names, name, "edge feature") for name in options.edge_features or ()))
    for role in ("source", "target", "weight", "time"):
        name = getattr(roles, role)
        if name not in asked:
            continue
        if role in ("source", "target") or role not in roles.guessed:
            raise InputError(
                f"edge_features (--edge-feature): column {name!r} of {opened.label} is the {role} already: leave it "
                f"out, or name another column as {role}"
            )
        roles = roles._replace(weight=None) if role == "weight" else roles._replace(time=None)
    return asked, roles


def _edge_features(
    table: pa.Table, asked: Sequence[str], opened: TableSource, na_values: Sequence[str]
) -> tuple[npt.NDArray[np.float32] | None, FeatureEncoder | None, dict[str, ColumnUse]]:
    """The columns as a dense matrix, what made it, and what each column became."""
    if not asked:
        return None, None, {}
    typed = pa.table({n: typed_column(table[n], na_values, dates_only=not opened.is_text) for n in asked})
    encoder, uses = fit_columns(typed, list(asked), na_values=na_values)
    encoder = replace(encoder, sparse=False)
    if not encoder.num_columns:
        raise InputError(
            f"edge_features (--edge-feature): no column of {listed(asked)} can be used: each needs numbers or "
            "categories that differ between edges"
        )
    found = {use.column: use._replace(table=opened.label, role=_role(use)) for use in uses}
    return cast("npt.NDArray[np.float32]", encoder.transform(typed)), encoder, found


def _role(use: ColumnUse) -> str:
    return "edge feature" if use.role == "feature" else use.role


def edge_values(
    table: pa.Table,
    opened: TableSource,
    name: str | None,
    role: Literal["weight", "time"],
    roles: Roles,
    notes: list[str],
    name_of: Callable[[int], str],
    na_values: Sequence[str],
) -> Any:
    """The weights or times of the edges; a guessed column that holds neither is left alone."""
    if name is None:
        return None
    column = typed_column(table[name], na_values)
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
        seconds = pc.floor_temporal(column.cast(pa.timestamp("us")), unit="second")
        column = seconds.cast(pa.timestamp("s")).cast(pa.int64())
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    if role == "weight":
        return checked_weights(column.to_numpy(), name_of, what)
    return checked_times(column.to_numpy(), name_of, what)


def _uses(opened: TableSource, roles: Roles, used: Mapping[str, str | None]) -> tuple[ColumnUse, ...]:
    """What became of each column of the edge table, in its order."""
    role_of = {name: role for role, name in used.items() if name is not None}
    found = []
    for name in opened.names:
        role = role_of.get(name)
        if role is not None:
            note = "guessed" if role in roles.guessed else ""
        elif name in (roles.weight, roles.time):
            note = "holds no numbers"
        else:
            note = "no usual name of an edge column" if name.strip() else "no name"
        found.append(ColumnUse(opened.label, name, role or "dropped", note=note))
    return tuple(found)


def _bipartite_remark(roles: Roles, source: Rows, target: Rows) -> list[str]:
    """A question, if sources and targets seem to be two kinds of nodes: they share none, or their names say so."""
    kinds = two_kinds(roles.source, roles.target)
    if kinds is None and len(source) < _FEW_EDGES:
        return []
    count = int(source.max()) + 1  # the sources were numbered first
    shared = len(np.unique(target[target < count]))
    ends = min(count, len(np.unique(target)))
    what = f"columns {roles.source!r} and {roles.target!r}"
    if not shared:
        return [f"{what} share no id: is the graph bipartite? Then pass bipartite=True (--bipartite)"]
    if kinds is None and shared > _ALMOST_NONE * ends:
        return []
    first, second = (f"{kind}:" for kind in kinds or ("source", "target"))
    return [
        f"{what} share {counted(shared, 'id')} of {ends:,}: is the graph bipartite? Then pass bipartite=True and "
        f'prefixes=("{first}", "{second}") (--bipartite --prefixes {first},{second}) to keep equal ids apart'
    ]


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
