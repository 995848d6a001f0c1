"""Which neighbours moved a score, and by how much.

The messages over every link and sampled non-link of the two ends get a gate g in [0, 1]. A score is followed from all
gates shut to all open; a gate's share is the integral of ∂score/∂gate along the way (integrated gradients), so the
shares add up to score - score_alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from yinyan.model.decoder import Decoder
from yinyan.model.descent import Gates, gated_layer
from yinyan.model.encoder import Encoder
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import Operator, SparseMatrix, SymmetricOperator

__all__ = ["Share", "explain_pair"]

_NODES = 12  # of Gauss-Legendre quadrature: exact for polynomials of degree 23 in the gates


@dataclass(frozen=True)
class Share:
    """The part of a score that one gate accounts for."""

    end: int  # the row whose neighbour it is
    neighbour: int | None  # None: the mean of all nodes
    attracts: bool
    amount: float


def explain_pair(
    encoder: Encoder,
    decoder: Decoder,
    features: Tensor | SparseMatrix | None,
    messages: MessageGraph,
    source: int,
    target: int,
    negatives: torch.Generator | None,
) -> tuple[list[Share], float, float]:
    """Shares of the gates, the score with all gates shut, and the score."""
    with torch.no_grad():
        terms = messages.terms(encoder.settings, encoder.repulsion(), negatives)
        f = encoder.base(features, terms)
    ends = list(dict.fromkeys((source, target)))
    named, groups = zip(*(_gates(g.adjacency, ends, f.device) for g in (terms.links, *terms.negatives)), strict=True)
    counts = [len(names) for names in named]

    def score(gates: Tensor) -> Tensor:
        y = f
        opened = gates.split(counts)
        for _ in range(encoder.settings.num_steps):
            y = gated_layer(y, f, terms, encoder.step_size(y, f, terms), groups, opened)
        pair = encoder.finish(y[[source, target]])
        if encoder.sketches is not None:
            links = groups[0]
            sketches = encoder.sketches.gated(messages, links.rows, links.columns, opened[0][links.gate])
            pair = torch.cat([pair, sketches[[source, target]]], dim=1)
        return decoder(pair[0], pair[1])  # type: ignore[no-any-return]

    points, weights = np.polynomial.legendre.leggauss(_NODES)
    amounts = torch.zeros(sum(counts), dtype=f.dtype, device=f.device)
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        gates = torch.full_like(amounts, point).requires_grad_()
        if gates.numel():
            amounts += weight * torch.autograd.grad(score(gates), gates, allow_unused=True, materialize_grads=True)[0]
    with torch.no_grad():
        alone, full = float(score(torch.zeros_like(amounts))), float(score(torch.ones_like(amounts)))
    shares = [
        Share(end, neighbour, kind == 0, amount)
        for kind, (names, part) in enumerate(zip(named, amounts.split(counts), strict=True))
        for (end, neighbour), amount in zip(names, part.tolist(), strict=True)
    ]
    return sorted(shares, key=lambda share: -abs(share.amount)), alone, full


def _gates(adjacency: Operator, ends: list[int], device: torch.device) -> tuple[list[tuple[int, int | None]], Gates]:
    """(end, neighbour) of each gate, and its entries: both of each stored pair that touches an end; all of an end's row
    where the graph is an expectation."""
    if not isinstance(adjacency, SymmetricOperator):
        rows, gate = torch.tensor(ends, device=device), torch.arange(len(ends), device=device)
        return [(end, None) for end in ends], Gates(rows, None, None, gate)
    named: list[tuple[int, int | None]] = []
    parts = []
    for place, end in enumerate(ends):
        here = slice(*adjacency.indptr[end : end + 2].tolist())
        others, values = adjacency.columns[here].long(), adjacency.values[here]
        # the other end has brought both entries along, or the link is hidden
        fresh = (values != 0) & ~torch.isin(others, torch.tensor(ends[:place], device=device))
        neighbours, gate = others[fresh].unique(return_inverse=True)
        parts.append((torch.full_like(gate, end), others[fresh], values[fresh], gate + len(named)))
        named += [(end, other) for other in neighbours.tolist()]
    near, far, values, gate = (torch.cat(part) for part in zip(*parts, strict=True))
    return named, Gates(torch.cat([near, far]), torch.cat([far, near]), values.repeat(2), gate.repeat(2))
