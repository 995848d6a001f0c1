"""Non-links between blocks of nodes."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from yinyan.native import graph_kernels
from yinyan.sampling import KnownPairs, blocks, draw_block_pairs, draw_pairs
from yinyan.sampling.blocks import _Plan

NODES = 64 * 64 + 17  # the least that blocks are used for, and some more, so that blocks differ in size


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_links(count: int = 40_000) -> Tensor:
    pairs = torch.randint(NODES, (count, 2), generator=generator(1))
    return pairs[pairs[:, 0] != pairs[:, 1]].sort(1).values.unique(dim=0)


@pytest.mark.usefixtures("kernels")
class TestDrawing:
    def test_neither_known_nor_self_pairs(self) -> None:
        known = KnownPairs.from_pairs(random_links(), NODES)
        pairs = draw_block_pairs(known, 50_000, generator())
        assert pairs.shape == (50_000, 2)
        assert 0 <= int(pairs.min()) <= int(pairs.max()) < NODES
        assert not bool(known.contains(pairs).any())
        assert not bool((pairs[:, 0] == pairs[:, 1]).any())

    def test_hidden_links_may_be_drawn(self) -> None:
        """A link that is hidden counts as unknown: here all are, one pair in twenty is one, and many are hit."""
        links = random_links(400_000)
        known = KnownPairs.from_pairs(links, NODES)
        hidden = torch.ones(links.shape[0], dtype=torch.bool)
        assert bool(known.contains(draw_block_pairs(known, 5_000, generator(), hidden=hidden)).any())

    def test_nodes_have_equal_chances_over_many_draws(self) -> None:
        known = KnownPairs.from_pairs(torch.empty(0, 2, dtype=torch.long), NODES)
        counts, source = torch.zeros(2, NODES), generator()
        for _ in range(100):
            for end, nodes in enumerate(draw_block_pairs(known, 4 * NODES, source).T):
                counts[end] += torch.bincount(nodes, minlength=NODES)
        for each in counts:  # second ends vary more than if drawn alone: their blocks come at random
            mean = float(each.mean())
            assert float((each - mean).square().sum() / mean) < 1.3 * chi2.ppf(0.9999, NODES - 1)
        far = (counts[0].view(-1)[: NODES // 2].sum() / counts[0].sum()).item()
        assert far == pytest.approx((NODES // 2) / NODES, abs=0.002)

    def test_ends_of_a_block_lie_in_few_blocks(self) -> None:
        known = KnownPairs.from_pairs(torch.empty(0, 2, dtype=torch.long), NODES)
        pairs = draw_block_pairs(known, 50 * NODES, generator())
        both = torch.cat([pairs, pairs.flip(1)])
        met = both[both[:, 0] == 1000, 1].unique()
        assert 60 < met.numel() <= 4 * 64

    def test_a_block_that_is_linked_throughout_is_drawn_for_elsewhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clique = torch.combinations(torch.arange(3 * 64))
        known = KnownPairs.from_pairs(clique, NODES)
        own = torch.arange(-(-NODES // 64)).repeat(2, 1)  # every block its own partner
        starts = torch.arange(own.shape[1] + 1) * NODES // own.shape[1]
        monkeypatch.setattr(_Plan, "drawn", lambda *_: _Plan(0, starts, own))
        pairs = draw_block_pairs(known, 10_000, generator())
        assert not bool(known.contains(pairs).any())

    def test_is_repeatable(self) -> None:
        known = KnownPairs.from_pairs(random_links(), NODES)
        first, second, other = (draw_block_pairs(known, 9_999, generator(seed)) for seed in (5, 5, 6))
        assert torch.equal(first, second)
        assert not torch.equal(first, other)

    @pytest.mark.parametrize(("num_nodes", "num_left"), [(100, None), (NODES, 2000)])
    def test_small_and_bipartite_graphs_are_drawn_from_globally(self, num_nodes: int, num_left: int | None) -> None:
        known = KnownPairs.from_pairs(torch.tensor([[0, num_nodes - 1]]), num_nodes, num_left)
        drawn = draw_block_pairs(known, 500, generator())
        assert torch.equal(drawn, draw_pairs(known, 500, generator()))


@pytest.mark.skipif(graph_kernels.library() is None, reason="no compiled kernels")
@pytest.mark.parametrize("places", [None, torch.tensor([0, 7, 7, 49_999, 12])])
def test_torch_draws_what_the_kernel_draws(places: Tensor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _Plan.drawn(NODES, generator(), torch.device("cpu"))
    compiled = plan.pairs(11, 50_000, places)
    monkeypatch.setattr(blocks.graph_kernels, "library", lambda: None)
    assert torch.equal(compiled, plan.pairs(11, 50_000, places))


@pytest.mark.skipif(graph_kernels.library() is None, reason="no compiled kernels")
class TestMarks:
    @pytest.mark.parametrize("num_nodes", [50, 3_000, 400_000])
    @pytest.mark.parametrize("directed", [False, True])
    def test_every_known_pair_is_suspect_and_few_others_are(self, num_nodes: int, directed: bool) -> None:
        links = torch.randint(num_nodes, (30_000, 2), generator=generator(2))
        links = links[links[:, 0] != links[:, 1]]
        links = links if directed else links.sort(1).values
        known = KnownPairs.from_pairs(links.unique(dim=0), num_nodes, directed=directed)
        marks = graph_kernels.Marks.of(known.keys, num_nodes)
        assert marks.suspects(links, num_nodes, directed=directed).tolist() == list(range(links.shape[0]))
        if num_nodes == 50:
            return  # every pair is a link
        others = torch.randint(num_nodes, (50_000, 2), generator=generator(3))
        others = others[(others[:, 0] != others[:, 1]) & ~known.contains(others)]
        assert marks.suspects(others, num_nodes, directed=directed).numel() < 0.03 * others.shape[0]
