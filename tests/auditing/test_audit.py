"""Audits: every planted leak is found, counted and shown; clean splits pass without a word."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import yinyan
from yinyan.auditing import Audit, Finding, audit, material
from yinyan.datasets import bundled_cora
from yinyan.errors import InputError, LeakError
from yinyan.graph import Graph
from yinyan.splits import Parts, Split, given_split, holdout_split, random_split, released_split, temporal_split

NODES = 60


def made_graph(*, directed: bool = False, bipartite: bool = False, links: int = 300, **options: Any) -> Graph:
    pairs = np.array([(a, b) for a in range(NODES) for b in range(NODES) if (a != b if directed else a < b)])
    sides = np.arange(NODES) // (NODES // 2) if bipartite else None
    pairs = pairs if sides is None else pairs[sides[pairs[:, 0]] != sides[pairs[:, 1]]]
    chosen = np.random.default_rng(0).choice(len(pairs), links, replace=False)
    ids = [f"n{row}" for row in range(NODES)]
    return Graph.from_arrays(pairs[np.sort(chosen)], ids=ids, directed=directed, sides=sides, **options)


def made_parts(graph: Graph) -> Parts:
    """Clean parts with fixed non-links, those of training drawn among all that are no training links."""
    split = random_split(graph, seed=0, valid_negatives=40)
    taken = {tuple(sorted(pair)) for pair in np.concatenate([split.valid_negatives, split.test_negatives]).tolist()}
    taken |= {tuple(sorted(pair)) for pair in split.train_targets.tolist()}
    free = np.array([(a, b) for a in range(NODES) for b in range(a + 1, NODES) if (a, b) not in taken])
    if graph.sides is not None:
        free = free[graph.sides[free[:, 0]] != graph.sides[free[:, 1]]]
    drawn = np.random.default_rng(1).choice(len(free), 300, replace=False)
    return Parts(
        train=split.train_targets,
        valid=split.valid_targets,
        test=split.test_targets,
        train_negatives=free[drawn],
        valid_negatives=split.valid_negatives,
        test_negatives=split.test_negatives,
    )


GRAPH = made_graph()
PARTS = made_parts(GRAPH)


def own_negatives(parts: Parts, graph: Graph, count: int = 6) -> np.ndarray:
    """(p, count, 2) distinct true non-links of each test link's first end."""
    return np.stack([[(a, b) for b in range(NODES) if b != a and not graph.has_edges([(a, b)])[0]][:count]
                     for a, _ in parts.test.tolist()])  # fmt: skip


def find(found: Audit, kind: str, start: str = "") -> Finding:
    """The one finding of a kind whose words begin so."""
    (finding,) = (f for f in found.findings if f.kind == kind and f.words.startswith(start))
    return finding


def looked_at(parts: Parts | Split, graph: Graph | None = None) -> Audit:
    return audit(parts, graph=graph or (GRAPH if isinstance(parts, Parts) else None), raises=False)


class TestClean:
    def test_parts(self) -> None:
        found = audit(PARTS, graph=GRAPH)
        assert found.findings == ()
        assert "negatives hit" in str(found)

    def test_parts_without_a_graph(self) -> None:
        assert audit(PARTS).findings == ()

    @pytest.mark.parametrize("kind", ["undirected", "directed", "bipartite"])
    def test_all_our_splits(self, kind: str) -> None:
        graph = made_graph(directed=kind == "directed", bipartite=kind == "bipartite", times=np.arange(300))
        splits = [random_split(graph, seed=1), random_split(graph, seed=1, valid_as_messages=True)]
        splits += [holdout_split(graph, seed=1, valid_share=0.1, valid_negatives=50)]
        splits += [given_split(graph, made_parts(graph), valid_as_messages=True)]
        for split in splits:
            # a reverse may well come later
            allowed = {"reversed"} if graph.directed and split.is_by_time else set()
            assert {finding.kind for finding in audit(split).findings} <= allowed, split.protocol
            assert audit(split).leaks == (), split.protocol
        for with_validation in (False, True):
            split = temporal_split(graph, seed=1, valid_as_messages=with_validation)
            found = audit(split)
            assert found.leaks == ()
            assert "times of 300 links" in found.checked
            assert {finding.kind for finding in found.findings} <= ({"reversed"} if graph.directed else set())

    def test_own_negatives(self) -> None:
        parts = replace(PARTS, test_negatives=own_negatives(PARTS, GRAPH).astype(np.int32))
        assert {finding.kind for finding in looked_at(parts).findings} <= {"shared-negatives"}


