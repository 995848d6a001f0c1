"""Functions of two stored embeddings that score a pair."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.model.pair_products import ends, pair_products
from yinyan.model.sketches import DEGREE_OFFSET, SharedStructure
from yinyan.randomness import dropout
from yinyan.settings import DecoderSettings

__all__ = [
    *("DECODERS", "Decoder", "DistanceDecoder", "DotDecoder", "HadamardMLP", "MultiDotDecoder"),
    *("build_decoder", "near_identity"),
]

_SHARED_HIDDEN = 64  # between what sketches say of a pair and what a decoder makes of it


class Decoder(nn.Module):
    """Scores pairs of embeddings by a logit: the larger, the likelier the link.

    A subclass defines `pair_logits`. On directed graphs each end passes a map of its own first; otherwise
    every decoder is symmetric. Where rows hold sketches beside the embedding of `size`, what these say of a pair is
    given to `pair_logits` as `shared_width` numbers.
    """

    shared_width = 1  # to be added to the logit
    structure_kind: type[SharedStructure] = SharedStructure

    def __init__(self, size: int, *, directed: bool, sketch_size: int = 0) -> None:
        super().__init__()
        self.size = size
        self.structure = self.structure_kind(sketch_size, _SHARED_HIDDEN, self.shared_width) if sketch_size else None
        self.source_map = near_identity(size) if directed else None
        self.target_map = near_identity(size) if directed else None

    @property
    def embedding_size(self) -> int:
        """Columns of a row that are the embedding, before those of the degree or of sketches."""
        return self.size

    @property
    def constant(self) -> nn.Parameter | None:
        """What is added to every logit, if there is such a number."""
        return None

    @property
    def is_symmetric(self) -> bool:
        """Whether (i, j) and (j, i) score alike."""
        return self.source_map is None

    def forward(self, sources: Tensor, targets: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Logits of pairs: (..., row) and (..., row), broadcast, to (...)."""
        shared = None
        if self.structure is not None:
            shared = self.structure(sources[..., self.size :], targets[..., self.size :])
            sources, targets = sources[..., : self.size], targets[..., : self.size]
        return self.mapped_logits(sources, targets, generator, shared)

    def of_pairs(self, y: Tensor, pairs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The same for (..., 2) places of (n, row) rows; no gradient passes the sketches, so that none is made."""
        shared = None
        if self.structure is not None:
            estimates = self.structure.of_pairs(y.detach()[:, self.size :], pairs.reshape(-1, 2))
            shared = self.structure.layers(estimates.unflatten(0, pairs.shape[:-1]))
        return self.placed_logits(y, pairs, generator, shared)

    def placed_logits(
        self, y: Tensor, pairs: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """Logits of (..., 2) places of (n, row) rows and what their sketches share."""
        return self.mapped_logits(*ends(y[:, : self.size], pairs), generator, shared)

    def of_block(self, sources: Tensor, targets: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(b, c) logits of all pairs of (b, row) sources and (c, row) targets."""
        shared = None
        if self.structure is not None:
            with torch.no_grad():
                estimates = self.structure.block_estimates(sources[:, self.size :], targets[:, self.size :])
            shared = self.structure.layers(estimates)
            sources, targets = sources[:, : self.size], targets[:, : self.size]
        if self.source_map is not None and self.target_map is not None:
            sources, targets = sources @ self.source_map, targets @ self.target_map
        return self.block_logits(sources, targets, generator, shared)

    def block_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """(b, c) logits of all pairs after the maps; a decoder that is a matrix product defines it as one."""
        return self.pair_logits(sources[:, None], targets[None], generator, shared)

    def mapped_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """Logits of two embeddings and what their sketches share."""
        if self.source_map is not None and self.target_map is not None:
            sources, targets = sources @ self.source_map, targets @ self.target_map
        return self.pair_logits(sources, targets, generator, shared)

    def pair_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """Logits of pairs after the maps; the one method that a decoder defines."""
        raise NotImplementedError


class HadamardMLP(Decoder):
    """p(i, j) = σ(MLP(y_i ⊙ y_j)), with optional residual connections and layer normalisation."""

    def __init__(self, size: int, settings: DecoderSettings, *, directed: bool, sketch_size: int = 0) -> None:
        self.shared_width = settings.width if settings.depth > 1 else 1
        super().__init__(size, directed=directed, sketch_size=sketch_size)
        self.settings = settings
        widths = [size] + [settings.width] * (settings.depth - 1)
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(b) if settings.norm else nn.Identity() for b in widths[1:])
        self.output = nn.Linear(widths[-1], 1)

    @property
    def constant(self) -> nn.Parameter:
        """What is added to every logit."""
        return self.output.bias

    def pair_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """MLP(y_i ⊙ y_j)."""
        return self.of_products(sources * targets, generator, shared)

    def placed_logits(
        self, y: Tensor, pairs: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """The same for places of rows; without maps, rows are multiplied where they stand."""
        own = type(self).pair_logits is not HadamardMLP.pair_logits  # a subclass may read the rows themselves
        if own or not self.is_symmetric:
            return super().placed_logits(y, pairs, generator, shared)
        return self.of_products(pair_products(y, self.size, pairs), generator, shared)

    def of_products(
        self,
        x: Tensor,
        generator: torch.Generator | None,
        shared: Tensor | None,
        first: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """The MLP; what is shared joins the first hidden layer, or the logit if there is none.

        `first` stands in for the first linear map.
        """
        for linear, norm in zip(self.hidden, self.norms, strict=True):
            z, first = linear(x) if first is None else first(x), None
            if shared is not None:
                z, shared = z + shared, None
            step = dropout(F.relu(norm(z)), self.settings.dropout, generator)
            x = x + step if self.settings.residual and step.shape == x.shape else step
        return _joined(self.output(x).squeeze(-1), shared)


class DotDecoder(Decoder):
    """p(i, j) = σ(y_iᵀ y_j · scale + bias): monotone in the inner product, so any MIPS index serves it.

    With a `degree_column` the last column of a row has a scale of its own. It starts so that log((1 + degree_i) (1 +
    degree_j)) is added to the logit, up to a constant: what is known of a pair of which nothing but degrees is known.
    """

    def __init__(
        self,
        size: int,
        settings: DecoderSettings,
        *,
        directed: bool,
        sketch_size: int = 0,
        degree_column: bool = False,
    ) -> None:
        super().__init__(size + degree_column, directed=directed, sketch_size=sketch_size)
        self.log_scale = nn.Parameter(torch.tensor(-0.5 * math.log(size)))
        self.log_degree_scale = nn.Parameter(torch.tensor(-math.log(DEGREE_OFFSET))) if degree_column else None
        self.bias = nn.Parameter(torch.tensor(-DEGREE_OFFSET if degree_column else 0.0))

    @property
    def embedding_size(self) -> int:
        """Columns of a row that are the embedding, without that of the degree."""
        return self.size - (self.log_degree_scale is not None)

    @property
    def constant(self) -> nn.Parameter:
        """What is added to every logit."""
        return self.bias

    def scaled(self, rows: Tensor) -> Tensor:
        """Rows whose inner products with the targets' are logits, but for the bias."""
        if self.log_degree_scale is None:
            return rows * self.log_scale.exp()
        scales = torch.cat([self.log_scale.exp().expand(self.size - 1), self.log_degree_scale.exp()[None]])
        return rows * scales

    def pair_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """y_iᵀ y_j · scale + bias."""
        return _joined((self.scaled(sources) * targets).sum(-1) + self.bias, shared)

    def block_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """Y_i Y_jᵀ · scale + bias."""
        return _joined(self.scaled(sources) @ targets.T + self.bias, shared)


class DistanceDecoder(Decoder):
    """p(i, j) = σ(bias - scale ‖y_i - y_j‖²)."""

    def __init__(self, size: int, settings: DecoderSettings, *, directed: bool, sketch_size: int = 0) -> None:
        super().__init__(size, directed=directed, sketch_size=sketch_size)
        self.log_scale = nn.Parameter(torch.tensor(-math.log(size)))
        self.bias = nn.Parameter(torch.tensor(2.0))

    @property
    def constant(self) -> nn.Parameter:
        """What is added to every logit."""
        return self.bias

    def pair_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """bias - scale ‖y_i - y_j‖²."""
        return _joined(self.bias - (sources - targets).square().sum(-1) * self.log_scale.exp(), shared)


class MultiDotDecoder(Decoder):
    """p(i, j) = σ(Σ_h d_h + vᵀ ReLU(U d + c) + bias), with d_h = Σ_k w_k y_ik y_jk over the columns k of head h.

    The weights w may be negative, so that indefinite scores can be represented. With one head there is no hidden
    layer, and the score is one signed inner product. The heads of all pairs cost as many multiplications as one inner
    product of all columns, and the hidden layer has as many units as there are heads.
    """

    def __init__(self, size: int, settings: DecoderSettings, *, directed: bool, sketch_size: int = 0) -> None:
        if settings.heads > size:
            raise SettingsError(
                f"decoder.heads: each head needs a column of the embeddings (got {settings.heads} heads and {size} "
                "columns; lower decoder.heads or raise encoder.hidden_size)"
            )
        super().__init__(size, directed=directed, sketch_size=sketch_size)
        self.settings = settings
        self.weight = nn.Parameter(torch.full((size,), size**-0.5))
        self.bias = nn.Parameter(torch.tensor(0.0))
        has_layer, heads = settings.heads > 1, settings.heads
        self.hidden = nn.Linear(heads, heads) if has_layer else None
        self.output = nn.Linear(heads, 1, bias=False) if has_layer else None
        if self.hidden is not None:
            nn.init.zeros_(self.hidden.bias)  # the dots are small at first: a bias alone would decide which units live

    @property
    def constant(self) -> nn.Parameter:
        """What is added to every logit."""
        return self.bias

    def pair_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """Σ_h d_h + vᵀ ReLU(U d + c) + bias."""
        parts = zip(self._heads_of(sources * targets), self._heads_of(self.weight), strict=True)
        return self._of_dots([products @ weights for products, weights in parts], generator, shared)

    def block_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """The same, with one product of two matrices per head."""
        parts = zip(self._heads_of(self.weight * sources), self._heads_of(targets), strict=True)
        return self._of_dots([left @ right.T for left, right in parts], generator, shared)

    def _heads_of(self, columns: Tensor) -> tuple[Tensor, ...]:
        return columns.tensor_split(self.settings.heads, dim=-1)

    def _of_dots(self, dots: list[Tensor], generator: torch.Generator | None, shared: Tensor | None) -> Tensor:
        logits = functools.reduce(torch.add, dots) + self.bias
        if self.hidden is not None and self.output is not None:
            units = F.relu(self.hidden(torch.stack(dots, dim=-1)))
            logits = logits + self.output(dropout(units, self.settings.dropout, generator)).squeeze(-1)
        return _joined(logits, shared)

    @torch.no_grad()
    def folded(self) -> HadamardMLP:
        """A HadamardMLP with the same scores, which all searches cover: of depth 1 with one head, else of depth 2.

        Its hidden layer holds ReLU(U d + c) and two more units, ReLU(l) and ReLU(-l), whose difference is the rest l of
        the logit, with what sketches share.
        """
        heads, has_layer = self.settings.heads, self.hidden is not None
        plain = dataclasses.replace(
            self.settings, kind="hadamard", depth=1 + has_layer, width=heads + 2, residual=False, norm=False
        )
        made = HadamardMLP(self.size, plain, directed=False).to(self.weight)
        made.source_map, made.target_map = self.source_map, self.target_map
        if self.hidden is None or self.output is None:
            made.structure = self.structure
            made.output.weight.copy_(self.weight[None])
            made.output.bias.fill_(self.bias)
            return made
        head_of = torch.cat([part.new_full(part.shape, h) for h, part in enumerate(self._heads_of(self.weight))]).long()
        turn = self.weight.new_tensor([[1.0], [-1.0]])
        first: nn.Linear = made.hidden[0]  # type: ignore[assignment]
        first.weight.copy_(torch.cat([self.hidden.weight[:, head_of], turn.expand(2, self.size)]) * self.weight)
        first.bias.copy_(torch.cat([self.hidden.bias, turn[:, 0] * self.bias]))
        made.output.weight.copy_(torch.cat([self.output.weight, turn.T], dim=1))
        made.output.bias.zero_()
        if self.structure is not None:
            made.structure = self.structure.times(torch.cat([turn.new_zeros(heads, 1), turn]))
        return made


DECODERS: dict[str, Callable[..., Decoder]] = {
    "hadamard": HadamardMLP,
    "dot": DotDecoder,
    "multi-dot": MultiDotDecoder,
    "distance": DistanceDecoder,
}


def _joined(logits: Tensor, shared: Tensor | None) -> Tensor:
    return logits if shared is None else logits + shared.squeeze(-1)


def build_decoder(
    settings: DecoderSettings, size: int, *, directed: bool, sketch_size: int = 0, degree_column: bool = False
) -> Decoder:
    """The decoder for embeddings of `size`, with sketches or the degree beside them, or without.

    Refuses a symmetric one on directed data unless asked for.
    """
    if settings.kind == "complex":
        raise SettingsError(
            "decoder.kind: 'complex' is for graphs with relations (use 'dot', which has maps of source and target in a "
            "directed graph)"
        )
    if directed and not settings.directed_maps and not settings.allow_symmetric:
        raise SettingsError(
            "decoder.directed_maps: a symmetric decoder scores a->b and b->a alike, and this graph is directed "
            "(set allow_symmetric = true if that is meant)"
        )
    if degree_column:
        if settings.kind != "dot":
            raise SettingsError(
                f"encoder.degree_column: it needs the dot decoder (got decoder.kind = {settings.kind!r}; "
                "sketches of the others hold the degree already)"
            )
        directed = directed and settings.directed_maps
        return DotDecoder(size, settings, directed=directed, sketch_size=sketch_size, degree_column=True)
    return DECODERS[settings.kind](
        size, settings, directed=directed and settings.directed_maps, sketch_size=sketch_size
    )


def near_identity(size: int) -> nn.Parameter:
    """Close to symmetric at first: direction is learned where the data show it."""
    start = torch.empty(size, size)
    if start.is_meta:  # to be read from a file
        return nn.Parameter(start)
    return nn.Parameter(torch.eye(size) + torch.randn(size, size) * (0.1 / size**0.5))
