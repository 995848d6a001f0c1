"""Reloads while the model is being saved: they wait for a whole model, and there is no 409."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serving_tools import Child, served
from yinyan.files import exclusive, temporary_folder
from yinyan.predictor import LinkPredictor
from yinyan.store.opening import saving_lock


@pytest.mark.parametrize("moment", ["no directory", "half a file"])
def test_a_reload_waits_for_the_save_that_is_under_way(model: Path, moment: str) -> None:
    """It was answered with 409 'truncated or altered', or 'there is no model directory'."""
    whole = model.with_name("whole")
    with served(model) as client, ThreadPoolExecutor(1) as pool:
        with exclusive(saving_lock(model), "it"):
            shutil.copytree(model, whole)
            if moment == "no directory":
                shutil.rmtree(model)
            else:
                (model / "weights.safetensors").write_bytes(b"half")
            answer = pool.submit(client.post, "/v1/reload")
            time.sleep(0.1)
            assert not answer.done()
            shutil.rmtree(model, ignore_errors=True)
            whole.rename(model)
            assert answer.result(20).status_code == 200, answer.result().text
        assert client.post("/v1/recommend", json={"nodes": ["n01"], "k": 3}).status_code == 200


def test_reloads_during_constant_saves_are_answered(model: Path) -> None:
    predictor, ended, saves = LinkPredictor.load(model, device="cpu"), threading.Event(), 0

    def save() -> None:
        nonlocal saves
        while not ended.is_set():
            predictor.save(model)
            saves += 1

    with served(model) as client:
        before = client.post("/v1/recommend", json={"nodes": ["n01"], "k": 3}).json()["results"]
        saver = threading.Thread(target=save)
        saver.start()
        try:
            answers = [client.post("/v1/reload") for _ in range(15)]
        finally:
            ended.set()
            saver.join()
        assert saves > 2 and [answer.status_code for answer in answers] == [200] * 15, answers[-1].text
        assert client.post("/v1/recommend", json={"nodes": ["n01"], "k": 3}).json()["results"] == before


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_a_service_removes_the_folder_of_one_that_was_killed(model: Path, child: Callable[..., Child]) -> None:
    """`yinyan-*` folders stayed for ever."""
    with temporary_folder() as mine:
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        left = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{gone.pid}-"))
        left.mkdir()
        (left / "index.safetensors").touch()
        child(model).wait_ready()
        assert not left.exists() and mine.is_dir()
