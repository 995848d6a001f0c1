"""Functions of two stored embeddings that score a pair."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.randomness import dropout
from yinyan.settings import DecoderSettings

__all__ = ["DECODERS", "Decoder", "DistanceDecoder", "DotDecoder", "HadamardMLP", "build_decoder"]


class Decoder(nn.Module):
    """Scores pairs of embeddings by a logit: the larger, the likelier the link.

    A subclass defines `pair_logits`. On directed graphs each end passes a map of its own first; otherwise
    every decoder is symmetric.
    """

    def __init__(self, size: int, *, directed: bool) -> None:
        super().__init__()
        self.source_map = _near_identity(size) if directed else None
        self.target_map = _near_identity(size) if directed else None

    @property
    def is_symmetric(self) -> bool:
        """Whether (i, j) and (j, i) score alike."""
        return self.source_map is None

    def forward(self, sources: Tensor, targets: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Logits of pairs: (..., d) and (..., d), broadcast, to (...)."""
        if self.source_map is not None and self.target_map is not None:
            sources, targets = sources @ self.source_map, targets @ self.target_map
        return self.pair_logits(sources, targets, generator)

    def pair_logits(self, sources: Tensor, targets: Tensor, generator: torch.Generator | None) -> Tensor:
        """Logits of pairs after the maps; the one method that a decoder defines."""
        raise NotImplementedError


class HadamardMLP(Decoder):
    """p(i, j) = σ(MLP(y_i ⊙ y_j)), with optional residual connections and layer normalisation."""

    def __init__(self, size: int, settings: DecoderSettings, *, directed: bool) -> None:
        super().__init__(size, directed=directed)
        self.settings = settings
        widths = [size] + [settings.width] * (settings.depth - 1)
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(b) if settings.norm else nn.Identity() for b in widths[1:])
        self.output = nn.Linear(widths[-1], 1)

    def pair_logits(self, sources: Tensor, targets: Tensor, generator: torch.Generator | None) -> Tensor:
        """MLP(y_i ⊙ y_j)."""
        x = sources * targets
        for linear, norm in zip(self.hidden, self.norms, strict=True):
            step = dropout(F.relu(norm(linear(x))), self.settings.dropout, generator)
            x = x + step if self.settings.residual and step.shape == x.shape else step
        return self.output(x).squeeze(-1)  # type: ignore[no-any-return]


class DotDecoder(Decoder):
    """p(i, j) = σ(y_iᵀ y_j · scale + bias): monotone in the inner product, so any MIPS index serves it."""

    def __init__(self, size: int, settings: DecoderSettings, *, directed: bool) -> None:
        super().__init__(size, directed=directed)
        self.log_scale = nn.Parameter(torch.tensor(-0.5 * math.log(size)))
        self.bias = nn.Parameter(torch.zeros(()))

    def pair_logits(self, sources: Tensor, targets: Tensor, generator: torch.Generator | None) -> Tensor:
        """y_iᵀ y_j · scale + bias."""
        return (sources * targets).sum(-1) * self.log_scale.exp() + self.bias


class DistanceDecoder(Decoder):
    """p(i, j) = σ(bias - scale ‖y_i - y_j‖²)."""

    def __init__(self, size: int, settings: DecoderSettings, *, directed: bool) -> None:
        super().__init__(size, directed=directed)
        self.log_scale = nn.Parameter(torch.tensor(-math.log(size)))
        self.bias = nn.Parameter(torch.tensor(2.0))

    def pair_logits(self, sources: Tensor, targets: Tensor, generator: torch.Generator | None) -> Tensor:
        """bias - scale ‖y_i - y_j‖²."""
        return self.bias - (sources - targets).square().sum(-1) * self.log_scale.exp()


DECODERS: dict[str, Callable[..., Decoder]] = {
    "hadamard": HadamardMLP,
    "dot": DotDecoder,
    "distance": DistanceDecoder,
}


def build_decoder(settings: DecoderSettings, size: int, *, directed: bool) -> Decoder:
    """The decoder for embeddings of `size`; refuses a symmetric one on directed data unless asked for."""
    if directed and not settings.directed_maps and not settings.allow_symmetric:
        raise SettingsError(
            "decoder.directed_maps: a symmetric decoder scores a->b and b->a alike, and this graph is directed "
            "(set allow_symmetric = true if that is meant)"
        )
    return DECODERS[settings.kind](size, settings, directed=directed and settings.directed_maps)


def _near_identity(size: int) -> nn.Parameter:
    """Close to symmetric at first: direction is learned where the data show it."""
    return nn.Parameter(torch.eye(size) + torch.randn(size, size) * (0.1 / size**0.5))
