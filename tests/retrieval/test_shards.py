"""Shards in one process: exact answers and counts are those of all rows; what a search misses is measured."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from yinyan import Graph
from yinyan.errors import SettingsError
from yinyan.model.decoder import Decoder, build_decoder
from yinyan.model.reranking import Reranker, Reranking
from yinyan.model.shared_neighbours import CompressedLists
from yinyan.retrieval import budgets, building, choice
from yinyan.retrieval.budgets import Budget, recall_of
from yinyan.retrieval.choice import Chooser, estimated_costs
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.ranks import Listing, ranks_of
from yinyan.retrieval.scorer import Scorer
from yinyan.retrieval.sharded_index import ShardedIndex, build_sharded_index
from yinyan.retrieval.shards import Shard, ShardedProbing, ShardedSearch, shard_ranges
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import DecoderSettings

N, SIZE = 6000, 16


@pytest.fixture(scope="module")
def graph() -> Graph:
    edges = np.random.default_rng(1).integers(0, N, size=(4 * N, 2))
    return Graph.from_arrays(edges, num_nodes=N)


@pytest.fixture(scope="module")
def rows() -> torch.Tensor:
    """Groups of rows, so that a search has something to find."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(40, SIZE, generator=generator)
    return centres[torch.arange(N) % 40] + 0.3 * torch.randn(N, SIZE, generator=generator)


def decoder_of(kind: str) -> Decoder:
    torch.manual_seed(2)
    return build_decoder(DecoderSettings(kind=kind, width=16), SIZE, directed=False).eval()  # type: ignore[arg-type]


def sharded(decoder: Decoder, rows: torch.Tensor, count: int) -> tuple[ShardedSearch, list[Shard]]:
    """Shards that are sent their questions and answers as in another process."""
    ranges = shard_ranges(len(rows), count)
    shards = [Shard(decoder, rows[first:last], first) for first, last in ranges]

    def ask(question: Any) -> list[Any]:
        return [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(question)).put_to(shard))) for shard in shards]

    return ShardedSearch(ask, ranges), shards


def linked(graph: Graph) -> Any:
    return lambda row: graph.neighbours(row)


@pytest.mark.parametrize("kind", ["hadamard", "dot", "distance"])
@pytest.mark.parametrize("pool", [None, np.arange(2500, N), np.arange(0, N, 7)], ids=["all", "range", "some"])
def test_exact_answers_and_counts_are_those_of_all_rows(
    kind: str, pool: NDArray[np.int64] | None, graph: Graph, rows: torch.Tensor
) -> None:
    decoder, snapshot, sources = decoder_of(kind), Snapshot.of(rows), np.array([0, 2999, 3000, 5999])
    whole, (search, _) = ExactSearch(decoder), sharded(decoder, rows, 3)
    expected = whole.top_k(snapshot, sources, 30, linked(graph), pool)
    found = search.top_k(snapshot, sources, 30, linked(graph), pool)
    for one, other in zip(expected, found, strict=True):
        assert np.array_equal(one.rows, other.rows) and np.array_equal(one.scores, other.scores)
    bars = [top.scores[[0, 5, 29]] for top in expected]
    out = [np.array([source]) for source in sources.tolist()]
    counts = search.reaching(snapshot, sources, bars, out, pool)
    assert [c.tolist() for c in counts] == [c.tolist() for c in whole.reaching(snapshot, sources, bars, out, pool)]
    assert search.top_k(snapshot, sources[:0], 30) == [] and search.reaching(snapshot, sources[:0], [], []) == []


@pytest.mark.parametrize("kind", ["hadamard", "dot"])
@pytest.mark.parametrize("is_reranked", [False, True])
def test_ranks_are_those_of_all_rows(kind: str, is_reranked: bool, graph: Graph, rows: torch.Tensor) -> None:
    decoder, snapshot = decoder_of(kind), Snapshot.of(rows)
    search, _ = sharded(decoder, rows, 3)
    reranking = Reranking(weights=(0.5, 1.0, 1.0, 0.1, 2.0), mrr_before=0.0, mrr_after=1.0)
    listing = None
    if is_reranked:
        listing = Listing(Reranker(reranking, CompressedLists.from_pairs(graph.edges, N)), linked(graph))
    sources = np.array([0, 2999, 5999])
    own = ExactSearch(decoder).top_k(snapshot, sources, 120, linked(graph))
    relevant = [np.sort(top.rows[[0, 3, 60, 99, 101, 119]]) for top in own]  # in the shortlist, and behind it
    barred = [graph.neighbours(source) for source in sources.tolist()]
    asked = (Scorer(decoder), snapshot, sources, relevant, barred, None, listing)
    expected, found = ranks_of(ExactSearch(decoder), *asked), ranks_of(search, *asked)
    assert [ranks.tolist() for ranks in found] == [ranks.tolist() for ranks in expected]
    places = [[1, 4, 61, 100, 102, 120]] * 3
    assert ([ranks.tolist() for ranks in found] == places) != is_reranked, "reranking moves some of them"
    assert all(ranks[-2:].tolist() == [102, 120] for ranks in found), "not those behind the shortlist"


