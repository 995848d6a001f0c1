"""The command that searches for settings."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from yinyan.cli import common, flags
from yinyan.cli.flags import Run, with_run, with_table
from yinyan.connect.urls import file_or_url
from yinyan.errors import InputError
from yinyan.files import write_text
from yinyan.graph.table_options import TableOptions
from yinyan.progress import aligned, interruptible, show_progress

__all__ = ["tune"]


@partial(with_run, without=("resume",))
@with_table
def tune(
    edges: flags.Edges,
    *,
    minutes: Annotated[float, typer.Option(help="budget of the search, over all runs of it")] = 20.0,
    out: Annotated[Path, typer.Option(help="TOML file for the settings, for fit --settings")] = Path("tuned.toml"),
    trials: Annotated[int | None, typer.Option(help="maximum number of trials (default: as the budget allows)")] = None,
    seeds: Annotated[int, typer.Option(help="number of seeds that compare the best settings with the defaults")] = 3,
    folder: Annotated[
        Path | None, typer.Option(help="folder that keeps the trials (default: OUT.trials)", show_default=False)
    ] = None,
    fit: Annotated[
        Path | None, typer.Option(help="directory for a model with the settings found (default: none)")
    ] = None,
    run: Run,
    table: TableOptions,
) -> None:
    """Search for settings that beat the defaults on validation edges. Run it again to go on."""
    from yinyan.model.tensors import pick_device
    from yinyan.reporting.report import fit_report
    from yinyan.settings import GROUPS
    from yinyan.tuning.search import tune as search

    if out.is_dir():
        raise InputError(f"--out needs the name of a file: '{out}' is a directory")
    if run.report is not None and fit is None:
        raise InputError("--report is of a fitted model: add --fit MODEL, or leave it out")
    common.check_outputs(fit, run.report)
    kept = folder or out.with_name(f"{out.stem}.trials")
    progress = show_progress(quiet=run.quiet)
    model = common.predictor(run)
    source = file_or_url(edges)
    graph = common.read_graph(source, table, progress)
    with interruptible(progress.note) as should_stop:
        found = search(
            graph,
            minutes=minutes,
            given={group: getattr(model, group) for group in GROUPS if getattr(model, group) is not None},
            seed=run.seed,
            seeds=seeds,
            device=pick_device(run.device),
            trials=trials,
            folder=kept,
            tell=lambda text: progress.note(aligned(text)),
            progress=progress,
            should_stop=should_stop,
        )
    write_text(out, found.to_toml())
    if fit is not None:
        model.set_params(**found.overrides)
        model.tuning_ = found
        common.run_fit(model, graph, fit, progress, resume=False)
        if run.report is not None:
            fit_report(run.report, model, title=f"Links of {source.name}")
    if run.as_json:
        paths = {"file": out, "folder": kept, "model": fit, "report": run.report}
        common.print_json(
            {**found.to_dict(), **{name: None if path is None else str(path) for name, path in paths.items()}}
        )
        return
    typer.echo(str(found))
    typer.echo(f"\nthe settings are in '{out}', the trials in '{kept}'")
    if fit is None:
        typer.echo(f"next: 'yinyan fit' with the same tables and --settings {shlex.quote(str(out))}")
    else:
        common.print_fit(model.fitted_, fit, run.report, as_json=False)
