"""Partners of nodes: who may be recommended to whom, and the best of them, for several requests together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError, YinYanError
from yinyan.results import Recommendations
from yinyan.retrieval.assignment import assigned
from yinyan.retrieval.candidates import Candidates, Where, as_list, candidates_of, is_id
from yinyan.retrieval.exact import TopK
from yinyan.retrieval.rules import Once, RowRules, Rules
from yinyan.retrieval.state import SearchState

__all__ = [
    "Partners",
    "Rules",
    "Where",
    "Wish",
    "as_list",
    "as_table",
    "candidate_rows",
    "checked_k",
    "is_id",
    "links_of",
    "partners_together",
    "recommended",
]

Rows = NDArray[np.int64]


class Wish(NamedTuple):
    """What one request wants recommended."""

    nodes: Any  # an id or several
    k: int = 10
    exclude_known: bool = True
    among: Iterable[Any] | None = None
    where: Where | None = None
    rules: Rules | None = None


class Partners(NamedTuple):
    """The rows that were asked about, and the best partners of each."""

    rows: Rows
    tops: list[TopK]


def recommended(state: SearchState, wish: Wish) -> Recommendations:
    """The best partners of each node, in the caller's ids."""
    (found,) = partners_together(state, [wish])
    if isinstance(found, YinYanError):
        raise found
    return as_table(state, found)


def partners_together(state: SearchState, wishes: Sequence[Wish]) -> list[Partners | YinYanError]:
    """Answers to several requests, in the time of few: those of a kind are searched for together."""
    answers: list[Partners | YinYanError] = []
    narrowed: list[_Narrowing] = []
    groups: dict[tuple[int, bool, bool, int, int], list[tuple[int, int]]] = {}  # (request, place) of what goes together
    for number, wish in enumerate(wishes):
        try:
            k, sources = checked_k(wish.k), state.rows(state.listed(wish.nodes))
            narrowing = _Narrowing.of(state, wish, sources)
        except YinYanError as error:
            answers.append(error)
            narrowed.append(_Narrowing(None, None))
            continue
        narrowed.append(narrowing)
        if narrowing.rules is not None and narrowing.rules.once is not None:
            tops = _assigned(state, sources, k, wish.exclude_known, narrowing, narrowing.rules.once)
            answers.append(Partners(sources, tops))
            continue
        answers.append(Partners(sources, [_NONE] * sources.size))
        alone = number if narrowing.is_any else -1  # candidates of its own
        alike = narrowing.groups(sources).tolist()
        for place, side in enumerate(_sides(state, sources)):
            groups.setdefault((k, wish.exclude_known, side, alone, alike[place]), []).append((number, place))
    for (k, exclude_known, side, _, _), members in groups.items():
        filled = [answers[number] for number, _ in members]
        asked = np.array([a.rows[place] for a, (_, place) in zip(filled, members, strict=True)])  # type: ignore[union-attr]
        tops = _best(state, asked, k, exclude_known, side, narrowed[members[0][0]])
        for answer, (_, place), top in zip(filled, members, tops, strict=True):
            answer.tops[place] = top  # type: ignore[union-attr]
    return answers


def as_table(state: SearchState, found: Partners) -> Recommendations:
    """Rows of a table in the caller's ids."""
    counts = [top.rows.size for top in found.tops]
    rows = np.concatenate([top.rows for top in found.tops]) if counts else np.empty(0, np.int64)
    scores = np.concatenate([top.scores for top in found.tops]) if counts else np.empty(0, np.float32)
    ranks = np.concatenate([np.arange(1, c + 1) for c in counts]) if counts else np.empty(0, np.int64)
    return links_of(state, np.stack([np.repeat(found.rows, counts), rows], axis=1), scores, ranks)


def links_of(state: SearchState, pairs: Rows, scores: NDArray[np.float32], ranks: Rows) -> Recommendations:
    """Pairs of rows in the caller's ids, with labels where there are any."""
    labels = [None if found is None else tuple(found) for found in (state.labels(pairs[:, end]) for end in (0, 1))]
    several = state.names is not None and state.names.has_types
    types = [state.types(pairs[:, end]) if several else None for end in (0, 1)]
    return Recommendations(
        sources=tuple(state.ids(pairs[:, 0])),
        targets=tuple(state.ids(pairs[:, 1])),
        scores=scores,
        ranks=ranks,
        source_labels=labels[0],
        target_labels=labels[1],
        source_types=None if types[0] is None else tuple(types[0]),
        target_types=None if types[1] is None else tuple(types[1]),
    )


