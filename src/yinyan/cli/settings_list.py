"""The command that lists the settings: name, meaning, default, allowed values."""

from __future__ import annotations

import dataclasses
import difflib
import shutil
from typing import Annotated, Any

import typer

from yinyan.cli import common, flags
from yinyan.errors import InputError
from yinyan.settings import GROUPS, allowed_values, setting_paths

__all__ = ["setting_row", "settings"]

_WIDTH = 100  # columns where the terminal's are unknown


def settings(
    names: Annotated[
        str | None, typer.Argument(help="group, setting or part of a name (default: all)", show_default=False)
    ] = None,
    *,
    as_json: flags.AsJson = False,
) -> None:
    """List the settings that --set and --settings take: name, meaning, default, allowed values."""
    rows = [setting_row(path) for path in setting_paths() if names is None or names in path]
    if not rows:
        near = difflib.get_close_matches(str(names), [*GROUPS, *setting_paths()], n=1, cutoff=0.0)[0]
        raise InputError(f"no setting is called {names!r} (nearest: {near!r})")
    if as_json:
        common.print_json(rows)
        return
    _print_table(rows)
    typer.echo("\nfit chooses some of them by the size and the features of the graph.")
    typer.echo("`yinyan info MODEL --json` prints those of a saved model.")
    typer.echo("Change them with --set encoder.num_steps=3 (repeatable) or with --settings FILE.toml.")


def setting_row(path: str) -> dict[str, Any]:
    """Name, meaning, default and allowed values of a setting."""
    group, _, name = path.partition(".")
    f = next(f for f in dataclasses.fields(GROUPS[group]) if f.name == name)
    default = "none" if f.default is None else f.default
    return {"name": path, "meaning": f.metadata["help"], "default": default, "allowed": allowed_values(group, name)}


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("meaning", ratio=3)
    table.add_column("default", no_wrap=True)
    table.add_column("allowed values", ratio=2)
    for row in rows:
        default = str(row["default"]).lower() if isinstance(row["default"], bool) else str(row["default"])
        table.add_row(row["name"], row["meaning"], default, row["allowed"])
    width = max(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns)
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)
