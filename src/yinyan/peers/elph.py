"""ELPH and BUDDY: estimated counts of nodes by distance from both ends, beside the product of their embeddings."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.model.encoder import BaseModel, EncoderInput, NodeEncoder
from yinyan.model.losses import LOSSES
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model, Pairs
from yinyan.peers.contract import Outcome, Task, trained
from yinyan.peers.gae import LinearPropagation
from yinyan.peers.per_graph import PerGraph
from yinyan.peers.set_sketches import Balls, distance_counts
from yinyan.randomness import dropout
from yinyan.settings import DecoderSettings, EncoderSettings, Settings

__all__ = ["Convolutions", "CountDecoder", "CountModel", "buddy", "elph"]

_OWN = {  # the decoder's by validation edges of Cora; the released one has two layers and drops half
    "encoder": {"num_steps": 2, "output_norm": False, "dropout": 0.1},
    "decoder": {"depth": 3, "norm": True, "dropout": 0.1},
}
_MOMENTUM = 0.1  # of the running mean and variance of counts


def buddy(task: Task) -> Outcome:
    """Chamberlain et al.: Graph Neural Networks for Link Prediction with Subgraph Sketching (ICLR 2023), BUDDY.

    Sketches are made once per graph. Features are propagated once and linearly (SIGN with one power, the released
    default), over the edges that a step does not hide. In the released code a training edge counts itself, and the
    counts (0, 1) and (1, 0), which would show it most, are set to 0. Here a pair is counted in the graph without its
    own edge, exactly, in training and in use, and no count is left out.
    `encoder.num_steps` is the number of steps that are sketched, 1 or 2.
    """
    return trained(task, lambda settings, graph: _build(settings, graph, precomputed=True), _OWN)


def elph(task: Task) -> Outcome:
    """The same paper's ELPH: sketches pass over the edges together with the features, anew in every step.

    The target edges of a step are hidden from both; in the released code a training edge counts itself. As there, the
    layers are linear, and counts enter the decoder only: the paper's equations allow messages to depend on them too.
    `encoder.num_steps` is the number of layers and of steps that are sketched, 1 to 3.
    """
    return trained(task, lambda settings, graph: _build(settings, graph, precomputed=False), _OWN)


class Convolutions(NodeEncoder):
    """y ← Ã (y W + b) for K layers from the features, with dropout behind each; the first W and b are the base model's.

    Ã = (D + I)^-1/2 (A + I) (D + I)^-1/2 over the edges that are not hidden.
    """

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int) -> None:
        super().__init__()
        self.settings = settings
        self.base = BaseModel(settings, num_nodes, num_features)
        size = settings.hidden_size
        self.layers = nn.ModuleList(nn.Linear(size, size) for _ in range(settings.num_steps - 1))
        self.norm = nn.LayerNorm(size) if settings.output_norm else nn.Identity()

    def embeddings(self, given: EncoderInput) -> Tensor:
        """(n, hidden) embeddings."""
        x = self.base(given.features, None, given.drops)
        links, loop = given.messages.adjacency(given.hidden)
        for number in range(self.settings.num_steps):
            x = self.layers[number - 1](x) if number else x
            x = self.after(number, links.product(x) + loop * x, given.drops)
        return self.norm(x)  # type: ignore[no-any-return]

    def after(self, number: int, x: Tensor, drops: torch.Generator | None) -> Tensor:
        """What becomes of the output of a layer."""
        return dropout(x, self.settings.dropout, drops)


class CountDecoder(Decoder):
    """w · [ReLU(W counts), MLP(y_i ⊙ y_j)].

    The counts are normalised over the batch in training and by running averages in use, before W rather than behind
    it; in the MLP layers are normalised one by one. So no score depends on what else is in the batch. The branch of
    the counts is averaged over both orders of the ends, as a score shall not depend on their order either.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, size: int, steps: int, settings: DecoderSettings) -> None:
        super().__init__(size, directed=False)
        self.settings = settings
        num_counts, width = steps * (steps + 2), settings.width
        self.register_buffer("mean", torch.zeros(num_counts))
        self.register_buffer("variance", torch.ones(num_counts))
        self.counts = nn.Linear(num_counts, num_counts)
        widths = [size] + [width] * max(1, settings.depth - 1)
        self.product = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:], strict=False))
        self.norms = nn.ModuleList(nn.LayerNorm(width) if settings.norm else nn.Identity() for _ in self.product)
        self.output = nn.Linear(num_counts + width, 1)

    def combined(self, products: Tensor, counts: Tensor, drops: torch.Generator | None) -> Tensor:
        """(b,) logits of the products of both ends and of (b, K + 1, K + 1) counts."""
        x = products
        for linear, norm in zip(self.product, self.norms, strict=True):
            x = dropout(F.relu(norm(linear(x))), self.settings.dropout, drops)
        orders = torch.stack([counts, counts.transpose(1, 2)]).flatten(2)[..., 1:]  # without (0, 0)
        scaled = F.batch_norm(
            *(orders.flatten(0, 1), self.mean, self.variance),
            training=drops is not None,
            momentum=_MOMENTUM,
        )
        structure = F.relu(self.counts(scaled)).view(orders.shape).mean(0)
        structure = dropout(structure, self.settings.dropout, drops)
        return self.output(torch.cat([structure, x], dim=1)).squeeze(-1)  # type: ignore[no-any-return]


