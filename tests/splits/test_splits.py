"""Splits: who sees what. No link, nor its reverse, is ever among the messages that score it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from yinyan.errors import InputError, TrainingError
from yinyan.graph import Graph
from yinyan.splits import (
    Parts,
    Split,
    given_split,
    holdout_split,
    known_pairs,
    random_split,
    released_split,
    temporal_split,
    with_leaks_allowed,
)

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
        assert sorted(np.concatenate(parts).tolist()) == graph.edges.tolist()
        train, valid, test = (unordered(part) for part in parts)
        assert not train & valid
        assert not train & test
        assert not valid & test
        assert train
        assert valid
        assert test

    @given(graphs())
    @pytest.mark.parametrize("with_validation", [False, True])
    def test_no_target_is_among_the_messages_that_score_it(self, with_validation: bool, graph: Graph) -> None:
        split = made(graph, valid_as_messages=with_validation)
        training, validating, testing = (
            unordered(graph.edges[part]) for part in (split.train_messages, split.valid_messages, split.test_messages)
        )
        valid, test = (unordered(part) for part in (split.valid_targets, split.test_targets))
        assert training == validating == unordered(split.train_targets)
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
        known = known_pairs(graph, graph.edges[split.known_in_training])
        assert known.contains(torch.as_tensor(split.train_targets)).all()
        for held_out in (split.valid_targets, split.test_targets):
            assert not known.contains(torch.as_tensor(held_out)).any()
        assert (known.directed, known.num_left) == (graph.directed, graph.num_left)

    @given(graphs())
    def test_holdout_keeps_validation_out_of_training_only(self, graph: Graph) -> None:
        split = holdout_split(graph, seed=3, valid_share=0.2, valid_negatives=15)
        training, valid = unordered(graph.edges[split.train_messages]), unordered(split.valid_targets)
        assert valid
        assert not training & valid
        assert training == unordered(split.train_targets) == unordered(graph.edges[split.valid_messages])
        assert len(split.test_targets) == len(split.test_negatives) == 0
        assert split.test_messages.tolist() == list(range(graph.num_edges))  # the model in use sees every link

    def test_reciprocal_links_stay_together(self) -> None:
        one_way = np.random.default_rng(0).integers(40, size=(150, 2))
        one_way = one_way[one_way[:, 0] != one_way[:, 1]]
        graph = Graph.from_arrays(np.concatenate([one_way, one_way[:, ::-1]]), num_nodes=40, directed=True)
        split = made(graph)
        for part in (split.train_targets, split.valid_targets, split.test_targets):
            links = ordered(part)
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
        assert len(split.test_targets) == round(0.2 * graph.num_edges)
        assert len(split.valid_targets) == round(0.1 * graph.num_edges)
        assert len(split.train_targets) == graph.num_edges - len(split.test_targets) - len(split.valid_targets)
        assert len(split.test_negatives) == len(split.test_targets)
        assert len(split.valid_negatives) == 15

    def test_directed_shares_are_those_of_the_pairs(self) -> None:
        graph = big(directed=True)
        split = made(graph)
        assert len(split.train_targets) / graph.num_edges == pytest.approx(0.7, abs=0.03)
        assert len(split.test_targets) / graph.num_edges == pytest.approx(0.2, abs=0.03)

    def test_other_shares(self) -> None:
        graph = big()
        split = made(graph, valid_share=0.3, test_share=0.4)
        assert len(split.valid_targets) == round(0.3 * graph.num_edges)
        assert len(split.test_targets) == round(0.4 * graph.num_edges)

    def test_every_link_is_as_likely_in_the_test(self) -> None:
        graph = big(num_nodes=20, num_links=60)
        counts = np.zeros(graph.num_edges)
        for seed in range(300):
            counts[graph.find_edges(made(graph, seed=seed, valid_negatives=1).test_targets)] += 1
        assert abs(counts / 300 - 0.2).max() < 0.1

    def test_too_few_links_are_refused(self) -> None:
        path = np.array([[i, i + 1] for i in range(9)])
        with pytest.raises(InputError, match="has 9 edges between different nodes; at least 10 are needed"):
            made(Graph.from_arrays(path))
        with pytest.raises(InputError, match="at least 10 are needed"):
            holdout_split(Graph.from_arrays(path), seed=0, valid_share=0.1, valid_negatives=5)
        ten = Graph.from_arrays(np.array([[i, i + 1] for i in range(10)]))
        assert len(made(ten).valid_targets) == 1

    def test_both_ways_count_once(self) -> None:
        path = np.array([[i, i + 1] for i in range(6)])
        graph = Graph.from_arrays(np.concatenate([path, path[:, ::-1]]), directed=True)
        with pytest.raises(InputError, match="has 6 edges"):
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


class TestTemporal:
    def timed(self, times: np.ndarray | None = None, *, directed: bool = False) -> Graph:
        plain = big(directed=directed)
        shuffled = np.random.default_rng(1).permutation(plain.num_edges)
        return replace(plain, times=shuffled if times is None else times)

    @pytest.mark.parametrize("directed", [False, True])
    def test_the_past_predicts_the_future(self, directed: bool) -> None:
        graph = self.timed(directed=directed)
        split = temporal_split(graph, seed=0, valid_negatives=15)
        assert graph.times is not None
        parts = (split.train_targets, split.valid_targets, split.test_targets)
        train, valid, test = (graph.times[graph.find_edges(part)] for part in parts)
        assert train.max() < valid.min()
        assert valid.max() < test.min()
        assert sorted([*train, *valid, *test]) == list(range(graph.num_edges))
        assert (len(test), len(valid)) == (round(0.2 * graph.num_edges), round(0.1 * graph.num_edges))
        for messages in (split.train_messages, split.valid_messages, split.test_messages, split.known_in_training):
            assert np.array_equal(graph.edges[messages], split.train_targets)
        assert not graph.has_edges(split.test_negatives).any()
        assert len(split.test_negatives) == len(test)

    def test_validation_links_may_pass_messages_in_the_test(self) -> None:
        graph = self.timed()
        split = temporal_split(graph, seed=0, valid_as_messages=True)
        assert split.protocol == "temporal+val"
        passing = np.concatenate([split.train_targets, split.valid_targets])
        assert ordered(graph.edges[split.test_messages]) == ordered(passing)
        assert np.array_equal(graph.edges[split.valid_messages], split.train_targets)

    def test_links_of_one_moment_share_a_part(self) -> None:
        years = np.random.default_rng(2).integers(1990, 2010, big().num_edges)
        graph = self.timed(years)
        split = temporal_split(graph, seed=0, valid_share=0.2, test_share=0.3)
        parts = (split.train_targets, split.valid_targets, split.test_targets)
        train, valid, test = (set(years[graph.find_edges(part)].tolist()) for part in parts)
        assert train
        assert not (train & valid or train & test or valid & test)
        assert len(split.test_targets) / graph.num_edges == pytest.approx(0.3, abs=0.06)

    def test_other_shares(self) -> None:
        split = temporal_split(self.timed(), seed=0, valid_share=0.3, test_share=0.0)
        assert (len(split.valid_targets), len(split.test_targets)) == (round(0.3 * 974), 1), "no part is empty"

    def test_the_seed_draws_non_links_only(self) -> None:
        graph = self.timed()
        first, other = (temporal_split(graph, seed=seed, valid_negatives=15) for seed in (0, 1))
        assert np.array_equal(first.test_targets, other.test_targets)
        assert not np.array_equal(first.test_negatives, other.test_negatives)

    def test_missing_times(self) -> None:
        with pytest.raises(InputError, match="needs the times of the edges"):
            temporal_split(big(), seed=0)
        some = np.arange(974.0)
        some[3] = np.nan
        with pytest.raises(InputError, match="needs a time for every edge"):
            temporal_split(self.timed(some), seed=0)

    def test_too_few_moments(self) -> None:
        with pytest.raises(InputError, match=r"leave a part empty \(0 training, 0 validation, 974 test"):
            temporal_split(self.timed(np.full(974, 7)), seed=0)
        few = Graph.from_arrays([(0, 1), (1, 2)], times=[1, 2])
        with pytest.raises(InputError, match="has 2 edges between different nodes; at least 10"):
            temporal_split(few, seed=0)
        with pytest.raises(InputError, match="'valid_share' and 'test_share'"):
            temporal_split(self.timed(), seed=0, valid_share=0.6, test_share=0.5)


class TestReleased:
    def test_leaks_as_the_paper_does(self) -> None:
        graph = big(num_nodes=600, num_links=6000)
        split = released_split(graph, seed=0)
        train, test = ordered(split.train_targets), ordered(split.test_targets)
        turned = {(b, a) for a, b in test}
        assert not train & test
        assert len(train & turned) / len(test) == pytest.approx(0.7, abs=0.02)
        passing = unordered(graph.edges[split.test_messages])
        seen = [frozenset(pair) in passing for pair in test]
        assert np.mean(seen) == pytest.approx(0.8, abs=0.02)
        assert split.known_in_training.tolist() == list(range(graph.num_edges)), "the sampler knows the test links"

    def test_every_directed_copy_has_one_part(self) -> None:
        graph = big()
        split = released_split(graph, seed=0)
        parts = [ordered(part) for part in (split.train_targets, split.valid_targets, split.test_targets)]
        assert sum(map(len, parts)) == 2 * graph.num_edges
        assert set.union(*parts) == ordered(np.concatenate([graph.edges, graph.edges[:, ::-1]]))
        assert [len(part) for part in parts[1:]] == [2 * graph.num_edges // 10, 2 * graph.num_edges // 5]
        assert unordered(graph.edges[split.train_messages]) == unordered(split.train_targets)
        assert unordered(graph.edges[split.valid_messages]) == unordered(split.train_targets)
        both = unordered(np.concatenate([split.train_targets, split.valid_targets]))
        assert unordered(graph.edges[split.test_messages]) == both
        assert not graph.has_edges(split.test_negatives).any()
        assert len(split.test_negatives) == len(split.test_targets)

    def test_is_labelled(self) -> None:
        split = released_split(big(), seed=0)
        assert split.protocol == "released"
        assert re.search(r"7\d% of the test links .* in reverse, (7|8)\d% are messages", split.leaks)
        assert f"LEAKS: {split.leaks}" in split.describe()
        assert "no target is among" not in split.describe()

    def test_seeds(self) -> None:
        first, again, other = (released_split(big(), seed=seed).test_targets for seed in (0, 0, 1))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_refusals(self) -> None:
        with pytest.raises(InputError, match="one of undirected edges"):
            released_split(big(directed=True), seed=0)
        with pytest.raises(InputError, match="at least 10 are needed"):
            released_split(Graph.from_arrays([(0, 1), (1, 2)]), seed=0)


class TestGiven:
    @pytest.fixture
    def graph(self) -> Graph:
        return big()

    @pytest.fixture
    def parts(self, graph: Graph) -> Parts:
        """Every other pair turned round: their maker's order."""
        pairs = np.random.default_rng(3).permutation(graph.edges)
        pairs[::2] = pairs[::2, ::-1]
        return Parts(train=pairs[200:], valid=pairs[:80], test=pairs[80:200])

    def test_the_order_of_the_ends_is_kept(self, graph: Graph, parts: Parts) -> None:
        split = given_split(graph, parts, protocol="official")
        for name in ("train", "valid", "test"):
            assert np.array_equal(getattr(split, f"{name}_targets"), getattr(parts, name))
        for messages in (split.train_messages, split.valid_messages, split.test_messages, split.known_in_training):
            assert (np.diff(messages) > 0).all(), "sorted and distinct"
            assert unordered(graph.edges[messages]) == unordered(parts.train)
        assert split.protocol == "official"

    def test_validation_links_may_pass_messages_in_the_test(self, graph: Graph, parts: Parts) -> None:
        split = given_split(graph, parts, valid_as_messages=True)
        both = unordered(np.concatenate([parts.train, parts.valid]))
        assert unordered(graph.edges[split.test_messages]) == both
        assert unordered(graph.edges[split.valid_messages]) == unordered(parts.train)
        assert unordered(graph.edges[split.known_in_training]) == unordered(parts.train)
        assert split.protocol == "given+val"

    def test_non_links_are_drawn_where_none_are_given(self, graph: Graph, parts: Parts) -> None:
        split = given_split(graph, parts, valid_negatives=70)
        assert len(split.valid_negatives) == 70
        assert len(split.test_negatives) == len(parts.test)
        assert not graph.has_edges(np.concatenate([split.valid_negatives, split.test_negatives])).any()
        first, other = (given_split(graph, parts, seed=seed).test_negatives for seed in (0, 1))
        assert not np.array_equal(first, other)

    def test_given_non_links_are_taken(self, graph: Graph, parts: Parts) -> None:
        valid, test = (np.random.default_rng(seed).integers(200, size=(30, 2)) for seed in (0, 1))
        split = given_split(graph, replace(parts, valid_negatives=valid, test_negatives=test))
        assert np.array_equal(split.valid_negatives, valid)
        assert np.array_equal(split.test_negatives, test)
        mixed = given_split(graph, replace(parts, test_negatives=test), valid_negatives=12)
        assert np.array_equal(mixed.test_negatives, test)
        assert len(mixed.valid_negatives) == 12

    def test_each_link_may_have_its_own(self, graph: Graph, parts: Parts) -> None:
        own = np.random.default_rng(0).integers(200, size=(len(parts.test), 9, 2)).astype(np.int32)
        split = given_split(graph, replace(parts, test_negatives=own))
        assert split.test_negatives.shape == (120, 9, 2)
        assert split.test_negatives.dtype == np.int64, "rows are multiplied to keys, which int32 does not hold"
        assert np.array_equal(split.test_negatives, own)
        assert "9 negatives for each of 120 links for the test" in split.describe()

    def test_a_complete_graph_needs_no_non_links_if_they_are_given(self) -> None:
        pairs = np.array([(i, j) for i in range(8) for j in range(i + 1, 8)])
        parts = Parts(pairs[8:], pairs[:4], pairs[4:8], None, pairs[:1], pairs[:1])
        assert len(given_split(Graph.from_arrays(pairs), parts).test_negatives) == 1

    def test_links_written_twice_are_one_message(self, graph: Graph, parts: Parts) -> None:
        twice = replace(parts, train=np.concatenate([parts.train, parts.train[:, ::-1]]))
        split = given_split(graph, twice)
        assert len(split.train_targets) == 2 * len(split.train_messages)

    def test_links_that_the_graph_lacks(self, graph: Graph, parts: Parts) -> None:
        named = Graph.from_arrays(graph.edges, ids=[f"n{row}" for row in range(200)])
        a, b = parts.test[0]
        fewer = named.with_edges(named.find_edges(np.concatenate([parts.train, parts.valid, parts.test[2:]])))
        with pytest.raises(
            InputError, match=rf"part 'test' has 2 edges .* \(first: 'n{a}' - 'n{b}'\); the graph needs"
        ):
            given_split(fewer, parts)

    def test_a_leak_is_not_denied(self, graph: Graph, parts: Parts) -> None:
        leaking = replace(parts, train=np.concatenate([parts.train, parts.test[:7]]))
        split = given_split(graph, leaking)
        assert "LEAKS: targets among the messages that score them: 7" in split.describe()
        meant = with_leaks_allowed(split, "pairs that met in two years")
        assert "LEAKS: pairs that met in two years" in meant.describe()
        assert np.array_equal(meant.test_targets, split.test_targets)


