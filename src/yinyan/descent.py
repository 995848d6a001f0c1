"""T layers as one step of autograd: two buffers forward, two backward, and nothing kept that is not asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from yinyan import native
from yinyan.propagation import LowRankOperator, Operator, SymmetricOperator, merged, row_dots

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
        ctx.sums = [passes.sums(y)]
        for t in range(layers.num_steps):
            out = spare.pop() if spare else torch.empty_like(y)
            ctx.sums.append(passes.forward(y, f, out, ctx.sums[-1], ahead=t < layers.num_steps - 1))
            if len(kept) > 1 and not (learned and not recompute):
                spare.append(kept.pop())  # of the steps between only the last two are held
            y = out
            kept.append(y)
        y = kept.pop()
        ctx.passes, ctx.recompute, ctx.f_is_start = passes, recompute, start is None
        if not learned:
            kept = []
        ctx.save_for_backward(f if learned else None, *(kept[:1] if recompute else kept))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        passes, steps = ctx.passes, ctx.passes.layers.num_steps
        f, *kept = ctx.saved_tensors
        learned = f is not None
        g = grad = grad.contiguous()
        exact = torch.float32 if grad.dtype == torch.bfloat16 else grad.dtype
        to_f = torch.empty(grad.shape, dtype=exact, device=grad.device)
        to_own, to_factors = torch.zeros_like(passes.layers.own), torch.zeros_like(passes.layers.factors)
        spare: list[Tensor] = []
        sums = passes.sums(g)
        for t in reversed(range(steps)):
            out = spare.pop() if spare else torch.empty_like(g)
            y = None
            if learned:
                y = passes.run(kept[0], f, t) if ctx.recompute else kept[t]
            done = passes.backward(
                g, out, to_f, sums, first=t == steps - 1, joined=t == 0 and ctx.f_is_start, y=y, y_sums=ctx.sums[t]
            )
            sums = done.sums
            if done.along is not None:
                to_factors += done.dots.to(to_factors.dtype)
                to_own += done.along.to(to_own.dtype)[:, None]
            if g is not grad:
                spare.append(g)
            g = out
        both = (g, None) if ctx.f_is_start else (to_f.to(grad.dtype), g)
        return *both, to_own if learned else None, to_factors if learned else None, None, None


class _Done(NamedTuple):
    """What a pass leaves besides its result."""

    sums: Tensor | None = None  # (r, d) Uᵀ out, for the low-rank graphs of the next pass
    dots: Tensor | None = None  # (K,) <y, S_k x>
    along: Tensor | None = None  # (n,) <y_i, x_i>


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
        return native.layer(x, out, matrices, own=own, base=base, f=f, other=x, part=part)[0][1].to(x.dtype)
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
        factors = layers.factors.tolist()
        both = list(zip(layers.graphs, factors, strict=True))
        self.sparse = [graph for graph in layers.graphs if isinstance(graph, SymmetricOperator)]
        self.low_rank = [graph for graph in layers.graphs if isinstance(graph, LowRankOperator)]
        self.matrices = [
            native.Csr(g.indptr, g.columns, g.values, c) for g, c in both if isinstance(g, SymmetricOperator)
        ]
        self.own = layers.own.detach()
        self.left = self.scaled_left = None  # U of all low-rank graphs side by side, and with their factors
        scaled = []
        for graph, factor in both:
            if isinstance(graph, LowRankOperator):
                self.own = self.own + factor * graph.diagonal[:, None]
                scaled.append(factor * graph.factors)
        if self.low_rank:
            self.left = torch.cat([graph.factors for graph in self.low_rank], dim=1).contiguous()
            self.scaled_left = torch.cat(scaled, dim=1).contiguous()
        self.own, self.base = self.own.contiguous(), layers.base.contiguous()
        self._merged: SymmetricOperator | None = None

    def sums(self, x: Tensor) -> Tensor | None:
        """(r, d) Uᵀ x of the low-rank graphs, where there are any."""
        if self.left is None:
            return None
        if native.suits(x) and self.left.dtype == torch.float32:
            return native.project(x, self.left)
        return self.left.T @ _exact(x)

    def forward(self, y: Tensor, f: Tensor, out: Tensor, sums: Tensor | None, *, ahead: bool = True) -> Tensor | None:
        """out = C1 y + C2 f + Σ_k c_k S_k y; returns the sums of `out`, if they will be needed."""
        return self._pass(y, out, sums, f=f, ahead=ahead).sums

    def backward(
        self,
        g: Tensor,
        out: Tensor,
        to_f: Tensor,
        sums: Tensor | None,
        *,
        first: bool,
        joined: bool,
        y: Tensor | None,
        y_sums: Tensor | None,
    ) -> _Done:
        """The same of a gradient, which adds C2 g to f's; the first pass begins that, `joined` adds all of it to out.

        With `y`: (K,) <y, S_k g>, the gradients of the c_k, and (n,) <y_i, g_i>, those of C1.
        """
        gathering: native.Gathering = "join" if joined else "store" if first else "add"
        if first and joined:  # a single layer
            to_f.zero_()
        done = self._pass(g, out, sums, to_f=to_f, gathering=gathering, other=y, ahead=not joined)
        if y is None or done.along is None:
            return done
        return done._replace(dots=self._dots(g, y, done, sums, y_sums))

    def run(self, start: Tensor, f: Tensor, steps: int) -> Tensor:
        """Y after some steps, again."""
        y, buffers = start, [torch.empty_like(start) for _ in range(min(steps, 2))]
        sums = self.sums(y) if steps else None
        for t in range(steps):
            sums = self.forward(y, f, buffers[t % 2], sums)
            y = buffers[t % 2]
        return y

    def _pass(
        self,
        x: Tensor,
        out: Tensor,
        sums: Tensor | None,
        *,
        ahead: bool,
        f: Tensor | None = None,
        to_f: Tensor | None = None,
        gathering: native.Gathering = "add",
        other: Tensor | None = None,
    ) -> _Done:
        if not (native.suits(x, *self.matrices) and self.own.dtype == torch.float32):
            return self._plain_pass(x, out, sums, f, to_f, gathering, other)
        along = None if other is None else torch.empty(x.shape[0])
        low_rank = None if sums is None or self.scaled_left is None else (self.scaled_left, self._turned(sums))
        dots, next_sums = native.layer(
            x, out, self.matrices, own=self.own, base=self.base, f=f, gathered=to_f, gathering=gathering, other=other,
            low_rank=low_rank, row_dots=along, next_left=self.left if ahead else None,
        )  # fmt: skip
        return _Done(next_sums, None if other is None else dots, along)

    def _turned(self, sums: Tensor) -> Tensor:
        """C (Uᵀ x), graph by graph."""
        ranks = [graph.core.shape[0] for graph in self.low_rank]
        parts = zip(self.low_rank, sums.split(ranks), strict=True)
        return torch.cat([graph.core @ part for graph, part in parts])

    def _plain_pass(
        self,
        x: Tensor,
        out: Tensor,
        sums: Tensor | None,
        f: Tensor | None,
        to_f: Tensor | None,
        gathering: native.Gathering,
        other: Tensor | None,
    ) -> _Done:
        exact = _exact(x)
        total = self.own * exact
        if f is not None:
            total.addcmul_(self.base, f.to(exact.dtype))
        if to_f is not None:
            to_f = to_f.zero_() if gathering == "store" else to_f
            to_f.addcmul_(self.base, exact)
            total += to_f if gathering == "join" else 0
        if self._merged is None and len(self.sparse) > 1:
            self._merged = merged(self.sparse, [m.factor for m in self.matrices])
        if self._merged is not None:
            self._merged.add_product(total, exact, 1.0)
        elif self.sparse:
            self.sparse[0].add_product(total, exact, self.matrices[0].factor)
        if sums is not None and self.scaled_left is not None:
            total.addmm_(self.scaled_left, self._turned(sums))
        out.copy_(total)
        if other is None:
            return _Done(self.sums(out))
        against = _exact(other)
        along = row_dots(against, exact)
        dots = [graph.inner(against, exact, along).double() for graph in self.sparse]
        return _Done(self.sums(out), torch.stack(dots), along)

    def _dots(self, x: Tensor, other: Tensor, done: _Done, sums: Tensor | None, other_sums: Tensor | None) -> Tensor:
        """(K,) <other, S_k x> in the order of the graphs; those of the sparse ones are at hand."""
        if done.dots is None or done.along is None:
            raise ValueError("the pass took no inner products")
        sparse = iter(done.dots.unbind())
        ranks = [graph.core.shape[0] for graph in self.low_rank]
        mine, theirs = (iter(() if part is None else part.split(ranks)) for part in (other_sums, sums))
        found = []
        for graph in self.layers.graphs:
            if isinstance(graph, LowRankOperator):
                own = (graph.diagonal * done.along).sum()
                found.append((own + (next(mine) * (graph.core @ next(theirs))).sum()).double())
            else:
                found.append(next(sparse))
        return torch.stack(found)


def _exact(x: Tensor) -> Tensor:
    return x.float() if x.dtype == torch.bfloat16 else x
