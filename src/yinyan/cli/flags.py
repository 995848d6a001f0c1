"""Flags that several commands share; those of tables and settings follow from their declarations."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from yinyan.connect.urls import DatabaseUrl
from yinyan.errors import InputError, SettingsError
from yinyan.graph.table_options import Switch, TableOptions
from yinyan.settings import GROUPS, RENAMED, parse_overrides, type_hints

if TYPE_CHECKING:  # the help of a command imports no pyarrow
    import pyarrow as pa

__all__ = [
    "Allow",
    "AsJson",
    "ByIndex",
    "Deny",
    "Device",
    "Edges",
    "Engine",
    "Exact",
    "Labels",
    "Log",
    "Model",
    "NoLabels",
    "Once",
    "Predict",
    "Quiet",
    "RelationColumn",
    "RelationName",
    "RowsFile",
    "RowsOrParts",
    "Run",
    "Seed",
    "Shards",
    "SkipUnknown",
    "SqlTarget",
    "Threads",
    "Where",
    "check_labels",
    "old_flag",
    "with_run",
    "with_sql",
    "with_table",
]

Command = Callable[..., None]

Edges = Annotated[
    str,
    typer.Argument(help="table of edges: a file, or the URL of a database with --query", show_default=False),
]
Log = Annotated[
    str | None,
    typer.Option(help="change log: file or postgresql:// URL (default: MODEL.changes.sqlite)", metavar="FILE|URL"),
]
Allow = Annotated[Path | None, typer.Option(help="table of source and target: only candidates of these sources")]
Deny = Annotated[Path | None, typer.Option(help="table of source and target: pairs that are not recommended")]
Once = Annotated[
    str | None,
    typer.Option(help="target: recommend nobody twice; node: nobody in two links"),
]
Model = Annotated[Path, typer.Argument(help="directory of a saved model", show_default=False)]
Seed = Annotated[int, typer.Option(help="seed of all random numbers")]
Device = Annotated[str, typer.Option(help="device: auto, cpu, cuda or mps")]
Threads = Annotated[int | None, typer.Option(help="number of threads (default: YINYAN_THREADS, else all cores)", min=1)]
RowsFile = Annotated[Path | None, typer.Option(help=".csv, .parquet, .jsonl, .arrow or .xlsx file (default: print)")]
RowsOrParts = Annotated[
    Path | None,
    typer.Option(help="file for the rows, or a folder with --all (default: print them)"),
]
Engine = Annotated[str, typer.Option(help="where to search: local (this process) or ray (a Ray cluster)")]
Shards = Annotated[
    int | None, typer.Option(help="number of Ray actors (default: the processors of the cluster)", min=1)
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="print no progress and no notes")]
ByIndex = Annotated[
    bool, typer.Option("--index", help="use the saved index (default: whichever search takes less time)")
]
Exact = Annotated[bool, typer.Option("--exact", help="score every candidate, without an index")]

Labels = Annotated[Path | None, typer.Option(help="table of ids, labels and attributes (default: those of the model)")]
NoLabels = Annotated[bool, typer.Option("--no-labels", help="show ids only")]
Where = Annotated[str | None, typer.Option(help="condition on links: candidate.year >= 2010 (default: none)")]
RelationColumn = Annotated[
    str | None,
    typer.Option("--relation", help="column of relations: name or position (default: one kind of edge)"),
]
Predict = Annotated[list[str] | None, typer.Option("--predict", help="relation to predict, repeatable (default: all)")]
RelationName = Annotated[
    str | None, typer.Option("--relation", help="relation that is asked about (default: the only one)")
]
SkipUnknown = Annotated[bool, typer.Option("--skip-unknown", help="leave out rows with unknown nodes (default: error)")]

MaxShardBytes = Annotated[
    int | None,
    typer.Option("--max-shard-bytes", min=1, help="size from which an array is saved in parts (default: 4 GiB)"),
]

_TABLE_PANEL = "Tables"
_REPEATED = (
    "edge_features",
    "feature_columns",
    "attributes",
    "na_values",
)  # options of tables that take several values


@dataclass(frozen=True)
class Run:
    """How a model is trained, and where its figures go: the flags of fit, evaluate, tune and demo."""

    settings: Annotated[Path | None, typer.Option(help="TOML file of settings; --set overrides it")] = None
    seed: Seed = 0
    device: Device = "auto"
    threads: Threads = None
    report: Annotated[Path | None, typer.Option(help="HTML file for a report (default: no report)")] = None
    as_json: AsJson = False
    quiet: Quiet = False
    resume: Annotated[bool, typer.Option("--resume", help="continue a run that was stopped with Ctrl-C")] = False
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict)  # of --set, and of the old flags


@dataclass(frozen=True)
class SqlTarget:
    """The table of a database that rows go to."""

    url: str
    table: str
    if_exists: str

    def __str__(self) -> str:
        return f"table {self.table!r} of {DatabaseUrl(self.url).shown}"

    def check(self) -> None:
        """Refuse what cannot be written before the rows are made."""
        from yinyan.connect.tables import opened_database  # help imports no pyarrow

        with opened_database(self.url) as database:
            database.check(self.table, self.if_exists)

    def write(self, schema: pa.Schema, parts: Iterable[pa.Table]) -> int:
        """Write rows, all or none; returns how many."""
        from yinyan.connect.tables import write_rows_to

        return write_rows_to(self.url, self.table, schema, parts, self.if_exists)


def with_sql(command: Command) -> Command:
    """Give a command the flags of `SqlTarget`, which it receives as `sql`, None without --to-sql."""
    flags = {
        "to_sql": typer.Option("--to-sql", metavar="URL", help="database that rows go to: sqlite:///links.db, ..."),
        "sql_table": typer.Option("--table", help="table for the rows, with --to-sql"),
        "if_exists": typer.Option(
            "--if-exists", help="if there is such a table: error, append, replace (default: error)"
        ),
    }
    added = [_keyword(name, Annotated[str | None, option], None) for name, option in flags.items()]

    def collect(given: dict[str, Any]) -> SqlTarget | None:
        url, table, if_exists = given["to_sql"], given["sql_table"], given["if_exists"]
        if url is None and (table is not None or if_exists is not None):
            raise InputError("--table and --if-exists are options of --to-sql: add it, or leave them out")
        if url is not None and table is None:
            raise InputError("--to-sql needs the name of a table: add --table links")
        return None if url is None else SqlTarget(url, table, if_exists or "error")

    return _extended(command, "sql", added, collect)


def check_labels(labels: Path | None, *, no_labels: bool) -> None:
    """Refuse two flags that exclude each other."""
    if labels is not None and no_labels:
        raise InputError("--labels and --no-labels exclude each other: leave one out")


def with_table(command: Command) -> Command:
    """Give a command the flags of `TableOptions`, which it receives as `table`."""
    fields = dataclasses.fields(TableOptions)
    added = [parameter for f in fields for parameter in _table_flags(f)]
    return _extended(command, "table", added, lambda given: TableOptions(**_table_values(given)))


def _table_flags(f: dataclasses.Field[Any]) -> list[inspect.Parameter]:
    """The flag of an option that takes a value, and the switch that stands for one."""
    found = []
    switch: Switch | None = f.metadata["switch"]
    flag = f.metadata["flag"]
    if flag != "":
        kind = list[str] if f.name in _REPEATED else str
        default = f.default if isinstance(f.default, str) else None
        option = _table(f.metadata["help"], f"--{(flag or f.name).replace('_', '-')}")
        found.append(_keyword(f.name, Annotated[kind | None, option], default))
    if switch is not None:
        name = switch.flag.replace("-", "_")
        found.append(_keyword(name, Annotated[bool, _table(switch.help, f"--{switch.flag}")], False))
    return found


def _table_values(given: dict[str, Any]) -> dict[str, Any]:
    """The values of `TableOptions` that the flags give."""
    values: dict[str, Any] = {}
    for f in dataclasses.fields(TableOptions):
        switch: Switch | None = f.metadata["switch"]
        value = given[f.name] if f.metadata["flag"] != "" else f.default
        value = (value or None) if f.name in _REPEATED else value
        if switch is not None and given[switch.flag.replace("-", "_")]:
            if value != f.default:
                flag = f.metadata["flag"] or f.name
                raise InputError(f"--{flag} and --{switch.flag} exclude each other: leave one out")
            value = switch.value
        values[f.name] = value
    if values["prefixes"] is not None:
        values["prefixes"] = tuple(values["prefixes"].split(","))
    if values["delimiter"] == "\\t":
        values["delimiter"] = "\t"
    return values


def _table(help: str, name: str) -> Any:
    return typer.Option(name, help=help, rich_help_panel=_TABLE_PANEL, show_default=False)


def with_run(command: Command, *, without: Sequence[str] = ()) -> Command:
    """Give a command the flags of `Run`, which it receives as `run`, and the hidden old flags of single settings.

    Flags `without` which it does keep their defaults.
    """
    hints = typing.get_type_hints(Run, include_extras=True)
    left_out = {"overrides", *without}
    plain = [_keyword(f.name, hints[f.name], f.default) for f in dataclasses.fields(Run) if f.name not in left_out]
    option = typer.Option(
        "--set", metavar="NAME=VALUE", help="setting such as encoder.num_steps=3, repeatable", show_default=False
    )
    hidden = [_hidden(flag, value) for flag, _, value in _old_names()]
    added = [_keyword("set_", Annotated[list[str] | None, option], None), *plain, *hidden]

    def collect(given: dict[str, Any]) -> Run:
        old = _old_assignments(given)
        if old:
            flags = ", ".join(flag for flag, _ in old)
            now = " ".join(f"--set {text}" for _, text in old)
            typer.echo(f"warning: {flags} will be removed in the next version: write {now}", err=True)
        overrides = parse_overrides([*(text for _, text in old), *(given["set_"] or ())])
        return Run(**{p.name: given[p.name] for p in plain}, overrides=overrides)

    return _extended(command, "run", added, collect)


def old_flag(group: str, field: str) -> str:
    """The flag that a setting had before --set: plain, but for the decoder's."""
    return "--" + (f"decoder_{field}" if group == "decoder" else field).replace("_", "-")


