"""Hard negatives: against a slow reference, for every kind of graph, under a protocol name of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts import planted_graph, tiny
from yinyan.auditing import audit
from yinyan.datasets.dataset import Dataset
from yinyan.errors import InputError, SettingsError
from yinyan.evaluation import evaluate, figures_of, held_out_scores, make_split, negatives_in_words, protocol_with
from yinyan.graph import Graph
from yinyan.hard_negatives import COUNT, hard_negatives, with_hard_negatives
from yinyan.metrics import hits_in_own_ranking, mrr, roc_auc
from yinyan.peers import Task, method
from yinyan.predictor import LinkPredictor
from yinyan.reproduce.stand_ins import stand_in
from yinyan.splits import Split, random_split, released_split

Pairs = NDArray[np.int64]


def made_graph(kind: str = "plain", *, features: str = "sparse", nodes: int = 50) -> Graph:
    rng = np.random.default_rng(7)
    group = np.arange(nodes) % 3
    pairs = np.argwhere(rng.random((nodes, nodes)) < np.where(group[:, None] == group, 0.15, 0.03))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]] if kind == "directed" else pairs[pairs[:, 0] < pairs[:, 1]]
    sides = np.arange(nodes) // (nodes // 2) if kind == "bipartite" else None
    pairs = pairs if sides is None else pairs[sides[pairs[:, 0]] != sides[pairs[:, 1]]]
    words = (rng.random((nodes, 30)) < 0.1).astype(np.float32)
    given: dict[str, Any] = {"sparse": words, "dense": rng.normal(size=(nodes, 5)).astype(np.float32), "none": None}
    return Graph.from_arrays(pairs, num_nodes=nodes, features=given[features], directed=kind == "directed", sides=sides)


def slow_scores(graph: Graph, messages: NDArray[np.int64], node: int) -> list[dict[int, float]]:
    """Each heuristic's scores of all other nodes, by its definition and with sets."""
    near: list[set[int]] = [set() for _ in range(graph.num_nodes)]
    for a, b in graph.edges[messages].tolist():
        near[a].add(b)
        near[b].add(a)
    others = [other for other in range(graph.num_nodes) if other != node]
    allocation = {other: sum(1 / len(near[w]) for w in near[node] & near[other]) for other in others}
    walker = np.eye(graph.num_nodes)[node]
    for _ in range(400):
        moved = np.zeros(graph.num_nodes)
        for at, share in enumerate(walker):
            for to in near[at]:
                moved[to] += share / len(near[at])
        walker = 0.85 * moved
        walker[node] += 0.15
    found = [allocation, {other: float(walker[other]) for other in others}]
    if graph.features is not None:
        dense = graph.features if isinstance(graph.features, np.ndarray) else graph.features.to_dense()
        x = dense.astype(np.float64)
        norms = np.linalg.norm(x, axis=1)
        found.append({o: float(x[node] @ x[o] / (norms[node] * norms[o] or 1.0)) for o in others})
    return found


def slow_keys(graph: Graph, messages: NDArray[np.int64], node: int, *, source: bool) -> dict[int, tuple[float, float]]:
    """(best rank, mean rank) of every candidate of a kept end."""
    edges = {tuple(edge) for edge in graph.edges.tolist()}
    if not graph.directed:
        edges |= {(b, a) for a, b in edges}
    sides = graph.sides
    allowed = [
        other
        for other in range(graph.num_nodes)
        if other != node
        and ((node, other) if source else (other, node)) not in edges
        and (sides is None or sides[other] != sides[node])
    ]
    ranks: dict[int, list[float]] = {other: [] for other in allowed}
    for scores in slow_scores(graph, messages, node):
        for other in allowed:
            mine = scores[other]
            no_worse = sum(scores[rival] > mine - 1e-7 for rival in allowed)
            ranks[other].append(no_worse if mine > 5e-7 else graph.num_nodes)
    return {other: (min(some), sum(some) / len(some)) for other, some in ranks.items()}


def check_against_reference(graph: Graph, links: Pairs, messages: NDArray[np.int64], found: Pairs) -> None:
    for link, negatives in zip(links.tolist(), found, strict=True):
        halves = negatives[negatives[:, 0] == link[0]], negatives[negatives[:, 0] != link[0]]
        assert (halves[1][:, 1] == link[1]).all()
        for side, half in enumerate(halves):
            keys = slow_keys(graph, messages, link[side], source=side == 0)
            chosen = half[:, 1 - side].tolist()
            assert len(set(chosen)) == len(chosen) and set(chosen) <= set(keys)
            assert [keys[other] for other in chosen] == sorted(keys.values())[: len(chosen)]


