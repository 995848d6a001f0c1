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
