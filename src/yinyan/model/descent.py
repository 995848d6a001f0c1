"""LAYER under autograd: T layers as one step that keeps only what is needed, one with a margin, one with gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from yinyan.model.energy import EnergyTerms
from yinyan.model.layer import Layer, layer_pass
from yinyan.model.operators import SymmetricOperator, row_dots
from yinyan.native.graph_kernels import Beside, Csr

__all__ = ["Gates", "descend", "descend_and_normalise", "gated_layer", "give_up", "one_layer"]

_BLOCK_ROWS = 8192  # normalised at a time: some megabytes


def descend(f: Tensor, layer: Layer, num_steps: int, *, start: Tensor | None = None, recompute: bool = False) -> Tensor:
    """Y(T) from Y(0) = f, or from `start`; differentiable in f, `start`, C1 and the c_k.

    Where C1 and the c_k are constants no Y(t) is kept for the backward pass. Where they are learned all are kept, or
    computed again (`recompute`) at the price of T (T - 1) / 2 layers.
    """
    if num_steps == 0:
        return f if start is None else start
    return _Descent.apply(f, start, layer.own, layer.factors, layer, num_steps, recompute)  # type: ignore[no-any-return]


class _Descent(torch.autograd.Function):
    """Two buffers forward, two backward."""

    @staticmethod
    def forward(ctx, f, start, own, factors, layer, num_steps, recompute):  # type: ignore[no-untyped-def]
        learned = ctx.needs_input_grad[2] or ctx.needs_input_grad[3]
        f = f.contiguous()
        kept = [f if start is None else start.contiguous()]
        spare: list[Tensor] = []
        ctx.sums = [layer.sums(kept[0])]
        for t in range(num_steps):
            y, out = kept[-1], spare.pop() if spare else layer.buffer(f)
            ctx.sums.append(layer.forward(y, f, out, ctx.sums[-1], ahead=t < num_steps - 1))
            if len(kept) > 1 and (recompute or not learned):
                spare.append(kept.pop())  # of the steps between only the last two are held
            kept.append(out)
        y = kept.pop()
        ctx.layer, ctx.num_steps, ctx.recompute, ctx.f_is_start = layer, num_steps, recompute, start is None
        ctx.save_for_backward(*([f, *(kept[:1] if recompute else kept)] if learned else ()))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        layer, saved = ctx.layer, ctx.saved_tensors
        g = grad = grad.contiguous()
        to_f = torch.empty_like(grad, dtype=layer.base.dtype)
        to_own, to_factors = torch.zeros_like(layer.own), torch.zeros_like(layer.factors)
        spare: list[Tensor] = []
        sums = layer.sums(g)
        for t in reversed(range(ctx.num_steps)):
            out = spare.pop() if spare else layer.buffer(g)
            y = None
            if saved:
                y = _run(layer, saved[1], saved[0], t) if ctx.recompute else saved[1 + t]
            gathering = "store" if t == ctx.num_steps - 1 else "add"
            if t == 0 and ctx.f_is_start:
                to_f = to_f.zero_() if gathering == "store" else to_f
                gathering = "join"
            sums, dots, along = layer.backward(g, out, to_f, sums, gathering, y, ctx.sums[t])
            if along is not None:
                to_factors += dots.to(to_factors.dtype)
                to_own += along.to(to_own.dtype)[:, None]
            if g is not grad:
                spare.append(g)
            g = out
        both = (g, None) if ctx.f_is_start else (to_f.to(grad.dtype), g)
        return *both, *((to_own, to_factors) if saved else (None, None)), None, None, None


def _run(layer: Layer, y: Tensor, f: Tensor, num_steps: int) -> Tensor:
    """Y after some steps, again."""
    buffers, sums = [layer.buffer(y) for _ in range(min(num_steps, 2))], layer.sums(y) if num_steps else None
    for t in range(num_steps):
        sums = layer.forward(y, f, buffers[t % 2], sums, ahead=True)
        y = buffers[t % 2]
    return y


def descend_and_normalise(f: Tensor, layer: Layer, num_steps: int, norm: nn.LayerNorm, columns: Tensor) -> Tensor:
    """(n, d + c) Y(T) from Y(0) = f under layer normalisation, with (n, c) constant columns beside it.

    For a step or more, of constant coefficients. It holds two matrices for the backward pass, Y(T) and the result. It
    can be differentiated once, because the backward pass writes over Y(T), and after `give_up` over the result too.
    """
    return _NormalisedDescent.apply(f, norm.weight, norm.bias, columns, layer, num_steps, norm.eps)  # type: ignore[no-any-return]


def give_up(y: Tensor) -> None:
    """Allow the backward pass to write over `y`, if it is a result of `descend_and_normalise`: a matrix less."""
    node: Any = y.grad_fn
    if getattr(node, "takes_result", False) and y.dtype == node.y.dtype:
        node.spare = y.detach().view(-1)[: node.y.numel()].view(node.y.shape)


class _NormalisedDescent(torch.autograd.Function):
    """The layers, normalised by blocks of rows into the result; three matrices forward, three backward."""

    @staticmethod
    def forward(ctx, f, weight, bias, columns, layer, num_steps, eps):  # type: ignore[no-untyped-def]
        y = f = f.contiguous()
        spare, sums = [layer.buffer(f) for _ in range(min(num_steps, 2))], layer.sums(y)
        for t in range(num_steps):
            sums = layer.forward(y, f, spare[t % 2], sums, ahead=t < num_steps - 1)
            y = spare[t % 2]
        del spare
        size = f.shape[1]
        out = weight.new_empty(f.shape[0], size + columns.shape[1])
        out[:, size:] = columns
        statistics = []
        for rows, some in zip(out[:, :size].split(_BLOCK_ROWS), y.split(_BLOCK_ROWS), strict=True):
            normal, *found = torch.native_layer_norm(some.to(weight.dtype), [size], weight, bias, eps)
            rows.copy_(normal)
            statistics.append(found)
        ctx.y, ctx.statistics, ctx.layer, ctx.num_steps = y, statistics, layer, num_steps
        ctx.takes_result, ctx.spare = layer.halo is None, None
        ctx.save_for_backward(weight, bias)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (weight, bias), g, layer = ctx.saved_tensors, ctx.y, ctx.layer
        if g is None:
            raise RuntimeError("these layers can be differentiated once (use `descend` to keep what they read)")
        ctx.y, size = None, g.shape[1]
        to_weight, to_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        blocks = zip(grad[:, :size].split(_BLOCK_ROWS), g.split(_BLOCK_ROWS), ctx.statistics, strict=True)
        for slope, some, (mean, scale) in blocks:  # the gradient takes the place of Y(T)
            value, *others = torch.ops.aten.native_layer_norm_backward(
                slope.contiguous(), some.to(weight.dtype), [size], mean, scale, weight, bias, [True, True, True]
            )
            some.copy_(value)
            to_weight += others[0]
            to_bias += others[1]
        del grad, blocks, slope, some, value
        spare, ctx.spare = ctx.spare, None
        return layer.pulled_back(g, ctx.num_steps, spare), to_weight, to_bias, None, None, None, None


def one_layer(y: Tensor, f: Tensor, terms: EnergyTerms, step_size: float) -> tuple[Tensor, Tensor]:
    """Y(t+1), with a margin or without, and (1 + K,) the factors of the graphs; differentiable in y, f and λ."""
    if terms.margin is None or not terms.negatives:
        layer = Layer.of(terms, step_size)
        return descend(f, layer, 1, start=y), layer.factors
    links = Layer.of(replace(terms, negatives=(), repulsion=terms.repulsion[:0]), step_size)
    weights = step_size * terms.repulsion / len(terms.negatives)
    out, strengths = _Bounded.apply(y, f, weights, links, terms)
    return out, torch.cat([links.factors, -weights * strengths])


class _Bounded(torch.autograd.Function):
    """LAYER of the links plus Σ_k w_k σ(Q_k) L̃⁻_k Y, Q_k = γ |E| - tr(Yᵀ L̃⁻_k Y); and the σ(Q_k)."""

    @staticmethod
    def forward(ctx, y, f, weights, links, terms):  # type: ignore[no-untyped-def]
        y = y.contiguous()
        out, pushes, inners = _bounded_pass(y, links, terms, f.contiguous())
        strengths = torch.empty_like(weights, dtype=y.dtype)
        for k, (graph, push, inner) in enumerate(zip(terms.negatives, pushes, inners, strict=True)):
            spread = (graph.diagonal[:, 0] * row_dots(y, y)).sum() - inner
            strengths[k] = torch.sigmoid(terms.margin * terms.num_links - spread).to(y.dtype)
            out.add_(push, alpha=float(weights[k] * strengths[k]))
        ctx.links, ctx.terms = links, terms
        ctx.save_for_backward(weights, strengths, *pushes)
        return out, strengths

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, to_strengths):  # type: ignore[no-untyped-def]
        weights, strengths, *pushes = ctx.saved_tensors
        grad, to_weights = grad.contiguous(), torch.empty_like(weights)
        to_y, turned, _ = _bounded_pass(grad, ctx.links, ctx.terms)
        for k, (weight, strength, push) in enumerate(zip(weights, strengths, pushes, strict=True)):
            along = row_dots(grad, push).sum()
            to_y.add_(turned[k], alpha=float(weight * strength))
            # the strength itself moves: dσ(Q)/dY = -σ (1 - σ) 2 L̃⁻ Y
            slope = -2 * weight * strength * (1 - strength) * along - 2 * strength * (1 - strength) * to_strengths[k]
            to_y.add_(push, alpha=float(slope))
            to_weights[k] = along * strength
        return to_y, ctx.links.base * grad, to_weights, None, None


def _bounded_pass(
    x: Tensor, links: Layer, terms: EnergyTerms, f: Tensor | None = None
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """LAYER of the links, the L̃⁻_k x and the <x, S⁻_k x>; the first sampled graph shares the links' pass."""
    out, matrices = torch.empty_like(x), list(links.matrices)
    first, parts = terms.negatives[0].adjacency, []
    if isinstance(first, SymmetricOperator):
        matrices.append(Csr(first.indptr, first.columns, first.values, 0.0))
        parts = [torch.empty_like(x)]
    beside = Beside(links.diagonal, links.base, f, other=x, part=parts[0] if parts else None)
    dots, _ = layer_pass(x, out, matrices, beside)
    inners = [dot.to(x.dtype) for dot in dots[1:]]
    for graph in terms.negatives[len(parts) :]:
        parts.append(graph.adjacency.product(x))
        inners.append(row_dots(x, parts[-1]).sum())
    pushes = [part.neg_().addcmul_(graph.diagonal, x) for graph, part in zip(terms.negatives, parts, strict=True)]
    return out, pushes, inners


class Gates(NamedTuple):
    """Entries of a graph's matrix, each with a gate: the value at (row, column), or a whole row without columns."""

    rows: Tensor
    columns: Tensor | None
    values: Tensor | None
    gate: Tensor  # the number of each entry's gate


def gated_layer(
    y: Tensor, f: Tensor, terms: EnergyTerms, step_size: float, gates: Sequence[Gates], opened: Sequence[Tensor]
) -> Tensor:
    """LAYER with entries of each graph times how far their gates are `opened`, from 0 to 1."""
    out, factors = one_layer(y, f, terms, step_size)
    for factor, graph, entries, open_ in zip(factors, (terms.links, *terms.negatives), gates, opened, strict=True):
        if entries.columns is None or entries.values is None:
            messages = graph.adjacency.product(y).index_select(0, entries.rows)
        else:
            messages = entries.values[:, None] * y.index_select(0, entries.columns)
        withheld = factor * (open_ - 1)[entries.gate]
        out = out.index_add(0, entries.rows, withheld[:, None] * messages)
    return out
