"""Small models to serve."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving_tools import Child, tiny_predictor, two_rings

from yinyan import Graph


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of saved models: 'plain' with text ids, 'mixed' with ids of both types."""
    folder = tmp_path_factory.mktemp("models")
    texts = [f"n{i:02d}" for i in range(40)]
    tiny_predictor().fit(Graph.from_arrays(two_rings(), ids=texts)).save(folder / "plain")
    odd: list[Any] = [7, "7", "007", "a/b", "ä?#", "", *range(100, 134)]
    tiny_predictor().fit(Graph.from_arrays(two_rings(), ids=odd)).save(folder / "mixed")
    return folder


@pytest.fixture
def model(models: Path, tmp_path: Path) -> Path:
    """A copy of the plain model, to be changed."""
    shutil.copytree(models / "plain", tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def mixed(models: Path, tmp_path: Path) -> Path:
    """A copy of the model with mixed ids."""
    shutil.copytree(models / "mixed", tmp_path / "mixed")
    return tmp_path / "mixed"


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Starts services in processes of their own, and ends them."""
    started: list[Child] = []

    def start(model: Path, *flags: str) -> Child:
        started.append(Child(model, *flags))
        return started[-1]

    yield start
    for each in started:
        each.kill()
