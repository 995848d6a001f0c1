"""The message graph: what hides is gone, and negatives are what they claim to be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from yinyan.model.energy import EnergyTerms, Laplacian, energy, gradient
from yinyan.model.messages import MessageGraph
from yinyan.settings import EncoderSettings

NODES = 9  # the last has no link
LINKS = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [1, 3], [4, 5], [5, 6], [6, 7]])
EYE = torch.eye(NODES, dtype=torch.float64)
# every setting that matters is named, so that a better default breaks no test
PINNED: dict[str, Any] = {
    "anchoring": 0.5,
    "attraction": 1.0,
    "num_negatives": 1,
    "sampler": "global",
    "expected_negatives": True,
    "margin": None,
    "self_loops": False,
}


def graph(links: Tensor = LINKS, *, weights: Tensor | None = None, num_left: int | None = None) -> MessageGraph:
    return MessageGraph.from_pairs(links, NODES, weights=weights, num_left=num_left, dtype=torch.float64)


def terms(
    messages: MessageGraph, *, seed: int = 0, hidden: Tensor | None = None, count: int = 1, **options: object
) -> EnergyTerms:
    settings = EncoderSettings(**{**PINNED, **options})  # type: ignore[arg-type]
    repulsion = torch.full((count,), 0.3, dtype=torch.float64)
    return messages.terms(settings, repulsion, torch.Generator().manual_seed(seed), hidden=hidden)


def dense(laplacian: Laplacian) -> Tensor:
    return laplacian.product(EYE)


def negative_adjacency(made: EnergyTerms, link_degrees: Tensor) -> list[Tensor]:
    """A⁻_k, undone from L̃⁻_k by the degrees D⁻ that the anchor holds."""
    repelled = 1 / made.anchor[:, 0] - link_degrees
    root = repelled.sqrt()
    plain = [root[:, None] * dense(graph) * root for graph in made.negatives]
    return [matrix.diag().diag() - matrix for matrix in plain]


DEGREES = torch.bincount(LINKS.flatten(), minlength=NODES).double()


class TestLinks:
    def test_laplacian_is_the_normalised_one(self) -> None:
        adjacency = torch.zeros(NODES, NODES, dtype=torch.float64)
        adjacency[LINKS[:, 0], LINKS[:, 1]] = adjacency[LINKS[:, 1], LINKS[:, 0]] = 1.0
        scale = torch.where(DEGREES > 0, DEGREES.rsqrt(), 0.0)
        wanted = scale[:, None] * (DEGREES.diag() - adjacency) * scale
        torch.testing.assert_close(dense(terms(graph()).links), wanted)

    def test_self_loops_enter_the_degrees_only(self) -> None:
        adjacency = torch.eye(NODES, dtype=torch.float64)
        adjacency[LINKS[:, 0], LINKS[:, 1]] = adjacency[LINKS[:, 1], LINKS[:, 0]] = 1.0
        degrees = adjacency.sum(1)
        wanted = degrees.rsqrt()[:, None] * (degrees.diag() - adjacency) * degrees.rsqrt()
        looped = terms(graph(), self_loops=True, num_negatives=0)
        torch.testing.assert_close(dense(looped.links), wanted)
        torch.testing.assert_close(looped.anchor[:, 0], 1 / degrees)

    def test_the_unit_of_weight_does_not_matter(self) -> None:
        weights = torch.arange(1.0, 9.0)
        cents, euros = graph(weights=100 * weights), graph(weights=weights)
        assert float(euros.weights.mean()) == pytest.approx(1.0)
        torch.testing.assert_close(cents.weights, euros.weights)
        assert not torch.allclose(dense(terms(euros).links), dense(terms(graph()).links))

    def test_isolated_nodes_are_zero_and_finite(self) -> None:
        made = terms(graph(), num_negatives=0)
        assert not dense(made.links)[-1].any()
        assert made.anchor[-1] == 0

    @pytest.mark.parametrize("expected", [True, False])
    def test_hidden_links_are_as_if_they_were_not(self, expected: bool) -> None:
        hidden = torch.tensor([True, False, False, True, False, True, False, False])
        options = {"expected_negatives": expected, "num_negatives": 2, "margin": 0.1}
        masked = terms(graph(), hidden=hidden, **options)
        removed = terms(graph(LINKS[~hidden]), **options)
        assert masked.num_links == removed.num_links == 5.0
        y, f = torch.randn(NODES, 3, dtype=torch.float64), torch.randn(NODES, 3, dtype=torch.float64)
        torch.testing.assert_close(energy(y, f, masked), energy(y, f, removed))
        torch.testing.assert_close(gradient(y, f, masked), gradient(y, f, removed))

    @pytest.mark.parametrize("expected", [True, False])
    def test_all_links_hidden_leaves_the_anchor_alone(self, expected: bool) -> None:
        hidden = torch.ones(len(LINKS), dtype=torch.bool)
        made = terms(graph(), hidden=hidden, expected_negatives=expected, num_negatives=2)
        y, f = torch.randn(NODES, 3, dtype=torch.float64), torch.randn(NODES, 3, dtype=torch.float64)
        assert made.num_links == 0
        assert not gradient(y, f, made).any()  # no degree, no energy

    def test_no_links_at_all(self) -> None:
        made = terms(graph(torch.empty(0, 2, dtype=torch.long)))
        y = torch.randn(NODES, 3, dtype=torch.float64)
        assert energy(y, torch.zeros_like(y), made) == 0


class TestSampledNegatives:
    @pytest.mark.parametrize("sampler", ["global", "source"])
    @pytest.mark.parametrize("count", [1, 3])
    def test_each_graph_holds_one_non_link_per_link(self, sampler: str, count: int) -> None:
        made = terms(graph(), sampler=sampler, num_negatives=count, expected_negatives=False, count=count)
        links = graph().known
        assert len(made.negatives) == count
        for adjacency in negative_adjacency(made, DEGREES):
            torch.testing.assert_close(adjacency, adjacency.round(), atol=1e-9, rtol=0)
            torch.testing.assert_close(adjacency, adjacency.T)
            assert float(adjacency.sum()) == pytest.approx(2 * len(LINKS))
            assert not links.contains(adjacency.round().nonzero()).any()

    def test_source_keeps_one_end_of_every_link(self) -> None:
        star = torch.tensor([[0, 1], [0, 2], [0, 3]])  # half of the ends are 0
        touched = []
        for seed in range(120):
            made = terms(graph(star), seed=seed, sampler="source", num_negatives=1, expected_negatives=False)
            degrees = torch.bincount(star.flatten(), minlength=NODES).double()
            repelled = torch.where(made.anchor[:, 0] > 0, 1 / made.anchor[:, 0] - degrees, 0.0)
            touched.append(repelled)
        mean = torch.stack(touched).mean(0)
        assert mean[0] == mean.max()  # 1.5 expected starts, against at most .5 + 3/8 for another node
        assert mean[0] == pytest.approx(1.5, abs=0.3)

    def test_fresh_negatives_on_every_call(self) -> None:
        messages, source = graph(), torch.Generator().manual_seed(0)
        settings, repulsion = (
            EncoderSettings(**{**PINNED, "expected_negatives": False}),
            torch.tensor([0.3], dtype=torch.float64),
        )
        first, second = (messages.terms(settings, repulsion, source) for _ in range(2))
        assert not torch.equal(dense(first.negatives[0]), dense(second.negatives[0]))

    def test_same_seed_same_negatives(self) -> None:
        first, second = (terms(graph(), seed=5, expected_negatives=False) for _ in range(2))
        assert torch.equal(dense(first.negatives[0]), dense(second.negatives[0]))

    def test_hidden_links_may_be_drawn(self) -> None:
        """What is being predicted is unknown to the sampler, too."""
        full = torch.triu_indices(4, 4, offset=1).T
        messages = MessageGraph.from_pairs(full, 4, dtype=torch.float64)
        hidden = torch.tensor([True] + [False] * 5)
        made = messages.terms(
            EncoderSettings(**{**PINNED, "expected_negatives": False}),
            torch.tensor([0.3], dtype=torch.float64),
            torch.Generator().manual_seed(0),
            hidden=hidden,
        )
        pushed = made.negatives[0].product(torch.eye(4, dtype=torch.float64))
        assert pushed[0, 1] < 0  # the pair (0, 1) is the only one that is not a visible link
        assert not pushed[2:].any()

    def test_bipartite_negatives_cross_sides(self) -> None:
        crossing = torch.tensor([[0, 4], [1, 5], [2, 6], [3, 7]])
        for sampler in ("global", "source"):
            made = terms(graph(crossing, num_left=4), sampler=sampler, num_negatives=3, expected_negatives=False)
            pushed = dense(made.negatives[0])
            assert not (pushed[:4, :4] - pushed[:4, :4].diag().diag()).any()
            assert not (pushed[4:, 4:] - pushed[4:, 4:].diag().diag()).any()
            assert pushed[:4, 4:].any()

    def test_need_a_generator(self) -> None:
        with pytest.raises(ValueError, match="need a generator"):
            graph().terms(EncoderSettings(**{**PINNED, "expected_negatives": False}), torch.tensor([0.3]), None)

    def test_one_weight_merges_the_graphs(self) -> None:
        merged = terms(graph(), num_negatives=3, expected_negatives=False, count=1)
        apart = terms(graph(), num_negatives=3, expected_negatives=False, count=3)
        assert (len(merged.negatives), len(apart.negatives)) == (1, 3)
        mean = torch.stack([dense(g) for g in apart.negatives]).mean(0)
        torch.testing.assert_close(dense(merged.negatives[0]), mean)
        torch.testing.assert_close(merged.anchor, apart.anchor)


class TestExpectedNegatives:
    def test_need_no_generator_and_do_not_vary(self) -> None:
        settings, repulsion = EncoderSettings(**PINNED), torch.tensor([0.3], dtype=torch.float64)
        first, second = (graph().terms(settings, repulsion, None) for _ in range(2))
        assert torch.equal(dense(first.negatives[0]), dense(second.negatives[0]))

    @pytest.mark.parametrize("count", [1, 4])
    def test_global_closed_form(self, count: int) -> None:
        """(1/K) Σ_k L̃⁻_k Y = (1/K) n/(n-1) (Y - mean Y)."""
        made = terms(graph(), num_negatives=count)
        y = torch.randn(NODES, 3, dtype=torch.float64)
        wanted = NODES / (NODES - 1) * (y - y.mean(0)) / count
        torch.testing.assert_close(made.negatives[0].product(y), wanted)

    @pytest.mark.parametrize("count", [1, 4])
    @pytest.mark.parametrize("sampler", ["global", "source"])
    def test_degrees_are_those_of_all_graphs(self, sampler: str, count: int) -> None:
        made = terms(graph(), num_negatives=count, sampler=sampler)
        repelled = 1 / made.anchor[:, 0] - DEGREES
        assert float(repelled.sum()) == pytest.approx(2 * count * len(LINKS))

    @pytest.mark.parametrize("sampler", ["global", "source"])
    def test_many_sampled_graphs_approach_it(self, sampler: str) -> None:
        """On a graph with few links, where rejecting them hardly counts."""
        messages = MessageGraph.from_pairs(torch.tensor([[0, 1], [0, 2], [3, 4]]), 40, dtype=torch.float64)
        y = torch.randn(40, 3, dtype=torch.float64)
        repulsion = torch.tensor([1.0], dtype=torch.float64)

        def pushed(expected: bool) -> Tensor:
            settings = EncoderSettings(sampler=sampler, num_negatives=3000, expected_negatives=expected)  # type: ignore[arg-type]
            made = messages.terms(settings, repulsion, torch.Generator().manual_seed(0))
            return 3000 * made.negatives[0].product(y)

        torch.testing.assert_close(pushed(True), pushed(False), rtol=0, atol=0.25)


def test_no_negatives() -> None:
    made = terms(graph(), num_negatives=0)
    assert made.negatives == ()
    assert made.repulsion.numel() == 0
    torch.testing.assert_close(made.anchor[:-1, 0], 1 / DEGREES[:-1])


def test_to_keeps_everything() -> None:
    moved = graph(num_left=4, links=torch.tensor([[0, 4], [1, 5]])).to(torch.device("cpu"))
    assert moved.num_nodes == NODES
    assert moved.known.num_left == 4
    assert dense(terms(moved).links).any()


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_adjacency_equals_its_definition(self_loops: bool, masked: bool, weighted: bool) -> None:
    weights = torch.arange(1.0, 9.0, dtype=torch.float64) if weighted else None
    hidden = torch.tensor([0, 1, 0, 0, 1, 0, 0, 1]).bool() if masked else None
    messages = graph(weights=weights)
    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    for place, (a, b) in enumerate(LINKS.tolist()):
        if hidden is None or not hidden[place]:
            matrix[a, b] = matrix[b, a] = messages.weights[place]
    matrix = matrix + EYE if self_loops else matrix
    degrees = matrix.sum(1)
    scale = torch.where(degrees > 0, degrees, 1.0).rsqrt()
    links, loop = messages.adjacency(hidden, self_loops=self_loops)
    assert loop.shape == (NODES, 1)
    torch.testing.assert_close(links.product(EYE) + loop * EYE, scale[:, None] * matrix * scale)
    torch.testing.assert_close(links.product(EYE).diag(), torch.zeros(NODES, dtype=torch.float64))
    assert loop[-1] == float(self_loops), "a node without links keeps its own row, if it has a loop"


def test_visible_pairs() -> None:
    hidden = torch.tensor([0, 1, 0, 0, 1, 0, 0, 1]).bool()
    assert torch.equal(graph().visible(None), LINKS)
    assert torch.equal(graph().visible(hidden), LINKS[[0, 2, 3, 5, 6]])
    assert graph().visible(torch.ones(8, dtype=torch.bool)).shape == (0, 2)


def test_expected_degrees_are_exact_on_a_large_graph() -> None:
    """Sums over all nodes lost digits in single precision."""
    num_nodes = 1_000_000
    ring = torch.stack([torch.arange(num_nodes), (torch.arange(num_nodes) + 1) % num_nodes], dim=1)
    messages = MessageGraph.from_pairs(ring, num_nodes)
    chosen = EncoderSettings(expected_negatives=True, num_negatives=1)
    _, degrees = messages._negatives(chosen, torch.ones(1), None, None, num_nodes)
    torch.testing.assert_close(degrees, torch.full((num_nodes,), 2.0), rtol=1e-6, atol=0)
