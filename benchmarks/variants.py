"""Other ways down the same energy, tried as levers and not taken into the library: see docs/accuracy.md.

Each is our encoder with another `_descended`. They need an energy without a margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.decoder import build_decoder
from yinyan.descent import descend
from yinyan.encoder import Encoder
from yinyan.energy import EnergyTerms, linear_layers
from yinyan.graph import Graph
from yinyan.settings import EncoderSettings, Settings
from yinyan.training import Model

Build = Callable[[Settings, Graph], Model]

_BETA = 0.5  # share of the last move that momentum keeps
_SPREAD = 20.0  # of the curvatures that Chebyshev's steps are made for: largest over smallest
_DEPTHS = (0, 1, 2, 4)  # steps that the quarters of the dimensions take
_TOLERANCE, _ROUNDS = 1e-4, 100  # of conjugate gradients


def stepped(y: Tensor, f: Tensor, terms: EnergyTerms, step_size: float) -> Tensor:
    """One plain step."""
    return descend(f, linear_layers(terms, step_size, 1), start=y)


class Momentum(Encoder):
    """Y(t+1) = Y(t) - α ½ ∂E/∂Y + β (Y(t) - Y(t-1))."""

    def _descended(self, f: Tensor, terms: EnergyTerms) -> Tensor:
        step, y, last = self.step_size(f, f, terms), f, f
        for _ in range(self.settings.num_steps):
            y, last = stepped(y, f, terms, step) + _BETA * (y - last), y
        return y


class Chebyshev(Encoder):
    """Steps and momenta that are best for curvatures between the energy's bound and a `_SPREAD`-th of it."""

    def _descended(self, f: Tensor, terms: EnergyTerms) -> Tensor:
        high = terms.anchoring * float(terms.anchor.max()) + 2 * terms.attraction
        middle, radius = high * (1 + 1 / _SPREAD) / 2, high * (1 - 1 / _SPREAD) / 2
        rho, y, move = radius / middle, f, None
        for _ in range(self.settings.num_steps):
            fall = stepped(y, f, terms, 1.0) - y  # -½ ∂E/∂Y
            if move is None:
                move = fall / middle
            else:
                following = 1 / (2 * middle / radius - rho)
                move, rho = following * rho * move + 2 * following / radius * fall, following
            y = y + move
        return y


class Minimum(Encoder):
    """Y = argmin E, by conjugate gradients forward and backward; for K = 0, where E is convex."""

    def _descended(self, f: Tensor, terms: EnergyTerms) -> Tensor:
        if terms.non_links:
            raise SystemExit("repulsion can leave the energy without a minimum: set num_negatives = 0")
        still, nothing = replace(terms, repulsion=terms.repulsion.detach()), torch.zeros_like(f)

        def curvature(y: Tensor) -> Tensor:  # ½ ∂²E/∂Y² Y
            with torch.no_grad():
                return y - stepped(y, nothing, still, 1.0)

        with torch.no_grad():
            lowest = solved(curvature, still.anchoring * still.anchor * f, start=f)
        y = stepped(lowest, f, terms, 1.0)  # a step at the minimum moves nothing, and has the gradient
        if y.requires_grad:
            y.register_hook(lambda gradient: solved(curvature, gradient))
        return torch.where(terms.anchor > 0, y, f)  # a node whose links are all hidden has no energy, and stays


def solved(curvature: Callable[[Tensor], Tensor], right: Tensor, start: Tensor | None = None) -> Tensor:
    """X with curvature(X) = right, column by column."""
    x = torch.zeros_like(right) if start is None else start.clone()
    residual = right - curvature(x)
    direction, left = residual.clone(), residual.square().sum(0)
    goal = _TOLERANCE**2 * right.square().sum(0).clamp(min=1e-30)
    for _ in range(_ROUNDS):
        if bool((left <= goal).all()):
            break
        turned = curvature(direction)
        along = (direction * turned).sum(0)
        length = torch.where(along > 0, left / along.clamp(min=1e-30), 0.0)
        x += length * direction
        residual -= length * turned
        now = residual.square().sum(0)
        direction = residual + (now / left.clamp(min=1e-30)) * direction
        left = now
    return x


class LearnedSteps(Encoder):
    """A step size α_t for each layer, learned from the one that is set."""

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int) -> None:
        super().__init__(settings, num_nodes, num_features)
        if settings.step_size == "safe":
            raise SystemExit("learned steps start from a number: set step_size")
        start = math.log(math.expm1(settings.step_size))
        self.steps = nn.Parameter(torch.full((settings.num_steps,), start))

    def _descended(self, f: Tensor, terms: EnergyTerms) -> Tensor:
        y = f
        for step in F.softplus(self.steps):
            y = y + step * (stepped(y, f, terms, 1.0) - y)
        return y


class NodeAnchors(Encoder):
    """λ0 for each node, a learned function of its weight in the energy: λ0 exp(a + b log(anchor))."""

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int) -> None:
        super().__init__(settings, num_nodes, num_features)
        self.anchors = nn.Parameter(torch.zeros(2))

    def _descended(self, f: Tensor, terms: EnergyTerms) -> Tensor:
        logs = torch.where(terms.anchor > 0, terms.anchor.clamp(min=1e-12).log(), 0.0)
        pull = terms.anchoring * terms.anchor * (self.anchors[0] + self.anchors[1] * logs).exp()
        free, step, y = replace(terms, anchoring=0.0), self.step_size(f, f, terms), f
        for _ in range(self.settings.num_steps):
            y = stepped(y, f, free, step) - step * pull * (y - f)
        return y


class GradedSteps(Encoder):
    """Quarters of the dimensions that take no, one, two and four steps: a product of rows keeps what ends are apart
    from what surrounds them."""

    def _descended(self, f: Tensor, terms: EnergyTerms) -> Tensor:
        step, parts = self.step_size(f, f, terms), f.chunk(len(_DEPTHS), dim=1)
        return torch.cat(
            [descend(part, linear_layers(terms, step, depth)) for part, depth in zip(parts, _DEPTHS, strict=True)],
            dim=1,
        )


def builder(kind: type[Encoder]) -> Build:
    def build(settings: Settings, graph: Graph) -> Model:
        num_features = 0 if graph.features is None else graph.features.shape[1]
        encoder = kind(settings.encoder, graph.num_nodes, num_features)
        size, sketches = settings.encoder.hidden_size, settings.encoder.sketch_size
        return Model(encoder, build_decoder(settings.decoder, size, directed=graph.directed, sketch_size=sketches))

    return build


VARIANTS: dict[str, Build] = {
    "momentum": builder(Momentum),
    "Chebyshev": builder(Chebyshev),
    "minimum": builder(Minimum),
    "learned steps": builder(LearnedSteps),
    "learned anchoring": builder(NodeAnchors),
    "graded steps": builder(GradedSteps),
}
