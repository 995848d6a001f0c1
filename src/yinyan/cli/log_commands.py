"""The command about the change log of a service."""

from __future__ import annotations

from typing import Annotated

import typer

from yinyan.cli import common, flags
from yinyan.text import counted

__all__ = ["compact"]


def compact(
    model: flags.Model,
    *,
    log: flags.Log = None,
    keep: Annotated[int, typer.Option(help="number of newest changes that stay as they are", min=0)] = 1_000,
    as_json: flags.AsJson = False,
) -> None:
    """Replace old changes in the change log of a service by their net effect; the service may be running."""
    from yinyan.live.compaction import compact as compact_log
    from yinyan.live.log_places import log_place

    directed = common.load(model, "cpu").graph_.directed
    made = compact_log(log_place(model, log), keep=keep, directed=directed)
    if as_json:
        common.print_json(made._asdict())
        return
    size = f"{made.bytes_before / 2**20:.2f} MiB, now {made.bytes_after / 2**20:.2f} MiB"
    typer.echo(f"compacted {counted(made.changes, 'change')} into {counted(made.records, 'record')} ({size})")
