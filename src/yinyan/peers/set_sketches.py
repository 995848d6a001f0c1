"""MinHash and HyperLogLog sketches of neighbourhoods, and the counts of nodes by distance that they estimate.

A row of a table sketches a set of nodes. Its first 128 numbers are MinHash values: the least hash of any member, by
128 hash functions. The other 256 are HyperLogLog registers, each as 2^-r for the largest rank r of its members, and 1
if it is empty. Either part of a union is the element-wise minimum of the parts (registers are powers of one half, so
that their maximum is a minimum here). All nodes within k steps are thus sketched by k rounds of minima over neighbours.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.peers.enclosing import visible_neighbours
from yinyan.randomness import hashed, shifted

__all__ = ["PERMUTATIONS", "REGISTERS", "Balls", "cardinality", "distance_counts", "jaccard", "own_sketches"]

PERMUTATIONS = 128
_PRECISION = 8
REGISTERS = 2**_PRECISION

_SEED = 20_230_501  # of the hashes: fixed, as in the released code
_RANK_BITS = 62 - _PRECISION
_SLOTS = 65_536  # neighbours whose sketches are gathered at a time
_PAIRS = 2048  # whose sketches are compared at a time


class Balls(NamedTuple):
    """Sketches of the nodes within 0, 1, …, K steps of each row's node, that node included."""

    within: tuple[Tensor, ...]  # K + 1 of (n, 384)
    sizes: Tensor  # (n, K) estimated numbers of nodes within 1, …, K steps

    @classmethod
    @torch.no_grad()
    def of(cls, messages: MessageGraph, steps: int, hidden: Tensor | None = None) -> Balls:
        """Of all nodes, by the edges that `hidden` (m,) does not mark."""
        structure = messages.structure
        rows, columns = structure.rows, structure.columns.long()
        if hidden is not None:
            seen = ~hidden[structure.pair_of_slot]
            rows, columns = rows[seen], columns[seen]
        within = [own_sketches(messages.num_nodes, columns.device)]
        for _ in range(steps):
            within.append(_merged(within[-1], rows, within[-1], columns))
        return cls._sized(within)

    @classmethod
    def _sized(cls, within: list[Tensor]) -> Balls:
        sizes = [torch.cat([cardinality(part) for part in ball.split(_SLOTS)]) for ball in within[1:]]
        return cls(tuple(within), torch.stack(sizes, dim=1))

    def take(self, rows: Tensor) -> Balls:
        """The sketches of some rows."""
        return Balls(tuple(ball[rows] for ball in self.within), self.sizes[rows])

    @torch.no_grad()
    def without_edge(self, messages: MessageGraph, ends: Tensor, others: Tensor) -> Balls:
        """The sketches of (b,) `ends` in the graph without the edge from each of them to the (b,) `others`.

        Exact for up to two steps: no neighbour but the other end has that edge within one step, so that the union of
        what the remaining neighbours reach in a step is what the end reaches in two.
        """
        row, node = visible_neighbours(messages, ends, None)
        kept = node != others[row]
        row, node = row[kept], node[kept]
        within = [self.within[0][ends]]
        for ball in self.within[:-1]:
            within.append(_merged(within[-1], row, ball, node))
        return Balls._sized(within)


@functools.lru_cache(maxsize=2)  # the same in every step of a training
def own_sketches(num_nodes: int, device: torch.device) -> Tensor:
    """(n, 384) sketches of single nodes; a node's follow from its row number alone."""
    seeds = hashed(_SEED, PERMUTATIONS + 1, device).tolist()
    # as floats, hashes keep 24 bits at any size: two least hashes are equal by chance once in millions
    values = [shifted(hashed(seed, num_nodes, device), 1).float() * 2.0**-63 for seed in seeds[:-1]]
    bits = hashed(seeds[-1], num_nodes, device)
    register = torch.bitwise_and(bits, REGISTERS - 1)
    left = torch.bitwise_and(shifted(bits, _PRECISION), 2**_RANK_BITS - 1).clamp(min=1).double()
    rank = _RANK_BITS - torch.frexp(left).exponent + 1  # leading zeros and one
    registers = torch.ones(num_nodes, REGISTERS, device=device)
    registers[torch.arange(num_nodes, device=device), register] = torch.exp2(-rank.double()).float()
    return torch.cat([torch.stack(values, dim=1), registers], dim=1)


