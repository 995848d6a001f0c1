"""Scores as inner products: each node's vector as a query and as a candidate, where the decoder allows it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from yinyan.errors import InputError
from yinyan.model.decoder import Decoder, DistanceDecoder, DotDecoder, HadamardMLP, MultiDotDecoder
from yinyan.retrieval.state import SearchState

__all__ = ["InnerProducts"]

_CURE = (
    'fit with decoder={"kind": "dot", "rerank": False} and encoder={"sketch_size": 0}, or export the decoder as ONNX'
)


class InnerProducts(NamedTuple):
    """score(i, j) = query_i · vector_j + offset."""

    decoder: DotDecoder | DistanceDecoder | HadamardMLP
    offset: float

    @classmethod
    def of(cls, state: SearchState) -> InnerProducts:
        """Of the scores that a model answers with; others than inner products are refused by their reason."""
        decoder: Decoder = state.decoder
        if isinstance(decoder, MultiDotDecoder) and decoder.hidden is None:
            decoder = decoder.folded()
        if decoder.structure is not None:
            raise _refusal("a small network adds to it what the sketches of the two nodes share (encoder.sketch_size)")
        if (isinstance(decoder, HadamardMLP) and decoder.hidden) or isinstance(decoder, MultiDotDecoder):
            raise _refusal("the decoder has a hidden layer (decoder.depth, decoder.heads)")
        if state.reranker is not None:
            raise _refusal("exact counts of shared neighbours are added to it (decoder.rerank)")
        if isinstance(decoder, HadamardMLP):
            return cls(decoder, float(decoder.output.bias.detach()))
        if not isinstance(decoder, DotDecoder | DistanceDecoder):
            raise _refusal(f"nothing is known about a decoder of type {type(decoder).__name__}")
        return cls(decoder, float(decoder.bias.detach()))

    @property
    def is_one(self) -> bool:
        """Whether a node has one vector, for queries and candidates alike."""
        return isinstance(self.decoder, DotDecoder) and self.decoder.is_symmetric

    @property
    def width(self) -> int:
        """How many columns the vectors have."""
        return self.decoder.size + (2 if isinstance(self.decoder, DistanceDecoder) else 0)

    @torch.no_grad()
    def of_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(b, width) queries and vectors of (b, row) stored rows, in double precision on the way."""
        decoder = self.decoder
        queries = vectors = rows[:, : decoder.size].double()
        if decoder.source_map is not None and decoder.target_map is not None:
            queries, vectors = queries @ decoder.source_map.double(), vectors @ decoder.target_map.double()
        if isinstance(decoder, DistanceDecoder):
            queries, vectors = _of_distances(queries, vectors, decoder.log_scale.double().exp())
        elif isinstance(decoder, HadamardMLP):
            queries = queries * decoder.output.weight.double()
        else:
            scale = decoder.scaled(torch.ones_like(rows[:1, : decoder.size])).double()
            queries, vectors = queries * scale.sqrt(), vectors * scale.sqrt()
        return queries.float(), vectors.float()


def _of_distances(first: Tensor, second: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """-s ‖a - b‖² = (2 s a, -s, -s ‖a‖²) · (b, ‖b‖², 1)."""
    ones = torch.ones_like(first[:, :1])
    lengths = [rows.square().sum(1, keepdim=True) for rows in (first, second)]
    queries = torch.cat([2 * scale * first, -scale * ones, -scale * lengths[0]], dim=1)
    return queries, torch.cat([second, lengths[1], ones], dim=1)


def _refusal(why: str) -> InputError:
    return InputError(f"the score of this model is no inner product: {why}. {_CURE[0].upper()}{_CURE[1:]}")
