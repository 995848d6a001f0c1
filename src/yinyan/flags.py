"""Flags that several commands share; those of the settings follow from the settings themselves."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from yinyan.errors import InputError, SettingsError
from yinyan.settings import GROUPS, allowed_kinds, type_hints

__all__ = [
    "AsJson",
    "Device",
    "Edges",
    "Model",
    "Quiet",
    "Report",
    "Resume",
    "RowsFile",
    "Seed",
    "SettingsFile",
    "TableFlags",
    "flag_name",
    "with_settings",
    "with_table",
]

Command = Callable[..., None]

Edges = Annotated[Path, typer.Argument(help="table of links: CSV, TSV or Parquet", show_default=False)]
Model = Annotated[Path, typer.Argument(help="directory of a saved model", show_default=False)]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="TOML file of settings; flags win over it")]
Seed = Annotated[int, typer.Option(help="the same seed gives the same result")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps")]
Report = Annotated[Path | None, typer.Option(help="also write a report, one HTML file")]
RowsFile = Annotated[Path | None, typer.Option(help="write a .parquet or .csv file instead of printing")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="no progress, no notes")]
Resume = Annotated[bool, typer.Option("--resume", help="go on where a run was stopped with Ctrl-C")]

_SHOWN = {int: "<int>", float: "<float>"}  # what the help shows after a flag; "<str>" for the others


def _table(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Reading the tables", show_default=False)


@dataclass(frozen=True)
class TableFlags:
    """How the tables of links and nodes are to be read."""

    nodes: Annotated[Path | None, _table("table of nodes: an id, and columns that become features")] = None
    source: Annotated[str | None, _table("column of the first end, by name or position from 0")] = None
    target: Annotated[str | None, _table("column of the second end")] = None
    weight: Annotated[str | None, _table("column of weights")] = None
    no_weight: Annotated[bool, _table("use no weights", "--no-weight")] = False
    time: Annotated[str | None, _table("column of times")] = None
    no_time: Annotated[bool, _table("use no times", "--no-time")] = False
    node_id: Annotated[str | None, _table("id column of the node table")] = None
    feature: Annotated[list[str] | None, _table("a feature column; repeat the flag (else all)")] = None
    directed: Annotated[bool, _table("a link from a to b is none from b to a", "--directed")] = False
    bipartite: Annotated[bool, _table("links join two kinds of nodes", "--bipartite")] = False
    prefixes: Annotated[str | None, _table("put before the ids of the two kinds: user:,item:")] = None
    keep_unmatched: Annotated[bool, _table("allow nodes that only one table knows", "--keep-unmatched")] = False
    id_type: Annotated[str, _table("read ids as: keep, text or integer (keep)")] = "keep"
    no_header: Annotated[bool, _table("the first line is data", "--no-header")] = False
    delimiter: Annotated[str | None, _table("between columns (else found out)")] = None
    encoding: Annotated[str, _table("of text files (utf-8)")] = "utf-8"

    def graph_options(self) -> dict[str, Any]:
        """Keyword arguments of `Graph.from_table`."""
        if self.id_type not in ("keep", "text", "integer"):
            raise InputError(f"--id-type needs to be keep, text or integer (got {self.id_type!r})")
        if self.nodes is None and (self.node_id is not None or self.feature):
            raise InputError("--node-id and --feature choose columns of a node table: name it with --nodes")
        for name in ("weight", "time"):
            if getattr(self, name) is not None and getattr(self, f"no_{name}"):
                raise InputError(f"--{name} and --no-{name} exclude each other: leave one out")
        prefixes = None
        if self.prefixes is not None:
            prefixes = tuple(self.prefixes.split(","))
            if len(prefixes) != 2:
                raise InputError(f"--prefixes needs two texts with a comma between (got {self.prefixes!r})")
            if not self.bipartite:
                raise InputError("--prefixes tell two kinds of nodes apart: add --bipartite")
        return {
            "source": self.source,
            "target": self.target,
            "weight": False if self.no_weight else self.weight,
            "time": False if self.no_time else self.time,
            "nodes": self.nodes,
            "node_id": self.node_id,
            "feature_columns": self.feature or None,
            "directed": self.directed,
            "bipartite": self.bipartite,
            "prefixes": prefixes,
            "unmatched": "keep" if self.keep_unmatched else "error",
            "id_type": self.id_type,
            "header": not self.no_header,
            "delimiter": "\t" if self.delimiter == "\\t" else self.delimiter,
            "encoding": self.encoding,
        }


def with_table(command: Command) -> Command:
    """Give a command the flags of `TableFlags`, which it receives as `table`."""
    hints = typing.get_type_hints(TableFlags, include_extras=True)
    fields = dataclasses.fields(TableFlags)
    added = [_keyword(f.name, hints[f.name], f.default) for f in fields]
    return _extended(command, "table", added, lambda given: TableFlags(**given))


def with_settings(command: Command) -> Command:
    """Give a command a flag for each setting; those that were used reach it as `overrides`."""
    places = {flag_name(group, f.name): (group, f) for group, kind in GROUPS.items() for f in dataclasses.fields(kind)}

    def collect(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
        overrides: dict[str, dict[str, Any]] = {}
        for name, (group, f) in places.items():
            value = _given(name, group, f, given)
            if value is not None:
                overrides.setdefault(group, {})[f.name] = value
        return overrides

    added = [parameter for name, (group, f) in places.items() for parameter in _setting(name, group, f)]
    return _extended(command, "overrides", added, collect)


def flag_name(group: str, field: str) -> str:
    """The parameter's name: plain, but for the decoder's, whose dropout and norm are not the encoder's."""
    return f"decoder_{field}" if group == "decoder" else field


