from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yinyan.live import row_sets
from yinyan.live.row_sets import RowSets

PAIRS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=30)


def as_dict(sets: RowSets) -> dict[int, list[int]]:
    return {row: sets.of(row).tolist() for row in range(sets.num_rows)}


def expected(pairs: set[tuple[int, int]], num_rows: int) -> dict[int, list[int]]:
    return {row: sorted(b for a, b in pairs if a == row) for row in range(num_rows)}


@given(start=PAIRS, steps=st.lists(st.tuples(PAIRS, PAIRS), max_size=4), merge=st.sampled_from([0, 3, 100]))
def test_every_version_keeps_its_sets(start, steps, merge) -> None:
    before = row_sets._MERGE
    row_sets._MERGE = merge
    try:
        pairs = set(start)
        sets = RowSets.from_pairs(np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2), 8)
        seen = [(sets, expected(pairs, 8))]
        for added, removed in steps:
            pairs = (pairs - set(removed)) | set(added)
            sets = sets.edited(set(added), set(removed))
            seen.append((sets, expected(pairs, 8)))
        for version, wanted in seen:
            assert as_dict(version) == wanted
            assert version.sizes().tolist() == [len(members) for members in wanted.values()]
            assert version.pairs().tolist() == [[row, other] for row, members in wanted.items() for other in members]
            assert all(version.has(row, other) == (other in wanted[row]) for row in range(8) for other in range(8))
    finally:
        row_sets._MERGE = before


def test_more_rows_are_empty_at_first() -> None:
    sets = RowSets.from_pairs(np.array([[0, 1]]), 2).edited([(3, 0)], [], 5)
    assert as_dict(sets) == {0: [1], 1: [], 2: [], 3: [0], 4: []}
    assert RowSets.empty(2).edited([], [], 3).sizes().tolist() == [0, 0, 0]


@pytest.mark.parametrize("merge", [0, 100])
def test_pairs_of_rows_beyond_the_compressed_ones(merge: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sets, "_MERGE", merge)
    sets = RowSets.from_pairs(np.array([[0, 1], [1, 0]]), 2).edited([(2, 1), (1, 2)], [(0, 1)], 4)
    assert sets.pairs().tolist() == [[1, 0], [1, 2], [2, 1]]