class TestLinks:
    @pytest.mark.parametrize("part", ["valid", "test"])
    def test_reversed_in_training(self, part: str) -> None:
        parts = replace(PARTS, train=np.concatenate([PARTS.train, getattr(PARTS, part)[:3, ::-1]]))
        with pytest.raises(LeakError, match=r"1 leak\nreversed: .* whose reverse is a training link: 3 of"):
            audit(parts, graph=GRAPH)
        finding = find(looked_at(parts), "reversed")
        first = getattr(PARTS, part)[0]
        assert (finding.severity, finding.count, finding.share) == ("leak", 3, 3 / len(getattr(PARTS, part)))
        assert finding.example == (f"n{first[0]}", f"n{first[1]}")
        assert "Cure: split unordered pairs" in finding.words

    def test_reversed_is_a_warning_where_links_have_directions(self) -> None:
        graph = made_graph(directed=True)
        pair = graph.edges[0]
        graph = Graph.from_arrays(np.concatenate([graph.edges, [pair[::-1]]]), num_nodes=NODES, directed=True)
        train = graph.edges[~(graph.edges == pair).all(axis=1)]
        parts = Parts(train=train, valid=np.empty((0, 2), np.int64), test=pair[None])
        finding = find(audit(parts, graph=graph), "reversed")
        assert (finding.severity, finding.count) == ("warning", 1)

    @pytest.mark.parametrize(
        ("later", "earlier", "words"),
        [
            ("valid", "train", "validation links that are training links too"),
            ("test", "train", "test links that are training links too"),
            ("test", "valid", "test links that are validation links too"),
        ],
    )
    def test_repeated_across_parts(self, later: str, earlier: str, words: str) -> None:
        both = np.concatenate([getattr(PARTS, earlier), getattr(PARTS, later)[:2]])
        finding = find(looked_at(replace(PARTS, **{earlier: both})), "repeated")
        assert finding.severity == "leak"
        assert finding.words.startswith(f"{words}: 2 of ")

    @pytest.mark.parametrize("part", ["valid", "test"])
    def test_scored_by_itself(self, part: str) -> None:
        split = random_split(GRAPH, seed=0)
        added = GRAPH.find_edges(getattr(split, f"{part}_targets")[:4])
        messages = np.union1d(split.train_messages, added)
        leaking = replace(split, **{f"{part}_messages": messages})
        with pytest.raises(LeakError, match="scored-by-itself"):
            audit(leaking)
        assert find(looked_at(leaking), "scored-by-itself").count == 4

    def test_training_links_may_be_messages(self) -> None:
        split = random_split(GRAPH, seed=0)
        assert np.array_equal(GRAPH.edges[split.train_messages], split.train_targets)
        assert audit(split).findings == ()

    @pytest.mark.parametrize("turned", [False, True])
    def test_doubled_within_a_part(self, turned: bool) -> None:
        copies = PARTS.test[:5, ::-1] if turned else PARTS.test[:5]
        finding = find(audit(replace(PARTS, test=np.concatenate([PARTS.test, copies])), graph=GRAPH), "doubled")
        assert (finding.severity, finding.count) == ("warning", 5)

    def test_every_link_both_ways_doubles_none(self) -> None:
        parts = replace(PARTS, train=np.concatenate([PARTS.train, PARTS.train[:, ::-1]]))
        found = audit(parts, graph=GRAPH)
        assert found.findings == ()
        assert "every training link is there 2 times, which changes no share" in found.checked

    def test_both_directions_are_two_links_of_a_directed_graph(self) -> None:
        pairs = np.concatenate([GRAPH.edges, GRAPH.edges[:5, ::-1]])
        graph = Graph.from_arrays(pairs, num_nodes=NODES, directed=True)
        empty = np.empty((0, 2), np.int64)
        assert audit(Parts(train=graph.edges, valid=empty, test=empty), graph=graph).findings == ()

    def test_self_pairs(self) -> None:
        parts = replace(PARTS, valid=np.concatenate([PARTS.valid, [[3, 3], [4, 4]]]))
        found = audit(parts, graph=GRAPH)
        assert find(found, "self-pairs").count == 2
        assert find(found, "self-pairs").example == ("n3", "n3")
        assert len(found.findings) == 1, "a self pair is no link of the graph, which is said once"

    def test_links_that_the_graph_lacks(self) -> None:
        parts = replace(PARTS, test=np.concatenate([PARTS.test, PARTS.train_negatives[:0], [[0, 1]]]))
        graph = GRAPH.with_edges(~(GRAPH.edges == (0, 1)).all(axis=1))
        assert find(looked_at(parts, graph), "not-in-graph").count == 1

    def test_the_future_in_training(self) -> None:
        graph = made_graph(times=np.arange(300))
        split = temporal_split(graph, seed=0)
        train = np.concatenate([split.train_targets[5:], split.test_targets[-5:]])
        test = np.concatenate([split.train_targets[:5], split.test_targets[:-5]])
        swapped = replace(split, train_targets=train, test_targets=test)
        finding = find(looked_at(swapped), "future", "training links later than the first test link")
        assert finding.severity == "leak"
        assert finding.count == len(train), "the first test link is the first of all"
        assert find(looked_at(swapped), "future", "training links later than the first validation").count == 5
        assert not [f for f in looked_at(replace(swapped, protocol="clean")).findings if f.kind == "future"]


