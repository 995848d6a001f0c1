"""The command that verifies a saved model: every file, its index, its change log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from yinyan.cli import common, flags
from yinyan.errors import StoreError

if TYPE_CHECKING:
    from yinyan.model.fitted import Fitted
    from yinyan.model.typed_fitted import TypedFitted
    from yinyan.retrieval.relation_names import RelationNames
    from yinyan.store import OpenedModel

__all__ = ["Checked", "check", "checked_model"]

_HARMLESS = ("intact", "outdated", "not of the model")


class Checked(NamedTuple):
    """What was found of one file."""

    file: str
    state: str  # intact, damaged, missing, unchecked; of an index also outdated; not of the model
    bytes: int | None
    note: str = ""


def check(
    model: flags.Model,
    *,
    log: flags.Log = None,
    as_json: flags.AsJson = False,
) -> None:
    """Verify the files of a saved model, its index and its change log; list what each table column became."""
    found, columns = checked_model(model, log)
    rows = [row._asdict() for row in found]
    wrong = [row for row in found if row.state not in _HARMLESS]
    if as_json:
        common.print_json({"model": str(model), "intact": not wrong, "files": rows, "columns": columns})
    else:
        common.print_rows([{**row, "bytes": "" if row["bytes"] is None else f"{row['bytes']:,}"} for row in rows],
                          as_json=False, right=(2,))  # fmt: skip
        if columns:
            typer.echo("\ncolumns of the tables that the model was fitted on:\n")
            common.print_rows([{**row, "size": row["size"] or ""} for row in columns], as_json=False, right=(4,))
    if wrong:
        names = ", ".join(dict.fromkeys(row.file for row in wrong))
        typer.echo(f"error: '{model}' is damaged ({names}): restore it from a copy, or fit again", err=True)
        raise typer.Exit(1)


def checked_model(path: Path, log: Path | str | None = None) -> tuple[list[Checked], list[dict[str, Any]]]:
    """A line for each file of a model directory, for what the files hold together, and for the change log.

    Also what each column of the tables became, if the model can be read.
    """
    from yinyan.store import opened_model

    if not path.is_dir():
        raise StoreError(f"there is no model directory '{path}'" + (" (it is a file)" if path.exists() else ""))
    try:
        with opened_model(path, check=False) as opened:
            manifest = Checked("manifest.json", "intact", _size(path / "manifest.json"))
            found, fitted = _parts(opened)
            found.insert(0, manifest)
    except StoreError as error:
        found, fitted = [Checked("manifest.json", "damaged", _size(path / "manifest.json"), str(error))], None
    found += _indexes(path, fitted)
    listed = {row.file for row in found}
    found += [
        Checked(entry.name, "not of the model", None, "not checked")
        for entry in sorted(path.iterdir())
        if entry.name not in listed
    ]
    return found + _log(path, log), [] if fitted is None else fitted.graph.columns.to_dicts()


def _parts(opened: OpenedModel) -> tuple[list[Checked], Fitted | TypedFitted | None]:
    """The files that the manifest lists, and the model if it can be read."""
    import torch

    from yinyan.store import any_fitted_model

    found: list[Checked] = []
    for name in sorted(opened.manifest["files"]):
        fault = opened.fault(name)
        size = None if name in opened.missing else _size(opened.path / name)
        state = "intact" if fault is None else "missing" if name in opened.missing else "damaged"
        found.append(Checked(name, state, size, fault or ""))
    if any(row.state != "intact" for row in found):
        return found, None
    try:
        fitted, _ = any_fitted_model(opened, torch.device("cpu"), mapped=True)
    except StoreError as error:
        return [*found, Checked("shapes and ranges", "damaged", None, str(error))], None
    graph = fitted.graph
    return [
        *found,
        Checked("shapes and ranges", "intact", None, f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges"),
    ], fitted


def _indexes(path: Path, fitted: Fitted | TypedFitted | None) -> list[Checked]:
    """The index of the model, or those of its relations."""
    from yinyan.model.fitted import Fitted
    from yinyan.retrieval.index_store import INDEX_FILE, index_file
    from yinyan.retrieval.relation_names import RelationNames

    if fitted is None:
        files = sorted(path.glob("index*.safetensors"))
        return [Checked(f.name, "unchecked", _size(f), "the model that it belongs to cannot be read") for f in files]
    if isinstance(fitted, Fitted):
        return [_index(path / INDEX_FILE, fitted, None)] if (path / INDEX_FILE).exists() else []
    names = [RelationNames(fitted.graph, fitted.graph.relations[name]) for name in fitted.predicted]
    return [
        _index(path / index_file(own), fitted.relations[own.relation.name], own)
        for own in names
        if (path / index_file(own)).exists()
    ]


def _index(file: Path, fitted: Fitted, names: RelationNames | None) -> Checked:
    from yinyan.retrieval.index_store import OutdatedIndexError, load_index

    size = _size(file)
    try:
        index = load_index(file.parent, fitted.graph, fitted.model.decoder, fitted.embeddings, names)
    except OutdatedIndexError as error:
        return Checked(file.name, "outdated", size, str(error))
    except StoreError as error:
        return Checked(file.name, "damaged", size, str(error))
    facts = index.metadata
    of_relation = "" if facts.relation is None else f"relation {facts.relation!r}, "
    return Checked(file.name, "intact", size, f"{of_relation}{facts.kind}, {facts.num_nodes:,} nodes")


def _log(path: Path, log: Path | str | None) -> list[Checked]:
    from yinyan.live.log_places import faults_of, log_place

    place = log_place(path, log)
    if isinstance(place, Path) and not place.exists():
        return [Checked(place.name, "missing", None, f"there is no file '{place}'")] if log is not None else []
    faults, size = faults_of(place)
    return [Checked(place.name, "damaged", size, fault) for fault in faults] or [Checked(place.name, "intact", size)]


def _size(file: Path) -> int | None:
    return file.stat().st_size if file.is_file() else None