class TestReference:
    @pytest.mark.parametrize("kind", ["plain", "directed", "bipartite"])
    def test_every_kind_of_graph(self, kind: str) -> None:
        graph = made_graph(kind)
        split = random_split(graph, seed=0)
        links = split.test_targets[:6]
        found = hard_negatives(graph, links, split.test_messages, count=20)
        assert found.shape == (6, 20, 2) and found.dtype == np.int64
        assert ((found[:, :10, 0] == links[:, :1]) & (found[:, 10:, 1] == links[:, 1:])).all()
        check_against_reference(graph, links, split.test_messages, found)

    @pytest.mark.parametrize("features", ["none", "dense"])
    def test_every_kind_of_features(self, features: str) -> None:
        graph = made_graph(features=features)
        split = random_split(graph, seed=1)
        links = split.test_targets[:5]
        found = hard_negatives(graph, links, split.test_messages, count=13)
        assert ((found[:, :, 0] == links[:, :1]).sum(1) == 7).all()  # an odd one is the source's
        check_against_reference(graph, links, split.test_messages, found)

    def test_fewer_candidates_than_asked_for(self) -> None:
        """The link with the fewest decides for all; an end with too few leaves more to the other."""
        graph = made_graph()
        hub = np.stack([np.zeros(47, dtype=np.int64), np.arange(1, 48)], axis=1)
        graph = Graph.from_arrays(
            np.concatenate([graph.edges[(graph.edges > 0).all(1)], hub]), num_nodes=50, features=graph.features
        )
        messages = np.arange(graph.num_edges)
        links = np.array([[0, 5], [7, 0], graph.edges[-1]])
        found = hard_negatives(graph, links, messages)
        available = [sum(49 - len(graph.neighbours(node)) for node in link) for link in links.tolist()]
        assert found.shape[1] == min(available) < COUNT
        assert (found[0, :, 0] == 0).sum() == 2 == (found[1, :, 1] == 0).sum()  # nodes 48 and 49
        check_against_reference(graph, links, messages, found)

    def test_messages_alone_are_looked_at(self) -> None:
        graph = made_graph(features="none")
        split = random_split(graph, seed=0)
        links = split.test_targets[:5]
        cheating, honest = (
            hard_negatives(graph, links, known, count=10) for known in (np.arange(graph.num_edges), split.test_messages)
        )
        assert not np.array_equal(cheating, honest)
        without = hard_negatives(graph, links, np.empty(0, dtype=np.int64), count=10)
        check_against_reference(graph, links, np.empty(0, dtype=np.int64), without)  # all tied: by chance


class TestOptions:
    GRAPH = made_graph(features="none")
    SPLIT = random_split(GRAPH, seed=0)

    def negatives(self, **options: Any) -> Pairs:
        links = self.SPLIT.test_targets
        return hard_negatives(self.GRAPH, links, options.pop("messages", self.SPLIT.test_messages), **options)

    def test_the_seed_breaks_ties(self) -> None:
        none = np.empty(0, dtype=np.int64)
        first, again, other = (self.negatives(messages=none, seed=seed, count=10) for seed in (0, 0, 1))
        assert np.array_equal(first, again) and not np.array_equal(first, other)

    def test_more_begin_with_the_same(self) -> None:
        few, many = self.negatives(count=10), self.negatives(count=30)
        for row in range(len(few)):
            assert {tuple(pair) for pair in few[row].tolist()} <= {tuple(pair) for pair in many[row].tolist()}

    def test_refused(self) -> None:
        with pytest.raises(InputError, match=r"'count' needs to be a positive integer \(got 0\)"):
            self.negatives(count=0)
        full = Graph.from_arrays(np.argwhere(np.triu(np.ones((6, 6)), 1)), ids=list("abcdef"))
        with pytest.raises(InputError, match="the link 'a' - 'b' has no negatives: both ends have edges to all nodes"):
            hard_negatives(full, full.edges, np.arange(3))
        with pytest.raises(InputError, match="'released' leaks on purpose"):
            with_hard_negatives(released_split(self.GRAPH, seed=0))

    def test_blocks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = self.negatives(count=10)
        monkeypatch.setattr("yinyan.hard_negatives._BLOCK", 1)
        assert np.array_equal(self.negatives(count=10), whole)

    def test_no_links(self) -> None:
        none = np.empty((0, 2), dtype=np.int64)
        assert hard_negatives(self.GRAPH, none, self.SPLIT.test_messages).shape == (0, COUNT, 2)


