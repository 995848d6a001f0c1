"""Exact search or an index: whichever takes less time for what is asked, and for what was asked before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.retrieval.budgets import Budget
from yinyan.retrieval.building import EXACT_BELOW, build_index, sample_size
from yinyan.retrieval.cells import num_cells
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.index import Index
from yinyan.retrieval.queries import is_covered
from yinyan.retrieval.sharded_index import build_sharded_index
from yinyan.retrieval.shards import ShardedSearch
from yinyan.retrieval.snapshot import Snapshot
from yinyan.retrieval.state import SearchState

__all__ = ["Chooser", "Costs", "Search", "checked_search", "described", "estimated_costs"]

Search = Literal["auto", "exact", "index"]
_PRODUCTS = 2.5e10  # multiplications per second of k-means and lists, measured on two cores at 200,000 nodes
_CORES = 2
_KMEANS = 6 * 32  # passes over rows per cell: see `cells`
_TRIED = 2.0  # times the exact answers of the sample: an allowance for trying efforts, not measured
_FASTER = 8  # times as fast as exact search: an assumption, below the least of retrieval.json
_TIMED = 4  # exact queries that are timed, where none was answered yet
_LEAST = 256  # sources: the sample of a build alone is half as many, so that nothing is timed for fewer


class Costs(NamedTuple):
    """Seconds, estimated from measured exact queries."""

    exact: float  # of scoring all nodes for every source
    build: float  # of an index
    search: float  # of asking it for every source

    @property
    def index_pays(self) -> bool:
        """Whether building an index and asking it takes less time than exact search."""
        return self.build + self.search < self.exact


def estimated_costs(
    num_nodes: int, columns: int, sources: float, exact_seconds: float, shards: ShardedSearch | None = None
) -> Costs:
    """What answers for so many sources cost, if an exact one takes `exact_seconds`; shards build at the same time."""
    built = num_nodes if shards is None else max(last - first for first, last in shards.ranges)
    rate = _PRODUCTS if shards is None else _PRODUCTS * shards.threads / _CORES
    cells = num_cells(built)
    sums = columns * (_KMEANS * cells * min(cells, built / 32) + built * cells)
    build = sums / rate + (1 + _TRIED) * 2 * sample_size(num_nodes) * exact_seconds
    return Costs(sources * exact_seconds, build, sources * exact_seconds / _FASTER)


def checked_search(search: str) -> str:
    """One of the three."""
    if search not in get_args(Search):
        raise SettingsError(f"'search' needs to be one of {', '.join(get_args(Search))} (got {search!r})")
    return search


class Chooser:
    """Decides for one model, and keeps the index that was built. Threads may share it.

    Without an index at hand, one is built when exact search for all sources asked for so far, this question's
    included, would cost more time than the build and its answers. As far as the estimates hold, a sequence of questions
    takes about twice the time of the better choice at most.
    """

    def __init__(
        self,
        graph: Graph,
        decoder: Decoder,
        embeddings: Tensor,
        state: SearchState | None = None,
        *,
        shards: ShardedSearch | None = None,
    ) -> None:
        self.graph, self.decoder, self.embeddings = graph, decoder, embeddings
        self.state = state  # whose reranker and names its answers have
        self.shards = shards  # where both searches take place
        self.index: Index | None = None
        self._asked = 0  # sources answered exactly
        self._spent = 0.0  # seconds that this took
        self._lock = threading.Lock()

    def choose(
        self, sources: int, k: int, search: str = "auto", tell: Callable[[str], None] = lambda text: None
    ) -> Index | None:
        """The index to ask, built now if it is worth it; None for exact search."""
        if checked_search(search) == "exact":
            return None
        with self._lock:
            if self.index is None and (search == "index" or self._pays(sources, tell)):
                self.index = self.built(budget=Budget(k=k), tell=tell)
            return self.index

    def built(
        self,
        kind: str = "auto",
        *,
        budget: Budget,
        seed: int = 0,
        tell: Callable[[str], None] = lambda text: None,
    ) -> Index:
        """An index that is built now."""
        whole = self.graph, self.decoder, self.embeddings
        if self.shards is None:
            index = build_index(*whole, kind=kind, budget=budget, seed=seed, tell=tell)
        else:
            index = build_sharded_index(*whole, self.shards, kind=kind, budget=budget, seed=seed, tell=tell)
        return index if self.state is None else index._answering_as(self.state)

    def keep(self, index: Index) -> None:
        """Use an index that was built before."""
        self.index = index

    def note_exact(self, sources: int, seconds: float) -> None:
        """So many sources were answered exactly, in so many seconds."""
        with self._lock:
            self._asked, self._spent = self._asked + sources, self._spent + seconds

    def _pays(self, sources: int, tell: Callable[[str], None]) -> bool:
        n, columns = self.embeddings.shape
        total = self._asked + sources
        if n < EXACT_BELOW or total < _LEAST or not is_covered(self.decoder):
            return False
        costs = estimated_costs(n, columns, total, self._exact_seconds(), self.shards)
        taken = "an index is built" if costs.index_pays else "every node is scored"
        tell(
            f"{sources:,} nodes: exact search takes about {costs.exact:,.0f} s, an index about {costs.build:,.0f} s to "
            f"build and {costs.search:,.0f} s to ask: {taken}"
        )
        return costs.index_pays

    def _exact_seconds(self) -> float:
        """Per source; measured on a few where none was asked for yet."""
        if self._asked >= _TIMED:
            return self._spent / self._asked
        y = self.embeddings.detach()
        some = np.linspace(0, y.shape[0] - 1, _TIMED + 1).astype(np.int64)
        search, rows = self.shards or ExactSearch(self.decoder), Snapshot.of(y, check=False)
        search.top_k(rows, some[:1], 1)  # what is done once only shall not count
        started = time.perf_counter()
        search.top_k(rows, some[1:], 10)
        return (time.perf_counter() - started) / _TIMED


def described(index: Index | None, k: int, *, narrowed: bool = False) -> str:
    """How an answer was found, for whoever reads it; `narrowed` by a condition or a list of candidates."""
    if index is None or index.metadata.effort is None:
        return "search: exact, every candidate was scored"
    if narrowed:
        return f"search: {index.metadata.kind} index among some candidates, for which recall is not measured"
    recall = index.metadata.recall_at(k)
    facts = index.metadata
    known = "recall not measured" if recall is None else f"recall@{k} {recall:.4f}"
    return f"search: {facts.kind} index, {known} (measured on {facts.sample} nodes against exact search)"