class TestTrainingNegatives:
    @pytest.mark.parametrize("part", ["valid", "test"])
    def test_a_sampler_that_knows(self, part: str) -> None:
        split = random_split(GRAPH, seed=0)
        known = np.union1d(split.known_in_training, GRAPH.find_edges(getattr(split, f"{part}_targets")[:7]))
        with pytest.raises(LeakError, match="sampler-knows"):
            audit(replace(split, known_in_training=known))
        assert find(looked_at(replace(split, known_in_training=known)), "sampler-knows").count == 7

    def test_fixed_ones_that_avoid_held_out_links(self) -> None:
        drawn = PARTS.train_negatives
        assert drawn is not None
        avoiding = drawn[~GRAPH.has_edges(drawn)]
        assert len(drawn) - len(avoiding) > 5, "chance does hit held-out links"
        finding = find(looked_at(replace(PARTS, train_negatives=avoiding)), "sampler-avoids", "test")
        expected = len(avoiding) * len(PARTS.test) / (NODES * (NODES - 1) / 2 - len(PARTS.train))
        assert finding.severity == "leak"
        assert finding.count == len(PARTS.test)
        assert f"chance would hit {expected:.0f} (probability {np.exp(-expected):.1g})" in finding.words

    def test_held_out_parts_together_where_each_is_too_small(self) -> None:
        drawn = PARTS.train_negatives
        assert drawn is not None
        rest = drawn[~GRAPH.has_edges(drawn)][:200]
        half = replace(PARTS, train_negatives=rest, valid=PARTS.test[:30], test=PARTS.test[30:])
        half = replace(half, test=np.concatenate([half.test, PARTS.valid]))
        assert 200 * 60 / 1560 < 10 < 200 * 90 / 1560
        assert "held-out links that no training negative hits" in find(looked_at(half), "sampler-avoids").words

    def test_few_tell_nothing(self) -> None:
        drawn = PARTS.train_negatives
        assert drawn is not None
        few = drawn[~GRAPH.has_edges(drawn)][:20]
        found = audit(replace(PARTS, train_negatives=few), graph=GRAPH)
        assert any("20 training negatives avoid held-out links: too few for a test" in words for words in found.checked)

    def test_that_are_training_links(self) -> None:
        drawn = PARTS.train_negatives
        assert drawn is not None
        found = looked_at(replace(PARTS, train_negatives=np.concatenate([drawn, PARTS.train[:4]])))
        assert find(found, "mislabelled", "training negatives that are training links").count == 4

    @pytest.mark.parametrize("part", ["valid", "test"])
    def test_that_are_evaluation_non_links_too(self, part: str) -> None:
        drawn, told = PARTS.train_negatives, getattr(PARTS, f"{part}_negatives")
        assert drawn is not None
        shared = replace(PARTS, train_negatives=np.concatenate([drawn, told[:, ::-1]]))
        finding = find(looked_at(shared), "shared-negatives")
        assert (finding.severity, finding.count, finding.share) == ("leak", len(told), 1.0)
        chance = find(looked_at(replace(PARTS, train_negatives=np.concatenate([drawn, told[:2]]))), "shared-negatives")
        assert (chance.severity, chance.count) == ("warning", 2)


