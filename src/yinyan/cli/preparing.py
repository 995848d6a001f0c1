"""The command that prepares tables larger than memory for a distributed training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from yinyan.cli import common, flags
from yinyan.cli.flags import with_table
from yinyan.errors import InputError
from yinyan.graph.table_options import TableOptions
from yinyan.progress import show_progress

__all__ = ["prepare"]


@with_table
def prepare(
    edges: Annotated[
        list[str], typer.Argument(help="tables of edges: files, folders, globs or URLs", show_default=False)
    ],
    *,
    parts: Annotated[int, typer.Option(help="number of parts: one per process of the training", show_default=False)],
    out: Annotated[Path, typer.Option(help="folder for the parts")] = Path("prepared"),
    partition: Annotated[str, typer.Option(help="how nodes are divided: communities, metis or hash")] = "communities",
    protocol: Annotated[str, typer.Option(help="split of the edges: holdout, clean or temporal")] = "holdout",
    valid_share: Annotated[float | None, typer.Option(help="share of validation edges (default: 0.1)")] = None,
    test_share: Annotated[float | None, typer.Option(help="share of test edges (default: 0.2, holdout: 0)")] = None,
    engine: Annotated[str, typer.Option(help="where tasks run: auto, process or ray")] = "auto",
    memory: Annotated[
        float | None, typer.Option(help="memory to use in GiB (default: half of what is free, at most 8)")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="discard what an earlier run left in the folder")] = False,
    seed: flags.Seed = 0,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    table: TableOptions,
) -> None:
    """Divide tables larger than memory into parts for a distributed training."""
    from yinyan.preparing.stages import prepare_tables

    if table.query is not None or table.nodes_query is not None:
        raise InputError("yinyan prepare reads files: write the result of the query to Parquet files first")
    chosen: dict[str, Any] = {"partition": partition, "protocol": protocol, "engine": engine}
    found = prepare_tables(
        edges,
        out,
        table,
        parts=parts,
        valid_share=valid_share,
        test_share=test_share,
        seed=seed,
        memory=memory,
        restart=restart,
        tell=show_progress(quiet=quiet).note,
        **chosen,
    )
    common.print_json(found.to_dict()) if as_json else typer.echo(str(found))
