"""The store: the same model comes back, or an error that names the file; never half a model."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import yinyan
from contracts import planted_graph, tiny
from yinyan.errors import StoreError
from yinyan.files import file_digest
from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.model.calibration import IsotonicCalibration
from yinyan.predictor import LinkPredictor
from yinyan.settings import EncoderSettings
from yinyan.store import model_files, writing
from yinyan.store.opening import OpenedModel
from yinyan.text import percent

PARTS = {
    "README.md",
    "attributes.parquet",
    "embeddings.safetensors",
    "graph.safetensors",
    "ids.parquet",
    "manifest.json",
    "metrics.json",
    "model.json",
    "settings.toml",
    "training.jsonl",
    "weights.safetensors",
}


def load(path: Path) -> LinkPredictor:
    return LinkPredictor.load(path, device="cpu")


def rich_graph() -> Graph:
    """Weights, times, and features from a table, a column of them text."""
    plain = planted_graph(size=15, inside=0.4)
    rng = np.random.default_rng(0)
    edges = {
        "from": [f"n{a}" for a in plain.edges[:, 0]],
        "to": [f"n{b}" for b in plain.edges[:, 1]],
        "weight": rng.uniform(1, 3, plain.num_edges).tolist(),
        "time": rng.integers(0, 1000, plain.num_edges).tolist(),
    }
    nodes = {
        "id": [f"n{row}" for row in range(30)],
        "age": rng.integers(18, 90, 30).tolist(),
        "town": [["Oulu", "Kemi"][row % 2] for row in range(30)],
    }
    return Graph.from_table(edges, "from", "to", nodes=nodes, node_id="id", unmatched="keep")


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny(seed=3)).fit(rich_graph())


@pytest.fixture(scope="module")
def other() -> LinkPredictor:
    """Another model, to be saved over the first."""
    return LinkPredictor(**tiny()).fit(planted_graph(size=12, inside=0.5))


@pytest.fixture
def saved(model: LinkPredictor, tmp_path: Path) -> Path:
    path = tmp_path / "models" / "first"
    model.save(path)
    return path


def assert_same(one: LinkPredictor, other: LinkPredictor) -> None:
    assert np.array_equal(one.embeddings_, other.embeddings_)
    assert one.graph_.ids == other.graph_.ids


# -- there and back ------------------------------------------------------------------------------------------


def test_everything_comes_back(model: LinkPredictor, saved: Path) -> None:
    back, before = load(saved).fitted_, model.fitted_
    for name in (
        "settings",
        "seed",
        "calibration",
        "metrics",
        "protocol",
        "split_text",
        "reasons",
        "history",
        "best_epoch",
        "energy",
        "seconds",
    ):
        assert getattr(back, name) == getattr(before, name), name
    assert torch.equal(back.embeddings, before.embeddings)
    assert np.array_equal(back.message_edges, before.message_edges)
    for mine, yours in zip(back.valid_scores, before.valid_scores, strict=True):
        assert np.array_equal(mine, yours)
    for name, value in before.model.state_dict().items():
        assert torch.equal(back.model.state_dict()[name], value), name
    assert back.graph.ids == before.graph.ids
    for name in ("edges", "weights", "times", "features"):
        mine, yours = getattr(back.graph, name), getattr(before.graph, name)
        assert yours is not None, name
        assert np.array_equal(mine, yours) and mine.dtype == yours.dtype, name
    assert back.graph.feature_encoder == before.graph.feature_encoder
    assert back.graph.notes == before.graph.notes
    assert load(saved).get_params() == model.get_params()


def test_new_nodes_can_be_embedded_after_a_reload(model: LinkPredictor, saved: Path) -> None:
    new = {"age": [33], "town": ["Oulu"]}
    assert np.array_equal(load(saved).embed_new(None, new, [(0, "n3")]), model.embed_new(None, new, [(0, "n3")]))


@pytest.mark.parametrize("inputs", ["embeddings", "random"])
@pytest.mark.parametrize("directed", [False, True])
def test_loading_draws_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: str, directed: bool) -> None:
    """A QR factorisation of a large table took most of the time, only for its result to be overwritten."""
    plain = planted_graph(size=12, inside=0.5)
    graph = Graph.from_arrays(plain.edges, num_nodes=plain.num_nodes, directed=directed)
    before = LinkPredictor(**tiny(encoder={"inputs": inputs})).fit(graph)
    before.save(tmp_path / "model")

    def draw(*args: object, **options: object) -> None:
        raise AssertionError("weights are drawn")

    for place, name in ((torch.nn.init, "orthogonal_"), (torch, "randn"), (torch, "manual_seed")):
        monkeypatch.setattr(place, name, draw)
    state = torch.get_rng_state()
    back = load(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.undo()
    mine, yours = back.fitted_.model, before.fitted_.model
    assert [n for n, _ in mine.named_parameters()] == [n for n, _ in yours.named_parameters()]
    assert [n for n, _ in mine.named_buffers()] == [n for n, _ in yours.named_buffers()]
    assert all(value.requires_grad and not value.is_meta for value in mine.parameters())
    assert all(torch.equal(value, yours.state_dict()[name]) for name, value in mine.state_dict().items())
    pairs = plain.edges[:20]
    assert np.array_equal(back.score(pairs), before.score(pairs))


def test_settings_of_earlier_versions_are_left_out(model: LinkPredictor, saved: Path) -> None:
    settings, facts = saved / "settings.toml", saved / "model.json"
    text = settings.read_text()
    settings.write_text(text.replace("[encoder]\n", '[encoder]\ntable_start = "smoothed"\ntable_ridge = 0.1\n'))
    content = json.loads(facts.read_text())
    content["params"]["encoder"] = {**(content["params"]["encoder"] or {}), "table_start": "smoothed"}
    facts.write_text(json.dumps(content))
    for file in (settings, facts):
        entry = {"bytes": file.stat().st_size, "sha256": file_digest(file)}
        edit_manifest(saved, lambda manifest, file=file, entry=entry: manifest["files"].update({file.name: entry}))
    back = load(saved)
    assert_same(back, model)
    assert back.get_params() == model.get_params()


def test_mapped_arrays_are_the_same_model(model: LinkPredictor, saved: Path) -> None:
    back, _ = model_files.load_model(saved, torch.device("cpu"), mapped=True)
    assert torch.equal(back.embeddings, model.fitted_.embeddings)
    assert np.array_equal(back.graph.edges, model.graph_.edges)
    before = (saved / "embeddings.safetensors").read_bytes()
    back.embeddings[0] = 7
    assert (saved / "embeddings.safetensors").read_bytes() == before


def test_sparse_features_stay_sparse(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    features = sparse.random(40, 30, 0.05, random_state=0, dtype=np.float32, format="csr")
    graph = Graph.from_arrays(planted_graph().edges, num_nodes=40, features=features)
    model = LinkPredictor(**tiny()).fit(graph)
    model.save(tmp_path / "m")
    back = load(tmp_path / "m")
    mine, yours = back.graph_.features, model.graph_.features
    assert isinstance(mine, SparseFeatures) and isinstance(yours, SparseFeatures)
    assert mine.num_columns == yours.num_columns == 30
    assert np.array_equal(mine.to_dense(), yours.to_dense())
    assert_same(back, model)


def test_calibrations_settings_objects_and_numpy_seeds_come_back(tmp_path: Path) -> None:
    encoder = EncoderSettings(hidden_size=8, embedding_size=4, margin=0.5, step_size="safe")
    params = {**tiny(calibration="isotonic", seed=np.int64(2)), "encoder": encoder}
    model = LinkPredictor(**params).fit(planted_graph())
    model.save(tmp_path / "m")
    back = load(tmp_path / "m")
    assert isinstance(back.fitted_.calibration, IsotonicCalibration)
    assert back.fitted_.calibration == model.fitted_.calibration
    assert back.fitted_.settings.encoder == encoder
    assert back.seed == 2
    again = LinkPredictor(**back.get_params(deep=False)).fit(planted_graph())
    assert_same(again, model)


def test_plain_formats_only(saved: Path) -> None:
    assert {file.name for file in saved.iterdir()} == PARTS
    assert {file.suffix for file in saved.iterdir()} == {".safetensors", ".parquet", ".toml", ".json", ".jsonl", ".md"}
    for file in saved.iterdir():
        assert not file.read_bytes().startswith((b"\x80", b"PK")), f"{file.name} looks like a pickle"


def test_the_manifest_lists_every_file(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    assert manifest["format"] == model_files.FORMAT
    assert manifest["library"] == yinyan.__version__
    assert set(manifest["files"]) == PARTS - {"manifest.json"}
    for name, facts in manifest["files"].items():
        assert facts["bytes"] == (saved / name).stat().st_size
        assert len(facts["sha256"]) == 64


def test_the_card_tells_a_stranger_what_matters(model: LinkPredictor, saved: Path) -> None:
    card = (saved / "README.md").read_text(encoding="utf-8")
    assert "30 nodes (text ids)" in card
    assert f"{model.graph_.num_edges} edges" in card
    assert "protocol 'temporal-holdout', seed 3" in card
    for name, value in model.metrics_.items():
        assert f"| {name} | {value:.4f} |" in card
    assert f"seed 3, {model.fitted_.seconds:.0f} s of training" in card
    assert f"yinyan {yinyan.__version__}, torch {torch.__version__}, numpy {np.__version__}" in card
    assert f"weights of epoch {model.fitted_.best_epoch} of 3" in card
    assert all(f"- {reason}" in card for reason in model.fitted_.reasons)
    assert f"base rate of {percent(model.base_rate_)}: as many missing edges as" in card
    assert "calibrated on the lists recommended to 30 nodes" in card


@pytest.fixture(params=[0o022, 0o077], ids=oct)
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_permissions_follow_the_umask(model: LinkPredictor, tmp_path: Path, mask: int) -> None:
    model.save(tmp_path / "m")
    for file in (tmp_path / "m").iterdir():
        assert file.stat().st_mode & 0o777 == 0o666 & ~mask, file.name


# -- where a model goes --------------------------------------------------------------------------------------


def test_a_model_replaces_a_model(other: LinkPredictor, saved: Path) -> None:
    other.save(saved)
    assert_same(load(saved), other)
    assert {file.name for file in saved.iterdir()} == PARTS - {"attributes.parquet"}  # it was of the first model
    assert [file.name for file in saved.parent.iterdir()] == ["first"]


def test_an_empty_folder_is_filled(other: LinkPredictor, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    other.save(str(tmp_path / "m"))
    assert_same(load(tmp_path / "m"), other)


def test_a_folder_of_other_files_is_refused(other: LinkPredictor, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="holds other files and no model: choose another name"):
        other.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_refused(other: LinkPredictor, tmp_path: Path) -> None:
    (tmp_path / "m").write_text("text")
    with pytest.raises(StoreError, match="is a file: a model is a directory"):
        other.save(tmp_path / "m")
    with pytest.raises(StoreError, match="a part of its path is a file"):
        other.save(tmp_path / "m" / "n")
    assert (tmp_path / "m").read_text() == "text"


def test_files_put_beside_a_model_stay(other: LinkPredictor, saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    (saved / "plots").mkdir()
    (saved / "plots" / "a.svg").write_text("<svg/>")
    other.save(saved)
    assert_same(load(saved), other)
    assert (saved / "notes.txt").read_text() == "mine"
    assert (saved / "plots" / "a.svg").read_text() == "<svg/>"


def test_a_link_to_a_model_stays_a_link(model: LinkPredictor, other: LinkPredictor, saved: Path) -> None:
    link = saved.parent / "latest"
    link.symlink_to(saved.name)
    for one in (other, model):  # a second time too: the first must leave nothing in its way
        one.save(link)
        assert link.is_symlink()
        assert_same(load(link), one)
        assert_same(load(saved), one)
    assert sorted(file.name for file in saved.parent.iterdir()) == ["first", "latest"]


# -- what is not trusted -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PARTS - {"manifest.json"}))
@pytest.mark.parametrize("how", ["missing", "truncated", "altered"])
def test_an_imperfect_file_is_named(saved: Path, name: str, how: str) -> None:
    file = saved / name
    content = file.read_bytes()
    if how == "missing":
        file.unlink()
        message = rf"incomplete: {name} is missing"
    elif how == "truncated":
        file.write_bytes(content[:-7])
        message = rf"{name}' is truncated or altered: [\d,]+ bytes, expected [\d,]+"
    else:
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        message = rf"{name}' has been altered since it was saved"
    with pytest.raises(StoreError, match=message):
        load(saved)


def edit_manifest(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    file = path / "manifest.json"
    manifest = json.loads(file.read_text())
    edit(manifest)
    file.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("number", "cure"), [(model_files.FORMAT_OF_PARTS + 1, "upgrade yinyan"), (model_files.FORMAT - 1, "fit again")]
)
def test_other_formats_are_refused_with_their_cure(saved: Path, number: int, cure: str) -> None:
    edit_manifest(saved, lambda manifest: manifest.update(format=number, library="9.9"))
    with pytest.raises(StoreError, match=rf"has format version {number}, .*{cure}; it was written by yinyan 9\.9"):
        load(saved)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"format": 1}', '{"format": "new", "files": {}}', "null"], ids=repr
)
def test_a_damaged_manifest_is_named(saved: Path, content: str) -> None:
    (saved / "manifest.json").write_text(content)
    with pytest.raises(StoreError, match=r"manifest\.json' is damaged"):
        load(saved)


def test_a_manifest_that_lies_is_refused(saved: Path) -> None:
    edit_manifest(saved, lambda manifest: manifest["files"].update({"weights.safetensors": {}}))
    with pytest.raises(StoreError, match="cannot be read"):
        load(saved)
    (saved / "weights.safetensors").unlink()
    edit_manifest(saved, lambda manifest: manifest["files"].pop("weights.safetensors"))
    with pytest.raises(StoreError, match="cannot be read"):
        load(saved)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no model directory"):
        load(tmp_path / "none")
    with pytest.raises(StoreError, match=r"is not a yinyan model: it has no manifest\.json"):
        load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="it is a file"):
        load(tmp_path / "file")


@pytest.mark.parametrize("damage", ["not JSON", "another format"])
def test_what_cannot_be_read_can_be_replaced(other: LinkPredictor, saved: Path, damage: str) -> None:
    """The cure that the error names, fitting again, must work in the same place."""
    if damage == "not JSON":
        (saved / "manifest.json").write_text("{")
    else:
        edit_manifest(saved, lambda manifest: manifest.update(format=model_files.FORMAT - 1))
    (saved / "notes.txt").write_text("mine")
    other.save(saved)
    assert_same(load(saved), other)
    assert (saved / "notes.txt").read_text() == "mine"


# -- crashes and full disks ----------------------------------------------------------------------------------


class PowerFailureError(BaseException):
    """Nothing catches it."""


def fail_at(monkeypatch: pytest.MonkeyPatch, stage: str, error: BaseException) -> None:
    """Make a save end with `error` at one of its stages."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    if stage in ("first rename", "second rename"):
        real, calls = Path.replace, iter(range(100))
        bad = 0 if stage == "first rename" else 1

        def replace(self: Path, target: Path) -> Path:
            return fail() if next(calls) == bad else real(self, target)

        monkeypatch.setattr(Path, "replace", replace)
    elif stage == "arrays":
        monkeypatch.setattr(writing, "save_file", fail)
    elif stage == "ids":
        monkeypatch.setattr(model_files.pq, "write_table", fail)
    elif stage == "text":
        monkeypatch.setattr(model_files, "model_card", fail)
    elif stage == "flush":
        monkeypatch.setattr(model_files, "flush_to_disk", fail)
    else:
        monkeypatch.setattr(model_files, "_write_manifest", fail)


