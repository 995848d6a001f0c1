"""Splits: who sees what. No link, nor its reverse, is ever among the messages that score it."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from yinyan.errors import InputError, TrainingError
from yinyan.graph import Graph
from yinyan.splits import Split, holdout_split, known_pairs, random_split

Pairs = set[frozenset[int]]


def unordered(pairs: np.ndarray) -> Pairs:
    return {frozenset(pair) for pair in pairs.tolist()}


def ordered(pairs: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(pair) for pair in pairs.tolist()}


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Undirected, directed (with reciprocal links) and bipartite graphs, sparse and dense."""
    kind = draw(st.sampled_from(["undirected", "directed", "bipartite"]))
    num_nodes = draw(st.integers(7, 14))
    share = draw(st.sampled_from([0.3, 0.6, 0.9]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    pairs = np.array(list(permutations(range(num_nodes), 2)))
    if kind != "directed":
        pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    sides = None
    if kind == "bipartite":
        sides = np.array([0] * (num_nodes // 2) + [1] * (num_nodes - num_nodes // 2))
        pairs = pairs[sides[pairs[:, 0]] != sides[pairs[:, 1]]]
    kept = pairs[rng.random(len(pairs)) < share]
    assume(len(unordered(kept)) >= 10)
    assume(len(kept) < len(pairs))
    return Graph.from_arrays(kept, num_nodes=num_nodes, directed=kind == "directed", sides=sides)


def made(graph: Graph, **options: object) -> Split:
    return random_split(graph, **{"seed": 3, "valid_negatives": 15, **options})  # type: ignore[arg-type]


def big(seed: int = 0, num_nodes: int = 200, num_links: int = 1000, *, directed: bool = False) -> Graph:
    pairs = np.random.default_rng(seed).integers(num_nodes, size=(num_links, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return Graph.from_arrays(pairs, num_nodes=num_nodes, directed=directed)


class TestLeaks:
    @given(graphs())
    def test_parts_are_disjoint_pairs_and_complete(self, graph: Graph) -> None:
        split = made(graph)
        parts = [split.train_targets, split.valid_targets, split.test_targets]
        assert sorted(np.concatenate(parts).tolist()) == list(range(graph.num_edges))
        train, valid, test = (unordered(graph.edges[part]) for part in parts)
        assert not train & valid
        assert not train & test
        assert not valid & test
        assert train
        assert valid
        assert test

    @given(graphs())
    @pytest.mark.parametrize("with_validation", [False, True])
    def test_no_target_is_among_the_messages_that_score_it(self, with_validation: bool, graph: Graph) -> None:
        split = made(graph, validation_messages=with_validation)
        training, testing = (unordered(graph.edges[part]) for part in (split.train_messages, split.test_messages))
        valid, test = (unordered(graph.edges[part]) for part in (split.valid_targets, split.test_targets))
        assert not training & valid
        assert not training & test
        assert not testing & test
        assert testing == (training | valid if with_validation else training)

    @given(graphs())
    def test_negatives_are_distinct_true_non_links(self, graph: Graph) -> None:
        split = made(graph)
        links = ordered(graph.edges)
        named = ordered if graph.directed else unordered
        valid, test = named(split.valid_negatives), named(split.test_negatives)
        assert len(valid) == len(split.valid_negatives)
        assert len(test) == len(split.test_negatives)
        assert not valid & test
        assert valid
        for low, high in ordered(split.valid_negatives) | ordered(split.test_negatives):
            assert low != high
            assert (low, high) not in links
            assert graph.directed or (high, low) not in links
            if graph.sides is not None:
                assert graph.sides[low] != graph.sides[high]

    @given(graphs())
    def test_training_negatives_may_not_know_held_out_links(self, graph: Graph) -> None:
        split = made(graph)
        known = known_pairs(graph, graph.edges[split.train_targets])
        assert known.contains(torch.as_tensor(graph.edges[split.train_targets])).all()
        for held_out in (split.valid_targets, split.test_targets):
            assert not known.contains(torch.as_tensor(graph.edges[held_out])).any()
        assert (known.directed, known.num_left) == (graph.directed, graph.num_left)

    @given(graphs())
    def test_holdout_keeps_validation_out_of_training_only(self, graph: Graph) -> None:
        split = holdout_split(graph, seed=3, valid_share=0.2, valid_negatives=15)
        training, valid = (unordered(graph.edges[part]) for part in (split.train_messages, split.valid_targets))
        assert valid
        assert not training & valid
        assert training == unordered(graph.edges[split.train_targets])
        assert split.test_targets.size == len(split.test_negatives) == 0
        assert split.test_messages.tolist() == list(range(graph.num_edges))  # the model in use sees every link

    def test_reciprocal_links_stay_together(self) -> None:
        one_way = np.random.default_rng(0).integers(40, size=(150, 2))
        one_way = one_way[one_way[:, 0] != one_way[:, 1]]
        graph = Graph.from_arrays(np.concatenate([one_way, one_way[:, ::-1]]), num_nodes=40, directed=True)
        split = made(graph)
        for part in (split.train_targets, split.valid_targets, split.test_targets):
            links = ordered(graph.edges[part])
            assert links == {(b, a) for a, b in links}


class TestSeeds:
    def test_same_seed_same_split(self) -> None:
        graph = big()
        first, again = made(graph), made(graph)
        for name in ("train_targets", "valid_targets", "test_targets", "valid_negatives", "test_negatives"):
            assert np.array_equal(getattr(first, name), getattr(again, name)), name

    def test_other_seed_other_split(self) -> None:
        graph = big()
        first, other = made(graph), made(graph, seed=4)
        for name in ("train_targets", "valid_targets", "test_targets", "valid_negatives", "test_negatives"):
            assert not np.array_equal(getattr(first, name), getattr(other, name)), name

    def test_negatives_do_not_follow_the_seed_of_the_links(self) -> None:
        """The links of a part do not depend on how many negatives are asked for."""
        graph = big()
        assert np.array_equal(made(graph).test_targets, made(graph, valid_negatives=99).test_targets)


class TestSizes:
    def test_shares(self) -> None:
        graph = big()
        split = made(graph)
        assert split.test_targets.size == round(0.2 * graph.num_edges)
        assert split.valid_targets.size == round(0.1 * graph.num_edges)
        assert split.train_targets.size == graph.num_edges - split.test_targets.size - split.valid_targets.size
        assert len(split.test_negatives) == split.test_targets.size
        assert len(split.valid_negatives) == 15

    def test_directed_shares_are_those_of_the_pairs(self) -> None:
        graph = big(directed=True)
        split = made(graph)
        assert split.train_targets.size / graph.num_edges == pytest.approx(0.7, abs=0.03)
        assert split.test_targets.size / graph.num_edges == pytest.approx(0.2, abs=0.03)

    def test_other_shares(self) -> None:
        graph = big()
        split = made(graph, valid_share=0.3, test_share=0.4)
        assert split.valid_targets.size == round(0.3 * graph.num_edges)
        assert split.test_targets.size == round(0.4 * graph.num_edges)

    def test_every_link_is_as_likely_in_the_test(self) -> None:
        graph = big(num_nodes=20, num_links=60)
        counts = np.zeros(graph.num_edges)
        for seed in range(300):
            counts[made(graph, seed=seed, valid_negatives=1).test_targets] += 1
        assert abs(counts / 300 - 0.2).max() < 0.1

    def test_too_few_links_are_refused(self) -> None:
        path = np.array([[i, i + 1] for i in range(9)])
        with pytest.raises(InputError, match="has 9 links between different nodes; at least 10 are needed"):
            made(Graph.from_arrays(path))
        with pytest.raises(InputError, match="at least 10 are needed"):
            holdout_split(Graph.from_arrays(path), seed=0, valid_share=0.1, valid_negatives=5)
        ten = Graph.from_arrays(np.array([[i, i + 1] for i in range(10)]))
        assert made(ten).valid_targets.size == 1

    def test_both_ways_count_once(self) -> None:
        path = np.array([[i, i + 1] for i in range(6)])
        graph = Graph.from_arrays(np.concatenate([path, path[:, ::-1]]), directed=True)
        with pytest.raises(InputError, match="has 6 links"):
            made(graph)

    def test_few_non_links_are_shared(self) -> None:
        pairs = np.array([(i, j) for i in range(8) for j in range(i + 1, 8)])
        split = made(Graph.from_arrays(pairs[4:], num_nodes=8), valid_negatives=100)
        assert len(split.test_negatives) == len(split.valid_negatives) == 2
        assert not unordered(split.test_negatives) & unordered(split.valid_negatives)

    def test_a_complete_graph_has_nothing_to_predict(self) -> None:
        pairs = np.array([(i, j) for i in range(8) for j in range(i + 1, 8)])
        with pytest.raises(TrainingError, match="complete"):
            made(Graph.from_arrays(pairs))

    @pytest.mark.parametrize(("valid", "test"), [(0.5, 0.5), (0.9, 0.2), (-0.1, 0.2), (0.1, -0.2)])
    def test_shares_must_leave_training_links(self, valid: float, test: float) -> None:
        with pytest.raises(InputError, match="'valid_share' and 'test_share'"):
            made(big(), valid_share=valid, test_share=test)


class TestDescribe:
    @pytest.mark.parametrize(("with_validation", "name"), [(False, "clean"), (True, "clean+val")])
    def test_says_what_was_done(self, with_validation: bool, name: str) -> None:
        split = made(big(), validation_messages=with_validation)
        text = split.describe()
        assert split.protocol == name
        assert f"protocol '{name}', seed 3" in text
        for count in (split.train_targets, split.valid_targets, split.test_targets, split.test_messages):
            assert f"{count.size:,}" in text
        assert f"{len(split.test_negatives):,} test pairs" in text

    def test_holdout(self) -> None:
        split = holdout_split(big(), seed=3, valid_share=0.1, valid_negatives=20)
        assert split.describe().startswith("protocol 'holdout', seed 3")
