"""Other encoders and decoders, tried as ablations and not taken into the library: see docs/research/tried.md.

Other ways down the same energy are our encoder with another `_descended`; other non-links, with other `terms`. They
need an energy without a margin. Two decoders read sketches in another way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.chosen_negatives import ChosenNegatives
from yinyan.graph import Graph
from yinyan.model.decoder import HadamardMLP, build_decoder
from yinyan.model.descent import descend
from yinyan.model.encoder import Encoder
from yinyan.model.energy import EnergyTerms, Laplacian
from yinyan.model.layer import Layer
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import EdgeStructure, LowRankOperator, inverse_or_zero
from yinyan.model.scoring import Model, Pairs
from yinyan.model.sketches import NUM_ESTIMATES, SharedStructure, Sketches
from yinyan.randomness import dropout
from yinyan.sampling import draw_pairs
from yinyan.settings import EncoderSettings, Settings

Build = Callable[[Settings, Graph], Model]

_BETA = 0.5  # share of the last move that momentum keeps
_SPREAD = 20.0  # of the curvatures that Chebyshev's steps are made for: largest over smallest
_DEPTHS = (0, 1, 2, 4)  # steps that the quarters of the dimensions take
_TOLERANCE, _ROUNDS = 1e-4, 100  # of conjugate gradients
_MINED = 3  # of the non-links drawn for a link
_CANDIDATES = 4  # non-links drawn for each that is kept as a hard one


def stepped(y: Tensor, f: Tensor, terms: EnergyTerms, step_size: float) -> Tensor:
    """One plain step."""
    return descend(f, Layer.of(terms, step_size), 1, start=y)


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
        if terms.negatives:
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
        layer, parts = Layer.of(terms, self.step_size(f, f, terms)), f.chunk(len(_DEPTHS), dim=1)
        return torch.cat([descend(part, layer, depth) for part, depth in zip(parts, _DEPTHS, strict=True)], dim=1)


class DegreeNegatives(Encoder):
    """Expected non-links whose ends are both drawn in proportion to their degrees: E[A⁻_ij] = d_i d_j / Σd."""

    def terms(
        self, messages: MessageGraph, negatives: torch.Generator | None, hidden: Tensor | None = None
    ) -> EnergyTerms:
        links = super().terms(messages, negatives, hidden)
        degrees = messages.structure.degrees(None, hidden).to(messages.weights.dtype)
        roots = degrees.sqrt()[:, None]
        core = inverse_or_zero(degrees.sum())[None, None]
        own = -degrees * core[0]  # a node is no partner of its own
        mean = Laplacian((degrees > 0).to(roots.dtype)[:, None] + own[:, None], LowRankOperator(own, roots, core))
        return replace(links, negatives=(mean,), anchor=inverse_or_zero(2 * degrees)[:, None])


class HardNegatives(Encoder):
    """Sampled non-links, of which one in `_CANDIDATES` is kept: those whose ends f finds most alike."""

    def terms(
        self, messages: MessageGraph, negatives: torch.Generator | None, hidden: Tensor | None = None
    ) -> EnergyTerms:
        if negatives is None:
            raise ValueError("sampled negatives need a generator")
        links = messages.terms(replace(self.settings, num_negatives=0), self.repulsion(), None, hidden=hidden)
        count = _CANDIDATES * int(links.num_links)
        self._drawn = draw_pairs(messages.known, count, negatives, hidden=hidden)
        return links  # the repulsion follows when f is known

    def _descended(self, f: Tensor, terms: EnergyTerms) -> Tensor:
        return super()._descended(f, self.repelled(f, terms))

    @torch.no_grad()
    def hardest(self, f: Tensor) -> Tensor:
        """The quarter of the drawn pairs whose rows of f have the largest cosine."""
        rows = F.normalize(f, dim=1)
        first, second = (rows.index_select(0, ends) for ends in self._drawn.T)
        kept = (first * second).sum(1).topk(len(self._drawn) // _CANDIDATES).indices
        return self._drawn[kept]

    def repelled(self, f: Tensor, terms: EnergyTerms) -> EnergyTerms:
        structure = EdgeStructure.from_pairs(self.hardest(f), f.shape[0], weighted=False)
        repelled = structure.degrees().to(f.dtype)
        scale = inverse_or_zero(repelled)
        non_links = Laplacian((repelled * scale)[:, None], structure.scaled(None, scale.sqrt()))
        pulled = inverse_or_zero(terms.anchor[:, 0])  # the links' degrees
        anchor = inverse_or_zero(pulled + repelled)[:, None]
        return replace(terms, negatives=(non_links,), anchor=anchor, repulsion=self.repulsion())


class GatedStructure(SharedStructure):
    """Twice as many numbers: what to add, and the gates."""

    def __init__(self, size: int, hidden: int, width: int) -> None:
        super().__init__(size, hidden, 2 * width)


class GatedMLP(HadamardMLP):
    """What sketches say opens and shuts what embeddings say, unit by unit: z = 2 σ(g) ⊙ W (y_i ⊙ y_j) + s."""

    structure_kind = GatedStructure

    def pair_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        if shared is None:
            raise SystemExit("gates need sketches: set sketch_size")
        said, gate = shared.chunk(2, dim=-1)
        x = sources * targets
        for place, (linear, norm) in enumerate(zip(self.hidden, self.norms, strict=True)):
            z = linear(x) if place else 2 * gate.sigmoid() * linear(x) + said
            step = dropout(F.relu(norm(z)), self.settings.dropout, generator)
            x = x + step if self.settings.residual and step.shape == x.shape else step
        return self.output(x).squeeze(-1)  # type: ignore[no-any-return]


class CoreSketches(Sketches):
    """The sketches, and log(1 + core number) of each node over the visible links as one more column."""

    def of(self, messages: MessageGraph, hidden: Tensor | None = None) -> Tensor:
        rows = super().of(messages, hidden)
        cores = core_numbers(messages.visible(hidden), messages.num_nodes)
        return torch.cat([rows, cores.to(rows).log1p()[:, None]], dim=1)


class CoreStructure(SharedStructure):
    """Of the core numbers it is told the sum and the product, as of the degrees."""

    def __init__(self, size: int, hidden: int, width: int) -> None:
        super().__init__(size, hidden, width)
        self.layers = nn.Sequential(nn.Linear(NUM_ESTIMATES + 2, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def estimates(self, first: Tensor, second: Tensor) -> Tensor:
        (first, own), (second, other) = (x.tensor_split([x.shape[-1] - 1], dim=-1) for x in (first, second))
        return torch.cat([super().estimates(first, second), own + other, own * other], dim=-1)


class CoreMLP(HadamardMLP):
    """The decoder over rows with core numbers."""

    structure_kind = CoreStructure


class CoreEncoder(Encoder):
    """Our encoder, with core numbers beside the sketches."""

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int) -> None:
        super().__init__(settings, num_nodes, num_features)
        self.sketches = CoreSketches(settings.sketch_size)


class Mining(Model):
    """Of the non-links drawn for a link, the three that the model is surest of teach it."""

    def loss(
        self,
        pairs: Pairs,
        messages: MessageGraph,
        kind: str,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        with torch.no_grad():
            surest = self.logits(pairs.rows, pairs.non_links, messages, hidden=hidden).topk(_MINED).indices
        mined = pairs.non_links.gather(1, surest[..., None].expand(-1, -1, 2))
        return super().loss(pairs._replace(non_links=mined), messages, kind, hidden=hidden, drops=drops)


def mining(settings: Settings, graph: Graph) -> Model:
    own = builder(Encoder)(settings, graph)
    return Mining(own.encoder, own.decoder)


def core_numbers(pairs: Tensor, num_nodes: int) -> Tensor:
    """(n,) the largest k such that a node has k links among nodes that have k links among each other."""
    ends = torch.cat([pairs, pairs.flip(1)])
    cores, k = torch.zeros(num_nodes, dtype=torch.int64), 0
    while len(ends):
        k += 1
        while True:
            degrees = torch.bincount(ends[:, 0], minlength=num_nodes)
            kept = (degrees[ends] >= k).all(1)
            if bool(kept.all()):
                break
            ends = ends[kept]
        cores[ends[:, 0]] = k
    return cores


def builder(kind: type[Encoder], decoder: type[HadamardMLP] | None = None) -> Build:
    def build(settings: Settings, graph: Graph) -> Model:
        num_features = 0 if graph.features is None else graph.features.shape[1]
        encoder = kind(settings.encoder, graph.num_nodes, num_features)
        size, sketches = settings.encoder.hidden_size, settings.encoder.sketch_size
        if decoder is not None:
            return Model(encoder, decoder(size, settings.decoder, directed=graph.directed, sketch_size=sketches))
        return Model(encoder, build_decoder(settings.decoder, size, directed=graph.directed, sketch_size=sketches))

    return build


def choosing(share: float) -> Build:
    """Our model, with negatives of the loss that keep either end, a share of them similar nodes."""

    def build(settings: Settings, graph: Graph) -> Model:
        own = builder(Encoder)(settings, graph)
        return ChosenNegatives(own.encoder, own.decoder, graph, share)

    return build


VARIANTS: dict[str, Build] = {
    "momentum": builder(Momentum),
    "Chebyshev": builder(Chebyshev),
    "minimum": builder(Minimum),
    "learned steps": builder(LearnedSteps),
    "learned anchoring": builder(NodeAnchors),
    "graded steps": builder(GradedSteps),
    "negatives by degree": builder(DegreeNegatives),
    "hard negatives": builder(HardNegatives),
    "gates": builder(Encoder, GatedMLP),
    "core numbers": builder(CoreEncoder, CoreMLP),
    "mined negatives": mining,
    "mined negatives, fewer candidates": mining,
    "either end kept in the loss": choosing(0.0),
    "an eighth of the loss negatives similar": choosing(0.125),
    "half of the loss negatives similar": choosing(0.5),
}
