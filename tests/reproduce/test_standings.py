"""Standings: the first row of each data set, and the place of the row that is compared."""

from __future__ import annotations

import pytest
from small_recipes import made_up, table

from yinyan.reproduce import Recipe, Result
from yinyan.reproduce.result_tables import as_json, as_markdown
from yinyan.reproduce.standings import standings

TEXT = """
title = "Full ranking"
metric = "full-mrr"
also = ["recall@10"]
source = "clean"
protocols = ["clean"]
seeds = 2
sources = 100
compare = "ours"

[on]
cora = {}
citeseer = {}
ml-1m = { protocols = ["official"] }

[[row]]
name = "ours"
method = "yinyan"

[[row]]
name = "Katz"
method = "katz"

[[row]]
name = "MLP"
method = "mlp"
on = { cora = {} }
"""


def results(figures: dict[tuple[str, str], tuple[float, float]]) -> list[Result]:
    """Made up from the MRR of each row and data set, seed by seed; Recall@10 is one minus it."""
    found = []
    for cell in ranked().cells():
        if (cell.row, cell.data) in figures:
            value = figures[cell.row, cell.data][cell.seed]
            found.append(made_up(cell, value, figures={"full-mrr": value / 100, "recall@10": 1 - value / 100}))
    return found


def ranked() -> Recipe:
    return table(TEXT)


@pytest.mark.parametrize(
    ("own", "other", "first", "place"),
    [
        ((30, 32), (20, 30), "ours", "first"),
        ((29, 29), (29, 31), "Katz", "within the spread of the first"),
        ((28, 28), (29, 31), "Katz", "behind"),
        ((29, 29), (30, 30), "Katz", "behind"),
    ],
)
def test_the_place_of_a_row(own: tuple[float, float], other: tuple[float, float], first: str, place: str) -> None:
    (line,) = standings(ranked(), results({("ours", "cora"): own, ("Katz", "cora"): other}), "full-mrr")
    assert (line.data, line.first, line.place) == ("cora", first, place)


def test_rows_are_compared_by_the_same_seeds() -> None:
    """Katz is better on average, by a split that the other row was not run on."""
    kept = results({("ours", "cora"): (30, 30), ("Katz", "cora"): (20, 90)})
    first_seed = [result for result in kept if result.cell.row == "Katz" or result.cell.seed == 0]
    (line,) = standings(ranked(), first_seed, "full-mrr")
    assert (line.first, line.best, line.own, line.place) == ("ours", (30,), (30,), "first")


def test_a_row_that_was_not_run_has_no_place() -> None:
    found = standings(ranked(), results({("Katz", "ml-1m"): (1, 2), ("MLP", "cora"): (3, 4)}), "full-mrr")
    assert [(line.data, line.first, line.place) for line in found] == [
        ("cora", "MLP", "not run"),
        ("ml-1m", "Katz", "not run"),
    ]
    assert standings(ranked(), [], "full-mrr") == []


def test_the_page_tells_both_metrics_apart() -> None:
    kept = results({("ours", "cora"): (30, 32), ("Katz", "cora"): (20, 30), ("Katz", "citeseer"): (5, 5)})
    page = as_markdown(ranked(), kept, "yinyan reproduce small")
    words = " ".join(page.split())
    assert "By MRR, *ours* is first on 1 and within the spread of the first" in words
    assert "on 0 of 1 data set that it was run on" in words
    assert "| cora | ours | 31.00 ± 1.41 | 31.00 ± 1.41 | first |" in page
    assert "| cora | Katz | 75.00 ± 7.07 | 69.00 ± 1.41 | within the spread of the first |" in page
    assert "| citeseer | Katz | 5.00 ± 0.00 | – | not run |" in page
    found = as_json(ranked(), kept, "yinyan reproduce small")["standings"]
    assert found[0] == {"data": "cora", "metric": "full-mrr", "first": "ours", "row": "ours", "place": "first"}
    assert [line["metric"] for line in found] == ["full-mrr"] * 2 + ["recall@10"] * 2
