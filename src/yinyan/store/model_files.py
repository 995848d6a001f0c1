"""A model on disk: a directory of plain formats, written whole or not at all, and trusted only if intact."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from yinyan import __version__
from yinyan.errors import StoreError, YinYanError
from yinyan.files import (
    exclusive,
    file_digest,
    flush_to_disk,
    remove_abandoned,
    temporary_beside,
    write_error,
)
from yinyan.graph.features import SparseFeatures
from yinyan.model.decoder import Decoder
from yinyan.model.fitted import Fitted
from yinyan.model.typed_fitted import TypedFitted
from yinyan.settings import GROUPS
from yinyan.store.card import model_card
from yinyan.store.lists import list_arrays
from yinyan.store.opening import (
    FORMAT,
    FORMAT_OF_PARTS,
    MANIFEST,
    OpenedModel,
    opened_model,
    previous_copy,
    read_manifest,
    saving_lock,
)
from yinyan.store.parts import WrittenRows
from yinyan.store.reading import decoder_from, fitted_from
from yinyan.store.typed_files import is_typed, typed_from, write_typed_files
from yinyan.store.writing import ArrayWriter, feature_arrays, save_json

__all__ = [
    "FORMAT",
    "any_fitted_model",
    "check_target",
    "fitted_model",
    "load_any_model",
    "load_model",
    "read_manifest",
    "save_model",
    "saved_rows",
]

_PATIENCE = 60.0  # seconds to wait for another process that saves to the same place
_TEMPORARY = re.compile(r"\..+\.tmp")  # of a file that was being written here when its writer was killed

Arrays = dict[str, NDArray[Any]]
_Read = TypeVar("_Read")


def save_model(
    path: Path,
    fitted: Fitted | TypedFitted,
    params: Mapping[str, Any],
    *,
    max_shard_bytes: int | None = None,
    written: Mapping[str, Sequence[WrittenRows]] | None = None,
) -> None:
    """Write beside `path`, then swap: a crash at any moment leaves the old model or the new one.

    Arrays of more than `max_shard_bytes` are saved in several files; those whose rows are `written` to files already
    in these.
    """
    check_target(path)
    place = path.resolve()  # a link to a model stays a link, and '.' has a name
    staging = temporary_beside(place)
    try:
        if not place.parent.exists():
            place.parent.mkdir(parents=True)
        with exclusive(saving_lock(path), f"the model directory '{path}'", wait=_PATIENCE):
            remove_abandoned(place.parent, f".{place.name}.")
            staging.mkdir()
            writer = ArrayWriter(staging, max_shard_bytes, written)
            _write_files(staging, writer, fitted, params)
            _write_manifest(staging, FORMAT_OF_PARTS if writer.finish() else FORMAT)
            _swap(staging, place)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def load_model(path: Path, device: torch.device, *, mapped: bool = False) -> tuple[Fitted, dict[str, Any]]:
    """The fitted model and the predictor's parameters, after every file has been checked.

    `mapped` leaves the arrays in their files, so that processes share them; what is written to them stays private.
    """
    with opened_model(path) as opened:
        return fitted_model(opened, device, mapped=mapped)


def load_any_model(path: Path, device: torch.device) -> tuple[Fitted | TypedFitted, dict[str, Any]]:
    """The same, of a model with relations or without."""
    with opened_model(path) as opened:
        return any_fitted_model(opened, device)


def saved_rows(path: Path, first: int, last: int) -> tuple[Decoder, torch.Tensor]:
    """The decoder of a saved model and some rows of its embeddings, mapped; other rows are not read."""
    with opened_model(path, check=False) as opened:

        def read() -> tuple[Decoder, torch.Tensor]:
            rows = opened.rows("embeddings.safetensors", "embeddings", first, last)
            return decoder_from(opened), torch.from_numpy(rows)

        return _named(opened, read)


def any_fitted_model(
    opened: OpenedModel, device: torch.device, *, mapped: bool = False
) -> tuple[Fitted | TypedFitted, dict[str, Any]]:
    """The model of files that were opened together, with relations (which are read into memory) or without."""
    if is_typed(opened):
        return _named(opened, lambda: typed_from(opened, device))
    return fitted_model(opened, device, mapped=mapped)


def fitted_model(opened: OpenedModel, device: torch.device, *, mapped: bool) -> tuple[Fitted, dict[str, Any]]:
    """The model of files that were opened together; crafted or outdated ones can raise anything, and it is named."""
    if is_typed(opened):
        raise StoreError(
            f"the model in '{opened.path}' has relations, which are not understood here: ask it in Python "
            "(LinkPredictor.load), with yinyan recommend, score or explain --relation, or through yinyan serve"
        )
    return _named(opened, lambda: fitted_from(opened, device, mapped=mapped))


def _named(opened: OpenedModel, read: Callable[[], _Read]) -> _Read:
    """What is read, or an error that names the model."""
    try:
        return read()
    except StoreError:
        raise
    except Exception as error:
        words = str(error) if isinstance(error, YinYanError) else repr(error)
        raise StoreError(f"the model in '{opened.path}' cannot be read: {words[:500]}") from error


# -- writing -------------------------------------------------------------------------------------------------


def _write_files(folder: Path, writer: ArrayWriter, fitted: Fitted | TypedFitted, params: Mapping[str, Any]) -> None:
    """All files but the manifest and the list of parts."""
    if isinstance(fitted, TypedFitted):
        write_typed_files(folder, writer, fitted, _plain_params(params))
        return
    weights = {name: value.detach().cpu() for name, value in fitted.model.state_dict().items()}
    writer.save("weights.safetensors", {name: value.numpy() for name, value in weights.items()})
    positive, negative = fitted.valid_scores
    numbers = {"embeddings": fitted.embeddings.cpu().numpy(), "valid_links": positive, "valid_non_links": negative}
    writer.save("embeddings.safetensors", numbers | list_arrays(fitted.valid_lists))
    writer.save("graph.safetensors", _graph_arrays(fitted))
    pq.write_table(fitted.graph.ids.to_arrow(), folder / "ids.parquet")
    if fitted.graph.attributes is not None:
        pq.write_table(fitted.graph.attributes.table, folder / "attributes.parquet", compression="zstd")
    (folder / "settings.toml").write_text(fitted.settings.to_toml(), encoding="utf-8")
    save_json(folder / "metrics.json", {"protocol": fitted.protocol, "validation": fitted.metrics})
    save_json(folder / "model.json", _facts(fitted, params))
    lines = [json.dumps(dataclasses.asdict(record)) + "\n" for record in fitted.history]
    (folder / "training.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "README.md").write_text(model_card(fitted), encoding="utf-8")


def _graph_arrays(fitted: Fitted) -> Arrays:
    graph = fitted.graph
    arrays: Arrays = {"edges": graph.edges, "message_edges": fitted.message_edges}
    for name in ("weights", "times", "sides", "edge_features"):
        if getattr(graph, name) is not None:
            arrays[name] = getattr(graph, name)
    return arrays | feature_arrays(graph.features)


def _facts(fitted: Fitted, params: Mapping[str, Any]) -> dict[str, Any]:
    graph = fitted.graph
    return {
        "params": _plain_params(params),
        "seed": fitted.seed,
        "directed": graph.directed,
        "num_features": graph.features.num_columns if isinstance(graph.features, SparseFeatures) else None,
        "feature_encoder": graph.feature_encoder.to_dict() if graph.feature_encoder else None,
        "edge_encoder": graph.edge_encoder.to_dict() if graph.edge_encoder else None,
        "notes": list(graph.notes),
        "columns": graph.columns.to_dicts(),
        "label": graph.label_column,
        "calibration": fitted.calibration.to_dict(),
        "reranking": None if fitted.reranking is None else fitted.reranking.to_dict(),
        "missing": None if fitted.valid_lists is None else fitted.valid_lists.missing,
        "protocol": fitted.protocol,
        "split": fitted.split_text,
        "reasons": list(fitted.reasons),
        "best_epoch": fitted.best_epoch,
        "energy": list(fitted.energy),
        "seconds": fitted.seconds,
    }


def _plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The predictor's parameters as JSON has them."""
    plain = {**params, "seed": int(params["seed"])}  # which may be numpy's, and JSON knows only Python's
    for group in GROUPS:  # a mapping of overrides, a settings object, or None
        given = plain[group]
        plain[group] = given if given is None else dict(given) if isinstance(given, Mapping) else vars(given)
    return plain


