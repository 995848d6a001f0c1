"""The commands about many nodes at once: an index of a model, and the best new links of its whole graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yinyan import flags
from yinyan.errors import InputError
from yinyan.progress import interruptible, show_progress

__all__ = ["index", "mine"]


def index(
    model: flags.Model,
    *,
    kind: Annotated[str, typer.Option(help="auto, exact, mips or flashlight")] = "auto",
    recall: Annotated[float, typer.Option(help="share of the exact answer to be found")] = 0.98,
    milliseconds: Annotated[float | None, typer.Option(help="time of a node at most")] = None,
    megabytes: Annotated[float | None, typer.Option(help="size at most, beside the embeddings")] = None,
    k: Annotated[int, typer.Option("-k", help="links a node that recall is measured for")] = 100,
    seed: flags.Seed = 0,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
) -> None:
    """Build an index of a saved model, measure its recall, and keep it in the model's directory."""
    from yinyan import shell

    if kind not in ("auto", "exact", "mips", "flashlight"):
        raise InputError(f"--kind needs to be auto, exact, mips or flashlight (got {kind!r})")
    progress = show_progress(quiet=quiet)
    made = shell.load(model, "cpu").index(
        kind,  # type: ignore[arg-type]
        recall=recall,
        milliseconds=milliseconds,
        megabytes=megabytes,
        k=k,
        seed=seed,
        tell=progress.note,
    )
    made.save(model)
    shell.print_json(made.metadata.to_dict()) if as_json else typer.echo(str(made.metadata))


def mine(
    model: flags.Model,
    *,
    k: Annotated[int, typer.Option("-k", help="links, at most")] = 100,
    by_index: Annotated[bool, typer.Option("--index", help="by the index that yinyan index has built")] = False,
    out: flags.RowsFile = None,
    device: flags.Device = "auto",
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
) -> None:
    """Name the best new links of the whole graph."""
    from yinyan import shell
    from yinyan.bulk import check_rows_file

    if out is not None:
        check_rows_file(Path(out))
    predictor, progress = shell.load(model, device), show_progress(quiet=quiet)
    built = predictor.load_index(model) if by_index else None
    progress.start("nodes", predictor.graph_.num_nodes, 0)
    try:
        with interruptible(progress.note) as should_stop:
            found = predictor.best_links(
                k, index=built, on_progress=lambda done, total: progress.advance(done), should_stop=should_stop
            )
    finally:
        progress.finish()
    if out is not None:
        shell.deliver(found.to_arrow(), out, as_json=as_json)
    else:
        shell.print_links(found, as_json=as_json)
