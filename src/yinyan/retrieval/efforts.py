"""How much a search does for an answer of k rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

__all__ = ["Effort", "Efforts", "ladder", "smaller"]

_MOST_CANDIDATES = 16_000  # beyond, an exact search is as good
_ROUNDS = 6  # of a score that is no inner product
_LEAST_SHARE = 0.25  # of the candidates for k = 100: fewer results need fewer candidates, down to this


@dataclass(frozen=True)
class Effort:
    """How much a search does: it decides recall and time."""

    probes: int  # cells looked into in a round; from the third on twice as many as before
    candidates: int  # best rows of a round that are scored exactly, none twice
    rounds: int = 1  # at most; a source whose last round brought nothing new to its answer needs no other
    pattern: int = 16  # rows of the answer so far whose gradients make the next query


class Efforts:
    """The effort of every k: chosen for some, and never less between them."""

    def __init__(self, by_k: Mapping[int, Effort]) -> None:
        self.by_k = dict(sorted(by_k.items()))

    def at(self, k: int) -> Effort:
        """The effort for k rows: between two k that were measured, the larger of theirs in every respect."""
        known = list(self.by_k)
        below = max((other for other in known if other <= k), default=known[0])
        above = min((other for other in known if other >= k), default=known[-1])
        one, two = self.by_k[below], self.by_k[above]
        candidates = max(one.candidates, two.candidates)
        if k > known[-1]:  # nothing is known there but that more rows are asked for
            candidates = math.ceil(candidates * k / known[-1])
        return replace(
            two,
            probes=max(one.probes, two.probes),
            candidates=max(2 * k, candidates),
            rounds=max(one.rounds, two.rounds),
        )


def ladder(num_cells: int, k: int, *, linear: bool) -> list[Effort]:
    """Efforts for k rows, from little to a look into all cells with very many candidates."""
    steps: list[Effort] = []
    probes, candidates, share = 8, 200.0, max(_LEAST_SHARE, k / 100)
    while not steps or candidates * share <= _MOST_CANDIDATES:
        probed = min(probes, num_cells)
        steps.append(Effort(probed, max(2 * k, int(candidates * share)), rounds=1 if linear else _ROUNDS))
        probes, candidates = 2 * probes, (math.sqrt(2) if probed < num_cells else 2) * candidates
    return steps


def smaller(effort: Effort, k: int) -> list[Effort]:
    """Efforts for k rows that do less in one respect."""
    less = [
        replace(effort, probes=max(1, effort.probes // 2)),
        replace(effort, candidates=max(2 * k, effort.candidates // 2)),
        replace(effort, rounds=max(1, effort.rounds // 2)),
    ]
    return [other for other in less if other != effort]
