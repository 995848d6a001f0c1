"""Exact top-k: every permitted pair is scored, in blocks of bounded size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.decoder import Decoder

__all__ = ["TopK", "best", "exact_top_k"]

_BLOCK = 16_384  # pairs scored at a time: a decoder of width 256 then works in 16 MB


class TopK(NamedTuple):
    """Rows of the best candidates of one source, best first, and their scores."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float32]


@torch.no_grad()
def exact_top_k(decoder: Decoder, embeddings: Tensor, source: int, candidates: NDArray[np.int64], k: int) -> TopK:
    """The `k` best of `candidates` (sorted rows) for one source, or all of them if there are fewer."""
    scores = np.empty(candidates.size, dtype=np.float32)
    own = embeddings[source]
    for start in range(0, candidates.size, _BLOCK):
        block = torch.from_numpy(candidates[start : start + _BLOCK]).to(embeddings.device)
        scores[start : start + _BLOCK] = decoder(own.expand(block.numel(), -1), embeddings[block]).cpu().numpy()
    return best(candidates, scores, k)


def best(candidates: NDArray[np.int64], scores: NDArray[np.float32], k: int) -> TopK:
    """The `k` largest scores; equal ones in the order of the rows, whichever block they came from."""
    if k < scores.size:
        bar = np.partition(scores, scores.size - k)[scores.size - k]
        above = np.flatnonzero(scores > bar)
        level = np.flatnonzero(scores == bar)[: k - above.size]
        chosen = np.concatenate([above, level])
        candidates, scores = candidates[chosen], scores[chosen]
    order = np.lexsort((candidates, -scores))
    return TopK(candidates[order], scores[order])
