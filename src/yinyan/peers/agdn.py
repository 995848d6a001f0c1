"""Graph diffusion with attention over hops, plain (AGDN) and with inception branches (GIDN)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.model.encoder import NodeNorm
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix, csr_product, row_dots
from yinyan.peers.contract import Outcome, Task
from yinyan.peers.layered import Layered
from yinyan.peers.plnlp import pairwise
from yinyan.randomness import dropout
from yinyan.settings import EncoderSettings

__all__ = ["AGDN", "GIDN", "Diffusion", "InceptionDiffusion", "agdn", "gidn", "places", "transition"]

_SLOPE = 0.2  # of the leaky ReLU


class Diffusion(nn.Module):
    """Σ_k θ_ik h_i(k) + y_i R + b over the hops k = 0..K (Sun et al.: Adaptive Graph Diffusion Networks, 2020).

    H(0) = Y W and H(k) = A H(k-1), where A is the attention of a GAT over the neighbours of a node; h(k) are the rows
    of H(k) at unit length plus an embedding of the hop; θ_i = e^β softmax_k LeakyReLU(u · h_i(0) + v · h_i(k)).
    """

    def __init__(self, size: int, hops: int) -> None:
        super().__init__()
        self.hops = hops
        self.weight, self.residual = (nn.Linear(size, size, bias=False) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(size))
        self.from_source, self.from_target, self.own_hop, self.other_hop = (_vector(size) for _ in range(4))
        self.position = nn.Parameter(torch.randn(hops + 1, size) * math.sqrt(2 / (hops + 1 + size)))
        self.beta = nn.Parameter(torch.rand(()))
        for linear in (self.weight, self.residual):
            nn.init.xavier_normal_(linear.weight, math.sqrt(2))

    def forward(self, y: Tensor, links: SparseMatrix) -> Tensor:
        """(n, size) rows from (n, size) rows."""
        total: Tensor = self.mixed(self.diffused(y, links)) + self.residual(y) + self.bias
        return total

    def diffused(self, y: Tensor, links: SparseMatrix) -> Tensor:
        """(n, K + 1, size) h(0), …, h(K)."""
        x = self.weight(y)
        attention = transition(links, x @ self.from_source, x @ self.from_target)
        hops = [x]
        for _ in range(self.hops):
            hops.append(_Product.apply(links, attention, hops[-1]))
        return F.normalize(torch.stack(hops, dim=1), dim=-1) + self.position

    def mixed(self, hops: Tensor) -> Tensor:
        """(n, size) sum over hops, weighted by θ."""
        return (self.shares(hops)[:, :, None] * hops).sum(1)

    def shares(self, hops: Tensor) -> Tensor:
        """(n, K + 1) θ."""
        logits = hops @ self.other_hop + (hops[:, :1] @ self.own_hop)
        return F.leaky_relu(logits, _SLOPE).softmax(1) * self.beta.exp()


class InceptionDiffusion(Diffusion):
    """The same, plus branches: [ReLU(h(0) W_0), …, ReLU(h(K) W_K)] V with narrow W_k, one for each hop.

    Our reading of Wang et al.: GIDN, a Lightweight Graph Inception Diffusion Network (2022), whose code is not public.
    """

    def __init__(self, size: int, hops: int) -> None:
        super().__init__(size, hops)
        narrow = max(1, size // (hops + 1))
        self.branches = nn.ModuleList(nn.Linear(size, narrow) for _ in range(hops + 1))
        self.joint = nn.Linear(narrow * (hops + 1), size, bias=False)

    def mixed(self, hops: Tensor) -> Tensor:
        """(n, size) sum over hops and branches."""
        branches = [F.relu(branch(hops[:, k])) for k, branch in enumerate(self.branches)]
        total: Tensor = super().mixed(hops) + self.joint(torch.cat(branches, dim=1))
        return total


class AGDN(Layered):
    """Layers of `Diffusion`; with `base_norm` batch normalisation over all nodes between them."""

    hops = 3
    kind: type[Diffusion] = Diffusion

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int) -> None:
        super().__init__(settings, num_nodes, num_features)
        count = max(0, settings.num_steps - 1) if settings.base_norm else 0
        self.norms = nn.ModuleList(NodeNorm(settings.hidden_size) for _ in range(count))

    def layer(self, number: int, size: int) -> nn.Module:
        """Attention over hops."""
        return self.kind(size, self.hops)

    def links(self, messages: MessageGraph, hidden: Tensor | None, negatives: torch.Generator | None) -> SparseMatrix:
        """The places of the visible links."""
        return places(messages, hidden)

    def stacked(self, f: Tensor, links: SparseMatrix, drops: torch.Generator | None) -> Tensor:
        """All layers; the last is without normalisation and ReLU."""
        y = f
        for number, layer in enumerate(self.layers):
            if number:
                y = self.norms[number - 1](y) if self.norms else y
                y = dropout(F.relu(y), self.settings.dropout, drops)
            y = layer(y, links)
        return y


class GIDN(AGDN):
    """Layers of `InceptionDiffusion` over two hops, as in the paper's run of ogbl-collab."""

    hops = 2
    kind = InceptionDiffusion


