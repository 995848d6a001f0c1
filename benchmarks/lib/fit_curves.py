"""Learning curves of fits: quality on held-out edges over seconds, one picture for each data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

Points = Sequence[Mapping[str, float]]  # "seconds" since the start of the process, and figures by name

_LABELS = {"ndcg": "NDCG@20", "hits": "Hits@10%", "mrr": "MRR"}
_COLOURS = {"ours": "#4878a8", "old": "#a0a0a0", "als": "#d1605e", "lightgcn": "#e7a13a"}


def shown(curves: Mapping[str, Points]) -> list[str]:
    """The figures that get a panel: those that at least one curve has; the full ranking in place of the sampled MRR."""
    present = [name for name in _LABELS if any(name in point for points in curves.values() for point in points)]
    return [name for name in present if name != "mrr" or "ndcg" not in present]


def draw(path: Path, title: str, curves: Mapping[str, Points]) -> None:
    """A panel for each figure and a line for each method; seconds on a log axis."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panels = shown(curves)
    figure = Figure(figsize=(5.2 * len(panels), 3.8), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, name in zip(grid, panels, strict=True):
        for method, points in curves.items():
            kept = [(point["seconds"], point[name]) for point in points if name in point]
            if kept:
                x, y = zip(*kept, strict=True)
                axes.plot(x, y, "o-", markersize=3, label=method, color=_COLOURS.get(method.split()[0]))
        axes.set_xscale("log")
        axes.set(xlabel="seconds since the process started", ylabel=f"validation {_LABELS[name]}")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
