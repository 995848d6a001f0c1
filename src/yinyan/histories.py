"""Embeddings of some nodes at a time: their neighbours' are taken as they were last computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from yinyan.descent import descend
from yinyan.encoder import Encoder
from yinyan.energy import EnergyTerms, Laplacian, linear_layers
from yinyan.errors import SettingsError
from yinyan.messages import MessageGraph
from yinyan.propagation import LowRankOperator, Operator, SparseMatrix, SymmetricOperator, csr_product

__all__ = ["Histories"]


class Histories:
    """Y(0), …, Y(T-1) and the final embeddings of all nodes, in main memory as the encoder stores them.

    The rows of some nodes are computed, and differentiated, by layers over these alone: what they hear from the others
    is a constant. So a step holds O(|B| d T) activations for the nodes B that it computes, beside (T + 1) n d stored
    numbers that no gradient passes through (historical embeddings: Fey et al., GNNAutoScale, ICML 2021). What is
    computed is in float32 whatever the storage, and kept for the backward pass even if `recompute` is set.
    """

    def __init__(self, encoder: Encoder, features: Tensor | SparseMatrix | None, messages: MessageGraph) -> None:
        _refuse_unsuited(encoder)
        self.encoder, self.features, self.messages = encoder, features, messages
        self._dtype = torch.bfloat16 if encoder.settings.storage == "bfloat16" else torch.float32
        self._layers: list[Tensor] = []  # Y(t), (n, d) each
        self._sums: list[list[Tensor | None]] = []  # Uᵀ Y(t) of each low-rank graph, none for the sparse ones
        self._final = torch.empty(0)

    def final(self, nodes: Tensor) -> Tensor:
        """(b, d) final embeddings as last computed."""
        return _taken(self._final, nodes)

    @torch.no_grad()
    def refresh(
        self,
        *,
        negatives: torch.Generator | None = None,
        drops: torch.Generator | None = None,
        hidden: Tensor | None = None,
    ) -> None:
        """Compute all nodes, without gradients, over the links that are not hidden and fresh negative graphs.

        Both stay the same until the next time. With `drops`, what is stored is as noisy as what training computes.
        """
        encoder = self.encoder
        self._terms = terms = self.messages.terms(encoder.settings, encoder.repulsion(), negatives, hidden=hidden)
        f = encoder.base(self.features, terms, drops)
        self._step_size = encoder.step_size(f, f, terms)
        layers = linear_layers(terms, self._step_size, 1)
        self._layers, self._sums, y = [], [], f
        for _ in range(encoder.settings.num_steps):
            stored = y.to(self._dtype)
            self._sums.append([_summed(operator, stored.float()) for operator in _operators(terms)])
            self._layers.append(stored.cpu())
            y = descend(f, layers, start=y)
        self._final = encoder.finish(y).to(self._dtype).cpu()

    def embed(self, nodes: Tensor, drops: torch.Generator | None = None) -> Tensor:
        """(b, d) embeddings of distinct `nodes`, differentiable; what is stored of them is overwritten."""
        encoder = self.encoder
        place = torch.full((self.messages.num_nodes,), -1, device=nodes.device)
        place[nodes] = torch.arange(nodes.numel(), device=nodes.device)
        blocks = [_Block.of(operator, nodes, place) for operator in _operators(self._terms)]
        layers = linear_layers(self._rows_of_terms(nodes, blocks), self._step_size, 1)
        pull, *pushes = layers.factors
        factors = [pull.detach(), *pushes]  # the links' is a constant
        f = encoder.base(_rows(self.features, nodes), None, drops, nodes)
        fresh, y = [], f
        for stored, sums in zip(self._layers, self._sums, strict=True):
            before = _taken(stored, nodes)
            fresh.append(y.detach())
            y = descend(f, layers, start=y)
            for factor, block, total in zip(factors, blocks, sums, strict=True):
                y = y + block.heard(factor, stored, before, total)
        y = encoder.finish(y)
        self._overwrite(nodes, blocks, fresh, y.detach())
        return y

    def _rows_of_terms(self, nodes: Tensor, blocks: list[_Block]) -> EnergyTerms:
        """The energy terms of `nodes` among themselves, normalised as in the whole graph."""
        terms = self._terms
        links, *non_links = (
            Laplacian(whole.diagonal[nodes], block.inside)
            for whole, block in zip((terms.links, *terms.non_links), blocks, strict=True)
        )
        repulsion = self.encoder.repulsion()[: len(non_links)]  # anew: an optimiser may have moved it
        anchor = terms.anchor[nodes]
        return replace(terms, links=links, non_links=tuple(non_links), anchor=anchor, repulsion=repulsion)

    @torch.no_grad()
    def _overwrite(self, nodes: Tensor, blocks: list[_Block], fresh: list[Tensor], final: Tensor) -> None:
        where = nodes.cpu()
        for stored, sums, rows in zip(self._layers, self._sums, fresh, strict=True):
            rounded = rows.to(self._dtype)
            change = rounded.float() - _taken(stored, nodes)
            for block, total in zip(blocks, sums, strict=True):
                more = _summed(block.inside, change)
                if total is not None and more is not None:
                    total += more
            stored[where] = rounded.cpu()
        self._final[where] = final.to(self._dtype).cpu()


@dataclass(frozen=True)
class _Block:
    """The rows of some nodes in a symmetric matrix: among themselves, and towards the others."""

    inside: SymmetricOperator | LowRankOperator  # (b, b)
    others: Tensor  # (h,) the other nodes that they are linked to
    outside: tuple[Tensor, Tensor, Tensor] | None  # (b, h) in compressed rows; none where all others count

    @classmethod
    def of(cls, operator: Operator, nodes: Tensor, place: Tensor) -> _Block:
        """`place` (n,) holds where each node stands in `nodes`, and -1 for the others."""
        if isinstance(operator, LowRankOperator):
            inside = LowRankOperator(operator.diagonal[nodes], operator.factors[nodes], operator.core)
            return cls(inside, nodes[:0], None)
        if not isinstance(operator, SymmetricOperator):
            raise TypeError(f"no rows can be taken from a {type(operator).__name__}")
        counts, slots = _row_slots(operator.indptr, nodes)
        rows = torch.repeat_interleave(torch.arange(nodes.numel(), device=nodes.device), counts)
        columns, values = operator.columns[slots].long(), operator.values[slots]
        local = place[columns]
        own, foreign = local >= 0, (local < 0) & (values != 0)  # hidden links have kept their places
        others, column = torch.unique(columns[foreign], return_inverse=True)
        kind = operator.columns.dtype

        def compressed(kept: Tensor, column: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return _indptr(rows[kept], nodes.numel()).to(kind), column.to(kind), values[kept]

        return cls(SymmetricOperator(*compressed(own, local[own])), others, compressed(foreign, column))

    def heard(self, factor: Tensor, stored: Tensor, before: Tensor, total: Tensor | None) -> Tensor:
        """(b, d) factor times the product with the stored rows of the others; `before` are the nodes' own, `total` is
        the sum of all. Differentiable in the factor."""
        if isinstance(self.inside, LowRankOperator) and total is not None:
            factors, core = self.inside.factors, self.inside.core
            return factors @ (factor * (core @ (total - factors.T @ before)))  # so that autograd keeps little
        if self.outside is None or not self.others.numel():
            return torch.zeros_like(before)
        indptr, columns, values = self.outside
        return factor * csr_product(indptr, columns, values, _taken(stored, self.others))


def _operators(terms: EnergyTerms) -> list[Operator]:
    return [graph.adjacency for graph in (terms.links, *terms.non_links)]


def _summed(operator: Operator, y: Tensor) -> Tensor | None:
    """Uᵀ Y: all that a node hears of the others through a low-rank matrix."""
    return operator.factors.T @ y if isinstance(operator, LowRankOperator) else None


def _taken(stored: Tensor, nodes: Tensor) -> Tensor:
    """Rows from main memory, on the device of `nodes`."""
    return stored[nodes.cpu()].to(nodes.device).float()


def _rows(features: Tensor | SparseMatrix | None, nodes: Tensor) -> Tensor | SparseMatrix | None:
    if not isinstance(features, SparseMatrix):
        return None if features is None else features[nodes]
    counts, slots = _row_slots(features.indptr, nodes)
    indptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return SparseMatrix.from_csr(indptr, features.columns[slots].long(), features.values[slots], features.num_columns)


def _row_slots(indptr: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """How many entries the rows of `nodes` hold, and where."""
    starts = indptr[nodes].long()
    counts = indptr[nodes + 1].long() - starts
    shift = torch.repeat_interleave(starts - (counts.cumsum(0) - counts), counts)
    return counts, shift + torch.arange(shift.numel(), device=shift.device)


def _indptr(rows: Tensor, count: int) -> Tensor:
    return torch.nn.functional.pad(torch.bincount(rows, minlength=count).cumsum(0), (1, 0))


def _refuse_unsuited(encoder: Encoder) -> None:
    settings = encoder.settings
    for unsuited, name, cure in (
        (settings.margin is not None, "margin", "'none'"),
        (settings.sign_hops > 0, "sign_hops", "0"),
        (settings.base_norm, "base_norm", "false"),
        (settings.sketch_size > 0, "sketch_size", "0"),
    ):
        if unsuited:
            raise SettingsError(
                f"training.clusters: encoder.{name} looks at all nodes at once (set it to {cure}, or clusters = 1)"
            )