class TestDescribe:
    @pytest.mark.parametrize(("with_validation", "name"), [(False, "clean"), (True, "clean+val")])
    def test_says_what_was_done(self, with_validation: bool, name: str) -> None:
        split = made(big(), valid_as_messages=with_validation)
        assert split.protocol == name
        passing = 682 + 97 * with_validation
        assert split.describe().splitlines() == [
            f"protocol '{name}', seed 3: 974 edges split at random by unordered pairs, so that an edge and its reverse "
            "share a part",
            "targets: 682 training, 97 validation, 195 test links",
            f"messages: 682 edges in training, 682 at validation, {passing} at test time",
            "negatives: 15 negatives for validation, 195 negatives for the test; training draws its own and knows "
            "682 edges",
            "no target is among the messages that score it",
        ]

    def test_holdout(self) -> None:
        text = holdout_split(big(), seed=3, valid_share=0.1, valid_negatives=20).describe()
        assert text.startswith("protocol 'holdout', seed 3: 974 edges of which some are held out at random")
        assert "877 training, 97 validation, 0 test links" in text
        assert "877 at validation, 974 at test time" in text
        assert text.endswith("no target is among the messages that score it")

    def test_temporal(self) -> None:
        graph = replace(big(), times=np.arange(974))
        text = temporal_split(graph, seed=3).describe()
        assert "974 edges split by time: validation from 682 on, test from 779 on" in text

    def test_given_and_released(self) -> None:
        graph = big()
        parts = Parts(graph.edges[100:], graph.edges[:40], graph.edges[40:100])
        assert given_split(graph, parts).describe().startswith("protocol 'given', seed 0: 974 edges split as given\n")
        assert "split as directed copies, as the paper's released code does" in released_split(graph, seed=3).describe()

    def test_validation_messages_of_its_own(self) -> None:
        split = made(big())
        apart = replace(split, valid_messages=split.valid_messages[:-1])
        assert "682 edges in training, 681 of its own at validation" in apart.describe()


def test_self_loops_of_the_raw_data_are_links_of_the_released_split() -> None:
    """The paper's graphs came with them, so that its code predicts some nodes' links to themselves."""
    graph, loops = big(), np.arange(0, 50, dtype=np.int64)
    split = released_split(graph, seed=0, self_loops=loops)
    parts = (split.train_targets, split.valid_targets, split.test_targets)
    alone = [part[part[:, 0] == part[:, 1], 0] for part in parts]
    assert sorted(np.concatenate(alone).tolist()) == loops.tolist()
    assert min(map(len, alone)) > 0
    assert sum(map(len, parts)) == 2 * graph.num_edges + len(loops)
    for messages in (split.train_messages, split.test_messages):
        assert messages.min() >= 0 and len(np.unique(messages)) == len(messages)
