"""Blank figures in the house style, their ticks, and their text as SVG."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from yinyan.errors import MissingExtraError
from yinyan.reporting.colours import FAINT, INK, MUTED, THEME
from yinyan.reporting.curves import log_odds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "FIFTHS",
    "ODDS",
    "as_svg",
    "blank",
    "blank_pair",
    "figure_style",
    "odds_ticks",
    "percent_tick",
    "unit_square",
    "whole_ticks",
]

FIFTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
ODDS = {1e-6: "10⁻⁶", 1e-5: "10⁻⁵", 1e-4: "10⁻⁴"}  # labels of probabilities too small for decimals

_WIDTH, _HEIGHT = 340.0, 245.0  # in units of the drawing: a phone's pixels, so that text stays legible
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")


@contextmanager
def figure_style() -> Iterator[None]:
    """Matplotlib in the house style, whatever the caller's own settings."""
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


def blank(width: float = _WIDTH, height: float = _HEIGHT, *, bare: bool = False) -> tuple[Figure, Axes]:
    """An empty figure and its axes; `bare` ones fill it and show no frame."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), layout=None if bare else "constrained")
    if not bare:
        return figure, figure.add_subplot()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    return figure, axes


def blank_pair() -> tuple[Figure, tuple[Axes, Axes]]:
    """A chart above a low strip that shares its x axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH / 72, 1.1 * _HEIGHT / 72), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [4, 1]})
    lower.grid(visible=False)
    return figure, (upper, lower)


def as_svg(figure: Figure, name: str, label: str) -> str:
    """The figure as an SVG element: no prolog, ids of its own, colours by the page's variables."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = name  # inside `figure_style`, which restores it
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


def whole_ticks(axes: Axes) -> None:
    """Whole numbers along x, round ones along y."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}".replace("-", "\N{MINUS SIGN}"))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))


def unit_square(axes: Axes) -> None:
    """Both axes from 0 to 1, with a tick every fifth."""
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xticks=FIFTHS, yticks=FIFTHS)


def odds_ticks(first: float, last: float) -> Sequence[float]:
    """Round probabilities between two log-odds; every other one where they would crowd."""
    fine = (1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
    shown = [tick for tick in fine if first <= log_odds(tick) <= last]
    return shown if len(shown) <= 6 else [tick for tick in shown if tick in fine[::2]]


def percent_tick(value: float, _: float) -> str:
    """A share as the percentage beside its tick."""
    return f"{100 * value:.3g} %"


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
