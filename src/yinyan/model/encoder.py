"""The base model f and the T descent steps that turn it into embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from yinyan.errors import InputError, SettingsError
from yinyan.model.descent import descend, descend_and_normalise, one_layer
from yinyan.model.edge_weights import EdgeWeights
from yinyan.model.energy import EnergyTerms, backtracked_step_size, energy, layer, safe_step_size
from yinyan.model.layer import Layer
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.model.recency import HalfLife, decayed
from yinyan.model.sketches import Sketches
from yinyan.randomness import dropout
from yinyan.settings import EncoderSettings

__all__ = ["BaseModel", "Encoder", "EncoderInput", "NodeEncoder", "NodeNorm", "inverse_of"]

_ORTHOGONAL_UP_TO = 200_000  # rows: beyond, a QR factorisation costs more than it brings
_BLOCK_ROWS = 8192  # of a table that are multiplied at a time: some megabytes


class BaseModel(nn.Module):
    """f(X; W): a row-wise MLP over given features, learned or random embeddings, or both.

    With `sign_hops` = h it reads [X, ÃX, …, Ã^h X]. Its first layer is linear in them, so each power is
    applied after the weights (Ã^p X W_p = Ã^p (X W_p)) and sparse features stay sparse.
    """

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int) -> None:
        super().__init__()
        self.settings = settings
        hidden, blocks = settings.hidden_size, settings.sign_hops + 1
        reads_features = settings.inputs in ("features", "both") and num_features > 0
        if settings.num_layers == 0 and (settings.inputs != "embeddings" or settings.sign_hops):
            raise SettingsError(
                "encoder.num_layers: 0 takes embeddings as they are, which needs inputs = 'embeddings' and sign_hops = "
                f"0 (got {settings.inputs!r} and {settings.sign_hops})"
            )
        if settings.num_layers == 0 and settings.embedding_size != hidden:
            raise SettingsError(
                "encoder.num_layers: 0 takes embeddings as they are, so that embedding_size needs to be hidden_size "
                f"(got {settings.embedding_size} and {hidden})"
            )
        if settings.num_layers == 0 and settings.embedding_start == "spectral":
            raise SettingsError("encoder.embedding_start: 'spectral' needs num_layers of at least 1 (use 'random')")
        if settings.inputs == "features" and not num_features:
            raise SettingsError("encoder.inputs: 'features' needs a graph with features (use 'embeddings' or 'random')")
        self.feature_weight = _weight(blocks, num_features, hidden) if reads_features else None
        self.table: Tensor | None
        self.register_buffer("table", None)
        self.table_weight = None
        if settings.inputs != "features":
            start = _rows(num_nodes, settings.embedding_size, orthogonal=settings.inputs != "random")
            if settings.inputs == "random":
                self.register_buffer("table", start)
            else:
                self.table = nn.Parameter(start)
            if settings.num_layers:
                self.table_weight = _weight(blocks, settings.embedding_size, hidden)
        self.bias = nn.Parameter(torch.zeros(hidden)) if settings.num_layers else None
        self.rest = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(settings.num_layers - 1))
        self.norms = nn.ModuleList(NodeNorm(hidden) for _ in self.rest) if settings.base_norm else None

    def forward(
        self,
        features: Tensor | SparseMatrix | None,
        terms: EnergyTerms | None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """(n, hidden); `generator` drives dropout, and its absence means inference; only `sign_hops` need `terms`."""
        if self.bias is None:
            return self.of_table(generator)
        rate = self.settings.feature_dropout
        blocks: list[Tensor] = []
        if self.feature_weight is not None:
            blocks = _project(features, self.feature_weight, rate, generator)
        dropping = generator if self.settings.node_dropout else None
        if self.table is not None and self.table_weight is not None:
            own_rate = rate if self.settings.inputs == "random" else 0.0
            if dropping is not None and not blocks and not own_rate:
                blocks, dropping = _project_some(self.table, self.table_weight, self.settings, dropping), None
            else:
                more = _project(self.table, self.table_weight, own_rate, generator)
                blocks = [a + b for a, b in zip(blocks, more, strict=True)] if blocks else more
        if dropping is not None:
            kept = dropout(torch.ones_like(blocks[0][:, :1]), self.settings.node_dropout, dropping)
            blocks = [block.mul_(kept) for block in blocks]  # fresh products: nothing else reads them
        x = blocks[-1]
        for block in reversed(blocks[:-1]):  # Horner: X0 + Ã (X1 + Ã (X2 + …))
            if terms is None:
                raise SettingsError("encoder.sign_hops: this method feeds f no neighbourhood powers (set it to 0)")
            around = terms.links.adjacency.product(x)
            if self.settings.self_loops:  # they cancel in D - A, so that the operator does not hold them
                around = around + (1 - terms.links.diagonal) * x
            x = block + around
        x = x.add_(self.bias)  # a fresh product: nothing else reads it
        for place, linear in enumerate(self.rest):
            x = x if self.norms is None else self.norms[place](x)
            x = linear(dropout(F.relu(x), self.settings.dropout, generator))
        return dropout(x, self.settings.dropout, generator)

    @property
    def a_weight(self) -> Tensor:
        """One of the weights, whose device and type are those of all."""
        return next(self.parameters())

    def of_table(self, generator: torch.Generator | None, *, in_place: bool = False) -> Tensor:
        """The embeddings as they are, but for what is dropped; if `in_place` the table itself where nothing is."""
        if self.table is None:
            raise ValueError("a base model without layers has a table")
        kept = in_place and torch.is_grad_enabled()
        x: Tensor = self.table if kept else self.table.clone()  # layers may write over what they are given
        if generator is not None and self.settings.node_dropout:
            x = x * dropout(torch.ones_like(x[:, :1]), self.settings.node_dropout, generator)
        return dropout(x, self.settings.dropout, generator)

    @property
    def is_row_wise(self) -> bool:
        """Whether a row of f follows from its own row of the inputs."""
        return self.settings.sign_hops == 0 and (self.norms is None or len(self.norms) == 0)

    @torch.no_grad()
    def of_rows(self, features: Tensor | SparseMatrix | None, table: Tensor | None) -> Tensor:
        """f, at inference and if `is_row_wise`, of some rows of the features and of the table."""
        if self.bias is None and table is not None:
            return table.clone()
        x = None if self.feature_weight is None else _project(features, self.feature_weight, 0.0, None)[0]
        if table is not None and self.table_weight is not None:
            weight = self.table_weight[0]
            x = table @ weight if x is None else x.addmm_(table, weight)
        if x is None:
            raise ValueError("the base model was built for a table, and no rows of it were given")
        if self.bias is not None:
            x += self.bias
        for linear in self.rest:
            x = linear(x.relu_())
        return x


class NodeNorm(nn.Module):
    """Batch normalisation where the batch is the whole graph, in training as in use: no running averages."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        """(n, size) rows with columns of mean 0 and variance 1, scaled and shifted."""
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True)


class EncoderInput(NamedTuple):
    """What an encoder reads."""

    features: Tensor | SparseMatrix | None
    messages: MessageGraph
    negatives: torch.Generator | None = None  # draws the negative graphs
    drops: torch.Generator | None = None  # drives dropout; none means inference
    hidden: Tensor | None = None  # (m,) marks message links that are left out


class NodeEncoder(nn.Module):
    """What training asks of an encoder: embeddings of all nodes, by messages over the links that are not hidden.

    A subclass defines `embeddings`. Ours descends on an energy that can be watched; others have none.
    """

    def forward(
        self,
        features: Tensor | SparseMatrix | None,
        messages: MessageGraph,
        *,
        negatives: torch.Generator | None = None,
        drops: torch.Generator | None = None,
        hidden: Tensor | None = None,
    ) -> Tensor:
        """(n, hidden) embeddings; `negatives` draws the negative graphs, `drops` drives dropout."""
        return self.embeddings(EncoderInput(features, messages, negatives, drops, hidden))

    def embeddings(self, given: EncoderInput) -> Tensor:
        """(n, hidden) embeddings; the one method that an encoder defines."""
        raise NotImplementedError

    def energy_trace(self, given: EncoderInput, num_steps: int | None = None) -> list[float]:
        """The energy after each layer, where there is one."""
        return []

    def watched(self, given: EncoderInput) -> tuple[Tensor, tuple[float, ...]]:
        """Embeddings for use, and the energies before and after the layers, where there are any."""
        return self.embeddings(given), ()

    def repulsion(self) -> Tensor:
        """λ_k, where there are any."""
        return torch.empty(0)


class Encoder(NodeEncoder):
    """Y(T): T descent steps from f on the energy of a message graph."""

    base: BaseModel
    edge_weights: EdgeWeights | None

    def __init__(
        self, settings: EncoderSettings, num_nodes: int, num_features: int, num_edge_features: int = 0
    ) -> None:
        if settings.relation_maps:
            raise SettingsError("encoder.relation_maps: the maps are for graphs with relations (set it to false)")
        self._set_up(settings, lambda: BaseModel(settings, num_nodes, num_features))
        self.edge_weights = EdgeWeights(num_edge_features) if num_edge_features else None

    def _set_up(self, settings: EncoderSettings, base: Callable[[], BaseModel]) -> None:
        """Everything beside the base model, which is made in its place among the random draws."""
        nn.Module.__init__(self)
        if settings.margin is not None and settings.storage != "float32":
            raise SettingsError("encoder.storage: layers with a margin are stored in float32 (set margin = 'none')")
        self.settings = settings
        self.base = base()
        apart = settings.num_negatives > 1 and not settings.expected_negatives
        learned = settings.learn_repulsion != "no"
        count = settings.num_negatives if apart and (learned or settings.margin is not None) else 1
        count = min(count, settings.num_negatives)
        start = torch.full((count,), inverse_of(settings.learn_repulsion, settings.repulsion) if count else 0.0)
        if learned:
            self.repulsion_weight = nn.Parameter(start)
        else:
            self.register_buffer("repulsion_weight", start)
        self.norm = nn.LayerNorm(settings.hidden_size) if settings.output_norm else None
        self.sketches = Sketches(settings.sketch_size) if settings.structure_columns else None
        self.learned_half_life = HalfLife() if settings.half_life == "learned" else None
        self.edge_weights = None

    def repulsion(self) -> Tensor:
        """λ_k: the fixed value, or softplus or sigmoid of a free parameter."""
        if self.settings.learn_repulsion == "softplus":
            return F.softplus(self.repulsion_weight)
        if self.settings.learn_repulsion == "sigmoid":
            return torch.sigmoid(self.repulsion_weight)
        return self.repulsion_weight

    def embeddings(self, given: EncoderInput) -> Tensor:
        """(n, hidden) embeddings, with sketches beside them if there are any."""
        terms = self.terms(given.messages, given.negatives, given.hidden)
        return self._stored(self.base(given.features, terms, given.drops), terms, given)

    def _stored(self, f: Tensor, terms: EnergyTerms, given: EncoderInput) -> Tensor:
        """What is stored of Y(T), from f; of which nobody else shall hold a reference, to save memory."""
        settings = self.settings
        constant = settings.num_steps > 0 and terms.margin is None and settings.learn_repulsion == "no"
        constant = constant and not terms.anchor.requires_grad
        if not constant or self.norm is None or settings.storage != "float32":
            return self.with_sketches(self.finish(self._descended(f, terms)), given.messages, given.hidden)
        columns = f.new_empty(f.shape[0], 0)
        if self.sketches is not None:
            columns = self.sketches.of(self.recent(given.messages, given.hidden), given.hidden).to(f.dtype)
        same = Layer.of(terms, self.step_size(f, f, terms))
        return descend_and_normalise(f, same, settings.num_steps, self.norm, columns)

    def terms(
        self, messages: MessageGraph, negatives: torch.Generator | None, hidden: Tensor | None = None
    ) -> EnergyTerms:
        """The energy of these messages, with the repulsion as learned so far."""
        recent = self.recent(messages, hidden)
        return recent.terms(self.settings, self.repulsion(), negatives, hidden=hidden)

    def recent(self, messages: MessageGraph, hidden: Tensor | None = None) -> MessageGraph:
        """The messages, weighed by their age where there is a half-life, and by their features where there are any."""
        half_life = self.half_life(messages)
        decays = None if half_life is None else decayed(messages.ages, half_life, hidden)
        if self.edge_weights is None:
            return messages if decays is None else messages.weighed(decays, hidden)
        own = self.edge_weights(messages.features)
        counts = own.detach() / own.detach().max().clamp(min=torch.finfo(own.dtype).tiny) if own.numel() else own
        if decays is None:
            return messages.weighed(own, hidden, counts)
        return messages.weighed(own * decays, hidden, counts * decays.detach())

    def half_life(self, messages: MessageGraph) -> Tensor | float | None:
        """How long it takes until a link weighs half: as set, as learned, or None if age does not count."""
        if self.learned_half_life is not None:
            return self.learned_half_life(messages.ages)  # type: ignore[no-any-return]
        return None if self.settings.half_life == "learned" else self.settings.half_life

    def _descended(self, f: Tensor, terms: EnergyTerms) -> Tensor:
        """Y(T) from f."""
        if terms.anchor.requires_grad:  # weights that are learned: the layers of the definition
            y = f
            for _ in range(self.settings.num_steps):
                y = layer(y, f, terms, self.step_size(y, f, terms))
            return y
        if terms.margin is None:  # every layer is the same linear map
            same = Layer.of(terms, self.step_size(f, f, terms))
            stored = f.bfloat16() if self.settings.storage == "bfloat16" else f
            return descend(stored, same, self.settings.num_steps, recompute=self.settings.recompute).to(f.dtype)
        y = f
        for _ in range(self.settings.num_steps):
            y = self.stepped(y, f, terms)
        return y

    def stepped(self, y: Tensor, f: Tensor, terms: EnergyTerms) -> Tensor:
        """Y(t+1) from Y(t)."""
        return one_layer(y, f, terms, self.step_size(y, f, terms))[0]

    def finish(self, y: Tensor) -> Tensor:
        """What is stored: Y(T), normalised if asked for."""
        return y if self.norm is None else self.norm(y)

    def with_sketches(self, y: Tensor, messages: MessageGraph, hidden: Tensor | None = None) -> Tensor:
        """The embeddings with the nodes' sketches beside them, where there are any."""
        if self.sketches is None:
            return y
        return torch.cat([y, self.sketches.of(self.recent(messages, hidden), hidden).to(y.dtype)], dim=1)

    def step_size(self, y: Tensor, f: Tensor, terms: EnergyTerms) -> float:
        """α: as set; or, if 'safe', by the bound, and by backtracking where a margin voids the bound."""
        if self.settings.step_size != "safe":
            return self.settings.step_size
        bound = safe_step_size(terms)
        return bound if terms.margin is None else backtracked_step_size(y.detach(), f.detach(), terms, bound)

    def watched(self, given: EncoderInput) -> tuple[Tensor, tuple[float, ...]]:
        """Embeddings for use, and E(f) and E(Y(T))."""
        terms = self.terms(given.messages, given.negatives)
        f = self.base(given.features, terms)
        y = self._descended(f, terms)
        energies = float(energy(f, f, terms)), float(energy(y, f, terms))
        del f
        return self.with_sketches(self.finish(y), given.messages), energies

    @torch.no_grad()
    def energy_trace(self, given: EncoderInput, num_steps: int | None = None) -> list[float]:
        """E(Y(t)) for t = 0..T."""
        count = self.settings.num_steps if num_steps is None else num_steps
        if not isinstance(count, int) or count < 0:
            raise InputError(f"'num_steps' needs to be an integer from 0 on (got {count!r}; None is the model's own)")
        terms = self.terms(given.messages, given.negatives)
        f = y = self.base(given.features, terms)
        trace = [float(energy(y, f, terms))]
        for _ in range(count):
            y = self.stepped(y, f, terms)
            trace.append(float(energy(y, f, terms)))
        return trace


