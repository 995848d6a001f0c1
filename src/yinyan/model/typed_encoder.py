"""The encoder of graphs with relations: a base model per node type, and an attraction per relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.model.encoder import BaseModel, Encoder, EncoderInput, inverse_of
from yinyan.model.energy import EnergyTerms, layer, safe_step_size
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.model.relation_messages import RelationMessages
from yinyan.model.spectral import set_table, spectral_rows
from yinyan.settings import EncoderSettings

__all__ = ["TypeSize", "TypedBase", "TypedEncoder", "TypedFeatures", "inputs_of"]

_STABLE = 1.8  # times the safe step: learned attractions can grow, and beyond 2 the descent runs away

TypedFeatures = tuple[Tensor | SparseMatrix | None, ...]  # of each type


class TypeSize(NamedTuple):
    """The nodes of a type and the columns of their features."""

    num_nodes: int
    num_features: int


def inputs_of(settings: EncoderSettings, num_features: int) -> EncoderSettings:
    """The settings of one type: those without features learn embeddings, and features need a layer."""
    if settings.inputs == "embeddings":
        return settings
    if num_features or settings.inputs == "random":
        return replace(settings, num_layers=max(1, settings.num_layers))
    return replace(settings, inputs="embeddings")


class TypedBase(BaseModel):
    """f: one base model per node type; the rows of all types, one type after the other."""

    def __init__(self, settings: EncoderSettings, sizes: Sequence[TypeSize]) -> None:
        nn.Module.__init__(self)
        if settings.sign_hops:
            raise SettingsError(
                "encoder.sign_hops: neighbourhood powers are for graphs without relations (set it to 0)"
            )
        self.settings, self.sizes = settings, [size.num_nodes for size in sizes]
        self.parts = nn.ModuleList(BaseModel(inputs_of(settings, size.num_features), *size) for size in sizes)

    def forward(
        self,
        features: Any,
        terms: EnergyTerms | None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """(n, hidden); `features` are a tuple with those of each type."""
        if features is None or len(features) != len(self.parts):
            raise ValueError(f"features of {len(self.parts)} types are needed, None for those without")
        rows = [part(some, terms, generator) for part, some in zip(self.parts, features, strict=True)]
        return rows[0] if len(rows) == 1 else torch.cat(rows)

    @property
    def only(self) -> BaseModel | None:
        """The base model of the only type, if there is one."""
        first = self.parts[0]
        return first if len(self.parts) == 1 and isinstance(first, BaseModel) else None

    @property
    def is_row_wise(self) -> bool:
        """Rows are computed type by type."""
        return False

    @torch.no_grad()
    def start_spectrally(self, messages: MessageGraph, generator: torch.Generator) -> None:
        """Set the tables of all types to eigenvectors of the merged graph."""
        rows = spectral_rows(self.settings, self.settings.embedding_size, messages, generator)
        for part, own in zip(self.parts, rows.split(self.sizes), strict=True):
            if isinstance(part, BaseModel) and part.table is not None and part.table_weight is not None:
                set_table(part.table, part.table_weight, own)


class TypedEncoder(Encoder):
    """Y(T) on the energy of relations, each with an attraction λ_r = softplus(a free parameter)."""

    def __init__(self, settings: EncoderSettings, sizes: Sequence[TypeSize], num_relations: int) -> None:
        self._set_up(settings, lambda: TypedBase(settings, sizes))
        if settings.half_life is not None:
            raise SettingsError("encoder.half_life: recency is for graphs without relations (set it to none)")
        several, size = num_relations > 1, settings.hidden_size
        if several and settings.margin is not None:
            raise SettingsError("encoder.margin: a bound of the repulsion is for graphs without relations (set 'none')")
        if several and settings.attraction <= 0:
            raise SettingsError(
                f"encoder.attraction: attractions of relations start above 0 (got {settings.attraction})"
            )
        # of weights that decay to 0 all relations end at the attraction that is set
        self.relation_offset = nn.Parameter(torch.zeros(num_relations)) if several else None
        self.relation_map = nn.Parameter(torch.zeros(num_relations, size)) if settings.relation_maps else None

    def embeddings(self, given: EncoderInput) -> Tensor:
        """(n, hidden) embeddings; without steps no energy is made."""
        if self.settings.num_steps:
            return super().embeddings(given)
        only = self.base.only if isinstance(self.base, TypedBase) else None
        if only is not None and only.bias is None:
            f = only.of_table(given.drops, in_place=True)
        else:
            f = self.base(given.features, None, given.drops)
        return self.with_sketches(self.finish(f), given.messages, given.hidden)

    def attractions(self) -> Tensor | None:
        """(R,) λ_r; None with one relation, whose attraction is that of the settings."""
        if self.relation_offset is None:
            return None
        return F.softplus(self.relation_offset + inverse_of("softplus", self.settings.attraction))

    def terms(
        self, messages: MessageGraph, negatives: torch.Generator | None, hidden: Tensor | None = None
    ) -> EnergyTerms:
        """The energy of these messages, with attractions and repulsion as learned so far."""
        if not isinstance(messages, RelationMessages):
            return super().terms(messages, negatives, hidden)
        maps = None if self.relation_map is None else 1 + self.relation_map
        return messages.terms(
            self.settings, self.repulsion(), negatives, hidden=hidden, weights=self.attractions(), maps=maps
        )

    def _descended(self, f: Tensor, terms: EnergyTerms) -> Tensor:
        """Y(T) from f; with maps of relations by the gradient, which autograd follows."""
        if self.relation_map is None:
            return super()._descended(f, terms)
        y = f
        for _ in range(self.settings.num_steps):
            y = self.stepped(y, f, terms)
        return y

    def stepped(self, y: Tensor, f: Tensor, terms: EnergyTerms) -> Tensor:
        """Y(t+1) from Y(t); with maps of relations by the definition of the layer."""
        if self.relation_map is None:
            return super().stepped(y, f, terms)
        return layer(y, f, terms, self.step_size(y, f, terms))

    def _stored(self, f: Tensor, terms: EnergyTerms, given: Any) -> Tensor:
        """What is stored of Y(T); nothing is constant where attractions are learned."""
        if self.relation_offset is None and self.relation_map is None:
            return super()._stored(f, terms, given)
        return self.with_sketches(self.finish(self._descended(f, terms)), given.messages, given.hidden)

    def step_size(self, y: Tensor, f: Tensor, terms: EnergyTerms) -> float:
        """α as of the method; with learned attractions at most what keeps the descent stable."""
        step = super().step_size(y, f, terms)
        if self.relation_offset is None and self.relation_map is None:
            return step
        return min(step, _STABLE * safe_step_size(terms))
