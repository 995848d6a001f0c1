"""Which edges are for training, validation and test: at random, or by time."""

from __future__ import annotations

import numpy as np

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.moments import required_times
from yinyan.randomness import named_seed
from yinyan.splits.given import Parts
from yinyan.text import counted

__all__ = ["MINIMUM_EDGES", "divide", "divide_by_time", "divides_by_time", "refuse_few"]

MINIMUM_EDGES = 10  # below, a tenth held out for validation is less than an edge


def refuse_few(count: int) -> None:
    """Refuse to divide fewer edges than can be held out."""
    if count < MINIMUM_EDGES:
        raise InputError(
            f"the graph has {counted(count, 'edge')} between different nodes; at least {MINIMUM_EDGES} are needed "
            "to hold some out (add edges, or merge graphs)"
        )


def divide(graph: Graph, seed: int, valid_share: float, test_share: float) -> Parts:
    """Training, validation and test edges at random; an edge and its reverse go together."""
    pair, count = np.arange(graph.num_edges), graph.num_edges
    if graph.directed:
        low, high = graph.edges.min(axis=1), graph.edges.max(axis=1)
        _, pair = np.unique(low * graph.num_nodes + high, return_inverse=True)
        count = int(pair.max()) + 1 if pair.size else 0
    refuse_few(count)
    num_test = round(test_share * count)
    num_valid = max(1, round(valid_share * count))
    _check_shares(valid_share if num_test + num_valid < count else 1.0, test_share)
    place = np.random.default_rng(named_seed(seed, "split")).permutation(count)[pair]
    test = np.flatnonzero(place < num_test)
    valid = np.flatnonzero((place >= num_test) & (place < num_test + num_valid))
    train = np.flatnonzero(place >= num_test + num_valid)
    return Parts(graph.edges[train], graph.edges[valid], graph.edges[test])


def divides_by_time(graph: Graph, valid_share: float = 0.1, test_share: float | None = 0.2) -> bool:
    """Whether edges have times, and these divide them: too few moments would leave a part empty."""
    if graph.times is None:
        return False
    try:
        divide_by_time(graph, valid_share, test_share)
    except InputError:
        return False
    return True


def divide_by_time(graph: Graph, valid_share: float, test_share: float | None) -> tuple[Parts, float, float]:
    """The latest edges for the test, if there is one, the latest of the others for validation, and when each begins."""
    times = required_times(graph, "a temporal split")
    if (times != times).any():
        raise InputError("a temporal split needs a time for every edge (drop those without, or set one)")
    _check_shares(valid_share, test_share or 0.0)
    refuse_few(graph.num_edges)
    order = np.sort(times)[::-1]
    num_test = 0 if test_share is None else max(1, round(test_share * graph.num_edges))
    first_test = order[num_test - 1] if num_test else np.inf
    first_valid = order[min(len(order), num_test + max(1, round(valid_share * len(order)))) - 1]
    test = np.flatnonzero(times >= first_test)
    valid = np.flatnonzero((times >= first_valid) & (times < first_test))
    train = np.flatnonzero(times < first_valid)
    if not (train.size and valid.size and (test.size or not num_test)):
        raise InputError(
            f"the times leave a part empty ({train.size:,} training, {valid.size:,} validation, {test.size:,} test "
            "edges): too many edges have the same time (use other shares, or a random split)"
        )
    return Parts(graph.edges[train], graph.edges[valid], graph.edges[test]), first_valid, first_test


def _check_shares(valid_share: float, test_share: float) -> None:
    if min(valid_share, test_share) < 0 or valid_share + test_share >= 1:
        raise InputError(
            "'valid_share' and 'test_share' need to be positive and to leave edges for training "
            f"(got {valid_share} and {test_share})"
        )
