"""The charts of training, of scores and of calibration, each a function from numbers to SVG text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from yinyan.reporting.canvas import (
    FIFTHS,
    ODDS,
    as_svg,
    blank,
    blank_pair,
    figure_style,
    odds_ticks,
    percent_tick,
    unit_square,
    whole_ticks,
)
from yinyan.reporting.colours import FALSE, INK, MUTED, THIRD, TRUE
from yinyan.reporting.curves import ReliabilityBins, log_odds, precision_recall_curve, roc_curve, thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "energy_curve",
    "epoch_curves",
    "precision_recall_figure",
    "reliability_figure",
    "roc_figure",
    "score_histogram",
]


def epoch_curves(
    name: str,
    epochs: Sequence[float],
    series: Mapping[str, Sequence[float | None]],
    *,
    axis: str,
    best_epoch: int | None,
    label: str,
) -> str:
    """One line for each series over the epochs, named at its end; `best_epoch` is marked."""
    with figure_style():
        figure, axes = blank()
        ends: list[tuple[float, float, str, str]] = []
        for (title, values), colour in zip(series.items(), (TRUE, FALSE, THIRD), strict=False):
            y = np.asarray([np.nan if value is None else value for value in values], dtype=np.float64)
            seen = np.isfinite(y)
            x, y = np.asarray(epochs, dtype=np.float64)[seen], y[seen]
            axes.plot(*thinned(x, y), color=colour, marker="o" if x.size == 1 else "", markersize=3)
            if x.size:
                ends.append((x[-1], y[-1], title, colour))
                at_best = np.flatnonzero(x == best_epoch)
                axes.plot(x[at_best], y[at_best], "o", color=colour, markersize=4.5, clip_on=False)
        axes.set(xlabel="epoch", ylabel=axis)
        axes.margins(y=0.12)
        whole_ticks(axes)
        if best_epoch is not None and ends:
            _mark_epoch(axes, best_epoch)
        if len(ends) > 1:
            _name_lines(axes, ends)
        return as_svg(figure, name, label)


def energy_curve(energy: Sequence[float], *, label: str) -> str:
    """The energy before the first layer and after each."""
    with figure_style():
        figure, axes = blank()
        axes.plot(range(len(energy)), energy, color=TRUE, marker="o", markersize=4)
        axes.set(xlabel="layer (0: the input)", ylabel="energy")
        axes.margins(x=0.05, y=0.12)
        whole_ticks(axes)
        return as_svg(figure, "energy", label)


def score_histogram(positive: ArrayLike, negative: ArrayLike, *, label: str) -> str:
    """The scores of links and of non-links, each kind as shares of itself."""
    pos, neg = (np.asarray(scores, dtype=np.float64).ravel() for scores in (positive, negative))
    finite = np.concatenate([pos, neg])
    finite = finite[np.isfinite(finite)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    edges = np.linspace(low, high, 33) if high > low else np.linspace(low - 0.5, low + 0.5, 34)
    with figure_style():
        figure, axes = blank()
        tallest = []
        for scores, colour, title in ((neg, FALSE, "non-links"), (pos, TRUE, "links")):
            share = np.histogram(np.clip(scores, low, high), edges)[0] / scores.size
            axes.stairs(share, edges, color=colour, fill=True, alpha=0.22, linewidth=0)
            axes.stairs(share, edges, color=colour, linewidth=1.2)
            tallest.append((edges[share.argmax()] + (edges[1] - edges[0]) / 2, share.max(), title, colour))
        axes.set(xlabel="score (log-odds)", ylabel="share of its kind")
        axes.set_ylim(0, max(height for _, height, _, _ in tallest) * 1.18)
        axes.yaxis.set_major_formatter(percent_tick)
        _name_peaks(axes, tallest, low, high)
        return as_svg(figure, "scores", label)


def roc_figure(positive: ArrayLike, negative: ArrayLike, *, label: str) -> str:
    """Links found against non-links let through, as the threshold falls."""
    fpr, tpr, area = roc_curve(positive, negative)
    with figure_style():
        figure, axes = blank()
        axes.plot(*thinned(fpr, tpr), color=TRUE, label=f"this model, area {area:.3f}")
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), label="chance, area 0.500")
        axes.set(xlabel="share of non-links let through", ylabel="share of links found")
        unit_square(axes)
        axes.legend(loc="lower right", labelcolor=INK)
        return as_svg(figure, "roc", label)


def precision_recall_figure(positive: ArrayLike, negative: ArrayLike, *, label: str) -> str:
    """Precision against recall, as the threshold falls."""
    recall, precision, area = precision_recall_curve(positive, negative)
    chance = np.size(positive) / (np.size(positive) + np.size(negative))
    with figure_style():
        figure, axes = blank()
        x, y = thinned(recall, precision)
        axes.plot(x, y, color=TRUE, drawstyle="steps-pre", label=f"this model, area {area:.3f}")
        dashes = (0, (4, 3))
        axes.plot(
            [0, 1],
            [chance] * 2,
            color=MUTED,
            linewidth=0.9,
            linestyle=dashes,
            label=f"chance, area {chance:.3f}",
        )
        axes.set(xlabel="share of links found (recall)", ylabel="links among the found (precision)")
        unit_square(axes)
        if precision[recall <= 0.7].min() > chance + 0.3:  # the curve leaves room under it
            corner = (0.0, 0.0 if chance > 0.3 else chance + 0.01)
            axes.legend(loc="lower left", bbox_to_anchor=corner, labelcolor=INK)
        else:
            axes.legend(loc="upper right", labelcolor=INK)
        return as_svg(figure, "precision-recall", label)


def reliability_figure(bins: ReliabilityBins, *, label: str) -> str:
    """Observed share of links against the stated probability, above the number of pairs in each bin."""
    place = log_odds if bins.on_odds else np.asarray
    predicted, observed, low, high = (place(part) for part in bins[:4])
    edges = place(bins.edges)
    first, last = (edges.min(), edges.max()) if bins.on_odds else (0.0, 1.0)
    with figure_style():
        figure, (axes, strip) = blank_pair()
        axes.plot([first, last], [first, last], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.vlines(predicted, np.maximum(low, first), np.minimum(high, last), color=TRUE, linewidth=1.1, alpha=0.7)
        shown = np.clip(observed, first, last)
        axes.plot(predicted, shown, "o", color=TRUE, markersize=4.5, clip_on=False, zorder=3)
        axes.set(ylabel="observed share of links", ylim=(first, last))
        strip.bar(edges[:, 0], bins.counts, edges[:, 1] - edges[:, 0], align="edge", color=TRUE, alpha=0.3)
        for left, right, count in zip(edges[:, 0], edges[:, 1], bins.counts, strict=True):
            strip.text(
                (left + right) / 2,
                count,
                f" {_short(count)}",
                ha="center",
                va="bottom",
                fontsize=7.5,
                color=MUTED,
            )
        strip.set(xlabel="stated probability", xlim=(first, last), ylim=(0, bins.counts.max() * 1.45), yticks=[])
        strip.set_ylabel("pairs", rotation=0, ha="right", va="center", labelpad=12)
        ticks = odds_ticks(first, last) if bins.on_odds else FIFTHS
        for axis in (axes.yaxis, strip.xaxis):
            axis.set_ticks([float(place(tick)) for tick in ticks], [ODDS.get(tick, f"{tick:g}") for tick in ticks])
        return as_svg(figure, "reliability", label)


def _mark_epoch(axes: Axes, epoch: int) -> None:
    axes.axvline(epoch, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    first, last = axes.get_xlim()
    left = epoch < (first + last) / 2
    axes.annotate(
        f"restored: epoch {epoch}",
        (epoch, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(4 if left else -4, 2),
        textcoords="offset points",
        ha="left" if left else "right",
        va="bottom",
        color=MUTED,
        fontsize=8.5,
    )


def _name_lines(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Each line's name behind its end; names that would collide move apart."""
    bottom, top = axes.get_ylim()
    gap = (top - bottom) * 0.075
    height = -np.inf
    for _, y, title, colour in sorted(ends, key=lambda end: end[1]):
        height = max(y, height + gap)
        place = (1.02, (height - bottom) / (top - bottom))
        axes.text(*place, title, transform=axes.transAxes, color=colour, va="center", ha="left")


def _name_peaks(axes: Axes, peaks: Sequence[tuple[float, float, str, str]], low: float, high: float) -> None:
    """The kind's name above its tallest bar; side by side where the peaks are near each other."""
    (left, *_), (right, *_) = sorted(peaks)
    near = right - left < 0.25 * (high - low)
    for index, (x, height, title, colour) in enumerate(sorted(peaks)):
        side = ("right", "left")[index] if near else "left" if x < low + 0.1 * (high - low) else "right"
        side = "center" if not near and low + 0.1 * (high - low) <= x <= high - 0.1 * (high - low) else side
        axes.annotate(title, (x, height), xytext=(0, 3), textcoords="offset points", ha=side, va="bottom", color=colour)


def _short(count: int) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + letter
    return str(count)
