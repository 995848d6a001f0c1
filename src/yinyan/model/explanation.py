"""Which neighbours moved a score, and by how much.

The messages over every link and sampled non-link of the two ends get a gate g in [0, 1]. A score is followed from all
gates shut to all open; a gate's share is the integral of ∂score/∂gate along the way (integrated gradients), so the
shares add up to score - score_alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.decoder import Decoder
from yinyan.model.descent import Gates, gated_layer
from yinyan.model.encoder import Encoder
from yinyan.model.gated_descent import GatedDescent
from yinyan.model.layer import Layer
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import Operator, SparseMatrix, SymmetricOperator
from yinyan.model.relation_laplacian import RelationLaplacian
from yinyan.model.relation_messages import RelationMessages

__all__ = ["Explainer", "Share"]

_NODES = 12  # of Gauss-Legendre quadrature: exact for polynomials of degree 23 in the gates


@dataclass(frozen=True)
class Share:
    """The part of a score that one gate accounts for."""

    end: int  # the row whose neighbour it is
    neighbour: int | None  # None: the mean of all nodes
    attracts: bool
    amount: float
    relation: int | None = None  # of the link, where there are several


class Explainer:
    """Explains pairs of one graph. What does not depend on the pair is computed once: the energy, its layer and f.

    Without a margin all layers are one linear map, and the gates of two ends change it by a matrix of low rank. So the
    layers run on a few columns and not on whole embeddings, at every row: no hop is cut off, and the shares are those
    of `explain(..., whole=True)`, which runs all layers under autograd, but for rounding. They differ by at most 1e-4
    of the largest of |score|, |score_alone| and the shares. With a margin every explanation runs all layers.

    Parameters
    ----------
    encoder, features, messages, negatives
        What embeddings follow from; `negatives` draws the negative graphs, once.
    f
        (n, hidden) the base model's output, if it is known.
    """

    @torch.no_grad()
    def __init__(
        self,
        encoder: Encoder,
        features: Tensor | SparseMatrix | None,
        messages: MessageGraph,
        negatives: torch.Generator | None,
        f: Tensor | None = None,
    ) -> None:
        self.encoder, self.messages = encoder, messages
        self.terms, self.relations = encoder.terms(messages, negatives), None
        if isinstance(messages, RelationMessages) and isinstance(self.terms.links, RelationLaplacian):
            if self.terms.links.maps is not None:
                raise SettingsError("encoder.relation_maps: explanations need relations without maps (set it to false)")
            self.terms, self.relations = replace(self.terms, links=self.terms.links.merged), messages.relation_of_slot
        self.f = (encoder.base(features, self.terms) if f is None else f).contiguous()
        self.layer = None
        if encoder.settings.margin is None or not self.terms.negatives:
            self.layer = Layer.of(self.terms, encoder.step_size(self.f, self.f, self.terms))

    def explain(
        self, decoder: Decoder, source: int, target: int, *, whole: bool = False
    ) -> tuple[list[Share], float, float]:
        """Shares of the gates, the score with all gates shut, and the score."""
        ends = list(dict.fromkeys((source, target)))
        graphs = (self.terms.links, *self.terms.negatives)
        relations = (self.relations, *(None for _ in self.terms.negatives))
        made = (_gates(g.adjacency, ends, self.f.device, of) for g, of in zip(graphs, relations, strict=True))
        named, groups = zip(*made, strict=True)
        question = _Question(self, decoder, (source, target), groups, [len(names) for names in named])
        local = self.layer is not None and not whole and len(ends) == 2
        amounts, alone, full = question.by_few_columns() if local else question.by_all_rows()
        shares = [
            Share(end, neighbour, kind == 0, amount, relation)
            for kind, (names, part) in enumerate(zip(named, amounts.split(question.counts), strict=True))
            for (end, neighbour, relation), amount in zip(names, part.tolist(), strict=True)
        ]
        return sorted(shares, key=lambda share: -abs(share.amount)), alone, full


class _Question:
    """A pair and its gates: two ways to the same integrals."""

    def __init__(
        self, known: Explainer, decoder: Decoder, pair: tuple[int, int], groups: Sequence[Gates], counts: list[int]
    ) -> None:
        self.known, self.decoder, self.pair, self.groups, self.counts = known, decoder, list(pair), groups, counts
        self.sketches, links = None, groups[0]
        if known.encoder.sketches is not None and links.columns is not None:
            ends = torch.tensor(self.pair, device=known.f.device)
            recent = known.encoder.recent(known.messages)
            self.sketches = known.encoder.sketches.gated(recent, ends, links.rows, links.columns)

    def decoded(self, pair: Tensor, link_gates: Tensor) -> Tensor:
        """The score of (2, hidden) rows of Y(T), with the sketches under these gates beside them."""
        finished = self.known.encoder.finish(pair)
        if self.sketches is not None:
            finished = torch.cat([finished, self.sketches(link_gates[self.groups[0].gate])], dim=1)
        return self.decoder(finished[0], finished[1])  # type: ignore[no-any-return]

    def by_all_rows(self) -> tuple[Tensor, float, float]:
        """(gates,) shares, and the scores with all gates shut and open: all layers at every point of the way."""
        encoder, terms, f = self.known.encoder, self.known.terms, self.known.f

        def score(gates: Tensor) -> Tensor:
            y, opened = f, gates.split(self.counts)
            for _ in range(encoder.settings.num_steps):
                y = gated_layer(y, f, terms, encoder.step_size(y, f, terms), self.groups, opened)
            return self.decoded(y[self.pair], opened[0])

        amounts = torch.zeros(sum(self.counts), dtype=f.dtype, device=f.device)
        for point, weight in _way():
            gates = torch.full_like(amounts, point).requires_grad_()
            if gates.numel():
                amounts += (
                    weight * torch.autograd.grad(score(gates), gates, allow_unused=True, materialize_grads=True)[0]
                )
        with torch.no_grad():
            return amounts, float(score(torch.zeros_like(amounts))), float(score(torch.ones_like(amounts)))

    def by_few_columns(self) -> tuple[Tensor, float, float]:
        """The same, where layers are one linear map."""
        known, layer = self.known, self.known.layer
        if layer is None:
            raise ValueError("layers with a margin are no linear map")
        points, weights = zip(*_way(), strict=True)
        descent = GatedDescent(layer, known.f, known.encoder.settings.num_steps, self.pair, self.groups)
        pairs = descent.pairs([*points, 0.0, 1.0])
        scores, to_pairs, to_links = [], [], torch.zeros(self.counts[0], dtype=known.f.dtype, device=known.f.device)
        for point, weight, y in zip((*points, 0.0, 1.0), (*weights, 0.0, 0.0), pairs, strict=True):
            y, gates = y.requires_grad_(), torch.full_like(to_links, point).requires_grad_()
            score = self.decoded(y, gates)
            scores.append(float(score.detach()))
            if weight:
                to_y, to_gates = torch.autograd.grad(score, (y, gates), allow_unused=True, materialize_grads=True)
                to_pairs.append(to_y)
                to_links += weight * to_gates  # by the sketches
        slopes = descent.slopes(torch.stack(to_pairs), points)
        amounts = [
            known.f.new_zeros(count).index_add_(0, where, sum(w * s for w, s in zip(weights, slope, strict=True)))
            for count, (where, slope) in zip(self.counts, slopes, strict=True)
        ]
        amounts[0] += to_links
        return torch.cat(amounts), scores[-2], scores[-1]


def _way() -> list[tuple[float, float]]:
    """How far gates are open at the points of the quadrature, and the points' weights."""
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    return [((float(point) + 1) / 2, float(weight) / 2) for point, weight in zip(points, weights, strict=True)]


