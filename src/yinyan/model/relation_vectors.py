"""Scores of triples by vectors of relations: what is known of a triple becomes a query over all entities at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.model.decoder import Decoder, DotDecoder
from yinyan.randomness import dropout
from yinyan.settings import DecoderSettings

__all__ = ["ComplexVectors", "RelationVectors", "complex_decoder"]


class RelationVectors(nn.Module):
    """Two vectors per relation (reciprocal relations): one asks for the target of a source, one for the other way.

    The known end of a triple and the vector make a query. A query is compared with all candidates in one product of
    two matrices. A subclass defines `asked` and, if scores are no inner products, `block` and `paired`.
    """

    def __init__(self, size: int, turned: Sequence[bool], rate: float = 0.0) -> None:
        super().__init__()
        self.size, self.rate, self.turned = size, rate, tuple(turned)
        self.forth = nn.Parameter(self._start(len(turned), size))
        self.back = nn.Parameter(self._start(len(turned), size))

    def _start(self, count: int, size: int) -> Tensor:
        rows = torch.empty(count, size)
        return rows if rows.is_meta else nn.init.normal_(rows, std=1 / math.sqrt(size))

    def vectors(self, relation: Tensor, backwards: Tensor) -> Tensor:
        """(b, d) the vectors that ask for targets, or `backwards` for sources."""
        both = torch.cat([self.forth, self.back])
        return both.index_select(0, relation + backwards.long() * len(self.turned))

    def queries(
        self, rows: Tensor, relation: Tensor, backwards: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """(b, d) queries of (b, d) known ends; `generator` drives dropout."""
        return dropout(self.asked(rows, self.vectors(relation, backwards)), self.rate, generator)

    @staticmethod
    def asked(rows: Tensor, vectors: Tensor) -> Tensor:
        """(..., d) queries of known ends and vectors of relations."""
        raise NotImplementedError

    def block(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """(b, c) logits of all pairs of queries and candidates."""
        return queries @ candidates.T

    @staticmethod
    def paired(queries: Tensor, candidates: Tensor) -> Tensor:
        """(...) logits of each query with its own candidate."""
        return (queries * candidates).sum(-1)

    def logits(self, decoder: Decoder, y: Tensor, triples: Tensor, generator: torch.Generator | None) -> Tensor:
        """(...) logits of (..., 3) rows of source and target and the number of a relation: the mean of both ways."""
        source, target, relation = triples.reshape(-1, 3).unbind(1)
        total = y.new_zeros(len(source))
        for known, sought, backwards in ((source, target, False), (target, source, True)):
            way = torch.full_like(relation, backwards, dtype=torch.bool)
            total = total + self.paired(self.queries(y[known], relation, way, generator), y[sought])
        return (total / 2).view(triples.shape[:-1])

    def decoder_of(self, decoder: Decoder, relation: int) -> Decoder:
        """A plain decoder with the scores of one relation, where there is one."""
        raise NotImplementedError

    def cubes(self, rows: Tensor) -> Tensor:
        """(...) sums of the third powers of absolute values: what the N3 penalty adds up."""
        return rows.abs().pow(3).sum(-1)


class ComplexVectors(RelationVectors):
    """Re Σ y_i w_r ȳ_j over complex columns, the two halves of a row (Trouillon et al., ICML 2016).

    A pair has one score, Re Σ y_i c_r ȳ_j. With a direction within one type, where targets are asked for, c_r = w_r.
    Between two types, where both ends are, it is the mean of both ways, c_r = (w_r + w̄'_r) / 2. A relation without
    direction has real vectors, the same both ways.
    """

    def __init__(
        self, size: int, turned: Sequence[bool], rate: float = 0.0, one_way: Sequence[bool] | None = None
    ) -> None:
        if size % 2:
            raise SettingsError(f"encoder.hidden_size: complex columns need an even number (got {size})")
        super().__init__(size, turned, rate)
        self.one_way = tuple([False] * len(self.turned) if one_way is None else one_way)  # targets alone are asked for
        self._identity: list[nn.Parameter] = []  # one for the decoders of all relations

    def vectors(self, relation: Tensor, backwards: Tensor) -> Tensor:
        """(b, d) the vectors; of relations without direction without imaginary parts, and the same both ways."""
        if all(self.turned):
            return super().vectors(relation, backwards)
        turned = torch.tensor(self.turned, device=relation.device)[relation]
        found = super().vectors(relation, backwards & turned)
        real, imaginary = found.chunk(2, dim=-1)
        return torch.cat([real, imaginary * turned[:, None]], dim=-1)

    @staticmethod
    def asked(rows: Tensor, vectors: Tensor) -> Tensor:
        """The complex products."""
        (a, b), (c, d) = rows.chunk(2, dim=-1), vectors.chunk(2, dim=-1)
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)

    def cubes(self, rows: Tensor) -> Tensor:
        """Σ |y|³ of complex numbers."""
        real, imaginary = rows.chunk(2, dim=-1)
        return (real.square() + imaginary.square() + 1e-24).pow(1.5).sum(-1)  # a finite gradient at 0

    def pair_vectors(self) -> Tensor:
        """(R, d) c_r."""
        everyone = torch.arange(len(self.turned), device=self.forth.device)
        forth, back = (self.vectors(everyone, torch.full_like(everyone, way, dtype=torch.bool)) for way in (0, 1))
        (a, b), (c, d) = forth.chunk(2, dim=1), back.chunk(2, dim=1)
        one_way = torch.tensor(self.one_way, device=forth.device)[:, None]
        return torch.where(one_way, forth, torch.cat([a + c, b - d], dim=1) / 2)

    def logits(self, decoder: Decoder, y: Tensor, triples: Tensor, generator: torch.Generator | None) -> Tensor:
        """(...) logits of (..., 3) rows of source and target and the number of a relation, by c_r."""
        vectors = self.pair_vectors()[triples[..., 2]]
        return self.paired(self.asked(y[triples[..., 0]], vectors), y[triples[..., 1]])

    @torch.no_grad()
    def decoder_of(self, decoder: Decoder, relation: int) -> Decoder:
        """A plain decoder with the scores of one relation: an inner product after a map of the source."""
        if not isinstance(decoder, DotDecoder):
            raise TypeError(f"vectors of relations come with an inner product (got {type(decoder).__name__})")
        real, imaginary = (part.diag() for part in self.pair_vectors()[relation].chunk(2))
        made = complex_decoder(self.size).to(real.device)
        turn = torch.cat([torch.cat([real, imaginary], 1), torch.cat([-imaginary, real], 1)])
        made.source_map = nn.Parameter(turn, requires_grad=False)
        if not self._identity:
            self._identity.append(nn.Parameter(torch.eye(self.size, device=real.device), requires_grad=False))
        made.target_map = self._identity[0]
        return made


def complex_decoder(size: int) -> DotDecoder:
    """The inner product that queries are compared by: nothing of it is learned."""
    made = DotDecoder(size, DecoderSettings(kind="dot"), directed=False)
    if not made.bias.is_meta:
        nn.init.zeros_(made.log_scale)
    return made.requires_grad_(False)
