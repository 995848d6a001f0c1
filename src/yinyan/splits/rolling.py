"""Windows of time, and the split of each: what came before is known, what comes within is predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.edge_lists import Times
from yinyan.graph.moments import Moment, is_dated, moment, moment_in_words, required_times, with_nodes
from yinyan.splits.dividing import divide_by_time
from yinyan.splits.given import Parts
from yinyan.splits.split import Split, drawn_negatives, given_split

__all__ = ["Period", "Window", "new_nodes", "rolling_split", "rolling_windows"]

Period: TypeAlias = Literal["day", "week", "month", "year"] | float

_DAY = 86_400
_CALENDAR = {"month": "M", "year": "Y"}
_LENGTHS = {"day": (_DAY, 0), "week": (7 * _DAY, 4 * _DAY)}  # seconds, and where the first begins: on a Monday
_MOST = 100_000  # windows that anybody means


class Window(NamedTuple):
    """A half-open window of time: its end belongs to the next."""

    start: float
    end: float

    def __str__(self) -> str:
        return moment_in_words(self.start)


def rolling_windows(
    graph: Graph,
    period: Period = "month",
    *,
    count: int | None = 5,
    start: Moment | None = None,
    until: Moment | None = None,
) -> tuple[Window, ...]:
    """Windows of one period each, oldest first: the last `count` of those from `start` on and that end by `until`.

    The first window of the graph is left out, since nothing came before.
    """
    times = required_times(graph, "a rolling evaluation")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise InputError(f"'windows' needs to be a positive integer (got {count!r})")
    if not len(times):
        raise InputError("a rolling evaluation needs edges (the graph has none)")
    low, high = float(times.min()), float(times.max())
    bounds = _bounds(times, low, high, period)
    first = low if start is None else moment(start, "start")
    last = bounds[-1] if until is None else moment(until, "until")
    windows = [Window(a, b) for a, b in zip(bounds, bounds[1:], strict=False) if a >= first and a > low and b <= last]
    if not windows:
        raise InputError(
            f"no window of one {period} begins after {moment_in_words(max(first, low))} and ends by "
            f"{moment_in_words(min(last, bounds[-1]))} (times from {moment_in_words(low)} to {moment_in_words(high)}): "
            "choose a shorter one"
        )
    return tuple(windows if count is None else windows[-count:])


def _bounds(times: Times, low: float, high: float, period: Period) -> list[float]:
    """Where windows begin and end, from before the first edge to behind the last."""
    length: float
    if isinstance(period, str):
        if period not in (*_LENGTHS, *_CALENDAR):
            raise InputError(f"'window' needs to be day, week, month, year or a positive number (got {period!r})")
        if not (is_dated(low) and is_dated(high)):
            raise InputError(
                f"a window of one {period} needs times that are dates, or seconds since 1970 (got {low:g} to "
                f"{high:g}): give its length as a number"
            )
        if period in _CALENDAR:
            unit = f"datetime64[{_CALENDAR[period]}]"
            ends = np.array([int(low), int(high)]).astype("datetime64[s]").astype(unit)
            moments = np.arange(ends[0], ends[1] + 2).astype("datetime64[s]").astype(np.int64)
            return [int(found) for found in moments.tolist()]
        length, offset = _LENGTHS[period]
    else:
        length, offset = period, 0
        if isinstance(period, bool) or not 0 < period < np.inf:
            raise InputError(f"'window' needs to be day, week, month, year or a positive number (got {period!r})")
    begin, stop = (low - offset) // length, (high - offset) // length
    if stop - begin > _MOST:
        raise InputError(f"windows of {length:g} are too short: there would be more than {_MOST:,}")
    return [number * length + offset for number in np.arange(begin, stop + 2).tolist()]


def rolling_split(
    graph: Graph, window: Window, *, seed: int, valid_share: float = 0.1, valid_negatives: int = 20_000
) -> Split | None:
    """Train until the window begins, predict what comes within (protocol 'rolling'); None if there is nothing.

    Nodes without an earlier edge are left out, so test links join nodes that were there before. The latest edges
    before the window are the validation, and pass messages at test time. Validation negatives know no later edge.
    """
    times = required_times(graph, "a rolling evaluation")
    earlier = times < window.start
    within = ~earlier & (times < window.end)
    known = with_nodes(graph.with_edges(earlier | within), np.flatnonzero(_ends(graph, earlier)))
    is_test = required_times(known, "a rolling evaluation") >= window.start
    if not is_test.any() or is_test.all():
        return None
    before = known.with_edges(~is_test)
    parts, first, _ = divide_by_time(before, valid_share, None)
    split = given_split(
        known,
        Parts(
            *(parts.train, parts.valid, known.edges[is_test]),
            valid_negatives=drawn_negatives(before, seed, 0, valid_negatives)[1],
        ),
        protocol="rolling",
        seed=seed,
        valid_as_messages=True,
    )
    words = f"split by time: validation from {moment_in_words(first)} on, test from {window} on"
    return replace(split, protocol="rolling", words=words)


def new_nodes(graph: Graph, window: Window) -> int:
    """How many nodes have their first edge within a window."""
    times = required_times(graph, "a rolling evaluation")
    earlier = times < window.start
    within = ~earlier & (times < window.end)
    return int(((_ends(graph, earlier) == 0) & (_ends(graph, within) > 0)).sum())


def _ends(graph: Graph, chosen: NDArray[np.bool_] | Sequence[bool]) -> NDArray[np.int64]:
    """(n,) how many of the chosen edges each node has."""
    return np.bincount(graph.edges[chosen].reshape(-1), minlength=graph.num_nodes)
