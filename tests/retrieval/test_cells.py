"""Cells of similar rows: every row in one, close to the best; the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from contracts import clustered_rows
from yinyan.retrieval.cells import centres_of, nearest_centres
from yinyan.retrieval.lists import Lists


def test_centres_are_means_and_repeat() -> None:
    points = torch.cat([torch.zeros(50, 3), torch.ones(70, 3) * 5])
    centres = centres_of(points[torch.randperm(120)], 2, seed=0)
    torch.testing.assert_close(centres[centres[:, 0].argsort()], torch.tensor([[0.0] * 3, [5.0] * 3]))
    y = clustered_rows(400, 5)
    assert torch.equal(centres_of(y, 9, 1), centres_of(y, 9, 1))
    assert not torch.equal(centres_of(y, 9, 1), centres_of(y, 9, 2))


@pytest.mark.parametrize("count", [20, 600])
def test_nearest(count: int) -> None:
    y = clustered_rows(3000, 8, clusters=40)
    centres = y[:count].clone()
    apart = torch.cdist(y, centres)
    assert (nearest_centres(y, centres) == apart.argmin(1).numpy()).mean() > 0.999


@pytest.mark.parametrize("columns", [6, 8])
def test_lists_hold_every_row_once_and_find_the_largest_products(columns: int) -> None:
    y = clustered_rows(1000, columns)
    lists = Lists.build(y, 13, 0, queries=torch.randn(30, columns))
    rows = lists.rows[lists.rows >= 0]
    assert sorted(rows.tolist()) == list(range(1000))
    queries = torch.randn(5, columns)
    stale = np.zeros(1000, dtype=bool)
    stale[::7] = True
    out = [np.array([1, 2, 3])] * 5
    found = lists.search(queries, 13, 40, stale, out)
    products = queries @ y.t()
    products[:, torch.from_numpy(stale)] = products[:, [1, 2, 3]] = -torch.inf
    for place, best in enumerate(products.topk(20).indices):
        assert np.isin(best.numpy(), found[place]).mean() >= 0.95, "bytes may swap a row or so"
        assert not stale[found[place]].any() and not np.isin(found[place], [1, 2, 3]).any()
    few = lists.search(queries, 1, 1000, None, out)
    assert ((few >= 0).sum(1) < 1000).all() and ((few >= 0).sum(1) > 0).all()


@pytest.mark.parametrize("compiled", [True, False])
def test_rows_met_before_are_passed_over_and_more_cells_looked_into(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setenv("YINYAN_NATIVE", "0")
    y = clustered_rows(1000, 8)
    lists = Lists.build(y, 13, 0)
    queries, nobody = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)), [np.empty(0, np.int64)] * 3
    first = lists.search(queries, 4, 30, None, nobody)
    again = lists.search(queries, 4, 30, None, nobody, first)
    for place in range(3):
        both = np.concatenate([first[place], again[place]])
        both = both[both >= 0]
        assert np.unique(both).size == both.size, "every row once"
    far = np.array([[int(np.flatnonzero(lists.cell_of == cell)[0])] for cell in (0, 5, 12)])
    one, more = (lists.search(queries, 1, 1000, None, nobody, None, near) for near in (None, far))
    for place, cell in enumerate((0, 5, 12)):
        there = np.flatnonzero(lists.cell_of == cell)
        found = more[place][more[place] >= 0]
        assert np.isin(there, found).all() and np.unique(found).size == found.size
        assert np.isin(one[place], more[place]).all()
