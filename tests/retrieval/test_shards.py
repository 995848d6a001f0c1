"""Search over shards: the same rows, scores and order as over all rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from yinyan.model.decoder import build_decoder
from yinyan.retrieval.exact import ExactSearch, TopK
from yinyan.retrieval.shards import Question, Shard, ShardedSearch, shard_ranges
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import DecoderSettings

NODES, SIZE = 60, 6


@given(num_rows=st.integers(0, 50), shards=st.integers(1, 60))
def test_ranges_cover_all_rows_once(num_rows: int, shards: int) -> None:
    spans = shard_ranges(num_rows, shards)
    assert [row for first, last in spans for row in range(first, last)] == list(range(num_rows))
    assert len(spans) == max(1, min(shards, num_rows))
    lengths = [last - first for first, last in spans]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("shards", [1, 3, 7])
@pytest.mark.parametrize("kind", ["hadamard", "dot"])
@pytest.mark.parametrize("pool", [None, np.arange(25, 60), np.arange(0, 60, 3), np.arange(2)])
def test_equals_exact_search(kind: str, shards: int, pool: np.ndarray[tuple[int], np.dtype[np.int64]] | None) -> None:
    torch.manual_seed(0)
    sketch = 4 if kind == "hadamard" else 0
    decoder = build_decoder(DecoderSettings(kind=kind, width=8), SIZE, directed=False, sketch_size=sketch)  # type: ignore[arg-type]
    y = torch.randn(NODES, SIZE + (3 * sketch + 1 if sketch else 0)).abs()
    y[40:] = y[20:40]  # equal scores in different shards: the order of rows decides
    parts = [Shard(decoder, y[first:last], first) for first, last in shard_ranges(NODES, shards)]
    search = ShardedSearch(lambda question: [part.answer(question) for part in parts])
    sources = np.array([0, 7, 59])

    def excluded(row: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([row + 1, 30, 50]) % NODES

    found = search.top_k(Snapshot.of(y), sources, 9, excluded, pool)
    expected = ExactSearch(decoder).top_k(Snapshot.of(y), sources, 9, excluded, pool)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.rows.tolist() == theirs.rows.tolist()
        assert ours.scores.tolist() == theirs.scores.tolist()


def test_a_side_of_a_bipartite_graph_is_sent_by_its_bounds() -> None:
    asked: list[Question] = []

    def ask(question: Question) -> list[list[TopK]]:
        asked.append(question)
        return [[TopK(np.array([4]), np.array([1.0], np.float32))]]

    ShardedSearch(ask).top_k(Snapshot.of(torch.ones(10, 3)), np.array([0]), 1, None, np.arange(4, 10))
    ShardedSearch(ask).top_k(Snapshot.of(torch.ones(10, 3)), np.array([0]), 1, None, np.array([4, 6]))
    assert asked[0].pool == (4, 10)
    assert isinstance(asked[1].pool, np.ndarray)
