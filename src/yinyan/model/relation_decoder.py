"""Scores of triples: a decoder that all relations share, with a diagonal map and a bias for each."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from yinyan.model.decoder import (
    Decoder,
    HadamardMLP,
    near_identity,
)
from yinyan.model.encoder import NodeEncoder
from yinyan.model.messages import MessageGraph
from yinyan.model.pair_products import ends, pair_products
from yinyan.model.relation_vectors import RelationVectors
from yinyan.model.scoring import Model

__all__ = ["RelationMaps", "RelationModel"]


class RelationMaps(nn.Module):
    """c_r = 1 + a free vector, bias_r, and the maps S and T of directed relations within one type."""

    def __init__(self, size: int, turned: Sequence[bool]) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(len(turned), size))
        self.bias = nn.Parameter(torch.zeros(len(turned)))
        self.turned = tuple(turned)
        self.source_map = near_identity(size) if any(turned) else None
        self.target_map = near_identity(size) if any(turned) else None

    def logits(self, decoder: Decoder, y: Tensor, triples: Tensor, generator: torch.Generator | None) -> Tensor:
        """(...) logits of (..., 3) rows of source and target and the number of a relation."""
        if self.source_map is None and type(decoder) is HadamardMLP and _first_is_plain(decoder):
            return self._by_relation(decoder, y, triples, generator)
        pairs, relation = triples[..., :2], triples[..., 2]
        shared = None
        if decoder.structure is not None:
            estimates = decoder.structure.of_pairs(y.detach()[:, decoder.size :], pairs.reshape(-1, 2))
            shared = decoder.structure.layers(estimates.unflatten(0, pairs.shape[:-1]))
        scale = (1 + self.scale).index_select(0, relation.reshape(-1)).view(*relation.shape, -1)
        bias = self.bias[relation]
        sources, targets = self._ends(y[:, : decoder.size], pairs, relation)
        return decoder.pair_logits(sources * scale, targets, generator, shared) + bias

    def _by_relation(
        self, decoder: HadamardMLP, y: Tensor, triples: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """The same with c_r in the first weights, so that no product of embeddings is scaled."""
        flat, places = triples.reshape(-1, 3), None
        if bool((flat[1:, 2] < flat[:-1, 2]).any()):
            order = torch.argsort(flat[:, 2], stable=True)
            flat, places = flat[order], torch.empty_like(order)
            places[order] = torch.arange(len(order), device=order.device)
        pairs, relation = flat[:, :2], flat[:, 2]
        counts = torch.bincount(relation, minlength=len(self.turned)).tolist()
        shared = None
        if decoder.structure is not None:
            shared = decoder.structure.layers(decoder.structure.of_pairs(y.detach()[:, decoder.size :], pairs))
        linear: nn.Linear = decoder.hidden[0]  # type: ignore[assignment]

        def first(x: Tensor) -> Tensor:
            return _GroupedLinear.apply(x, linear.weight, linear.bias, 1 + self.scale, counts)  # type: ignore[no-any-return]

        products = pair_products(y, decoder.size, pairs)
        logits = decoder.of_products(products, generator, shared, first) + self.bias[relation]
        return (logits if places is None else logits[places]).view(triples.shape[:-1])

    def _ends(self, y: Tensor, pairs: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of the sources and of the targets, through S and T where the relation has a direction."""
        if self.source_map is None or self.target_map is None:
            return ends(y, pairs)
        as_source, as_target = y @ self.source_map, y @ self.target_map
        if all(self.turned):
            both = torch.cat([as_source, as_target])
            return ends(both, pairs + pairs.new_tensor([0, y.shape[0]]))
        turned = torch.tensor(self.turned, device=y.device)[relation].long()[..., None] * y.shape[0]
        first = ends(torch.cat([y, as_source]), pairs + turned)[0]
        return first, ends(torch.cat([y, as_target]), pairs + turned)[1]

    @torch.no_grad()
    def decoder_of(self, decoder: Decoder, relation: int) -> Decoder:
        """A plain decoder with the scores of one relation."""
        made = copy.deepcopy(decoder)
        scale, one = 1 + self.scale[relation], torch.eye(decoder.size, device=self.scale.device)
        source, target = one, one
        if self.turned[relation] and self.source_map is not None and self.target_map is not None:
            source, target = self.source_map, self.target_map
        made.source_map, made.target_map = nn.Parameter(source * scale), nn.Parameter(target.clone())
        if made.constant is None:
            raise TypeError(f"{type(made).__name__} has no constant to add a relation's bias to")
        made.constant.add_(self.bias[relation])
        return made


class _GroupedLinear(torch.autograd.Function):
    """(x ⊙ c_r) Wᵀ + b for rows in groups, by W diag(c_r): rows are neither scaled nor copied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, scales: Tensor, counts: Sequence[int]) -> Tensor:
        out, at = x.new_empty(x.shape[0], weight.shape[0]), 0
        for scale, count in zip(scales, counts, strict=True):
            torch.addmm(bias, x[at : at + count], (weight * scale).T, out=out[at : at + count])
            at += count
        ctx.counts = counts
        ctx.save_for_backward(x, weight, scales)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        x, weight, scales = ctx.saved_tensors
        slopes, at = slopes.contiguous(), 0
        to_x, to_weight, to_scales = torch.empty_like(x), torch.zeros_like(weight), torch.zeros_like(scales)
        for r, count in enumerate(ctx.counts):
            some = slopes[at : at + count]
            torch.mm(some, weight * scales[r], out=to_x[at : at + count])
            inner = some.T @ x[at : at + count]
            to_weight += inner * scales[r]
            to_scales[r] = (inner * weight).sum(0)
            at += count
        return to_x, to_weight, slopes.sum(0), to_scales, None


class RelationModel(Model):
    """Encoder, decoder and what each predicted relation adds to it; one predicted relation adds nothing."""

    def __init__(
        self, encoder: NodeEncoder, decoder: Decoder, relations: RelationMaps | RelationVectors | None
    ) -> None:
        super().__init__(encoder, decoder)
        self.relations = relations

    def logits(
        self,
        y: Tensor,
        pairs: Tensor,
        messages: MessageGraph,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """(...) logits of (..., 3) triples: two rows and the number of a predicted relation."""
        if self.relations is None:
            return self.decoder.of_pairs(y, pairs[..., :2], drops)
        return self.relations.logits(self.decoder, y, pairs, drops)

    def constants(self) -> list[nn.Parameter]:
        """With those of the relations: positives and negatives of a loss are of one relation."""
        own = [self.relations.bias] if isinstance(self.relations, RelationMaps) else []
        return [*super().constants(), *own]

    def decoder_of(self, relation: int) -> Decoder:
        """A plain decoder with the scores of one predicted relation."""
        return self.decoder if self.relations is None else self.relations.decoder_of(self.decoder, relation)


def _first_is_plain(decoder: HadamardMLP) -> bool:
    """Whether the products of embeddings go through the first linear map alone."""
    return len(decoder.hidden) > 0 and not (decoder.settings.residual and decoder.settings.width == decoder.size)