class TestEvaluationNegatives:
    @pytest.mark.parametrize("part", ["valid", "test"])
    @pytest.mark.parametrize("truth", ["train", "valid", "test"])
    def test_that_are_links(self, part: str, truth: str) -> None:
        wrong = np.concatenate([getattr(PARTS, f"{part}_negatives"), getattr(PARTS, truth)[:3, ::-1]])
        finding = find(looked_at(replace(PARTS, **{f"{part}_negatives": wrong})), "mislabelled")
        assert (finding.severity, finding.count, finding.share) == ("warning", 3, 3 / len(wrong))

    def test_that_are_links_which_no_part_has(self) -> None:
        more = Graph.from_arrays(np.concatenate([GRAPH.edges, PARTS.test_negatives[:2]]), num_nodes=NODES)
        assert find(looked_at(PARTS, more), "mislabelled").count == 2

    def test_of_validation_and_test(self) -> None:
        both = np.concatenate([PARTS.test_negatives, PARTS.valid_negatives[:3]])
        finding = find(audit(replace(PARTS, test_negatives=both), graph=GRAPH), "shared-negatives")
        assert (finding.severity, finding.count) == ("warning", 3)

    def test_doubled(self) -> None:
        twice = np.concatenate([PARTS.test_negatives, PARTS.test_negatives[:4, ::-1]])
        assert find(looked_at(replace(PARTS, test_negatives=twice)), "doubled-negatives").count == 4

    def test_doubled_in_a_row(self) -> None:
        own = own_negatives(PARTS, GRAPH)
        own[2, 1] = own[2, 0]
        found = looked_at(replace(PARTS, test_negatives=own))
        assert find(found, "doubled-negatives").count == 1
        assert find(found, "doubled-negatives").example == tuple(f"n{row}" for row in sorted(own[2, 0]))

    def test_self_pairs(self) -> None:
        wrong = np.concatenate([PARTS.test_negatives, [[5, 5]]])
        assert find(looked_at(replace(PARTS, test_negatives=wrong)), "self-pairs").example == ("n5", "n5")

    @pytest.mark.parametrize("own", [False, True])
    def test_within_a_side(self, own: bool) -> None:
        graph = made_graph(bipartite=True)
        parts = made_parts(graph)
        negatives = np.array(parts.test_negatives)
        negatives = np.repeat(negatives[:, None], 2, axis=1) if own else negatives
        negatives[0] = (0, 1)
        negatives[1] = (NODES - 1, NODES - 2)
        finding = find(looked_at(replace(parts, test_negatives=negatives), graph), "easy-side")
        assert (finding.severity, finding.count) == ("leak", 4 if own else 2)
        positives = replace(parts, test=np.concatenate([parts.test, [[0, 1]]]))
        assert find(looked_at(positives, graph), "one-sided").severity == "warning"

    def test_own_ones_that_are_the_link(self) -> None:
        own = own_negatives(PARTS, GRAPH)
        own[7, 3] = PARTS.test[7, ::-1]
        found = looked_at(replace(PARTS, test_negatives=own))
        assert (find(found, "own-positive").count, find(found, "own-positive").severity) == (1, "warning")
        assert find(found, "mislabelled").count == 1

    def test_own_ones_of_another_link(self) -> None:
        own = own_negatives(PARTS, GRAPH)
        a, b = PARTS.test[4]
        others = [row for row in range(NODES) if row not in (a, b)]
        own[4, :2] = [(others[0], others[1]), (others[2], others[3])]
        assert find(looked_at(replace(PARTS, test_negatives=own)), "stranger-negatives").count == 2

    def test_at_nodes_without_messages(self) -> None:
        ids = [*(f"n{row}" for row in range(NODES)), *(f"lonely{row}" for row in range(40))]
        graph = Graph.from_arrays(GRAPH.edges, ids=ids, num_nodes=NODES + 40)
        easy = np.array([(row, NODES + row % 40) for row in range(60)])
        found = audit(replace(PARTS, test_negatives=easy), graph=graph)
        finding = find(found, "easy-degree")
        assert (finding.severity, finding.count, finding.example) == ("warning", 60, ("n0", "lonely0"))
        split = given_split(graph, replace(PARTS, test_negatives=easy))
        assert find(audit(split), "easy-degree").count == 60
        mixed = np.concatenate([easy[:20], PARTS.test_negatives[:40]])
        assert not looked_at(replace(PARTS, test_negatives=mixed), graph).findings


