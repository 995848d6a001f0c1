"""What a step of training scores: its links, fresh non-links, and the embeddings of their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from yinyan.clusters import partition
from yinyan.encoder import Encoder, NodeEncoder
from yinyan.errors import SettingsError
from yinyan.histories import Histories
from yinyan.messages import MessageGraph
from yinyan.propagation import SparseMatrix
from yinyan.randomness import Streams, uniform_nodes
from yinyan.sampling import KnownPairs, draw_pairs
from yinyan.settings import TrainingSettings

__all__ = ["Batcher", "Clusters", "Pairs", "Piece", "TrainingData", "WholeGraph", "draw_loss_negatives"]


@dataclass(frozen=True)
class TrainingData:
    """What a step may see, on the training device."""

    features: Tensor | SparseMatrix | None
    messages: MessageGraph  # training links only
    targets: Tensor  # (m, 2) training links, source first
    pair_of_target: Tensor  # (m,) the message pair that must hide while a target is predicted; -1 for none
    known: KnownPairs  # all that loss negatives may know
    valid_messages: MessageGraph  # the links that pass messages when validation links are scored
    valid_links: Tensor  # (·, 2)
    valid_non_links: Tensor  # (·, 2), or (·, k, 2): each link's own


class Pairs(NamedTuple):
    """Pairs to score, as places in the rows of some embeddings."""

    rows: Tensor  # (·, d)
    links: Tensor  # (b, 2)
    non_links: Tensor  # (b, N, 2)


class Piece(NamedTuple):
    """Embeddings computed together, and the target links that they are judged by."""

    y: Tensor  # (·, d), differentiable
    links: Tensor  # (b, 2)
    pairs: Callable[[Tensor, Tensor], Pairs]  # from these embeddings, or copies of them, and some of these links


class Batcher(Protocol):
    """Cuts a step's targets into pieces."""

    num_pieces: int  # a step, at most

    def pieces(self, batch: Tensor, hidden: Tensor | None, streams: Streams) -> Iterator[Piece]:
        """All targets of the `batch`, each once; every piece is computed when it is asked for."""
        ...


class WholeGraph:
    """One piece: all nodes are computed at once."""

    num_pieces = 1

    def __init__(self, encoder: NodeEncoder, data: TrainingData, settings: TrainingSettings) -> None:
        self.encoder, self.data, self.settings = encoder, data, settings

    def pieces(self, batch: Tensor, hidden: Tensor | None, streams: Streams) -> Iterator[Piece]:
        """All embeddings over the links that are not hidden."""
        data, negatives, drops = self.data, streams["message_negatives"], streams["dropout"]
        y = self.encoder(data.features, data.messages, negatives=negatives, drops=drops, hidden=hidden)
        yield Piece(y, data.targets[batch], partial(self._pairs, streams["loss_negatives"]))

    def _pairs(self, generator: torch.Generator, y: Tensor, links: Tensor) -> Pairs:
        return Pairs(y, links, draw_loss_negatives(self.data.known, links, self.settings, generator))


