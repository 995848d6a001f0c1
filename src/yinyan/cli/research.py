"""The commands of researchers: audits, methods, data sets, and the paper's tables again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yinyan.cli import common, flags, relations
from yinyan.cli.flags import with_table
from yinyan.connect.urls import file_or_url
from yinyan.errors import InputError
from yinyan.graph.table_options import TableOptions
from yinyan.progress import Progress, show_progress

if TYPE_CHECKING:
    from yinyan.auditing import Audit
    from yinyan.graph.typed_graph import TypedGraph
    from yinyan.reproduce import Cell, Job, Recipe

__all__ = ["audit", "datasets", "methods", "reproduce"]


@with_table
def audit(
    edges: flags.Edges,
    split: Annotated[
        Path | None, typer.Argument(help="folder of train, valid and test files", show_default=False)
    ] = None,
    *,
    relation: flags.RelationColumn = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    table: TableOptions,
) -> None:
    """Search a split for leaks, or relations for inverse and duplicate ones; exit with 1 if there are leaks.

    With --relation the table, or the parts in the folder, are searched for relations that give each other's answers
    away; the parts are tables of the same columns.
    """
    from yinyan.auditing import audit as look_at
    from yinyan.auditing.split_files import read_split_folder

    progress = show_progress(quiet=quiet)
    if relation is not None:
        typed = relations.read_typed(file_or_url(edges), table, relation, progress)
        _show_audit(_of_relations(typed, split, table, relation), as_json=as_json)
        return
    if split is None:
        raise InputError("audit needs a folder of split files, or --relation to look at relations")
    graph = common.read_graph(file_or_url(edges), table, progress)
    folder = read_split_folder(split, graph, prefixes=table.prefixes, encoding=table.encoding)
    for note in folder.notes:
        progress.note(common.aligned(note))
    _show_audit(look_at(folder.parts, graph=graph, raises=False), as_json=as_json)


def _of_relations(graph: TypedGraph, split: Path | None, table: TableOptions, relation: str) -> Audit:
    """The audit of a graph with relations, or of the parts in a folder."""
    from yinyan.auditing import audit as look_at
    from yinyan.auditing.relation_files import read_relation_folder

    if split is None:
        return look_at(graph, raises=False)
    parts = read_relation_folder(split, graph, relations.typed_options(table, relation))
    return look_at(parts, graph=graph, raises=False)


def _show_audit(found: Audit, *, as_json: bool) -> None:
    common.print_json(found.to_dict()) if as_json else typer.echo(str(found))
    if found.leaks:
        raise typer.Exit(1)


def reproduce(
    recipes: Annotated[
        list[str] | None, typer.Argument(help="tables, by their names in --list", show_default=False)
    ] = None,
    *,
    list_all: Annotated[
        bool, typer.Option("--list", help="list every table and figure, and its finished runs")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="run all tables that need no GPU")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="run on small synthetic graphs, as a test of the recipes")
    ] = False,
    data: Annotated[
        str | None, typer.Option("--data", "--dataset", help="data sets to run, such as cora,citeseer (default: all)")
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="protocol to run, such as clean (default: all)")] = None,
    method: Annotated[str | None, typer.Option(help="methods to run, such as cn,katz (default: all)")] = None,
    seeds: Annotated[int | None, typer.Option(help="number of seeds (default: the recipe's)", min=1)] = None,
    workers: Annotated[int, typer.Option(help="number of parallel runs, one thread each if several", min=1)] = 1,
    pages_only: Annotated[bool, typer.Option("--pages", help="write the pages of finished runs, run nothing")] = False,
    out: Annotated[Path, typer.Option(help="folder for pages and results; finished runs are reused")] = Path("results"),
    device: flags.Device = "cpu",
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
) -> None:
    """Reproduce the paper's tables: published values next to ours, under each protocol.

    --json prints the paths of the pages, or the figures if one row, one data set and one protocol are chosen.
    """
    from yinyan.reproduce import Job, kept_results
    from yinyan.reproduce.pages import recipe_list, write_index, write_pages
    from yinyan.reproduce.result_tables import spread_over_seeds
    from yinyan.reproduce.verdict_page import write_verdicts

    job = Job(out / "smoke" if smoke else out, device, threads=1 if workers > 1 else 0, smoke=smoke)
    if list_all:
        rows = [{"recipe": name, "title": title, "state": state} for name, title, state in recipe_list(job)]
        common.print_rows(rows, as_json=as_json)
        return
    chosen = _recipes(recipes, everything=everything, smoke=smoke)
    cells = _cells(chosen, {"data": data, "protocol": protocol, "method": method}, 1 if smoke else seeds)
    try:
        if not pages_only:
            _run(cells, job, workers, show_progress(quiet=quiet))
    finally:  # after a stop, what there is makes a thin table
        pages = {recipe.name: write_pages(recipe, kept_results(recipe.cells(seeds), job), job) for recipe in chosen}
        write_index(job)
        write_verdicts(job)
    if as_json:
        pages_made = {name: [str(path) for path in paths] for name, paths in pages.items()}
        common.print_json(spread_over_seeds(kept_results(cells, job)) or pages_made)
        return
    for paths in pages.values():
        typer.echo(paths[0].read_text(encoding="utf-8"))
    typer.echo(f"the pages are in '{job.folder}'")


def methods(*, as_json: flags.AsJson = False) -> None:
    """List the methods that evaluate compares: ours and the peers."""
    from yinyan.peers.registry import METHODS, PEERS
    from yinyan.text import counted

    rows = [{"method": name, "family": card.family, "words": card.words} for name, card in METHODS.items()]
    common.print_rows(rows, as_json=as_json)
    if not as_json:
        typer.echo(f"\n{counted(len(PEERS), 'peer')}, {len(METHODS) - len(PEERS)} variants of ours")


def datasets(*, as_json: flags.AsJson = False) -> None:
    """List the data sets that can be loaded by name."""
    from yinyan.datasets import NAMES

    common.print_json(list(NAMES)) if as_json else typer.echo("\n".join(NAMES))


def _recipes(names: list[str] | None, *, everything: bool, smoke: bool) -> list[Recipe]:
    from yinyan.reproduce import read_recipe, recipe_names

    if not names and not everything and not smoke:
        raise InputError("name a table (yinyan reproduce --list shows them), or pass --all")
    chosen = [read_recipe(name) for name in names or recipe_names()]
    return [recipe for recipe in chosen if names or smoke or not recipe.needs]


def _cells(recipes: list[Recipe], chosen: dict[str, str | None], seeds: int | None) -> list[Cell]:
    cells = [cell for recipe in recipes for cell in recipe.cells(seeds)]
    for option, given in chosen.items():
        if given is not None:
            only = _among(f"--{option}", given, {getattr(cell, option) for cell in cells})
            cells = [cell for cell in cells if getattr(cell, option) in only]
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
    with common.task(progress, "run", len(runs), kept) as should_stop:
        run_cells(
            cells,
            job,
            workers=workers,
            on_done=lambda result, done, total: progress.advance(kept + done, result.cell.summary),
            should_stop=should_stop,
        )
