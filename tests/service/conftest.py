"""Small models to serve, and services in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from serving_tools import Child, mixed, model, models

__all__ = ["child", "mixed", "model", "models"]


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Starts services in processes of their own, and ends them."""
    started: list[Child] = []

    def start(model: Path, *flags: str, **options: Any) -> Child:
        started.append(Child(model, *flags, **options))
        return started[-1]

    yield start
    for each in started:
        each.kill()
