"""LPFormer: attention of a pair to the nodes around it, chosen and placed by personalised PageRank."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.model.encoder import NodeEncoder
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model
from yinyan.peers.contexts import KINDS, Context, PageRanks
from yinyan.peers.contract import Outcome, Task, trained
from yinyan.peers.elph import Convolutions
from yinyan.peers.per_graph import PerGraph
from yinyan.randomness import dropout
from yinyan.settings import DecoderSettings, EncoderSettings, Settings

__all__ = ["AttentionDecoder", "AttentionModel", "NormalisedConvolutions", "lpformer"]

_OWN = {
    "encoder": {"num_steps": 1, "hidden_size": 128, "dropout": 0.1},
    "decoder": {"width": 128, "dropout": 0.1},
}
_THRESHOLD = 0.01  # of PageRanks, for neighbours of one end and for nodes further away: the paper's for Cora and Pubmed
_SLOPE = 0.2
_PAIRS = 8192  # whose contexts are gathered at a time


def lpformer(task: Task) -> Outcome:
    """Shomer et al.: LPFormer, An Adaptive Graph Transformer for Link Prediction (KDD 2024), one layer and head.

    In the released code PageRanks, and the nodes further away, are those of the whole training graph, where a training
    edge shows; only neighbours are looked up without the edges of the batch. Here a pair has its context, PageRanks
    included, in the graph without its own edge, exactly, in training and in use. An end is never in its own context.
    """
    return trained(task, _build, _OWN)


class NormalisedConvolutions(Convolutions):
    """y ← ReLU(dropout(LayerNorm(Ã (y W + b)))) for each layer."""

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int) -> None:
        super().__init__(settings, num_nodes, num_features)
        self.norms = nn.ModuleList(nn.LayerNorm(settings.hidden_size) for _ in range(settings.num_steps))

    def after(self, number: int, x: Tensor, drops: torch.Generator | None) -> Tensor:
        """The normalised output, some of it dropped, where it is positive."""
        return F.relu(dropout(self.norms[number](x), self.settings.dropout, drops))


class AttentionDecoder(Decoder):
    """MLP([MLP(y_u ⊙ y_v), MLP([s_uv, counts])]) with s_uv = LayerNorm(Σ_w α_w z_w) over the context of the pair.

    z_w = W [y_w, p_w] with the place p_w = g(π_u(w), π_v(w)) + g(π_v(w), π_u(w)), g an MLP for each kind of context,
    and α = softmax_w aᵀ LeakyReLU(z_w ⊙ (W' y_u + W' y_v)). Counted are the nodes of each kind and all neighbours.
    """

    def __init__(self, size: int, settings: DecoderSettings) -> None:
        super().__init__(size, directed=False)
        self.settings = settings
        self.places = nn.ModuleList(_mlp(2, size, size) for _ in KINDS)
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(2 * size, size)
        self.attention = nn.Parameter(torch.empty(size, 1))
        nn.init.xavier_uniform_(self.attention)
        self.bias = nn.Parameter(torch.zeros(size))
        self.norm = nn.LayerNorm(size)
        joint = size + len(KINDS) + 1
        self.pairwise = _mlp(joint, joint, size)
        self.product = _mlp(size, size, size)
        widths = [2 * size] + [settings.width] * (settings.depth - 1)
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:], strict=False))
        self.output = nn.Linear(widths[-1], 1)

    def combined(self, y: Tensor, pairs: Tensor, context: Context, drops: torch.Generator | None) -> Tensor:
        """(b,) logits of (b, 2) pairs and their context."""
        ends = y.index_select(0, pairs.reshape(-1)).view(-1, 2, y.shape[1])
        kinds = torch.stack([torch.bincount(context.row[context.kind == k], minlength=len(pairs)) for k in range(3)])
        counts = torch.cat([kinds, context.neighbours[None]]).T.to(y.dtype)
        rate = self.settings.dropout
        around = dropout(self.norm(self.attended(y, ends, context, drops)), rate, drops)
        pairwise = self.pairwise(torch.cat([around, counts], dim=1))
        x = torch.cat([self.product(ends[:, 0] * ends[:, 1]), pairwise], dim=1)
        for linear in self.hidden:
            x = dropout(F.relu(linear(x)), rate, drops)
        return self.output(x).squeeze(-1)  # type: ignore[no-any-return]

    def attended(self, y: Tensor, ends: Tensor, context: Context, drops: torch.Generator | None) -> Tensor:
        """(b, size) weighted sums over the context of each pair, of which training drops some nodes."""
        seen = _Seen(context.row, context.node, context.kind, context.ranks)
        if drops is not None:
            left = dropout(torch.ones_like(context.ranks[:, 0]), self.settings.dropout, drops) > 0
            seen = _Seen(*(part[left] for part in seen))
        z = self.key(torch.cat([y.index_select(0, seen.node), self._placed(seen)], dim=1))
        query = self.query(ends).sum(1).index_select(0, seen.row)
        scores = F.leaky_relu(z * query, _SLOPE) @ self.attention
        weights = _softmax(scores[:, 0], seen.row, len(ends))
        sums: Tensor = z.new_zeros(len(ends), z.shape[1]).index_add(0, seen.row, weights[:, None] * z)
        return sums + self.bias

    def _placed(self, seen: _Seen) -> Tensor:
        """(a, size) encodings of the PageRanks from both ends, the same for either order."""
        order = torch.argsort(seen.kind, stable=True)
        parts = seen.ranks[order].split(torch.bincount(seen.kind, minlength=len(KINDS)).tolist())
        placed = [encode(part) + encode(part.flip(1)) for encode, part in zip(self.places, parts, strict=True)]
        return torch.cat(placed).index_select(0, torch.argsort(order))


class _Seen(NamedTuple):
    """Nodes that a pair attends to."""

    row: Tensor
    node: Tensor
    kind: Tensor
    ranks: Tensor


class AttentionModel(Model):
    """An encoder, and a decoder that reads the context of a pair in the graph without its own edge."""

    def __init__(self, encoder: NodeEncoder, decoder: AttentionDecoder, threshold: float = _THRESHOLD) -> None:
        super().__init__(encoder, decoder)
        self.attention_decoder = decoder
        self._pageranks = PerGraph(lambda messages: PageRanks(messages, threshold))

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
        pageranks = self._pageranks(messages)
        parts = [
            self.attention_decoder.combined(y, block, pageranks.context(block), drops)
            for block in pairs.reshape(-1, 2).split(_PAIRS)
        ]
        return torch.cat(parts).view(pairs.shape[:-1])


def _softmax(scores: Tensor, row: Tensor, count: int) -> Tensor:
    """(a,) shares of e^score among those of the same row."""
    peaks = scores.new_full((count,), -torch.inf).scatter_reduce(0, row, scores.detach(), "amax")
    weights = (scores - peaks[row]).exp()
    return weights / weights.new_zeros(count).index_add(0, row, weights).index_select(0, row)


def _mlp(given: int, width: int, made: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(given, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, made))


def _build(settings: Settings, graph: Graph) -> Model:
    num_features = 0 if graph.features is None else graph.features.shape[1]
    encoder = NormalisedConvolutions(settings.encoder, graph.num_nodes, num_features)
    return AttentionModel(encoder, AttentionDecoder(settings.encoder.hidden_size, settings.decoder))
