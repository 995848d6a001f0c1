"""Biased second-order random walks, all at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["WalkGraph", "nearby", "walk"]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class WalkGraph:
    """Undirected links in compressed rows, each row sorted."""

    indptr: Rows  # (n + 1,)
    neighbours: Rows  # (2m,)
    reach: NDArray[np.float64]  # (2m + 1,) running sums of the weights, from 0
    keys: Rows  # (2m,) row * n + neighbour, sorted

    @classmethod
    def from_links(cls, links: Rows, num_nodes: int, weights: NDArray[np.floating] | None = None) -> WalkGraph:
        """From (m, 2) links in any order; directions are forgotten, and repeated links add up."""
        m = len(links)
        both = np.concatenate([links, links[:, ::-1]])
        amounts = np.tile(np.ones(m) if weights is None else weights.astype(np.float64), 2)
        keys, place = np.unique(both[:, 0] * num_nodes + both[:, 1], return_inverse=True)
        counts = np.bincount(keys // num_nodes, minlength=num_nodes)
        sums = np.bincount(place.ravel(), amounts, minlength=keys.size)
        return cls(_from_zero(counts), keys % num_nodes, _from_zero(sums), keys)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are, with links or without."""
        return self.indptr.size - 1

    @property
    def degrees(self) -> Rows:
        """Distinct neighbours of each node."""
        return np.diff(self.indptr)

    def linked(self, first: Rows, second: Rows) -> NDArray[np.bool_]:
        """Which pairs are links."""
        wanted = first * self.num_nodes + second
        place = np.minimum(np.searchsorted(self.keys, wanted), self.keys.size - 1)
        return np.asarray(self.keys[place] == wanted)

    def step(self, nodes: Rows, rng: np.random.Generator) -> Rows:
        """A neighbour of each node, in proportion to the weight of the link."""
        first, last = self.indptr[nodes], self.indptr[nodes + 1] - 1
        low, high = self.reach[first], self.reach[last + 1]
        place = np.searchsorted(self.reach, low + rng.random(nodes.size) * (high - low), side="right") - 1
        return np.asarray(self.neighbours[np.clip(place, first, last)])  # rounding may step over a row's end


def walk(graph: WalkGraph, starts: Rows, length: int, p: float, q: float, rng: np.random.Generator) -> Rows:
    """(walks, length) nodes from `starts`, none of which may be without links.

    From v, reached from t, neighbour x is chosen in proportion to w(v, x) times 1/p if x = t, 1 if x is linked to t,
    and 1/q otherwise (Grover and Leskovec, KDD 2016): proposed by weight, and accepted by bias over largest bias.
    """
    nodes = np.empty((starts.size, length), dtype=np.int64)
    nodes[:, 0] = starts
    if length > 1:
        nodes[:, 1] = graph.step(starts, rng)
    largest = max(1.0, 1 / p, 1 / q)
    for place in range(2, length):
        waiting = np.arange(starts.size)
        while waiting.size:
            before, here = nodes[waiting, place - 2], nodes[waiting, place - 1]
            proposed = graph.step(here, rng)
            nodes[waiting, place] = proposed
            if p == q == 1:
                break
            bias = np.where(proposed == before, 1 / p, np.where(graph.linked(before, proposed), 1.0, 1 / q))
            waiting = waiting[rng.random(waiting.size) * largest >= bias]
    return nodes


def nearby(graph: WalkGraph, starts: Rows, hops: int, rng: np.random.Generator) -> Rows:
    """(walks, hops) nodes after each of `starts` on a plain walk; a node without links stays where it is."""
    nodes = np.empty((starts.size, hops), dtype=np.int64)
    here, linked = starts, graph.degrees > 0
    for place in range(hops):
        here = here.copy()
        moves = linked[here]
        here[moves] = graph.step(here[moves], rng)
        nodes[:, place] = here
    return nodes


def _from_zero(amounts: NDArray) -> NDArray:  # type: ignore[type-arg]
    """Running sums with a zero in front."""
    return np.concatenate([np.zeros(1, dtype=amounts.dtype), np.cumsum(amounts)])
