"""Negative sampling: pairs of nodes that are not linked."""

from __future__ import annotations

from yinyan.sampling.blocks import draw_block_pairs
from yinyan.sampling.samplers import KnownPairs, Sampler, distinct_pairs, draw_pairs, unknown_pairs
from yinyan.sampling.triples import KnownTriples, Space, draw_triples

__all__ = [
    "KnownPairs",
    "KnownTriples",
    "Sampler",
    "Space",
    "distinct_pairs",
    "draw_block_pairs",
    "draw_pairs",
    "draw_triples",
    "unknown_pairs",
]
