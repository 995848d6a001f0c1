"""Scores of triples: a decoder that all relations share, with a diagonal map and a bias for each."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from yinyan.model.decoder import (
    Decoder,
    DistanceDecoder,
    DotDecoder,
    HadamardMLP,
    MultiDotDecoder,
    near_identity,
)
from yinyan.model.encoder import NodeEncoder
from yinyan.model.messages import MessageGraph
from yinyan.model.pair_products import ends, pair_products
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
        pairs, relation = triples[..., :2], triples[..., 2]
        shared = None
        if decoder.structure is not None:
            estimates = decoder.structure.of_pairs(y.detach()[:, decoder.size :], pairs.reshape(-1, 2))
            shared = decoder.structure.layers(estimates.unflatten(0, pairs.shape[:-1]))
        scale = (1 + self.scale).index_select(0, relation.reshape(-1)).view(*relation.shape, -1)
        bias = self.bias[relation]
        if self.source_map is None and type(decoder) is HadamardMLP:
            return decoder.of_products(pair_products(y, decoder.size, pairs) * scale, generator, shared) + bias
        sources, targets = self._ends(y[:, : decoder.size], pairs, relation)
        return decoder.pair_logits(sources * scale, targets, generator, shared) + bias

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
        _bias_of(made).add_(self.bias[relation])
        return made


class RelationModel(Model):
    """Encoder, decoder and what each predicted relation adds to it; one predicted relation adds nothing."""

    def __init__(self, encoder: NodeEncoder, decoder: Decoder, relations: RelationMaps | None) -> None:
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

    def decoder_of(self, relation: int) -> Decoder:
        """A plain decoder with the scores of one predicted relation."""
        return self.decoder if self.relations is None else self.relations.decoder_of(self.decoder, relation)


def _bias_of(decoder: Decoder) -> Tensor:
    """What is added to every logit."""
    if isinstance(decoder, HadamardMLP):
        return decoder.output.bias
    if isinstance(decoder, DotDecoder | MultiDotDecoder | DistanceDecoder):
        return decoder.bias
    raise TypeError(f"{type(decoder).__name__} has no bias that is known here")
