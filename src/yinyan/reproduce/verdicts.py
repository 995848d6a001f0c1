"""Verdicts: whether a published value is reproduced, and whether that takes a leak."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

from yinyan.evaluation import PROTOCOLS
from yinyan.peers.registry import METHODS
from yinyan.reproduce.recipe import Place, Recipe, Row
from yinyan.reproduce.result_tables import results_of
from yinyan.reproduce.running import Result

__all__ = ["UNKNOWN_SPREAD", "VERDICTS", "Claim", "claims", "side", "tolerance", "verdict"]

REPRODUCED, EXCEEDED = "reproduced", "exceeded"
ONLY_WITH_LEAK, EXCEEDED_WITH_LEAK = "reproduced only with a leak", "exceeded only with a leak"
NOT_REPRODUCED, NOT_RUN = "not reproduced", "not run"

VERDICTS = {
    REPRODUCED: "the mean of our runs without a leak is within the tolerance",
    EXCEEDED: "it is higher than the published value by more than the tolerance",
    ONLY_WITH_LEAK: "it is lower by more than the tolerance, and the mean of our runs with a leak is within it",
    EXCEEDED_WITH_LEAK: "the same, and the mean of our runs with a leak is higher by more than the tolerance",
    NOT_REPRODUCED: "it is lower by more than the tolerance, and so is the mean of our runs with a leak, if any",
    NOT_RUN: "no run without a leak is finished",
}
UNKNOWN_SPREAD = 1.0  # points; the published standard deviations of the recipes have a median of about this
FEWEST = 3  # runs of ours that have a standard deviation of their own
_LEAKING = ("released",)  # protocols


@dataclass(frozen=True)
class Claim:
    """A published value, and our runs for it."""

    recipe: Recipe
    row: Row
    place: Place
    clean: tuple[Result, ...]
    leaking: tuple[Result, ...]
    others: tuple[str, ...] = ()  # further recipes with the same value for the same settings

    @property
    def source(self) -> str:
        """The protocol under which the value was obtained: ours by name, or another one in words."""
        table = self.recipe.source
        of_other_data = table in PROTOCOLS and table not in self.place.protocols
        return self.row.source or (self.place.protocols[0] if of_other_data else table)


def tolerance(spread: float | None, values: Sequence[float]) -> float:
    """Two standard deviations of a published value and ours together; unknown ones count as `UNKNOWN_SPREAD`."""
    theirs = UNKNOWN_SPREAD if spread is None else spread
    ours = stdev(values) if len(values) >= FEWEST else UNKNOWN_SPREAD
    return 2 * math.hypot(theirs, ours)


def side(place: Place, values: Sequence[float]) -> int:
    """-1, 0 or 1: the mean of our values is lower than the published one, within the tolerance, or higher."""
    if place.expect is None:
        raise ValueError(f"a published value is needed to compare with (got none for {place.data!r})")
    difference = mean(values) - place.expect
    return 0 if abs(difference) <= tolerance(place.spread, values) else 1 if difference > 0 else -1


def verdict(claim: Claim) -> str:
    """One of `VERDICTS`; runs that diverged have no figure, and count only if none has one."""
    if not claim.clean:
        return NOT_RUN
    for runs, within, above in (
        (claim.clean, REPRODUCED, EXCEEDED),
        (claim.leaking, ONLY_WITH_LEAK, EXCEEDED_WITH_LEAK),
    ):
        values = figures(runs)
        found = side(claim.place, values) if values else -1
        if found >= 0:
            return above if found else within
    return NOT_REPRODUCED


def figures(runs: Sequence[Result]) -> list[float]:
    """In per cent, of the runs that have one."""
    return [run.figure for run in runs if run.figure is not None]


def claims(recipes: Sequence[Recipe], results: Mapping[str, Sequence[Result]]) -> list[Claim]:
    """Every published value of the recipes with our runs, by the name of the recipe; equal ones are merged.

    Values that belong to another method or other settings than their row (`expect_of`) are among them.
    """
    found: dict[str, Claim] = {}
    for recipe in recipes:
        for claim in _claims(recipe, results.get(recipe.name, ())):
            key = _key(claim)
            found[key] = _merged(found[key], claim) if key in found else claim
    return list(found.values())


def _claims(recipe: Recipe, results: Sequence[Result]) -> Iterator[Claim]:
    for row in recipe.rows:
        for place in row.places:
            fair = METHODS[row.method].without_leak if row.method in METHODS else ""
            if place.expect is None or (fair and any(p.expect == place.expect for _, p in _on(recipe, fair, place))):
                continue  # a value that stands at both rows of a pair, with and without the leak, is one value
            own = _runs(row, place, results)
            if fair:
                clean = [run for other, there in _on(recipe, fair, place) for run in _runs(other, there, results)]
                yield Claim(recipe, row, place, tuple(clean), tuple(own))
                continue
            leaking = [run for q in place.protocols if q in _LEAKING for run in results_of(row, place, q, results)]
            for name in (name for name, card in METHODS.items() if card.without_leak == row.method):
                leaking += [run for other, there in _on(recipe, name, place) for run in _runs(other, there, results)]
            yield Claim(recipe, row, place, tuple(own), tuple(leaking))


def _on(recipe: Recipe, method: str, place: Place) -> list[tuple[Row, Place]]:
    """The rows of a method, and what they do on the same data set."""
    rows = [row for row in recipe.rows if row.method == method]
    return [(row, other) for row in rows for other in row.places if other.data == place.data]


def _runs(row: Row, place: Place, results: Sequence[Result]) -> list[Result]:
    """Under the first protocol that does not leak."""
    honest = [protocol for protocol in place.protocols if protocol not in _LEAKING]
    return results_of(row, place, honest[0], results) if honest else []


def _key(claim: Claim) -> str:
    """The same for rows of two recipes that have one published value and one setting."""
    row, place = claim.row, claim.place
    marks = [row.method, row.row_normalised, place.data, place.metric or claim.recipe.metric]
    return json.dumps([*marks, place.settings, place.expect, place.expect_of], sort_keys=True)


def _merged(first: Claim, second: Claim) -> Claim:
    """The first with all runs and what only the second knows; a run that both have counts once."""
    place = replace(
        first.place,
        spread=second.place.spread if first.place.spread is None else first.place.spread,
        reason=first.place.reason or second.place.reason,
    )
    return replace(
        first,
        place=place,
        clean=_together(first.clean, second.clean),
        leaking=_together(first.leaking, second.leaking),
        others=(*first.others, second.recipe.name),
    )


def _together(first: Sequence[Result], second: Sequence[Result]) -> tuple[Result, ...]:
    return tuple({run.cell.digest: run for run in (*first, *second)}.values())