def _project(
    x: Tensor | SparseMatrix | None, weight: Tensor, rate: float, generator: torch.Generator | None
) -> list[Tensor]:
    """X W_p for each block p of `weight` (blocks, columns, hidden)."""
    if isinstance(x, SparseMatrix):
        values = dropout(x.values, rate, generator)
        return [x.product(block, values) for block in weight]
    if x is None:
        raise ValueError("the base model was built for features, and none were given")
    x = dropout(x, rate, generator)
    return [x @ block for block in weight]


def _project_some(
    table: Tensor, weights: Tensor, settings: EncoderSettings, generator: torch.Generator
) -> list[Tensor]:
    """Products of the rows that node dropout leaves; the others are 0, and are not multiplied."""
    scales = dropout(torch.ones_like(table[:, 0]), settings.node_dropout, generator)
    return [_KeptRows.apply(table, weight, scales) for weight in weights]


class _KeptRows(torch.autograd.Function):
    """diag(s) X W by blocks of the rows with s > 0, so that their copies are small and none is kept for later."""

    @staticmethod
    def forward(ctx, table, weight, scales):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(table, weight, scales)
        out = table.new_zeros(len(table), weight.shape[1])
        for rows in scales.nonzero()[:, 0].split(_BLOCK_ROWS):
            out[rows] = (table[rows] * scales[rows, None]) @ weight
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        table, weight, scales = ctx.saved_tensors
        to_table, to_weight = torch.zeros_like(table), torch.zeros_like(weight)
        for rows in scales.nonzero()[:, 0].split(_BLOCK_ROWS):
            slope, scale = grad[rows], scales[rows, None]
            to_table[rows] = (slope @ weight.T) * scale
            to_weight += (table[rows] * scale).T @ slope
        return to_table, to_weight, None


def _weight(blocks: int, columns: int, hidden: int) -> nn.Parameter:
    bound = math.sqrt(6.0 / (columns + hidden))
    return nn.Parameter(torch.empty(blocks, columns, hidden).uniform_(-bound, bound))


def _rows(count: int, size: int, *, orthogonal: bool) -> Tensor:
    """`count` near-orthogonal rows of about unit length."""
    rows = torch.empty(count, size)
    if rows.is_meta:  # to be read from a file
        return rows
    if orthogonal and count <= _ORTHOGONAL_UP_TO:
        return nn.init.orthogonal_(rows) * math.sqrt(max(count, size) / size)
    return torch.randn(count, size) / math.sqrt(size)


def inverse_of(function: str, value: float) -> float:
    """The free parameter that `function` maps to `value`."""
    if function == "no":
        return value
    if value <= 0 or (function == "sigmoid" and value >= 1):
        span = "between 0 and 1" if function == "sigmoid" else "above 0"
        raise SettingsError(
            f"encoder.repulsion: learned through {function} it starts {span} (got {value}; "
            "learn_repulsion = 'no' keeps it fixed, num_negatives = 0 switches it off)"
        )
    return math.log(value / (1 - value)) if function == "sigmoid" else math.log(math.expm1(value))
