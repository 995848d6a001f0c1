"""The rows of one process: its nodes, its edges, and the messages that pass over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.distributed.exchange import RowExchange
from yinyan.distributed.group import Group
from yinyan.distributed.prepared import ROLES, Manifest, Part
from yinyan.model.expected_negatives import Population
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import EdgeStructure, SymmetricOperator
from yinyan.randomness import hashed_at, named_seed, uniforms_at
from yinyan.sampling import KnownPairs

__all__ = ["EdgeSet", "Nodes", "ShardedMessages", "Targets", "sharded_messages", "target_edges", "target_ends"]

Rows = NDArray[np.int64]


class Nodes:
    """Who owns which rows, and which rows are of which side."""

    def __init__(self, group: Group, manifest: Manifest, left: NDArray[np.bool_] | None) -> None:
        self.group, self.count, self.directed = group, manifest.num_nodes, manifest.directed
        starts = manifest.starts(group.size)
        self.starts = torch.from_numpy(starts).to(group.device)
        self.first, self.last = int(starts[group.rank]), int(starts[group.rank + 1])
        self.own = torch.arange(self.first, self.last, device=group.device)
        self.left: Tensor | None = None  # (own,)
        self._sides: tuple[Tensor, ...] = ()  # rows of each side
        self.numbers = self.own  # of the own rows in the saved model, where the left side comes first
        if left is not None:
            self.left = torch.from_numpy(left).to(group.device)
            # a byte per node of the whole graph, and four or eight for its place
            mask = group.gathered(self.left.to(torch.uint8)).bool()
            kind = torch.int32 if self.count < 2**31 else torch.int64
            self._sides = mask.nonzero()[:, 0].to(kind), (~mask).nonzero()[:, 0].to(kind)
            rank = mask.cumsum(0)[self.first : self.last]
            self.numbers = torch.where(self.left, rank - 1, len(self._sides[0]) + self.own - rank)

    @property
    def side_counts(self) -> tuple[int, ...]:
        """Nodes of all, or of the left and of the right side."""
        return (self.count,) if self.left is None else tuple(map(len, self._sides))

    def numbers_of(self, rows: Tensor) -> Tensor:
        """The numbers of any rows in the saved model."""
        if self.left is None:
            return rows
        left = self._sides[0]
        rank = torch.searchsorted(left, rows.to(left.dtype).contiguous())
        return torch.where(self.is_left(rows), rank, len(left) + rows - rank)

    def in_order(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """An entry per own row, divided into blocks whose rows follow each other in the saved model."""
        if self.left is None:
            return [rows]
        left = self.left.cpu().numpy()
        return [rows[left], rows[~left]]

    def order(self) -> Rows:
        """(n,) the row of each number of the saved model."""
        if self.left is None:
            return np.arange(self.count)
        return torch.cat(self._sides).cpu().numpy().astype(np.int64)

    def owns(self, rows: Tensor) -> Tensor:
        """Which rows are of this process."""
        return (rows >= self.first) & (rows < self.last)

    def is_left(self, rows: Tensor) -> Tensor:
        """Which rows are of the left side, of a graph with two."""
        left = self._sides[0]
        place = torch.searchsorted(left, rows.to(left.dtype).contiguous()).clamp(max=len(left) - 1)
        return left[place] == rows

    def drawn(self, seed: int, places: Tensor, side: int) -> Tensor:
        """Rows drawn uniformly, of one side if there are two; a function of the seed and the places."""
        if self.left is None:
            return uniforms_at(seed, places, self.count)
        return self._sides[side][uniforms_at(seed, places, len(self._sides[side]))].long()


class EdgeSet:
    """The edges that begin in own rows, to be looked up."""

    def __init__(self, nodes: Nodes, part: Part, roles: tuple[int, ...]) -> None:
        chosen = np.isin(part.role, roles)
        if part.forward is not None:
            chosen &= part.forward
        keys = (part.row[chosen] - nodes.first) * nodes.count + part.neighbour[chosen]
        self._nodes, self._keys = nodes, torch.from_numpy(keys).to(nodes.group.device)

    def contains(self, pairs: Tensor) -> Tensor:
        """(...) whether (..., 2) pairs, whose first ends are own rows, are edges."""
        if not self._keys.numel():
            return torch.zeros(pairs.shape[:-1], dtype=torch.bool, device=pairs.device)
        wanted = (pairs[..., 0] - self._nodes.first) * self._nodes.count + pairs[..., 1]
        place = torch.searchsorted(self._keys, wanted.contiguous()).clamp(max=self._keys.numel() - 1)
        return self._keys[place] == wanted


@dataclass(frozen=True)
class Targets:
    """Edges to predict, in the process that owns their first end."""

    pairs: Tensor  # (t, 2) rows of the whole graph
    edges: Tensor  # (t,) number of the undirected edge
    numbers: Tensor  # (t,) a number of each, whoever holds it

    def __len__(self) -> int:
        return self.pairs.shape[0]

    def some(self, chosen: Tensor) -> Targets:
        """Some of them."""
        return Targets(self.pairs[chosen], self.edges[chosen], self.numbers[chosen])


def target_edges(nodes: Nodes, part: Part, role: str) -> Targets:
    """The edges of a role: as directed, from left to right, or else from an end that a hash of the edge chooses."""
    device = nodes.group.device
    row, neighbour, edge = (torch.from_numpy(x).to(device) for x in (part.row, part.neighbour, part.edge))
    chosen = torch.from_numpy(part.role == ROLES[role]).to(device)
    if part.forward is not None:
        chosen &= torch.from_numpy(part.forward).to(device)
    elif nodes.left is not None:
        chosen &= nodes.left[row - nodes.first]
    else:  # half of the edges at either end, so that all processes have work
        chosen &= (hashed_at(named_seed(0, "first ends"), edge) & 1 == 1) == (row < neighbour)
    row, neighbour, edge = row[chosen], neighbour[chosen], edge[chosen]
    return Targets(torch.stack([row, neighbour], dim=1), edge, 2 * edge + (row > neighbour))


def target_ends(nodes: Nodes, part: Part, role: str) -> Targets:
    """The same edges from both of their ends, each in the process that owns it; directed ones from their source."""
    chosen = part.role == ROLES[role]
    if part.forward is not None:
        chosen &= part.forward
    row, neighbour, edge = (
        torch.from_numpy(x[chosen]).to(nodes.group.device) for x in (part.row, part.neighbour, part.edge)
    )
    return Targets(torch.stack([row, neighbour], dim=1), edge, 2 * edge + (row > neighbour))


@dataclass(frozen=True)
class ShardedStructure(EdgeStructure):
    """The entries of the rows of one process whose columns are these rows, and apart from them those of `outer`, whose
    columns are rows of other processes, counted from the number of own rows on."""

    outer: EdgeStructure = field(kw_only=True)

    def degrees(self, pair_weights: Tensor | None = None, hidden: Tensor | None = None) -> Tensor:
        """(n,) sums over both."""
        return super().degrees(pair_weights, hidden) + self.outer.degrees(pair_weights, hidden)


@dataclass(frozen=True)
class ShardedMessages(MessageGraph):
    """The message links of the rows of one process; a link between two processes is held by both."""

    structure: ShardedStructure
    exchange: RowExchange = field(kw_only=True)
    nodes: Nodes = field(kw_only=True)
    edges: Tensor = field(kw_only=True)  # (m,) the number of each link in the whole graph, ascending
    is_counted: Tensor = field(kw_only=True)  # (m,) whether this process counts a link for all

    @property
    def halo(self) -> RowExchange:
        """The rows of other processes that have a link to these."""
        return self.exchange

    @property
    def numbers(self) -> Tensor:
        """(n,) the numbers of the rows in the saved model."""
        return self.nodes.numbers

    def population(self) -> Population:
        """All nodes of the graph."""
        return Population(self.nodes.side_counts, self.nodes.left, self.exchange)

    def num_visible(self, hidden: Tensor | None) -> int:
        """How many links of the whole graph `hidden` (m,) does not mark."""
        counted = self.is_counted if hidden is None else self.is_counted & ~hidden
        return int(self.exchange.summed(counted.sum()))

    def scaled(self, scale: Tensor, hidden: Tensor | None = None, *, plain: bool = False) -> SymmetricOperator:
        """diag(scale) A diag(scale) over the visible links of the own rows."""
        weights = self.weights if self.weighted and not plain else None
        whole = self.exchange.extended(scale)
        inner, outer = (rows.scaled(weights, whole, hidden) for rows in (self.structure, self.structure.outer))
        return SymmetricOperator(inner.indptr, inner.columns, inner.values, self.exchange, outer)


def sharded_messages(nodes: Nodes, part: Part, roles: tuple[int, ...]) -> ShardedMessages:
    """The messages over the edges of some roles; directions are forgotten."""
    group, chosen = nodes.group, np.isin(part.role, roles)
    row, neighbour, edge = part.row[chosen], part.neighbour[chosen], part.edge[chosen]
    weight = None if part.weight is None else part.weight[chosen]
    if part.forward is not None and row.size:  # a -> b and b -> a are one link, their weights added
        is_new = np.append(True, (np.diff(row) != 0) | (np.diff(neighbour) != 0))
        if weight is not None:
            weight = np.add.reduceat(weight, np.flatnonzero(is_new)).astype(np.float32)
        row, neighbour, edge = row[is_new], neighbour[is_new], edge[is_new]
    edges, first, place = np.unique(edge, return_index=True, return_inverse=True)
    is_counted = torch.from_numpy(_counts(row, neighbour, edges.size, place)).to(group.device)
    weights = torch.ones(edges.size) if weight is None else torch.from_numpy(weight[first])
    weights = weights.to(group.device)
    if weight is not None:
        totals = group.summed(torch.stack([weights[is_counted].double().sum(), is_counted.sum().double()]))
        weights = weights / (totals[0] / totals[1]).float()
    columns = torch.from_numpy(neighbour).to(group.device)
    exchange = RowExchange(group, nodes.starts, columns)
    structure = _structure(nodes, row, exchange.places(columns), place)
    none = torch.empty(0, 2, dtype=torch.long, device=group.device)
    return ShardedMessages(
        *(none, weights, structure, KnownPairs.from_pairs(none, structure.num_nodes), weight is not None),
        exchange=exchange,
        nodes=nodes,
        edges=torch.from_numpy(edges).to(group.device),
        is_counted=is_counted,
    )


def _structure(nodes: Nodes, row: Rows, columns: Tensor, place: Rows) -> ShardedStructure:
    """The entries in compressed rows, own columns and others apart; `place` is the link of each."""
    count, device = nodes.last - nodes.first, columns.device
    kind = torch.int32 if row.size < 2**31 else torch.int64

    def rows(chosen: Tensor) -> EdgeStructure:
        at = chosen.cpu().numpy()
        indptr = np.append(0, np.cumsum(np.bincount(row[at] - nodes.first, minlength=count)))
        return EdgeStructure(
            count,
            torch.from_numpy(indptr).to(device, kind),
            columns[chosen].to(kind),
            torch.from_numpy(place[at]).to(device, kind),
        )

    inner, outer = rows(columns < count), rows(columns >= count)
    return ShardedStructure(count, inner.indptr, inner.columns, inner.places, outer=outer)


def _counts(row: Rows, neighbour: Rows, num_edges: int, place: Rows) -> NDArray[np.bool_]:
    """(m,) whether the lower end of each link is among the rows, so that one process counts it."""
    counted = np.zeros(num_edges, dtype=np.bool_)
    counted[place[row < neighbour]] = True
    return counted
