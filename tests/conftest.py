"""What all tests share: one thread, one seed, reproducible property tests."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, settings

from postgres_tools import database, log_url, schema, vector_database
from yinyan.native import graph_kernels

__all__ = ["database", "log_url", "schema", "vector_database"]

torch.set_num_threads(1)
settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def _one_seed() -> None:
    """Weights start alike in every test, whatever ran before."""
    torch.manual_seed(0)


@pytest.fixture(params=["compiled", "plain"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the compiled kernels, and again without them."""
    if request.param == "plain":
        monkeypatch.setattr(graph_kernels, "library", lambda: None)
    elif graph_kernels.library() is None:
        pytest.skip(f"no compiled kernels: {graph_kernels.why_not()}")
    return str(request.param)
