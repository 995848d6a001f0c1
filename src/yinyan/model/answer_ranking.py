"""Filtered ranking of triples by vectors of relations, each end by the vector that asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.metrics.filtered_ranking import FilteredRanking, filtered_ranking
from yinyan.model.relation_vectors import RelationVectors

__all__ = ["rank_answers"]

Rows = NDArray[np.int64]


@torch.no_grad()
def rank_answers(
    vectors: RelationVectors, y: Tensor, triples: Rows, known: Rows, limits: Tensor, *, ks: Sequence[int] = (1, 3, 10)
) -> FilteredRanking:
    """Filtered ranking of (t, 3) triples, each end by the vector that asks for it; `known` are left out."""
    spans = limits.tolist()

    def scores(rows: Rows, relation: int, backwards: bool) -> NDArray[np.float32]:
        first, size = spans[relation][:2] if backwards else spans[relation][2:]
        given = torch.from_numpy(rows).to(y.device)
        numbers = torch.full_like(given, relation)
        queries = vectors.queries(y[given], numbers, torch.full_like(given, backwards, dtype=torch.bool))
        found: NDArray[np.float32] = vectors.block(queries, y[first : first + size]).cpu().numpy()
        return found

    return filtered_ranking(
        lambda rows, relation: scores(rows, relation, False),
        lambda rows, relation: scores(rows, relation, True),
        triples,
        known=known,
        heads_of=[np.arange(first, first + size) for first, size, _, _ in spans],
        tails_of=[np.arange(first, first + size) for _, _, first, size in spans],
        ks=ks,
    )
