"""Looking around a graph with relations: nodes of all types, and edges with their relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph.ids import spelled_integer
from yinyan.graph.surroundings import surroundings
from yinyan.live.names import IdKind
from yinyan.live.typed_state import TypedState
from yinyan.reporting.content import context_edges, own_embeddings, typed_pairs
from yinyan.reporting.embedding_map import EmbeddingMap

__all__ = ["found_nodes", "neighbourhood", "node_page", "placed", "refuse_types"]

Rows = NDArray[np.int64]


def found_nodes(state: TypedState, query: str, limit: int, kind: str | None, relation: str | None) -> dict[str, Any]:
    """Nodes of one type or of all, by the words or by their edges of one relation or of all."""
    graph, served = state.served.fitted.graph, state.served
    kinds = list(graph.nodes) if kind is None else [kind]
    number = _number(state, relation)
    for name in kinds:
        graph.type_of(name)  # an unknown one is refused
    if query:
        scored = [
            (score, graph.offsets[name] + row)
            for name in kinds
            for score, row in served.searches[name].scored(query, limit)
        ]
        rows = np.array([row for _, row in sorted(scored, key=lambda found: -found[0])][:limit], dtype=np.int64)
    else:
        degrees = served.neighbours.degrees(number)
        among = np.concatenate([graph.offsets[name] + np.arange(len(graph.nodes[name].ids)) for name in kinds])
        rows = among[np.argsort(-degrees[among], kind="stable")[:limit]]
    return {"nodes": _cards(state, rows, number), "version": state.version}


def node_page(
    state: TypedState, text: str, id_kind: IdKind, kind: str | None, relation: str | None, limit: int, offset: int
) -> dict[str, Any]:
    """A node, what is known of it, and the other ends of its edges page by page, each with its relation."""
    row, number = _parsed(state, text, id_kind, kind), _number(state, relation)
    near = state.served.neighbours.of(row, number)
    some = slice(offset, offset + limit)
    names = list(state.served.fitted.graph.relations)
    cards = _cards(state, near.rows[some], number)
    relations = [names[place] for place in near.relations[some].tolist()]
    return {
        **_cards(state, np.array([row]), number)[0],
        "attributes": state.served.names.attributes(row),
        "neighbours": [{**card, "relation": name} for card, name in zip(cards, relations, strict=True)],
        "version": state.version,
    }


def neighbourhood(
    state: TypedState, text: str, id_kind: IdKind, kind: str | None, relation: str | None, limit: int
) -> dict[str, Any]:
    """A node, its neighbours and, while there is room, theirs; and the edges among them all."""
    number, neighbours = _number(state, relation), state.served.neighbours
    degrees, start = neighbours.degrees(number), _parsed(state, text, id_kind, kind)
    near = surroundings(
        start, limit, lambda row: np.unique(neighbours.of(row, number).rows), lambda row: int(degrees[row])
    )
    rows = near[:, 0]
    place = {row: number for number, row in enumerate(rows.tolist())}
    nodes = [{**card, "hop": hop} for card, hop in zip(_cards(state, rows, number), near[:, 1].tolist(), strict=True)]
    names = list(state.served.fitted.graph.relations)
    ends: list[list[int]] = []
    relations: list[str] = []
    for row in rows.tolist():
        found = neighbours.of(row, number)
        kept = found.leaves & np.isin(found.rows, rows)
        ends += [[place[row], place[other]] for other in found.rows[kept].tolist()]
        relations += [names[each] for each in found.relations[kept].tolist()]
    links = [[nodes[a]["id"], nodes[b]["id"]] for a, b in ends]
    return {"nodes": nodes, "links": links, "ends": ends, "relations": relations, "version": state.version}


def placed(state: TypedState, layout: EmbeddingMap, limit: int) -> dict[str, Any]:
    """Up to `limit` nodes of all types on the map of the model."""
    fitted = state.served.fitted
    n = state.num_nodes
    rows = np.arange(n) if n <= limit else np.unique(np.linspace(0, n - 1, limit).astype(np.int64))
    points = layout.place(own_embeddings(fitted, state.vectors(rows))).round(4)
    names = state.served.names
    return {
        "ids": names.ids(rows),
        "labels": names.labels(rows),
        "types": names.types(rows),
        "x": points[:, 0].tolist(),
        "y": points[:, 1].tolist(),
        "edges": context_edges(typed_pairs(fitted.graph), rows, fitted.seed),
        "version": state.version,
    }


def _number(state: TypedState, relation: str | None) -> int | None:
    """The number of a relation; an unknown one is refused."""
    graph = state.served.fitted.graph
    return None if relation is None else list(graph.relations).index(graph.relation(relation).name)


def _cards(state: TypedState, rows: Rows, number: int | None) -> list[dict[str, Any]]:
    names, degrees = state.served.names, state.served.neighbours.degrees(number)
    columns = zip(names.graph.nodes_at(rows), names.labels(rows), degrees[rows].tolist(), strict=True)
    return [{"id": node, "type": kind, "label": label, "degree": degree} for (kind, node), label, degree in columns]


def _parsed(state: TypedState, text: str, id_kind: IdKind, kind: str | None) -> int:
    """The row of a node in an address: an id as text, as an integer, or as whichever there is, else a label."""
    graph, names = state.served.fitted.graph, state.served.names
    kinds: Sequence[str] = list(graph.nodes)
    if kind is not None:
        graph.type_of(kind)
        kinds = [kind]
    if id_kind == "text":
        return names.row_among(kinds, text)
    number = spelled_integer(text)
    if id_kind == "integer":
        if number is None:
            raise UnknownNodeError(f"{text[:80]!r} spells no integer id (leave kind=integer out, or pass kind=text)")
        return names.row_among(kinds, number)
    try:
        return names.row_among(kinds, text)
    except UnknownNodeError as error:
        if number is None:
            raise
        try:
            return names.row_among(kinds, number)
        except UnknownNodeError:
            raise error from None


def refuse_types(kind: str | None, relation: str | None) -> None:
    """Refuse a type or a relation where there are none."""
    for name, given in (("type", kind), ("relation", relation)):
        if given is not None:
            raise InputError(f"this model has one type of nodes and one kind of edge: leave {name!r} out")
