"""A model on disk: a directory of plain formats, written whole or not at all, and trusted only if intact."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from yinyan import __version__
from yinyan.errors import StoreError, YinYanError
from yinyan.files import flush_to_disk, system_errors, write_error
from yinyan.graph import Graph
from yinyan.graph.features import FeatureEncoder, SparseFeatures
from yinyan.graph.ids import Ids
from yinyan.model.calibration import calibration_from_dict
from yinyan.model.fitted import EpochRecord, Fitted, empty_model
from yinyan.settings import GROUPS, Settings, read_settings, without_retired
from yinyan.store.card import model_card
from yinyan.store.mapping import mapped_arrays

__all__ = ["FORMAT", "check_target", "load_model", "read_manifest", "save_model"]

FORMAT = 1
_MANIFEST = "manifest.json"

Arrays = dict[str, NDArray[Any]]


def save_model(path: Path, fitted: Fitted, params: Mapping[str, Any]) -> None:
    """Write beside `path`, then swap: a crash at any moment leaves the old model or the new one."""
    check_target(path)
    place = path.resolve()  # a link to a model stays a link, and '.' has a name
    staging = place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")
    try:
        staging.mkdir(parents=True)
        _write_parts(staging, fitted, params)
        _write_manifest(staging)
        _swap(staging, place)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def load_model(path: Path, device: torch.device, *, mapped: bool = False) -> tuple[Fitted, dict[str, Any]]:
    """The fitted model and the predictor's parameters, after every file has been checked.

    `mapped` leaves the arrays in their files, so that processes share them; what is written to them stays private.
    """
    path = _present(path)
    manifest = read_manifest(path)
    try:
        _verify(path, manifest)
        return _read_parts(path, device, _map_writable if mapped else load_file)
    except YinYanError:
        raise
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StoreError(f"the model in '{path}' cannot be read: {error!r}") from error


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a model directory; refuses what is no model, or of a newer format."""
    path = _present(path)
    file = path / _MANIFEST
    if not file.is_file():
        raise StoreError(f"'{path}' is not a yinyan model: it has no {_MANIFEST}")
    try:
        manifest: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        number, files = int(manifest["format"]), manifest["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"'{file}' is damaged: {error!r} (restore it from a copy, or fit again)") from error
    if number != FORMAT or not isinstance(files, dict):
        raise StoreError(
            f"'{path}' has format version {number}, and this library reads version {FORMAT} "
            f"({'upgrade yinyan' if number > FORMAT else 'fit again'}; it was written by yinyan "
            f"{manifest.get('library', '?')}, this is {__version__})"
        )
    return manifest


# -- writing -------------------------------------------------------------------------------------------------


def _write_parts(folder: Path, fitted: Fitted, params: Mapping[str, Any]) -> None:
    weights = {name: value.detach().cpu() for name, value in fitted.model.state_dict().items()}
    _save_arrays(folder / "weights.safetensors", {name: value.numpy() for name, value in weights.items()})
    positive, negative = fitted.valid_scores
    _save_arrays(
        folder / "embeddings.safetensors",
        {"embeddings": fitted.embeddings.cpu().numpy(), "valid_links": positive, "valid_non_links": negative},
    )
    _save_arrays(folder / "graph.safetensors", _graph_arrays(fitted))
    pq.write_table(fitted.graph.ids.to_arrow(), folder / "ids.parquet")
    (folder / "settings.toml").write_text(fitted.settings.to_toml(), encoding="utf-8")
    _save_json(folder / "metrics.json", {"protocol": fitted.protocol, "validation": fitted.metrics})
    _save_json(folder / "model.json", _facts(fitted, params))
    lines = [json.dumps(dataclasses.asdict(record)) + "\n" for record in fitted.history]
    (folder / "training.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "README.md").write_text(model_card(fitted), encoding="utf-8")


def _graph_arrays(fitted: Fitted) -> Arrays:
    graph = fitted.graph
    arrays: Arrays = {"edges": graph.edges, "message_edges": fitted.message_edges}
    for name in ("weights", "times", "sides"):
        if getattr(graph, name) is not None:
            arrays[name] = getattr(graph, name)
    if isinstance(graph.features, SparseFeatures):
        arrays["feature_indptr"] = graph.features.indptr
        arrays["feature_indices"] = graph.features.indices
        arrays["feature_values"] = graph.features.values
    elif graph.features is not None:
        arrays["features"] = graph.features
    return arrays


def _facts(fitted: Fitted, params: Mapping[str, Any]) -> dict[str, Any]:
    graph = fitted.graph
    plain = {**params, "seed": int(params["seed"])}  # which may be numpy's, and JSON knows only Python's
    for group in GROUPS:  # a mapping of overrides, a settings object, or None
        given = plain[group]
        plain[group] = given if given is None else dict(given) if isinstance(given, Mapping) else vars(given)
    return {
        "params": plain,
        "seed": fitted.seed,
        "directed": graph.directed,
        "num_features": graph.features.num_columns if isinstance(graph.features, SparseFeatures) else None,
        "feature_encoder": graph.feature_encoder.to_dict() if graph.feature_encoder else None,
        "notes": list(graph.notes),
        "calibration": fitted.calibration.to_dict(),
        "protocol": fitted.protocol,
        "split": fitted.split_text,
        "reasons": list(fitted.reasons),
        "best_epoch": fitted.best_epoch,
        "energy": list(fitted.energy),
        "seconds": fitted.seconds,
    }


def _write_manifest(folder: Path) -> None:
    files = {file.name: {"bytes": file.stat().st_size, "sha256": _digest(file)} for file in sorted(folder.iterdir())}
    for name in files:
        (folder / name).chmod(0o666 & ~_umask())  # safetensors writes for its owner only
        flush_to_disk(folder / name)
    _save_json(
        folder / _MANIFEST, {"format": FORMAT, "library": __version__, "torch": torch.__version__, "files": files}
    )
    flush_to_disk(folder / _MANIFEST)
    flush_to_disk(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _swap(staging: Path, path: Path) -> None:
    """Put the new directory in the old one's place; files that are not ours move along."""
    previous = _previous(path)
    if previous.exists():  # an earlier save was cut off: after its swap, or in the midst of it
        if path.exists():
            shutil.rmtree(previous)
        else:
            previous.replace(path)
    if path.exists():
        ours = {entry.name for entry in staging.iterdir()}
        with suppress(StoreError):  # a damaged or outdated model may be replaced too: that is its cure
            ours |= set(read_manifest(path)["files"])
        for entry in path.iterdir():
            if entry.name not in ours:
                copy = shutil.copytree if entry.is_dir() else shutil.copy2
                copy(entry, staging / entry.name)
        path.replace(previous)
    try:
        staging.replace(path)
    except OSError:
        if previous.exists():
            previous.replace(path)
        raise
    flush_to_disk(path.parent)
    shutil.rmtree(previous, ignore_errors=True)


def check_target(path: Path) -> None:
    """Refuse a place where a model must not be written."""
    if path.is_file():
        raise StoreError(f"'{path}' is a file: a model is a directory (choose another name)")
    if path.is_dir() and any(path.iterdir()) and not (path / _MANIFEST).is_file():
        raise StoreError(f"'{path}' holds other files and no model: choose another name, or empty it")


# -- reading -------------------------------------------------------------------------------------------------


def _previous(path: Path) -> Path:
    place = path.resolve()
    return place.with_name(f".{place.name}.previous")


def _present(path: Path) -> Path:
    """`path`, or the copy that a save was about to replace when it was cut off."""
    if path.is_dir():
        return path
    if _previous(path).is_dir():
        return _previous(path)
    raise StoreError(f"there is no model directory '{path}'" + (" (it is a file)" if path.exists() else ""))


def _verify(path: Path, manifest: dict[str, Any]) -> None:
    for name, facts in manifest["files"].items():
        file = path / name
        if not file.is_file():
            raise StoreError(f"the model in '{path}' is incomplete: {name} is missing")
        if file.stat().st_size != facts["bytes"]:
            size = file.stat().st_size
            raise StoreError(f"'{file}' is truncated or altered: {size:,} bytes, expected {facts['bytes']:,}")
        if _digest(file) != facts["sha256"]:
            raise StoreError(f"'{file}' has been altered since it was saved (its checksum differs)")


def _read_parts(path: Path, device: torch.device, read: Callable[[Path], Arrays]) -> tuple[Fitted, dict[str, Any]]:
    facts = json.loads((path / "model.json").read_text(encoding="utf-8"))
    settings = Settings().updated(read_settings(path / "settings.toml", saved=True))
    arrays, numbers = read(path / "graph.safetensors"), read(path / "embeddings.safetensors")
    graph = _graph(arrays, facts, Ids.from_arrow(pq.read_table(path / "ids.parquet")))
    weights = load_file(path / "weights.safetensors")
    model = empty_model(settings, graph)
    # clones lie in torch's own memory, aligned as in training: products then sum in the same order
    model.load_state_dict({name: torch.from_numpy(array).clone() for name, array in weights.items()}, assign=True)
    history = [json.loads(line) for line in (path / "training.jsonl").read_text(encoding="utf-8").splitlines()]
    fitted = Fitted(
        graph=graph,
        message_edges=arrays["message_edges"],
        settings=settings,
        seed=facts["seed"],
        model=model.to(device),
        embeddings=torch.from_numpy(numbers["embeddings"]).to(device),
        calibration=calibration_from_dict(facts["calibration"]),
        metrics=json.loads((path / "metrics.json").read_text(encoding="utf-8"))["validation"],
        protocol=facts["protocol"],
        split_text=facts["split"],
        reasons=tuple(facts["reasons"]),
        history=tuple(EpochRecord(**record) for record in history),
        best_epoch=facts["best_epoch"],
        energy=tuple(facts["energy"]),
        seconds=facts["seconds"],
        valid_scores=(numbers["valid_links"], numbers["valid_non_links"]),
    )
    return fitted, without_retired(facts["params"])


def _map_writable(path: Path) -> Arrays:
    return mapped_arrays(path, writable=True)[0]


def _graph(arrays: Arrays, facts: dict[str, Any], ids: Ids) -> Graph:
    features: Any = arrays.get("features")
    if "feature_indptr" in arrays:
        features = SparseFeatures(
            arrays["feature_indptr"], arrays["feature_indices"], arrays["feature_values"], facts["num_features"]
        )
    encoder = facts["feature_encoder"]
    return Graph(
        ids=ids,
        edges=arrays["edges"],
        weights=arrays.get("weights"),
        times=arrays.get("times"),
        features=features,
        sides=arrays.get("sides"),
        directed=facts["directed"],
        feature_encoder=None if encoder is None else FeatureEncoder.from_dict(encoder),
        notes=tuple(facts["notes"]),
    )


def _save_arrays(path: Path, arrays: Arrays) -> None:
    with system_errors():
        save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, path)


def _save_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
