"""Models in parts: the same answers bit for bit, opened as a whole or by rows; damaged parts are refused by name."""

from __future__ import annotations

import json
import mmap
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from typer.testing import CliRunner

from contracts import planted_graph, tiny
from yinyan import Graph, LinkPredictor
from yinyan.cli.commands import app
from yinyan.errors import InputError, StoreError
from yinyan.store import saved_rows
from yinyan.store.joined import ALIGNMENT, Stretch, joined
from yinyan.store.parts import PARTS_FILE, write_part

LIMIT = 1000  # bytes


@pytest.fixture(scope="module", params=["learned rows", "features and times", "sides"])
def model(request: pytest.FixtureRequest) -> LinkPredictor:
    graph, plain = planted_graph(), planted_graph()
    encoder: dict[str, Any] = {"sketch_size": 8}
    if request.param == "features and times":
        features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
        times = np.arange(plain.num_edges, dtype=np.float64)
        graph = Graph.from_arrays(plain.edges, num_nodes=40, features=features, times=times, directed=True)
        encoder = {"inputs": "both"}
    if request.param == "sides":
        sides = np.repeat([0, 1], 20)
        pairs = [(i, 20 + j) for i in range(20) for j in range(20) if (i + j) % 3]
        graph = Graph.from_arrays(pairs, num_nodes=40, sides=sides)
    return LinkPredictor(**tiny(encoder=encoder), seed=0).fit(graph)