def _gates(
    adjacency: Operator, ends: list[int], device: torch.device, relations: Tensor | None = None
) -> tuple[list[tuple[int, int | None, int | None]], Gates]:
    """(end, neighbour, relation) of each gate, and its entries: both of each stored pair that touches an end; all of an
    end's row where the graph is an expectation. `relations` (nnz,) are those of the stored entries."""
    if not isinstance(adjacency, SymmetricOperator):
        rows, gate = torch.tensor(ends, device=device), torch.arange(len(ends), device=device)
        return [(end, None, None) for end in ends], Gates(rows, None, None, gate)
    count = 1 if relations is None or not relations.numel() else int(relations.max()) + 1
    named: list[tuple[int, int | None, int | None]] = []
    parts = []
    for place, end in enumerate(ends):
        here = slice(*adjacency.indptr[end : end + 2].tolist())
        others, values = adjacency.columns[here].long(), adjacency.values[here]
        keys = others if relations is None else others * count + relations[here]
        # the other end has brought both entries along, or the link is hidden
        fresh = (values != 0) & ~torch.isin(others, torch.tensor(ends[:place], device=device))
        distinct, gate = keys[fresh].unique(return_inverse=True)
        parts.append((torch.full_like(gate, end), others[fresh], values[fresh], gate + len(named)))
        named += [(end, key // count, None if relations is None else key % count) for key in distinct.tolist()]
    near, far, values, gate = (torch.cat(part) for part in zip(*parts, strict=True))
    return named, Gates(torch.cat([near, far]), torch.cat([far, near]), values.repeat(2), gate.repeat(2))
