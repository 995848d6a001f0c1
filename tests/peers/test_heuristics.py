"""Heuristics: equal to networkx and to dense algebra, by either way of computing them, on every kind of graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.peers import heuristics, neighbours, walk_sums
from yinyan.peers.heuristics import (
    adamic_adar,
    common_neighbours,
    jaccard,
    preferential_attachment,
    resource_allocation,
)
from yinyan.peers.neighbours import distinct_pairs, neighbours_of
from yinyan.peers.walk_sums import katz, pagerank_rows, personalised_pagerank, spectral_radius

NODES = 9
ALL = {
    "cn": common_neighbours,
    "aa": adamic_adar,
    "ra": resource_allocation,
    "jaccard": jaccard,
    "pa": preferential_attachment,
    "katz": katz,
    "ppr": personalised_pagerank,
}
EACH = pytest.mark.parametrize("method", ALL.values(), ids=ALL)
EVERY_PAIR = np.array([(a, b) for a in range(NODES) for b in range(NODES)])


@pytest.fixture(params=["sparse", "dense"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Either way of computing, whichever the estimate would choose."""
    force_way(monkeypatch, request.param)
    return request.param  # type: ignore[no-any-return]


def force_way(patch: pytest.MonkeyPatch, way: str) -> None:
    if way == "sparse":
        patch.setattr(neighbours, "DENSE_BYTES", 0)
    else:
        patch.setattr(heuristics, "_PRODUCT", -1.0)
        patch.setattr(walk_sums, "_INVERSE", -1.0)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Small, perhaps directed with links both ways, some nodes without any."""
    directed = draw(st.booleans())
    node = st.integers(0, NODES - 2)  # the last one is always alone
    pairs = draw(st.sets(st.tuples(node, node).filter(lambda pair: pair[0] != pair[1]), max_size=30))
    chosen = pairs if directed else {(min(pair), max(pair)) for pair in pairs}
    edges = np.array(sorted(chosen), dtype=np.int64).reshape(-1, 2)
    return Graph.from_arrays(edges, num_nodes=NODES, directed=directed)


def matrix_of(graph: Graph) -> np.ndarray:  # type: ignore[type-arg]
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    matrix[graph.edges[:, 0], graph.edges[:, 1]] = 1
    return np.maximum(matrix, matrix.T)


def by_algebra(graph: Graph, *, share: float = 0.1, restart: float = 0.15) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    """Every heuristic of every pair by dense algebra, as written in a textbook."""
    a = matrix_of(graph)
    degrees = a.sum(0)
    common = a @ a
    log = np.array([1 / math.log(d) if d > 1 else 0 for d in degrees])
    union = degrees[:, None] + degrees[None, :] - common
    radius = max(np.linalg.eigvalsh(a)[-1], 1e-300)
    eye = np.eye(len(a))
    step = np.array([row / row.sum() if row.sum() else eye[i] for i, row in enumerate(a)])
    pagerank = restart * np.linalg.inv(eye - (1 - restart) * step)
    return {
        "cn": common,
        "aa": a @ np.diag(log) @ a,
        "ra": a @ np.diag(1 / np.maximum(degrees, 1)) @ a,
        "jaccard": np.divide(common, union, out=np.zeros_like(common), where=union > 0),
        "pa": np.outer(degrees, degrees),
        "katz": np.linalg.inv(eye - share / radius * a) - eye if a.any() else np.zeros_like(a),
        "ppr": pagerank + pagerank.T,
    }


@pytest.mark.parametrize("forced", ["sparse", "dense"])
@pytest.mark.parametrize("block", [1, 20, 5_000_000])
@given(graph=graphs())
def test_every_pair_by_algebra(forced: str, block: int, graph: Graph) -> None:
    expected = by_algebra(graph)
    with pytest.MonkeyPatch.context() as patch:
        force_way(patch, forced)
        patch.setattr(heuristics, "_BLOCK", block)
        patch.setattr(walk_sums, "_BLOCK", block)
        for name, method in ALL.items():
            found = method(graph, EVERY_PAIR).reshape(NODES, NODES)
            np.testing.assert_allclose(found, expected[name], rtol=1e-9, atol=1e-12, err_msg=name)


class TestAsNetworkx:
    plain = nx.gnm_random_graph(40, 130, seed=3)
    plain.add_nodes_from(range(40, 43))
    graph = Graph.from_arrays(np.array(plain.edges), num_nodes=43)
    pairs = np.array([(a, b) for a in range(43) for b in range(43) if a != b])

    @pytest.mark.parametrize(
        ("method", "theirs"),
        [
            (adamic_adar, nx.adamic_adar_index),
            (resource_allocation, nx.resource_allocation_index),
            (jaccard, nx.jaccard_coefficient),
            (preferential_attachment, nx.preferential_attachment),
        ],
    )
    def test_local(self, method: Callable[..., object], theirs: Callable[..., object], way: str) -> None:
        expected = [score for _, _, score in theirs(self.plain, self.pairs.tolist())]  # type: ignore[attr-defined]
        np.testing.assert_allclose(method(self.graph, self.pairs), expected, rtol=1e-12)

    def test_common_neighbours(self, way: str) -> None:
        expected = [len(list(nx.common_neighbors(self.plain, a, b))) for a, b in self.pairs.tolist()]
        assert common_neighbours(self.graph, self.pairs).tolist() == expected

    def test_katz(self, way: str) -> None:
        """The walks that end at a node, from all others and itself, are its Katz centrality less one."""
        everything = np.array([(a, b) for a in range(43) for b in range(43)])
        sums = katz(self.graph, everything, beta=0.05).reshape(43, 43).sum(1)
        expected = nx.katz_centrality_numpy(self.plain, alpha=0.05, beta=1.0)
        expected = np.array([expected[node] for node in range(43)])
        np.testing.assert_allclose((1 + sums) / np.linalg.norm(1 + sums), expected / np.linalg.norm(expected))

    def test_personalised_pagerank(self, way: str) -> None:
        ranks = np.zeros((43, 43))
        for node in range(43):
            found = nx.pagerank(self.plain, alpha=0.85, personalization={node: 1.0}, tol=1e-13, max_iter=1000)
            ranks[node] = [found[other] for other in range(43)]
        expected = ranks + ranks.T
        found = personalised_pagerank(self.graph, self.pairs)
        np.testing.assert_allclose(found, expected[self.pairs[:, 0], self.pairs[:, 1]], atol=1e-9)


class TestByHand:
    """A path 0 - 1 - 2, and 3 apart."""

    path = Graph.from_arrays([(0, 1), (1, 2)], num_nodes=4)

    def test_jaccard(self, way: str) -> None:
        assert jaccard(self.path, [(0, 2), (0, 1), (1, 1), (3, 3), (0, 3)]).tolist() == [1, 0, 1, 0, 0]  # type: ignore[arg-type]

    def test_preferential_attachment(self) -> None:
        assert preferential_attachment(self.path, np.array([(0, 1), (2, 1), (1, 1), (1, 3)])).tolist() == [2, 2, 4, 0]

    def test_katz(self, way: str) -> None:
        """Of the walks from 0 to 2 there are 2^(l/2 - 1) of even length l: Σ β² (2β²)^n = β² / (1 - 2β²)."""
        for beta in (0.5, 1e-4):
            found = katz(self.path, np.array([(0, 2), (0, 1), (2, 3)]), beta=beta)
            rest = 1 - 2 * beta**2
            np.testing.assert_allclose(found, [beta**2 / rest, beta / rest, 0], rtol=1e-9)

    def test_personalised_pagerank(self, way: str) -> None:
        """From 0: x₁ = .85 (x₀ + x₂), x₀ = .15 + .85 x₁ / 2, x₂ = .85 x₁ / 2."""
        one = 0.85 * 0.15 / (1 - 0.85**2)
        found = personalised_pagerank(self.path, np.array([(0, 2), (3, 3), (0, 3)]))
        np.testing.assert_allclose(found, [2 * 0.85 * one / 2, 2, 0], rtol=1e-8)

    def test_a_link_both_ways_is_one(self, way: str) -> None:
        both = Graph.from_arrays([(0, 1), (1, 0), (1, 2), (2, 1)], num_nodes=4, directed=True)
        pairs = np.array([(0, 1), (0, 2), (1, 1), (3, 0)])
        for name, method in ALL.items():
            np.testing.assert_array_equal(method(both, pairs), method(self.path, pairs), err_msg=name)

    def test_sides_of_a_bipartite_graph_share_no_neighbour(self, way: str) -> None:
        graph = Graph.from_arrays([(0, 2), (0, 3), (1, 3)], num_nodes=4, sides=[0, 0, 1, 1])
        pairs = np.array([(1, 2), (0, 1)])
        assert common_neighbours(graph, pairs).tolist() == [0, 1]
        assert katz(graph, pairs)[0] > 0  # by the walk 1 - 3 - 0 - 2


@EACH
class TestAnyPairs:
    graph = Graph.from_arrays(nx.gnm_random_graph(30, 70, seed=1).edges, num_nodes=30)

    def test_order_and_repetition_change_nothing(self, method, way: str) -> None:  # type: ignore[no-untyped-def]
        pairs = np.random.default_rng(0).integers(0, 30, (200, 2))
        found = method(self.graph, pairs)
        assert found.shape == (200,) and found.dtype == np.float64
        np.testing.assert_array_equal(found, method(self.graph, pairs[:, ::-1]))
        np.testing.assert_array_equal(np.tile(found, 2), method(self.graph, np.concatenate([pairs, pairs])))
        np.testing.assert_allclose(found[:3], method(self.graph, pairs[:3]), rtol=1e-9)

    def test_no_pairs(self, method, way: str) -> None:  # type: ignore[no-untyped-def]
        assert method(self.graph, np.empty((0, 2), dtype=np.int64)).shape == (0,)

    def test_no_links(self, method, way: str) -> None:  # type: ignore[no-untyped-def]
        empty = Graph.from_arrays(np.empty((0, 2), dtype=np.int64), num_nodes=4)
        assert method(empty, np.array([(0, 1), (2, 3)])).tolist() == [0, 0]
        assert method(empty, np.array([(2, 2)])).tolist() == [2.0 if method is personalised_pagerank else 0.0]

    def test_unreachable_is_nought(self, method, way: str) -> None:  # type: ignore[no-untyped-def]
        halves = Graph.from_arrays([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)], num_nodes=6)
        found = method(halves, np.array([(0, 3), (5, 2)]))
        assert found.tolist() == ([4, 4] if method is preferential_attachment else [0, 0])

    def test_rows_beyond_the_graph(self, method) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(InputError, match=r"'pairs' needs rows between 0 and 29 \(got 0 to 30\)"):
            method(self.graph, np.array([(0, 30)]))
        with pytest.raises(InputError, match=r"'pairs' needs to be pairs of rows, \(k, 2\) \(got shape \(2, 3\)\)"):
            method(self.graph, np.zeros((2, 3), dtype=np.int64))


class TestKatz:
    graph = Graph.from_arrays(nx.gnm_random_graph(30, 90, seed=2).edges, num_nodes=30)
    pairs = np.array([(a, b) for a in range(30) for b in range(a)])

    def test_both_ways_agree_relatively_even_for_rare_walks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        line = Graph.from_arrays([(i, i + 1) for i in range(40)], num_nodes=41)
        pairs = np.array([(0, 3), (0, 5), (0, 40)])
        found = {}
        for forced in ("sparse", "dense"):
            with monkeypatch.context() as patch:
                force_way(patch, forced)
                found[forced] = katz(line, pairs, beta=1e-3)
        np.testing.assert_allclose(found["dense"], found["sparse"], rtol=1e-9)
        np.testing.assert_allclose(found["dense"], [1e-9, 1e-15, 1e-120], rtol=1e-4)

    @pytest.mark.parametrize("share", [0.01, 0.5, 0.95])
    def test_share(self, share: float, way: str) -> None:
        expected = by_algebra(self.graph, share=share)["katz"]
        found = katz(self.graph, self.pairs, share=share)
        np.testing.assert_allclose(found, expected[self.pairs[:, 0], self.pairs[:, 1]], rtol=1e-8)

    def test_a_beta_for_which_the_sum_is_infinite(self) -> None:
        limit = 1 / np.linalg.eigvalsh(matrix_of(self.graph))[-1]
        assert np.isfinite(katz(self.graph, self.pairs, beta=0.999 * limit)).all()
        with pytest.raises(InputError, match=rf"'beta' needs to be below 1 / spectral radius = {limit:.4g} \(got "):
            katz(self.graph, self.pairs, beta=1.001 * limit)

    @pytest.mark.parametrize("share", [0.0, 1.0, -1.0, math.nan])
    def test_share_refused(self, share: float) -> None:
        with pytest.raises(InputError, match="'share' needs to lie between 0 and 1"):
            katz(self.graph, self.pairs, share=share)

    @pytest.mark.parametrize("beta", [0.0, -0.1, math.nan])
    def test_beta_refused(self, beta: float) -> None:
        with pytest.raises(InputError, match="'beta' needs to be positive"):
            katz(self.graph, self.pairs, beta=beta)


class TestPagerank:
    graph = TestKatz.graph

    @pytest.mark.parametrize("restart", [0.05, 0.5, 0.9])
    def test_restart(self, restart: float, way: str) -> None:
        expected = by_algebra(self.graph, restart=restart)["ppr"]
        pairs = TestKatz.pairs
        found = personalised_pagerank(self.graph, pairs, restart=restart)
        np.testing.assert_allclose(found, expected[pairs[:, 0], pairs[:, 1]], rtol=0, atol=1e-12)

    @pytest.mark.parametrize("restart", [0.0, 1.0, -0.5])
    def test_refused(self, restart: float) -> None:
        with pytest.raises(InputError, match=rf"'restart' needs to lie between 0 and 1 \(got {restart}\)"):
            personalised_pagerank(self.graph, TestKatz.pairs, restart=restart)


class TestPagerankRows:
    @pytest.mark.parametrize(("error", "restart"), [(1e-14, 0.15), (1e-9, 0.3)])
    @given(graph=graphs())
    def test_both_ways_add_up_to_the_score_of_pairs(self, error: float, restart: float, graph: Graph) -> None:
        rows = pagerank_rows(neighbours_of(graph), np.arange(NODES), error=error, restart=restart)
        both = personalised_pagerank(graph, EVERY_PAIR, restart=restart).reshape(NODES, NODES)
        np.testing.assert_allclose(rows + rows.T, both, atol=20 * error)
        np.testing.assert_allclose(rows.sum(1), 1.0, atol=100 * error)


class TestSpectralRadius:
    @pytest.mark.parametrize(
        ("plain", "radius"),
        [
            (nx.complete_graph(20), 19),
            (nx.star_graph(16), 4),
            (nx.cycle_graph(50), 2),
            (nx.complete_bipartite_graph(4, 9), 6),
            (nx.disjoint_union(nx.complete_graph(4), nx.star_graph(100)), 10),
            (nx.disjoint_union(nx.complete_graph(12), nx.star_graph(100)), 11),
            (nx.path_graph(60), 2 * math.cos(math.pi / 61)),
            (nx.empty_graph(5), 0),
        ],
    )
    def test_known_graphs(self, plain: nx.Graph, radius: float) -> None:
        edges = np.array(plain.edges, dtype=np.int64).reshape(-1, 2)
        around = neighbours_of(Graph.from_arrays(edges, num_nodes=len(plain)))
        assert spectral_radius(around) == pytest.approx(radius, rel=1e-9)

    @given(graph=graphs())
    def test_random_graphs(self, graph: Graph) -> None:
        expected = np.linalg.eigvalsh(matrix_of(graph))[-1]
        assert spectral_radius(neighbours_of(graph)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


class TestEstimate:
    """The dense way is for many pairs of a small dense graph."""

    def chosen(self, num_nodes: int, num_edges: int, num_pairs: int) -> bool:
        generator = np.random.default_rng(0)
        edges = np.sort(generator.integers(0, num_nodes, (num_edges, 2)), axis=1)
        edges = np.unique(edges[edges[:, 0] < edges[:, 1]], axis=0)
        graph = Graph.from_arrays(edges, num_nodes=num_nodes)
        pairs = distinct_pairs(graph, generator.integers(0, num_nodes, (num_pairs, 2)))
        return heuristics._product_is_faster(neighbours_of(graph), pairs)

    def test_choices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.chosen(1000, 100_000, 100_000)
        assert not self.chosen(5000, 20_000, 20_000)  # sparse
        assert not self.chosen(1000, 100_000, 50)  # few pairs
        monkeypatch.setattr(neighbours, "DENSE_BYTES", 1000**2 * 8 - 1)
        assert not self.chosen(1000, 100_000, 100_000)  # too large
