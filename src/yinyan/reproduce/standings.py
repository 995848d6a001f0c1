"""Which row of a table is first on each data set, and where a row that is compared stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from yinyan.reproduce.recipe import Recipe, Row
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
    """One line per data set that has results, under the first protocol of each row."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for row in recipe.rows:
        for place in row.places:
            figures = _figures(row, place.data, place.protocols[0], results, metric)
            found.setdefault(place.data, {}).update({row.name: figures} if figures else {})
    lines = []
    for data, rows in found.items():
        if rows:
            first = max(rows, key=lambda name: mean(rows[name]))
            lines.append(Standing(data, first, rows[first], rows.get(recipe.compare, ())))
    return lines


def _figures(row: Row, data: str, protocol: str, results: Sequence[Result], metric: str) -> tuple[float, ...]:
    wanted = (row.name, data, protocol)
    mine = [r for r in results if (r.cell.row, r.cell.data, r.cell.protocol) == wanted and metric in r.figures]
    return tuple(100 * r.figures[metric] for r in sorted(mine, key=lambda r: r.cell.seed))
