"""The figures of a report: pure functions from arrays to SVG text that follows the page's colours."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch

__all__ = [
    "COMMUNITY_COLOURS",
    "MOST_NUMBERED",
    "THEME",
    "ReliabilityBins",
    "embedding_map",
    "energy_curve",
    "epoch_curves",
    "precision_recall_curve",
    "precision_recall_figure",
    "reliability_bins",
    "reliability_figure",
    "roc_curve",
    "roc_figure",
    "score_histogram",
]

Floats = NDArray[np.float64]

# What the page may recolour: the colour drawn with (a mark found again in the SVG), and its light form
THEME = {
    "ink": ("#010203", "#1d2329"),
    "muted": ("#040506", "#59636e"),
    "faint": ("#070809", "#dfe3e8"),
    "paper": ("#0a0b0c", "#ffffff"),
    "true": ("#0d0e0f", "#0b6cae"),  # blue and orange: told apart by all common kinds of colour blindness
    "false": ("#101112", "#c2540a"),
    "third": ("#131415", "#00795c"),
}
INK, MUTED, FAINT, PAPER, TRUE, FALSE, THIRD = (drawn for drawn, _ in THEME.values())

# Mid-tones, legible on white and on black: a rasterised layer cannot follow the page
COMMUNITY_COLOURS = ("#4a7fc1", "#e0645c", "#3a9a5b", "#c9a227", "#a2559c", "#38a8b8", "#d98b5f", "#8f9a4b")
_OTHER = "#8d959e"

MOST_NUMBERED = 30  # predictions drawn on a map: more would hide it
_MOST_MARKS = 3000  # points beyond which a layer becomes an image, to keep the file small
_MOST_LINES = 10_000
_WIDTH, _HEIGHT = 340.0, 245.0  # in units of the drawing: a phone's pixels, so that text stays legible
_MAP_WIDTH = 380.0
_DISC = 7.5  # radius of the disc that holds a rank
_CLIP = 1e-7  # probabilities nearer to 0 or 1 have no place on a scale of odds


class ReliabilityBins(NamedTuple):
    """Stated against observed probability, one entry a non-empty bin."""

    predicted: Floats  # weighted mean of the stated probabilities
    observed: Floats  # weighted share of links
    low: Floats  # 95 % Wilson interval of the observed share
    high: Floats
    counts: NDArray[np.int64]  # pairs, unweighted
    edges: Floats  # (bins, 2)
    on_odds: bool  # bins of equal width in log-odds, as rare links need


def roc_curve(positive: ArrayLike, negative: ArrayLike) -> tuple[Floats, Floats, float]:
    """False and true positive rates from (0, 0) to (1, 1), and the area; tied scores make one slope."""
    true_positive, false_positive = _cumulative(positive, negative)
    tpr = np.append(0.0, true_positive / true_positive[-1])
    fpr = np.append(0.0, false_positive / false_positive[-1])
    return fpr, tpr, float((np.diff(fpr) * (tpr[1:] + tpr[:-1])).sum() / 2)


def precision_recall_curve(positive: ArrayLike, negative: ArrayLike) -> tuple[Floats, Floats, float]:
    """Recall and precision at each distinct score, and the area of the steps that reach back from them."""
    true_positive, false_positive = _cumulative(positive, negative)
    precision = true_positive / (true_positive + false_positive)
    recall = np.append(0.0, true_positive / true_positive[-1])
    area = float((np.diff(recall) * precision).sum())
    return recall, np.append(precision[0], precision), area


def reliability_bins(
    positive: ArrayLike, negative: ArrayLike, *, base_rate: float | None = None, num_bins: int = 10
) -> ReliabilityBins:
    """Bins of stated probability, the pairs weighted so that links make up `base_rate` (None: as sampled)."""
    pos, neg = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    both = np.concatenate([pos, neg])
    if not pos.size or not neg.size or not ((both >= 0) & (both <= 1)).all():
        raise InputError("probabilities of links and of non-links need to be given, and lie between 0 and 1")
    rate = pos.size / both.size if base_rate is None else base_rate
    if not 0 < rate < 1:
        raise InputError(f"'base_rate' needs to lie between 0 and 1 (got {rate})")
    on_odds = rate < 0.05
    scale = _log_odds(both) if on_odds else both
    low_end, high_end = (float(scale.min()) - 1e-9, float(scale.max()) + 1e-9) if on_odds else (0.0, 1.0)
    edges = np.linspace(low_end, high_end, num_bins + 1)
    bin_of = np.clip(np.searchsorted(edges, scale, side="right") - 1, 0, num_bins - 1)
    links = np.bincount(bin_of[: pos.size], minlength=num_bins)
    counts = np.bincount(bin_of, minlength=num_bins)
    weights = np.repeat([rate / pos.size, (1 - rate) / neg.size], [pos.size, neg.size])
    used = counts > 0
    stated = np.bincount(bin_of, weights * both, num_bins)[used] / np.bincount(bin_of, weights, num_bins)[used]
    odds = weights[0] / weights[-1]
    # weighting multiplies the odds and keeps order: so an interval's ends are weighted as the share itself
    shares = (links[used] / counts[used], *_wilson(links[used], counts[used]))
    observed, low, high = (share * odds / (share * odds + 1 - share) for share in shares)
    borders = np.stack([edges[:-1], edges[1:]], 1)[used]
    borders = 1 / (1 + np.exp(-borders)) if on_odds else borders
    return ReliabilityBins(stated, observed, low, high, counts[used], borders, on_odds)


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
    with _style():
        figure, axes = _blank()
        ends: list[tuple[float, float, str, str]] = []
        for (title, values), colour in zip(series.items(), (TRUE, FALSE, THIRD), strict=False):
            y = np.asarray([np.nan if value is None else value for value in values], dtype=np.float64)
            seen = np.isfinite(y)
            x, y = np.asarray(epochs, dtype=np.float64)[seen], y[seen]
            axes.plot(*_thinned(x, y), color=colour, marker="o" if x.size == 1 else "", markersize=3)
            if x.size:
                ends.append((x[-1], y[-1], title, colour))
                at_best = np.flatnonzero(x == best_epoch)
                axes.plot(x[at_best], y[at_best], "o", color=colour, markersize=4.5, clip_on=False)
        axes.set(xlabel="epoch", ylabel=axis)
        axes.margins(y=0.12)
        _whole_ticks(axes)
        if best_epoch is not None and ends:
            _mark_epoch(axes, best_epoch)
        if len(ends) > 1:
            _name_lines(axes, ends)
        return _svg(figure, name, label)


def energy_curve(energy: Sequence[float], *, label: str) -> str:
    """The energy before the first layer and after each."""
    with _style():
        figure, axes = _blank()
        axes.plot(range(len(energy)), energy, color=TRUE, marker="o", markersize=4)
        axes.set(xlabel="layer (0: the input)", ylabel="energy")
        axes.margins(x=0.05, y=0.12)
        _whole_ticks(axes)
        return _svg(figure, "energy", label)


def score_histogram(positive: ArrayLike, negative: ArrayLike, *, label: str) -> str:
    """The scores of links and of non-links, each kind as shares of itself."""
    pos, neg = (np.asarray(scores, dtype=np.float64).ravel() for scores in (positive, negative))
    finite = np.concatenate([pos, neg])
    finite = finite[np.isfinite(finite)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    edges = np.linspace(low, high, 33) if high > low else np.linspace(low - 0.5, low + 0.5, 34)
    with _style():
        figure, axes = _blank()
        tallest = []
        for scores, colour, title in ((neg, FALSE, "non-links"), (pos, TRUE, "links")):
            share = np.histogram(np.clip(scores, low, high), edges)[0] / scores.size
            axes.stairs(share, edges, color=colour, fill=True, alpha=0.22, linewidth=0)
            axes.stairs(share, edges, color=colour, linewidth=1.2)
            tallest.append((edges[share.argmax()] + (edges[1] - edges[0]) / 2, share.max(), title, colour))
        axes.set(xlabel="score (log-odds)", ylabel="share of its kind")
        axes.set_ylim(0, max(height for _, height, _, _ in tallest) * 1.18)
        axes.yaxis.set_major_formatter(_percent)
        _name_peaks(axes, tallest, low, high)
        return _svg(figure, "scores", label)


def roc_figure(positive: ArrayLike, negative: ArrayLike, *, label: str) -> str:
    """Links found against non-links let through, as the threshold falls."""
    fpr, tpr, area = roc_curve(positive, negative)
    with _style():
        figure, axes = _blank()
        axes.plot(*_thinned(fpr, tpr), color=TRUE, label=f"this model, area {area:.3f}")
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), label="chance, area 0.500")
        axes.set(xlabel="share of non-links let through", ylabel="share of links found")
        _unit_square(axes)
        axes.legend(loc="lower right", labelcolor=INK)
        return _svg(figure, "roc", label)


def precision_recall_figure(positive: ArrayLike, negative: ArrayLike, *, label: str) -> str:
    """Precision against recall, as the threshold falls."""
    recall, precision, area = precision_recall_curve(positive, negative)
    chance = np.size(positive) / (np.size(positive) + np.size(negative))
    with _style():
        figure, axes = _blank()
        x, y = _thinned(recall, precision)
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
        _unit_square(axes)
        if precision[recall <= 0.7].min() > chance + 0.3:  # the curve leaves room under it
            corner = (0.0, 0.0 if chance > 0.3 else chance + 0.01)
            axes.legend(loc="lower left", bbox_to_anchor=corner, labelcolor=INK)
        else:
            axes.legend(loc="upper right", labelcolor=INK)
        return _svg(figure, "precision-recall", label)


def reliability_figure(bins: ReliabilityBins, *, label: str) -> str:
    """Observed share of links against the stated probability, above the number of pairs in each bin."""
    place = _log_odds if bins.on_odds else np.asarray
    predicted, observed, low, high = (place(part) for part in bins[:4])
    edges = place(bins.edges)
    first, last = (edges.min(), edges.max()) if bins.on_odds else (0.0, 1.0)
    with _style():
        figure, (axes, strip) = _blank_pair()
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
        for axis in (axes.yaxis, strip.xaxis):
            ticks = [t for t in _PROBABILITIES if first <= float(_log_odds(t)) <= last] if bins.on_odds else _FIFTHS
            axis.set_ticks([float(place(t)) for t in ticks], [f"{t:.6f}".rstrip("0").rstrip(".") for t in ticks])
        return _svg(figure, "reliability", label)


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
    with _style():
        figure, axes = _blank(_MAP_WIDTH, height, bare=True)
        axes.set(xlim=(0, _MAP_WIDTH), ylim=(0, height))
        if len(known):
            _draw_links(axes, place[known])
        for colour, rows in _by_colour(point_labels, len(place)):
            _draw_nodes(axes, place[rows], colour, len(place))
        _draw_predictions(axes, place, drawn, height)
        return _svg(figure, "map", label)


_FIFTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_PROBABILITIES = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)


def _cumulative(positive: ArrayLike, negative: ArrayLike) -> tuple[Floats, Floats]:
    """Links and non-links at or above each distinct score, from the highest score down."""
    pos, neg = np.sort(np.ravel(positive)).astype(np.float64), np.sort(np.ravel(negative)).astype(np.float64)
    if not pos.size or not neg.size or np.isnan(pos[-1]) or np.isnan(neg[-1]):  # NaN sorts last
        raise InputError("scores of links and of non-links need to be given, none of them NaN")
    thresholds = np.unique(np.concatenate([pos, neg]))[::-1]
    above = [(part.size - np.searchsorted(part, thresholds, side="left")).astype(np.float64) for part in (pos, neg)]
    return above[0], above[1]


def _wilson(hits: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    z = 1.96
    share, wide = hits / counts, z * z / counts
    centre = (share + wide / 2) / (1 + wide)
    half = np.sqrt(share * (1 - share) * wide + wide * wide / 4) / (1 + wide)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def _log_odds(probability: ArrayLike) -> Floats:
    p = np.clip(np.asarray(probability, dtype=np.float64), _CLIP, 1 - _CLIP)
    odds: Floats = np.log(p / (1 - p))
    return odds


def _thinned(x: Floats, y: Floats, most: int = 400) -> tuple[Floats, Floats]:
    """At most `most` vertices, evenly along the curve, both ends among them."""
    if x.size <= most:
        return x, y
    steps = np.abs(np.diff(x)) / (np.ptp(x) or 1.0) + np.abs(np.diff(y)) / (np.ptp(y) or 1.0)
    way = np.append(0.0, np.cumsum(steps))
    rows = np.unique(np.searchsorted(way, np.linspace(0.0, way[-1], most)).clip(0, x.size - 1))
    rows = np.union1d(rows, [0, x.size - 1])
    return x[rows], y[rows]


@contextmanager
def _style() -> Iterator[None]:
    try:
        import matplotlib.style
    except ImportError as error:
        raise MissingExtraError("figures need matplotlib: pip install 'yinyan[plots]'") from error
    settings = {
        "svg.fonttype": "none",  # real text: it can be searched, and takes the page's font
        "font.family": "DejaVu Sans",  # measured with; wider than what pages use, so nothing is cut
        "font.size": 9.5,
        "axes.linewidth": 0.7,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": MUTED,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        "axes.axisbelow": True,
        "axes.xmargin": 0.02,
        "axes.grid": True,
        "grid.color": FAINT,
        "grid.linewidth": 0.6,
        "figure.facecolor": "none",
        "legend.frameon": False,
        "legend.fontsize": 9.5,
        "lines.linewidth": 1.6,
        "lines.solid_capstyle": "round",
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.major.pad": 5.5,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
    }
    with matplotlib.style.context(["default", settings]):
        yield


def _blank(width: float = _WIDTH, height: float = _HEIGHT, *, bare: bool = False) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), layout=None if bare else "constrained")
    if not bare:
        return figure, figure.add_subplot()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    return figure, axes


def _blank_pair() -> tuple[Figure, tuple[Axes, Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH / 72, 1.1 * _HEIGHT / 72), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [4, 1]})
    lower.grid(visible=False)
    return figure, (upper, lower)


def _svg(figure: Figure, name: str, label: str) -> str:
    """The figure as an SVG element: no prolog, ids of its own, colours by the page's variables."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = name  # inside `_style`, which restores it
    out = io.StringIO()
    figure.savefig(out, format="svg", dpi=220, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].rstrip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'\b(d|x|y|transform)="[^"]*"', lambda found: _DECIMALS.sub(_rounded, found[0]), svg)
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    for variable, (drawn, light) in THEME.items():
        svg = svg.replace(drawn, f"var(--{variable}, {light})")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(label)}" ', 1)


_DECIMALS = re.compile(r"-?\d+\.\d{3,}")


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _whole_ticks(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}".replace("-", "\N{MINUS SIGN}"))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))


def _unit_square(axes: Axes) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xticks=_FIFTHS, yticks=_FIFTHS)


def _percent(value: float, _: float) -> str:
    return f"{100 * value:.3g} %"


def _short(count: int) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + letter
    return str(count)


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
