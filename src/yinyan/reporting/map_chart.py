"""The map of the embeddings as SVG text: nodes, known links and numbered predictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.reporting.canvas import as_svg, blank, figure_style
from yinyan.reporting.colours import COMMUNITY_COLOURS, INK, PAPER
from yinyan.reporting.curves import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import PathPatch

__all__ = ["MOST_NUMBERED", "embedding_map"]

MOST_NUMBERED = 30  # predictions drawn on a map: more would hide it
_MOST_MARKS = 3000  # points beyond which a layer becomes an image, to keep the file small
_MOST_LINES = 10_000
_MAP_WIDTH = 380.0
_DISC = 7.5  # radius of the disc that holds a rank
_OTHER = "#8d959e"


def embedding_map(
    points: ArrayLike,
    *,
    point_labels: ArrayLike | None = None,
    links: ArrayLike | None = None,
    predicted: ArrayLike | None = None,
    label: str,
) -> str:
    """Nodes as dots, some links as thin lines, predictions as dashed lines numbered by rank.

    The eight most frequent `point_labels` are coloured, the rest grey.
    """
    place, height = _on_canvas(np.asarray(points, dtype=np.float64))
    known, drawn = _pairs(links), _pairs(predicted)[:MOST_NUMBERED]
    with figure_style():
        figure, axes = blank(_MAP_WIDTH, height, bare=True)
        axes.set(xlim=(0, _MAP_WIDTH), ylim=(0, height))
        if len(known):
            _draw_links(axes, place[known])
        for colour, rows in _by_colour(point_labels, len(place)):
            _draw_nodes(axes, place[rows], colour, len(place))
        _draw_predictions(axes, place, drawn, height)
        return as_svg(figure, "map", label)


def _pairs(rows: ArrayLike | None) -> NDArray[np.int64]:
    return np.asarray([] if rows is None else rows, dtype=np.int64).reshape(-1, 2)


def _by_colour(labels: ArrayLike | None, n: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Rows by colour: the rare labels in grey first, then each frequent one."""
    if labels is None:
        yield COMMUNITY_COLOURS[0], np.arange(n)
        return
    _, inverse, counts = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    frequent = np.sort(np.argsort(-counts, kind="stable")[: len(COMMUNITY_COLOURS)])
    rest = np.flatnonzero(~np.isin(inverse, frequent))
    if rest.size:
        yield _OTHER, rest
    for value, colour in zip(frequent, COMMUNITY_COLOURS, strict=False):
        yield colour, np.flatnonzero(inverse == value)


def _draw_links(axes: Axes, segments: Floats) -> None:
    from matplotlib.collections import LineCollection

    if len(segments) <= _MOST_LINES:
        axes.add_patch(_one_path(segments, _OTHER, 0.5, 0.3))
        return
    alpha = max(0.3 * (_MOST_LINES / len(segments)) ** 0.5, 0.03)  # many lines add up
    axes.add_collection(
        LineCollection(list(segments), colors=_OTHER, linewidths=0.5, alpha=alpha, rasterized=True, zorder=1)
    )


def _draw_nodes(axes: Axes, centres: Floats, colour: str, num_nodes: int) -> None:
    size = float(np.clip(150 / np.sqrt(num_nodes), 1.2, 7.0))
    if num_nodes <= _MOST_MARKS:
        axes.add_patch(_one_path(np.stack([centres, centres], 1), colour, size, 0.85))
        return
    x, y = centres.T
    axes.plot(x, y, "o", color=colour, markersize=size, markeredgewidth=0, alpha=0.85, rasterized=True, zorder=1)


def _one_path(segments: Floats, colour: str, width: float, alpha: float) -> PathPatch:
    """Segments (s, 2, 2) as one path, a few bytes each; those without length are dots, by their round ends."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    path = Path(segments.reshape(-1, 2), np.tile([Path.MOVETO, Path.LINETO], len(segments)))
    path.should_simplify = False
    return PathPatch(path, edgecolor=colour, fill=False, linewidth=width, capstyle="round", alpha=alpha, zorder=1)


def _on_canvas(points: Floats) -> tuple[Floats, float]:
    """Points in units of the drawing, in proportion, and its height."""
    margin, tallest = 2 * _DISC, 1.15 * _MAP_WIDTH
    span = np.maximum(np.ptp(points, axis=0), 1e-12 * (1 + np.abs(points).max()))
    scale = min((_MAP_WIDTH - 2 * margin) / span[0], (tallest - 2 * margin) / span[1])
    height = max(float(span[1] * scale) + 2 * margin, _MAP_WIDTH / 2)
    middle = (points.max(0) + points.min(0)) / 2
    return (points - middle) * scale + np.array([_MAP_WIDTH, height]) / 2, height


def _draw_predictions(axes: Axes, place: Floats, predicted: NDArray[np.int64], height: float) -> None:
    """Dashed lines between ringed nodes, each with its rank in a disc where there is room."""
    ends = place[predicted]  # (p, 2, 2)
    discs = _free_places(ends, height)
    for pair, disc in zip(ends, discs, strict=True):
        x, y = pair.T
        middle = pair.mean(0)
        axes.plot([middle[0], disc[0]], [middle[1], disc[1]], color=INK, linewidth=0.6, zorder=4)
        axes.plot(x, y, color=PAPER, linewidth=2.6, alpha=0.7, zorder=4)  # lifts the dashes off the dots
        axes.plot(x, y, color=INK, linewidth=1.3, linestyle=(0, (3, 2)), zorder=4)
        axes.plot(x, y, "o", markersize=5.5, color=INK, markerfacecolor="none", markeredgewidth=1.1, zorder=5)
    for rank, (x, y) in enumerate(discs, start=1):
        axes.plot([x], [y], "o", markersize=2 * _DISC + 1.6, color=PAPER, zorder=6)
        axes.plot([x], [y], "o", markersize=2 * _DISC, color=INK, zorder=6)
        axes.text(x, y, str(rank), color=PAPER, ha="center", va="center_baseline", fontsize=9, zorder=7)


def _free_places(ends: Floats, height: float) -> list[Floats]:
    """A place for each disc: nearest to its line's middle, clear of other discs and of the ringed nodes."""
    angles = np.arange(24) * (2 * np.pi / 24)
    ring = np.stack([np.cos(angles), np.sin(angles)], 1)
    nodes = ends.reshape(-1, 2)
    taken: list[Floats] = []
    for pair in ends:
        middle = pair.mean(0)
        rings = [middle + reach * _DISC * ring for reach in np.arange(1.6, 16, 0.7)]
        candidates = np.concatenate([middle[None], *rings])
        room = np.array([_MAP_WIDTH, height]) - _DISC - 1
        clear = ((candidates > _DISC + 1) & (candidates < room)).all(1)
        clear &= _apart(candidates, nodes) > _DISC + 4
        if taken:
            clear &= _apart(candidates, np.stack(taken)) > 2 * _DISC + 1
        taken.append(candidates[int(clear.argmax())])  # the middle itself, where nothing is clear
    return taken


def _apart(candidates: Floats, others: Floats) -> Floats:
    """Distance of each candidate to the nearest of the others."""
    nearest: Floats = np.linalg.norm(candidates[:, None] - others, axis=2).min(1)
    return nearest