class Clusters:
    """A piece for every few clusters: only their nodes are computed, the others' embeddings are remembered.

    At the start of a step all nodes are computed without gradients over the links that are not hidden, and remembered;
    so no embedding that meets a target has seen it, and a step needs nothing of the step before. A target belongs to
    one of its ends, by lot, and so to one piece.
    """

    def __init__(self, encoder: NodeEncoder, data: TrainingData, settings: TrainingSettings) -> None:
        if not isinstance(encoder, Encoder):
            raise SettingsError(f"training.clusters: {type(encoder).__name__} computes the whole graph (use 1)")
        count, together = settings.clusters, settings.clusters_per_step
        if together > count:
            raise SettingsError(f"training.clusters_per_step: needs to be at most training.clusters, {count}")
        self.data, self.settings = data, settings
        self.histories = Histories(encoder, data.features, data.messages)
        # of the graph alone, so that a resumed run finds the same clusters
        generator = Streams.fresh(0, "clusters", torch.device("cpu"))
        self.part = partition(data.messages.pairs, data.messages.num_nodes, count, generator)
        self.num_pieces = -(-count // together)

    def pieces(self, batch: Tensor, hidden: Tensor | None, streams: Streams) -> Iterator[Piece]:
        """Clusters in random company and order; those that no target belongs to are left out."""
        self.histories.refresh(negatives=streams["message_negatives"], drops=streams["dropout"], hidden=hidden)
        generator, count = streams["batches"], self.settings.clusters
        shuffled = torch.randperm(count, generator=generator, device=generator.device).to(self.part.device)
        piece_of_node = (shuffled // self.settings.clusters_per_step)[self.part]
        links, owners = self._owned(self.data.targets[batch], generator)
        piece_of_link = piece_of_node[owners]
        for place in range(self.num_pieces):
            mine = links[piece_of_link == place]
            if mine.shape[0]:
                nodes = (piece_of_node == place).nonzero()[:, 0]
                y = self.histories.embed(nodes, streams["dropout"])
                yield Piece(y, mine, partial(self._pairs, streams["loss_negatives"], nodes))

    def _owned(self, links: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Links and the end that each belongs to: the source if non-links keep it, else either one.

        Undirected links are turned, so that it comes first.
        """
        if self.data.known.directed and self.settings.loss_sampler == "source":
            return links, links[:, 0]
        turned = torch.randint(2, (links.shape[0], 1), generator=generator, device=generator.device).to(links.device)
        owners = links.gather(1, turned)[:, 0]
        return links if self.data.known.directed else torch.where(turned > 0, links.flip(1), links), owners

    def _pairs(self, generator: torch.Generator, nodes: Tensor, y: Tensor, links: Tensor) -> Pairs:
        """A pair with one end among `nodes` reaches the encoder by that one alone, so its gradient counts twice: over
        all pieces, every pair weighs as much as if the whole graph were computed."""
        non_links = self._non_links(generator, nodes, links)
        ends = torch.cat([links, non_links.reshape(-1, 2)])
        place = torch.full((self.part.numel(),), -1, device=nodes.device)
        place[nodes] = torch.arange(nodes.numel(), device=nodes.device)
        local = place[ends]
        away = local < 0
        others, column = torch.unique(ends[away], return_inverse=True)
        local = torch.where(away.any(1, keepdim=True), local + nodes.numel(), local)
        local[away] = 2 * nodes.numel() + column
        rows = torch.cat([y, 2 * y - y.detach(), self.histories.final(others)])
        return Pairs(rows, local[: links.shape[0]], local[links.shape[0] :].view(non_links.shape))

    def _non_links(self, generator: torch.Generator, nodes: Tensor, links: Tensor) -> Tensor:
        """As in the whole graph, but for one end that is among the `nodes`."""
        known, settings = self.data.known, self.settings
        if settings.loss_sampler == "source":
            return draw_loss_negatives(known, links, settings, generator)
        count = links.shape[0] * settings.loss_negatives
        chosen = uniform_nodes(nodes.numel(), count, generator, nodes.device)
        pairs = draw_pairs(known, count, generator, sources=nodes[chosen])
        if known.directed:  # that end is the target of half of them
            turned = torch.arange(count, device=pairs.device) % 2 > 0
            turned &= ~known.contains(pairs.flip(1))
            pairs = torch.where(turned[:, None], pairs.flip(1), pairs)
        return _with_reverse(known, links, pairs.view(-1, settings.loss_negatives, 2))


def draw_loss_negatives(
    known: KnownPairs, links: Tensor, settings: TrainingSettings, generator: torch.Generator
) -> Tensor:
    """(b, N, 2) non-links; on a directed graph the last of several is the reversed link, where that is none."""
    count = settings.loss_negatives
    sources = links[:, 0].repeat_interleave(count) if settings.loss_sampler == "source" else None
    pairs = draw_pairs(known, links.shape[0] * count, generator, sources=sources).view(-1, count, 2)
    return _with_reverse(known, links, pairs)


def _with_reverse(known: KnownPairs, links: Tensor, non_links: Tensor) -> Tensor:
    if known.directed and non_links.shape[1] > 1:
        reverse = links.flip(1)
        non_links[:, -1] = torch.where(known.contains(reverse)[:, None], non_links[:, -1], reverse)
    return non_links
