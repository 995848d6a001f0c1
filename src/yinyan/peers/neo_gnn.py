"""Neo-GNN: a graph convolution, and beside it the weighted overlap of the neighbourhoods of both ends."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.graph import Graph
from yinyan.model.decoder import Decoder, build_decoder
from yinyan.model.encoder import NodeEncoder
from yinyan.model.losses import LOSSES
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.model.scoring import Model, Pairs
from yinyan.peers.contract import Outcome, Task, trained
from yinyan.peers.enclosing import entries, visible_neighbours
from yinyan.peers.gnn import GCN
from yinyan.settings import Settings

__all__ = ["Neighbourhoods", "OverlapModel", "neighbourhoods", "neo_gnn", "overlaps"]

_TWO_HOPS = 0.1  # β, the weight of walks of two edges, as published
_EDGE, _NODE, _SCORE = 8, 128, 128  # dimensions of the hidden layers of f_edge, f_node and g_phi, as published

# the convolution as for the peer `gcn`; one negative per edge as published
_OWN = {
    "encoder": {"num_steps": 2, "dropout": 0.3, "output_norm": False},
    "decoder": {"depth": 3, "norm": True, "dropout": 0.1},
    "training": {"weight_decay": 0.05, "loss_negatives": 1},
}


def neo_gnn(task: Task) -> Outcome:
    """Yun, Kim, Lee, Kang, Kim: Neo-GNNs: Neighborhood Overlap-aware Graph Neural Networks (NeurIPS 2021).

    With Â = A + β A² over the visible edges, x_i = f_node(Σ_j f_edge(Â_ij)) is a node's structural feature, and
    g_phi(Σ_i Â_ui x_i Â_vi x_i) the structural logit of (u, v).
    """
    return trained(task, _build, _OWN)


class Neighbourhoods(NamedTuple):
    """Â = A + β A² in compressed rows, its columns ascending within a row."""

    keys: Tensor  # (e,) row * n + column, ascending
    indptr: Tensor  # (n + 1,)
    values: Tensor  # (e,)

    @property
    def num_nodes(self) -> int:
        """Rows, and columns."""
        return len(self.indptr) - 1


def neighbourhoods(messages: MessageGraph, hidden: Tensor | None, nodes: Tensor | None = None) -> Neighbourhoods:
    """Â over the edges that are not hidden, each with a weight of one; its diagonal holds β times the degrees.

    With (r,) distinct `nodes` only their rows are made, and the others stay empty.
    """
    num_nodes, device = messages.num_nodes, messages.pairs.device
    sources = torch.arange(num_nodes, device=device) if nodes is None else nodes
    place, near = visible_neighbours(messages, sources, hidden)
    row = sources[place]
    middle, far = visible_neighbours(messages, near, hidden)
    keys, place = torch.cat([row * num_nodes + near, row[middle] * num_nodes + far]).unique(return_inverse=True)
    weights = messages.weights.new_full((len(place),), _TWO_HOPS)
    weights[: len(row)] = 1.0
    values = weights.new_zeros(len(keys)).index_add_(0, place, weights)
    counts = torch.bincount(keys // num_nodes, minlength=num_nodes)
    return Neighbourhoods(keys, F.pad(counts.cumsum(0), (1, 0)), values)


def overlaps(around: Neighbourhoods, pairs: Tensor) -> SparseMatrix:
    """(b × n) Â_ui Â_vi for (b, 2) pairs (u, v) and all nodes i that stand in both rows."""
    sizes = around.indptr.diff()[pairs]
    less = sizes[:, 0] <= sizes[:, 1]
    fewer = torch.where(less, pairs[:, 0], pairs[:, 1])
    other = torch.where(less, pairs[:, 1], pairs[:, 0])
    row, slot = entries(around.indptr, fewer)
    node = around.keys[slot] % around.num_nodes
    wanted = other[row] * around.num_nodes + node
    place = torch.searchsorted(around.keys, wanted).clamp(max=max(0, len(around.keys) - 1))
    shared = around.keys[place] == wanted
    values = (around.values[slot] * around.values[place])[shared]
    counts = torch.bincount(row[shared], minlength=len(pairs))
    return SparseMatrix.from_csr(F.pad(counts.cumsum(0), (1, 0)), node[shared], values, around.num_nodes)


class Parts(NamedTuple):
    """Logits of the same pairs."""

    structure: Tensor
    features: Tensor
    both: Tensor  # of the mean probability of the two, weighted by softmax(α)


class OverlapModel(Model):
    """An encoder and a decoder, and what the neighbourhoods of both ends share."""

    def __init__(self, encoder: NodeEncoder, decoder: Decoder) -> None:
        super().__init__(encoder, decoder)
        self.edge, self.node, self.score = (_of_a_number(width) for width in (_EDGE, _NODE, _SCORE))
        self.alpha = nn.Parameter(torch.zeros(2))

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
        return self.parts(y, pairs, messages, hidden, drops).both

    def loss(
        self,
        pairs: Pairs,
        messages: MessageGraph,
        kind: str,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """The losses of both kinds of logits and of their mixture, added."""
        together = torch.cat([pairs.links[:, None], pairs.non_links], dim=1)
        parts = self.parts(pairs.rows, together, messages, hidden, drops)
        return torch.stack([LOSSES[kind](logits[:, 0], logits[:, 1:]) for logits in parts]).sum()

    def parts(
        self, y: Tensor, pairs: Tensor, messages: MessageGraph, hidden: Tensor | None, drops: torch.Generator | None
    ) -> Parts:
        """(...) logits of (..., 2) pairs, apart and together."""
        structure = self._structural(pairs.reshape(-1, 2), messages, hidden).view(pairs.shape[:-1])
        features = self.decoder.of_pairs(y, pairs, drops)
        shares = F.log_softmax(self.alpha, dim=0)
        yes, no = (
            torch.logaddexp(shares[0] + F.logsigmoid(sign * structure), shares[1] + F.logsigmoid(sign * features))
            for sign in (1, -1)
        )
        return Parts(structure, features, yes - no)

    def _structural(self, pairs: Tensor, messages: MessageGraph, hidden: Tensor | None) -> Tensor:
        """(b,) g_phi(Σ_i Â_ui x_i Â_vi x_i)."""
        around = neighbourhoods(messages, hidden)
        parts = self.edge(around.values[:, None])
        sums = parts.new_zeros(around.num_nodes, 1).index_add(0, around.keys // around.num_nodes, parts)
        shared = overlaps(around, pairs).product(self.node(sums).square())
        return self.score(shared).squeeze(-1)  # type: ignore[no-any-return]


def _of_a_number(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 1))


def _build(settings: Settings, graph: Graph) -> Model:
    num_features = 0 if graph.features is None else graph.features.shape[1]
    encoder = GCN(settings.encoder, graph.num_nodes, num_features)
    return OverlapModel(encoder, build_decoder(settings.decoder, settings.encoder.hidden_size, directed=graph.directed))
