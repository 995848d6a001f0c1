"""SEAL: a pair is scored by a graph network over its enclosing subgraph, without the edge in question."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.graph import Graph
from yinyan.metrics import roc_auc
from yinyan.model.decoder import Decoder
from yinyan.model.encoder import BaseModel, EncoderInput, NodeEncoder
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SymmetricOperator
from yinyan.model.scoring import Model
from yinyan.model.tensors import message_graph
from yinyan.peers.contract import Outcome, Task, trained
from yinyan.peers.enclosing import Subgraphs, blocks_of_pairs, enclosing_subgraphs
from yinyan.peers.heuristics import adamic_adar, common_neighbours
from yinyan.randomness import Streams, dropout
from yinyan.sampling import draw_pairs
from yinyan.settings import Settings
from yinyan.splits import Split

__all__ = ["SealModel", "SubgraphDecoder", "drnl_labels", "hops_of", "pooled_nodes", "seal"]

_LABELS = 1000  # rows of the table of labels, as released; larger labels share the last
_SHARE = 0.6  # of subgraphs that SortPool keeps whole, as published
_FEWEST = 10  # nodes that SortPool keeps: the convolutions need ten
_CHANNELS, _WINDOW, _DENSE = (16, 32), 5, 128  # of the convolutions and of the last hidden layer, as published
_SAMPLE = 1000  # training edges, and as many negatives, by which the size of subgraphs is judged
_LARGE = 1000  # nodes of a subgraph on average from which on one hop has to do, as on dense graphs in the paper
_MOST_TARGETS = 20_000  # training edges of the loss: a sample is enough, as in the paper's runs on large graphs

# size, batches, negatives and dropout of the read-out as published, and no decay; the rest was chosen on validation
# links of Cora: ten times the published rate for 15 epochs instead of 50, and dropout of features against overfitting.
# A pair's own edge is left out of its subgraph, and those of the other pairs stay, so that nothing is masked.
_OWN = {
    "encoder": {"hidden_size": 32, "num_steps": 3, "feature_dropout": 0.7, "dropout": 0.3},
    "decoder": {"dropout": 0.5},
    "training": {
        **{"mask_targets": False, "loss_negatives": 1, "weight_decay": 0.0},
        **{"batch_size": 32, "learning_rate": 1e-3, "epochs": 15, "evaluate_every": 3},
    },
}


def seal(task: Task) -> Outcome:
    """Zhang, Chen: Link Prediction Based on Graph Neural Networks (NeurIPS 2018).

    One or two hops by the paper's rule (`hops_of`), DRNL labels beside node features, DGCNN as read-out.
    """
    split = _sampled(task.split, task.seed)
    hops, kept = _sizes(split, task.seed)
    return trained(replace(task, split=split), builder(hops, kept), _OWN)


def builder(hops: int, kept: int) -> Callable[[Settings, Graph], Model]:
    """How to make a model that looks so many hops far, and keeps so many nodes of a subgraph."""

    def build(settings: Settings, graph: Graph) -> Model:
        num_features = 0 if graph.features is None else graph.features.shape[1]
        return SealModel(FeatureMap(settings, graph.num_nodes, num_features), SubgraphDecoder(settings, kept), hops)

    return build


class FeatureMap(NodeEncoder):
    """X W, the part of the first layer that all subgraphs share; nothing where nodes have no features."""

    def __init__(self, settings: Settings, num_nodes: int, num_features: int) -> None:
        super().__init__()
        self.base = None
        if num_features:
            self.base = BaseModel(replace(settings.encoder, inputs="features"), num_nodes, num_features)

    def embeddings(self, given: EncoderInput) -> Tensor:
        """(n, hidden), or (n, 0)."""
        if self.base is None:
            return given.messages.weights.new_empty(given.messages.num_nodes, 0)
        return self.base(given.features, None, given.drops)  # type: ignore[no-any-return]


class Convolution(nn.Module):
    """tanh(Ã H W + b)."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, width)

    def forward(self, x: Tensor, links: SymmetricOperator, loop: Tensor) -> Tensor:
        """(N, width), with Ã as its entries beside the diagonal, and (N, 1) those on it."""
        x = F.linear(x, self.linear.weight)
        return torch.tanh(links.product(x) + loop * x + self.linear.bias)


