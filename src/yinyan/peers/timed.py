"""Heuristics with time: links that decay, windows and last partners, with parameters chosen on validation edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.graph import Graph
from yinyan.peers.contract import Outcome, Task
from yinyan.peers.full_ranking import ranked
from yinyan.peers.neighbours import distinct_pairs, source_blocks
from yinyan.peers.timed_rows import TimedRows

__all__ = ["Choice", "adamic_adar_decayed", "last_neighbour", "popularity_window", "preferential_decayed", "recency"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]

_ENTRIES = 4_000_000  # of a dense block of sources at a time
_SOURCES = 500  # with validation edges, that a choice looks at
_SHARES = (2**-9, 2**-7, 2**-5, 2**-3, 2**-1, float("inf"))  # of the time since the first link
_SCALES = (0.0, 0.01, 0.1, 1.0, 10.0)  # of paths of three links beside those of two


class Choice(NamedTuple):
    """Parameters of a heuristic; those that it does not have are 0."""

    span: float = 0.0  # half-life or window, in the unit of the edges' times
    scale: float = 0.0  # of longer paths


BlockOf = Callable[[TimedRows, Rows, Choice], Scores]  # the rows, (b,) sources -> (b, n) scores


def recency(task: Task) -> Outcome:
    """Minus the time since the last links of both nodes, added up."""
    return _outcome(task, lambda rows, sources, _: -(rows.silence[sources, None] + rows.silence), [Choice()])


def popularity_window(task: Task) -> Outcome:
    """How many links both nodes had in the last window, by the product; of all their links where that is a tie."""

    def block(rows: TimedRows, sources: Rows, chosen: Choice) -> Scores:
        return _products(rows.recent(chosen.span) + 1e-3 * np.log1p(rows.around.degrees), sources)

    return _outcome(task, block, _spans)


def preferential_decayed(task: Task) -> Outcome:
    """Preferential attachment by decayed links: the product of the sums of their weights."""
    return _outcome(task, lambda rows, sources, chosen: _products(rows.strengths(chosen.span), sources), _spans)


def adamic_adar_decayed(task: Task) -> Outcome:
    """Adamic-Adar by decayed links, and paths of three such links at a scale chosen on validation.

    As AA-DC (2026), without its gate on how far common neighbours point outside.
    """

    def block(rows: TimedRows, sources: Rows, chosen: Choice) -> Scores:
        near = rows.two_hops(sources, chosen.span)
        return near + chosen.scale * rows.three_hops(sources, chosen.span) if chosen.scale else near

    return _outcome(task, block, lambda rows: [Choice(c.span, scale) for c in _spans(rows) for scale in _SCALES])


def last_neighbour(task: Task) -> Outcome:
    """The partners of the last partners: how long two nodes have had a common partner, the shorter the better.

    Without one, nodes stand behind by the time since their last links.
    """

    def block(rows: TimedRows, sources: Rows, _: Choice) -> Scores:
        since = rows.last_meeting(sources)
        without = 4 * rows.span + rows.silence[sources, None] + rows.silence
        return -np.where(np.isfinite(since), since, without)

    return _outcome(task, block, [Choice()])


def _products(values: Scores, sources: Rows) -> Scores:
    return values[sources, None] * values


def _spans(rows: TimedRows) -> list[Choice]:
    """Half-lives and windows to choose from."""
    return [Choice(share * rows.span) for share in _SHARES]


def _outcome(task: Task, block: BlockOf, choices: Sequence[Choice] | Callable[[TimedRows], list[Choice]]) -> Outcome:
    """Scores over the messages of test time, with the parameters that rank validation edges best (MRR)."""
    split = task.split
    before = TimedRows(split.graph.with_edges(split.valid_messages))
    options = choices(before) if callable(choices) else list(choices)
    best, chosen = None, options[len(options) // 2]
    if len(split.valid_targets):
        found = [_reciprocal_rank(task, _of(split.graph, before, block, option)) for option in options]
        best, chosen = max(found), options[int(np.argmax(found))]
    now = TimedRows(split.graph.with_edges(split.test_messages))
    return _of(split.graph, now, block, chosen)._replace(validation=best)


def _reciprocal_rank(task: Task, outcome: Outcome) -> float:
    return ranked(outcome, task.split, "valid", ks=(10,), sources=_SOURCES, whole=True).means["mrr"]


def _of(graph: Graph, rows: TimedRows, block: BlockOf, chosen: Choice) -> Outcome:
    few = max(1, _ENTRIES // max(1, rows.num_nodes))

    def score(pairs: Rows) -> Scores:
        distinct = distinct_pairs(graph, pairs)
        scores = np.zeros(distinct.first.size)
        for part, sources, place in source_blocks(distinct, few):
            scores[part] = block(rows, sources, chosen)[place, distinct.second[part]]
        return np.asarray(scores[distinct.inverse])

    def of_block(sources: Rows, targets: Rows) -> Scores:
        parts = [block(rows, sources[at : at + few], chosen)[:, targets] for at in range(0, sources.size, few)]
        return np.concatenate(parts) if parts else np.empty((0, targets.size))

    return Outcome(score, block=of_block)
