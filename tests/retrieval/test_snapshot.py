"""Rows that change make another snapshot; whoever reads an earlier one sees what it saw."""

from __future__ import annotations

import numpy as np
import torch

from yinyan.retrieval.snapshot import Snapshot


def test_every_version_keeps_its_rows() -> None:
    generator = np.random.default_rng(0)
    plain = generator.normal(size=(20, 3)).astype(np.float32)
    snapshot = Snapshot.of(torch.from_numpy(plain.copy()))
    seen = [(snapshot, plain.copy())]
    for step in range(30):
        rows = np.unique(generator.integers(0, len(plain), size=4))
        if step % 7 == 3:  # two new nodes
            rows = np.concatenate([rows, [len(plain), len(plain) + 1]])
            plain = np.concatenate([plain, np.zeros((2, 3), np.float32)])
        values = generator.normal(size=(rows.size, 3)).astype(np.float32)
        plain[rows] = values
        snapshot = snapshot.updated(rows, torch.from_numpy(values))
        seen.append((snapshot, plain.copy()))
    for version, wanted in seen:
        assert version.num_rows == len(wanted)
        np.testing.assert_array_equal(version.merged().numpy(), wanted)
        some = generator.integers(0, len(wanted), size=9)
        np.testing.assert_array_equal(version.gather(some).numpy(), wanted[some])


def test_the_base_is_never_written_to() -> None:
    base = torch.zeros(4, 2)
    changed = Snapshot.of(base).updated(np.array([1]), torch.ones(1, 2))
    assert changed.gather(np.array([1])).tolist() == [[1.0, 1.0]]
    assert base.sum() == 0


def test_changed_rows_do_not_pile_up() -> None:
    snapshot = Snapshot.of(torch.zeros(10_000, 2))
    for step in range(500):
        snapshot = snapshot.updated(np.array([step % 3]), torch.full((1, 2), float(step)))
    assert len(snapshot.extra) < 150 and (snapshot.extra_rows >= 0).sum() == 3


def test_a_change_copies_its_own_rows_and_no_others() -> None:
    """Every change copied all rows that had changed before it."""
    snapshot = Snapshot.of(torch.zeros(10_000, 2))
    for first in range(0, 8_000, 1_000):
        snapshot = snapshot.updated(np.arange(first, first + 1_000), torch.ones(1_000, 2))
    moved = 0
    for row in range(8_000, 9_000):
        before = snapshot.extra.data_ptr()
        snapshot = snapshot.updated(np.array([row]), torch.ones(1, 2))
        moved += snapshot.extra.data_ptr() != before
    assert moved <= 1


def test_what_was_appended_to_an_abandoned_version_is_not_seen() -> None:
    shown = Snapshot.of(torch.zeros(4, 2)).updated(np.array([1]), torch.ones(1, 2))
    abandoned = shown.updated(np.array([2, 4]), torch.full((2, 2), 7.0))
    kept = shown.updated(np.array([3]), torch.full((1, 2), 3.0))
    assert kept.merged().tolist() == [[0, 0], [1, 1], [0, 0], [3, 3]]
    assert abandoned.merged().tolist() == [[0, 0], [1, 1], [7, 7], [0, 0], [7, 7]]


def test_rows_made_anew_stand_for_what_was_built_where_they_hardly_moved() -> None:
    fresh = torch.arange(10.0).view(5, 2)
    snapshot = Snapshot.beside(fresh, 4, np.array([False, True, False, False, False]))
    assert snapshot.is_stale.tolist() == [False, True, False, False, True]
    assert torch.equal(snapshot.merged(), fresh) and snapshot.num_rows == 5