def test_a_pool_outside_of_a_shard_finds_nothing_there(rows: torch.Tensor) -> None:
    decoder, snapshot, pool = decoder_of("hadamard"), Snapshot.of(rows), np.array([5, 11])
    search, _ = sharded(decoder, rows, 4)
    (found,) = search.top_k(snapshot, np.array([5]), 10, None, pool)
    assert found.rows.tolist() == [11]


@pytest.mark.parametrize("kind", ["hadamard", "dot"])
def test_an_index_over_shards_measures_merged_answers(kind: str, graph: Graph, rows: torch.Tensor) -> None:
    decoder, lines = decoder_of(kind), list[str]()
    search, _ = sharded(decoder, rows, 2)
    chosen = "mips" if kind == "dot" else "flashlight"
    made = build_sharded_index(
        graph, decoder, rows, search, kind=chosen, budget=Budget(recall=0.95, k=20), sample=32, tell=lines.append
    )
    assert isinstance(made.search, ShardedProbing) and made.metadata.kind == chosen
    assert any(line.startswith(chosen) and "recall@20" in line for line in lines), "what was measured is printed"
    sources = np.random.default_rng(9).choice(N, 200, replace=False)
    exact = ExactSearch(decoder).top_k(Snapshot.of(rows), sources, 20, linked(graph))
    found = made.top_k(sources, 20, linked(graph))
    again = recall_of(found, exact)
    assert again >= 0.9 and abs(again - made.metadata.recall_at(20)) < 0.06  # type: ignore[operator]
    assert all(np.array_equal(top.rows, np.unique(top.rows)[np.argsort(np.argsort(top.rows))]) for top in found)
    assert not any(
        np.isin(top.rows, [s, *graph.neighbours(s)]).any() for s, top in zip(sources.tolist(), found, strict=True)
    )
    assert made.metadata.bytes > N * SIZE


def test_shards_that_start_again_answer_as_before(graph: Graph, rows: torch.Tensor) -> None:
    """Their lists are made anew, at the first question for them."""
    decoder = decoder_of("hadamard")
    search, shards = sharded(decoder, rows, 2)
    made = build_sharded_index(
        graph, decoder, rows, search, kind="flashlight", budget=Budget(recall=0.9, k=10), sample=16
    )
    sources = np.arange(0, N, 100)
    before = made.top_k(sources, 10)
    shards[1] = Shard(decoder, rows[3000:], 3000)
    after = made.top_k(sources, 10)
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(before, after, strict=True))


def test_an_index_over_shards_cannot_be_kept_or_changed(graph: Graph, rows: torch.Tensor, tmp_path: Any) -> None:
    decoder = decoder_of("hadamard")
    search, _ = sharded(decoder, rows, 2)
    made = build_sharded_index(graph, decoder, rows, search, kind="exact", budget=Budget(k=5))
    assert isinstance(made, ShardedIndex) and made.measure() == 1.0
    assert made.recommend(0, k=3).ranks.tolist() == [1, 2, 3]
    for refused in (
        lambda: made.save(tmp_path),
        lambda: made.update([0], rows[:1]),
        lambda: made.remove([0]),
        made.rebuild,
    ):
        with pytest.raises(SettingsError, match="an index over shards ends with them"):
            refused()


def test_the_choice_is_that_of_one_process(graph: Graph, rows: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = decoder_of("hadamard")
    search, _ = sharded(decoder, rows, 2)
    assert Chooser(graph, decoder, rows, shards=search).choose(10**9, 5) is None, "exact below 20,000 nodes"
    monkeypatch.setattr(choice, "EXACT_BELOW", 1)
    monkeypatch.setattr(building, "EXACT_BELOW", 1)
    monkeypatch.setattr(building, "LEAST_SAMPLE", 8)
    monkeypatch.setattr(building, "_MOST_SAMPLE", 8)
    monkeypatch.setattr(budgets, "_USUAL", (1, 5))
    lines: list[str] = []
    chooser = Chooser(graph, decoder, rows, shards=search)
    assert chooser.choose(10, 5, tell=lines.append) is None and lines == [], "too few to be worth an index"
    made = chooser.choose(10**9, 5, tell=lines.append)
    assert isinstance(made, ShardedIndex) and chooser.choose(1, 5) is made
    assert "an index is built" in lines[0]


def test_shards_build_in_less_time() -> None:
    ranges = shard_ranges(10**6, 4)
    search = ShardedSearch(lambda question: [], ranges, threads=2)
    whole, parts = estimated_costs(10**6, 128, 1e6, 0.001), estimated_costs(10**6, 128, 1e6, 0.001, search)
    assert parts.build < whole.build and parts.exact == whole.exact
