"""An index wraps a model: top-k within budgets, with a recall that was measured, kept up to date without a rebuild."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from yinyan.deprecation import renamed_keyword
from yinyan.errors import InputError, SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.model.reranking import Reranker
from yinyan.model.shared_neighbours import CompressedLists
from yinyan.results import Id, Recommendations
from yinyan.retrieval.best_links import FIRST, best_links
from yinyan.retrieval.budgets import Budget, Sample, measured_facts
from yinyan.retrieval.exact import ExactSearch, Excluded, TopK
from yinyan.retrieval.metadata import IndexMetadata, error_of
from yinyan.retrieval.neighbourhoods import Neighbourhoods
from yinyan.retrieval.probing import Probing
from yinyan.retrieval.recommend import Rules, Where, Wish, checked_k, recommended
from yinyan.retrieval.relation_names import RelationNames
from yinyan.retrieval.reranking import reranked, shortlist_for
from yinyan.retrieval.row_numbers import checked_rows
from yinyan.retrieval.shards import ShardedProbing, ShardedSearch
from yinyan.retrieval.snapshot import Snapshot
from yinyan.retrieval.state import SearchState, linked_rows

__all__ = ["LEAST_SAMPLE", "FoundState", "Index", "IndexMetadata"]

Rows = NDArray[np.int64]
IndexSearch = ExactSearch | Probing | ShardedSearch | ShardedProbing

LEAST_SAMPLE = 64  # sources that recall is measured on at least; as many more choose the efforts
_DOUBT = 2  # standard errors by which one of several recalls may miss the promise by chance
_CHURN = 0.1  # share of rows changed since recall was measured, from which on it is asked for anew


@dataclass(frozen=True, eq=False)
class FoundState(SearchState):
    """What one question sees from its beginning to its end."""

    graph: Graph
    decoder: Decoder
    snapshot: Snapshot
    search: IndexSearch
    measured_churn: float  # when recall was last measured
    reranker: Reranker | None = None
    names: RelationNames | None = None

    def vectors(self, rows: Rows) -> Tensor:
        """(len(rows), d) stored vectors."""
        return self.snapshot.gather(rows)

    def searched(self, sources: Rows, k: int, excluded: Excluded | None, pool: Rows | None) -> list[TopK]:
        """Of the rows that have an id."""
        if pool is None and self.snapshot.num_rows > self.num_nodes:
            pool = np.arange(self.num_nodes)
        return self.found(sources, k, excluded, pool)

    def found(self, sources: Rows, k: int, excluded: Excluded | None, pool: Rows | None) -> list[TopK]:
        """Of all rows."""
        if not sources.size:
            return []
        checked_rows(sources, self.snapshot.num_rows, "sources")
        checked_rows([] if pool is None else pool, self.snapshot.num_rows, "pool")
        gone = sources[self.snapshot.is_removed[sources]]
        if gone.size:
            raise InputError(f"row {gone[0]:,} was removed from the index")
        if isinstance(self.search, ExactSearch | ShardedSearch):
            return self.search.top_k(self.snapshot, sources, k, excluded, pool)
        return self.search.top_k(self.snapshot, sources, k, excluded, pool, Neighbourhoods.of(self.graph))


class Index:
    """Recommends as its model does, by search; made by `LinkPredictor.index`.

    Threads may share it: a query uses one snapshot from its beginning to its end.
    """

    def __init__(
        self, graph: Graph, decoder: Decoder, rows: Snapshot, search: IndexSearch, metadata: IndexMetadata
    ) -> None:
        self.decoder, self.metadata = decoder, metadata
        self._state = FoundState(graph, decoder, rows, search, rows.churn)
        self._built = rows.base  # what the lists of a search were made of
        self._writing = threading.RLock()

    def _answering_as(self, state: SearchState) -> Index:
        """This index, with the reranker and the names of nodes of its model; recall is that of the search before."""
        self._state = replace(self._state, reranker=state.reranker)
        return self if state.names is None else self._of_relation(state.names)

    def _of_relation(self, names: RelationNames) -> Index:
        """This index, whose nodes are named as those of a relation."""
        self._state = replace(self._state, names=names)
        self.metadata = replace(self.metadata, relation=names.relation.name)
        return self

    def __repr__(self) -> str:
        return str(self.metadata) + (f"\n{self.advice}" if self.advice else "")

    @property
    def search(self) -> IndexSearch:
        """What answers."""
        return self._state.search

    # -- asking --------------------------------------------------------------------------------------------

    @renamed_keyword("known", "exclude_known", lambda known: not known)
    def recommend(
        self,
        nodes: Any,
        k: int = 10,
        *,
        among: Iterable[Any] | None = None,
        exclude_known: bool = True,
        where: Where | None = None,
        rules: Rules | None = None,
    ) -> Recommendations:
        """The `k` best partners of each node, as `LinkPredictor.recommend` lists them.

        Parameters
        ----------
        nodes
            An id, or a sequence of ids; of a relation, (type, id) names a node too.
        k
            How many partners per node, at most.
        among
            Ids of the candidates; all nodes unless given.
        exclude_known
            Whether partners that the graph links to the node already are left out.
        where
            A condition on links, as for `LinkPredictor.recommend`. The search goes on until `k` candidates that meet it
            are found, or there are no more.
        rules
            Rules of the answer, as for `LinkPredictor.recommend`.

        Returns
        -------
        Recommendations
            Source, target, score and rank, best first for each node.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        InputError
            If `k` is no positive integer, `where` has another shape, or the row of a node was removed.

        Examples
        --------
        >>> index.recommend([0, 1], k=3).ranks
        array([1, 2, 3, 1, 2, 3])
        """
        found = recommended(self._state, Wish(nodes, k, exclude_known, among, where, rules))
        return replace(found, recall=self._recall(k, narrowed=not (among is None and where is None and rules is None)))

    def _recall(self, k: int, *, narrowed: bool) -> float | None:
        """As measured, on candidates that are not narrowed down."""
        return None if narrowed and self.metadata.effort is not None else self.metadata.recall_at(k)

    def best_links(
        self,
        k: int = 100,
        *,
        nodes: Iterable[Id] | None = None,
        where: Where | None = None,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Recommendations:
        """The `k` best new links of the whole graph that this index finds, without probabilities.

        Parameters
        ----------
        k
            How many links, at most.
        nodes
            Ids of nodes: only new links of these are sought, in a directed graph those that start at one of them.
        where
            A condition on links, as for `LinkPredictor.best_links`.
        on_progress
            Called with the number of nodes done and the number of all.
        should_stop
            Asked now and then; if true, the search ends with a StoppedError.

        Returns
        -------
        Recommendations
            Source, target, score and rank, best first. Undirected links occur once.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        InputError
            If `k` is no positive integer.
        StoppedError
            If `should_stop` returned true.

        Examples
        --------
        >>> index.best_links(3).ranks
        array([1, 2, 3])
        """
        state = self._state

        def top_k(sources: Rows, count: int, excluded: Excluded | None, pool: Rows | None) -> list[TopK]:
            there = ~state.snapshot.is_removed[sources]
            found = iter(state.top_k(sources[there], count, excluded, pool))
            none = TopK(np.empty(0, np.int64), np.empty(0, np.float32))
            return [next(found) if present else none for present in there.tolist()]

        found = best_links(
            state, k, nodes=nodes, where=where, top_k=top_k, on_progress=on_progress, should_stop=should_stop
        )
        return replace(found, recall=self._recall(FIRST, narrowed=where is not None))

    def top_k(
        self, sources: Any, k: int, excluded: Excluded | None = None, pool: NDArray[np.int64] | None = None
    ) -> list[TopK]:
        """The best rows of each source, for callers that have rows and no ids.

        Parameters
        ----------
        sources
            Rows of the sources.
        k
            How many rows per source, at most.
        excluded
            A function of a source that returns the rows to leave out.
        pool
            Rows of the candidates; all rows but the source unless given.

        Returns
        -------
        list of TopK
            Rows and scores of each source, best first.

        Raises
        ------
        InputError
            If `k` is no positive integer, or a row is out of range or was removed.

        Examples
        --------
        >>> [len(found.rows) for found in index.top_k([0, 1], k=3)]
        [3, 3]
        """
        chosen = None if pool is None else np.unique(np.asarray(pool, dtype=np.int64))
        asked = np.atleast_1d(np.asarray(sources)).astype(np.int64)
        state, count = self._state, checked_k(k)
        if state.reranker is None:
            return state.found(asked, count, excluded, chosen)
        return reranked(state.reranker, asked, state.found(asked, shortlist_for(count), excluded, chosen), count)

    # -- changes -------------------------------------------------------------------------------------------

    def update(self, rows: Any, embeddings: Any, *, graph: Graph | None = None) -> None:
        """Replace the embeddings of some rows, or add rows after the last: all of them or, with an error, none.

        Parameters
        ----------
        rows
            (m,) rows; new ones follow the last without a gap.
        embeddings
            (m, d) vectors, with columns as those of `LinkPredictor.embeddings_`.
        graph
            A graph with more nodes or edges; it replaces the one that gives ids and known edges.

        Raises
        ------
        InputError
            If the shapes do not fit, a value is not finite, or `graph` has more nodes than there are rows.

        Examples
        --------
        >>> index.update([0], model.embed([1]))
        >>> index.churn
        0.025
        """
        with self._writing:
            state = self._state
            snapshot = state.snapshot.updated(rows, embeddings)
            if graph is not None and graph.num_nodes > snapshot.num_rows:
                raise InputError(f"the graph has {graph.num_nodes:,} nodes, and there are {snapshot.num_rows:,} rows")
            reranker = state.reranker
            if reranker is not None and (graph is not None or snapshot.num_rows > state.snapshot.num_rows):
                lists = CompressedLists.from_pairs((graph or state.graph).edges, snapshot.num_rows)
                reranker = Reranker(reranker.reranking, lists)
            self._state = replace(state, snapshot=snapshot, graph=graph or state.graph, reranker=reranker)

    def _refresh(self, embeddings: Tensor, moved: float) -> None:
        """Replace all rows. Lists still stand for those that are within a share `moved` of what was built."""
        with self._writing:
            state, n = self._state, self._built.shape[0]
            if isinstance(state.search, ExactSearch):
                self._state = replace(state, snapshot=Snapshot.of(embeddings))
                return
            stale = np.ones(embeddings.shape[0], dtype=bool)
            apart = (embeddings[:n] - self._built).norm(dim=1) > moved * self._built.norm(dim=1)
            stale[:n] = apart.numpy()
            self._state = replace(state, snapshot=Snapshot.beside(embeddings, n, stale))

    def remove(self, rows: Any) -> None:
        """Remove rows: they are never recommended, and a query for them is an error.

        Parameters
        ----------
        rows
            The rows.

        Raises
        ------
        InputError
            If there is no such row.

        Examples
        --------
        >>> index.remove([5])
        >>> 5 in index.recommend(0, k=39).targets
        False
        """
        with self._writing:
            self._state = replace(self._state, snapshot=self._state.snapshot.without(rows))

    @property
    def churn(self) -> float:
        """Rows changed since the build, as a share of those built."""
        return self._state.snapshot.churn

    @property
    def advice(self) -> str | None:
        """What the index asks for, if its recall may no longer be what it says."""
        promised, state = self.metadata.promised_recall, self._state
        if self.metadata.effort is None:
            return None
        for at in self.metadata.per_k:
            doubt = _DOUBT * error_of(at.recall, self.metadata.sample)
            if promised is not None and at.recall + doubt < promised:
                return f"recall@{at.k} is {at.recall:.4f}, below the {promised:g} asked for: call rebuild()"
        if state.snapshot.churn - state.measured_churn >= _CHURN:
            return (
                f"{state.snapshot.churn:.0%} of the rows have changed since the build: call measure() to see whether "
                f"the recall of {self.metadata.recall:.4f} still holds, or rebuild()"
            )
        return None

    def measure(self, *, sample: int = LEAST_SAMPLE, seed: int = 1) -> float:
        """Measure recall for each k as it is now, against exact search, and keep it in `metadata`.

        Parameters
        ----------
        sample
            The number of sources to measure on.
        seed
            Draws the sources.

        Returns
        -------
        float
            The recall for the k of the build; 1.0 for exact search.

        Examples
        --------
        >>> index.measure()
        1.0
        """
        state = self._state
        if isinstance(state.search, ExactSearch | ShardedSearch):
            return 1.0
        excluded, ks = partial(linked_rows, state.graph), [at.k for at in self.metadata.per_k]
        around = Neighbourhoods.of(state.graph)
        drawn = Sample.draw(ExactSearch(self.decoder), state.snapshot, sample, max(ks), excluded, seed, around)
        facts = measured_facts(drawn, state.search, state.snapshot, ks, self.metadata.k)
        with self._writing:
            self.metadata = replace(self.metadata, **facts)
            self._state = replace(self._state, measured_churn=state.snapshot.churn)
        return self.metadata.recall

    def rebuild(self, *, tell: Callable[[str], None] = lambda text: None) -> None:
        """Build the index again from the rows as they are now, of the same kind and for the same recall.

        Parameters
        ----------
        tell
            Called with lines about the choice.

        Raises
        ------
        SettingsError
            If the recall can no longer be reached.

        Examples
        --------
        >>> index.update([0], model.embed([1]))
        >>> index.rebuild()
        >>> index.churn
        0.0
        """
        from yinyan.retrieval.building import build_index

        with self._writing:
            state, old = self._state, self.metadata
            budget = Budget(recall=old.promised_recall, k=old.k)
            made = build_index(
                state.graph, self.decoder, state.snapshot.merged(),
                kind=old.kind, budget=budget, seed=old.seed, tell=tell,
            )  # fmt: skip
            removed = np.flatnonzero(state.snapshot.is_removed)
            fresh = replace(made._state, reranker=state.reranker, names=state.names)
            self.metadata, self._built = replace(made.metadata, relation=old.relation), made._built
            self._state = replace(fresh, snapshot=fresh.snapshot.without(removed)) if removed.size else fresh

    # -- keeping -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the index into the directory of its model, whole or not at all.

        Parameters
        ----------
        path
            The directory of the model.

        Raises
        ------
        SettingsError
            If rows have changed since the build.
        StoreError
            If there is no model directory.

        Examples
        --------
        >>> model.save("model")
        >>> index.save("model")
        """
        from yinyan.retrieval.index_store import index_file, save_index

        if self.churn:
            raise SettingsError("rows have changed since the build: call rebuild() before save()")
        search = self._state.search
        lists = search.lists if isinstance(search, Probing) else None
        save_index(Path(path), self.metadata, lists, index_file(self._state.names))