def checked_k(k: Any) -> int:
    """A positive integer."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"'k' needs to be a positive integer (got {k!r})")
    return int(k)


_NONE = TopK(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))


class _Narrowing(NamedTuple):
    """What narrows the candidates of a request."""

    candidates: Candidates | None
    rules: RowRules | None

    @classmethod
    def of(cls, state: SearchState, wish: Wish, sources: Rows) -> _Narrowing:
        rules = None if wish.rules is None else RowRules(wish.rules, state)
        return cls(candidates_of(state, wish.among, wish.where, sources), rules)

    @property
    def is_any(self) -> bool:
        """Whether anything does."""
        return self.candidates is not None or self.rules is not None

    def groups(self, sources: Rows) -> Rows:
        """A number for each source; sources of equal numbers have the same candidates, but for those denied."""
        alike = np.zeros(sources.size, np.int64) if self.candidates is None else self.candidates.groups(sources)
        if self.rules is None:
            return alike
        own = [-1 if self.rules.allowed(source) is None else source for source in sources.tolist()]
        both = np.stack([alike, np.array(own, dtype=np.int64)], axis=1)
        return np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)

    def pool(self, source: int) -> Rows | None:
        """Sorted rows of the candidates of a source and of all others of its group; None for all."""
        pool = None if self.candidates is None else self.candidates.pool(source)
        allowed = None if self.rules is None else self.rules.allowed(source)
        if pool is None or allowed is None:
            return allowed if pool is None else pool
        return np.intersect1d(pool, allowed, assume_unique=True)


def _best(
    state: SearchState,
    sources: Rows,
    k: int,
    exclude_known: bool,
    side: bool,
    narrowing: _Narrowing,
    used: Rows | None = None,
) -> list[TopK]:
    """The best partners of sources of one side and one group, without those that are `used`."""
    pool = _other_side(state, side, narrowing.pool(int(sources[0])))
    if pool is not None and not pool.size:
        return [_NONE] * sources.size
    rules = narrowing.rules

    def left_out(row: int) -> Rows:
        excluded = state.left_out(row, exclude_known)
        more = [] if rules is None else [rules.denied(row)]
        more += [] if used is None else [used]
        return np.concatenate([excluded, *more]) if more else excluded

    return state.top_k(sources, k, left_out, pool)


def _assigned(
    state: SearchState, sources: Rows, k: int, exclude_known: bool, narrowing: _Narrowing, once: Once
) -> list[TopK]:
    """Partners that are given once: the best pair of all first, then the best of those that are left."""
    alike, sides = narrowing.groups(sources), _sides(state, sources)

    def search(places: Rows, depth: int, used: Rows) -> list[TopK]:
        found: list[TopK] = [_NONE] * places.size
        keys = [(int(alike[place]), sides[place]) for place in places.tolist()]
        for key in dict.fromkeys(keys):
            members = [number for number, other in enumerate(keys) if other == key]
            tops = _best(state, sources[places[members]], depth, exclude_known, key[1], narrowing, used)
            for number, top in zip(members, tops, strict=True):
                found[number] = top
        return found

    return assigned(search, sources, k, once)


def _sides(state: SearchState, rows: Rows) -> list[bool]:
    """Whether each row is of side 1; without sides, none is."""
    left = state.num_left
    return [False] * rows.size if left is None else (rows >= left).tolist()


def candidate_rows(num_nodes: int, left: int | None, side: bool) -> Rows | None:
    """Candidates of a side's rows: those of the other; None for all rows, if there are no sides."""
    if left is None:
        return None
    return np.arange(left) if side else np.arange(left, num_nodes)


def _other_side(state: SearchState, side: bool, pool: Rows | None) -> Rows | None:
    """Candidates of a side's rows that are in a pool too."""
    left = state.num_left
    if left is None or pool is None:
        return pool if pool is not None else candidate_rows(state.num_nodes, left, side)
    there: Rows = pool[(pool >= left) != side]
    return there
