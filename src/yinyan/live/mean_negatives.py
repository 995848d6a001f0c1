"""Expected negatives of single rows, beside those of a graph as it was built."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.model.energy import EnergyTerms
from yinyan.model.expected_negatives import expected_adjacency, expected_rates
from yinyan.model.operators import LowRankOperator, inverse_or_zero
from yinyan.settings import EncoderSettings

__all__ = ["MeanNegatives", "NegativeRows"]

Rows = NDArray[np.int64]


class NegativeRows(NamedTuple):
    """What some rows of a layer read of the mean negative graph."""

    left: Tensor  # (m, r) of U, with the factor of the layer
    degrees: Tensor  # (m,) D⁻ of all negative graphs together
    own: Tensor  # (m,) the share in C1


class MeanNegatives(NamedTuple):
    """The mean negative graph of a build: enough to give a further row what the others have."""

    by_degree: bool  # whether the rate of a node follows from its degree (sampler 'source')
    num_nodes: int
    num_left: int | None
    start: tuple[float, float]  # negatives that a node of either side starts, unless that follows from its degree
    totals: tuple[float, float]  # sums of the rates of either side
    num_negatives: int
    push: float  # of a layer

    @classmethod
    def of(
        cls, settings: EncoderSettings, terms: EnergyTerms, counts: Tensor, num_left: int | None, step: float
    ) -> MeanNegatives | None:
        """Of a build, given (n,) how many links each node has; None where negatives are sampled or there are none."""
        if not terms.negatives or not isinstance(terms.negatives[0].adjacency, LowRankOperator):
            return None
        rates = expected_rates(counts.double(), settings.sampler, num_left)
        left = rates[:num_left] if num_left is not None else rates
        right = rates[num_left:] if num_left is not None else rates
        n = rates.numel()
        partners = (n - 1, n - 1) if num_left is None else (n - num_left, num_left)
        means = [float(side.mean()) if side.numel() else 0.0 for side in (left, right)]
        return cls(
            settings.sampler == "source",
            n,
            num_left,
            (means[0] * partners[0], means[1] * partners[1]),
            (float(left.sum()), float(right.sum())),
            settings.num_negatives,
            step * float(terms.repulsion[0]),
        )

    def rows(self, rows: Rows, link_counts: NDArray[Any]) -> NegativeRows:
        """Those of some rows, new ones or with other degrees than at the build."""
        side = torch.zeros(rows.size, dtype=torch.long)
        partners = torch.full((rows.size,), float(self.num_nodes - 1), dtype=torch.float64)
        if self.num_left is not None:
            side = torch.from_numpy((rows >= self.num_left).astype(np.int64))
            partners = torch.tensor([self.num_nodes - self.num_left, self.num_left], dtype=torch.float64)[side]
        start = torch.tensor(self.start, dtype=torch.float64)[side]
        if self.by_degree:
            start = torch.from_numpy(np.asarray(link_counts, dtype=np.float64)) / 2
        rate = start / partners.clamp(min=1)
        totals = torch.tensor(self.totals, dtype=torch.float64)
        if self.num_left is None:
            degrees = (self.num_nodes - 2) * rate + totals[0]
        else:
            degrees = partners * rate + totals[1 - side]
        share = 1.0 / self.num_negatives
        scale = (share * inverse_or_zero(degrees)).sqrt()
        order = torch.argsort(side, stable=True)  # a side's rows stand together, as the operator wants them
        there = None if self.num_left is None else int((side == 0).sum())
        mean = expected_adjacency(rate[order], scale[order], there)
        back = torch.argsort(order)
        own = self.push * (share * (degrees > 0) - mean.diagonal[back])
        return NegativeRows(-self.push * mean.factors[back], degrees * self.num_negatives, own)
