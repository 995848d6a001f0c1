"""Hard negatives: for each link, the pairs of either end that heuristics and features rank highest (as in HeaRT)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.features import Features, SparseFeatures
from yinyan.model.operators import csr_product
from yinyan.peers.neighbours import Neighbours, neighbours_of
from yinyan.peers.walk_sums import pagerank_rows
from yinyan.randomness import named_seed
from yinyan.splits import Split

__all__ = ["COUNT", "best_candidates", "hard_negatives", "merged_ranks", "similarities", "with_hard_negatives"]

Pairs = NDArray[np.int64]
Rows = NDArray[np.int64]
Scores = NDArray[np.float64]
Ranks = NDArray[np.float64]
Similarity = Callable[[Rows], Scores]  # (b,) nodes -> (b, n) scores of all nodes, 0 for nothing in common

COUNT = 500  # negatives per link, as in HeaRT
_BLOCK = 1 << 21  # scores looked at together
_PAGERANK_STEP, _STEP = 1e-7, 1e-6  # scores that differ by less are tied, less than half of it is 0


def with_hard_negatives(split: Split, *, count: int = COUNT) -> Split:
    """The same split with hard negatives for validation and test, under a protocol name of its own."""
    if split.leaks:
        raise InputError(f"hard negatives need a split without leaks (protocol {split.protocol!r} leaks on purpose)")
    kind, plus, variant = split.protocol.partition("+")
    graph, parts = split.graph, [split.valid_targets, split.test_targets]
    if np.array_equal(split.valid_messages, split.test_messages):  # many nodes have links of both parts
        links = np.concatenate(parts)
        both = hard_negatives(graph, links, split.test_messages, count=count, seed=split.seed)
        valid, test = both[: len(parts[0])], both[len(parts[0]) :]
    else:
        messages = (split.valid_messages, split.test_messages)
        valid, test = (
            hard_negatives(graph, links, known, count=count, seed=split.seed)
            for links, known in zip(parts, messages, strict=True)
        )
    return replace(
        split,
        protocol=f"{kind}-hard{plus}{variant}",
        words=f"{split.words}; negatives are the pairs of either end that RA, PageRank and features rank highest",
        valid_negatives=valid,
        test_negatives=test,
    )


def hard_negatives(graph: Graph, links: Pairs, messages: Rows, *, count: int = COUNT, seed: int = 0) -> Pairs:
    """(p, k, 2) negatives of (p, 2) links: half with the source kept, half with the target kept.

    For the end that is kept, resource allocation, personalised PageRank (both over the edges `messages`) and the cosine
    of the features each rank all nodes that it has no edge to in the whole graph. A node counts by the best of its
    ranks, then by their mean, then by chance; a heuristic does not rank nodes of score 0. k is `count`, or less if a
    link has fewer candidates; where one end has too few, the other has more.
    """
    if count < 1:
        raise InputError(f"'count' needs to be a positive integer (got {count})")
    if not len(links):
        return np.empty((0, count, 2), dtype=np.int64)
    candidates = _Candidates.of(graph)
    asked = candidates.keys(links)  # (p, 2) one key per kept end
    distinct, place = np.unique(asked, return_inverse=True)
    available = candidates.available(distinct)[place.reshape(asked.shape)]
    k = min(count, int(available.sum(axis=1).min()))
    if k < 1:
        poorest = links[int(available.sum(axis=1).argmin())]
        names = " - ".join(repr(graph.ids[int(node)]) for node in poorest)
        raise InputError(f"the link {names} has no negatives: both ends have edges to all nodes (use other negatives)")
    first = np.clip((k + 1) // 2, k - available[:, 1], available[:, 0])  # kept sources; the others keep the target
    length = int(max(first.max(), (k - first).max()))
    lists = best_candidates(graph, messages, candidates, distinct, length, seed)
    return _joined(links, lists[place.reshape(asked.shape)], first, k)


def best_candidates(
    graph: Graph, messages: Rows, candidates: _Candidates, keys: Rows, length: int, seed: int
) -> NDArray[np.int64]:
    """(r, length) nodes, best first, for each kept end; past its last candidate a row holds nodes that are none."""
    generator = np.random.default_rng(named_seed(seed, "hard negatives"))
    found = np.empty((len(keys), length), dtype=np.int64)
    by = similarities(graph.with_edges(messages))
    for block, ranks in _ranked(candidates, keys, by):
        order = ranks + generator.random(ranks.shape) / (len(by) + 1) / (graph.num_nodes + 1)  # ties by chance
        top = np.argpartition(order, length - 1, axis=1)[:, :length]
        best = np.take_along_axis(order, top, axis=1).argsort(axis=1, kind="stable")
        found[block] = np.take_along_axis(top, best, axis=1)
    return found


def _ranked(candidates: _Candidates, keys: Rows, by: list[Similarity]) -> Iterator[tuple[slice, Ranks]]:
    """Blocks of kept ends, and the merged ranks of all nodes for each."""
    size = max(1, _BLOCK // max(1, candidates.graph.num_nodes))
    for start in range(0, len(keys), size):
        block = slice(start, min(start + size, len(keys)))
        nodes = candidates.nodes(keys[block])
        yield block, merged_ranks([rows(nodes) for rows in by], candidates.open_to(keys[block]))


def merged_ranks(scores: list[Scores], candidate: NDArray[np.bool_]) -> Ranks:
    """(b, n) best rank of each candidate by several (b, n) scores, plus a fraction for the mean; others infinity."""
    n = candidate.shape[1]
    best, total = np.full(candidate.shape, float(n)), np.zeros(candidate.shape)
    for some in scores:
        ranks = np.full(candidate.shape, float(n))  # of what is not ranked
        for row in range(len(ranks)):
            ranked = np.flatnonzero(candidate[row] & (some[row] > 0))
            ranks[row, ranked] = _worst_ranks(some[row, ranked])
        np.minimum(best, ranks, out=best)
        total += ranks
    return np.where(candidate, best + total / len(scores) / (n + 1), np.inf)


def _worst_ranks(values: Scores) -> Ranks:
    """Ranks from 1 for the largest; tied values have the worst rank of their tie."""
    order = np.argsort(-values)
    ordered = values[order]
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))[: len(values)]  # of each tie
    ranks = np.empty(len(values))
    ranks[order] = np.repeat(last + 1, np.diff(last, prepend=-1))
    return ranks


def _joined(links: Pairs, nodes: NDArray[np.int64], first: Rows, k: int) -> Pairs:
    """(p, k, 2) pairs: `first` of each with the source kept, the others with the target kept."""
    place = np.arange(k)[None]
    of_source = place < first[:, None]
    turn = np.where(of_source, place, place - first[:, None])
    new = np.where(
        of_source,
        np.take_along_axis(nodes[:, 0], np.minimum(turn, nodes.shape[2] - 1), axis=1),
        np.take_along_axis(nodes[:, 1], np.clip(turn, 0, nodes.shape[2] - 1), axis=1),
    )
    source, target = (np.broadcast_to(links[:, end, None], new.shape) for end in (0, 1))
    return np.stack([np.where(of_source, source, new), np.where(of_source, new, target)], axis=2)


class _Kept(NamedTuple):
    """The edges of the kept ends of one kind, in compressed rows."""

    indptr: Rows
    columns: Rows


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The nodes that the other end of a negative may be.

    A kept end has a key: its row, plus n for targets of a directed graph, whose candidates are others.
    """

    graph: Graph
    kept: tuple[_Kept, ...]  # of sources, and in a directed graph of targets

    @classmethod
    def of(cls, graph: Graph) -> _Candidates:
        """All nodes, or those of the other side, without the neighbours in the whole graph."""
        if not graph.directed:
            around = neighbours_of(graph)
            return cls(graph, (_Kept(around.indptr, around.columns),))
        return cls(graph, tuple(_compressed(graph.edges[:, ends], graph.num_nodes) for ends in ([0, 1], [1, 0])))

    def keys(self, links: Pairs) -> Rows:
        """(p, 2) keys of both ends."""
        return np.asarray(links + np.array([0, self.graph.num_nodes if self.graph.directed else 0]))

    def nodes(self, keys: Rows) -> Rows:
        """The rows of some keys."""
        return keys % max(1, self.graph.num_nodes)

    def available(self, keys: Rows) -> Rows:
        """How many candidates each kept end has."""
        degrees = np.concatenate([np.diff(kept.indptr) for kept in self.kept])[keys]
        if self.graph.sides is None:
            return np.asarray(self.graph.num_nodes - 1 - degrees)
        other = np.bincount(1 - self.graph.sides, minlength=2)[self.graph.sides[self.nodes(keys)]]
        return np.asarray(other - degrees)

    def open_to(self, keys: Rows) -> NDArray[np.bool_]:
        """(b, n) which nodes are candidates of each kept end."""
        n, sides, nodes = self.graph.num_nodes, self.graph.sides, self.nodes(keys)
        candidate = np.ones((len(keys), n), dtype=np.bool_) if sides is None else sides[None] != sides[nodes][:, None]
        candidate[np.arange(len(keys)), nodes] = False
        for row, key in enumerate(keys):
            kept, node = self.kept[key // n], key % n
            candidate[row, kept.columns[kept.indptr[node] : kept.indptr[node + 1]]] = False
        return candidate


def _compressed(pairs: Pairs, num_nodes: int) -> _Kept:
    order = np.argsort(pairs[:, 0], kind="stable")
    counts = np.bincount(pairs[:, 0], minlength=num_nodes)
    return _Kept(np.concatenate([[0], np.cumsum(counts)]), pairs[order, 1])


def similarities(message_graph: Graph) -> list[Similarity]:
    """Resource allocation, personalised PageRank and, of a graph with features, their cosine: rows of all nodes."""
    around = neighbours_of(message_graph)
    found: list[Similarity] = [
        lambda nodes: _stepped(_allocation_rows(around, nodes), _STEP),
        lambda nodes: _stepped(pagerank_rows(around, nodes, error=1e-9), _PAGERANK_STEP),
    ]
    if message_graph.features is not None:
        unit = _unit_rows(message_graph.features)
        found.append(lambda nodes: _stepped(_products(unit, nodes), _STEP))
    return found


def _stepped(scores: Scores, step: float) -> Scores:
    """Rounded, so that equal scores are tied in whatever order they were summed."""
    return np.round(scores / step)


def _allocation_rows(around: Neighbours, nodes: Rows) -> Scores:
    """(b, n) sums of 1/degree over the common neighbours of each node with all others."""
    indptr, columns = torch.from_numpy(around.indptr), torch.from_numpy(around.columns)
    ones = torch.ones(columns.numel(), dtype=torch.float64)
    start = torch.zeros(around.degrees.size, len(nodes), dtype=torch.float64)
    start[torch.from_numpy(nodes), torch.arange(len(nodes))] = 1.0
    weights = torch.from_numpy(1.0 / np.maximum(around.degrees, 1))
    near = csr_product(indptr, columns, ones, start) * weights[:, None]
    return np.asarray(csr_product(indptr, columns, ones, near).numpy().T)


def _unit_rows(features: Features) -> Features:
    """Features divided by their rows' norms; rows of zeros stay."""
    if isinstance(features, SparseFeatures):
        norms = np.sqrt(np.bincount(features.entry_rows, features.values.astype(np.float64) ** 2, features.num_rows))
        scale = np.where(norms > 0, norms, 1.0)[features.entry_rows].astype(np.float32)
        return replace(features, values=features.values / scale)
    norms = np.linalg.norm(features.astype(np.float64), axis=1)
    return np.asarray(features / np.where(norms > 0, norms, 1.0)[:, None], dtype=np.float32)


def _products(unit: Features, nodes: Rows) -> Scores:
    """(b, n) inner products of some rows with all."""
    if not isinstance(unit, SparseFeatures):
        return np.asarray(unit[nodes] @ unit.T, dtype=np.float64)
    chosen = torch.from_numpy(unit.take(nodes).to_dense().T.astype(np.float64))
    indptr, columns = torch.from_numpy(unit.indptr), torch.from_numpy(unit.indices)
    values = torch.from_numpy(unit.values.astype(np.float64))
    return np.asarray(csr_product(indptr, columns, values, chosen.contiguous()).numpy().T)