class SubgraphDecoder(Decoder):
    """DGCNN: graph convolutions, SortPool, two 1-D convolutions, a hidden layer.

    Layer t is tanh(Ã H W + b) with Ã = D^-1/2 (A + I) D^-1/2 of the subgraph. The last one has one channel, and nodes
    are sorted by it. The first one reads labels and features side by side, so that its product is a sum of both.
    """

    def __init__(self, settings: Settings, kept: int) -> None:
        size, layers = settings.encoder.hidden_size, settings.encoder.num_steps
        super().__init__(size, directed=False)
        self.kept, self.rate = kept, settings.decoder.dropout
        self.labels = nn.Embedding(_LABELS, size)
        self.first_bias = nn.Parameter(torch.zeros(size))
        self.layers = nn.ModuleList(Convolution(size, width) for width in [size] * (layers - 1) + [1])
        self.nodes = nn.Linear(size * layers + 1, _CHANNELS[0])  # a convolution whose window and stride are a node
        self.neighbouring = nn.Conv1d(*_CHANNELS, _WINDOW)
        self.hidden = nn.Linear((kept // 2 - _WINDOW + 1) * _CHANNELS[1], _DENSE)
        self.output = nn.Linear(_DENSE, 1)

    def of_subgraphs(self, y: Tensor, subgraphs: Subgraphs, drops: torch.Generator | None) -> Tensor:
        """(b,) logits."""
        x = self.labels(drnl_labels(subgraphs).clamp(max=_LABELS - 1))
        if y.shape[1]:
            x = x + y.index_select(0, subgraphs.node)
        links, loop = _normalised(subgraphs)
        x = torch.tanh(links.product(x) + loop * x + self.first_bias)
        every = [x]
        for layer in self.layers:
            x = layer(x, links, loop)
            every.append(x)
        pooled = self._sort_pooled(torch.cat(every, dim=1), subgraphs)
        x = F.relu(self.nodes(pooled)).transpose(1, 2)
        x = F.relu(self.neighbouring(F.max_pool1d(x, 2)))
        x = dropout(F.relu(self.hidden(x.flatten(1))), self.rate, drops)
        return self.output(x).squeeze(-1)  # type: ignore[no-any-return]

    def _sort_pooled(self, x: Tensor, subgraphs: Subgraphs) -> Tensor:
        """(b, kept, ·) rows of each subgraph by their last column, the largest first; zeros if there are fewer."""
        order = torch.argsort(x.detach()[:, -1], descending=True, stable=True)
        order = order[torch.argsort(subgraphs.pair[order], stable=True)]
        pair = subgraphs.pair
        count = torch.bincount(pair, minlength=len(subgraphs.ends))
        rank = torch.arange(len(pair), device=pair.device) - (count.cumsum(0) - count)[pair]
        chosen = rank < self.kept
        pooled = x.new_zeros(len(count) * self.kept, x.shape[1])
        pooled = pooled.index_copy(0, (pair * self.kept + rank)[chosen], x.index_select(0, order[chosen]))
        return pooled.view(len(count), self.kept, -1)


class SealModel(Model):
    """Rows of features, and a decoder that reads a pair's enclosing subgraph."""

    def __init__(self, encoder: NodeEncoder, decoder: SubgraphDecoder, hops: int) -> None:
        super().__init__(encoder, decoder)
        self.subgraph_decoder = decoder
        self.hops = hops

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
        parts = [y.new_empty(0)]
        for some in blocks_of_pairs(messages, flat, self.hops):
            subgraphs = enclosing_subgraphs(messages, some, self.hops, hidden=hidden, own_edge=False)
            parts.append(self.subgraph_decoder.of_subgraphs(y, subgraphs, drops))
        return torch.cat(parts).view(pairs.shape[:-1])


def drnl_labels(subgraphs: Subgraphs) -> Tensor:
    """(N,) double-radius node labels: 1 + min(d_u, d_v) + (D // 2) (D // 2 + D % 2 - 1) with D = d_u + d_v.

    The distance to one end is that without the other end. Both ends have label 1, nodes that do not reach both 0.
    """
    source, target = subgraphs.ends.unbind(1)
    from_source = subgraphs.distances(source, without=target).long()
    from_target = subgraphs.distances(target, without=source).long()
    both = from_source + from_target
    half, odd = both // 2, both % 2
    labels = 1 + torch.minimum(from_source, from_target) + half * (half + odd - 1)
    labels[(from_source < 0) | (from_target < 0)] = 0
    labels[subgraphs.ends.flatten()] = 1
    return labels


def _normalised(subgraphs: Subgraphs) -> tuple[SymmetricOperator, Tensor]:
    """D^-1/2 A D^-1/2 of the subgraphs, and (N, 1) the entries of their self loops, which D counts."""
    counts = subgraphs.indptr.diff()
    scale = (counts + 1).float().rsqrt()
    values = torch.repeat_interleave(scale, counts) * scale[subgraphs.columns]
    return SymmetricOperator(subgraphs.indptr, subgraphs.columns, values), scale.square()[:, None]


def hops_of(split: Split) -> int:
    """The paper's rule: two hops if Adamic-Adar has the larger AUC on validation links, one if common neighbours."""
    messages = split.graph.with_edges(split.valid_messages)
    negatives = split.valid_negatives.reshape(-1, 2)
    second, first = (
        roc_auc(score(messages, split.valid_targets), score(messages, negatives))
        for score in (adamic_adar, common_neighbours)
    )
    return 2 if second > first else 1


def pooled_nodes(sizes: Tensor) -> int:
    """Nodes that SortPool keeps: as many as 60 % of the subgraphs do not exceed, and ten at least."""
    return max(_FEWEST, int(sizes.sort().values[math.ceil(_SHARE * len(sizes)) - 1]))


def _sizes(split: Split, seed: int) -> tuple[int, int]:
    """Hops, and nodes that SortPool keeps, by a sample of training edges and of negatives."""
    generator = Streams.fresh(seed, "seal/sizes", torch.device("cpu"))
    messages = message_graph(split.graph, split.train_messages, torch.device("cpu"))
    targets = torch.from_numpy(np.ascontiguousarray(split.train_targets))
    targets = targets[torch.randperm(len(targets), generator=generator)[:_SAMPLE]]
    pairs = torch.cat([targets, draw_pairs(messages.known, len(targets), generator)])

    def sizes(hops: int) -> Tensor:
        blocks = blocks_of_pairs(messages, pairs, hops)
        found = (enclosing_subgraphs(messages, block, hops, own_edge=False).pair for block in blocks)
        return torch.cat([torch.bincount(pair) for pair in found])

    hops = hops_of(split)
    around = sizes(hops)
    if hops > 1 and float(around.float().mean()) > _LARGE:
        hops, around = 1, sizes(1)
    return hops, pooled_nodes(around)


def _sampled(split: Split, seed: int) -> Split:
    """A split with no more than `_MOST_TARGETS` training edges in the loss; all pass messages."""
    if len(split.train_targets) <= _MOST_TARGETS:
        return split
    generator = Streams.fresh(seed, "seal/targets", torch.device("cpu"))
    chosen = torch.randperm(len(split.train_targets), generator=generator)[:_MOST_TARGETS].sort().values
    return replace(split, train_targets=split.train_targets[chosen.numpy()])
