"""Moments in time: how people write them, and what of a graph was there by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from yinyan.errors import InputError
from yinyan.graph.edge_lists import Times
from yinyan.graph.features import SparseFeatures
from yinyan.text import counted

if TYPE_CHECKING:
    from yinyan.graph.graph import Graph

__all__ = ["Moment", "is_dated", "moment", "moment_in_words", "required_times", "seen_by", "with_nodes"]

Moment: TypeAlias = int | float | str | date | datetime | np.datetime64

_DATED = (10**8, 10**11)  # sizes that are taken for seconds since 1970: from 1973 on, or before 1966


def moment(value: Any, what: str = "as_of") -> int | float:
    """A moment as times of edges are held: a number as it is, a date or its text in seconds since 1970 (UTC)."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        number: int | float = value.item() if isinstance(value, np.generic) else value
        if number == number and abs(number) != float("inf"):
            return number
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return moment(kind(value), what)
            except ValueError:
                continue
        try:
            value = datetime.fromisoformat(value.strip().removesuffix("Z"))
        except ValueError:
            value = None
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        return int(aware.timestamp())
    if isinstance(value, date):
        return moment(datetime(value.year, value.month, value.day), what)
    if isinstance(value, np.datetime64) and not np.isnat(value):
        return int(value.astype("datetime64[s]").astype(np.int64))
    raise InputError(f"{what!r} needs to be a number, or a date such as '2024-05-31' or '2024-05-31 12:00'")


def is_dated(time: int | float) -> bool:
    """Whether a time can only be seconds since 1970."""
    return _DATED[0] <= abs(time) <= _DATED[1]


def moment_in_words(time: int | float) -> str:
    """A time as a date where it can only be seconds since 1970, else as the number that it is."""
    if is_dated(time) and float(time).is_integer():
        words = str(np.datetime64(int(time), "s")).replace("T", " ")
        return words.removesuffix(":00").removesuffix(" 00:00")
    return f"{time:g}"


def required_times(graph: Graph, what: str) -> Times:
    """The times of the edges; refused where there are none."""
    if graph.times is None:
        raise InputError(f"{what} needs the times of the edges (name their column: time='date')")
    return graph.times


def with_nodes(graph: Graph, rows: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Graph:
    """The graph of some nodes, given by ascending rows, with the edges between them."""
    kept = np.asarray(rows, dtype=np.int64)
    place = np.full(graph.num_nodes, -1)
    place[kept] = np.arange(kept.size)
    stays: npt.NDArray[np.bool_] = np.all(place[graph.edges] >= 0, axis=1)
    inside = graph.with_edges(stays)
    features = graph.features
    if features is not None:
        features = features.take(kept) if isinstance(features, SparseFeatures) else features[kept]
    return replace(
        inside,
        ids=graph.ids.select(kept),
        edges=place[inside.edges],
        features=features,
        sides=None if graph.sides is None else graph.sides[kept],
        attributes=None if graph.attributes is None else graph.attributes.take(kept),
    )


def seen_by(graph: Graph, time: Moment) -> Graph:
    """What was there by a moment; see `Graph.as_of`."""
    times = required_times(graph, "'as_of'")
    last = moment(time)
    earlier = times <= last
    if not earlier.any():
        first = f"; the first is at {moment_in_words(times.min())}" if len(times) else ""
        raise InputError(
            f"no edge is as early as {moment_in_words(last)} (of {counted(graph.num_edges, 'edge')}{first})"
        )
    before = np.bincount(graph.edges[earlier].reshape(-1), minlength=graph.num_nodes)
    absent = (before == 0) & (graph.degrees > 0)
    seen = with_nodes(graph.with_edges(earlier), np.flatnonzero(~absent))
    note = (
        f"as of {moment_in_words(last)}: {counted(int((~earlier).sum()), 'later edge')} and "
        f"{counted(int(absent.sum()), 'node')} without an earlier one are left out"
    )
    return replace(seen, notes=(*graph.notes, note))
