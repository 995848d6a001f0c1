"""Full ranking: literals, brute force over all orders of ties, and what is refused."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.metrics import ranking
from yinyan.metrics.ranking import FullRanking, full_ranking

KS = (1, 2, 5)


def table(scores: np.ndarray):  # type: ignore[no-untyped-def, type-arg]
    return lambda sources: scores[sources]


def measured(order: list[int], relevant: set[int], k: int) -> dict[str, float]:
    """The metrics of one given order of candidates, by their definitions."""
    hit = [node in relevant for node in order]
    gain = sum(1 / math.log2(i + 2) for i, h in enumerate(hit[:k]) if h)
    best = sum(1 / math.log2(i + 2) for i in range(min(k, len(relevant))))
    precisions = [sum(hit[: i + 1]) / (i + 1) for i, h in enumerate(hit) if h]
    return {
        f"recall@{k}": sum(hit[:k]) / len(relevant),
        f"ndcg@{k}": gain / best,
        f"hits@{k}": float(any(hit[:k])),
        "map": sum(precisions) / len(relevant),
        "mrr": 1 / (hit.index(True) + 1),
    }


def worst(scores: list[float], source: int, relevant: set[int], known: set[int], k: int) -> dict[str, float]:
    """The least of each metric over all orders that the scores admit."""
    nodes = [node for node in range(len(scores)) if node != source and node not in known]
    orders = [o for o in permutations(nodes) if all(scores[a] >= scores[b] for a, b in zip(o, o[1:], strict=False))]
    found = [measured(list(order), relevant, k) for order in orders]
    return {name: min(row[name] for row in found) for name in found[0]}


class TestLiterals:
    """Node 0 may link to 1..5, scored 5 4 3 2 1; it is known to link to 1, and 3 and 4 are held out."""

    scores = np.array([[9.0, 5, 4, 3, 2, 1], *np.zeros((5, 6))])
    result = full_ranking(table(scores), [(0, 3), (0, 4)], num_nodes=6, known=[(0, 1)], ks=KS)

    def test_values(self) -> None:  # the order is 2, 3, 4, 5: relevant at ranks 2 and 3
        assert self.result.means == pytest.approx(
            {
                "recall@1": 0,
                "ndcg@1": 0,
                "hits@1": 0,
                "recall@2": 1 / 2,
                "ndcg@2": (1 / math.log2(3)) / (1 + 1 / math.log2(3)),
                "hits@2": 1,
                "recall@5": 1,
                "ndcg@5": (1 / math.log2(3) + 1 / 2) / (1 + 1 / math.log2(3)),
                "hits@5": 1,
                "map": (1 / 2 + 2 / 3) / 2,
                "mrr": 1 / 2,
            }
        )

    def test_counts_and_words(self) -> None:
        assert self.result.sources.tolist() == [0]
        assert self.result.num_held_out.tolist() == [2]
        assert self.result.num_candidates.tolist() == [4]
        assert repr(self.result).startswith("FullRanking(1 source: recall@1 0.0000, ")
        assert "mrr 0.5000" in repr(self.result)

    def test_without_known_links_the_first_rank_is_lost(self) -> None:
        assert full_ranking(table(self.scores), [(0, 3)], num_nodes=6).means["mrr"] == pytest.approx(1 / 3)

    def test_candidates_leave_nodes_out(self) -> None:
        mask = np.array([True, True, False, True, True, False])
        result = full_ranking(table(self.scores), [(0, 3)], num_nodes=6, known=[(0, 1)], candidates=mask)
        assert result.means["mrr"] == 1
        assert result.num_candidates.tolist() == [2]

    def test_a_perfect_order_scores_one(self) -> None:
        result = full_ranking(table(self.scores), [(0, 1), (0, 2)], num_nodes=6, ks=(2, 3))
        assert set(result.means.values()) == {1.0}

    def test_a_mean_is_over_sources_and_not_over_links(self) -> None:
        scores = np.array([[0.0, 3, 2, 1], [3.0, 0, 2, 1], *np.zeros((2, 4))])
        result = full_ranking(table(scores), [(1, 3), (0, 1), (0, 2)], num_nodes=4, ks=(2,))
        assert result.sources.tolist() == [0, 1]
        assert result.values["recall@2"].tolist() == [1, 0]
        assert result.means["recall@2"] == 0.5

    def test_more_relevant_nodes_than_k(self) -> None:
        result = full_ranking(table(self.scores), [(0, 1), (0, 2), (0, 3)], num_nodes=6, ks=(2,))
        assert result.means["recall@2"] == pytest.approx(2 / 3)
        assert result.means["ndcg@2"] == 1


@st.composite
def cases(draw: st.DrawFn):  # type: ignore[no-untyped-def]
    """Six nodes, few distinct scores with infinite ones among them, known and held-out links of two sources."""
    value = st.sampled_from([-math.inf, 0.0, 1.0, math.inf])
    scores = np.array(draw(st.lists(st.lists(value, min_size=6, max_size=6), min_size=2, max_size=2)))
    held_out, known = [], []
    for source in (0, 1):
        kinds = draw(st.lists(st.sampled_from("hkoo"), min_size=6, max_size=6))
        held_out += [(source, node) for node in range(6) if kinds[node] == "h" and node != source]
        known += [(source, node) for node in range(6) if kinds[node] == "k"]
    return scores, held_out or [(0, 5)], [pair for pair in known if held_out or pair != (0, 5)]


@given(case=cases(), block=st.sampled_from([1, 4_000_000]))
def test_the_least_over_all_orders_of_ties(case, block: int) -> None:  # type: ignore[no-untyped-def]
    scores, held_out, known = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_BLOCK", block)
        result = full_ranking(table(scores), held_out, num_nodes=6, known=known, ks=KS)
    for i, source in enumerate(result.sources):
        relevant, seen = ({b for a, b in pairs if a == source} for pairs in (held_out, known))
        assert result.num_held_out[i] == len(relevant)
        for k in KS:
            for name, value in worst(scores[source].tolist(), int(source), relevant, seen, k).items():
                assert result.values[name][i] == pytest.approx(value), (name, source)


@pytest.mark.parametrize("constant", [0.0, -math.inf, math.inf])
def test_a_scorer_that_says_the_same_of_all_nodes_finds_nothing(constant: float) -> None:
    held_out = [(0, 50), (0, 60), (1, 2), (99, 98)]
    means = full_ranking(lambda s: np.full((len(s), 100), constant), held_out, num_nodes=100).means
    assert {means[f"{name}@{k}"] for name in ("recall", "ndcg", "hits") for k in (10, 20, 50)} == {0.0}
    assert means["mrr"] < 0.0103  # last of 99
    assert means["map"] < 0.02


def test_random_scores_find_what_chance_finds() -> None:
    generator = np.random.default_rng(0)
    held_out = [(source, (source + step) % 400) for source in range(400) for step in (1, 5)]
    means = full_ranking(lambda s: generator.random((len(s), 400)), held_out, num_nodes=400, ks=(40,)).means
    assert means["recall@40"] == pytest.approx(40 / 399, abs=0.03)


def test_a_graphs_adjacency_hides_known_links_of_either_direction() -> None:
    graph = Graph.from_arrays([(0, 1), (2, 0), (3, 4)], num_nodes=6, directed=True)
    scores = np.array([[0.0, 5, 4, 3, 2, 1], *np.zeros((5, 6))])
    by_graph = full_ranking(table(scores), [(0, 3)], num_nodes=6, known=graph.adjacency)
    by_pairs = full_ranking(table(scores), [(0, 3)], num_nodes=6, known=[(4, 3), (0, 2), (3, 4), (0, 1)])
    assert by_graph.means == by_pairs.means
    assert by_graph.means["mrr"] == 1
    assert by_graph.num_candidates.tolist() == by_pairs.num_candidates.tolist() == [3]


def test_blocks_are_bounded_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(1).integers(0, 9, (30, 30)).astype(np.float32)
    held_out = [(source, (source + 7) % 30) for source in range(30)]
    asked: list[int] = []

    def score(sources):  # type: ignore[no-untyped-def]
        asked.append(len(sources))
        return scores[sources]

    whole = full_ranking(score, held_out, num_nodes=30)
    monkeypatch.setattr(ranking, "_BLOCK", 100)
    parts = full_ranking(score, held_out, num_nodes=30)
    assert asked == [30] + [3] * 10
    for name in whole.values:
        assert whole.values[name].tolist() == parts.values[name].tolist()


def test_a_held_out_link_named_twice_counts_once() -> None:
    scores = table(np.arange(16.0).reshape(4, 4))
    once, twice = (full_ranking(scores, pairs, num_nodes=4) for pairs in ([(0, 1)], [(0, 1), (0, 1)]))
    assert once.means == twice.means
    assert twice.num_held_out.tolist() == [1]


class TestRefused:
    def ranked(self, held_out: object, **options: object) -> FullRanking:
        def score(sources: object) -> object:
            raise AssertionError("scored before the pairs were looked at")

        return full_ranking(score, held_out, num_nodes=4, **options)  # type: ignore[arg-type]

    def test_a_link_both_held_out_and_known(self) -> None:
        with pytest.raises(InputError, match=r"held-out pair \(0, 2\) is known as well"):
            self.ranked([(0, 1), (0, 2)], known=[(0, 2)])

    def test_pairs(self) -> None:
        with pytest.raises(InputError, match=r"'held_out' needs at least one pair \(got none\)"):
            self.ranked([])
        with pytest.raises(InputError, match=r"'held_out' needs to be pairs of rows, \(t, 2\) \(got shape \(1, 3\)\)"):
            self.ranked([(0, 1, 2)])
        with pytest.raises(InputError, match=r"'known' needs rows between 0 and 3 \(got 0 to 4\)"):
            self.ranked([(0, 1)], known=[(0, 4)])
        with pytest.raises(InputError, match=r"'held_out' needs pairs of two nodes \(got 1 pair such as \[1 1\]\)"):
            self.ranked([(0, 1), (1, 1)])

    def test_candidates(self) -> None:
        with pytest.raises(InputError, match=r"'held_out' needs targets among 'candidates' \(node 1 is none\)"):
            self.ranked([(0, 1)], candidates=np.array([True, False, True, True]))
        with pytest.raises(InputError, match=r"'candidates' needs to be a mask of 4 nodes \(got int64, \(2,\)\)"):
            self.ranked([(0, 1)], candidates=[0, 1])

    @pytest.mark.parametrize("ks", [(), (5, 0), (-1,)])
    def test_ks(self, ks: tuple[int, ...]) -> None:
        with pytest.raises(InputError, match="'ks' needs to be positive integers"):
            self.ranked([(0, 1)], ks=ks)

    def test_scores(self) -> None:
        with pytest.raises(InputError, match=r"needs to return shape \(1, 4\) \(got \(1, 3\)\)"):
            full_ranking(lambda s: np.zeros((len(s), 3)), [(0, 1)], num_nodes=4)
        with pytest.raises(InputError, match="NaN has no rank"):
            full_ranking(lambda s: np.full((len(s), 4), np.nan), [(0, 1)], num_nodes=4)

    def test_the_adjacency_of_another_graph(self) -> None:
        other = Graph.from_arrays([(0, 1)], num_nodes=3)
        with pytest.raises(InputError, match=r"'known' needs 4 rows \(got 3\)"):
            self.ranked([(0, 2)], known=other.adjacency)
