"""The commands of researchers: audits, methods, data sets, and the paper's tables again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yinyan import flags
from yinyan.errors import InputError
from yinyan.flags import TableFlags, with_table
from yinyan.progress import Progress, interruptible, show_progress

if TYPE_CHECKING:
    from yinyan.reproduce import Cell, Job, Recipe

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
    data: Annotated[
        str | None, typer.Option("--data", "--dataset", help="only these data sets, such as cora,citeseer")
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="only this protocol, such as clean")] = None,
    seeds: Annotated[int | None, typer.Option(help="fewer or more seeds than the recipe says", min=1)] = None,
    workers: Annotated[int, typer.Option(help="runs at a time, one thread each if several", min=1)] = 1,
    pages_only: Annotated[bool, typer.Option("--pages", help="run nothing, write pages of what was run")] = False,
    out: Annotated[Path, typer.Option(help="folder for pages and results; finished runs there are kept")] = Path(
        "results"
    ),
    device: flags.Device = "cpu",
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
) -> None:
    """Make the paper's tables again, the published value beside ours under each protocol.

    --json names the pages; where one row of one data set under one protocol was asked for, it prints its figures.
    """
    from yinyan import shell
    from yinyan.reproduce import Job, kept_results
    from yinyan.reproduce.pages import recipe_list, write_index, write_pages
    from yinyan.reproduce.tables import spread_over_seeds

    job = Job(out / "smoke" if smoke else out, device, threads=1 if workers > 1 else 0, smoke=smoke)
    if list_all:
        _print_rows(("recipe", "title", "state"), recipe_list(job), as_json=as_json)
        return
    chosen = _recipes(recipes, everything=everything, smoke=smoke)
    cells = _cells(chosen, data, protocol, 1 if smoke else seeds)
    try:
        if not pages_only:
            _run(cells, job, workers, show_progress(quiet=quiet))
    finally:  # after a stop, what there is makes a thin table
        pages = {recipe.name: write_pages(recipe, kept_results(recipe.cells(seeds), job), job) for recipe in chosen}
        write_index(job)
    if as_json:
        pages_made = {name: [str(path) for path in paths] for name, paths in pages.items()}
        shell.print_json(spread_over_seeds(kept_results(cells, job)) or pages_made)
        return
    for paths in pages.values():
        typer.echo(paths[0].read_text(encoding="utf-8"))
    typer.echo(f"the pages are in '{job.folder}'")


def methods(*, as_json: flags.AsJson = False) -> None:
    """List the methods of the harness."""
    from yinyan.peers.registry import METHODS

    rows = [(name, card.family, card.words) for name, card in METHODS.items()]
    _print_rows(("method", "family", "words"), rows, as_json=as_json)


def datasets(*, as_json: flags.AsJson = False) -> None:
    """List the data sets that are loaded by name."""
    from yinyan import shell
    from yinyan.datasets import NAMES

    shell.print_json(list(NAMES)) if as_json else typer.echo("\n".join(NAMES))


def _recipes(names: list[str] | None, *, everything: bool, smoke: bool) -> list[Recipe]:
    from yinyan.reproduce import read_recipe, recipe_names

    if not names and not everything and not smoke:
        raise InputError("name a table (yinyan reproduce --list shows them), or say --all")
    chosen = [read_recipe(name) for name in names or recipe_names()]
    return [recipe for recipe in chosen if names or smoke or not recipe.needs]


def _cells(recipes: list[Recipe], data: str | None, protocol: str | None, seeds: int | None) -> list[Cell]:
    cells = [cell for recipe in recipes for cell in recipe.cells(seeds)]
    if data is not None:
        only = _among("--data", data, {cell.data for cell in cells})
        cells = [cell for cell in cells if cell.data in only]
    if protocol is not None:
        only = _among("--protocol", protocol, {cell.protocol for cell in cells})
        cells = [cell for cell in cells if cell.protocol in only]
    return cells


def _among(option: str, given: str, known: set[str]) -> set[str]:
    """The names in a list with commas, each of them known."""
    only = {part.strip() for part in given.split(",")}
    if only - known:
        raise InputError(f"{option} needs to be among {', '.join(sorted(known))} (got {given!r})")
    return only


def _run(cells: list[Cell], job: Job, workers: int, progress: Progress) -> None:
    from yinyan.reproduce import kept_results, run_cells

    runs = {cell.digest: cell for cell in cells}
    kept = len(kept_results(runs.values(), job))
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
    finally:
        progress.finish()


def _print_rows(keys: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, as_json: bool) -> None:
    from yinyan import shell
    from yinyan.results import text_table

    if as_json:
        shell.print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        typer.echo(text_table(list(keys), [list(row) for row in rows]))