class TestReleased:
    def test_it_leaks_everywhere_and_says_so(self) -> None:
        split = released_split(bundled_cora(), seed=0)
        found = audit(split)
        assert {finding.kind for finding in found.leaks} == {"reversed", "scored-by-itself", "sampler-knows"}
        assert find(found, "reversed", "test links whose reverse is a training").share == pytest.approx(0.7, abs=0.03)
        assert find(found, "scored-by-itself", "test").share == pytest.approx(0.8, abs=0.03)
        assert find(found, "sampler-knows", "test").share == pytest.approx(0.3, abs=0.03)
        assert find(found, "doubled", "test").count > 0

    def test_unlabelled_it_is_refused(self) -> None:
        split = replace(released_split(bundled_cora(), seed=0), leaks="")
        with pytest.raises(LeakError, match="the split has 7 leaks") as caught:
            audit(split)
        assert isinstance(caught.value, InputError)
        assert audit(split, raises=False).leaks


class TestAudit:
    def leaky(self) -> Parts:
        own = own_negatives(PARTS, GRAPH)
        own[9, 2] = PARTS.test[9]
        own[11] = own[3]
        own[30, 1] = own[30, 0]
        return replace(PARTS, test_negatives=own, train=np.concatenate([PARTS.train, PARTS.test[20:23, ::-1]]))

    def test_small_blocks_find_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = looked_at(self.leaky())
        monkeypatch.setattr(material, "_BLOCK", 7)
        assert looked_at(self.leaky()) == whole
        assert len({finding.kind for finding in whole.findings}) >= 4

    def test_prints_leaks_first_then_what_was_checked(self) -> None:
        text = str(looked_at(self.leaky()))
        lines = text.splitlines()
        assert lines[0].startswith("1 leak, ")
        assert lines[1].startswith("LEAK reversed: test links whose reverse is a training link: 3 of")
        assert lines[2].startswith("warning ")
        assert lines.index("checked:") > 2
        assert str(audit(PARTS, graph=GRAPH)).startswith("no leaks, 0 warnings\nchecked:\n- ")

    def test_converts_to_json(self) -> None:
        found = looked_at(self.leaky())
        content = json.loads(json.dumps(found.to_dict()))
        assert content["leaks"] == 1
        assert content["findings"][0]["kind"] == "reversed"
        assert content["findings"][0]["example"] == list(found.leaks[0].example or ())
        assert content["checked"] == list(found.checked)

    def test_rows_without_a_graph_are_their_own_names(self) -> None:
        finding = find(audit(self.leaky(), raises=False), "reversed")
        assert finding.example == tuple(PARTS.test[20])

    def test_a_split_of_another_graph(self) -> None:
        small = Graph.from_arrays(GRAPH.edges[(GRAPH.edges < 30).all(axis=1)], num_nodes=30)
        with pytest.raises(InputError, match=r"name row 5., but the graph has 30 nodes, rows 0 to 29"):
            audit(PARTS, graph=small)
        with pytest.raises(InputError, match="a Split brings its graph"):
            audit(random_split(GRAPH, seed=0), graph=small)

    def test_what_is_no_split(self) -> None:
        with pytest.raises(InputError, match=r"needs a Split or Parts \(got list\)"):
            audit([1, 2])  # type: ignore[arg-type]

    def test_empty_parts(self) -> None:
        empty = np.empty((0, 2), dtype=np.int64)
        nothing = Parts(empty, empty, empty, empty, empty, np.empty((0, 5, 2), dtype=np.int32))
        assert audit(nothing).findings == audit(nothing, graph=GRAPH).findings == ()

    def test_a_million_links_take_seconds(self) -> None:
        rng = np.random.default_rng(0)
        keys = rng.choice(4267 * 4266 // 2, 1_500_000, replace=False)
        low = np.floor((1 + np.sqrt(1 + 8 * keys)) / 2).astype(np.int64)
        pairs = np.stack([low, keys - low * (low - 1) // 2], axis=1)
        graph = Graph.from_arrays(pairs[:1_300_000], num_nodes=4267)
        parts = Parts(pairs[:1_000_000], pairs[1_000_000:1_150_000], pairs[1_150_000:1_300_000], None,
                      pairs[1_300_000:1_400_000], pairs[1_400_000:])  # fmt: skip
        seconds = [9.0]
        while min(seconds) > 3 and len(seconds) < 5:  # a busy machine gets some tries
            begun = time.perf_counter()
            assert audit(parts, graph=graph).findings == ()
            seconds.append(time.perf_counter() - begun)
        assert min(seconds) <= 3

    def test_is_a_function_of_the_package_whatever_was_imported(self) -> None:
        """A module `yinyan.audit` would take the function's place once anything imports it."""
        script = "import yinyan, yinyan.cli, yinyan.cli.common, yinyan.auditing; print(callable(yinyan.audit))"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"
        assert issubclass(yinyan.LeakError, InputError)
