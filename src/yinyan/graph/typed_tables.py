"""Graphs with relations from tables: one per relation, or one with a column of relations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from yinyan.errors import InputError
from yinyan.graph.column_report import ColumnReport, ColumnUse
from yinyan.graph.columns import find_column, guess_node_column, plain_name
from yinyan.graph.edge_lists import MergedEdges, Rows, merge_edges, row_name
from yinyan.graph.from_tables import EdgeRows, Roles, choose_roles, open_with, read_edges
from yinyan.graph.ids import Ids
from yinyan.graph.node_tables import NodeTable, id_values, read_nodes
from yinyan.graph.pair_tables import is_frame
from yinyan.graph.table_options import TableOptions
from yinyan.graph.tables import TableSource, open_table
from yinyan.graph.typed_graph import NodeType, Relation, TypedGraph
from yinyan.text import counted, listed

__all__ = ["ONE_TYPE", "TypedOptions", "graph_from_tables", "graph_from_triples", "named_relations"]

ONE_TYPE = "node"  # the type of all nodes where none is given
_MOST = 0.5  # share of the ids of a column that a type has if they are of this type
_SAMPLE = 1_000  # ids of a column that are looked for

Triple = tuple[str, str, str]


@dataclass(frozen=True)
class TypedOptions:
    """What the tables of a graph with relations are read with."""

    tables: TableOptions  # of every table: columns of the ends, weights and times, and how text files are read
    nodes: Mapping[str, Any] | None = None  # a table for each type
    relation: str | int | None = None  # the column of relations, where one table has them all
    directed: bool | Sequence[str] = False


@dataclass
class _Found:
    """One relation before its types are numbered."""

    name: str
    source: str
    target: str
    rows: EdgeRows


def graph_from_tables(edges: Any, options: TypedOptions) -> TypedGraph:
    """Build a graph with relations; see `Graph.from_tables`."""
    plain = options.tables
    if plain.edge_features is not None:
        raise InputError(
            "edge_features (--edge-feature) are for graphs without relations: leave them out, or read one relation "
            "alone with Graph.from_table"
        )
    described = {name: open_with(t, plain, f"the table of type {name!r}") for name, t in (options.nodes or {}).items()}
    known = {name: _ids_of(opened, plain) for name, opened in described.items()}
    found, notes, uses = [], list[str](), list[ColumnUse]()
    for key, opened, roles in _tables(edges, options):
        rows = read_edges(opened, roles, replace(plain, bipartite=True))  # no question whether it has two sides
        source, target = _types_of(key, roles, rows, known)
        found.append(_Found(key if isinstance(key, str) else key[1], source, target, rows))
        notes += [f"{opened.label}: {note}" for note in rows.notes]
        if options.relation is None or not uses:
            uses += rows.uses
    names = named_relations([(one.source, one.name, one.target) for one in found])
    ids, places = _numbered(found, known)
    kinds, more, beside = _described(described, ids, known, plain)
    directed = _directed(options.directed, names)
    relations = {}
    for one, name, (sources, targets) in zip(found, names, places, strict=True):
        sizes = len(kinds[one.source].ids), len(kinds[one.target].ids)
        merged = _merged(one, sources[one.rows.source], targets[one.rows.target], sizes, name in directed)
        is_directed = name in directed and one.source == one.target
        relations[name] = Relation(
            name, one.source, one.target, merged.edges, merged.weights, merged.times, is_directed
        )
        notes += [f"relation {name!r}: {note}" for note in merged.notes]
    return TypedGraph(kinds, relations, (*notes, *more), ColumnReport((*uses, *beside)))


def graph_from_triples(triples: Any, *, directed: bool | Sequence[str], id_type: Literal["keep", "text"]) -> TypedGraph:
    """Build a graph from triples of head, relation and tail; see `Graph.from_triples`."""
    if isinstance(triples, (list, tuple, np.ndarray)):
        rows = [tuple(row) for row in triples]
        wrong = next((row for row in rows if len(row) != 3), None)
        if wrong is not None or not rows:
            raise InputError(f"triples are (head, relation, tail) (got {'none' if wrong is None else repr(wrong)})")
        head, names, tail = zip(*rows, strict=True)
        triples = {"head": list(head), "relation": [str(name) for name in names], "tail": list(tail)}
    headed = is_frame(triples)
    delimiter = None if headed else "\t"
    plain = TableOptions(
        source=0, target=2, weight=False, time=False, id_type=id_type, header=headed, delimiter=delimiter
    )
    return graph_from_tables(triples, TypedOptions(plain, relation=1, directed=directed))


def named_relations(triples: Sequence[Triple]) -> list[str]:
    """A name for each relation: its own, or with its types where others have the same."""
    own = [name for _, name, _ in triples]
    names = [".".join(triple) if own.count(triple[1]) > 1 else triple[1] for triple in triples]
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        raise InputError(f"relation {again!r} is given twice: merge its tables")
    return names


def _tables(edges: Any, options: TypedOptions) -> Iterable[tuple[str | Triple, TableSource, Roles]]:
    """Each relation with its table and the roles of the columns."""
    if options.relation is not None:
        yield from _parts(edges, options)
        return
    if not isinstance(edges, Mapping) or not edges:
        raise InputError(
            "'edges' needs a table for each relation, such as {'buys': table}; of one table for all relations name "
            "the column of relations as well: relation='kind' (--relation kind)"
        )
    for key, table in edges.items():
        if not isinstance(key, str) and (not isinstance(key, tuple) or len(key) != 3):
            raise InputError(f"a relation is a name, or (source type, name, target type) (got {key!r})")
        name = key if isinstance(key, str) else " ".join(map(str, key))
        opened = open_with(table, options.tables, f"the table of relation {name!r}")
        yield key, opened, choose_roles(opened, options.tables)


def _parts(edges: Any, options: TypedOptions) -> Iterable[tuple[str, TableSource, Roles]]:
    """The rows of each relation of one table, in the order in which relations first occur."""
    opened = open_with(edges, options.tables, "the edge table")
    column = find_column(list(opened.names), options.relation, "relation")  # type: ignore[arg-type]
    rest = replace(opened, names=tuple(name for name in opened.names if name != column))
    roles = choose_roles(rest, _by_name(opened, options.tables))
    table = opened.read()
    names = table[column].cast(pa.large_string()).combine_chunks()
    if names.null_count:
        place = int(np.argmax(np.asarray(names.is_null())))
        raise InputError(f"{opened.label}, column {column!r}: the relation in {row_name(place)} is missing: fill it in")
    coded = names.dictionary_encode()
    places = coded.indices.to_numpy()
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(len(coded.dictionary) + 1))
    table = table.drop_columns([column]).take(pa.array(order))
    for number, name in enumerate(coded.dictionary.to_pylist()):
        part = table.slice(int(ends[number]), int(ends[number + 1] - ends[number]))
        yield name, open_table(part, label=f"relation {name!r} of {opened.label}"), roles


def _by_name(opened: TableSource, plain: TableOptions) -> TableOptions:
    """Columns by name: positions would be those of the table with its column of relations."""
    named: dict[str, Any] = {role: getattr(plain, role) for role in ("source", "target", "weight", "time")}
    for role, column in named.items():
        if column is not None and column is not False:
            named[role] = find_column(list(opened.names), column, role)
    return replace(plain, **named)


def _ids_of(opened: TableSource, plain: TableOptions) -> Ids:
    """The ids of a table of nodes, by the usual name of their column."""
    names = list(opened.names)
    column = guess_node_column(names) if plain.node_id is None else find_column(names, plain.node_id, "node id")
    values = id_values(opened.read([column])[column], plain.id_type, f"{opened.label}, column {column!r}")
    return Ids.encode(values.drop_null())[0]


def _types_of(key: str | Triple, roles: Roles, rows: EdgeRows, known: Mapping[str, Ids]) -> tuple[str, str]:
    """The types of both ends: as given, by the names of the columns, or by the ids that a type has."""
    if isinstance(key, tuple):
        return key[0], key[2]
    if len(known) < 2:
        only = next(iter(known), ONE_TYPE)
        return only, only
    return (
        _type_of(key, roles.source, rows.ids, rows.source, known),
        _type_of(key, roles.target, rows.ids, rows.target, known),
    )


def _type_of(name: str, column: str, ids: Ids, rows: Rows, known: Mapping[str, Ids]) -> str:
    plain = plain_name(column)
    by_name = [kind for kind in known if plain in {plain_name(kind) + end for end in ("", "id", "s", "key")}]
    sample = ids.take(np.unique(rows)[:_SAMPLE])
    shares = {kind: float((of.find(sample) >= 0).mean()) for kind, of in known.items()}
    by_ids = [kind for kind, share in shares.items() if share > _MOST]
    chosen = by_name or by_ids
    if len(chosen) != 1:
        raise InputError(
            f"relation {name!r}: the type of the nodes in column {column!r} is unknown (types: {listed(list(known))}): "
            f"name both types, edges={{('{next(iter(known))}', {name!r}, '{list(known)[-1]}'): table}}"
        )
    return chosen[0]


def _numbered(found: Sequence[_Found], known: Mapping[str, Ids]) -> tuple[dict[str, Ids], list[tuple[Rows, Rows]]]:
    """The ids of each type by first appearance, and for each relation the row of each id of its table, per end."""
    kinds = dict.fromkeys([*(kind for one in found for kind in (one.source, one.target)), *known])
    places: list[list[Rows]] = [[np.empty(0, np.int64)] * 2 for _ in found]
    numbered: dict[str, Ids] = {}
    for kind in kinds:
        ends = [(n, end) for n, one in enumerate(found) for end in (0, 1) if (one.source, one.target)[end] == kind]
        columns, chosen = [], []
        for n, end in ends:
            rows = found[n].rows
            used = np.unique(rows.target if end else rows.source)
            columns.append(rows.ids.take(used) if rows.ids.kind == "mixed" else _stored(rows.ids, used))
            chosen.append(used)
        _refuse_mixed(kind, found, ends)
        ids, parts = Ids.encode(*columns) if columns else (known.get(kind, Ids.integers(0)), [])
        numbered[kind] = ids
        for (n, end), used, part in zip(ends, chosen, parts, strict=True):
            place = np.full(len(found[n].rows.ids), -1, dtype=np.int64)
            place[used] = part
            places[n][end] = place
    return numbered, [(first, second) for first, second in places]


def _stored(ids: Ids, rows: Rows) -> Any:
    return ids.select(rows).to_arrow()["id"]


def _refuse_mixed(kind: str, found: Sequence[_Found], ends: Sequence[tuple[int, int]]) -> None:
    """Integers in one table and text in another would be different nodes."""
    by_kind = {found[n].rows.ids.kind: found[n].name for n, _ in ends}
    if {"integer", "text"} <= by_kind.keys():
        raise InputError(
            f"ids of type {kind!r} are integers in relation {by_kind['integer']!r} and text in relation "
            f'{by_kind["text"]!r}: pass id_type="text" (--id-type text) to compare them as text'
        )


def _described(
    opened: Mapping[str, TableSource], ids: Mapping[str, Ids], known: Mapping[str, Ids], plain: TableOptions
) -> tuple[dict[str, NodeType], list[str], list[ColumnUse]]:
    """Each type with its features and attributes."""
    kinds, notes, uses = {}, list[str](), list[ColumnUse]()
    for kind, own in ids.items():
        if kind not in opened:
            kinds[kind] = NodeType(own)
            continue
        table: NodeTable = read_nodes(
            opened[kind], own, replace(plain, nodes=opened[kind], bipartite=False), edges_label="the tables of edges"
        )
        kinds[kind] = NodeType(table.ids, table.features, table.encoder, table.attributes)
        notes += table.notes
        uses += table.uses
        if own is known.get(kind):
            notes.append(f"type {kind!r} is in no relation: {counted(len(own), 'node')} without an edge")
    return kinds, notes, uses


def _directed(given: bool | Sequence[str], names: Sequence[str]) -> set[str]:
    if isinstance(given, bool):
        return set(names) if given else set()
    chosen = {given} if isinstance(given, str) else set(given)
    unknown = chosen - set(names)
    if unknown:
        raise InputError(f"'directed' names {sorted(unknown)[0]!r}, which is no relation (relations: {listed(names)})")
    return chosen


def _merged(one: _Found, sources: Rows, targets: Rows, sizes: tuple[int, int], directed: bool) -> MergedEdges:
    """Sorted, distinct edges within the two types."""
    beside = {"weights": one.rows.weights, "times": one.rows.times}
    if one.source == one.target:
        return merge_edges(sources, targets, sizes[0], directed=directed, **beside)  # type: ignore[arg-type]
    merged = merge_edges(sources, targets + sizes[0], sum(sizes), directed=True, **beside)  # type: ignore[arg-type]
    return merged._replace(edges=merged.edges - np.array([0, sizes[0]]))
