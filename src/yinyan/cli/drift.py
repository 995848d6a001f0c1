"""The command that compares today's edges with those of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yinyan.cli import common, flags

__all__ = ["drift"]


def drift(
    model: flags.Model,
    edges: Annotated[Path, typer.Argument(help="table of edges that came after the fit", show_default=False)],
    *,
    source: Annotated[str | None, typer.Option(help="column of source ids (default: guessed)")] = None,
    target: Annotated[str | None, typer.Option(help="column of target ids (default: guessed)")] = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="first line is data (default: column names)")] = False,
    recommended: Annotated[
        Path | None, typer.Option(help="table of past recommendations: source and target (default: none)")
    ] = None,
    device: flags.Device = "auto",
    threads: flags.Threads = None,
    as_json: flags.AsJson = False,
) -> None:
    """Compare today's edges with those of training, and answer whether to refit."""
    from yinyan.graph.pair_tables import pairs_from_table

    pairs = pairs_from_table(edges, source, target, header=not no_header)
    past = None if recommended is None else pairs_from_table(recommended)
    found = common.load(model, device, threads=threads).drift(pairs, recommended=past)
    common.print_json(found.to_dict() | {"answer": found.answer}) if as_json else typer.echo(str(found))
