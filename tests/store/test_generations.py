"""One directory, one generation: loads, reloads and saves that meet."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import yinyan
from contracts import planted_graph, tiny
from yinyan.errors import StoreError
from yinyan.files import HeldError, exclusive
from yinyan.predictor import LinkPredictor
from yinyan.store import load_model, model_files, opening

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models of one graph, whose files are of the same sizes."""
    folder = tmp_path_factory.mktemp("two")
    for seed in (0, 1):
        LinkPredictor(**tiny(seed=seed)).fit(planted_graph(size=12, inside=0.5)).save(folder / f"m{seed}")
    return folder / "m0", folder / "m1"


_SAVER = """
import sys
from pathlib import Path
from yinyan.predictor import LinkPredictor
models = [LinkPredictor.load(path, device="cpu") for path in sys.argv[2:4]]
models[0].save(sys.argv[1])
print("ready", flush=True)
while True:
    for model in models:
        model.save(sys.argv[1])
"""


@pytest.fixture
def changing(two: tuple[Path, Path], tmp_path: Path) -> Iterator[Path]:
    """A directory that a process saves one model and the other to, all the time."""
    environment = {**os.environ, "PYTHONPATH": str(Path(yinyan.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _SAVER, str(tmp_path / "model"), *map(str, two)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        try:
            yield tmp_path / "model"
            assert process.poll() is None, "the saver failed"
        finally:
            process.kill()


@pytest.mark.parametrize("mapped", [False, True])
def test_a_load_during_saves_is_one_model_or_the_other(two: tuple[Path, Path], changing: Path, mapped: bool) -> None:
    """959 of 7,744 loads had the embeddings of one model and the decoder of the other."""
    known = {}
    for path in two:
        fitted, _ = load_model(path, CPU)
        known[fitted.embeddings.numpy().tobytes()] = fitted
    seen = set()
    for _ in range(150):
        fitted, params = load_model(changing, CPU, mapped=mapped)
        expected = known[fitted.embeddings.numpy().tobytes()]
        assert fitted.seed == expected.seed == params["seed"]
        for name, value in expected.model.state_dict().items():
            assert torch.equal(fitted.model.state_dict()[name], value), name
        assert fitted.history == expected.history and fitted.metrics == expected.metrics
        seen.add(fitted.seed)
    assert seen == {0, 1}


def test_mapped_arrays_outlive_the_directory(two: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(two[0], tmp_path / "m")
    fitted, _ = load_model(tmp_path / "m", CPU, mapped=True)
    LinkPredictor.load(two[1]).save(tmp_path / "m")
    assert torch.equal(fitted.embeddings, load_model(two[0], CPU)[0].embeddings)


def test_savers_to_one_place_wait_for_each_other(two: tuple[Path, Path], tmp_path: Path) -> None:
    """Two savers refused each other with 'a part of its path is a file', or lost a model."""
    models = [LinkPredictor.load(path) for path in two]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: models[number % 2].save(tmp_path / "m"), range(24)))
    assert LinkPredictor.load(tmp_path / "m").seed in (0, 1)
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_a_saver_that_waits_too_long_names_the_other(
    two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "_PATIENCE", 0.05)
    with exclusive(opening.saving_lock(tmp_path / "m"), "it"):
        with pytest.raises(HeldError, match=rf"the model directory '.*m' is in use by process {os.getpid()} on "):
            LinkPredictor.load(two[0]).save(tmp_path / "m")
        assert not (tmp_path / "m").exists()


def test_a_load_waits_for_a_save_that_is_under_way(two: tuple[Path, Path], tmp_path: Path) -> None:
    """A reload during a save was answered with 409 'truncated or altered'."""
    shutil.copytree(two[0], tmp_path / "m")
    (tmp_path / "m" / "weights.safetensors").write_bytes(b"half")
    with exclusive(opening.saving_lock(tmp_path / "m"), "it"), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(load_model, tmp_path / "m", CPU)
        time.sleep(0.05)
        assert not waiting.done()
        shutil.copy2(two[0] / "weights.safetensors", tmp_path / "m")
        assert waiting.result(20)[0].seed == 0


def test_damage_is_named_at_once_where_nobody_saves(two: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(two[0], tmp_path / "m")
    (tmp_path / "m" / "weights.safetensors").write_bytes(b"half")
    began = time.monotonic()
    with pytest.raises(StoreError, match="truncated or altered"):
        load_model(tmp_path / "m", CPU)
    assert time.monotonic() - began < 5


# -- what a save finds in its way ------------------------------------------------------------------------------


def test_links_stay_links_and_a_dangling_one_is_no_obstacle(two: tuple[Path, Path], tmp_path: Path) -> None:
    """Saving copied what a link points to, and failed where it points to nothing."""
    shutil.copytree(two[0], tmp_path / "m")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "big.bin").write_bytes(b"0" * 1000)
    (tmp_path / "m" / "folder").symlink_to("../data")
    (tmp_path / "m" / "file").symlink_to("../data/big.bin")
    (tmp_path / "m" / "dangling").symlink_to("nowhere")
    (tmp_path / "m" / "plots").mkdir()
    (tmp_path / "m" / "plots" / "within").symlink_to("../../data/none")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "m" / "pipe")
    LinkPredictor.load(two[1]).save(tmp_path / "m")
    for name, target in {
        "folder": "../data",
        "file": "../data/big.bin",
        "dangling": "nowhere",
        "plots/within": "../../data/none",
    }.items():
        assert (tmp_path / "m" / name).is_symlink() and (tmp_path / "m" / name).readlink() == Path(target)
    assert LinkPredictor.load(tmp_path / "m").seed == 1
    assert not hasattr(os, "mkfifo") or (tmp_path / "m" / "pipe").is_fifo()


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_what_a_killed_save_left_is_removed_by_the_next(two: tuple[Path, Path], tmp_path: Path) -> None:
    """`.NAME.*.tmp` folders stayed for ever."""
    program = """
import os, signal, sys
from yinyan.predictor import LinkPredictor
from yinyan.store import model_files
model_files._swap = lambda staging, path: os.kill(os.getpid(), signal.SIGKILL)
LinkPredictor.load(sys.argv[1], device="cpu").save(sys.argv[2])
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(yinyan.__file__).parents[1])}
    ran = subprocess.run([sys.executable, "-c", program, str(two[0]), str(tmp_path / "m")], env=environment)
    assert ran.returncode == -signal.SIGKILL
    left = sorted(file.name for file in tmp_path.iterdir())
    assert len(left) == 2 and left[0].endswith(".tmp") and left[1] == ".m.lock"
    LinkPredictor.load(two[1]).save(tmp_path / "m")
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_the_staging_folder_of_a_live_save_stays(two: tuple[Path, Path], tmp_path: Path) -> None:
    mine = opening.saving_lock(tmp_path / "m").with_name(model_files.temporary_beside(tmp_path / "m").name)
    mine.mkdir()
    LinkPredictor.load(two[1]).save(tmp_path / "m")
    assert mine.is_dir()


def test_readers_and_savers_in_threads(two: tuple[Path, Path], tmp_path: Path) -> None:
    """The window between the two renames of a save: there is no directory of that name."""
    models = [LinkPredictor.load(path) for path in two]
    models[0].save(tmp_path / "m")
    ended = threading.Event()

    def read() -> set[int]:
        seen = set()
        while not ended.is_set():
            seen.add(load_model(tmp_path / "m", CPU)[0].seed)
        return seen

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for number in range(40):
            models[number % 2].save(tmp_path / "m")
        ended.set()
        assert all(reader.result() <= {0, 1} for reader in readers)
    assert np.isfinite(load_model(tmp_path / "m", CPU)[0].embeddings.numpy()).all()
