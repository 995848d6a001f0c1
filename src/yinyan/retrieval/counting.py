"""How many rows score at least so much, without sorting them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import InputError
from yinyan.retrieval.scorer import Scorer

__all__ = ["num_reaching"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]

_BLOCK = 1 << 20  # rows scored at a time
_TOLERANCE = 1e-5  # of scores whose last bits depend on their company, as a share of the largest


@torch.no_grad()
def num_reaching(
    scorer: Scorer, y: Tensor, own: Tensor, bars: Scores, left_out: Rows, pool: Rows | None = None
) -> Rows:
    """How many rows of `pool` (sorted; all without) score at least each of the `bars`, without those left out.

    Bars are canonical scores. Where a scan gives others, those near a bar are scored again: the numbers of parts of
    the rows add up to that of all.
    """
    counts = np.zeros(bars.size, dtype=np.int64)
    if not bars.size:
        return counts
    tolerance = 0.0 if scorer.is_canonical(y) else _TOLERANCE
    for numbers, scores in _scanned(scorer, y, own, pool):
        allowed = ~np.isin(numbers, left_out, assume_unique=True)
        numbers, scores = numbers[allowed], scores[allowed]
        bad = np.isnan(scores)
        if bad.any():
            raise InputError(f"the score of row {numbers[bad][0]:,} is not a number: its embedding is not finite")
        margin = tolerance * max(1.0, float(np.abs(scores).max(initial=0)), float(np.abs(bars).max()))
        for place, bar in enumerate(bars):
            if not margin:
                counts[place] += np.count_nonzero(scores >= bar)
                continue
            near = numbers[np.abs(scores - bar) <= margin]
            counts[place] += np.count_nonzero(scores > bar + margin)
            counts[place] += np.count_nonzero(scorer.canonical(y, own, near) >= bar) if near.size else 0
    return counts


def _scanned(scorer: Scorer, y: Tensor, own: Tensor, pool: Rows | None) -> Iterator[tuple[Rows, Scores]]:
    """Numbers and scores of some rows at a time; consecutive ones are not copied."""
    first, last = (0, y.shape[0]) if pool is None else (int(pool[0]), int(pool[-1]) + 1) if pool.size else (0, 0)
    if pool is None or pool.size == last - first:
        for begin in range(first, last, _BLOCK):
            end = min(begin + _BLOCK, last)
            yield np.arange(begin, end), scorer.scores(y, own, None, begin, end)
        return
    for begin in range(0, pool.size, _BLOCK):
        part = pool[begin : begin + _BLOCK]
        yield part, scorer.scores(y, own, part)
