"""A node with its edges and predicted links, drawn by the explorer's code in a page of one file."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.drawing.page import filled
from yinyan.errors import InputError
from yinyan.files import write_text
from yinyan.graph import Graph
from yinyan.graph.surroundings import edges_among, surroundings
from yinyan.results import Recommendations
from yinyan.retrieval.questions import Questions
from yinyan.text import counted

__all__ = ["NeighbourhoodDrawing", "draw_neighbourhood"]

_HEIGHT = 460  # pixels of the frame in a notebook

Rows = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class NeighbourhoodDrawing:
    """The drawing of a node's neighbourhood: a notebook shows it, and `save` writes it as a page.

    Examples
    --------
    >>> drawing = model.explore(0, k=3)
    >>> drawing.num_predicted
    3
    """

    name: str  # label or id of the node in the middle
    num_edges: int  # edges of that node
    num_predicted: int  # its predicted links
    content: dict[str, Any]  # what is drawn, as plain values

    def to_html(self) -> str:
        """Return the page: it needs a browser, and nothing from elsewhere.

        Returns
        -------
        str
            HTML with its data, its style and its script.

        Examples
        --------
        >>> model.explore(0, k=3).to_html().startswith("<!doctype html>")
        True
        """
        template = (files("yinyan.drawing") / "template.html").read_text(encoding="utf-8")
        return filled(template, self.name, self.content)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all.

        Parameters
        ----------
        path
            Name of the file.

        Raises
        ------
        StoreError
            If the file cannot be written.

        Examples
        --------
        >>> model.explore(0, k=3).save("neighbourhood.html")
        """
        write_text(path, self.to_html())

    def __repr__(self) -> str:
        edges, predicted = counted(self.num_edges, "edge"), counted(self.num_predicted, "predicted link")
        return f"{self.name}: {edges}, {predicted}; a notebook shows the drawing, save() writes it as a page"

    def _repr_html_(self) -> str:
        # a frame of its own keeps styles apart; without allow-same-origin its script reaches nothing of the notebook
        page = html.escape(self.to_html(), quote=True)
        style = f"width:100%;height:{_HEIGHT}px;box-sizing:border-box;border:1px solid #8a949f;border-radius:6px"
        name = html.escape(f"Neighbourhood of {self.name}", quote=True)
        return f'<iframe title="{name}" sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


def draw_neighbourhood(
    graph: Graph, questions: Questions, row: int, found: Recommendations, limit: int
) -> NeighbourhoodDrawing:
    """The drawing of a row with the links `found` for it, and with at most `limit` nodes of the graph."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 2:
        raise InputError(f"'limit' needs an integer of at least 2 (got {limit!r})")
    near = surroundings(row, limit, graph.neighbours, lambda other: int(graph.degrees[other]))
    rows = near[:, 0]
    ids = dict(zip(rows.tolist(), _ids(questions, rows), strict=True))
    labels = questions.state.labels(rows) or [None] * rows.size
    nodes = [
        {"id": ids[other], "label": label, "degree": int(graph.degrees[other]), "hop": hop}
        for (other, hop), label in zip(near.tolist(), labels, strict=True)
    ]
    own = [other for other, hop in near.tolist() if hop == 1]
    among = edges_among(rows, lambda other: _targets(graph, other), directed=graph.directed)
    content = {
        "nodes": nodes,
        "links": [[ids[a], ids[b]] for a, b in among],
        "predictions": _predictions(questions, row, found),
        "probabilities": [[ids[a], p] for a, p in zip(own, _chances(graph, questions, row, own), strict=True)],
        "base_rate": found.base_rate,
        "directed": graph.directed,
        "types": _types(questions),
    }
    name = nodes[0]["label"] or questions.state.ids(rows[:1])[0]
    return NeighbourhoodDrawing(str(name), nodes[0]["degree"], len(found), content)


def _targets(graph: Graph, row: int) -> Rows:
    """Targets of the edges of a row; of an undirected graph all neighbours."""
    if not graph.directed:
        return graph.neighbours(row)
    first, last = np.searchsorted(graph.edges[:, 0], [row, row + 1])
    return graph.edges[first:last, 1]


def _predictions(questions: Questions, row: int, found: Recommendations) -> list[dict[str, Any]]:
    """The links found, in the form of the service."""
    targets = questions.state.partner_rows(list(found.targets), np.array([row]))
    chances = [None] * len(found) if found.probabilities is None else found.probabilities.tolist()
    columns = (_ids(questions, targets), found.target_labels or [None] * len(found), found.scores.tolist(), chances)
    names, rows = ("target", "label", "score", "probability"), zip(*columns, strict=True)
    return [{**dict(zip(names, one, strict=True)), "rank": rank} for rank, one in enumerate(rows, 1)]


def _chances(graph: Graph, questions: Questions, row: int, others: list[int]) -> list[float]:
    """The probability of each edge of a row, in its own direction."""
    if not others:
        return []
    pairs = np.array([[row, other] for other in others], dtype=np.int64)
    if graph.directed:
        back = ~graph.has_edges(pairs)
        pairs[back] = pairs[back, ::-1]
    return questions.probabilities(questions.score_rows(pairs)).tolist()  # type: ignore[no-any-return]


def _ids(questions: Questions, rows: Rows) -> list[Any]:
    """Ids; with their types where a relation joins two types, since ids are unique per type."""
    ids, types = questions.state.ids(rows), questions.state.types(rows)
    if types is None or not _types(questions):
        return list(ids)
    return [[kind, value] for kind, value in zip(types, ids, strict=True)]


def _types(questions: Questions) -> list[str]:
    """The types that a relation joins, if there are two."""
    names = questions.state.names
    return [] if names is None or names.relation.is_within else list(names.kinds)
