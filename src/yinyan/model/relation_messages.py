"""The graph that messages of several relations pass over, some of its links hidden, and its energy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.model.energy import EnergyTerms
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SymmetricOperator, inverse_or_zero
from yinyan.model.relation_laplacian import RelationLaplacian
from yinyan.settings import EncoderSettings

__all__ = ["RelationMessages", "relation_messages"]


@dataclass(frozen=True)
class RelationMessages(MessageGraph):
    """Message links that each belong to a relation. The same pair may be linked in several relations."""

    relation_of_pair: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))  # (m,)
    num_relations: int = 0
    order: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))  # (2m,) entries by relation and row
    relation_columns: Tensor = field(default_factory=lambda: torch.empty(0))  # (2m,) columns in this order
    relation_indptr: Tensor = field(default_factory=lambda: torch.empty(0))  # (R, n + 1) where a relation's rows begin
    bounds: tuple[int, ...] = (0,)  # (R + 1,) where relations begin in the columns
    # (2m,) the relation of each entry of the merged matrix
    relation_of_slot: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))

    def terms(
        self,
        settings: EncoderSettings,
        repulsion: Tensor,
        generator: torch.Generator | None,
        *,
        hidden: Tensor | None = None,
        weights: Tensor | None = None,
        maps: Tensor | None = None,
        in_parts: bool = False,
    ) -> EnergyTerms:
        """The energy as `MessageGraph.terms`, with (R,) attractions and perhaps (R, d) diagonal maps of the relations.

        `in_parts` gives what the products and traces of single relations need, as energies with gradients do.
        """
        merged = super().terms(settings, repulsion, generator, hidden=hidden)
        lambdas = self.weights.new_full((self.num_relations,), settings.attraction) if weights is None else weights
        plain = merged.links.adjacency
        if not isinstance(plain, SymmetricOperator):
            raise TypeError("messages need a sparse matrix")
        values = plain.values[self.order]
        parts = tuple(
            SymmetricOperator(indptr, self.relation_columns[first:last], values[first:last])
            for indptr, (first, last) in zip(self.relation_indptr, itertools.pairwise(self.bounds), strict=True)
        )
        degrees = self._degrees(hidden) + float(settings.self_loops)
        each = inverse_or_zero(degrees)
        links = RelationLaplacian(
            diagonal=(_WeightedDegrees.apply(lambdas, self, hidden) * each)[:, None],
            adjacency=replace(plain, values=plain.values * lambdas.detach()[self.relation_of_slot].to(plain.values)),
            parts=parts,
            weights=lambdas,
            shares=self._shares(hidden) * each if in_parts or maps is not None else None,
            maps=maps,
        )
        return replace(merged, links=links, attraction=1.0)

    def visible_weights(self, hidden: Tensor | None) -> Tensor:
        """(m,) the weight of each pair, 0 where it is hidden."""
        return self.weights if hidden is None else torch.where(hidden, 0.0, self.weights)

    def _shares(self, hidden: Tensor | None) -> Tensor:
        """(R, n) D_r."""
        weights, n = self.visible_weights(hidden), self.num_nodes
        total = weights.new_zeros(self.num_relations * n)
        for end in self.pairs.T:
            total.index_add_(0, self.relation_of_pair * n + end, weights)
        return total.view(self.num_relations, n)


class _WeightedDegrees(torch.autograd.Function):
    """(n,) Σ_r λ_r D_r, differentiable in the λ_r, without a matrix of nodes and relations."""

    @staticmethod
    def forward(ctx: Any, lambdas: Tensor, messages: RelationMessages, hidden: Tensor | None) -> Tensor:
        ctx.messages, ctx.hidden = messages, hidden
        scaled = messages.weights * lambdas[messages.relation_of_pair].to(messages.weights)
        return messages.structure.degrees(scaled, hidden).to(messages.weights.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None, None]:
        messages = ctx.messages
        at_ends = slopes.index_select(0, messages.pairs[:, 0]) + slopes.index_select(0, messages.pairs[:, 1])
        found = slopes.new_zeros(messages.num_relations)
        found.index_add_(0, messages.relation_of_pair, at_ends * messages.visible_weights(ctx.hidden))
        return found, None, None


def relation_messages(
    pairs: Sequence[Tensor],
    num_nodes: int,
    *,
    weights: Sequence[Tensor | None],
    num_left: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> RelationMessages:
    """From the distinct undirected (m_r, 2) pairs of each relation; weights have the mean 1 in each."""
    joined = torch.cat(list(pairs))
    weighted = any(given is not None for given in weights)
    own: Tensor | None = None
    if weighted:
        parts = [
            torch.ones(len(some), dtype=dtype) if given is None or not len(some) else given.to(dtype) / given.mean()
            for some, given in zip(pairs, weights, strict=True)
        ]
        own = torch.cat(parts)
    plain = MessageGraph.from_pairs(joined, num_nodes, weights=own, num_left=num_left, dtype=dtype)
    relation = torch.repeat_interleave(torch.arange(len(pairs)), torch.tensor([len(some) for some in pairs]))
    structure = plain.structure
    of_slot = relation[structure.pair_of_slot.long()]
    order = torch.argsort(of_slot, stable=True)
    rows = of_slot * num_nodes + structure.rows
    counts = torch.bincount(rows, minlength=len(pairs) * num_nodes).view(len(pairs), num_nodes)
    indptr = F.pad(counts.cumsum(1), (1, 0))
    bounds = [0, *indptr[:, -1].cumsum(0).tolist()]
    return RelationMessages(
        pairs=plain.pairs,
        weights=plain.weights,
        structure=structure,
        known=plain.known,
        weighted=weighted,
        relation_of_pair=relation,
        num_relations=len(pairs),
        order=order,
        relation_columns=structure.columns[order],
        relation_indptr=indptr.to(structure.indptr.dtype),
        bounds=tuple(bounds),
        relation_of_slot=of_slot,
    )
