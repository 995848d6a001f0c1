"""Flags that several commands share: one for each setting, and one for each way to read a table."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from yinyan.errors import InputError
from yinyan.settings import GROUPS, allowed_kinds

__all__ = ["TableFlags", "flag_name", "with_settings", "with_table"]

Command = Callable[..., None]

_PLAIN = (bool, int, float)


def _table(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Reading the tables", show_default=False)


@dataclass(frozen=True)
class TableFlags:
    """How the tables of links and nodes are to be read."""

    nodes: Annotated[Path | None, _table("table of nodes: an id, and columns that become features")] = None
    source: Annotated[str | None, _table("column of the first end, by name or position")] = None
    target: Annotated[str | None, _table("column of the second end")] = None
    weight: Annotated[str | None, _table("column of weights")] = None
    no_weight: Annotated[bool, _table("use no weights", "--no-weight")] = False
    time: Annotated[str | None, _table("column of times")] = None
    no_time: Annotated[bool, _table("use no times", "--no-time")] = False
    node_id: Annotated[str | None, _table("id column of the node table")] = None
    feature: Annotated[list[str] | None, _table("a feature column (repeat the flag; else all)")] = None
    directed: Annotated[bool, _table("a->b is not b->a", "--directed")] = False
    bipartite: Annotated[bool, _table("links join two kinds of nodes", "--bipartite")] = False
    prefixes: Annotated[str | None, _table("two prefixes that keep both sides' ids apart: user:,item:")] = None
    keep_unmatched: Annotated[bool, _table("allow nodes that only one table knows", "--keep-unmatched")] = False
    id_type: Annotated[str, _table("read ids as: keep, text or integer")] = "keep"
    no_header: Annotated[bool, _table("the first line is data", "--no-header")] = False
    delimiter: Annotated[str | None, _table("between columns (else found out)")] = None
    encoding: Annotated[str, _table("of text files (utf-8)")] = "utf-8"

    def graph_options(self) -> dict[str, Any]:
        """Keyword arguments of `Graph.from_table`."""
        if self.id_type not in ("keep", "text", "integer"):
            raise InputError(f"--id-type needs to be keep, text or integer (got {self.id_type!r})")
        prefixes = None
        if self.prefixes is not None:
            prefixes = tuple(self.prefixes.split(","))
            if len(prefixes) != 2:
                raise InputError(f"--prefixes needs two texts with a comma between (got {self.prefixes!r})")
        return {
            "source": _column(self.source),
            "target": _column(self.target),
            "weight": False if self.no_weight else _column(self.weight),
            "time": False if self.no_time else _column(self.time),
            "nodes": self.nodes,
            "node_id": _column(self.node_id),
            "feature_columns": [_column(c) for c in self.feature] if self.feature else None,
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
            if given[name] is not None:
                overrides.setdefault(group, {})[f.name] = _converted(group, f, given[name])
        return overrides

    added = [_setting(name, group, f) for name, (group, f) in places.items()]
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


def _setting(name: str, group: str, f: dataclasses.Field[Any]) -> inspect.Parameter:
    kinds, choices = _kinds(group, f)
    plain = [k for k in _PLAIN if k in kinds]
    kind: Any = plain[0] if plain and not choices and type(None) not in kinds else str
    shown = "none" if f.default is None else str(f.default).lower() if isinstance(f.default, bool) else str(f.default)
    words = [*choices, *(["a number"] if choices and plain else [])]
    text = f.metadata["help"] + (f" ({', '.join(words)})" if words else "") + f"; usually {shown}"
    flag = "--" + name.replace("_", "-")
    names = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
    option = typer.Option(names, help=text, rich_help_panel=f"Settings: {group}", show_default=False)
    return _keyword(name, Annotated[kind | None, option], None)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _converted(group: str, f: dataclasses.Field[Any], value: Any) -> Any:
    """Text given for a setting that takes words or numbers."""
    kinds, choices = _kinds(group, f)
    if isinstance(value, str) and value not in choices and float in kinds and value != "none":
        try:
            return float(value)
        except ValueError:
            return value  # the settings' own check names what is allowed
    return value


def _kinds(group: str, f: dataclasses.Field[Any]) -> tuple[list[type], list[str]]:
    return allowed_kinds(typing.get_type_hints(GROUPS[group])[f.name])


def _column(given: str | None) -> str | int | None:
    """A column by name, or by position where the text is a number."""
    return int(given) if given is not None and given.isdigit() else given
