"""Looking around: nodes by search, a node with its neighbours, a neighbourhood to draw, a map of all."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from yinyan.graph.ids import Id
from yinyan.graph.surroundings import edges_among, surroundings
from yinyan.live.live_state import LiveState, Served
from yinyan.live.names import IdKind
from yinyan.live.typed_state import TypedServed, TypedState
from yinyan.reporting.content import context_edges, map_of, own_embeddings
from yinyan.reporting.embedding_map import EmbeddingMap
from yinyan.service import typed_browsing

__all__ = ["Maps", "found_nodes", "neighbourhood", "node_page"]


State = LiveState | TypedState


def _card(state: LiveState, row: int, node: Id) -> dict[str, Any]:
    return {"id": node, "label": state.structure.names.label(row), "degree": state.structure.degree(row)}


def _cards(state: LiveState, rows: np.ndarray[Any, np.dtype[np.int64]]) -> list[dict[str, Any]]:
    ids = state.structure.names.take(rows)
    return [_card(state, row, node) for row, node in zip(rows.tolist(), ids, strict=True)]


def found_nodes(
    state: State, query: str, limit: int, node_type: str | None = None, relation: str | None = None
) -> dict[str, Any]:
    """Nodes whose id or label begins with the query or is spelled alike; without one, those with most links."""
    if isinstance(state, TypedState):
        return typed_browsing.found_nodes(state, query, limit, node_type, relation)
    typed_browsing.refuse_types(node_type, relation)
    structure = state.structure
    if query:
        names = structure.names
        newer = [(row, value, names.label(row)) for row, value in enumerate(names.new_ids, len(names.base))]
        rows = np.array(state.served.search.find(query, limit, newer), dtype=np.int64)
    else:
        degrees = structure.degrees
        rows = np.argsort(-degrees, kind="stable")[:limit]
    return {"nodes": _cards(state, rows), "version": state.version}


def node_page(
    state: State,
    text: str,
    kind: IdKind,
    limit: int,
    offset: int,
    node_type: str | None = None,
    relation: str | None = None,
) -> dict[str, Any]:
    """A node, what is known of it, and its neighbours page by page."""
    if isinstance(state, TypedState):
        return typed_browsing.node_page(state, text, kind, node_type, relation, limit, offset)
    typed_browsing.refuse_types(node_type, relation)
    row = state.structure.names.parsed(text, kind)
    near = state.structure.neighbours(row)[offset : offset + limit]
    return {
        **_card(state, row, state.structure.names[row]),
        "attributes": state.structure.names.attributes(row),
        "neighbours": _cards(state, near),
        "version": state.version,
    }


def neighbourhood(
    state: State, text: str, kind: IdKind, limit: int, node_type: str | None = None, relation: str | None = None
) -> dict[str, Any]:
    """A node, its neighbours and, while there is room, theirs; and the links among them all."""
    if isinstance(state, TypedState):
        return typed_browsing.neighbourhood(state, text, kind, node_type, relation, limit)
    typed_browsing.refuse_types(node_type, relation)
    structure = state.structure
    near = surroundings(structure.names.parsed(text, kind), limit, structure.neighbours, structure.degree)
    rows = near[:, 0]
    nodes = [{**card, "hop": hop} for card, hop in zip(_cards(state, rows), near[:, 1].tolist(), strict=True)]
    ids = {row: node["id"] for row, node in zip(rows.tolist(), nodes, strict=True)}
    among = edges_among(rows, structure.out.of, directed=structure.graph.directed)
    return {"nodes": nodes, "links": [[ids[a], ids[b]] for a, b in among], "version": state.version}


class Maps:
    """Nodes on the map of the fitted model, where their embeddings of now put them; the last answer is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._layout: tuple[Served | TypedServed, EmbeddingMap] | None = None
        self._kept: tuple[State, int, dict[str, Any]] | None = None

    def map(self, state: State, limit: int) -> dict[str, Any]:
        """Up to `limit` nodes, evenly chosen, with their places."""
        with self._lock:
            if self._layout is None or self._layout[0] is not state.served:
                self._layout = (state.served, map_of(state.served.fitted))
            if self._kept is None or self._kept[0] is not state or self._kept[1] != limit:
                place = typed_browsing.placed if isinstance(state, TypedState) else _placed
                self._kept = (state, limit, place(state, self._layout[1], limit))  # type: ignore[arg-type]
            return self._kept[2]


def _placed(state: LiveState, layout: EmbeddingMap, limit: int) -> dict[str, Any]:
    structure, fitted = state.structure, state.served.fitted
    n, names = structure.num_nodes, structure.names
    rows = np.arange(n) if n <= limit else np.unique(np.linspace(0, n - 1, limit).astype(np.int64))
    points = layout.place(own_embeddings(fitted, state.vectors(rows))).round(4)
    return {
        "ids": names.take(rows),
        "labels": [names.label(row) for row in rows.tolist()],
        "x": points[:, 0].tolist(),
        "y": points[:, 1].tolist(),
        "edges": context_edges(structure.pairs(), rows, fitted.seed),
        "version": state.version,
    }
