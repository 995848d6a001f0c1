"""Nodes that are near in the embedding space: by the cosine of their embeddings, without sketches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from yinyan.retrieval.exact import TopK, best
from yinyan.retrieval.recommend import Partners, checked_k
from yinyan.retrieval.state import SearchState

__all__ = ["similar_nodes"]

Rows = NDArray[np.int64]

_BLOCK = 65_536  # rows compared at a time
_TOGETHER = 64  # nodes asked about at a time


@torch.no_grad()
def similar_nodes(state: SearchState, nodes: Any, k: int) -> Partners:
    """The `k` nodes nearest to each, of its own side in a bipartite graph, and their cosines."""
    count, rows = checked_k(k), state.rows(state.listed(nodes))
    tops: list[TopK | None] = [None] * rows.size
    left = state.num_left
    for first, last in [(0, state.num_nodes)] if left is None else [(0, left), (left, state.num_nodes)]:
        places = np.flatnonzero((rows >= first) & (rows < last))
        for start in range(0, places.size, _TOGETHER):
            part = places[start : start + _TOGETHER]
            for place, top in zip(part.tolist(), _nearest(state, rows[part], count, first, last), strict=True):
                tops[place] = top
    return Partners(rows, [top for top in tops if top is not None])


def _nearest(state: SearchState, sources: Rows, k: int, first: int, last: int) -> list[TopK]:
    """The nearest of the rows first..last, to each source but itself."""
    own = _directions(state, sources)
    found = [TopK(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)) for _ in sources]
    for start in range(first, last, _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, last))
        cosines = (own @ _directions(state, rows).T).float().numpy()
        for place, (source, top) in enumerate(zip(sources.tolist(), found, strict=True)):
            others = rows != source
            both = np.concatenate([top.rows, rows[others]]), np.concatenate([top.scores, cosines[place, others]])
            found[place] = best(*both, k)
    return found


def _directions(state: SearchState, rows: Rows) -> Tensor:
    """(len(rows), size) embeddings of length 1, in double precision: a cosine does not depend on the batch."""
    return normalize(state.vectors(rows)[:, : state.decoder.embedding_size].cpu().double(), dim=1)
