"""Charts of figures that were measured, on axes of matplotlib (extra `plots`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from statistics import mean, stdev
from typing import Any

from yinyan.errors import InputError, MissingExtraError

__all__ = ["bar_chart", "checked_metric", "curve_chart", "new_axes"]

_OURS, _OTHERS = "#0b6cae", "#929ca7"
_LINES = ("#c2540a", "#00795c", "#8e5bb5", "#929ca7", "#b08900", "#59636e")
_DOT = "#1d2329"


def new_axes(width: float, height: float) -> Any:
    """Axes of a new figure of so many inches, which a notebook shows below its cell."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib: pip install 'yinyan[plots]'") from error
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def bar_chart(values: Mapping[str, Sequence[float]], *, ours: str, title: str, label: str, axes: Any) -> Any:
    """A bar for each name: the mean of its values with their standard deviation, and a dot for each of several."""
    axes = new_axes(6.4, 1.1 + 0.38 * len(values)) if axes is None else axes
    for place, (name, several) in enumerate(values.items()):
        axes.barh(place, mean(several), 0.62, color=_OURS if name == ours else _OTHERS)
        if len(several) > 1:
            axes.errorbar(mean(several), place, xerr=stdev(several), color=_DOT, capsize=3, linewidth=1)
            axes.plot(several, [place] * len(several), "o", color=_DOT, markersize=3, alpha=0.6)
        axes.annotate(
            f"{mean(several):.3f}", (0, place), (4, 0), textcoords="offset points", va="center", color="white"
        )
    axes.set_yticks(range(len(values)), list(values))
    axes.set_ylim(len(values) - 0.5, -0.5)
    return _finished(axes, title, xlabel=label)


def curve_chart(
    values: Mapping[str, Sequence[float]], places: Sequence[str], *, ours: str, title: str, label: str, axes: Any
) -> Any:
    """A line for each name over some places, such as windows of time."""
    axes = new_axes(7.2, 3.6) if axes is None else axes
    others = cycle(_LINES)
    for name, several in values.items():
        front = {"color": _OURS, "linewidth": 2.4, "zorder": 3}
        front = front if name == ours else {"color": next(others), "linewidth": 1.2}
        axes.plot(range(len(places)), several, marker="o", markersize=4, label=name, **front)
    axes.set_xticks(range(len(places)), places, rotation=30, ha="right")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return _finished(axes, title, ylabel=label)


def checked_metric(metric: str | None, known: Sequence[str]) -> str:
    """The metric that is named, or the first."""
    if metric is None:
        return known[0]
    if metric not in known:
        raise InputError(f"no metric is called {metric!r} (known: {', '.join(map(repr, known))})")
    return metric


def _finished(axes: Any, title: str, **labels: str) -> Any:
    axes.set(title=title, **labels)
    axes.title.set_fontsize(10)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
