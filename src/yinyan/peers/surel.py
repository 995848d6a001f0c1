"""SUREL and SUREL+: walks of both ends of a pair, joined by where the walks of the other end land."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.model.encoder import Encoder, NodeEncoder
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model
from yinyan.peers.contract import Outcome, Overrides, Task, merged, trained
from yinyan.peers.walk_sets import WalkSets, WalkShape, in_ranges, walk_sets
from yinyan.randomness import drawn_seed, dropout, named_seed
from yinyan.settings import DecoderSettings, Settings

__all__ = ["JoinedModel", "JoinedReader", "SetReader", "WalkReader", "surel", "surel_plus"]

_AT_ONCE = 4_096  # pairs joined together outside training
_PARTS = 12  # of an epoch: each hides one training edge in so many, near the twentieth that the published runs hide


class JoinedReader(Decoder):
    """MLP([x_i, x_j]) of the joined walks of both ends, the mean over both orders of the ends.

    The published layer reads the ends in one order; the mean makes a pair score the same either way round.
    """

    def __init__(self, size: int, width: int, settings: DecoderSettings, *, steps: int, features: int) -> None:
        super().__init__(size, directed=False)
        self.rate = settings.dropout
        self.features = features
        self.positions = nn.Sequential(nn.Linear(steps + 1, size), nn.ReLU(), nn.Linear(size, size))
        self.merge = nn.Linear(2 * width, size)
        self.output = nn.Linear(size, 1)

    def joined(self, y: Tensor, sets: WalkSets, own: Tensor, other: Tensor, ends: Tensor) -> Tensor:
        """(s, width) one end of each pair: root rows of this and of the other end, and the end itself."""
        raise NotImplementedError

    def scores(self, y: Tensor, sets: WalkSets, pairs: Tensor, drops: torch.Generator | None) -> Tensor:
        """(b,) logits of (b, 2) pairs of roots."""
        rows = sets.place[pairs]
        own, other = torch.cat([rows[:, 0], rows[:, 1]]), torch.cat([rows[:, 1], rows[:, 0]])
        left, right = self.joined(y, sets, own, other, torch.cat([pairs[:, 0], pairs[:, 1]])).chunk(2)
        both = torch.stack([torch.cat([left, right], dim=1), torch.cat([right, left], dim=1)])
        hidden = dropout(F.relu(self.merge(both)), self.rate, drops)
        return self.output(hidden).mean(0)[:, 0]  # type: ignore[no-any-return]


class WalkReader(JoinedReader):
    """SUREL: the mean over walks of the last state of an LSTM (Yin et al., VLDB 2022).

    A step at node w reads MLP(landing of w from this end) + MLP(landing of w from the other end), and f(x_w) beside it
    where nodes have features. Walks with the same beginning have the same states, so that the LSTM runs over the tree
    of distinct walks, with the same result.
    """

    def __init__(self, size: int, settings: DecoderSettings, *, steps: int, features: int, layers: int = 2) -> None:
        super().__init__(size, size, settings, steps=steps, features=features)
        self.of_position = nn.Linear(size, 4 * size)
        self.of_features = nn.Linear(features, 4 * size, bias=False) if features else None
        self.recurrent = nn.ModuleList(nn.Linear(size, 4 * size) for _ in range(layers))
        self.between = nn.ModuleList(nn.Linear(size, 4 * size) for _ in range(layers - 1))
        for part in (self.of_position, *self.recurrent, *self.between):  # as torch starts its own LSTM
            for weight in part.parameters():
                nn.init.uniform_(weight, -(size**-0.5), size**-0.5)

    def joined(self, y: Tensor, sets: WalkSets, own: Tensor, other: Tensor, ends: Tensor) -> Tensor:
        """The LSTM from level to level of the tree."""
        positions = F.linear(self.positions(sets.landing), self.of_position.weight)
        features = None if self.of_features is None else self.of_features(y)
        states: list[tuple[Tensor, Tensor]] = []
        begins = first = own
        for level in sets.levels:
            owner, entry, firsts = in_ranges(level.begin, own)
            node = level.node[entry]
            x = self.of_position.bias + positions.index_select(0, sets.lookup(own[owner], node))
            x = x + positions.index_select(0, sets.lookup(other[owner], node))
            if features is not None:
                x = x + features.index_select(0, node)
            before = states
            if before:
                place = first[owner] + level.parent[entry] - begins[owner]
                before = [(h.index_select(0, place), c.index_select(0, place)) for h, c in before]
            states = self._cells(x, before)
            begins, first = level.begin[own], firsts
        last = states[-1][0]
        return last.new_zeros(len(own), last.shape[1]).index_add(0, owner, last * sets.share[entry][:, None])

    def _cells(self, x: Tensor, before: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """(h, c) of each layer from the input's part of the first layer's gates and the states one step before."""
        after: list[tuple[Tensor, Tensor]] = []
        for number, recurrent in enumerate(self.recurrent):
            gates = x if number == 0 else self.between[number - 1](after[-1][0])
            gates = gates + recurrent(before[number][0] if before else gates.new_zeros(1, gates.shape[1] // 4))
            enter, forget, content, leave = gates.chunk(4, dim=1)
            c = torch.sigmoid(enter) * torch.tanh(content)
            if before:
                c = c + torch.sigmoid(forget) * before[number][1]
            after.append((torch.sigmoid(leave) * torch.tanh(c), c))
        return after


class SetReader(JoinedReader):
    """SUREL+: attention, or the mean, over the set of nodes that the walks of an end meet (Yin et al., VLDB 2023).

    A node w is MLP(landing of w from this end) + MLP(landing of w from the other end); f(x) of the end stands beside
    the result where nodes have features.
    """

    def __init__(
        self,
        size: int,
        settings: DecoderSettings,
        *,
        steps: int,
        features: int,
        pooling: Literal["attention", "mean"] = "attention",
    ) -> None:
        super().__init__(size, size + features, settings, steps=steps, features=features)
        self.gate = nn.Linear(size, 1) if pooling == "attention" else None
        self.value = nn.Linear(size, size) if pooling == "attention" else None

    def joined(self, y: Tensor, sets: WalkSets, own: Tensor, other: Tensor, ends: Tensor) -> Tensor:
        """The pooled set, and the end's features."""
        positions = self.positions(sets.landing)
        owner, entry, _ = in_ranges(sets.begin, own)
        there = sets.lookup(other[owner], sets.keys[entry] % sets.num_nodes)
        x = positions.index_select(0, entry) + positions.index_select(0, there)
        if self.gate is None or self.value is None:
            share = 1 / torch.bincount(owner, minlength=len(own)).to(x.dtype)[owner]
        else:
            share = _softmax(self.gate(x)[:, 0], owner, len(own))
            x = self.value(x)
        pooled = x.new_zeros(len(own), x.shape[1]).index_add(0, owner, x * share[:, None])
        return torch.cat([pooled, y.index_select(0, ends)], dim=1) if self.features else pooled


