"""Recipes small enough to run in tests, and results made up for them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from yinyan.reproduce.recipe import Cell, Recipe, parse_recipe
from yinyan.reproduce.running import Result

TABLE = """
title = "A small table"
about = "Two heuristics."
metric = "hits@100"
source = "released"
protocols = ["released", "clean"]
seeds = 2

[block.warm]
row_normalised = true
encoder = { hidden_size = 16, num_steps = 2 }

[[row]]
name = "common neighbours"
method = "cn"
on.cora = { expect = 33.92, spread = 0.46 }
on.citeseer = { protocols = ["clean"], seeds = 1 }

[[row]]
name = "ours"
method = "yinyan"
use = ["warm"]
encoder = { num_steps = 3 }
on.cora = { encoder = { num_steps = 4 } }
"""

CURVES = """
title = "A small figure"
metric = "hits@100"
source = "clean"
protocols = ["clean", "temporal"]
x_label = "graphs K"

[[row]]
name = "one"
method = "cn"
series = "learned"
x = 1
on.cora = { expect = 40 }

[[row]]
name = "two"
method = "cn"
series = "fixed"
x = 2
on.cora = {}
"""


def table(text: str = TABLE, name: str = "small") -> Recipe:
    return parse_recipe(name, text)


def made_up(cell: Cell, figure: float | None = 50.0, **changes: Any) -> Result:
    """A result as if the cell had run."""
    told = f"{cell.data} / {cell.protocol} / 10 shared negatives / {cell.metric} / seed {cell.seed}"
    figures = {} if figure is None else {cell.metric: figure / 100, "mrr": 0.25}
    return Result(cell, **{**_plain(figure, figures, told), **changes})


def _plain(figure: float | None, figures: dict[str, float], told: str) -> dict[str, Any]:
    failure = "" if figure is not None else "the embeddings are not finite"
    return {
        "figure": figure,
        "figures": figures,
        "validation": None,
        "protocol": told,
        "seconds": 2.0,
        "failure": failure,
    }


def without_times(result: Result) -> dict[str, Any]:
    return {name: value for name, value in asdict(result).items() if name != "seconds"}