def _extended(
    command: Command, receives: str, added: Sequence[inspect.Parameter], collect: Callable[[dict[str, Any]], Any]
) -> Command:
    """`command` with more parameters, whose values reach it together, as the one parameter `receives`."""
    own = inspect.signature(command)
    hints = typing.get_type_hints(command, include_extras=True)
    kept = [p.replace(annotation=hints.get(n, p.annotation)) for n, p in own.parameters.items() if n != receives]

    def wrapped(**given: Any) -> None:
        values = {p.name: given.pop(p.name) for p in added}
        command(**given, **{receives: collect(values)})

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in [*kept, *added]}
    return wrapped


def _setting(name: str, group: str, f: dataclasses.Field[Any]) -> list[inspect.Parameter]:
    """The flag of a setting; one that is true or false has a second, which the help of the first names."""
    kinds, choices = _kinds(group, f)
    flag, panel = "--" + name.replace("_", "-"), f"Settings: {group}"
    shown = "none" if f.default is None else str(f.default).lower() if isinstance(f.default, bool) else str(f.default)
    words = [*choices, *(["a number"] if choices and float in kinds else [])]
    text = f.metadata["help"] + (f" ({', '.join(words)})" if words else "") + f"; usually {shown}"
    if bool in kinds:
        no = "--no-" + flag[2:]
        on = typer.Option(flag, help=f"{text} (or {no})", rich_help_panel=panel, show_default=False)
        off = typer.Option(no, hidden=True)  # a column of its own would leave the help no room
        return [_keyword(name, Annotated[bool, on], False), _keyword(f"no_{name}", Annotated[bool, off], False)]
    metavar = next((shown for kind, shown in _SHOWN.items() if kind in kinds and not choices), "<str>")
    option = typer.Option(flag, help=text, metavar=metavar, rich_help_panel=panel, show_default=False)
    return [_keyword(name, Annotated[str | None, option], None)]


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _given(name: str, group: str, f: dataclasses.Field[Any], given: dict[str, Any]) -> Any:
    """The value that the flags give a setting, None if none was used; the settings' own check has the last word."""
    kinds, choices = _kinds(group, f)
    if bool in kinds:
        if given[name] and given[f"no_{name}"]:
            flag = name.replace("_", "-")
            raise SettingsError(f"--{flag} and --no-{flag} exclude each other: leave one out")
        return True if given[name] else False if given[f"no_{name}"] else None
    text = given[name]
    if text is None or text in choices:
        return text
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                break
    return text


def _kinds(group: str, f: dataclasses.Field[Any]) -> tuple[list[type], list[str]]:
    owner: type = GROUPS[group]
    return allowed_kinds(type_hints(owner)[f.name])
