"""Rules of an answer: whom a source may be given, whom it may not, and who is given at most once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.graph.pair_tables import is_frame, pairs_from_frame
from yinyan.results import Id
from yinyan.retrieval.relation_names import is_id
from yinyan.retrieval.state import SearchState

__all__ = ["Once", "RowRules", "Rules"]

Rows = NDArray[np.int64]
Once: TypeAlias = Literal["target", "node"]
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Rules:
    """Rules for the answer of `LinkPredictor.recommend`.

    `allow` and `deny` are per source: a mapping of ids to lists of ids, a sequence of (source, target) pairs, or a data
    frame with columns source and target. Sources that `allow` does not name may be given anyone.

    Raises
    ------
    InputError
        If `once` is no such word, or a pair has not two ids.

    Examples
    --------
    >>> from yinyan import Rules
    >>> found = model.recommend([0, 1, 2], k=2, rules=Rules(deny={0: [3, 4]}, once="target"))
    >>> len(set(found.targets)) == len(found.targets)
    True
    """

    allow: Any = None  # per source, the only candidates
    deny: Any = None  # per source, who is no candidate
    once: Once | None = None  # 'target': nobody is recommended twice; 'node': nobody is in two links

    def __post_init__(self) -> None:
        if self.once not in (None, "target", "node"):
            raise InputError(f"'once' needs to be 'target', 'node' or None (got {self.once!r})")
        for name in ("allow", "deny"):
            object.__setattr__(self, name, _lists(name, getattr(self, name)))


class RowRules:
    """The same in rows of a graph."""

    def __init__(self, rules: Rules, state: SearchState) -> None:
        self.once = rules.once
        self._allowed = None if rules.allow is None else _by_source(state, rules.allow)
        self._denied = {} if rules.deny is None else _by_source(state, rules.deny)

    def allowed(self, source: int) -> Rows | None:
        """Sorted rows of the only candidates of a source; None for anyone."""
        return None if self._allowed is None else self._allowed.get(source)

    def denied(self, source: int) -> Rows:
        """Rows that are no candidates of a source."""
        return self._denied.get(source, _NONE)


def _lists(name: str, given: Any) -> dict[Id, tuple[Id, ...]] | None:
    """Targets by source, whichever way they were written. A source with an empty list has no targets at all."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        wrong = next(
            (targets for targets in given.values() if is_id(targets) or not isinstance(targets, Iterable)), None
        )
        if wrong is not None:
            raise InputError(f"{name!r} needs a list of ids for each source (got {wrong!r})")
        return {source: tuple(targets) for source, targets in given.items()}
    if is_frame(given):
        given = pairs_from_frame(given)
    if is_id(given) or not isinstance(given, Iterable):
        raise InputError(f"{name!r} needs to be a mapping of ids to lists of ids, or (source, target) pairs")
    found: dict[Id, list[Id]] = {}
    for place, pair in enumerate(given):
        ends = (pair,) if is_id(pair) else tuple(pair)
        if len(ends) != 2:
            raise InputError(f"pair {place} of {name!r} needs two ids, source and target (got {pair!r})")
        found.setdefault(ends[0], []).append(ends[1])
    return {source: tuple(targets) for source, targets in found.items()}


def _by_source(state: SearchState, lists: Mapping[Id, Sequence[Id]]) -> dict[int, Rows]:
    """Sorted rows of the targets by the row of the source."""
    sources = state.rows(list(lists)).tolist()
    found: dict[int, Rows] = {}
    for source, targets in zip(sources, lists.values(), strict=True):
        rows = np.unique(state.partner_rows(list(targets), np.array([source]))) if targets else _NONE
        found[source] = np.union1d(found[source], rows) if source in found else rows
    return found
