"""yinyan check: a line per file, and an exit code that says whether all is well."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from command_line import refused, run, works
from contracts import planted_graph, tiny
from yinyan.live.change_log import ChangeLog, log_path
from yinyan.predictor import LinkPredictor

FILES = [
    *("manifest.json", "README.md", "embeddings.safetensors", "graph.safetensors", "ids.parquet", "metrics.json"),
    *("model.json", "settings.toml", "training.jsonl", "weights.safetensors"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "model"
    model = LinkPredictor(**tiny()).fit(planted_graph(size=15, inside=0.4))
    model.save(path)
    model.index("exact").save(path)
    log = ChangeLog(log_path(path))
    log.bind("of this model")
    with log.writing():
        log.append({"kind": "add_links", "pairs": [[0, 1]]})
    log.close()
    return path


@pytest.fixture
def model(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "model")
    shutil.copy2(log_path(whole), log_path(tmp_path / "model"))
    return tmp_path / "model"


def test_every_file_of_an_intact_model_has_its_line(model: Path) -> None:
    (model / "notes.txt").write_text("mine")
    lines = works("check", model).out.splitlines()
    assert lines[0].split() == ["file", "state", "bytes", "note"]
    told = {line.split("  ")[0]: line for line in lines[1:]}
    for name in (*FILES, "shapes and ranges", "index.safetensors", "model.changes.sqlite"):
        assert " intact " in f"{told[name]} ", name
    assert "not of the model" in told["notes.txt"]
    found = works("check", model, "--json").json
    assert found["intact"] and {row["file"] for row in found["files"]} == set(told)
    assert all(row["bytes"] == (model / row["file"]).stat().st_size for row in found["files"] if row["file"] in FILES)


@pytest.mark.parametrize("name", [*FILES, "index.safetensors"])
@pytest.mark.parametrize("how", ["missing", "truncated", "altered"])
def test_damage_of_any_file_is_found(model: Path, name: str, how: str) -> None:
    content = (model / name).read_bytes()
    if how == "missing":
        (model / name).unlink()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        (model / name).write_bytes(content[:-5] if how == "truncated" else flipped)
    ran = run("check", model, "--json")
    states = {row["file"]: row["state"] for row in ran.json["files"]}
    if name == "index.safetensors" and how == "missing":  # a model needs none
        assert ran.code == 0 and name not in states
    elif name == "manifest.json" and how == "altered":
        assert ran.code == 1 and set(states.values()) - {"intact"}, "it may name another file as damaged"
    else:
        assert ran.code == 1 and states[name] == ("damaged" if name == "manifest.json" or how != "missing" else how)
        assert ran.err.startswith(f"error: '{model}' is damaged (") and name in ran.err and not ran.json["intact"]


def test_the_change_log_is_verified_too(model: Path, tmp_path: Path) -> None:
    log = log_path(model)
    content = log.read_bytes()
    for damaged in (b"not a database, and longer than the header of one" * 10, content[: len(content) // 2]):
        log.write_bytes(damaged)
        ran = run("check", model)
        assert ran.code == 1 and "model.changes.sqlite" in ran.err and "damaged" in ran.out
    log.unlink()
    works("check", model)
    assert run("check", model, "--log", tmp_path / "none.sqlite").code == 1


def test_an_index_of_another_model_is_outdated_and_not_damaged(model: Path) -> None:
    LinkPredictor(**tiny(seed=5)).fit(planted_graph(size=15, inside=0.4)).save(model)
    found = {row["file"]: row for row in works("check", model, "--json").json["files"]}
    assert found["index.safetensors"]["state"] == "outdated"
    assert "belongs to another model" in found["index.safetensors"]["note"]


def test_what_the_files_hold_is_verified_and_not_only_their_checksums(model: Path) -> None:
    back = LinkPredictor.load(model)
    back.fitted_.embeddings[0, 0] = np.nan
    back.save(model)
    found = {row["file"]: row for row in run("check", model, "--json").json["files"]}
    assert found["shapes and ranges"]["state"] == "damaged" and "finite" in found["shapes and ranges"]["note"]
    assert found["index.safetensors"]["state"] == "unchecked"


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    assert "there is no model directory" in refused("check", tmp_path / "none")
    assert run("check", tmp_path).code == 1
