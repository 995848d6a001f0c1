"""NBFNet: a neural Bellman-Ford pass from one end of a pair over all paths to the other."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.model.encoder import NodeEncoder
from yinyan.model.losses import LOSSES
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model, Pairs
from yinyan.peers.contract import Outcome, Overrides, Task, trained
from yinyan.peers.enclosing import blocks_of_pairs, enclosing_subgraphs, entries, visible_neighbours
from yinyan.peers.seal import FeatureMap
from yinyan.settings import Settings

__all__ = ["BellmanFordDecoder", "BellmanFordLayer", "BellmanFordModel", "Paths", "nbfnet", "paths_between"]

_LEAST_VARIANCE, _LEAST_SCALE = 1e-6, 1e-2  # as released

# six layers of 32, 64 edges per step, one negative per edge, rate and epochs as published for Cora; no decay
_OWN: Overrides = {
    "encoder": {"hidden_size": 32, "num_steps": 6},
    "training": {
        **{"batch_size": 64, "loss_negatives": 1, "learning_rate": 5e-3, "weight_decay": 0.0},
        **{"epochs": 20, "evaluate_every": 4},
    },
}


def nbfnet(task: Task) -> Outcome:
    """Zhu, Zhang, Xhonneux, Tang: Neural Bellman-Ford Networks (NeurIPS 2021), as run on graphs of one relation.

    Messages by DistMult, PNA aggregation, layer normalisation and shortcuts; both directions of a pair are averaged.
    Node features are not read.
    """
    return trained(task, _build, _OWN)


class Paths(NamedTuple):
    """What layers must compute for some pairs, and from what.

    After t of T layers, a node that is farther than t from the source has the vector it has without any source, and one
    that is farther than T - t from the target does not reach it any more. All others of a pair are its K rows, which
    stand twice: from its first end to its second, and back. Values are those of passes over the whole graph.
    """

    node: Tensor  # (K,)
    from_source: Tensor  # (2K,) distance to the end that the pass starts from
    to_target: Tensor  # (2K,)
    indptr: Tensor  # (K + 1,) of the neighbours of the rows' nodes, among them the node itself
    neighbour: Tensor  # (E,) node
    row: Tensor  # (E,) its row for the same pair, or -1
    targets: Tensor  # (b, 2) rows of 2K that hold the target of both passes, or -1 where it is out of reach


def paths_between(messages: MessageGraph, pairs: Tensor, length: int, hidden: Tensor | None) -> Paths:
    """The rows of (b, 2) pairs: nodes on walks of at most `length` visible edges between both ends."""
    subgraphs = enclosing_subgraphs(messages, pairs, (length + 1) // 2, hidden=hidden, own_edge=True)
    first, second = (subgraphs.distances(end) for end in subgraphs.ends.unbind(1))
    kept = ((first >= 0) & (second >= 0) & (first + second <= length)).nonzero()[:, 0]
    node, keys = subgraphs.node[kept], subgraphs.pair[kept] * messages.num_nodes + subgraphs.node[kept]
    around, neighbour = visible_neighbours(messages, node, hidden)
    own = torch.arange(len(kept), device=node.device)
    around, neighbour = torch.cat([own, around]), torch.cat([node, neighbour])
    order = torch.argsort(around, stable=True)
    around, neighbour = around[order], neighbour[order]
    wanted = keys[around] - node[around] + neighbour
    place = torch.searchsorted(keys, wanted).clamp(max=max(0, len(keys) - 1))
    row = torch.where(keys[place] == wanted, place, -1)
    indptr = F.pad(torch.bincount(around, minlength=len(kept)).cumsum(0), (1, 0))
    number = torch.full_like(subgraphs.node, -1)
    number[kept] = own
    back, forth = number[subgraphs.ends].unbind(1)  # the targets of the pass back, and of the pass forth
    targets = torch.stack([forth, torch.where(back >= 0, back + len(kept), -1)], dim=1)
    first, second = first[kept].long(), second[kept].long()
    return Paths(node, torch.cat([first, second]), torch.cat([second, first]), indptr, neighbour, row, targets)


class Gathered(NamedTuple):
    """Whose messages the rows of a layer gather, and what scales them."""

    table: Tensor  # (·, d) vectors that messages come from
    indptr: Tensor  # (r + 1,)
    places: Tensor  # (·,) rows of the table
    own: Tensor  # (r, d) the rows' own vectors
    boundary: Tensor  # (r, d) the query at the source, and 0 elsewhere
    degrees: Tensor  # (r, 1) visible edges of the rows' nodes
    mean_log: Tensor  # of log(degree + 2) over all nodes


class BellmanFordLayer(nn.Module):
    """h_w ← h_w + ReLU(LayerNorm(W [h_w, PNA({r ⊙ h_x : x ∈ N(w) ∪ {w}} ∪ {boundary_w})])).

    PNA: mean, maximum, minimum and standard deviation, each as it is, times s and times 1/s, where s is log(degree + 2)
    over its mean in the graph.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.relation = nn.Parameter(torch.randn(size))
        self.linear = nn.Linear(13 * size, size)
        self.norm = nn.LayerNorm(size)

    def forward(self, given: Gathered) -> Tensor:
        """(r, d)."""
        size, count = given.own.shape[1], given.degrees + 2
        sent = given.table * self.relation
        total, squares, high, low = (
            F.embedding_bag(given.places, what, given.indptr, mode=mode, include_last_offset=True)
            for what, mode in ((sent, "sum"), (sent.square(), "sum"), (sent, "max"), (-sent, "max"))
        )
        mean = (total + given.boundary) / count
        variance = (squares + given.boundary.square()) / count - mean.square()
        high, low = torch.maximum(high, given.boundary), torch.minimum(-low, given.boundary)
        found = torch.cat([mean, high, low, variance.clamp(min=_LEAST_VARIANCE).sqrt()], dim=1)
        scale = count.log() / given.mean_log
        own, plain, times, over = self.linear.weight.split([size, *[4 * size] * 3], dim=1)
        update = found @ plain.T + scale * (found @ times.T) + (found @ over.T) / scale.clamp(min=_LEAST_SCALE)
        return given.own + F.relu(self.norm(given.own @ own.T + update + self.linear.bias))


