"""Recency: links that weigh less the older they are, by a half-life that is given or learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.model.operators import inverse_or_zero

__all__ = ["HalfLife", "decayed", "rescaled"]


def decayed(ages: Tensor | None, half_life: Tensor | float, hidden: Tensor | None = None) -> Tensor:
    """(m,) 2^(-age / h), with the age beside the youngest link that is not hidden; differentiable in h.

    What is hidden may be younger, and counts as young as that.
    """
    if ages is None:
        raise SettingsError("encoder.half_life: needs the times of the edges (name their column: time='date')")
    seen = ages if hidden is None else ages[~hidden]
    youngest = seen.min() if seen.numel() else ages.new_zeros(())
    return torch.exp2(-(ages - youngest).clamp(min=0) / half_life)


def rescaled(weights: Tensor, hidden: Tensor | None = None) -> Tensor:
    """(m,) weights with a mean of 1 over the links that are not hidden."""
    seen = weights if hidden is None else weights * ~hidden
    count = weights.numel() if hidden is None else (~hidden).sum()
    return weights * (count * inverse_or_zero(seen.sum()))


class HalfLife(nn.Module):
    """A learned half-life, h = unit e^p: it starts at the mean age of the messages of the first step."""

    unit: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.zeros(()))
        self.register_buffer("unit", torch.zeros(()))

    def forward(self, ages: Tensor | None) -> Tensor:
        """h, given the ages of the messages."""
        if ages is not None and ages.numel() and not self.unit:
            self.unit.fill_(float(ages.mean()) or 1.0)
        return self.unit.clamp(min=torch.finfo(self.unit.dtype).tiny) * self.power.exp()