def _write_manifest(folder: Path, number: int) -> None:
    files = {
        file.name: {"bytes": file.stat().st_size, "sha256": file_digest(file)} for file in sorted(folder.iterdir())
    }
    for name in files:
        (folder / name).chmod(0o666 & ~_umask())  # safetensors writes for its owner only
        flush_to_disk(folder / name)
    save_json(folder / MANIFEST, {"format": number, "library": __version__, "torch": torch.__version__, "files": files})
    flush_to_disk(folder / MANIFEST)
    flush_to_disk(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _swap(staging: Path, path: Path) -> None:
    """Put the new directory in the old one's place; files that are not ours move along."""
    previous = previous_copy(path)
    if previous.exists():  # an earlier save was cut off: after its swap, or in the midst of it
        if path.exists():
            shutil.rmtree(previous)
        else:
            previous.replace(path)
    if path.exists():
        ours = {entry.name for entry in staging.iterdir()}
        with suppress(StoreError):  # a damaged or outdated model may be replaced too: that is its cure
            ours |= set(read_manifest(path, wait=False)["files"])
        for entry in path.iterdir():
            if entry.name not in ours and not _TEMPORARY.fullmatch(entry.name):
                _copy_as_it_is(entry, staging / entry.name)
        path.replace(previous)
    try:
        staging.replace(path)
    except OSError:
        if previous.exists():
            previous.replace(path)
        raise
    flush_to_disk(path.parent)
    shutil.rmtree(previous, ignore_errors=True)


def _copy_as_it_is(entry: Path, target: Path) -> None:
    """A file, a folder, or a link, which stays one whatever it points to."""
    if entry.is_symlink():
        target.symlink_to(entry.readlink(), target_is_directory=entry.is_dir())
    elif entry.is_dir():
        shutil.copytree(entry, target, symlinks=True)
    elif entry.is_file():
        shutil.copy2(entry, target)
    else:  # a pipe or a socket has no content to copy
        target.hardlink_to(entry)


def check_target(path: Path) -> None:
    """Refuse a place where a model must not be written."""
    if path.is_file():
        raise StoreError(f"'{path}' is a file: a model is a directory (choose another name)")
    if path.is_dir() and any(path.iterdir()) and not (path / MANIFEST).is_file():
        raise StoreError(f"'{path}' holds other files and no model: choose another name, or empty it")
