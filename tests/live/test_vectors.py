from __future__ import annotations

import numpy as np
import pytest
import torch

from yinyan.live import vectors as module
from yinyan.live.vectors import Vectors


@pytest.mark.parametrize("at_least", [2, 1_024])
@pytest.mark.parametrize("merge", [0.1, 0.5, 2.0])
def test_every_version_keeps_its_rows(at_least: int, merge: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_LEAST", at_least)
    monkeypatch.setattr(module, "_MERGE", merge)
    generator = np.random.default_rng(0)
    plain = generator.normal(size=(20, 3)).astype(np.float32)
    vectors = Vectors(torch.from_numpy(plain.copy()))
    seen = [(vectors, plain.copy())]
    for step in range(30):
        rows = np.unique(generator.integers(0, len(plain), size=4))
        if step % 7 == 3:  # two new nodes
            rows = np.concatenate([rows, [len(plain), len(plain) + 1]])
            plain = np.concatenate([plain, np.zeros((2, 3), np.float32)])
        values = generator.normal(size=(rows.size, 3)).astype(np.float32)
        plain[rows] = values
        vectors = vectors.edited(rows, torch.from_numpy(values))
        seen.append((vectors, plain.copy()))
    for version, wanted in seen:
        assert len(version) == len(wanted) and version.width == 3
        np.testing.assert_array_equal(version.matrix().numpy(), wanted)
        some = generator.integers(0, len(wanted), size=9)
        np.testing.assert_array_equal(version.take(some).numpy(), wanted[some])
        np.testing.assert_array_equal(version.block(3, 11).numpy(), wanted[3:11])


def test_the_base_is_never_written_to() -> None:
    base = torch.zeros(4, 2)
    changed = Vectors(base).edited(np.array([1]), torch.ones(1, 2))
    assert changed.take(np.array([1])).tolist() == [[1.0, 1.0]]
    assert base.sum() == 0


def test_changed_rows_do_not_pile_up() -> None:
    vectors = Vectors(torch.zeros(10_000, 2))
    for step in range(5_000):
        vectors = vectors.edited(np.array([step % 3]), torch.full((1, 2), float(step)))
    assert vectors._changed.shape[0] <= 4 * module._AT_LEAST