STAGES = ["arrays", "ids", "text", "manifest", "flush", "first rename", "second rename"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_crash_leaves_the_old_model(
    model: LinkPredictor, other: LinkPredictor, saved: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    (saved / "notes.txt").write_text("mine")
    with monkeypatch.context() as patch:
        fail_at(patch, stage, PowerFailureError())
        with pytest.raises(PowerFailureError):
            other.save(saved)
    assert_same(load(saved), model)
    other.save(saved)
    assert_same(load(saved), other)
    assert (saved / "notes.txt").read_text() == "mine"
    assert [file.name for file in saved.parent.iterdir()] == ["first"]


def test_a_crash_after_the_swap_leaves_the_new_model(
    model: LinkPredictor, other: LinkPredictor, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, flushed = model_files.flush_to_disk, []

    def flush(path: Path) -> None:
        flushed.append(path)
        if path == saved.parent:
            raise PowerFailureError
        real(path)

    with monkeypatch.context() as patch:
        patch.setattr(model_files, "flush_to_disk", flush)
        with pytest.raises(PowerFailureError):
            other.save(saved)
    assert {file.name for file in flushed if file.parent.name.endswith(".tmp")} == PARTS - {"attributes.parquet"}
    assert_same(load(saved), other)
    model.save(saved)
    assert_same(load(saved), model)
    assert [file.name for file in saved.parent.iterdir()] == ["first"]


ERRORS = [
    (errno.ENOSPC, "the disk is full: free some space"),
    (errno.EROFS, "the file system is read-only: choose another place"),
    (errno.EACCES, "permission is denied: choose another place"),
]


@pytest.mark.parametrize("stage", ["arrays", "ids", "flush", "first rename", "second rename"])
@pytest.mark.parametrize(("number", "cure"), ERRORS, ids=["full", "read-only", "denied"])
def test_a_failed_write_names_its_cure_and_leaves_no_litter(
    model: LinkPredictor,
    other: LinkPredictor,
    saved: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    number: int,
    cure: str,
) -> None:
    with monkeypatch.context() as patch:
        fail_at(patch, stage, OSError(number, os.strerror(number)))
        with pytest.raises(StoreError, match=rf"cannot write '{saved}': {cure}.*nothing was changed"):
            other.save(saved)
    assert [file.name for file in saved.parent.iterdir()] == ["first"]
    assert_same(load(saved), model)


def test_a_full_disk_before_the_first_model_leaves_nothing(
    other: LinkPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(monkeypatch, "manifest", OSError(errno.ENOSPC, "full"))
    with pytest.raises(StoreError, match="the disk is full"):
        other.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_real_limit_on_file_sizes(model: LinkPredictor, saved: Path) -> None:
    """The system itself refuses to write more: neither safetensors nor Parquet may hide its reason."""
    pytest.importorskip("resource")
    program = """
import resource, sys
from yinyan.errors import StoreError
from yinyan.predictor import LinkPredictor
model = LinkPredictor.load(sys.argv[1], device="cpu")
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
try:
    model.save(sys.argv[1])
except StoreError as error:
    sys.exit(f"refused: {error}")
"""
    source = Path(yinyan.__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", program, str(saved)],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 1
    assert run.stderr.strip() == (
        f"refused: cannot write '{saved}': the file would pass the size limit in force: raise it, or choose another "
        "place (nothing was changed)"
    )
    assert [file.name for file in saved.parent.iterdir()] == ["first"]
    assert_same(load(saved), model)


def test_no_thread_of_arrow_holds_a_file_of_the_model(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that ended right after it had read a model was aborted: a thread of Arrow still had its file."""
    threads: set[int] = set()
    opened = OpenedModel.file

    class Watched(io.RawIOBase):
        def __init__(self, file: Any) -> None:
            self.file = file

        def __getattribute__(self, name: str) -> Any:
            if name in ("read", "readinto", "seek", "tell"):
                threads.add(threading.get_ident())
                return getattr(object.__getattribute__(self, "file"), name)
            return object.__getattribute__(self, name)

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

    monkeypatch.setattr(OpenedModel, "file", lambda self, name: Watched(opened(self, name)))
    assert len(LinkPredictor.load(saved).graph_.ids) > 0
    assert threads == {threading.get_ident()}
