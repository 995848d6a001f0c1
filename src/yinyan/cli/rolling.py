"""`yinyan evaluate --rolling`: train until t, predict the next window, and so on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from yinyan.cli import common
from yinyan.cli.flags import Run
from yinyan.connect.urls import DatabaseUrl
from yinyan.errors import InputError
from yinyan.graph.table_options import TableOptions
from yinyan.progress import show_progress

__all__ = ["evaluate_windows", "period_of"]


def evaluate_windows(
    edges: Path | DatabaseUrl,
    period: str,
    windows: int,
    peers: str | None,
    run: Run,
    table: TableOptions,
    refused: Mapping[str, object],
) -> None:
    """Print the figures of each window; options of the other protocols are refused."""
    from yinyan.rolling import BESIDE_ROLLING, evaluate_rolling
    from yinyan.training.hooks import Hooks

    if wrong := [option for option, given in refused.items() if given]:
        raise InputError(f"--rolling and {' and '.join(wrong)} exclude each other: leave one out")
    length: Any = period_of(period)  # checked by what it is given to
    progress = show_progress(quiet=run.quiet)
    model = common.predictor(run)
    beside = BESIDE_ROLLING if peers is None else common.names(peers)
    graph = common.read_graph(edges, table, progress)
    with common.task(progress, "window", windows) as should_stop:
        found = evaluate_rolling(
            graph,
            window=length,
            windows=windows,
            dataset=edges.stem,
            peers=beside,
            model=model,
            seed=run.seed,
            hooks=lambda what: Hooks(should_stop=should_stop),
            on_window=lambda done, total: progress.advance(done),
        )
    if run.as_json:
        common.print_json(found.to_dict())
        return
    typer.echo(str(found))


def period_of(text: str) -> str | float:
    """A named period, or a number."""
    try:
        return float(text)
    except ValueError:
        return text
