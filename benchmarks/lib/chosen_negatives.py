"""A loss whose negatives are made like those of HeaRT: either end of an edge is kept, and similar nodes are drawn."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from yinyan.graph import Graph
from yinyan.hard_negatives import merged_ranks, similarities
from yinyan.model.decoder import Decoder
from yinyan.model.encoder import NodeEncoder
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model, Pairs
from yinyan.sampling import draw_pairs

_LENGTH = 250  # of a node's list, as many as HeaRT takes per end
_BLOCK = 512  # nodes whose lists are made at a time


class ChosenNegatives(Model):
    """Half of the negatives keep the source of their edge, half its target; a `share` of the other ends is drawn from
    the nodes most similar to the kept one (resource allocation, PageRank and features over the training edges)."""

    def __init__(self, encoder: NodeEncoder, decoder: Decoder, graph: Graph, share: float) -> None:
        super().__init__(encoder, decoder)
        self._graph, self._share = graph, share
        self._lists: Tensor | None = None

    def loss(
        self,
        pairs: Pairs,
        messages: MessageGraph,
        kind: str,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        if drops is None:
            raise ValueError("negatives need a generator")
        count = pairs.non_links.shape[1]
        chosen = self.drawn(pairs.links, count, messages, drops)
        return super().loss(pairs._replace(non_links=chosen), messages, kind, hidden=hidden, drops=drops)

    def drawn(self, links: Tensor, count: int, messages: MessageGraph, generator: torch.Generator) -> Tensor:
        """(b, count, 2) negatives of (b, 2) links, the kept end first."""
        kept = links[:, torch.arange(count) % 2].flatten()
        pairs = draw_pairs(messages.known, kept.numel(), generator, sources=kept)
        if self._share:
            if self._lists is None:
                self._lists = similar_nodes(self._graph, messages)
            similar = (torch.rand(kept.numel(), generator=generator) < self._share).nonzero()[:, 0]
            place = torch.randint(self._lists.shape[1], (similar.numel(),), generator=generator)
            pairs[similar, 1] = self._lists[kept[similar], place]
        return pairs.view(-1, count, 2)


def similar_nodes(graph: Graph, messages: MessageGraph, length: int = _LENGTH) -> Tensor:
    """(n, length) nodes most similar to each, best first, without itself and those that it has a training edge to."""
    ends = messages.pairs.numpy()
    known = graph.with_edges(np.sort(graph.find_edges(ends)))
    by, n = similarities(known), graph.num_nodes
    linked = np.eye(n, dtype=np.bool_)
    linked[ends[:, 0], ends[:, 1]] = linked[ends[:, 1], ends[:, 0]] = True
    length = min(length, int((~linked).sum(axis=1).min()))  # so that no list runs into known partners
    found = []
    for nodes in np.array_split(np.arange(n), -(-n // _BLOCK)):
        ranks = merged_ranks([rows(nodes) for rows in by], ~linked[nodes])
        found.append(np.argsort(ranks, axis=1, kind="stable")[:, :length])
    return torch.from_numpy(np.concatenate(found))
