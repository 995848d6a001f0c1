"""T layers at once and a layer with a margin, against dense formulas, with the compiled kernels and without them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck

from yinyan.model import descent
from yinyan.model.descent import descend, descend_and_normalise, one_layer
from yinyan.model.energy import EnergyTerms, Laplacian
from yinyan.model.layer import Layer
from yinyan.model.operators import EdgeStructure, LowRankOperator, Operator, inverse_or_zero

NUM_NODES = 40  # node 0 is a hub, the last three have no edge


def pairs(seed: int, count: int = 90) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(NUM_NODES - 3, (count, 2), generator=generator)
    hub = torch.stack([torch.zeros(30, dtype=torch.long), torch.arange(1, 31)], dim=1)
    drawn = torch.cat([drawn, hub])
    return drawn[drawn[:, 0] != drawn[:, 1]]


def sparse(seed: int, dtype: torch.dtype) -> Operator:
    """A weighted normalised graph."""
    links = pairs(seed)
    weights = torch.rand(len(links), generator=torch.Generator().manual_seed(seed), dtype=dtype) + 0.1
    structure = EdgeStructure.from_pairs(links, NUM_NODES)
    return structure.scaled(weights, inverse_or_zero(structure.degrees(weights)).sqrt())


def low_rank(seed: int, dtype: torch.dtype) -> Operator:
    generator = torch.Generator().manual_seed(seed)
    diagonal, factors, core = (torch.randn(*shape, generator=generator, dtype=dtype) / 8 for shape in
                               ((NUM_NODES,), (NUM_NODES, 3), (3, 3)))  # fmt: skip
    return LowRankOperator(diagonal, factors, core + core.T)


def graphs(kind: str, dtype: torch.dtype) -> tuple[Operator, ...]:
    made = {"links": (), "sampled": (sparse(2, dtype),), "expected": (low_rank(3, dtype),),
            "several": (sparse(2, dtype), low_rank(3, dtype), sparse(4, dtype))}  # fmt: skip
    return (sparse(1, dtype), *made[kind])


def dense(operator: Operator, dtype: torch.dtype) -> Tensor:
    return operator.product(torch.eye(NUM_NODES, dtype=dtype))


def inputs(num_graphs: int, size: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(7)
    shapes = ((NUM_NODES, size), (NUM_NODES, size), (NUM_NODES, 1), (num_graphs,), (NUM_NODES, 1))
    return tuple(torch.randn(*shape, generator=generator, dtype=dtype) for shape in shapes)


def reference(
    f: Tensor, start: Tensor, own: Tensor, base: Tensor, factors: Tensor, matrices: list[Tensor], steps: int
) -> Tensor:
    y = start
    for _ in range(steps):
        y = own * y + base * f + sum(c * (matrix @ y) for c, matrix in zip(factors, matrices, strict=True))
    return y


@pytest.mark.parametrize("kind", ["links", "sampled", "expected", "several"])
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
@pytest.mark.parametrize("size", [1, 15, 16, 100, 128, 300])
def test_equals_the_formula_with_its_gradients(kernels: str, kind: str, steps: int, size: int) -> None:
    used = graphs(kind, torch.float32)
    f, start, own, factors, base = inputs(len(used), size, torch.float32)
    learned = [t.requires_grad_() for t in (f, start, own, factors)]
    matrices = [dense(graph, torch.float32) for graph in used]
    wanted = reference(f, start, own, base, factors, matrices, steps)
    toward = torch.randn(NUM_NODES, size, generator=torch.Generator().manual_seed(9))
    plain = torch.autograd.grad(wanted, learned, toward, allow_unused=True, materialize_grads=True)
    for recompute in (False, True):
        got = descend(f, Layer(own, base, factors, used), steps, start=start, recompute=recompute)
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
        ours = torch.autograd.grad(got, learned, toward, allow_unused=True, materialize_grads=True)
        for mine, theirs in zip(ours, plain, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5 * max(1.0, float(theirs.abs().max())))


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_starts_from_f_without_another_start(kernels: str, steps: int) -> None:
    used = graphs("sampled", torch.float32)
    f, _, own, factors, base = inputs(2, 20, torch.float32)
    f.requires_grad_()
    layer = Layer(own, base, factors, used)
    toward = torch.randn(NUM_NODES, 20)
    alone, twice = descend(f, layer, steps), descend(f, layer, steps, start=f)
    torch.testing.assert_close(alone, twice, rtol=0, atol=0)
    (mine,), (theirs,) = (torch.autograd.grad(y, [f], toward) for y in (alone, twice))
    torch.testing.assert_close(mine, theirs)


def test_gradients_pass_a_numerical_check() -> None:
    used = graphs("several", torch.float64)
    f, start, own, factors, base = inputs(len(used), 2, torch.float64)

    def through(f: Tensor, start: Tensor, own: Tensor, factors: Tensor) -> Tensor:
        return descend(f, Layer(own, base, factors, used), 2, start=start)

    assert gradcheck(through, [t.requires_grad_() for t in (f, start, own, factors)])


def test_half_precision_stores_half_and_sums_in_full(kernels: str) -> None:
    used = graphs("several", torch.float32)
    f, _, own, factors, base = inputs(len(used), 70, torch.float32)
    half = f.bfloat16().requires_grad_()
    got = descend(half, Layer(own, base, factors, used), 1)
    assert got.dtype == torch.bfloat16
    exact = half.detach().float()
    matrices = [dense(graph, torch.float32) for graph in used]
    wanted = reference(exact, exact, own, base, factors, matrices, 1)
    torch.testing.assert_close(got.float(), wanted, rtol=2**-8, atol=1e-5)  # one rounding, of the result
    got.float().sum().backward()
    assert half.grad is not None and half.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("learned", [False, True])
def test_keeps_no_steps_where_nothing_but_f_is_learned(kernels: str, learned: bool) -> None:
    used = graphs("sampled", torch.float32)
    f, _, own, factors, base = inputs(2, 8, torch.float32)
    f.requires_grad_()
    factors.requires_grad_(learned)
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        descend(f, Layer(own, base, factors, used), 4)
    assert sum(t.shape == f.shape for t in kept) == (5 if learned else 0)


def test_fixed_weights_get_no_gradient() -> None:
    used = graphs("sampled", torch.float32)
    f, _, own, factors, base = inputs(2, 8, torch.float32)
    descend(f.requires_grad_(), Layer(own, base, factors, used), 2).sum().backward()
    assert f.grad is not None
    assert own.grad is None
    assert factors.grad is None


def test_a_second_derivative_is_refused() -> None:
    used = graphs("links", torch.float32)
    f, _, own, factors, base = inputs(1, 8, torch.float32)
    y = descend(f.requires_grad_(), Layer(own, base, factors, used), 1)
    (slope,) = torch.autograd.grad(y.square().sum(), [f], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def bounded(kind: str, dtype: torch.dtype, margin: float, repulsion: Tensor) -> EnergyTerms:
    """The energy of one graph of edges and the others of a kind, with a margin."""
    generator = torch.Generator().manual_seed(3)
    anchor, *rest = (torch.rand(NUM_NODES, 1, dtype=dtype, generator=generator) for _ in range(4))
    links, *others = (Laplacian(diagonal, graph) for diagonal, graph in zip(rest, graphs(kind, dtype), strict=False))
    return EnergyTerms(links, tuple(others), anchor, 1.0, 0.4, 0.3, repulsion, margin)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("margin", [-5.0, 3.0, 60.0])
@pytest.mark.parametrize(("kind", "count"), [("links", 0), ("sampled", 1), ("expected", 1), ("several", 2)])
def test_a_layer_with_a_margin_equals_the_formula_with_its_gradients(
    kernels: str, dtype: torch.dtype, margin: float, kind: str, count: int
) -> None:
    f, y, *_ = inputs(1, 20, dtype)
    repulsion = torch.tensor([0.8, 0.3], dtype=dtype)[:count]
    learned = [t.requires_grad_() for t in (y, f, repulsion)]
    terms = bounded(kind, dtype, margin, repulsion)
    got, factors = one_layer(y, f, terms, 0.5)
    anchored = 0.5 * 0.4 * terms.anchor
    wanted = (1 - anchored - 0.15 * terms.links.diagonal) * y + anchored * f
    wanted = wanted + 0.15 * dense(terms.links.adjacency, dtype) @ y
    strengths = [torch.tensor(0.15, dtype=dtype)]
    for weight, graph in zip(repulsion, terms.negatives, strict=True):
        push = graph.diagonal * y - dense(graph.adjacency, dtype) @ y
        strengths.append(-0.5 * weight / count * torch.sigmoid(margin - (y * push).sum()))
        wanted = wanted - strengths[-1] * push
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(factors, torch.stack(strengths), rtol=1e-4, atol=1e-5)
    toward = torch.randn(NUM_NODES, 20, dtype=dtype, generator=torch.Generator().manual_seed(9))
    along = torch.arange(1.0, 2 + count, dtype=dtype)
    ours, plain = (
        torch.autograd.grad(
            [(out * toward).sum() + (c * along).sum()], learned, allow_unused=True, materialize_grads=True
        )
        for out, c in ((got, factors), (wanted, torch.stack(strengths)))
    )
    for mine, theirs in zip(ours, plain, strict=True):
        most = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5 * most)


@pytest.mark.parametrize("kind", ["sampled", "expected", "several"])
def test_a_layer_with_a_margin_passes_a_numerical_check(kind: str) -> None:
    f, y, *_ = inputs(1, 2, torch.float64)
    repulsion = torch.tensor([0.8, 0.3], dtype=torch.float64)[: 2 if kind == "several" else 1]

    def through(y: Tensor, f: Tensor, repulsion: Tensor) -> tuple[Tensor, Tensor]:
        return one_layer(y, f, bounded(kind, torch.float64, 4.0, repulsion), 0.5)

    assert gradcheck(through, [t.requires_grad_() for t in (y, f, repulsion)])


class TestNormalised:
    """The layers and the normalisation in one: the same as one after the other."""

    @staticmethod
    def parts(kind: str, dtype: torch.dtype) -> tuple[Layer, Tensor, nn.LayerNorm, Tensor]:
        operators = graphs(kind, dtype)
        f, _, own, factors, base = inputs(len(operators), 8, dtype)
        norm = nn.LayerNorm(8, dtype=dtype)
        with torch.no_grad():
            norm.weight.copy_(torch.linspace(0.5, 2, 8))
            norm.bias.copy_(torch.linspace(-1, 1, 8))
        return (
            Layer(own / 4, base / 4, factors / 4, operators),
            f.requires_grad_(),
            norm,
            torch.arange(2.0 * NUM_NODES, dtype=dtype).view(NUM_NODES, 2),
        )

    @pytest.mark.parametrize("block", [7, 8192])
    @pytest.mark.parametrize("steps", [1, 2, 5])
    @pytest.mark.parametrize("kind", ["links", "sampled", "expected", "several"])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_equals_its_parts(
        self, kind: str, steps: int, dtype: torch.dtype, block: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(descent, "_BLOCK_ROWS", block)
        layer, f, norm, columns = self.parts(kind, dtype)
        weights = torch.randn(NUM_NODES, 10, generator=torch.Generator().manual_seed(3), dtype=dtype)
        found = []
        for out in (
            descend_and_normalise(f, layer, steps, norm, columns),
            torch.cat([norm(descend(f, layer, steps)), columns], dim=1),
        ):
            gradients = torch.autograd.grad((out * weights).sum(), [f, norm.weight, norm.bias])
            found.append((out.detach(), *gradients))
        for mine, other in zip(*found, strict=True):
            torch.testing.assert_close(mine, other)

    @pytest.mark.parametrize("steps", [1, 2, 5])
    def test_a_result_that_is_given_up_has_the_same_gradients(self, steps: int) -> None:
        layer, f, norm, columns = self.parts("expected", torch.float32)
        weights = torch.randn(NUM_NODES, 10, generator=torch.Generator().manual_seed(3))
        found = []
        for given_up in (False, True):
            out = descend_and_normalise(f, layer, steps, norm, columns)
            before = out.detach().clone()
            if given_up:
                descent.give_up(out)
            found.append(torch.autograd.grad(out, [f, norm.weight, norm.bias], weights))
            assert torch.equal(out.detach(), before) is not given_up
        for mine, other in zip(*found, strict=True):
            assert torch.equal(mine, other)

    def test_other_tensors_are_not_given_up(self) -> None:
        y = torch.ones(3, 2, requires_grad=True) * 2
        descent.give_up(y)
        y.sum().backward()
        assert torch.equal(y, torch.full((3, 2), 2.0))

    def test_is_differentiated_once(self) -> None:
        layer, f, norm, columns = self.parts("expected", torch.float32)
        out = descend_and_normalise(f, layer, 2, norm, columns).sum()
        out.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="differentiated once"):
            out.backward()