class CountModel(Model):
    """An encoder, and a decoder that reads counts of nodes around a pair besides its two vectors.

    If they are `precomputed`, the sketches are those of the whole graph, and a pair that is an edge is counted without
    it; otherwise they are made anew of the edges that are not hidden.
    """

    def __init__(self, encoder: NodeEncoder, decoder: CountDecoder, steps: int, *, precomputed: bool) -> None:
        super().__init__(encoder, decoder)
        self.count_decoder = decoder
        self.steps = steps
        self.precomputed = precomputed
        self._sketches = PerGraph(lambda messages: Balls.of(messages, steps))

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
        ends = y.index_select(0, flat.reshape(-1)).view(-1, 2, y.shape[1])
        counts = self.counts(flat, messages, hidden)
        return self.count_decoder.combined(ends[:, 0] * ends[:, 1], counts, drops).view(pairs.shape[:-1])

    def counts(self, pairs: Tensor, messages: MessageGraph, hidden: Tensor | None) -> Tensor:
        """(b, K + 1, K + 1) counts around (b, 2) pairs."""
        if self.precomputed:
            return distance_counts(self._sketches(messages), pairs, without_edges_of=messages)
        balls = self._sketches(messages) if hidden is None else Balls.of(messages, self.steps, hidden)
        return distance_counts(balls, pairs)

    def loss(
        self,
        pairs: Pairs,
        messages: MessageGraph,
        kind: str,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """Links and negatives are scored together: they share the sketches and the statistics of the batch."""
        negatives = pairs.non_links
        both = torch.cat([pairs.links, negatives.reshape(-1, 2)])
        scores = self.logits(pairs.rows, both, messages, hidden=hidden, drops=drops)
        links, others = scores.split([len(pairs.links), len(both) - len(pairs.links)])
        return LOSSES[kind](links, others.view(negatives.shape[:-1]))


def _build(settings: Settings, graph: Graph, *, precomputed: bool) -> Model:
    steps, most = settings.encoder.num_steps, 2 if precomputed else 3
    if not 1 <= steps <= most:
        raise SettingsError(f"encoder.num_steps: this method sketches 1 to {most} steps (got {steps})")
    num_features = 0 if graph.features is None else graph.features.shape[1]
    encoder: NodeEncoder
    if precomputed:
        encoder = LinearPropagation(replace(settings.encoder, num_steps=1), graph.num_nodes, num_features)
    else:
        encoder = Convolutions(settings.encoder, graph.num_nodes, num_features)
    decoder = CountDecoder(settings.encoder.hidden_size, steps, settings.decoder)
    return CountModel(encoder, decoder, steps, precomputed=precomputed)
