"""A picture of accuracy over time: one dot per method, two colours, labels that do not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Box = tuple[float, float, float, float]  # left, low, right, high

KINDS = {  # colour and legend
    "node-wise": ("#2f6690", "node-wise: two stored vectors"),
    "edge-wise": ("#c8553d", "edge-wise: the graph around each pair"),
    "heuristic": ("#7a7a7a", "heuristic: common neighbours"),
}
_TICKS = (20, 30, 40, 50, 60, 70, 80, 85, 90, 95)
_RADIUS = 5.0  # of a dot, in points
_FURTHEST = 13  # rings around a dot on which its label is looked for


class Dot(NamedTuple):
    """A method."""

    name: str
    microseconds: float
    hits: float  # per cent
    kind: str  # of KINDS
    ours: bool


def draw(path: Path, dots: Sequence[Dot]) -> None:
    """Write the picture; the vertical axis is stretched towards 100 %."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure = Figure(figsize=(9, 6.2), layout="constrained")
    FigureCanvasAgg(figure)  # it knows how large a label becomes
    axes = figure.subplots()
    for kind, (colour, name) in KINDS.items():
        chosen = [dot for dot in dots if dot.kind == kind]
        x, y = [dot.microseconds for dot in chosen], [dot.hits for dot in chosen]
        axes.scatter(x, y, s=[70 if dot.ours else 36 for dot in chosen], color=colour, label=name, zorder=3)
    axes.set_xscale("log")
    axes.set_yscale("function", functions=(_stretched, lambda z: 100 - 10 ** (-np.asarray(z))))
    lowest, highest = min(dot.hits for dot in dots), max(dot.hits for dot in dots)
    axes.set_ylim(lowest - 4, 100 - 0.85 * (100 - highest))
    axes.set_xlim(min(d.microseconds for d in dots) / 1.6, max(d.microseconds for d in dots) * 2.2)
    axes.yaxis.set_major_locator(FixedLocator([t for t in _TICKS if lowest - 4 <= t <= highest + 1]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set(xlabel="microseconds per test pair (log scale)", ylabel="Hits@100 on Cora, per cent")
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", frameon=False)
    figure.canvas.draw()
    figure.set_layout_engine("none")  # labels are placed in pixels: nothing may move from here on
    _label(figure, axes, dots)
    figure.savefig(path, dpi=150)


def _stretched(hits: Any) -> Any:
    return -np.log10(np.maximum(100 - np.asarray(hits, dtype=float), 1e-3))


def _label(figure: Any, axes: Any, dots: Sequence[Dot]) -> None:
    """The name of each dot at the nearest free place, with a line to it where it is not beside it."""
    unit = figure.dpi / 72  # pixels per point
    centres = axes.transData.transform([(dot.microseconds, dot.hits) for dot in dots])
    taken = [(x - _RADIUS * unit, y - _RADIUS * unit, x + _RADIUS * unit, y + _RADIUS * unit) for x, y in centres]
    frame = axes.get_window_extent()
    legend = axes.get_legend().get_window_extent()
    taken.append((legend.x0, legend.y0, legend.x1, legend.y1))
    renderer = figure.canvas.get_renderer()
    for dot, (x, y) in sorted(zip(dots, centres.tolist(), strict=True), key=lambda pair: -pair[0].hits):
        weight = "bold" if dot.ours else "normal"
        style = {"fontsize": 9, "fontweight": weight, "color": KINDS[dot.kind][0]}
        text = axes.annotate(dot.name, (dot.microseconds, dot.hits), **style)
        size = text.get_window_extent(renderer)
        text.remove()
        places = _places(x, y, size.width, size.height, unit)
        free = (place for place in places if _is_free(_box(place, size, unit), frame, taken))
        place = next(free, None)
        if place is None:
            raise ValueError(f"there is no free place for the label of {dot.name!r}: make the picture larger")
        taken.append(_box(place, size, unit))
        far = {"arrowstyle": "-", "color": "#888888", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
        arrow = far if place.ring else None
        offset = ((place.left - x) / unit, (place.low - y) / unit)
        axes.annotate(
            *(dot.name, (dot.microseconds, dot.hits)),
            xytext=offset,
            textcoords="offset points",
            arrowprops=arrow,
            annotation_clip=False,
            **style,
        )


class _Place(NamedTuple):
    """Where a label may stand: its left and lower edge in pixels, and how far out it is."""

    left: float
    low: float
    ring: int


def _box(place: _Place, size: Any, unit: float) -> Box:
    """A label there, with a margin of a point."""
    return place.left - unit, place.low - unit, place.left + size.width + unit, place.low + size.height + unit


def _is_free(box: Box, frame: Any, taken: Sequence[Box]) -> bool:
    inside = frame.x0 <= box[0] and box[2] <= frame.x1 and frame.y0 <= box[1] and box[3] <= frame.y1
    return bool(inside) and not any(_overlap(box, other) for other in taken)


def _places(x: float, y: float, width: float, height: float, unit: float) -> Iterator[_Place]:
    """Places around a dot, the nearest first."""
    gap = (_RADIUS + 2) * unit
    for ring in range(_FURTHEST):
        out = gap + ring * 7 * unit
        for left, low in (
            (x + out, y - height / 2),
            (x - out - width, y - height / 2),
            (x - width / 2, y + out),
            (x - width / 2, y - out - height),
            (x + out, y + out - gap),
            (x + out, y - out + gap - height),
            (x - out - width, y + out - gap),
            (x - out - width, y - out + gap - height),
        ):
            yield _Place(left, low, ring)


def _overlap(first: Box, second: Box) -> bool:
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]