def _old_names() -> list[tuple[str, str, str | None]]:
    """Every flag there was, its setting, and the value that it stands for if it takes none."""
    names = [(group, f.name, f.name) for group, kind in GROUPS.items() for f in dataclasses.fields(kind)]
    names += [(group, old, new) for group, renamed in RENAMED.items() for old, new in renamed.items()]
    found: list[tuple[str, str, str | None]] = []
    for group, old, new in names:
        flag = old_flag(group, old)
        owner: type = GROUPS[group]
        if type_hints(owner)[new] is bool:
            found += [(flag, f"{group}.{new}", "true"), (f"--no-{flag[2:]}", f"{group}.{new}", "false")]
        else:
            found.append((flag, f"{group}.{new}", None))
    return found


def _old_assignments(given: dict[str, Any]) -> list[tuple[str, str]]:
    """The old flags that were used, each with the text that --set takes in its place."""
    used = {
        flag: f"{path}={value or given[_parameter(flag)]}"
        for flag, path, value in _old_names()
        if given[_parameter(flag)] not in (None, False)
    }
    for flag in used:
        no = f"--no-{flag[2:]}"
        if no in used:
            raise SettingsError(f"{flag} and {no} exclude each other: leave one out")
    return list(used.items())


def _hidden(flag: str, value: str | None) -> inspect.Parameter:
    kind, default = (str | None, None) if value is None else (bool, False)
    return _keyword(_parameter(flag), Annotated[kind, typer.Option(flag, hidden=True)], default)


def _parameter(flag: str) -> str:
    return "old_" + flag[2:].replace("-", "_")


def _extended(
    command: Command, receives: str, added: Sequence[inspect.Parameter], collect: Callable[[dict[str, Any]], Any]
) -> Command:
    """`command` with more parameters in place of `receives`, which their values reach together."""
    own = inspect.signature(command)
    hints = typing.get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for name, p in own.parameters.items():
        parameters += added if name == receives else [p.replace(annotation=hints.get(name, p.annotation))]

    def wrapped(**given: Any) -> None:
        values = {p.name: given.pop(p.name) for p in added}
        command(**given, **{receives: collect(values)})

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
