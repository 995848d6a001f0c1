"""Context nodes of pairs: neighbours of both ends, of one end, and further nodes, chosen by personalised PageRank."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.peers.ncn import common_neighbours, lone_neighbours
from yinyan.peers.neighbours import Neighbours
from yinyan.peers.walk_sums import large_pageranks

__all__ = ["KINDS", "Context", "PageRanks"]

KINDS = ("common neighbour", "neighbour of one end", "further away")
_RESTART = 0.15
_LEAST = 0.01  # share of the threshold below which a PageRank counts as 0


class Context(NamedTuple):
    """Nodes around pairs: of pair `row[a]` the node `node[a]`, of kind `kind[a]`, with the PageRank from either end."""

    row: Tensor
    node: Tensor
    kind: Tensor  # place in KINDS
    ranks: Tensor  # (a, 2)
    neighbours: Tensor  # (b,) nodes next to an end or to both, whatever their PageRank


class PageRanks:
    """Personalised PageRank of a graph, exact also for the graph without the edge of a pair.

    Without the edge (u, v) two rows of the transition matrix differ. By Woodbury's identity the PageRanks from u and v
    are then combinations of those before: π'_u = T_11 π_u + T_12 π_v at all nodes but u and v, and π'_v alike.
    """

    def __init__(self, messages: MessageGraph, threshold: float) -> None:
        structure, device = messages.structure, messages.pairs.device
        indptr, columns = (part.cpu().numpy().astype(np.int64) for part in (structure.indptr, structure.columns))
        found = large_pageranks(
            Neighbours(indptr, columns, np.diff(indptr)), restart=_RESTART, least=_LEAST * threshold
        )
        self.messages, self.threshold = messages, threshold
        self.degrees = structure.indptr.diff().double()
        self.indptr, self.columns, self.values = (torch.from_numpy(part).to(device) for part in found)
        rows = torch.repeat_interleave(self.indptr.diff())
        self.keys = rows * messages.num_nodes + self.columns
        growth = self._transfer(messages.pairs).abs().sum(2).amin(1)  # of the end that gains less: both shall reach it
        most = max(1.0, float(growth.amax()) if len(growth) else 1.0)
        strong = self.values >= 0.999 * threshold / most  # others stay below the threshold without whichever edge
        self.strong_columns = self.columns[strong]
        self.strong_indptr = F.pad(torch.bincount(rows[strong], minlength=messages.num_nodes).cumsum(0), (1, 0))

    def of(self, sources: Tensor, nodes: Tensor) -> Tensor:
        """(a,) PageRanks of nodes from sources, 0 where they are below a hundredth of the threshold."""
        wanted = sources * self.messages.num_nodes + nodes
        place = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[place] == wanted, self.values[place], 0.0)

    @torch.no_grad()
    def context(self, pairs: Tensor) -> Context:
        """The context of (b, 2) pairs, each in the graph without its own edge.

        Common neighbours all belong to it; of other nodes those whose PageRank from both ends reaches the threshold.
        """
        common = common_neighbours(self.messages, pairs, None)
        lone_row, lone_node, _ = lone_neighbours(self.messages, pairs, None)
        far_row, far_node = self._far(pairs)
        row = torch.cat([common.row, lone_row, far_row]).long()
        node = torch.cat([common.node, lone_node, far_node])
        sizes = torch.tensor([len(common.row), len(lone_row), len(far_row)], device=row.device)
        kind = torch.repeat_interleave(torch.arange(3, device=row.device), sizes)
        ranks = self._ranks(pairs, row, node)
        chosen = (kind == 0) | (ranks >= self.threshold).all(1)
        neighbours = torch.bincount(row[kind < 2], minlength=len(pairs))
        return Context(row[chosen], node[chosen], kind[chosen], ranks[chosen], neighbours)

    def _ranks(self, pairs: Tensor, row: Tensor, node: Tensor) -> Tensor:
        """(a, 2) PageRanks of nodes from both ends of their pairs."""
        ends = pairs[row]
        before = torch.stack([self.of(ends[:, 0], node), self.of(ends[:, 1], node)], dim=1)
        transfer = torch.eye(2, dtype=torch.float64, device=pairs.device).repeat(len(pairs), 1, 1)
        edges = self.messages.known.contains(pairs)
        transfer[edges] = self._transfer(pairs[edges])
        return torch.bmm(transfer[row].to(before.dtype), before[:, :, None])[:, :, 0].clamp(min=0)

    def _far(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """(a,) each: the pair's row and a node that is neither an end nor next to one, but perhaps near enough."""
        known = self.messages.known
        keys = []
        for end in (0, 1):
            start, counts = self.strong_indptr[pairs[:, end]], self.strong_indptr.diff()[pairs[:, end]]
            if end == 1:  # without an edge to lose, what is near to both is near to the first
                counts = torch.where(known.contains(pairs), counts, 0)
            row = torch.repeat_interleave(counts)
            slot = start[row] + torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
            keys.append(row * self.messages.num_nodes + self.strong_columns[slot])
        candidates = torch.unique(torch.cat(keys))
        row, node = candidates // self.messages.num_nodes, candidates % self.messages.num_nodes
        ends = pairs[row]
        near = (ends == node[:, None]).any(1)
        for end in (0, 1):
            near |= known.contains(torch.stack([ends[:, end], node], dim=1))
        return row[~near], node[~near]

    def _transfer(self, pairs: Tensor) -> Tensor:
        """(b, 2, 2) T of (b, 2) pairs that are edges; zero in the row of an end that has no other neighbour.

        With G = π / α = (I - c P)^-1 and c = 1 - α, the rows of P without the edge differ by Δ, and
        G' = G + c G E (I - c Δ G E)^-1 Δ G for E = [e_u, e_v]. At nodes but u and v, Δ G = Q [G_u; G_v].
        """
        c, (u, v) = 1 - _RESTART, pairs.unbind(1)
        around = [[self.of(a, b).double() / _RESTART for b in (u, v)] for a in (u, v)]
        g = torch.stack([torch.stack(line, dim=1) for line in around], dim=1)
        rest = self.degrees[pairs] - 1
        alone = rest == 0  # such an end keeps its walker
        own = torch.where(alone, 1.0, 1 / (c * rest.clamp(min=1)))
        other = torch.where(alone, -1.0, -1 / rest.clamp(min=1))
        q = torch.diag_embed(own) + torch.diag_embed(other).flip(2)
        inner = q @ g - torch.diag_embed(torch.where(alone, 0.0, own))
        unit = torch.eye(2, dtype=g.dtype, device=g.device)
        transfer = unit + c * g @ torch.linalg.solve(unit - c * inner, q)
        return torch.where(alone[:, :, None], 0.0, transfer)
