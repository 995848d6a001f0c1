"""The commands of researchers: audits, methods, data sets, and the paper's tables again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yinyan import flags
from yinyan.errors import InputError, StoppedError
from yinyan.flags import TableFlags, with_table
from yinyan.progress import interruptible, show_progress

__all__ = ["audit", "datasets", "methods", "reproduce"]


@with_table
def audit(
    edges: flags.Edges,
    split: Annotated[Path, typer.Argument(help="folder of train, valid and test files, _pos and _neg or plain")],
    *,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    table: TableFlags,
) -> None:
    """Look for leaks in a split that somebody made; fails if there are any."""
    from yinyan import shell
    from yinyan.auditing import audit as look_at
    from yinyan.auditing.files import read_split_folder

    progress = show_progress(quiet=quiet)
    graph = shell.read_graph(edges, table, progress)
    prefixes = table.graph_options()["prefixes"]
    folder = read_split_folder(split, graph, prefixes=prefixes, encoding=table.encoding)
    for note in folder.notes:
        progress.note(note)
    found = look_at(folder.parts, graph=graph, raises=False)
    shell.print_json(found.to_dict()) if as_json else typer.echo(str(found))
    if found.leaks:
        raise typer.Exit(1)


def reproduce(
    recipes: Annotated[
        list[str] | None, typer.Argument(help="tables, as --list names them", show_default=False)
    ] = None,
    *,
    list_all: Annotated[bool, typer.Option("--list", help="name every table and figure, and what was run")] = False,
    everything: Annotated[bool, typer.Option("--all", help="all that need no GPU")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="on small stand-ins: does every recipe run?")] = False,
    data: Annotated[str | None, typer.Option(help="only these data sets, such as cora,citeseer")] = None,
    seeds: Annotated[int | None, typer.Option(help="fewer or more seeds than the recipe says", min=1)] = None,
    workers: Annotated[int, typer.Option(help="runs at a time, one thread each if several", min=1)] = 1,
    out: Annotated[Path, typer.Option(help="folder for pages and results; finished runs there are kept")] = Path(
        "results"
    ),
    device: flags.Device = "cpu",
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
) -> None:
    """Make the paper's tables again, the published value beside ours under each protocol."""
    from yinyan import shell
    from yinyan.reproduce import Job, kept_results, read_recipe, recipe_names, run_cells
    from yinyan.reproduce.pages import recipe_list, write_index, write_pages
    from yinyan.results import text_table

    job = Job(out / "smoke" if smoke else out, device, threads=1 if workers > 1 else 0, smoke=smoke)
    if list_all:
        rows = recipe_list(job)
        keys = ("recipe", "title", "state")
        listed = [dict(zip(keys, row, strict=True)) for row in rows]
        shell.print_json(listed) if as_json else typer.echo(text_table(list(keys), [list(row) for row in rows]))
        return
    chosen = [read_recipe(name) for name in recipes or (recipe_names() if everything or smoke else ())]
    if not chosen:
        raise InputError("name a table (yinyan reproduce --list shows them), or say --all")
    if everything and not smoke:
        chosen = [recipe for recipe in chosen if not recipe.needs]
    cells = [cell for recipe in chosen for cell in recipe.cells(1 if smoke else seeds)]
    if data is not None:
        known, only = {cell.data for cell in cells}, {part.strip() for part in data.split(",")}
        if only - known:
            raise InputError(f"--data needs to be among {', '.join(sorted(known))} (got {data!r})")
        cells = [cell for cell in cells if cell.data in only]
    runs = {cell.digest: cell for cell in cells}
    kept = len(kept_results(runs.values(), job))

    def write_all() -> dict[str, list[Path]]:
        made = {recipe.name: write_pages(recipe, kept_results(recipe.cells(seeds), job), job) for recipe in chosen}
        write_index(job)
        return made

    progress = show_progress(quiet=quiet)
    progress.start("run", len(runs), kept)
    try:
        with interruptible(progress.note) as should_stop:
            run_cells(
                cells,
                job,
                workers=workers,
                on_done=lambda result, done, total: progress.advance(kept + done, result.cell.summary),
                should_stop=should_stop,
            )
    except StoppedError:  # what there is makes a thin table
        progress.finish()
        write_all()
        raise
    finally:
        progress.finish()
    pages = write_all()
    if as_json:
        shell.print_json({name: [str(path) for path in paths] for name, paths in pages.items()})
        return
    for paths in pages.values():
        typer.echo(paths[0].read_text(encoding="utf-8"))
    typer.echo(f"the pages are in '{job.folder}'")


def methods(*, as_json: flags.AsJson = False) -> None:
    """List the methods of the harness."""
    from yinyan import shell
    from yinyan.peers.registry import METHODS
    from yinyan.results import text_table

    if as_json:
        shell.print_json([{"method": name, "family": c.family, "words": c.words} for name, c in METHODS.items()])
    else:
        rows = [[name, card.family, card.words] for name, card in METHODS.items()]
        typer.echo(text_table(["method", "family", ""], rows))


def datasets(*, as_json: flags.AsJson = False) -> None:
    """List the data sets that are loaded by name."""
    from yinyan import shell
    from yinyan.datasets import NAMES

    shell.print_json(list(NAMES)) if as_json else typer.echo("\n".join(NAMES))
