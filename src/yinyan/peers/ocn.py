"""Orthogonal common neighbours: first and second order, normalised over the graph or, as published, over the batch."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.graph import Graph
from yinyan.model.encoder import NodeEncoder
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import inverse_or_zero
from yinyan.model.scoring import Model
from yinyan.peers.contract import Method, Outcome, Task, trained
from yinyan.peers.gae import LinearPropagation
from yinyan.peers.ncn import Around, NeighbourDecoder, common_neighbours, sums_around
from yinyan.peers.pair_walks import three_steps, two_step_reach
from yinyan.settings import DecoderSettings, Settings

__all__ = [
    *("Normalisation", "OrderDecoder", "OrderModel", "batch_sums", "normalisation", "second_order"),
    *("ocn", "ocn_as_published", "ocnp", "ocnp_as_published"),
]

_OWN = {
    "encoder": {"num_steps": 1, "output_norm": False, "dropout": 0.1},
    "decoder": {"depth": 3, "norm": True, "dropout": 0.1},
    "training": {"weight_decay": 0.05},
}


class Normalisation(NamedTuple):
    """Weights that depend on the message graph alone."""

    first: Tensor  # (n,) of a node that is a common neighbour of first order
    second: Tensor  # (n,) of one of second order
    overlap: Tensor  # () how much of the normalised first order is taken from the normalised second


class OrderDecoder(NeighbourDecoder):
    """MLP(β MLP(y_i ⊙ y_j) + α₁ MLP(Σ_u O¹_u y_u) + α₁α₂ MLP(Σ_u O²_u y_u)), the αs sigmoids of learned numbers."""

    def __init__(self, size: int, settings: DecoderSettings) -> None:
        super().__init__(size, settings)
        self.second = nn.ModuleList([nn.Linear(size, settings.width), nn.Linear(settings.width, settings.width)])
        self.shares = nn.Parameter(torch.ones(2))

    def of_orders(self, products: Tensor, first: Tensor, second: Tensor, drops: torch.Generator | None) -> Tensor:
        """(b,) logits of the products of both ends and of the sums over neighbours of both orders."""
        shares = torch.sigmoid(self.shares).cumprod(0)
        x = self.beta * self._mlp(self.product, products, drops)
        x = x + shares[0] * self._mlp(self.around, first, drops) + shares[1] * self._mlp(self.second, second, drops)
        return self.output(self._mlp(self.joint, x, drops)).squeeze(-1)  # type: ignore[no-any-return]


class OrderModel(Model):
    """C¹ has a one where a node is linked to both ends of a pair, C² where a walk of one step leads to one end and a
    walk of two steps to the other; a node for which this holds either way round counts twice.

    Normalised over the graph, an entry is divided by the number of all pairs of nodes for which the node is such a
    neighbour, the paths through it: d(d - 1)/2 for C¹. Then the part of C² that lies along C¹ is subtracted, by the
    inner product over all pairs of nodes (Gram-Schmidt). Nothing depends on the other pairs of a batch.

    With `by_batch` both are taken over the pairs scored together, as in the published code, where these are all
    positives or all negatives: see `batch_sums`.
    """

    inner: Tensor
    calls: Tensor

    def __init__(self, encoder: NodeEncoder, decoder: OrderDecoder, *, orthogonal: bool, by_batch: bool) -> None:
        super().__init__(encoder, decoder)
        self.order_decoder = decoder
        self.orthogonal = orthogonal
        self.by_batch = by_batch
        self.register_buffer("inner", torch.zeros(()))  # running mean over the calls of training
        self.register_buffer("calls", torch.zeros(()))
        self._last: tuple[MessageGraph, Normalisation] | None = None

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
        first, second = common_neighbours(messages, flat, hidden), second_order(messages, flat, hidden)
        if self.by_batch:
            first, second = self._over_batch(first, second, len(y), training=drops is not None)
        else:
            first, second = self._over_graph(first, second, messages, hidden)
        ends = y.index_select(0, flat.reshape(-1)).view(-1, 2, y.shape[1])
        one, two = (sums_around(y, order, len(flat)) for order in (first, second))
        return self.order_decoder.of_orders(ends[:, 0] * ends[:, 1], one, two, drops).view(pairs.shape[:-1])

    def _over_graph(
        self, first: Around, second: Around, messages: MessageGraph, hidden: Tensor | None
    ) -> tuple[Around, Around]:
        if hidden is not None:
            by = normalisation(messages, hidden)
        else:  # many calls in a row ask for the same graph
            if self._last is None or self._last[0] is not messages:
                self._last = messages, normalisation(messages, None)
            by = self._last[1]
        first = first._replace(chance=by.first[first.node])
        if not self.orthogonal:
            return first, second
        return first, _minus(second._replace(chance=by.second[second.node]), first, by.overlap)

    def _over_batch(self, first: Around, second: Around, n: int, *, training: bool) -> tuple[Around, Around]:
        first = first._replace(chance=batch_sums(first, n)[first.node])
        if not self.orthogonal:
            return first, second
        if training:
            self.calls += 1
            self.inner += (_inner(second, first, n) - self.inner) / self.calls
        largest = first.chance.max() if len(first.chance) else first.chance.new_zeros(())
        second = _minus(second, first, self.inner / torch.where(largest > 0, largest, 1.0))
        sums = second.chance.new_zeros(n).index_add_(0, second.node, second.chance)
        return first, second._replace(chance=second.chance / torch.where(sums == 0, 1.0, sums)[second.node])


def second_order(messages: MessageGraph, pairs: Tensor, hidden: Tensor | None) -> Around:
    """Nodes one step from one end of (b, 2) pairs and two steps from the other, ends left out, over visible edges."""
    n, keys = messages.num_nodes, [pairs.new_empty(0)]
    for walks in three_steps(messages, pairs, hidden):
        for node, other in ((walks.first, pairs[walks.row, 1]), (walks.second, pairs[walks.row, 0])):
            keys.append(torch.unique((walks.row * n + node)[node != other]))
    found = torch.cat(keys)
    return Around(found // n, found % n, messages.weights.new_ones(len(found)))


def normalisation(messages: MessageGraph, hidden: Tensor | None) -> Normalisation:
    """Of a node with d neighbours, e nodes two steps away, t of them neighbours too, over all unordered pairs of nodes:
    it is a common neighbour of d(d - 1)/2 pairs in first order and of d e - t in second, and of t(d - 1) in both."""
    near, far, both = (count.to(messages.weights.dtype) for count in two_step_reach(messages, hidden))
    first, second = inverse_or_zero(near * (near - 1) / 2), inverse_or_zero(near * far - both)
    overlap = (first * second * both * (near - 1)).sum() / first.sum().clamp(min=torch.finfo(first.dtype).tiny)
    return Normalisation(first, second, overlap)


def batch_sums(first: Around, num_nodes: int) -> Tensor:
    """(n,) one over the number of pairs of the batch that a node is a common neighbour of; 0 where it is one or none.

    This is the statistic of the published code that differs between a batch of edges and one of negatives.
    """
    sums = torch.bincount(first.node, minlength=num_nodes)
    return torch.where(sums > 1, 1.0 / sums.clamp(min=1), 0.0).to(first.chance.dtype)


def _minus(second: Around, first: Around, factor: Tensor) -> Around:
    """The second order without `factor` times the first."""
    chance = torch.cat([second.chance, -factor * first.chance])
    return Around(torch.cat([second.row, first.row]), torch.cat([second.node, first.node]), chance)


def _inner(second: Around, first: Around, n: int) -> Tensor:
    """Σ over all entries of the product of both matrices; entries of `second` at one place add up."""
    keys, order = (second.row * n + second.node).sort()
    sums = F.pad(second.chance[order].double().cumsum(0), (1, 0))
    wanted = first.row * n + first.node
    found = sums[torch.searchsorted(keys, wanted, right=True)] - sums[torch.searchsorted(keys, wanted)]
    return (found * first.chance).sum().to(first.chance.dtype)


def _method(*, orthogonal: bool, by_batch: bool) -> Method:
    def build(settings: Settings, graph: Graph) -> Model:
        num_features = 0 if graph.features is None else graph.features.shape[1]
        encoder = LinearPropagation(settings.encoder, graph.num_nodes, num_features)
        decoder = OrderDecoder(settings.encoder.hidden_size, settings.decoder)
        return OrderModel(encoder, decoder, orthogonal=orthogonal, by_batch=by_batch)

    def run(task: Task) -> Outcome:
        # a call scores as many negatives as edges, as published: their number would be in the sums too
        return trained(task, build, _OWN, fixed={"training": {"loss_negatives": 1}} if by_batch else None)

    return run


# Wang, Wang, Zhang: OCN (NeurIPS 2025). The encoder is one linear graph convolution, as published for Cora and Pubmed.
# OCNP orthogonalises by diagonal polynomials, and its published runs use the constant one: C² as it is. The published
# C² has one direction only; here a pair scores the same either way round.
ocn = _method(orthogonal=True, by_batch=False)
ocnp = _method(orthogonal=False, by_batch=False)
ocn_as_published = _method(orthogonal=True, by_batch=True)
ocnp_as_published = _method(orthogonal=False, by_batch=True)
