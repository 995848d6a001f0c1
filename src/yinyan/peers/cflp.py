"""Counterfactual link prediction: would two nodes be linked if they were, or were not, of the same core?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder, HadamardMLP
from yinyan.model.encoder import EncoderInput, NodeNorm
from yinyan.model.losses import LOSSES
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.model.scoring import Model, Pairs
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.peers.contract import Outcome, Overrides, Task, merged, trained
from yinyan.peers.gnn import GCN
from yinyan.peers.layered import suited
from yinyan.randomness import dropout, uniform_nodes
from yinyan.settings import DecoderSettings, EncoderSettings, Settings

__all__ = [
    *("Counterfactual", "CounterfactualModel", "GroupedGCN", "NearestPairs", "TreatmentDecoder"),
    *("cflp", "core_numbers", "diffused_inputs"),
]

_COLUMNS = 256  # of the rows whose distances are compared
_ROWS = 1000  # whose distances the limit is taken from
_BLOCK = 1 << 24  # distances at a time
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Counterfactual:
    """Weights of the terms of the loss, and how far counterfactual pairs are searched."""

    outcome: float = 1.0  # weight of the cross-entropy of counterfactual outcomes (alpha)
    discrepancy: float = 1.0  # weight of the distance of the mean embeddings of both kinds of pairs (beta)
    nearest: float = 0.3  # share of the distances between nodes that are near enough (gamma, as a quantile)
    sampled: int = 1000  # pairs per step that the discrepancy is estimated from

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 0 or (name == "nearest" and value > 1):
                bound = "from 0 to 1" if name == "nearest" else "at least 0"
                raise SettingsError(f"'{name}' needs to be {bound} (got {value})")


class Found(NamedTuple):
    """Pairs of the other treatment."""

    pairs: Tensor  # (p, 2) the nearest; the given pair where none is near enough
    exists: Tensor  # (p,)


class NearestPairs(nn.Module):
    """For a pair (a, b) the pair (c, d) of the other treatment with the smallest distance |a - c| + |b - d|.

    A pair is treated if both nodes are of one group. It suffices to know the two nearest other nodes of each group:
    the search is exact for c ≠ a, d ≠ b, c ≠ d. A pair beyond twice the `nearest` quantile of distances is none.
    """

    def __init__(self, rows: Tensor, groups: Tensor, nearest: float) -> None:
        super().__init__()
        nodes, distances = _nearest_of_groups(rows, groups)
        some = torch.cdist(rows[:: max(1, len(rows) // _ROWS)], rows).numpy()
        self.limit = 2 * float(np.quantile(some, nearest))
        self.groups: Tensor
        self.nodes: Tensor
        self.distances: Tensor
        for name, value in (("groups", groups), ("nodes", nodes), ("distances", distances)):
            self.register_buffer(name, value, persistent=False)  # they follow from the split

    def treated(self, pairs: Tensor) -> Tensor:
        """(p,) whether both nodes are of one group."""
        return self.groups[pairs[:, 0]] == self.groups[pairs[:, 1]]

    def forward(self, pairs: Tensor) -> Found:
        """Of (p, 2) pairs."""
        (a, c), (b, d) = ((self.distances[ends], self.nodes[ends]) for ends in pairs.T)  # each (p, groups, 2)
        to_one, one = _of_one_group(a, b, c, d)
        to_two, two = _of_two_groups(a, b, c, d)
        treated = self.treated(pairs)
        exists = torch.where(treated, to_two, to_one) < self.limit
        found = torch.where(treated[:, None], two, one)
        return Found(torch.where(exists[:, None], found, pairs), exists)


def _nearest_of_groups(rows: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """(n, groups, 2) the two nearest other nodes of each group, and their distances: infinite where there are none."""
    n, members = len(rows), [(groups == g).nonzero()[:, 0] for g in range(int(groups.max()) + 1)]
    nodes = torch.zeros(n, len(members), 2, dtype=torch.long)
    distances = torch.full((n, len(members), 2), torch.inf)
    for block in torch.arange(n).split(max(1, _BLOCK // n)):
        apart = torch.cdist(rows[block], rows)
        apart[torch.arange(len(block)), block] = torch.inf
        for g, own in enumerate(members):
            near = apart[:, own].topk(min(2, len(own)), largest=False)
            nodes[block, g, : near.indices.shape[1]] = own[near.indices]
            distances[block, g, : near.values.shape[1]] = near.values
    return nodes, distances


def _of_one_group(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest pairs of two different nodes of one group, and their distances."""
    sums, ends = [], []
    for i, j in ((0, 0), (0, 1), (1, 0)):
        total = a[:, :, i] + b[:, :, j]
        sums.append(torch.where(c[:, :, i] == d[:, :, j], torch.inf, total))
        ends.append(torch.stack([c[:, :, i], d[:, :, j]], dim=-1))
    return _least(torch.cat(sums, dim=1), torch.cat(ends, dim=1))


