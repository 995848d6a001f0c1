"""Figures of a recipe's results: curves where rows have a place on an axis, bars elsewhere."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from yinyan.errors import MissingExtraError
from yinyan.reproduce.recipe import Recipe
from yinyan.reproduce.result_tables import values_of
from yinyan.reproduce.running import Result

__all__ = ["draw"]

_PUBLISHED = "#9a9a9a"
_HONEST = "#2f6690"
_COLOURS = {"released": "#c8553d", "clean+val": "#8fb8d6", "official": "#4f7d4a"}  # the leaking one warns
_COLUMNS = 4  # panels side by side
_STYLES = ("-", "--", ":", "-.")


def draw(recipe: Recipe, results: Sequence[Result]) -> bytes:
    """The results as a PNG picture, one panel a data set."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib: pip install 'yinyan[plots]'") from error
    names = list(dict.fromkeys(place.data for row in recipe.rows for place in row.places))
    height = 3.6 if recipe.x_label else 1.2 + 0.42 * len(recipe.rows)
    columns, lines = min(_COLUMNS, len(names)), math.ceil(len(names) / _COLUMNS)
    size = (4.2 * columns + (0 if recipe.x_label else 1.4), height * lines)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharey=not recipe.x_label).reshape(-1)
    for spare in axes[len(names) :]:
        spare.set_visible(False)
    for axis, data in zip(axes, names, strict=False):
        (_curves if recipe.x_label else _bars)(axis, recipe, results, data)
        axis.set_title(_panel(recipe, data))
        axis.spines[["top", "right"]].set_visible(False)
    unique: dict[str, Any] = {}
    for axis in axes[: len(names)]:
        handles, labels = axis.get_legend_handles_labels()
        unique |= dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(f"{recipe.title}: {recipe.metric}, per cent")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()


def _panel(recipe: Recipe, data: str) -> str:
    """The data set, with its metric where that is not the table's."""
    own = {place.metric for row in recipe.rows for place in row.places if place.data == data and place.metric}
    return f"{data}, {', '.join(sorted(own))}" if own else data


def _curves(axis: Any, recipe: Recipe, results: Sequence[Result], data: str) -> None:
    for number, series in enumerate(dict.fromkeys(row.series for row in recipe.rows)):
        for protocol in recipe.protocols:
            points = []
            for row in recipe.rows:
                for place in row.places:
                    values = values_of(row, place, protocol, results)
                    if (row.series, place.data) == (series, data) and values and row.x is not None:
                        points.append((row.x, mean(values), stdev(values) if len(values) > 1 else 0.0))
            if points:
                x, y, spread = zip(*points, strict=True)
                style = {"color": _colour(protocol), "linestyle": _STYLES[number % len(_STYLES)], "capsize": 2}
                axis.errorbar(x, y, spread, marker="o", markersize=4, label=f"{series}, {protocol}", **style)
        known = [
            (row.x, place.expect)
            for row in recipe.rows
            for place in row.places
            if (row.series, place.data) == (series, data) and place.expect is not None
        ]
        if known:
            axis.plot(*zip(*known, strict=True), color=_PUBLISHED, marker="s", markersize=4, label="paper")
    axis.set_xscale("log", base=2 if "K" in recipe.x_label else 10)
    ticks = sorted({row.x for row in recipe.rows if row.x is not None})
    axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axis.minorticks_off()
    axis.set_xlabel(recipe.x_label)


def _bars(axis: Any, recipe: Recipe, results: Sequence[Result], data: str) -> None:
    protocols = list(dict.fromkeys(q for row in recipe.rows for place in row.places for q in place.protocols))
    width = 0.8 / (len(protocols) + 1)
    for number, row in enumerate(recipe.rows):
        for place in row.places:
            if place.data != data:
                continue
            if place.expect is not None:
                axis.barh(number - 0.4, place.expect, width, align="edge", color=_PUBLISHED, label="paper")
            for order, protocol in enumerate(protocols, start=1):
                if values := values_of(row, place, protocol, results):
                    spread = stdev(values) if len(values) > 1 else None
                    where = number - 0.4 + order * width
                    style = {"align": "edge", "color": _colour(protocol), "label": protocol}
                    axis.barh(where, mean(values), width, xerr=spread, **style)
    axis.set_yticks(range(len(recipe.rows)), [row.name for row in recipe.rows])
    axis.set_ylim(len(recipe.rows) - 0.5, -0.5)
    axis.set_xlim(0, 100)


def _colour(protocol: str) -> str:
    return _COLOURS.get(protocol, _HONEST)
