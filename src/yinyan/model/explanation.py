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

from yinyan.decoder import Decoder
from yinyan.encoder import Encoder
from yinyan.energy import EnergyTerms, fused_layer, push_strengths
from yinyan.messages import MessageGraph
from yinyan.propagation import SparseMatrix, SymmetricOperator

__all__ = ["Share", "explain_pair"]

_NODES = 12  # of Gauss-Legendre quadrature: exact for polynomials of degree 23 in the gates


@dataclass(frozen=True)
class Share:
    """The part of a score that one gate accounts for."""

    end: int  # the row whose neighbour it is
    neighbour: int | None  # None: the mean of all nodes
    attracts: bool
    amount: float


@dataclass(frozen=True)
class _Gates:
    """Messages with a gate: entry e carries value_e · y[column_e] to row_e, and opens with gate_of_entry_e."""

    shares: tuple[tuple[int, int | None], ...]  # (end, neighbour) of each gate
    rows: Tensor
    columns: Tensor
    values: Tensor
    gate_of_entry: Tensor


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
    groups = [_gates(terms.links.adjacency, (source, target))]
    groups += [_gates(graph.adjacency, (source, target)) for graph in terms.non_links]
    counts = [len(group.shares) for group in groups]

    def score(gates: Tensor) -> Tensor:
        y = f
        opened = gates.split(counts)
        for _ in range(encoder.settings.num_steps):
            y = _gated_layer(encoder, y, f, terms, groups, opened)
        pair = encoder.finish(y[[source, target]])
        if encoder.sketches is not None:
            links = groups[0]
            sketches = encoder.sketches.gated(messages, links.rows, links.columns, opened[0][links.gate_of_entry])
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
        for kind, (group, part) in enumerate(zip(groups, amounts.split(counts), strict=True))
        for (end, neighbour), amount in zip(group.shares, part.tolist(), strict=True)
    ]
    return sorted(shares, key=lambda share: -abs(share.amount)), alone, full


def _gated_layer(
    encoder: Encoder, y: Tensor, f: Tensor, terms: EnergyTerms, groups: list[_Gates], gates: tuple[Tensor, ...]
) -> Tensor:
    """LAYER, less what the closed part of each gate withholds."""
    step = encoder.step_size(y, f, terms)
    out = fused_layer(y, f, terms, step)
    factors = [terms.attraction * torch.ones_like(y[0, 0]), *(-push_strengths(y, terms))]
    for factor, group, gate in zip(factors, groups, gates, strict=True):
        if group.rows.numel():
            closed = step * factor * (gate[group.gate_of_entry] - 1) * group.values
            out = out.index_add(0, group.rows, closed[:, None] * y.index_select(0, group.columns))
        elif group.shares:  # the mean of all nodes, as felt by either end
            ends = torch.tensor([end for end, _ in group.shares], device=y.device)
            withheld = step * factor * (gate - 1)[:, None] * _mean_push(terms, y)[ends]
            out = out.index_add(0, ends, withheld)
    return out


def _mean_push(terms: EnergyTerms, y: Tensor) -> Tensor:
    return terms.non_links[0].adjacency.product(y)


def _gates(adjacency: object, ends: tuple[int, int]) -> _Gates:
    """A gate for each stored pair that touches an end; one for each end where the graph is an expectation."""
    if not isinstance(adjacency, SymmetricOperator):
        nothing = torch.empty(0, dtype=torch.long)
        return _Gates(tuple((end, None) for end in dict.fromkeys(ends)), nothing, nothing, nothing, nothing)
    gate_of_pair: dict[tuple[int, int], int] = {}
    shares: list[tuple[int, int | None]] = []
    rows: list[int] = []
    columns: list[int] = []
    places: list[int] = []
    gate_of_entry: list[int] = []
    done: set[int] = set()
    for end in dict.fromkeys(ends):
        start, stop = int(adjacency.indptr[end]), int(adjacency.indptr[end + 1])
        for place, other in zip(range(start, stop), adjacency.columns[start:stop].tolist(), strict=True):
            if other in done or float(adjacency.values[place]) == 0:
                continue  # the other end brought both directions along, or the link is hidden
            gate = gate_of_pair.setdefault((end, other), len(shares))
            if gate == len(shares):
                shares.append((end, other))
            rows += [end, other]
            columns += [other, end]
            places += [place, place]  # symmetric: one value for both directions
            gate_of_entry += [gate, gate]
        done.add(end)
    device = adjacency.values.device
    index = [torch.tensor(x, dtype=torch.long, device=device) for x in (rows, columns, places, gate_of_entry)]
    return _Gates(tuple(shares), index[0], index[1], adjacency.values[index[2]], index[3])
