"""Which nodes may be recommended to which: by ids, by a condition, a mask or a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.results import Id
from yinyan.retrieval.conditions import Condition
from yinyan.retrieval.relation_names import as_list, is_id
from yinyan.retrieval.state import SearchState

__all__ = ["Candidates", "Where", "as_list", "candidates_of", "is_id"]

Rows = NDArray[np.int64]
Where = str | NDArray[np.bool_] | Sequence[bool] | Callable[[Id], bool] | Callable[[Id, Id], bool]


class Candidates:
    """Candidates of all sources alike, or by what a source is like."""

    def __init__(self, state: SearchState, among: Rows | None, where: Where | None) -> None:
        self._state, self._among = state, among
        self._condition = Condition(where, state) if isinstance(where, str) else None
        self._of_pair = where if callable(where) and _takes_two(where) else None
        self._fixed: Rows | None = among
        if where is not None and self._condition is None and self._of_pair is None:
            self._fixed = self._within(_chosen(state, where))

    def groups(self, sources: Rows) -> Rows:
        """A number for each source; sources of equal numbers have the same candidates."""
        if self._of_pair is not None:
            return sources
        return np.zeros(sources.size, np.int64) if self._condition is None else self._condition.groups(sources)

    def pool(self, source: int) -> Rows:
        """Sorted rows of the candidates of a source, and of all others of its group."""
        if self._condition is not None:
            return self._within(self._condition.mask(source))
        if self._of_pair is not None:
            rows = np.arange(self._state.num_nodes) if self._among is None else self._among
            (own,) = self._state.ids(np.array([source]))
            keep = (bool(self._of_pair(own, other)) for other in self._state.ids(rows))  # type: ignore[call-arg]
            chosen: Rows = rows[np.fromiter(keep, bool, rows.size)]
            return chosen
        return np.empty(0, np.int64) if self._fixed is None else self._fixed

    def _within(self, mask: NDArray[np.bool_]) -> Rows:
        return np.flatnonzero(mask) if self._among is None else self._among[mask[self._among]]


def candidates_of(
    state: SearchState, among: Iterable[Any] | None, where: Where | None, asked: Rows | None = None
) -> Candidates | None:
    """What narrows the candidates of the rows that are asked about; None where nothing does."""
    if among is None and where is None:
        return None
    rows = None if among is None else np.unique(state.partner_rows(among, np.empty(0, int) if asked is None else asked))
    return Candidates(state, rows, where)


def _takes_two(function: Any) -> bool:
    """Whether a function is one of source and candidate; others see the candidate alone."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions in C do not say
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in places and p.default is inspect.Parameter.empty for p in parameters) == 2


def _chosen(state: SearchState, where: Any) -> NDArray[np.bool_]:
    """(n,) which nodes a mask or a predicate of ids lets through."""
    n = state.num_nodes
    if callable(where):
        return np.fromiter((bool(where(node)) for node in state.ids(np.arange(n))), bool, n)
    mask = np.asarray(where)
    if mask.shape != (n,) or mask.dtype != bool:
        raise InputError(
            f"'where' needs to be a condition in text, a function of one id or two, or {n:,} booleans in the order of "
            f"the graph's ids (got {mask.dtype} of shape {mask.shape})"
        )
    return mask
