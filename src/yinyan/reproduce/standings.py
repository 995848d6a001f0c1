"""Which row of a table is first on each data set, and where a row that is compared stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from yinyan.reproduce.recipe import Recipe
from yinyan.reproduce.running import Result

__all__ = ["NEAR", "Standing", "standings"]

FIRST, NEAR, BEHIND, NOT_RUN = "first", "within the spread of the first", "behind", "not run"


@dataclass(frozen=True)
class Standing:
    """The first row on a data set under a metric, and the row that is compared with it."""

    data: str
    first: str  # name of the row
    best: tuple[float, ...]  # its figures in per cent, seed by seed
    own: tuple[float, ...]  # those of the row that is compared

    @property
    def place(self) -> str:
        """'first', 'within the spread of the first' (at most its standard deviation below), 'behind' or 'not run'."""
        if not self.own:
            return NOT_RUN
        spread = stdev(self.best) if len(self.best) > 1 else 0.0
        below = mean(self.best) - mean(self.own)
        return FIRST if below <= 0 else NEAR if below <= spread else BEHIND


def standings(recipe: Recipe, results: Sequence[Result], metric: str) -> list[Standing]:
    """One line per data set that has results, under the first protocol of each row.

    All rows are taken by the seeds of the row that is compared, where that was run: other seeds are other splits.
    """
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in recipe.rows:
        for place in row.places:
            wanted = (row.name, place.data, place.protocols[0])
            mine = [r for r in results if (r.cell.row, r.cell.data, r.cell.protocol) == wanted and metric in r.figures]
            found.setdefault(place.data, {})[row.name] = {r.cell.seed: 100 * r.figures[metric] for r in mine}
    lines = []
    for data, rows in found.items():
        own = rows.get(recipe.compare, {})
        figures = {name: _of_seeds(mine, own or mine) for name, mine in rows.items()}
        ran = {name: values for name, values in figures.items() if values}
        if ran:
            first = max(ran, key=lambda name: mean(ran[name]))
            lines.append(Standing(data, first, ran[first], ran.get(recipe.compare, ())))
    return lines


def _of_seeds(figures: Mapping[int, float], seeds: Iterable[int]) -> tuple[float, ...]:
    return tuple(figures[seed] for seed in sorted(seeds) if seed in figures)