def _of_two_groups(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest pairs of nodes of different groups, and their distances."""
    count = min(2, a.shape[1])
    near_a, near_b = (x[:, :, 0].topk(count, largest=False) for x in (a, b))  # groups by their nearest node
    i, j = torch.cartesian_prod(torch.arange(count), torch.arange(count)).to(a.device).reshape(-1, 2).T
    sums = near_a.values[:, i] + near_b.values[:, j]
    first, second = near_a.indices[:, i], near_b.indices[:, j]
    ends = torch.stack([c[:, :, 0].gather(1, first), d[:, :, 0].gather(1, second)], dim=-1)
    return _least(torch.where(first == second, torch.inf, sums), ends)


def _least(sums: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Of (p, k) sums the least, and its (p, 2) ends."""
    least = sums.min(dim=1)
    return least.values, ends[torch.arange(len(ends), device=ends.device), least.indices]


class GroupedGCN(GCN):
    """Σ_t c_t Y(t), c = softmax of learned weights, over layers with normalisation, ELU and dropout.

    The last column of an embedding is the number of the node's group.
    """

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int, groups: Tensor) -> None:
        super().__init__(settings, num_nodes, num_features)
        self.mix = nn.Parameter(torch.randn(settings.num_steps))
        self.norms = nn.ModuleList(NodeNorm(settings.hidden_size) for _ in self.layers if settings.base_norm)
        self.groups: Tensor
        self.register_buffer("groups", groups, persistent=False)

    def embeddings(self, given: EncoderInput) -> Tensor:
        """(n, hidden + 1) embeddings and groups."""
        y = super().embeddings(given)
        return torch.cat([y, self.groups[:, None].to(y.dtype)], dim=1)

    def stacked(self, f: Tensor, links: Tensor, drops: torch.Generator | None) -> Tensor:
        """The weighted sum of all layers."""
        y, total = f, torch.zeros_like(f) if self.layers else f
        for number, (layer, share) in enumerate(zip(self.layers, self.mix.softmax(0), strict=True)):
            y = layer(y, links)
            y = self.norms[number](y) if self.norms else y
            y = dropout(F.elu(y), self.settings.dropout, drops)
            total = total + share * y
        return total