class TestSplits:
    @pytest.mark.parametrize("kind", ["plain", "directed", "bipartite"])
    @pytest.mark.parametrize("valid_as_messages", [False, True])
    def test_pass_the_audit(self, kind: str, valid_as_messages: bool) -> None:
        split = random_split(made_graph(kind), seed=2, valid_as_messages=valid_as_messages)
        hard = with_hard_negatives(split, count=20)
        assert hard.protocol == ("clean-hard+val" if valid_as_messages else "clean-hard")
        assert audit(hard).leaks == () and "mislabelled" not in {f.kind for f in audit(hard).findings}
        assert "20 negatives for each of" in hard.describe() and "PageRank" in hard.describe()
        self.check_part(split, hard.valid_negatives, "valid")
        self.check_part(split, hard.test_negatives, "test")

    @staticmethod
    def check_part(split: Split, found: Pairs, part: str) -> None:
        """As for the part alone, with the messages that it is scored by."""
        links, messages = getattr(split, f"{part}_targets"), getattr(split, f"{part}_messages")
        check_against_reference(split.graph, links[:2], messages, found[:2])

    @pytest.mark.parametrize("name", ["cn", "ra", "pagerank"])
    def test_are_harder_than_uniform_ones(self, name: str) -> None:
        plain = random_split(planted_graph(3, 40, inside=0.3), seed=0)
        hard = with_hard_negatives(plain, count=20)
        found = [roc_auc(*held_out_scores(method(name)(Task(split)).score, split)) for split in (plain, hard)]
        assert found[1] < found[0] - 0.1

    @pytest.mark.parametrize("protocol", ["official-hard", "official-hard+val"])
    def test_official_splits_get_ours_instead_of_their_own(self, protocol: str) -> None:
        data = stand_in("heart-citeseer")
        split = make_split(data, protocol, 0)
        assert split.protocol == protocol
        assert data.parts is not None and np.array_equal(split.test_targets, data.parts.test)
        assert split.test_negatives.shape[1] > 25 == make_split(data, "official", 0).test_negatives.shape[1]
        assert negatives_in_words(split) == f"{split.test_negatives.shape[1]} own negatives per link"


class TestEvaluation:
    GRAPH = planted_graph(3, 20, inside=0.35)
    MODEL = LinkPredictor(**tiny(training={"epochs": 1}))

    def test_figures_have_a_protocol_of_their_own(self) -> None:
        hard = evaluate(self.GRAPH, negatives="hard", peers=["cn"], model=self.MODEL)
        assert hard.protocol == "clean-hard" and "protocol 'clean-hard'" in str(hard)
        assert list(hard.to_dict()["metrics"]) == ["mrr", "hits@10", "auc", "ap"]
        plain = evaluate(self.GRAPH, peers=["cn"], model=self.MODEL)
        assert plain.protocol == "clean" and next(iter(plain.to_dict()["metrics"])) == "hits@1"
        result = hard.results[0]
        assert result.scores is not None and result.scores[1].ndim == 2
        assert result.metrics["mrr"] == mrr(*result.scores)
        assert result.metrics["hits@10"] == hits_in_own_ranking(*result.scores, 10)

    def test_a_data_sets_own_metric_is_for_its_own_negatives(self) -> None:
        data = Dataset("planted", self.GRAPH, None, "hits@20")
        assert next(iter(evaluate(data, negatives="hard", peers=[], model=self.MODEL).figures())) == "mrr"
        assert next(iter(evaluate(data, peers=[], model=self.MODEL).figures())) == "hits@20"

    def test_names(self) -> None:
        assert protocol_with("clean", None) == "clean"
        assert protocol_with("temporal+val", "hard") == "temporal-hard+val"
        assert protocol_with("clean-hard", "hard") == "clean-hard"
        with pytest.raises(SettingsError, match="'released' has no variant with hard negatives"):
            protocol_with("released", "hard")
        with pytest.raises(SettingsError, match=r"'negatives' needs to be 'hard'.*\(got 'easy'\)"):
            evaluate(self.GRAPH, negatives="easy")
        with pytest.raises(SettingsError, match="'protocol' needs to be one of clean"):
            evaluate(self.GRAPH, protocol="dirty", negatives="hard", model=self.MODEL)

    def test_few_negatives_of_its_own_get_a_small_k(self) -> None:
        positive, negative = np.arange(3.0), np.zeros((3, 60))
        assert list(figures_of(positive, negative)) == ["mrr", "hits@10", "auc", "ap"]
        assert list(figures_of(positive, negative[:, :25], "mrr")) == ["mrr", "hits@1", "auc", "ap"]

    def test_temporal(self) -> None:
        graph = replace(self.GRAPH, times=np.arange(self.GRAPH.num_edges))
        split = make_split(graph, "temporal-hard", 0)
        assert split.protocol == "temporal-hard" and "times of" in str(audit(split))