@pytest.fixture(scope="module")
def whole(model: LinkPredictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model.save(path := tmp_path_factory.mktemp("whole") / "model")
    return path


@pytest.fixture(scope="module")
def parted(model: LinkPredictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model.save(path := tmp_path_factory.mktemp("parted") / "model", max_shard_bytes=LIMIT)
    return path


@pytest.fixture
def copied(parted: Path, tmp_path: Path) -> Path:
    return shutil.copytree(parted, tmp_path / "model")


def test_a_model_in_parts_is_the_same_model_bit_for_bit(whole: Path, parted: Path) -> None:
    one, other = LinkPredictor.load(whole, device="cpu"), LinkPredictor.load(parted, device="cpu")
    assert len(list(parted.glob("embeddings-*-of-*.safetensors"))) > 2
    assert len(list(parted.glob("edges-*-of-*.safetensors"))) > 1
    assert np.array_equal(one.embeddings_, other.embeddings_)
    assert np.array_equal(one.graph_.edges, other.graph_.edges)
    weights = [each.fitted_.model.state_dict() for each in (one, other)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    nodes = list(range(0, 40, 3))
    found = [each.recommend(nodes, k=5) for each in (one, other)]
    assert found[0].to_pandas().equals(found[1].to_pandas())
    pairs = [(a, a + 1) for a in range(0, 18)]
    assert np.array_equal(one.score(pairs), other.score(pairs))
    assert np.array_equal(one.predict_proba(pairs), other.predict_proba(pairs))


def test_it_can_be_saved_in_one_piece_again(whole: Path, parted: Path, tmp_path: Path) -> None:
    LinkPredictor.load(parted, device="cpu").save(tmp_path / "again")
    assert sorted(file.name for file in (tmp_path / "again").iterdir()) == sorted(file.name for file in whole.iterdir())
    for name in ("embeddings", "graph", "weights"):
        assert (tmp_path / "again" / f"{name}.safetensors").read_bytes() == (whole / f"{name}.safetensors").read_bytes()


def test_other_tools_read_the_parts(model: LinkPredictor, parted: Path) -> None:
    """As docs/reference/model-format.md says."""
    listed = json.loads((parted / "parts.json").read_text())["arrays"]
    facts = next(array for array in listed if array["name"] == "embeddings")
    rows = [load_file(parted / part["file"])["embeddings"] for part in facts["parts"]]
    assert [part["last"] - part["first"] for part in facts["parts"]] == [len(part) for part in rows]
    assert np.array_equal(np.concatenate(rows), model.embeddings_)


@pytest.mark.parametrize("span", [(0, 40), (3, 17), (39, 40), (5, 5)])
def test_rows_are_opened_without_the_others(
    model: LinkPredictor, whole: Path, copied: Path, span: tuple[int, int]
) -> None:
    """Files of other rows need not be there."""
    listed = json.loads((copied / PARTS_FILE).read_text())["arrays"]
    for part in next(array for array in listed if array["name"] == "embeddings")["parts"]:
        if part["last"] <= span[0] or part["first"] >= span[1]:
            (copied / part["file"]).unlink()
    (copied / "graph.safetensors").unlink()
    for path in (copied, whole):
        decoder, rows = saved_rows(path, *span)
        assert np.array_equal(rows.numpy(), model.embeddings_[slice(*span)])
        own = model.fitted_.model.decoder.state_dict()
        assert all(torch.equal(value, own[name]) for name, value in decoder.state_dict().items())
        assert decoder.is_symmetric == model.fitted_.model.decoder.is_symmetric


def test_what_is_written_to_a_loaded_model_stays_in_memory(copied: Path) -> None:
    first = LinkPredictor.load(copied, device="cpu")
    before = first.embeddings_.copy()
    first.fitted_.embeddings.zero_()
    assert np.array_equal(LinkPredictor.load(copied, device="cpu").embeddings_, before)


def test_a_loaded_model_outlives_its_directory(copied: Path) -> None:
    model = LinkPredictor.load(copied, device="cpu")
    before = model.recommend(0, k=3)
    shutil.rmtree(copied)
    assert model.recommend(0, k=3).targets == before.targets


# -- what is refused -----------------------------------------------------------------------------------------


def a_part(path: Path) -> Path:
    return sorted(path.glob("embeddings-*-of-*"))[1]


def missing(path: Path) -> None:
    a_part(path).unlink()


def foreign(path: Path) -> None:
    """The part of another model, of the same size."""
    content = bytearray(a_part(path).read_bytes())
    content[-40:] = bytes(40)
    a_part(path).write_bytes(content)


def cut(path: Path) -> None:
    a_part(path).write_bytes(a_part(path).read_bytes()[:-4])


@pytest.mark.parametrize(
    ("damage", "words"),
    [(missing, "is incomplete: .* is missing"), (foreign, "is of another model"), (cut, "is truncated or altered")],
)
def test_damaged_parts_are_refused_by_name(copied: Path, damage: Callable[[Path], None], words: str) -> None:
    name = a_part(copied).name
    damage(copied)
    for read in (lambda: LinkPredictor.load(copied), lambda: saved_rows(copied, 0, 40)):
        with pytest.raises(StoreError, match=words) as refused:
            read()
        assert name in str(refused.value)
    done = CliRunner().invoke(app, ["check", str(copied)])
    assert done.exit_code == 1
    assert name in done.output


def test_check_lists_every_part(parted: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(parted), "--json"])
    assert done.exit_code == 0, done.output
    files = {row["file"]: row["state"] for row in json.loads(done.stdout)["files"]}
    assert {file.name for file in parted.iterdir()} <= files.keys()
    assert set(files.values()) == {"intact"}


def gap(facts: dict[str, Any]) -> None:
    facts["parts"][1]["first"] += 1


def too_few(facts: dict[str, Any]) -> None:
    facts["parts"].pop()


def other_shape(facts: dict[str, Any]) -> None:
    facts["shape"][1] += 1


def other_file(facts: dict[str, Any]) -> None:
    facts["parts"][0]["file"] = "../embeddings-00000-of-00003.safetensors"


def swapped(facts: dict[str, Any]) -> None:
    facts["name"] = "message_edges"


@pytest.mark.parametrize("edit", [gap, too_few, other_shape, other_file, swapped])
def test_a_crafted_list_of_parts_is_refused(copied: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    from yinyan.store.model_files import _write_manifest

    content = json.loads((copied / PARTS_FILE).read_text())
    edit(next(array for array in content["arrays"] if array["name"] == "embeddings"))
    (copied / PARTS_FILE).write_text(json.dumps(content))
    (copied / "manifest.json").unlink()
    _write_manifest(copied, 2)
    with pytest.raises(StoreError, match="cannot be read"):
        LinkPredictor.load(copied)


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_a_shard_has_a_positive_number_of_bytes(model: LinkPredictor, tmp_path: Path, size: Any) -> None:
    with pytest.raises(InputError, match="'max_shard_bytes' needs to be a positive integer"):
        model.save(tmp_path / "model", max_shard_bytes=size)
    assert not list(tmp_path.iterdir())


# -- the mapping ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 3, 128])
@pytest.mark.parametrize("aligned", [True, False])
def test_stretches_of_any_length_are_one_array(tmp_path: Path, columns: int, aligned: bool) -> None:
    """Whole pages are mapped, the others are read; so is a stretch that lies elsewhere within its page."""
    rng = np.random.default_rng(columns)
    wanted = rng.normal(size=(60_000, columns)).astype(np.float32)
    ends = [0, *np.sort(rng.integers(0, 60_000, 6)).tolist(), 60_000, 60_000]
    stretches = []
    for number, (first, last) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        path = tmp_path / str(number)
        write_part(path, "rows", wanted[first:last], first)
        size = (last - first) * columns * 4
        start = path.stat().st_size - size
        assert (start - first * columns * 4) % ALIGNMENT == 0
        if not aligned:
            path.write_bytes(b"x" + path.read_bytes())
            start += 1
        stretches.append(Stretch(path.open("rb"), start, size))
    found = joined(stretches, np.float32, wanted.shape)
    for stretch in stretches:
        stretch.file.close()
    shutil.rmtree(tmp_path)
    assert np.array_equal(found, wanted)
    found += 1  # its own pages
    assert np.array_equal(found, wanted + 1)
    part = found[10:20]
    del found
    assert np.array_equal(part, wanted[10:20] + 1)  # the memory lives as long as a view of it


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory in /proc")
def test_a_page_is_read_when_it_is_used(tmp_path: Path) -> None:
    """64 MiB in two parts are mapped without taking memory."""
    rows = np.ones((1 << 16, 128), np.float32)
    for number in range(2):
        write_part(tmp_path / str(number), "rows", rows, number * len(rows))
    files = [(tmp_path / str(number)).open("rb") for number in range(2)]
    before = resident()
    starts = [(tmp_path / str(number)).stat().st_size - rows.nbytes for number in range(2)]
    found = joined([Stretch(f, s, rows.nbytes) for f, s in zip(files, starts, strict=True)], np.float32, (1 << 17, 128))
    assert found[-1, -1] == 1 and resident() - before < 8 << 20
    assert found.sum() == found.size and resident() - before > 60 << 20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
