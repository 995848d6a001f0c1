"""Looking around: nodes by search, a node with its neighbours, a neighbourhood to draw, a map of all."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch

from yinyan.ids import Id
from yinyan.service.moment import Moment
from yinyan.service.names import IdKind

__all__ = ["Maps", "found_nodes", "neighbourhood", "node_page"]

_HUB = 2_000  # links of a node that are looked at for a drawing


def _card(moment: Moment, row: int, node: Id) -> dict[str, Any]:
    return {"id": node, "label": moment.structure.names.label(row), "degree": moment.structure.degree(row)}


def _cards(moment: Moment, rows: np.ndarray[Any, np.dtype[np.int64]]) -> list[dict[str, Any]]:
    ids = moment.structure.names.take(rows)
    return [_card(moment, row, node) for row, node in zip(rows.tolist(), ids, strict=True)]


def found_nodes(moment: Moment, query: str, limit: int) -> dict[str, Any]:
    """Nodes whose id or label begins with the query or is spelled alike; without one, those with most links."""
    structure = moment.structure
    if query:
        names = structure.names
        newer = [(row, value, names.label(row)) for row, value in enumerate(names.new_ids, len(names.base))]
        rows = np.array(moment.served.search.find(query, limit, newer), dtype=np.int64)
    else:
        degrees = structure.degrees
        rows = np.argsort(-degrees, kind="stable")[:limit]
    return {"nodes": _cards(moment, rows), "version": moment.version}


def node_page(moment: Moment, text: str, kind: IdKind, limit: int, offset: int) -> dict[str, Any]:
    """A node, what is known of it, and its neighbours page by page."""
    row = moment.structure.names.parsed(text, kind)
    near = moment.structure.neighbours(row)[offset : offset + limit]
    return {
        **_card(moment, row, moment.structure.names[row]),
        "attributes": moment.structure.names.attributes(row),
        "neighbours": _cards(moment, near),
        "version": moment.version,
    }


def neighbourhood(moment: Moment, text: str, kind: IdKind, limit: int) -> dict[str, Any]:
    """A node, its neighbours and, while there is room, theirs; and the links among them all."""
    structure = moment.structure
    start = structure.names.parsed(text, kind)
    hops = {start: 0}
    for hop in (1, 2):
        around = [structure.neighbours(row)[:_HUB] for row, at in hops.items() if at == hop - 1]
        fresh = np.unique(np.concatenate(around)) if around else np.empty(0, dtype=np.int64)
        fresh = fresh[[row not in hops for row in fresh.tolist()]] if fresh.size else fresh
        room = limit - len(hops)
        if fresh.size > room:  # those with most links tell most
            order = np.argsort([-structure.degree(row) for row in fresh.tolist()], kind="stable")
            fresh = np.sort(fresh[order[:room]])
        hops |= dict.fromkeys(fresh.tolist(), hop)
    rows = np.array(list(hops), dtype=np.int64)
    nodes = [{**card, "hop": hop} for card, hop in zip(_cards(moment, rows), hops.values(), strict=True)]
    ids = {row: node["id"] for row, node in zip(hops, nodes, strict=True)}
    within = np.sort(rows)
    links = []
    for row in rows.tolist():
        for other in np.intersect1d(structure.out.of(row), within).tolist():
            if structure.graph.directed or row < other:
                links.append([ids[row], ids[other]])
    return {"nodes": nodes, "links": links, "version": moment.version}


class Maps:
    """Two principal components of the embeddings; the last map is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: tuple[Moment, int, dict[str, Any]] | None = None

    def map(self, moment: Moment, limit: int) -> dict[str, Any]:
        """Up to `limit` nodes, evenly chosen, with their places."""
        with self._lock:
            if self._kept is None or self._kept[0] is not moment or self._kept[1] != limit:
                self._kept = (moment, limit, self._made(moment, limit))
            return self._kept[2]

    @torch.no_grad()
    def _made(self, moment: Moment, limit: int) -> dict[str, Any]:
        n, names = moment.structure.num_nodes, moment.structure.names
        rows = np.arange(n) if n <= limit else np.unique(np.linspace(0, n - 1, limit).astype(np.int64))
        size = moment.served.fitted.settings.encoder.hidden_size  # sketches beside it say nothing of likeness
        x = moment.vectors.take(rows)[:, :size].double()
        x -= x.mean(0)
        _, directions = torch.linalg.eigh(x.T @ x)
        axes = directions[:, [-1, -2]] if directions.shape[1] > 1 else directions[:, [-1, -1]]
        axes = axes * torch.where(axes.sum(0) < 0, -1.0, 1.0)  # a direction has two signs: always the same one
        points = (x @ axes).numpy().round(4)
        return {
            "ids": names.take(rows),
            "labels": [names.label(row) for row in rows.tolist()],
            "x": points[:, 0].tolist(),
            "y": points[:, 1].tolist(),
            "version": moment.version,
        }