class BellmanFordDecoder(Decoder):
    """The layers, and an MLP of what arrives at the target, beside the query."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__(size, directed=False)
        self.query = nn.Parameter(torch.randn(size))
        self.layers = nn.ModuleList(BellmanFordLayer(size) for _ in range(layers))
        self.hidden = nn.Linear(2 * size, 2 * size)
        self.output = nn.Linear(2 * size, 1)

    def of_paths(self, paths: Paths, pairs: Tensor, without_source: list[Tensor], degrees: Tensor) -> Tensor:
        """(b,) logits of (b, 2) pairs."""
        size, count, length = self.size, len(paths.node), len(self.layers)
        node, mean_log = torch.cat([paths.node, paths.node]), (degrees + 2).log().mean()
        place = torch.full_like(node, -1)
        chosen = (paths.from_source == 0).nonzero()[:, 0]
        x = self.query.expand(len(chosen), size)
        for step, layer in enumerate(self.layers, start=1):
            place[chosen] = torch.arange(len(chosen), device=node.device)
            table = torch.cat([x, without_source[step - 1]])
            last = len(x)
            chosen = ((paths.from_source <= step) & (paths.to_target <= length - step)).nonzero()[:, 0]
            shift = chosen // max(1, count) * count  # 0 for passes forth, K for passes back
            bag, slot = entries(paths.indptr, chosen - shift)
            row = paths.row[slot]
            known = torch.where(row >= 0, place[row + shift[bag]], -1)
            around = torch.where(known >= 0, known, last + paths.neighbour[slot])
            before = torch.where(place[chosen] >= 0, place[chosen], last + node[chosen])
            indptr = F.pad(torch.bincount(bag, minlength=len(chosen)).cumsum(0), (1, 0))
            boundary = (paths.from_source[chosen] == 0)[:, None] * self.query
            own = table.index_select(0, before)
            place.fill_(-1)
            x = layer(Gathered(table, indptr, around, own, boundary, degrees[node[chosen]][:, None], mean_log))
        place[chosen] = torch.arange(len(chosen), device=node.device)
        table = torch.cat([x, without_source[-1]])
        arrived = torch.where(paths.targets >= 0, place[paths.targets] if count else -1, -1)
        ends = table[torch.where(arrived >= 0, arrived, len(x) + pairs.flip(1))].mean(1)
        return self.output(F.relu(self.hidden(torch.cat([ends, self.query.expand_as(ends)], dim=1)))).squeeze(-1)  # type: ignore[no-any-return]

    def without_source(self, messages: MessageGraph, hidden: Tensor | None, degrees: Tensor) -> list[Tensor]:
        """The (n, d) vectors after 0..T layers of a pass that starts nowhere."""
        nodes = torch.arange(messages.num_nodes, device=degrees.device)
        row, around = visible_neighbours(messages, nodes, hidden)
        order = torch.argsort(torch.cat([nodes, row]), stable=True)
        places = torch.cat([nodes, around])[order]
        indptr = F.pad((degrees.long() + 1).cumsum(0), (1, 0))
        nothing = self.query.new_zeros(len(nodes), self.size)
        found, mean_log = [nothing], (degrees + 2).log().mean()
        for layer in self.layers:
            found.append(layer(Gathered(found[-1], indptr, places, found[-1], nothing, degrees[:, None], mean_log)))
        return found


class BellmanFordModel(Model):
    """Nothing stored of nodes, and a decoder that follows the paths between both ends."""

    def __init__(self, encoder: NodeEncoder, decoder: BellmanFordDecoder) -> None:
        super().__init__(encoder, decoder)
        self.path_decoder = decoder

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
        decoder, length = self.path_decoder, len(self.path_decoder.layers)
        degrees = messages.structure.degrees(None, hidden).to(decoder.query.dtype)
        far = decoder.without_source(messages, hidden, degrees)
        parts = [y.new_empty(0)]
        for some in blocks_of_pairs(messages, pairs.reshape(-1, 2), (length + 1) // 2):
            parts.append(decoder.of_paths(paths_between(messages, some, length, hidden), some, far, degrees))
        return torch.cat(parts).view(pairs.shape[:-1])

    def loss(
        self,
        pairs: Pairs,
        messages: MessageGraph,
        kind: str,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """As for every model; edges and negatives share the pass that starts nowhere."""
        together = torch.cat([pairs.links[:, None], pairs.non_links], dim=1)
        logits = self.logits(pairs.rows, together, messages, hidden=hidden, drops=drops)
        return LOSSES[kind](logits[:, 0], logits[:, 1:])


def _build(settings: Settings, graph: Graph) -> Model:
    encoder = FeatureMap(settings, graph.num_nodes, 0)
    return BellmanFordModel(encoder, BellmanFordDecoder(settings.encoder.hidden_size, settings.encoder.num_steps))
