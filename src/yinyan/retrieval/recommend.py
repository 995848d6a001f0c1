"""Partners of nodes: who may be recommended to whom, and the best of them, for several requests together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError, YinYanError
from yinyan.results import Id, Recommendations
from yinyan.retrieval.exact import TopK
from yinyan.retrieval.state import SearchState

__all__ = [
    "Partners",
    "Where",
    "Wish",
    "as_list",
    "as_table",
    "candidate_rows",
    "checked_k",
    "is_id",
    "partners_together",
    "recommended",
]

Rows = NDArray[np.int64]
Where = NDArray[np.bool_] | Sequence[bool] | Callable[[Id], bool]


class Wish(NamedTuple):
    """What one request wants recommended."""

    nodes: Any  # an id or several
    k: int = 10
    exclude_known: bool = True
    among: Iterable[Id] | None = None
    where: Where | None = None


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
    pools: list[Rows | None] = []
    groups: dict[tuple[int, bool, bool, int], list[tuple[int, int]]] = {}  # (request, place) of what goes together
    for number, wish in enumerate(wishes):
        try:
            k, pool = checked_k(wish.k), _pool(state, wish)
            sources = state.rows(as_list(wish.nodes))
        except YinYanError as error:
            answers.append(error)
            pools.append(None)
            continue
        answers.append(Partners(sources, [_NONE] * sources.size))
        pools.append(pool)
        alone = -1 if pool is None else number  # candidates of its own
        for place, side in enumerate(_sides(state, sources)):
            groups.setdefault((k, wish.exclude_known, side, alone), []).append((number, place))
    for (k, exclude_known, side, alone), members in groups.items():
        filled = [answers[number] for number, _ in members]
        asked = np.array([a.rows[place] for a, (_, place) in zip(filled, members, strict=True)])  # type: ignore[union-attr]
        tops = _best(state, asked, k, exclude_known, _other_side(state, side, None if alone < 0 else pools[alone]))
        for answer, (_, place), top in zip(filled, members, tops, strict=True):
            answer.tops[place] = top  # type: ignore[union-attr]
    return answers


def as_table(state: SearchState, found: Partners) -> Recommendations:
    """Rows of a table in the caller's ids."""
    counts = [top.rows.size for top in found.tops]
    rows = np.concatenate([top.rows for top in found.tops]) if counts else np.empty(0, np.int64)
    return Recommendations(
        sources=tuple(state.ids(np.repeat(found.rows, counts))),
        targets=tuple(state.ids(rows)),
        scores=np.concatenate([top.scores for top in found.tops]) if counts else np.empty(0, np.float32),
        ranks=np.concatenate([np.arange(1, c + 1) for c in counts]) if counts else np.empty(0, np.int64),
    )


def checked_k(k: Any) -> int:
    """A positive integer."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"'k' needs to be a positive integer (got {k!r})")
    return int(k)


def is_id(value: Any) -> bool:
    """Whether a value is one id, not several."""
    return isinstance(value, (str, int, np.integer, np.str_))


def as_list(nodes: Any) -> list[Any]:
    """One id or several as a list."""
    if is_id(nodes):
        return [nodes]
    if not isinstance(nodes, Iterable):
        raise InputError(f"nodes are named by an id, text or an integer, or by a sequence of ids (got {nodes!r})")
    return list(nodes)


_NONE = TopK(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))


def _best(state: SearchState, sources: Rows, k: int, exclude_known: bool, pool: Rows | None) -> list[TopK]:
    if pool is not None and not pool.size:
        return [_NONE] * sources.size
    return state.top_k(sources, k, lambda row: state.left_out(row, exclude_known), pool)


def _pool(state: SearchState, wish: Wish) -> Rows | None:
    """Sorted rows that a request restricts its candidates to."""
    pool = None if wish.among is None else np.unique(state.rows(as_list(wish.among)))
    if wish.where is None:
        return pool
    chosen = _chosen(state, wish.where)
    return np.flatnonzero(chosen) if pool is None else pool[chosen[pool]]


def _chosen(state: SearchState, where: Where) -> NDArray[np.bool_]:
    """(n,) which nodes a mask or a predicate of ids lets through."""
    n = state.num_nodes
    if callable(where):
        return np.fromiter((bool(where(node)) for node in state.ids(np.arange(n))), bool, n)
    mask = np.asarray(where)
    if mask.shape != (n,) or mask.dtype != bool:
        raise InputError(
            f"'where' needs to be a function of an id, or {n:,} booleans in the order of the graph's ids "
            f"(got {mask.dtype} of shape {mask.shape})"
        )
    return mask


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
