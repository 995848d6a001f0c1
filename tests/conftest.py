"""What all tests share: one thread, one seed, reproducible property tests."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, settings

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
