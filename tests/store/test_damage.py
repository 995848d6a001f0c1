"""Damaged and crafted model directories: refused by name and at once, or read as if nothing had been."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from contracts import planted_graph, tiny
from yinyan.errors import StoreError
from yinyan.graph import Graph
from yinyan.live.finder import finder_for
from yinyan.predictor import LinkPredictor
from yinyan.retrieval import index_store
from yinyan.store.mapping import mapped_arrays

NODES = list(range(0, 240, 20))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with an index that searches lists."""
    path = tmp_path_factory.mktemp("whole") / "model"
    plain = planted_graph(size=120, inside=0.08)
    features = np.random.default_rng(0).normal(size=(240, 5)).astype(np.float32)
    model = LinkPredictor(**tiny(encoder={"inputs": "both"})).fit(
        Graph.from_arrays(plain.edges, num_nodes=240, features=features)
    )
    model.save(path)
    model.index("flashlight", recall=0.5, k=5).save(path)
    return path


@pytest.fixture
def model(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "model")
    return tmp_path / "model"


def answers(path: Path) -> tuple[Any, ...]:
    """What a model and its index say."""
    model = LinkPredictor.load(path, device="cpu")
    index = model.load_index(path)
    found = index.top_k(NODES, 2)
    return (
        model.score([(a, a + 1) for a in NODES]).tolist(),
        model.predict_proba([(0, 7)]).tolist(),
        [(top.rows.tolist(), top.scores.tolist()) for top in found],
        sorted(model.metrics_.items()),
        model.fitted_.settings,
        model.graph_.edges.tolist(),
    )


# -- bits ------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_is_refused_or_changes_no_answer(whole: Path, model: Path) -> None:
    """One bit of the index ended the process with a signal (74 of 120 tries), or changed answers silently."""
    before, rng = answers(whole), np.random.default_rng(0)
    refused, tried = 0, 0
    for file in sorted(model.iterdir()):
        content = file.read_bytes()
        places = [*rng.integers(0, len(content), 40), *rng.integers(0, min(len(content), 400), 20)]
        for place in places if file.name != "README.md" else places[:2]:
            damaged = bytearray(content)
            damaged[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(damaged)
            tried += 1
            try:
                assert answers(model) == before, f"{file.name}, byte {place}"
            except StoreError:
                refused += 1
        file.write_bytes(content)
    assert tried > 500 and refused > 0.9 * tried


@pytest.mark.parametrize("name", ["index.safetensors", "graph.safetensors", "ids.parquet", "manifest.json"])
def test_every_truncation_is_refused(model: Path, name: str) -> None:
    content = (model / name).read_bytes()
    for length in np.random.default_rng(1).integers(0, len(content) - 2, 12).tolist():
        (model / name).write_bytes(content[:length])
        with pytest.raises(StoreError):
            answers(model)


# -- a crafted index -------------------------------------------------------------------------------------------


def craft_index(path: Path, edit: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    """Change an index, and give it the checksum of what it is now."""
    file = path / index_store.INDEX_FILE
    arrays, said = mapped_arrays(file)
    arrays, facts = {name: array.copy() for name, array in arrays.items()}, json.loads(said["index"])
    edit(arrays, facts)
    text = json.dumps(facts)
    save_file(arrays, file, metadata={"index": text, "sha256": index_store._digest(text, arrays)})


def put(name: str, place: Any, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], object]:
    return lambda arrays, facts: arrays[name].__setitem__(place, value)


INDEXES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "starts beyond the groups": put("starts", -1, 1 << 40),
    "starts that fall": put("starts", 1, 1 << 20),
    "negative starts": put("starts", 0, -5),
    "a row beyond the last": put("rows", (0, 0), 1 << 30),
    "a negative row": put("rows", (0, 0), -7),
    "a row twice": lambda arrays, facts: arrays["rows"].__setitem__((0, 0), arrays["rows"][0, 1]),
    "fewer groups": lambda arrays, facts: arrays.update(rows=arrays["rows"][:-1]),
    "fewer codes": lambda arrays, facts: arrays.update(codes=arrays["codes"][:-1]),
    "narrow codes": lambda arrays, facts: arrays.update(codes=np.ascontiguousarray(arrays["codes"][:, :1])),
    "other types": lambda arrays, facts: arrays.update(starts=arrays["starts"].astype(np.int32)),
    "no cells": lambda arrays, facts: arrays.update(spreads=arrays["spreads"][:0]),
    "NaN": put("centres", (0, 0), np.nan),
    "zero weights": put("weights", 0, 0),
    "an array less": lambda arrays, facts: arrays.pop("lows"),
    "endless rounds": lambda arrays, facts: facts["effort"].update(rounds=10**12),
    "no probes": lambda arrays, facts: facts["effort"].update(probes=-1),
    "text for a number": lambda arrays, facts: facts["effort"].update(candidates="many"),
    "another effort": lambda arrays, facts: facts.update(effort=[1, 2]),
    "an unknown effort": lambda arrays, facts: facts["effort"].update(force=1),
    "endless rounds for one k": lambda arrays, facts: facts["per_k"][0]["effort"].update(rounds=10**12),
    "no k": lambda arrays, facts: facts.update(per_k=[]),
    "a negative k": lambda arrays, facts: facts["per_k"][0].update(k=-1),
    "more nodes": lambda arrays, facts: facts.update(num_nodes=10**9),
    "an unknown kind": lambda arrays, facts: facts.update(kind="magic"),
    "an unknown fact": lambda arrays, facts: facts.update(magic=1),
}