def jaccard(first: Tensor, second: Tensor) -> Tensor:
    """(b,) shares of common members in unions, of (b, 384) and (b, 384); the standard error is at most 1/√512."""
    return (first[:, :PERMUTATIONS] == second[:, :PERMUTATIONS]).float().mean(1)


def cardinality(sketches: Tensor) -> Tensor:
    """(b,) sizes of the sets of (b, 384) sketches, to 6.5 % (standard error), and better for sets below 100.

    By Ertl's estimator (2017), which is unbiased for sets of every size; the released code corrects the classical one
    by tables of its measured bias.
    """
    return _cardinality(sketches[:, PERMUTATIONS:])


def _cardinality(registers: Tensor) -> Tensor:
    empty = (registers == 1).sum(1)
    sums = registers.sum(1) - empty
    sizes: Tensor = REGISTERS**2 / (2 * math.log(2)) / (_SIGMA.to(registers.device)[empty] + sums)
    return sizes


def _sigma(share: float) -> float:
    """Ertl's σ(x) = x + Σ_{k ≥ 1} x^(2^k) 2^(k-1), infinite at 1."""
    if share == 1:
        return math.inf
    return share + math.fsum(share ** (2**k) * 2.0 ** (k - 1) for k in range(1, 20))


_SIGMA = torch.tensor([REGISTERS * _sigma(empty / REGISTERS) for empty in range(REGISTERS + 1)])


@torch.no_grad()
def distance_counts(balls: Balls, pairs: Tensor, *, without_edges_of: MessageGraph | None = None) -> Tensor:
    """(b, K + 1, K + 1) estimated numbers of nodes by their distances from both ends of (b, 2) pairs.

    Places 1 to K stand for distances, and 0 for what is further than K steps; an end itself counts as one step away.
    Place (0, 0), the rest of the graph, is 0. Within k and l steps are |A ∩ B| = Jaccard(A, B) |A ∪ B| nodes; counts
    of exact distances are their differences. A pair that is an edge of the graph given by `without_edges_of` is counted
    in that graph without the edge.
    """
    size = len(balls.within)
    found = [balls.sizes.new_zeros(0, size, size)]
    for block in pairs.split(_PAIRS):
        counts = _counts(balls.take(block[:, 0]), balls.take(block[:, 1]))
        if without_edges_of is not None:
            edges = without_edges_of.known.contains(block).nonzero()[:, 0]
            first, second = block[edges].unbind(1)
            ends = (balls.without_edge(without_edges_of, *both) for both in ((first, second), (second, first)))
            counts[edges] = _counts(*ends)
        found.append(counts)
    return torch.cat(found)


def _counts(first: Balls, second: Balls) -> Tensor:
    shared = [[_intersection(a, b) for b in second.within[1:]] for a in first.within[1:]]
    both = torch.stack([torch.stack(line, dim=1) for line in shared], dim=1)  # (b, K, K) within k and l steps
    both = F.pad(both, (1, 0, 1, 0)).diff(dim=1).diff(dim=2)
    far_from_second = F.pad(first.sizes, (1, 0)).diff(dim=1) - both.sum(2)
    far_from_first = F.pad(second.sizes, (1, 0)).diff(dim=1) - both.sum(1)
    counts = F.pad(both, (1, 0, 1, 0))
    counts[:, 1:, 0], counts[:, 0, 1:] = far_from_second, far_from_first
    return counts


def _intersection(first: Tensor, second: Tensor) -> Tensor:
    union = torch.minimum(first[:, PERMUTATIONS:], second[:, PERMUTATIONS:])
    return jaccard(first, second) * _cardinality(union)


def _merged(own: Tensor, rows: Tensor, table: Tensor, members: Tensor) -> Tensor:
    """`own` with the sketch of table[members[a]] merged into row rows[a]."""
    merged = own.clone()
    for at in range(0, len(rows), _SLOTS):
        place = rows[at : at + _SLOTS, None].long().expand(-1, own.shape[1])
        merged.scatter_reduce_(0, place, table[members[at : at + _SLOTS]], "amin")
    return merged
