"""Enclosing subgraphs of pairs: all nodes within some hops of either end, and the edges between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SymmetricOperator

__all__ = ["Subgraphs", "blocks_of_pairs", "enclosing_subgraphs", "entries", "visible_neighbours"]

_CELLS = 2**24  # of a table of pairs and nodes: 64 MB, where lookups are faster than searches in sorted lists
_SORTED = 64  # cells that are read in the time in which one is sorted
_SLOTS = 2**21  # ends of edges of the subgraphs of a block: what is computed from them takes some hundred MB


class Subgraphs(NamedTuple):
    """One subgraph for each of b pairs, stored one after the other: N rows, E ends of edges."""

    pair: Tensor  # (N,) place of the pair, ascending
    node: Tensor  # (N,) node of the whole graph, ascending within a pair
    ends: Tensor  # (b, 2) rows of the two ends
    indptr: Tensor  # (N + 1,) int32
    columns: Tensor  # (E,) int32, rows

    def distances(self, starts: Tensor, without: Tensor | None = None) -> Tensor:
        """(N,) int32 edges of a shortest path from the start, one of (b,) rows, of its own subgraph.

        It is -1 where there is none. With `without`, no path passes these (b,) rows.
        """
        found = torch.full_like(self.pair, -1, dtype=torch.int32)
        if without is not None:
            found[without] = -2
        found[starts] = 0
        border, step = starts, 0
        while border.numel():
            step += 1
            reached = self.columns[entries(self.indptr, border)[1]].long()
            found[reached[found[reached] == -1]] = step
            border = (found == step).nonzero()[:, 0]
        return found.clamp_(min=-1)


def enclosing_subgraphs(
    messages: MessageGraph, pairs: Tensor, hops: int, *, hidden: Tensor | None = None, own_edge: bool
) -> Subgraphs:
    """The subgraphs of (b, 2) pairs over the edges that `hidden` does not mark.

    Without `own_edge`, the edge between both ends is left out of a pair's own subgraph, and stays in those of others.
    """
    most = max(1, _CELLS // max(1, messages.num_nodes))
    table = torch.full((min(most, len(pairs)) * messages.num_nodes,), -1, dtype=torch.int32, device=pairs.device)
    parts = [_subgraphs(messages, some, hops, hidden, table, own_edge=own_edge) for some in pairs.split(most)]
    if len(parts) == 1:
        return parts[0]
    rows = torch.tensor([len(part.pair) for part in parts]).cumsum(0).tolist()
    slots = torch.tensor([len(part.columns) for part in parts]).cumsum(0).tolist()
    before, slots_before = [0, *rows[:-1]], [0, *slots[:-1]]
    return Subgraphs(
        torch.cat([part.pair + place * most for place, part in enumerate(parts)]),
        torch.cat([part.node for part in parts]),
        torch.cat([part.ends + first for part, first in zip(parts, before, strict=True)]),
        torch.cat([parts[0].indptr[:1], *(p.indptr[1:] + s for p, s in zip(parts, slots_before, strict=True))]),
        torch.cat([part.columns + first for part, first in zip(parts, before, strict=True)]),
    )


def _subgraphs(
    messages: MessageGraph, pairs: Tensor, hops: int, hidden: Tensor | None, table: Tensor, *, own_edge: bool
) -> Subgraphs:
    """The subgraphs of as many pairs as the table has room for; it holds -1 before and after."""
    num_nodes, device = messages.num_nodes, pairs.device
    first = torch.arange(len(pairs), device=device)[:, None] * num_nodes
    cells = (first + pairs).flatten()  # pair * n + node
    place = table[: len(pairs) * num_nodes]
    place[cells] = 0
    border = cells.unique()
    borders = [border]
    for step in range(1, hops + 1):
        around, node = visible_neighbours(messages, border % num_nodes, hidden)
        reached = border[around] - border[around] % num_nodes + node
        reached = reached[place[reached] == -1]
        place[reached] = step
        # of a large graph, sorting what is reached takes less time than reading the table
        border = reached.unique() if _SORTED * len(reached) < len(place) else (place == step).nonzero()[:, 0]
        borders.append(border)
    chosen = torch.cat(borders).sort().values
    place[chosen] = torch.arange(len(chosen), dtype=torch.int32, device=device)
    pair, node = chosen // num_nodes, chosen % num_nodes
    row, other = visible_neighbours(messages, node, hidden)
    column = place[pair[row] * num_nodes + other]
    inside = column >= 0
    if not own_edge:
        low, high = pairs.min(1).values[pair][row], pairs.max(1).values[pair][row]
        inside &= (torch.minimum(node[row], other) != low) | (torch.maximum(node[row], other) != high)
    counts = torch.bincount(row[inside], minlength=len(chosen))
    indptr = F.pad(counts.cumsum(0), (1, 0)).int()
    ends = place[cells].long().view(-1, 2)
    place[chosen] = -1
    return Subgraphs(pair, node, ends, indptr, column[inside])


def blocks_of_pairs(messages: MessageGraph, pairs: Tensor, hops: int) -> Iterator[Tensor]:
    """Runs of (b, 2) pairs whose subgraphs have a bounded number of edges together, or of one pair each."""
    ones = torch.ones(messages.num_nodes, device=pairs.device)
    links = messages.structure.scaled(None, ones)
    walks = SymmetricOperator(links.indptr, links.columns, links.values)
    degrees = messages.structure.degrees()
    reach = degrees  # no fewer than the ends of edges that a search of so many hops looks at
    for _ in range(hops):
        reach = degrees + walks.product(reach[:, None])[:, 0]
    costs = reach[pairs].sum(1).clamp(max=2 * len(messages.pairs)).double()
    block = (costs.cumsum(0) / _SLOTS).long()
    yield from pairs.split(torch.unique_consecutive(block, return_counts=True)[1].tolist())


def visible_neighbours(messages: MessageGraph, nodes: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
    """For each of (b,) nodes its neighbours by edges that are not hidden: (a,) the place in `nodes`, (a,) the node."""
    structure = messages.structure
    row, slot = entries(structure.indptr, nodes)
    if hidden is not None:
        seen = ~hidden[structure.pair_of_slot[slot]]
        row, slot = row[seen], slot[seen]
    return row, structure.columns[slot].long()


def entries(indptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The entries of some rows of a compressed matrix: (a,) the place in `rows`, (a,) the place among all entries."""
    start = indptr[rows].long()
    counts = indptr[rows + 1] - start
    row = torch.repeat_interleave(counts)
    first = start - counts.cumsum(0) + counts
    return row, first[row] + torch.arange(len(row), device=row.device)