@pytest.mark.parametrize("how", INDEXES)
def test_a_crafted_index_is_refused(model: Path, how: str) -> None:
    """Compiled code read out of bounds where such an index said."""
    craft_index(model, INDEXES[how])
    with pytest.raises(StoreError, match=r"index\.safetensors' is damaged: .*build the index again"):
        LinkPredictor.load(model).load_index(model)


def test_a_service_builds_a_damaged_index_anew_and_says_so(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    craft_index(model, INDEXES["a row beyond the last"])
    fitted = LinkPredictor.load(model).fitted_
    with caplog.at_level(logging.WARNING, logger="yinyan.service"):
        made = finder_for(fitted, "auto", [model])
    assert "the saved index is not used" in caplog.text and "is damaged" in caplog.text
    assert made.describe()["kind"] == "exact"


# -- crafted models with a valid manifest ----------------------------------------------------------------------


def seal(path: Path, *names: str) -> None:
    """Let the manifest have the sizes and checksums of files as they are now."""
    manifest = json.loads((path / "manifest.json").read_text())
    for name in names:
        content = (path / name).read_bytes()
        manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (path / "manifest.json").write_text(json.dumps(manifest))


def in_settings(name: str, value: str) -> Callable[[Path], str]:
    def edit(path: Path) -> str:
        lines = (path / "settings.toml").read_text().splitlines()
        text = "\n".join(f"{name} = {value}" if line.startswith(f"{name} = ") else line for line in lines)
        assert text != "\n".join(lines)
        (path / "settings.toml").write_text(text)
        return "settings.toml"

    return edit


def in_facts(**facts: Any) -> Callable[[Path], str]:
    def edit(path: Path) -> str:
        content = json.loads((path / "model.json").read_text())
        (path / "model.json").write_text(json.dumps({**content, **facts}))
        return "model.json"

    return edit


def in_arrays(file: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], str]:
    def edit(path: Path) -> str:
        arrays = load_file(path / f"{file}.safetensors")
        change(arrays)
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path / f"{file}.safetensors")
        return f"{file}.safetensors"

    return edit


def content(name: str, text: str) -> Callable[[Path], str]:
    def edit(path: Path) -> str:
        (path / name).write_text(text)
        return name

    return edit


def many_ids(path: Path) -> str:
    """A few bytes that stand for a hundred million rows."""
    schema = pa.schema([("id", pa.int64())])
    with pq.ParquetWriter(path / "ids.parquet", schema) as writer:
        batch = pa.table({"id": pa.array(np.zeros(1_000_000, np.int64))})
        for _ in range(20):
            writer.write_table(batch)
    return "ids.parquet"


def first(arrays: dict[str, Any]) -> str:
    return next(name for name, array in sorted(arrays.items()) if array.ndim == 2)


def spoil(arrays: dict[str, Any], value: float) -> None:
    arrays[first(arrays)][0, 0] = value


