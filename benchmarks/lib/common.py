"""Options, interleaved timing, tables, JSON and pictures of a benchmark."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from yinyan.datasets import Dataset, load
from yinyan.native import graph_kernels
from yinyan.reproduce.stand_ins import stand_in

Task = Callable[[], object]

SMALL: dict[str, dict[str, Any]] = {  # settings of smoke runs
    "encoder": {"hidden_size": 8, "embedding_size": 8},
    "decoder": {"width": 8},
    "training": {"epochs": 2, "evaluate_every": 1, "batch_size": 100, "valid_negatives": 50},
}

_LOAD_BEFORE = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # running processes in the minute before


class Times:
    """Seconds of several tasks that took turns, so that a busy machine disturbs all alike."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def run(self, tasks: Mapping[str, Task], repeats: int, *, warm_up: int = 1, deadline: float = math.inf) -> None:
        """Each task in turn, `repeats` times after unmeasured rounds.

        No round but the first begins that would be expected to end after `deadline`, on the clock of perf_counter.
        """
        for _ in range(warm_up):
            for task in tasks.values():
                task()
        started = time.perf_counter()
        for done in range(repeats):
            now = time.perf_counter()
            if done and now + (now - started) / done > deadline:
                break
            for name, task in tasks.items():
                self.once(name, task)

    def once(self, name: str, task: Task) -> float:
        """One measured call."""
        before = time.perf_counter()
        made = task()
        spent = time.perf_counter() - before
        del made
        self.seconds.setdefault(name, []).append(spent)
        return spent

    def least(self, name: str) -> float:
        """The fastest of a task's calls."""
        return min(self.seconds[name])

    def ratio(self, ours: str, theirs: str) -> float:
        """Ratio of minima, over as many calls of both: the best of five against a single call would be no contest."""
        calls = min(len(self.seconds[ours]), len(self.seconds[theirs]))
        return min(self.seconds[ours][:calls]) / min(self.seconds[theirs][:calls])

    def median_ratio(self, ours: str, theirs: str) -> float:
        """Median of the ratios within the rounds: how far it is from the ratio of minima shows the noise."""
        return statistics.median(a / b for a, b in zip(self.seconds[ours], self.seconds[theirs], strict=False))

    def milliseconds(self) -> dict[str, dict[str, float]]:
        """Minimum, median and number of calls of every task."""
        return {
            name: {"min": 1e3 * min(spent), "median": 1e3 * statistics.median(spent), "calls": len(spent)}
            for name, spent in self.seconds.items()
        }


def parser(
    doc: str | None, *, quick: str | None = None, picture: bool = True, threads: int | None = None
) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(made, quick=quick, picture=picture, threads=threads)
    return made


def add_options(
    to: argparse.ArgumentParser, *, quick: str | None = None, picture: bool = True, threads: int | None = None
) -> None:
    to.add_argument("--json", action="store_true", help="print JSON and nothing else")
    to.add_argument("--smoke", action="store_true", help="tiny inputs, seconds: shows that it runs, measures nothing")
    to.add_argument("--threads", type=int, default=threads or torch.get_num_threads())
    if picture:
        to.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the result (needs matplotlib)")
    if quick is not None:
        to.add_argument("--quick", action="store_true", help=quick)


def parsed(parser: argparse.ArgumentParser, **smoke: Any) -> argparse.Namespace:
    """The options as given; with --smoke, these tiny values instead of theirs."""
    options = parser.parse_args()
    if options.smoke:
        vars(options).update(smoke)
    torch.set_num_threads(options.threads)
    return options


def load_data(name: str, *, smoke: bool) -> Dataset:
    """A data set from the folder that YINYAN_DATA names, or for a smoke run a small graph of the same kind."""
    if smoke:
        return stand_in(name)
    if "YINYAN_DATA" not in os.environ:
        raise SystemExit(f"YINYAN_DATA needs to name the folder that holds '{name}'; --smoke needs no data")
    return load(name)


def report(options: argparse.Namespace, result: Any, show: Callable[[], object]) -> None:
    """Print the result as JSON if asked for, else as `show` does.

    The JSON is made in either case, so that a smoke run finds what cannot be written.
    """
    text = json.dumps(result, indent=2)
    if options.json:
        sys.stdout.write(text + "\n")
    else:
        show()


def machine() -> dict[str, Any]:
    """What a time depends on besides the code."""
    return {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "compiled_kernels": graph_kernels.library() is not None,
        "processor": _processor(),
        "python": platform.python_version(),
        "load_before": _LOAD_BEFORE,
    }


def peak_gigabytes() -> float:
    """The most memory that this process has held, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns aligned: the first to the left, the others to the right."""
    cells = [list(header), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(header))]
    for number, row in enumerate(cells):
        first, *others = (
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *others]).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def print_machine(facts: Mapping[str, Any]) -> None:
    compiled = "compiled kernels" if facts["compiled_kernels"] else "no compiled kernels"
    print(f"{facts['processor']}, {facts['threads']} threads, torch {facts['torch']}, {compiled}")
    if facts["load_before"] > 0.5:
        print(
            f"The machine was busy before this run ({facts['load_before']:.1f} processes): OpenMP's threads wait for "
            "each other and suffer more from that than our ranges of rows. Times are unreliable, ratios may flatter us."
        )


def bars(path: Path, values: Mapping[str, float], *, title: str, label: str, line: float | None = 1.0) -> None:
    """One bar per name, with a line at the value where both sides are even."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.8 + 0.36 * len(values)), layout="constrained")
    axes = figure.subplots()
    names = list(values)[::-1]
    drawn = axes.barh([name.replace("_", " ") for name in names], [values[name] for name in names], color="#4878a8")
    axes.bar_label(drawn, fmt="%.2f", padding=3)
    if line is not None:
        axes.axvline(line, color="black", linewidth=0.8, linestyle="--")
    axes.set(title=title, xlabel=label, xlim=(0, 1.12 * max(values.values())))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def curves(path: Path, panels: Mapping[str, tuple[Sequence[float], Sequence[float], str, str]]) -> None:
    """A log-log panel for each title: (x, y, what x is, what y is)."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4 * columns, 3.2 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, (name, (x, y, below, beside)) in zip(grid, panels.items(), strict=False):
        axes.loglog(x, y, "o-", color="#4878a8")
        axes.set(title=name, xlabel=below, ylabel=beside)
        axes.set_xticks(list(x), labels=[_short(value) for value in x])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(visible=True, which="major", alpha=0.3)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.savefig(path, dpi=150)


def _short(value: float) -> str:
    """30000000 as 30M."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def _text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return (
            f"{cell:,.1f}" if abs(cell) >= 100 else f"{cell:.3f}" if abs(cell) >= 0.01 or cell == 0 else f"{cell:.2e}"
        )
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
