"""Recency: links that weigh less the older they are, by a half-life that is given or learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.model.operators import inverse_or_zero

__all__ = ["HalfLife", "decayed"]


def decayed(weights: Tensor, ages: Tensor | None, half_life: Tensor | float, hidden: Tensor | None = None) -> Tensor:
    """(m,) w_e 2^(-age_e / h), scaled to mean 1 over the links that are not hidden; differentiable in h.

    Only differences of age count, so that a later now changes nothing.
    """
    if ages is None:
        raise SettingsError("encoder.half_life: needs the times of the edges (name their column: time='date')")
    if not ages.numel():
        return weights
    visible = torch.ones_like(ages, dtype=torch.bool) if hidden is None else ~hidden
    if not visible.any():
        return weights
    youngest = ages[visible].min()
    found = weights * torch.exp2(-(ages - youngest).clamp(min=0) / half_life)  # what is hidden may be younger
    return found * (visible.sum() * inverse_or_zero((found * visible).sum()))


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