MODELS: dict[str, Callable[[Path], str]] = {
    "1e20 layers": in_settings("num_layers", "100000000000000000000"),
    "a thousand million layers": in_settings("num_layers", "1000000000"),
    "a deep decoder": in_settings("depth", "1000000000"),
    "huge hidden_size": in_settings("hidden_size", "1000000000000"),
    "another hidden_size": in_settings("hidden_size", "3"),
    "huge width": in_settings("width", "1000000000000"),
    "endless steps": in_settings("num_steps", "1000000000000"),
    "negative size": in_settings("hidden_size", "-8"),
    "huge sketches": in_settings("sketch_size", "1000000000"),
    "an infinite setting": in_settings("step_size", "inf"),
    "nested settings": content("settings.toml", "a = " + "[" * 50_000),
    "nested facts": content("model.json", "[" * 100_000),
    "facts of another kind": content("model.json", "[1]"),
    "an endless number": content("model.json", "9" * 100_000),
    "nested history": content("training.jsonl", '{"a":' * 50_000),
    "metrics of another kind": content("metrics.json", "null"),
    "metrics that are text": content("metrics.json", '{"validation": {"auc": "high"}}'),
    "a seed that is text": in_facts(seed="one"),
    "notes that are numbers": in_facts(notes=[1]),
    "an unknown parameter": in_facts(params={"magic": 1, "seed": 0}),
    "no calibration": in_facts(calibration={}),
    "NaN weights": in_arrays("weights", lambda arrays: spoil(arrays, np.nan)),
    "infinite weights": in_arrays("weights", lambda arrays: spoil(arrays, np.inf)),
    "weights of another type": in_arrays(
        "weights", lambda arrays: arrays.update({first(arrays): arrays[first(arrays)].astype(np.float64)})
    ),
    "weights of another shape": in_arrays("weights", lambda arrays: arrays.update({first(arrays): np.zeros((1, 1))})),
    "no weights": in_arrays("weights", lambda arrays: arrays.clear()),
    "NaN embeddings": in_arrays("embeddings", lambda arrays: arrays["embeddings"].__setitem__((0, 0), np.nan)),
    "narrow embeddings": in_arrays("embeddings", lambda arrays: arrays.update(embeddings=arrays["embeddings"][:, :2])),
    "fewer embeddings": in_arrays("embeddings", lambda arrays: arrays.update(embeddings=arrays["embeddings"][:-1])),
    "flat embeddings": in_arrays("embeddings", lambda arrays: arrays.update(embeddings=arrays["embeddings"][:, 0])),
    "edges out of range": in_arrays("graph", lambda arrays: arrays["edges"].__setitem__((-1, 1), 1 << 40)),
    "messages out of range": in_arrays("graph", lambda arrays: arrays["message_edges"].__setitem__(0, 1 << 40)),
    "messages of another type": in_arrays(
        "graph", lambda arrays: arrays.update(message_edges=arrays["message_edges"].astype(np.float64))
    ),
    "features out of shape": in_arrays("graph", lambda arrays: arrays.update(features=arrays["features"][0])),
    "NaN features": in_arrays("graph", lambda arrays: arrays["features"].__setitem__((0, 0), np.nan)),
    "too many ids": many_ids,
    "ids that are none": content("ids.parquet", "PAR1"),
}


@pytest.mark.parametrize("how", MODELS)
def test_a_crafted_model_is_refused_quickly(model: Path, how: str) -> None:
    """Tracebacks, a hang at num_layers = 1e20: a valid manifest says nothing of what the files hold."""
    seal(model, MODELS[how](model))
    began = time.monotonic()
    with pytest.raises(StoreError, match="cannot be read"):
        LinkPredictor.load(model, device="cpu")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b", "..", "", "manifest.json"])
def test_a_manifest_names_files_of_its_directory_only(model: Path, name: str) -> None:
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": 1, "sha256": "0"}
    (model / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="by plain names"):
        LinkPredictor.load(model)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(model: Path) -> None:
    (model / "model.json").unlink()
    os.mkfifo(model / "model.json")
    with pytest.raises(StoreError, match=r"model\.json is missing"):
        LinkPredictor.load(model)