class TreatmentDecoder(Decoder):
    """MLP([y_i ⊙ y_j, T]), where T says whether the last columns of both rows, their groups, are the same."""

    def __init__(self, size: int, settings: DecoderSettings) -> None:
        super().__init__(size + 1, directed=False)
        self.mlp = HadamardMLP(size + 1, settings, directed=False)

    def pair_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """With the treatment of the pair."""
        return self.treated_logits(sources, targets, sources[..., -1] == targets[..., -1], generator)

    def treated_logits(
        self, sources: Tensor, targets: Tensor, treated: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """With a treatment that is given."""
        products = sources[..., :-1] * targets[..., :-1]
        x = torch.cat([products, treated[..., None].to(products.dtype)], dim=-1)
        return self.mlp.pair_logits(x, x.new_ones(()), generator, None)


class CounterfactualModel(Model):
    """Trained on what is, on what would be with the other treatment, and to embed both kinds of pairs alike."""

    def __init__(self, encoder: GroupedGCN, decoder: TreatmentDecoder, search: NearestPairs, how: Counterfactual):
        super().__init__(encoder, decoder)
        self.treatment_decoder, self.search, self.how = decoder, search, how

    def loss(
        self,
        pairs: Pairs,
        messages: MessageGraph,
        kind: str,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """Factual loss + α counterfactual cross-entropy + β discrepancy."""
        y, how = pairs.rows, self.how
        both = torch.cat([pairs.links, pairs.non_links.reshape(-1, 2)])
        labels = torch.arange(len(both), device=both.device) < len(pairs.links)
        logits = self.logits(y, both, messages, hidden=hidden, drops=drops)
        factual = logits[len(pairs.links) :].view(pairs.non_links.shape[:-1])
        total = LOSSES[kind](logits[: len(pairs.links)], factual)
        if how.outcome:
            total = total + how.outcome * self.outcome_loss(y, both, labels, messages, drops)
        if how.discrepancy and how.sampled:
            total = total + how.discrepancy * self.discrepancy(y, drops)
        return total

    def outcome_loss(
        self, y: Tensor, pairs: Tensor, labels: Tensor, messages: MessageGraph, drops: torch.Generator | None
    ) -> Tensor:
        """Cross-entropy of (p,) pairs with the other treatment: labels are the edges of their counterfactual pairs.

        A pair without a counterfactual keeps its treatment and label. Both labels weigh the same in sum.
        """
        found = self.search(pairs)
        wanted = torch.where(found.exists, messages.known.contains(found.pairs), labels).to(y.dtype)
        treated = self.search.treated(pairs) ^ found.exists
        ends = y.index_select(0, pairs.flatten()).view(-1, 2, y.shape[1])
        logits = self.treatment_decoder.treated_logits(ends[:, 0], ends[:, 1], treated, drops)
        ones = wanted.sum()
        weight = (len(wanted) - ones) / ones.clamp(min=1)
        return F.binary_cross_entropy_with_logits(logits, wanted, pos_weight=weight)

    def discrepancy(self, y: Tensor, generator: torch.Generator | None) -> Tensor:
        """Root of the mean squared difference of the mean rows [y_i, y_j] of uniform pairs and of what is found."""
        if generator is None:
            raise ValueError("uniform pairs need a generator")
        pairs = uniform_nodes(len(y), 2 * self.how.sampled, generator, y.device).view(-1, 2)
        found = self.search(pairs)
        if not bool(found.exists.any()):
            return y.new_zeros(())
        factual, counterfactual = (_mean_rows(y[:, :-1], some) for some in (pairs, found.pairs[found.exists]))
        return (F.mse_loss(factual, counterfactual) + 1e-6).sqrt()


def _mean_rows(y: Tensor, pairs: Tensor) -> Tensor:
    """(2, d) mean embeddings of the first and of the second ends of pairs."""
    return y.index_select(0, pairs.T.flatten()).view(2, len(pairs), -1).mean(1)


def core_numbers(links: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """(n,) the largest k for which a node is in a subgraph whose nodes all have k links in it."""
    core, left, k = np.zeros(num_nodes, dtype=np.int64), np.ones(num_nodes, dtype=bool), 0
    while left.any():
        degrees = np.bincount(links.ravel(), minlength=num_nodes)
        peeled = left & (degrees <= k)
        if not peeled.any():
            k = int(degrees[left].min())
            continue
        core[peeled] = k
        left &= ~peeled
        links = links[left[links].all(axis=1)]
    return core


def diffused_inputs(features: Tensor | SparseMatrix | None, messages: MessageGraph) -> Tensor:
    """(n, ·) Ã² X for the features X, or for X = I without any, through a random projection that keeps distances."""
    width = messages.num_nodes if features is None else features.shape[1]
    if features is None or width > _COLUMNS or isinstance(features, SparseMatrix):
        projection = torch.randn(width, _COLUMNS) / _COLUMNS**0.5
        x = projection if features is None else _times(features, projection)
    else:
        x = features.float()
    links, loops = messages.adjacency()
    for _ in range(2):
        x = links.product(x) + loops * x
    return x


def _times(features: Tensor | SparseMatrix, weight: Tensor) -> Tensor:
    return features.product(weight) if isinstance(features, SparseMatrix) else features.float() @ weight


def cflp(task: Task, *, how: Counterfactual | None = None) -> Outcome:
    """Zhao et al.: Learning from Counterfactual Links for Link Prediction (ICML 2022), in one stage.

    Treatment is the same core number, as released for Cora and Citeseer. Distances are of propagated features in the
    place of embeddings by MVGRL, and the decoder is not trained a second time.
    """
    how = how or Counterfactual()
    chosen = task.split.train_messages

    def build(settings: Settings, graph: Graph) -> Model:
        if settings.training.loss_sampler == "shared":
            raise SettingsError(
                "training.loss_sampler: counterfactuals are searched pair by pair, which 'shared' does not allow (use "
                "'global' or 'source')"
            )
        messages = message_graph(graph, chosen, _CPU)
        numbers = core_numbers(messages.pairs.numpy(), graph.num_nodes)
        groups = torch.from_numpy(np.unique(numbers, return_inverse=True)[1].astype(np.int64))
        rows = diffused_inputs(feature_tensor(graph.features, _CPU), messages)
        num_features = 0 if graph.features is None else graph.features.shape[1]
        encoder = GroupedGCN(settings.encoder, graph.num_nodes, num_features, groups)
        decoder = TreatmentDecoder(settings.encoder.hidden_size, settings.decoder)
        return CounterfactualModel(encoder, decoder, NearestPairs(rows, groups, how.nearest), how)

    own: Overrides = {
        "encoder": {"num_steps": 3, "dropout": 0.3, "output_norm": False, "base_norm": True},
        "training": {"loss_negatives": 1},
    }
    fixed: Overrides = {"encoder": {"num_negatives": 0}}
    return trained(task, build, merged(suited(task.split.graph), own), fixed=fixed)
