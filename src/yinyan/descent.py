"""T layers as one step of autograd: two buffers forward, two backward, and nothing kept that is not asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from yinyan import native
from yinyan.propagation import LowRankOperator, Operator, SymmetricOperator, merged, row_dots

Gathering = Literal["add", "store", "join"]

__all__ = ["BoundedLayer", "LinearLayers", "bounded_step", "descend"]


@dataclass(frozen=True)
class LinearLayers:
    """Y -> C1 Y + C2 f + Σ_k c_k S_k Y, applied T times: LAYER without a margin."""

    own: Tensor  # (n, 1): C1
    base: Tensor  # (n, 1): C2, a constant
    factors: Tensor  # (K,): c_k, the links' positive, the non-links' negative
    graphs: tuple[Operator, ...]  # S_k
    num_steps: int  # T


def descend(f: Tensor, layers: LinearLayers, *, start: Tensor | None = None, recompute: bool = False) -> Tensor:
    """Y(T) from Y(0) = f, or from `start`; differentiable in f, `start`, C1 and the c_k.

    Where C1 and the c_k are constants no Y(t) is kept for the backward pass. Where they are learned all are kept, or
    computed again (`recompute`) at the price of T (T - 1) / 2 layers.
    """
    if layers.num_steps == 0:
        return f if start is None else start
    return _Descent.apply(f, start, layers.own, layers.factors, layers, recompute)  # type: ignore[no-any-return]


class _Descent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, f, start, own, factors, layers, recompute):  # type: ignore[no-untyped-def]
        learned = ctx.needs_input_grad[2] or ctx.needs_input_grad[3]
        passes = _Passes(layers)
        f = f.contiguous()
        y = f if start is None else start.contiguous()
        kept: list[Tensor] = [y]
        spare: list[Tensor] = []
        for _ in range(layers.num_steps):
            out = spare.pop() if spare else torch.empty_like(y)
            passes.forward(y, f, out)
            if len(kept) > 1 and not (learned and not recompute):
                spare.append(kept.pop())  # of the steps between only the last two are held
            y = out
            kept.append(y)
        y = kept.pop()
        ctx.passes, ctx.recompute = passes, recompute
        ctx.f_is_start = start is None
        ctx.save_for_backward(
            f if learned else None, *(kept if learned and not recompute else kept[:1] if learned else [])
        )
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        passes, steps = ctx.passes, ctx.passes.layers.num_steps
        f, *kept = ctx.saved_tensors
        learned = f is not None
        grad = grad.contiguous()
        exact = torch.float32 if grad.dtype == torch.bfloat16 else grad.dtype
        to_f = torch.empty(grad.shape, dtype=exact, device=grad.device)
        to_own, to_factors = torch.zeros_like(passes.layers.own), torch.zeros_like(passes.layers.factors)
        spare: list[Tensor] = []
        g = grad
        for t in reversed(range(steps)):
            out = spare.pop() if spare else torch.empty_like(g)
            y = None
            if learned:
                y = passes.run(kept[0], f, t) if ctx.recompute else kept[t]
            first, last = t == steps - 1, t == 0
            dots, along = passes.backward(g, out, to_f, y, first=first, joined=last and ctx.f_is_start)
            if dots is not None and along is not None:
                to_factors += dots.to(to_factors.dtype)
                to_own += along.to(to_own.dtype)[:, None]
            if g is not grad:
                spare.append(g)
            g = out
        both = (g, None) if ctx.f_is_start else (to_f.to(grad.dtype), g)
        return *both, to_own if learned else None, to_factors if learned else None, None, None


@dataclass(frozen=True)
class BoundedLayer:
    """Y -> C1 Y + C2 f + c S Y + w σ(Q) L̃⁻ Y, Q = bound - tr(Yᵀ L̃⁻ Y): LAYER with a margin and one negative graph."""

    own: Tensor  # (n, 1): C1, without the share of the non-links
    base: Tensor  # (n, 1): C2
    pull: float  # c
    links: SymmetricOperator  # S
    diagonal: Tensor  # (n, 1): of L̃⁻
    non_links: SymmetricOperator  # what L̃⁻ subtracts from its diagonal
    bound: float  # γ |E|


def bounded_step(y: Tensor, f: Tensor, weight: Tensor, layer: BoundedLayer) -> Tensor:
    """One layer with a margin, differentiable in y, f and w: the trace comes out of the pass that multiplies."""
    return _BoundedStep.apply(y, f, weight, layer)  # type: ignore[no-any-return]


class _BoundedStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, f, weight, layer):  # type: ignore[no-untyped-def]
        y = y.contiguous()
        out, push = torch.empty_like(y), torch.empty_like(y)
        inner = _bounded_pass(y, out, push, layer, f=f.contiguous())  # push holds S⁻ y
        spread = (layer.diagonal[:, 0] * row_dots(y, y)).sum() - inner
        push.neg_().addcmul_(layer.diagonal, y)  # L̃⁻ y
        strength = torch.sigmoid(layer.bound - spread).to(y.dtype)
        ctx.layer = layer
        ctx.save_for_backward(push, weight, strength)
        return out.add_(push, alpha=float(weight * strength))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        push, weight, strength = ctx.saved_tensors
        layer, grad = ctx.layer, grad.contiguous()
        to_y, turned = torch.empty_like(grad), torch.empty_like(grad)
        _bounded_pass(grad, to_y, turned, layer)
        along = row_dots(grad, push).sum()
        to_y.add_(turned.neg_().addcmul_(layer.diagonal, grad), alpha=float(weight * strength))
        # the strength itself moves: dσ(Q)/dY = -σ (1 - σ) 2 L̃⁻ Y
        to_y.add_(push, alpha=float(-2 * weight * strength * (1 - strength) * along))
        return to_y, layer.base * grad, (along * strength).reshape(weight.shape), None


def _bounded_pass(x: Tensor, out: Tensor, part: Tensor, layer: BoundedLayer, f: Tensor | None = None) -> Tensor:
    """out = C1 x + C2 f + c S x and part = S⁻ x, together; returns <x, S⁻ x>."""
    matrices = [
        native.Csr(g.indptr, g.columns, g.values, c) for g, c in ((layer.links, layer.pull), (layer.non_links, 0.0))
    ]
    if native.suits(x, *matrices) and layer.own.dtype == torch.float32:
        base, own = layer.base.contiguous(), layer.own.contiguous()
        return native.layer(x, out, matrices, own=own, base=base, f=f, other=x, part=part)[1].to(x.dtype)
    torch.mul(layer.own, x, out=out)
    if f is not None:
        out.addcmul_(layer.base, f)
    layer.links.add_product(out, x, layer.pull)
    part.zero_()
    layer.non_links.add_product(part, x, 1.0)
    return row_dots(x, part).sum()


class _Passes:
    """The passes over one set of layers: compiled where that can be, else by torch."""

    def __init__(self, layers: LinearLayers) -> None:
        self.layers = layers
        self.factors = layers.factors.tolist()
        self.sparse = [g for g in layers.graphs if isinstance(g, SymmetricOperator)]
        self.low_rank = [
            (g, c) for g, c in zip(layers.graphs, self.factors, strict=True) if isinstance(g, LowRankOperator)
        ]
        self.matrices = [
            native.Csr(g.indptr, g.columns, g.values, c)
            for g, c in zip(layers.graphs, self.factors, strict=True)
            if isinstance(g, SymmetricOperator)
        ]
        self.own = layers.own.detach()
        for graph, factor in self.low_rank:
            self.own = self.own + factor * graph.diagonal[:, None]
        self.own, self.base = self.own.contiguous(), layers.base.contiguous()
        self._merged: SymmetricOperator | None = None
        self._left: Tensor | None = None

    def forward(self, y: Tensor, f: Tensor, out: Tensor) -> None:
        """out = C1 y + C2 f + Σ_k c_k S_k y."""
        self._pass(y, out, f=f)

    def backward(
        self, g: Tensor, out: Tensor, to_f: Tensor, y: Tensor | None, *, first: bool, joined: bool
    ) -> tuple[Tensor, Tensor] | tuple[None, None]:
        """The same of a gradient, which adds C2 g to f's; the first pass begins that, `joined` adds all of it to out.

        With `y`: (K,) <y, S_k g>, the gradients of the c_k, and (n,) <y_i, g_i>, those of C1.
        """
        gathering: Gathering = "join" if joined else "store" if first else "add"
        if first:
            to_f = to_f if gathering == "store" else to_f.zero_()  # a single layer
        return self._pass(g, out, to_f=to_f, gathering=gathering, other=y)

    def run(self, start: Tensor, f: Tensor, steps: int) -> Tensor:
        """Y after some steps, again."""
        y, buffers = start, [torch.empty_like(start) for _ in range(min(steps, 2))]
        for t in range(steps):
            self.forward(y, f, buffers[t % 2])
            y = buffers[t % 2]
        return y

    def _pass(
        self,
        x: Tensor,
        out: Tensor,
        *,
        f: Tensor | None = None,
        to_f: Tensor | None = None,
        gathering: Gathering = "add",
        other: Tensor | None = None,
    ) -> tuple[Tensor, Tensor] | tuple[None, None]:
        dots = along = None
        if native.suits(x, *self.matrices) and self.own.dtype == torch.float32:
            along = None if other is None else torch.empty(x.shape[0])
            dots = native.layer(
                x, out, self.matrices, own=self.own, base=self.base, f=f, gathered=to_f, other=other,
                gathering=gathering, low_rank=self._factors(x), row_dots=along,
            )  # fmt: skip
        else:
            if to_f is not None and gathering == "store":
                to_f.zero_()
            self._plain_pass(x, out, f, to_f)
            if to_f is not None and gathering == "join":
                out += to_f.to(out.dtype)
        if other is None:
            return None, None
        along = row_dots(other, x) if along is None else along
        return self._dots(x, other, dots, along), along

    def _factors(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """All low-rank graphs as one U V: U with the factors, V = C (Uᵀ x)."""
        if not self.low_rank:
            return None
        if self._left is None:
            self._left = torch.cat([c * g.factors for g, c in self.low_rank], dim=1).contiguous()
        right = torch.cat([g.core @ native.project(x, g.factors.contiguous()) for g, _ in self.low_rank])
        return self._left, right

    def _plain_pass(self, x: Tensor, out: Tensor, f: Tensor | None, to_f: Tensor | None) -> None:
        exact = x.float() if x.dtype == torch.bfloat16 else x
        total = self.own * exact
        if f is not None:
            total.addcmul_(self.base, f.to(exact.dtype))
        if to_f is not None:
            to_f.addcmul_(self.base, exact)
        if self._merged is None and self.sparse:
            one = len(self.sparse) == 1
            self._merged = self.sparse[0] if one else merged(self.sparse, [m.factor for m in self.matrices])
        if self._merged is not None:
            self._merged.add_product(total, exact, self.matrices[0].factor if len(self.sparse) == 1 else 1.0)
        for graph, factor in self.low_rank:
            total.addmm_(graph.factors, graph.core @ (graph.factors.T @ exact), alpha=factor)
        out.copy_(total)

    def _dots(self, x: Tensor, other: Tensor, dots: Tensor | None, along: Tensor) -> Tensor:
        """(K,) <other, S_k x> in the order of the graphs; those of the sparse ones may be at hand."""
        ready = iter(() if dots is None else dots.unbind())
        found = []
        for graph in self.layers.graphs:
            if dots is not None and isinstance(graph, SymmetricOperator):
                found.append(next(ready))
            elif dots is not None and isinstance(graph, LowRankOperator):
                mine, theirs = (native.project(t, graph.factors.contiguous()) for t in (other, x))
                found.append(((graph.diagonal * along).sum() + (mine * (graph.core @ theirs)).sum()).double())
            else:
                exact, against = (t.float() if t.dtype == torch.bfloat16 else t for t in (x, other))
                found.append(graph.inner(against, exact, along).double())
        return torch.stack(found)