def _softmax(x: Tensor, owner: Tensor, count: int) -> Tensor:
    """(e,) softmax of (e,) numbers among those of the same owner."""
    largest = x.detach().new_full((count,), -torch.inf).scatter_reduce(0, owner, x.detach(), "amax")
    weights = (x - largest[owner]).exp()
    return weights / weights.new_zeros(count).index_add(0, owner, weights)[owner]


class JoinedModel(Model):
    """f of the features, and a reader of joined walks.

    In training the walks of each step are drawn anew over the edges that are not hidden, so that no walk takes the edge
    that it is to predict; the published code walks once over a graph without its training positives, which excludes the
    same edges. Outside training all nodes' walks are drawn once from the seed: no score depends on other pairs.
    """

    def __init__(self, encoder: NodeEncoder, decoder: JoinedReader, shape: WalkShape, seed: int) -> None:
        super().__init__(encoder, decoder)
        self.reader = decoder
        self.shape = shape
        self.seed = seed
        self._last: tuple[MessageGraph, WalkSets] | None = None

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
        if drops is not None:
            sets = walk_sets(messages, torch.unique(flat), self.shape, drawn_seed(drops), hidden)
            return self.reader.scores(y, sets, flat, drops).view(pairs.shape[:-1])
        sets = self._sets(messages, hidden)
        parts = [self.reader.scores(y, sets, part, None) for part in flat.split(_AT_ONCE)]
        return torch.cat(parts).view(pairs.shape[:-1])

    def _sets(self, messages: MessageGraph, hidden: Tensor | None) -> WalkSets:
        if hidden is None and self._last is not None and self._last[0] is messages:
            return self._last[1]
        nodes = torch.arange(messages.num_nodes, device=messages.pairs.device)
        sets = walk_sets(messages, nodes, self.shape, self.seed, hidden)
        if hidden is None:
            self._last = messages, sets
        return sets


def surel(task: Task, *, shape: WalkShape | None = None) -> Outcome:
    """Walks read by an LSTM, on the features where there are any (the published option `use_feature`)."""
    return _run(task, WalkReader, shape or WalkShape(), {"decoder": {"width": 32}, "training": {"loss_negatives": 1}})


def surel_plus(
    task: Task, *, shape: WalkShape | None = None, pooling: Literal["attention", "mean"] = "attention"
) -> Outcome:
    """Sets of nodes read by attention or by their mean."""

    def reader(size: int, settings: DecoderSettings, *, steps: int, features: int) -> JoinedReader:
        return SetReader(size, settings, steps=steps, features=features, pooling=pooling)

    return _run(task, reader, shape or WalkShape(), {"decoder": {"width": 64}})


def _run(task: Task, reader: Callable[..., JoinedReader], shape: WalkShape, more: Overrides) -> Outcome:
    graph, seed = task.split.graph, named_seed(task.seed, "walks")

    def build(settings: Settings, graph: Graph) -> Model:
        num_features = 0 if graph.features is None else graph.features.shape[1]
        encoder = Encoder(settings.encoder, graph.num_nodes, num_features)
        features = settings.encoder.hidden_size if num_features else 0
        made = reader(settings.decoder.width, settings.decoder, steps=shape.steps, features=features)
        return JoinedModel(encoder, made, shape, seed)

    own = {
        "encoder": {"hidden_size": 64, "dropout": 0.1, "feature_dropout": 0.5},
        "decoder": {"dropout": 0.1},
        "training": {
            **{"batch_size": -(-len(task.split.train_targets) // _PARTS), "epochs": 40, "evaluate_every": 5},
            **{"learning_rate": 0.004, "weight_decay": 0.05},
        },
    }
    inputs = "random" if graph.features is None else "features"  # without features only positions are read
    fixed = {"encoder": {"num_steps": 0, "num_negatives": 0, "inputs": inputs}}
    return trained(task, build, merged(own, more), fixed=fixed)