def places(messages: MessageGraph, hidden: Tensor | None) -> SparseMatrix:
    """Where the links that `hidden` does not mark stand in the adjacency matrix, both ways; each value is one."""
    structure = messages.structure
    rows, columns = structure.rows, structure.columns
    if hidden is not None:
        seen = ~hidden[structure.pair_of_slot]
        rows, columns = rows[seen], columns[seen]
    indptr = F.pad(torch.bincount(rows, minlength=messages.num_nodes).cumsum(0), (1, 0))
    return SparseMatrix.from_csr(indptr, columns, messages.weights.new_ones(len(columns)), messages.num_nodes)


def transition(links: SparseMatrix, sources: Tensor, targets: Tensor) -> Tensor:
    """(nnz,) softmax_j LeakyReLU(source_j + target_i) over the neighbours j of each node i."""
    rows = torch.repeat_interleave(links.indptr.diff())
    logits = F.leaky_relu(sources.index_select(0, links.columns.long()) + targets.index_select(0, rows), _SLOPE)
    n = links.shape[0]
    most = logits.new_full((n,), -torch.inf).scatter_reduce(0, rows, logits.detach(), "amax")
    raised = (logits - most.index_select(0, rows)).exp()
    sums = raised.new_zeros(n).index_add(0, rows, raised)
    return raised / sums.index_select(0, rows)


class _Product(torch.autograd.Function):
    """A H, differentiable in the values of A and in H."""

    @staticmethod
    def forward(ctx, links, values, y):  # type: ignore[no-untyped-def]
        ctx.links = links
        ctx.save_for_backward(values, y)
        return csr_product(links.indptr, links.columns, values, y)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        values, y = ctx.saved_tensors
        links, grad = ctx.links, grad.contiguous()
        rows = torch.repeat_interleave(links.indptr.diff())
        turned = values[links.slot_of_turned]
        for_values = row_dots(grad.index_select(0, rows), y.index_select(0, links.columns.long()))
        return None, for_values, csr_product(links.turned_indptr, links.turned_columns, turned, grad)


def agdn(task: Task) -> Outcome:
    """Two layers of diffusion over three hops, PLNLP's loss with three negatives, a Hadamard MLP."""
    return pairwise(task, AGDN, 0.4, norm=True)


def gidn(task: Task) -> Outcome:
    """The same over two hops and with inception branches."""
    return pairwise(task, GIDN, 0.4, norm=True)


def _vector(size: int) -> nn.Parameter:
    """As a matrix of one row by Glorot and Bengio, for a ReLU."""
    return nn.Parameter(torch.randn(size) * math.sqrt(2 * 2 / (1 + size)))
