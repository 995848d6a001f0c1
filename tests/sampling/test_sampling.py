"""Non-links: never a link, never a self pair, all of them alike; and their mean."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import combinations, permutations, product

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import Tensor

from yinyan.errors import TrainingError
from yinyan.model.expected_negatives import expected_adjacency, expected_rates
from yinyan.sampling import KnownPairs, distinct_pairs, draw_pairs

Pair = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """A small graph with its links and non-links listed."""

    num_nodes: int
    num_left: int | None
    directed: bool
    links: list[Pair]
    non_links: set[Pair]

    @property
    def known(self) -> KnownPairs:
        pairs = torch.tensor(self.links, dtype=torch.long).reshape(-1, 2)
        return KnownPairs.from_pairs(pairs, self.num_nodes, self.num_left, directed=self.directed)

    def named(self, pairs: Tensor) -> list[Pair]:
        """Pairs as this graph lists them: sorted, unless it is directed."""
        return [(a, b) if self.directed else (min(a, b), max(a, b)) for a, b in pairs.tolist()]


@st.composite
def cases(draw: st.DrawFn, *, fullness: float | None = None) -> Case:
    num_nodes = draw(st.integers(2, 9))
    kind = draw(st.sampled_from(["undirected", "directed", "bipartite"]))
    num_left = draw(st.integers(1, num_nodes - 1)) if kind == "bipartite" else None
    if num_left is not None:
        possible = list(product(range(num_left), range(num_left, num_nodes)))
    else:
        possible = list((permutations if kind == "directed" else combinations)(range(num_nodes), 2))
    shuffled = draw(st.permutations(possible))
    share = draw(st.sampled_from([0.0, 0.3, 0.8, 0.95, 1.0])) if fullness is None else fullness
    links = shuffled[: round(share * len(possible))]
    return Case(num_nodes, num_left, kind == "directed", links, set(possible) - set(links))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def complete(num_nodes: int) -> Tensor:
    return torch.triu_indices(num_nodes, num_nodes, offset=1).T


class TestDrawPairs:
    @given(cases())
    def test_draws_non_links_only(self, case: Case) -> None:
        assume(case.non_links)
        pairs = draw_pairs(case.known, 20, generator())
        assert pairs.shape == (20, 2)
        assert set(case.named(pairs)) <= case.non_links

    @given(cases(), st.data())
    def test_keeps_sources_that_have_a_non_link(self, case: Case, data: st.DataObject) -> None:
        assume(case.non_links)
        sources = torch.tensor(data.draw(st.lists(st.integers(0, case.num_nodes - 1), min_size=10, max_size=10)))
        pairs = draw_pairs(case.known, 10, generator(), sources=sources)
        assert set(case.named(pairs)) <= case.non_links
        free = {a for a, _ in case.non_links} | (set() if case.directed else {b for _, b in case.non_links})
        for source, (first, _) in zip(sources.tolist(), pairs.tolist(), strict=True):
            assert first == source or source not in free

    @given(cases(fullness=1.0))
    def test_complete_graph_is_refused(self, case: Case) -> None:
        with pytest.raises(TrainingError, match="complete: every pair is linked"):
            draw_pairs(case.known, 3, generator())
        with pytest.raises(TrainingError, match="complete: every pair is linked"):
            draw_pairs(case.known, 3, generator(), sources=torch.zeros(3, dtype=torch.long))

    @given(cases(), st.data())
    def test_hidden_links_can_be_drawn(self, case: Case, data: st.DataObject) -> None:
        assume(case.links)
        chosen = data.draw(st.lists(st.booleans(), min_size=len(case.links), max_size=len(case.links)))
        hidden = torch.tensor(chosen)
        drawable = case.non_links | {link for link, is_hidden in zip(case.links, chosen, strict=True) if is_hidden}
        assume(drawable)
        drawn = case.named(draw_pairs(case.known, 40 * len(drawable), generator(), hidden=hidden))
        assert set(drawn) == drawable

    def test_bipartite_pairs_cross_sides_from_either_source(self) -> None:
        known = KnownPairs.from_pairs(torch.tensor([[0, 4], [2, 5]]), 6, 4)
        pairs = draw_pairs(known, 200, generator())
        assert (pairs[:, 0] < 4).all()
        assert (pairs[:, 1] >= 4).all()
        sources = torch.tensor([0, 5] * 50)
        kept = draw_pairs(known, 100, generator(), sources=sources)
        assert torch.equal(kept[:, 0], sources)
        assert ((kept[:, 0] < 4) != (kept[:, 1] < 4)).all()

    def test_directed_graph_allows_the_reverse(self) -> None:
        links = torch.tensor([[0, 1], [1, 2], [2, 0]])
        directed = KnownPairs.from_pairs(links, 3, directed=True)
        assert {tuple(p) for p in draw_pairs(directed, 100, generator()).tolist()} == {(1, 0), (2, 1), (0, 2)}
        with pytest.raises(TrainingError, match="complete"):
            draw_pairs(KnownPairs.from_pairs(links, 3), 100, generator())

    def test_finds_the_one_non_link_of_a_nearly_complete_graph(self) -> None:
        pairs = complete(60)
        known = KnownPairs.from_pairs(pairs[torch.arange(len(pairs)) != 777], 60)
        drawn = draw_pairs(known, 50, generator())
        assert torch.equal(drawn.sort(1).values, pairs[777].expand(50, 2))

    def test_a_source_linked_to_all_falls_back_on_a_global_draw(self) -> None:
        star = KnownPairs.from_pairs(torch.tensor([[0, j] for j in range(1, 6)]), 6)
        drawn = draw_pairs(star, 30, generator(), sources=torch.zeros(30, dtype=torch.long))
        assert (drawn > 0).all()
        assert (drawn[:, 0] != drawn[:, 1]).all()

    def test_too_large_and_too_full_is_refused_in_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("yinyan.sampling.samplers._ENUMERABLE", 4)
        with pytest.raises(TrainingError, match=r"too rare to sample \(5 nodes, 10 links\)"):
            draw_pairs(KnownPairs.from_pairs(complete(5), 5), 3, generator())

    def test_same_seed_same_pairs(self) -> None:
        known = KnownPairs.from_pairs(torch.tensor([[0, 1]]), 50)
        first, again, other = (draw_pairs(known, 30, generator(seed)) for seed in (1, 1, 2))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)

    def test_no_links_known(self) -> None:
        known = KnownPairs.from_pairs(torch.empty(0, 2, dtype=torch.long), 3)
        pairs = draw_pairs(known, 100, generator())
        assert (pairs[:, 0] != pairs[:, 1]).all()

    def test_draws_nothing_if_nothing_is_asked_for(self) -> None:
        assert draw_pairs(KnownPairs.from_pairs(complete(3), 3), 0, generator()).shape == (0, 2)


class TestKnownPairs:
    def test_undirected_knows_both_orders(self) -> None:
        known = KnownPairs.from_pairs(torch.tensor([[3, 1], [0, 2]]), 4)
        asked = torch.tensor([[1, 3], [3, 1], [2, 0], [0, 1], [3, 3]])
        assert known.contains(asked).tolist() == [True, True, True, False, False]

    def test_directed_knows_one_order(self) -> None:
        known = KnownPairs.from_pairs(torch.tensor([[3, 1], [0, 2]]), 4, directed=True)
        assert known.contains(torch.tensor([[1, 3], [3, 1], [2, 0], [0, 2]])).tolist() == [False, True, False, True]

    def test_hidden_is_in_the_order_given(self) -> None:
        known = KnownPairs.from_pairs(torch.tensor([[2, 3], [0, 1]]), 4)
        asked = torch.tensor([[0, 1], [2, 3]])
        assert known.contains(asked, torch.tensor([True, False])).tolist() == [True, False]

    def test_to_keeps_everything(self) -> None:
        known = KnownPairs.from_pairs(torch.tensor([[0, 2]]), 4, 2, directed=False).to(torch.device("cpu"))
        assert known.num_left == 2
        assert known.contains(torch.tensor([[2, 0], [1, 2]])).tolist() == [True, False]


class TestDistinctPairs:
    @given(cases(), st.integers(0, 50))
    def test_distinct_and_as_many_as_there_are(self, case: Case, count: int) -> None:
        assume(case.non_links)
        named = case.named(distinct_pairs(case.known, count, generator()))
        assert len(named) == len(set(named)) == min(count, len(case.non_links))
        assert set(named) <= case.non_links

    def test_distinct_on_a_graph_too_large_to_list(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("yinyan.sampling.samplers._ENUMERABLE", 0)
        known = KnownPairs.from_pairs(torch.tensor([[0, 1], [1, 2]]), 12)
        pairs = distinct_pairs(known, 60, generator())
        assert len({tuple(sorted(pair)) for pair in pairs.tolist()}) == 60
        assert not known.contains(pairs).any()
        assert distinct_pairs(known, 500, generator()).shape == (64, 2)  # 66 pairs, two of them links

    def test_complete_graph_is_refused(self) -> None:
        with pytest.raises(TrainingError, match="complete: every pair is linked"):
            distinct_pairs(KnownPairs.from_pairs(complete(5), 5), 1, generator())

    def test_asking_for_far_more_than_there_are_is_quick(self) -> None:
        """Rejection took five minutes to list the five non-links of this graph."""
        pairs = complete(30)
        known = KnownPairs.from_pairs(pairs[5:], 30)
        started = time.perf_counter()
        assert distinct_pairs(known, 20_000, generator()).shape == (5, 2)
        assert time.perf_counter() - started < 2.0

    @pytest.mark.parametrize("listed", [True, False])
    def test_no_pair_is_favoured(self, listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if not listed:
            monkeypatch.setattr("yinyan.sampling.samplers._ENUMERABLE", 0)
        known = KnownPairs.from_pairs(torch.tensor([[0, 1], [2, 3], [1, 4]]), 6)
        source, counts, rounds = generator(), {}, 1500
        for _ in range(rounds):
            for pair in distinct_pairs(known, 4, source).tolist():
                key = (min(pair), max(pair))
                counts[key] = counts.get(key, 0) + 1
        assert len(counts) == 12
        expected = rounds * 4 / 12
        assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())


class TestUniformity:
    """Chi-square tests with a fixed seed: the statistic of a fair sampler exceeds the bound once in 10,000."""

    @staticmethod
    def assert_uniform(counts: list[int], options: int) -> None:
        assert len(counts) == options
        mean = sum(counts) / options
        assert sum((count - mean) ** 2 for count in counts) / mean < chi2.ppf(0.9999, options - 1)

    @pytest.mark.parametrize(
        ("num_left", "directed", "options"), [(None, False, 28 - 3), (None, True, 56 - 3), (3, False, 15 - 3)]
    )
    def test_global(self, num_left: int | None, directed: bool, options: int) -> None:
        known = KnownPairs.from_pairs(torch.tensor([[0, 5], [1, 4], [2, 7]]), 8, num_left, directed=directed)
        pairs = draw_pairs(known, 20_000, generator())
        ordered = pairs if directed else pairs.sort(1).values
        self.assert_uniform(ordered.unique(dim=0, return_counts=True)[1].tolist(), options)

    def test_source(self) -> None:
        known = KnownPairs.from_pairs(torch.tensor([[0, 5], [1, 0], [2, 7]]), 8)
        drawn = draw_pairs(known, 20_000, generator(), sources=torch.zeros(20_000, dtype=torch.long))
        self.assert_uniform(drawn[:, 1].unique(return_counts=True)[1].tolist(), 5)

    def test_last_resort(self) -> None:
        pairs = complete(60)
        known = KnownPairs.from_pairs(pairs[4:], 60)
        drawn = draw_pairs(known, 2000, generator()).sort(1).values
        self.assert_uniform(drawn.unique(dim=0, return_counts=True)[1].tolist(), 4)


class TestExpected:
    LINKS = torch.tensor([[0, 3], [0, 4], [0, 5], [1, 3], [2, 5]])  # crosses sides if the first three are the left
    NODES = 7  # sides of three and four: the last has no link

    def degrees(self) -> Tensor:
        return torch.bincount(self.LINKS.flatten(), minlength=self.NODES).double()

    def dense(self, sampler: str, num_left: int | None) -> Tensor:
        rates = expected_rates(self.degrees(), sampler, num_left)  # type: ignore[arg-type]
        ones = torch.ones(self.NODES, dtype=torch.float64)
        return expected_adjacency(rates, ones, num_left).product(torch.eye(self.NODES, dtype=torch.float64))

    @pytest.mark.parametrize("num_left", [None, 3])
    @pytest.mark.parametrize("sampler", ["global", "source"])
    def test_is_the_mean_of_sampled_graphs(self, sampler: str, num_left: int | None) -> None:
        rounds, draws = 8000, generator()
        links = self.LINKS.repeat(rounds, 1)
        sources = None
        if sampler == "source":
            sources = links.gather(1, torch.randint(2, (len(links), 1), generator=draws))[:, 0]
        # nothing is known, so nothing is rejected: the mean leaves out that a link cannot be drawn
        none = KnownPairs.from_pairs(torch.empty(0, 2, dtype=torch.long), self.NODES, num_left)
        pairs = draw_pairs(none, len(links), draws, sources=sources)
        counted = torch.zeros(self.NODES, self.NODES, dtype=torch.float64)
        for first, second in (pairs.T, pairs.T.flip(0)):
            counted.index_put_((first, second), torch.ones(len(pairs), dtype=torch.float64), accumulate=True)
        torch.testing.assert_close(self.dense(sampler, num_left), counted / rounds, rtol=0, atol=0.03)

    @pytest.mark.parametrize("num_left", [None, 3])
    @pytest.mark.parametrize("sampler", ["global", "source"])
    def test_has_as_many_ends_as_the_links_and_no_self_pairs(self, sampler: str, num_left: int | None) -> None:
        mean = self.dense(sampler, num_left)
        assert float(mean.sum()) == pytest.approx(2 * len(self.LINKS))
        torch.testing.assert_close(mean, mean.T)
        torch.testing.assert_close(mean.diag(), torch.zeros(self.NODES, dtype=torch.float64))
        if num_left is not None:
            torch.testing.assert_close(mean[:3, :3], torch.zeros(3, 3, dtype=torch.float64))
            torch.testing.assert_close(mean[3:, 3:], torch.zeros(4, 4, dtype=torch.float64))

    def test_source_rates_follow_the_degrees(self) -> None:
        mean, degrees = self.dense("source", None), self.degrees()
        for i, j in combinations(range(self.NODES), 2):
            assert float(mean[i, j]) == pytest.approx(float(degrees[i] + degrees[j]) / (2 * (self.NODES - 1)))

    def test_global_closed_form(self) -> None:
        """L̃⁻ Y = n/(n-1) (Y - mean Y)."""
        n, y = self.NODES, torch.randn(self.NODES, 3, dtype=torch.float64)
        rates = expected_rates(self.degrees(), "global", None)
        ones = torch.ones(n, dtype=torch.float64)
        degrees = expected_adjacency(rates, ones, None).product(ones[:, None])[:, 0]
        adjacency = expected_adjacency(rates, degrees.rsqrt(), None)
        torch.testing.assert_close(y - adjacency.product(y), n / (n - 1) * (y - y.mean(0)))

    @pytest.mark.parametrize("num_left", [None, 3])
    def test_scale_multiplies_both_sides(self, num_left: int | None) -> None:
        scale, eye = torch.rand(self.NODES).double(), torch.eye(self.NODES, dtype=torch.float64)
        rates = expected_rates(self.degrees(), "source", num_left)
        got = expected_adjacency(rates, scale, num_left).product(eye)
        torch.testing.assert_close(got, scale[:, None] * self.dense("source", num_left) * scale)


def test_the_non_links_of_a_split_stay_what_they_were() -> None:
    """Published results stand on them: another way of drawing is for training alone."""
    known = KnownPairs.from_pairs(torch.tensor([[0, 1], [1, 2], [5, 9]]), 1_000)
    drawn = distinct_pairs(known, 5, torch.Generator().manual_seed(3))
    assert drawn.tolist() == [[280, 986], [48, 840], [525, 737], [667, 981], [360, 739]]
