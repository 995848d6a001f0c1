"""The best weights: copied, in memory or in a file, and put back."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
import torch

from yinyan.training.best_weights import BestWeights


def weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"table": (50, 8), "other": (20, 3), "bias": (8,), "scale": ()}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


@pytest.mark.parametrize("large", [1, 400, 1 << 30], ids=["all in the file", "one in the file", "none in the file"])
def test_come_back(large: int) -> None:
    given, kept = weights(), BestWeights(large=large)
    assert not kept
    kept.keep({name: torch.zeros_like(value) for name, value in given.items()})
    kept.keep(given)
    assert kept
    changed = {name: value + 1 for name, value in given.items()}
    kept.restore(changed)
    for found in (changed, kept.tensors()):
        assert {name: value.tolist() for name, value in found.items()} == {k: v.tolist() for k, v in given.items()}


@pytest.mark.parametrize("large", [1, 1 << 30])
def test_are_a_copy(large: int) -> None:
    given = weights()
    kept = BestWeights(given, large=large)
    before = given["table"].clone()
    given["table"].zero_()
    assert torch.equal(kept["table"], before)


def test_stay_in_memory_where_no_file_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    kept = BestWeights(weights(), large=1)
    assert torch.equal(kept["table"], weights()["table"])


def test_other_types_stay_as_they_are() -> None:
    given = {"counts": torch.arange(100), "half": torch.ones(100, dtype=torch.bfloat16)}
    found = BestWeights(given, large=1).tensors()
    assert all(torch.equal(found[name], value) and found[name].dtype == value.dtype for name, value in given.items())
