"""Neural common neighbours, plain and completed: decoders that look at the graph around each pair."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.model.encoder import Encoder, NodeEncoder
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.model.scoring import Model
from yinyan.peers.contract import Outcome, Task, trained
from yinyan.randomness import dropout
from yinyan.settings import DecoderSettings, Settings

__all__ = [
    *("Around", "NeighbourDecoder", "NeighbourModel"),
    *("common_neighbours", "lone_neighbours", "ncn", "ncnc", "visible_neighbours"),
]

_OWN = {"decoder": {"norm": True, "dropout": 0.1}}


def ncn(task: Task) -> Outcome:
    """Wang, Yang, Zhang: Neural Common Neighbor with Completion (ICLR 2024), on top of our encoder."""
    return trained(task, lambda settings, graph: _build(settings, graph, complete=False), _OWN)


def ncnc(task: Task) -> Outcome:
    """The same; a neighbour of one end only counts by the chance that NCN gives to its missing link."""
    return trained(task, lambda settings, graph: _build(settings, graph, complete=True), _OWN)


class Around(NamedTuple):
    """Nodes around pairs: of pair `row[a]` the node `node[a]`, counted `chance[a]` times."""

    row: Tensor
    node: Tensor
    chance: Tensor


class NeighbourDecoder(Decoder):
    """MLP(MLP(y_i ⊙ y_j) + β MLP(Σ_u y_u)), u over the nodes around the pair."""

    def __init__(self, size: int, settings: DecoderSettings) -> None:
        super().__init__(size, directed=False)
        self.settings = settings
        width = settings.width
        self.product = nn.ModuleList([nn.Linear(size, width)])
        self.around = nn.ModuleList([nn.Linear(size, width), nn.Linear(width, width)])
        self.joint = nn.ModuleList([nn.Linear(width, width) for _ in range(settings.depth - 1)])
        self.output = nn.Linear(width, 1)
        self.beta = nn.Parameter(torch.ones(()))

    def combined(self, products: Tensor, sums: Tensor, drops: torch.Generator | None) -> Tensor:
        """(b,) logits of the products of both ends and the sums over the nodes around them."""
        x = self._mlp(self.product, products, drops) + self.beta * self._mlp(self.around, sums, drops)
        return self.output(self._mlp(self.joint, x, drops)).squeeze(-1)  # type: ignore[no-any-return]

    def _mlp(self, layers: nn.ModuleList, x: Tensor, drops: torch.Generator | None) -> Tensor:
        for linear in layers:
            x = linear(x)
            x = F.layer_norm(x, x.shape[-1:]) if self.settings.norm else x
            x = dropout(F.relu(x), self.settings.dropout, drops)
        return x


class NeighbourModel(Model):
    """An encoder, and a decoder that reads the neighbours of both ends besides their two vectors."""

    def __init__(self, encoder: NodeEncoder, decoder: NeighbourDecoder, *, complete: bool) -> None:
        super().__init__(encoder, decoder)
        self.neighbour_decoder = decoder
        self.complete = complete

    def logits(
        self,
        y: Tensor,
        pairs: Tensor,
        messages: MessageGraph,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """(...) logits of (..., 2) pairs."""
        flat = pairs.reshape(-1, 2)
        around = common_neighbours(messages, flat, hidden)
        if self.complete:
            around = self._completed(y.detach(), flat, around, messages, hidden)
        return self._score(y, flat, around, drops).view(pairs.shape[:-1])

    @torch.no_grad()  # the chances are weights: no gradient makes them larger
    def _completed(
        self, y: Tensor, pairs: Tensor, around: Around, messages: MessageGraph, hidden: Tensor | None
    ) -> Around:
        """The common neighbours, and those of one end only by the chance of the missing link."""
        row, node, other = lone_neighbours(messages, pairs, hidden)
        missing = torch.stack([node, other], dim=1)
        chance = torch.sigmoid(self._score(y, missing, common_neighbours(messages, missing, hidden), None))
        return Around(torch.cat([around.row, row]), torch.cat([around.node, node]), torch.cat([around.chance, chance]))

    def _score(self, y: Tensor, pairs: Tensor, around: Around, drops: torch.Generator | None) -> Tensor:
        ends = y.index_select(0, pairs.reshape(-1)).view(-1, 2, y.shape[1])
        order = torch.argsort(around.row, stable=True)
        counts = torch.bincount(around.row, minlength=len(pairs))
        chosen = SparseMatrix.from_csr(
            F.pad(counts.cumsum(0), (1, 0)), around.node[order], around.chance[order], len(y)
        )
        return self.neighbour_decoder.combined(ends[:, 0] * ends[:, 1], chosen.product(y), drops)


def common_neighbours(messages: MessageGraph, pairs: Tensor, hidden: Tensor | None) -> Around:
    """Nodes linked to both ends of (b, 2) pairs by links that are not hidden."""
    indptr = messages.structure.indptr
    degrees = indptr.diff()[pairs]
    less = degrees[:, 0] <= degrees[:, 1]
    from_end = torch.where(less, pairs[:, 0], pairs[:, 1])
    other = torch.where(less, pairs[:, 1], pairs[:, 0])
    row, node = visible_neighbours(messages, from_end, hidden)
    shared = messages.known.contains(torch.stack([other[row], node], dim=1), hidden)
    return Around(row[shared], node[shared], messages.weights.new_ones(int(shared.sum())))


def lone_neighbours(messages: MessageGraph, pairs: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """(a,) each: the pair's row, a neighbour of one of its ends only, and the end that it is not linked to."""
    rows, nodes, others = [], [], []
    for this, that in ((0, 1), (1, 0)):
        row, node = visible_neighbours(messages, pairs[:, this], hidden)
        other = pairs[row, that]
        alone = (node != other) & ~messages.known.contains(torch.stack([other, node], dim=1), hidden)
        rows.append(row[alone])
        nodes.append(node[alone])
        others.append(other[alone])
    return torch.cat(rows), torch.cat(nodes), torch.cat(others)


def visible_neighbours(messages: MessageGraph, nodes: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
    """For each of (b,) nodes its visible neighbours: (a,) the place in `nodes`, (a,) the neighbour."""
    structure = messages.structure
    start, counts = structure.indptr[nodes], structure.indptr.diff()[nodes]
    row = torch.repeat_interleave(counts)
    first = counts.cumsum(0) - counts
    slot = start[row] + torch.arange(len(row), device=row.device) - first[row]
    if hidden is not None:
        seen = ~hidden[structure.pair_of_slot[slot]]
        row, slot = row[seen], slot[seen]
    return row, structure.columns[slot].long()


def _build(settings: Settings, graph: Graph, *, complete: bool) -> Model:
    num_features = 0 if graph.features is None else graph.features.shape[1]
    encoder = Encoder(settings.encoder, graph.num_nodes, num_features)
    return NeighbourModel(encoder, NeighbourDecoder(settings.encoder.hidden_size, settings.decoder), complete=complete)
