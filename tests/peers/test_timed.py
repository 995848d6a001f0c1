"""Heuristics with time, against slow definitions on small graphs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from peer_contract import every_pair

from yinyan import Graph, InputError, random_split, temporal_split
from yinyan.peers import METHODS, Outcome, Task, method, timed
from yinyan.peers.timed import Choice
from yinyan.peers.timed_rows import TimedRows
from yinyan.splits import Split

NAMES = [name for name, card in METHODS.items() if card.family == "temporal"]


def dated(kind: str = "undirected", nodes: int = 30, edges: int = 200, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, nodes, (edges, 2))
    if kind == "bipartite":
        pairs = np.stack([pairs[:, 0] // 2, nodes // 2 + pairs[:, 1] // 2], axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    sides = np.repeat([0, 1], nodes // 2) if kind == "bipartite" else None
    times = rng.integers(0, 1000, len(pairs))
    return Graph.from_arrays(pairs, num_nodes=nodes + (0 if sides is not None else 1), times=times, sides=sides,
                             directed=kind == "directed")  # fmt: skip


def times_of(graph: Graph) -> dict[tuple[int, int], float]:
    """The latest time of each unordered pair, both ways round."""
    found: dict[tuple[int, int], float] = {}
    assert graph.times is not None
    for (a, b), time in zip(graph.edges.tolist(), graph.times.tolist(), strict=True):
        for pair in ((a, b), (b, a)):
            found[pair] = max(found.get(pair, -math.inf), time)
    return found


class Slow:
    """The definitions, pair by pair."""

    def __init__(self, graph: Graph, choice: Choice) -> None:
        self.times, self.choice, self.nodes = times_of(graph), choice, range(graph.num_nodes)
        self.now = max(self.times.values())
        self.span = self.now - min(self.times.values())
        self.degree = {n: sum((n, m) in self.times for m in self.nodes) for n in self.nodes}

    def age(self, a: int, b: int) -> float:
        return self.now - self.times[a, b]

    def weight(self, a: int, b: int) -> float:
        return 0.5 ** (self.age(a, b) / self.choice.span) if (a, b) in self.times else 0.0

    def silence(self, a: int) -> float:
        return min((self.age(a, b) for b in self.nodes if (a, b) in self.times), default=2 * self.span)

    def common(self, a: int, b: int) -> list[int]:
        return [z for z in self.nodes if (a, z) in self.times and (z, b) in self.times]

    def recency(self, a: int, b: int) -> float:
        return -(self.silence(a) + self.silence(b))

    def popularity_window(self, a: int, b: int) -> float:
        def links(n: int) -> float:
            recent = sum((n, m) in self.times and self.age(n, m) <= self.choice.span for m in self.nodes)
            return recent + 1e-3 * math.log(1 + self.degree[n])

        return links(a) * links(b)

    def preferential_decayed(self, a: int, b: int) -> float:
        return math.prod(sum(self.weight(n, m) for m in self.nodes) for n in (a, b))

    def adamic_adar_decayed(self, a: int, b: int) -> float:
        near = sum(
            self.weight(a, z) * self.weight(z, b) / math.log(self.degree[z])
            for z in self.common(a, b)
            if self.degree[z] > 1
        )
        far = sum(
            self.weight(a, z) * self.weight(z, u) * self.weight(u, b) / math.sqrt(self.degree[z] * self.degree[u])
            for z, u in itertools.product(self.nodes, self.nodes)
            if self.weight(a, z) and self.weight(u, b)
        )
        return near + self.choice.scale * far

    def last_neighbour(self, a: int, b: int) -> float:
        since = [max(self.age(a, z), self.age(z, b)) for z in self.common(a, b)]
        return -min(since) if since else -(4 * self.span + self.silence(a) + self.silence(b))


@pytest.mark.parametrize("kind", ["undirected", "directed", "bipartite"])
@pytest.mark.parametrize("choice", [Choice(100.0, 0.0), Choice(400.0, 0.3), Choice(math.inf, 1.0)])
@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_the_definition(
    name: str, choice: Choice, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = dated(kind)
    split = replace(random_split(graph, seed=0), valid_targets=np.empty((0, 2), dtype=np.int64))
    monkeypatch.setattr(timed, "_spans", lambda rows: [choice])
    monkeypatch.setattr(timed, "_SCALES", (choice.scale,))
    outcome = method(name)(Task(split))
    slow = Slow(graph.with_edges(split.test_messages), choice)
    definition = getattr(slow, METHODS[name].home.partition(":")[2])
    pairs = np.array([pair for pair in itertools.product(range(0, 30, 3), range(30)) if pair[0] != pair[1]])
    wanted = [definition(a, b) for a, b in pairs.tolist()]
    np.testing.assert_allclose(outcome.score(pairs), wanted, rtol=1e-9, atol=1e-12)
    assert len(set(np.round(wanted, 9))) > 10, "a definition that says something"
    assert outcome.block is not None
    sources, targets = np.array([0, 3, 29]), np.array([1, 2, 7, 28])
    wanted = [[definition(a, b) for b in targets.tolist()] for a in sources.tolist()]
    np.testing.assert_allclose(outcome.block(sources, targets), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
class TestContract:
    @staticmethod
    def run(split: Split, name: str) -> Outcome:
        return method(name)(Task(split))

    def test_scores(self, name: str) -> None:
        split = temporal_split(dated(), seed=0)
        outcome, pairs = self.run(split, name), every_pair(split)
        scores = outcome.score(pairs)
        assert scores.shape == (len(pairs),) and np.isfinite(scores).all()
        assert np.array_equal(outcome.score(pairs[:, ::-1]), scores), "to the last bit"
        assert outcome.score(pairs[:0]).shape == (0,)
        assert outcome.validation is not None and 0 < outcome.validation <= 1

    def test_held_out_links_are_never_seen(self, name: str) -> None:
        """With other test edges, and with other times of these, scores are the same."""
        split = temporal_split(dated(), seed=0)
        times = split.graph.times
        assert times is not None
        later = times.copy()
        later[split.graph.find_edges(split.test_targets)] += 10_000
        moved = replace(split, graph=replace(split.graph, times=later))
        pairs = every_pair(split)
        assert np.array_equal(self.run(split, name).score(pairs), self.run(moved, name).score(pairs))

    def test_a_later_now_or_another_unit_changes_no_order(self, name: str) -> None:
        split = temporal_split(dated(), seed=0)
        times = split.graph.times
        assert times is not None
        moved = replace(split, graph=replace(split.graph, times=times * 60 + 10**9))
        pairs = every_pair(split)
        a, b = (self.run(s, name).score(pairs).round(9) for s in (split, moved))
        order = np.argsort(a, kind="stable")
        assert (np.diff(b[order]) >= -1e-6 * np.abs(b).max()).all()

    def test_times_are_needed(self, name: str) -> None:
        graph = replace(dated(), times=None)
        with pytest.raises(InputError, match="this method needs the times of the edges"):
            self.run(random_split(graph, seed=0), name)

    def test_graphs_of_few_messages(self, name: str) -> None:
        split = temporal_split(dated(), seed=0)
        nothing: dict[str, Any] = {f"{p}_messages": np.empty(0, dtype=np.int64) for p in ("valid", "test")}
        assert np.isfinite(self.run(replace(split, **nothing), name).score(every_pair(split))).all()


def test_the_half_life_is_chosen_on_validation_edges() -> None:
    """Two halves of time with other communities: what is old misleads."""
    rng = np.random.default_rng(0)
    pairs: list[NDArray[np.int64]] = []
    for order in (np.arange(60), rng.permutation(60)):
        side = np.empty(60, dtype=int)
        side[order[:30]], side[order[30:]] = 0, 1
        drawn = rng.integers(0, 60, (3000, 2))
        pairs.append(drawn[(side[drawn[:, 0]] == side[drawn[:, 1]]) & (drawn[:, 0] != drawn[:, 1])][:400])
    graph = Graph.from_arrays(np.concatenate(pairs), times=np.arange(800), num_nodes=60)
    split = temporal_split(graph, seed=0)

    def mean_rank(name: str) -> float:
        outcome = method(name)(Task(split))
        positive, negative = outcome.score(split.test_targets), outcome.score(split.test_negatives)
        return float((positive[:, None] > negative).mean())

    assert mean_rank("aa-decayed") > mean_rank("aa") + 0.05


def test_ages_of_two_directions() -> None:
    rows = TimedRows(Graph.from_arrays([(0, 1), (1, 0), (1, 2)], times=[5, 9, 2], directed=True))
    assert rows.ages.tolist() == [0, 0, 7, 7] and rows.span == 7
    assert rows.silence.tolist() == [0, 0, 7]
