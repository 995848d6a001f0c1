"""ENERGY, GRADIENT and LAYER: against autograd, dense matrices and direct solves, for every variant."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor

from yinyan.model.descent import one_layer
from yinyan.model.energy import (
    EnergyTerms,
    backtracked_step_size,
    energy,
    gradient,
    layer,
    safe_step_size,
)
from yinyan.model.messages import MessageGraph
from yinyan.settings import EncoderSettings

NODES = 10  # the last has no link
LINKS = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [1, 3], [4, 5], [5, 6], [6, 7], [7, 8], [0, 8]])
WEIGHTS = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.0, 1.0, 0.1, 2.0, 1.0, 1.0])
HIDDEN = torch.tensor([False, True, False, False, True, False, False, False, True, False])


@dataclass(frozen=True)
class Variant:
    """One way to set the energy up."""

    sampler: str = "global"
    expected: bool = False
    count: int = 1
    margin: float | None = None
    self_loops: bool = False
    weighted: bool = False
    masked: bool = False
    apart: bool = False  # one λ_k for each negative graph, as when they are learned

    def __str__(self) -> str:
        return "-".join(str(getattr(self, f.name)) for f in fields(self))

    def repulsion(self) -> Tensor:
        apart = self.apart and not self.expected
        values = [0.4, 0.1, 0.7][: self.count] if apart else [0.4][: self.count]
        return torch.tensor(values, dtype=torch.float64)

    def terms(self, repulsion: Tensor | None = None, **options: object) -> EnergyTerms:
        messages = MessageGraph.from_pairs(
            LINKS, NODES, weights=WEIGHTS if self.weighted else None, dtype=torch.float64
        )
        settings = EncoderSettings(
            sampler=self.sampler,  # type: ignore[arg-type]
            expected_negatives=self.expected,
            num_negatives=self.count,
            margin=self.margin,
            self_loops=self.self_loops,
            **{"anchoring": 0.5, "attraction": 1.0, **options},  # type: ignore[arg-type]
        )
        lambdas = self.repulsion() if repulsion is None else repulsion
        generator = torch.Generator().manual_seed(7)
        return messages.terms(settings, lambdas, generator, hidden=HIDDEN if self.masked else None)


BOTH = [False, True]
VARIANTS = [
    Variant(*values) for values in product(["global", "source"], BOTH, [0, 1, 3], [None, 0.05], BOTH, BOTH, BOTH, BOTH)
]
VARIANTS = [
    variant
    for variant in VARIANTS
    if not (variant.apart and (variant.expected or variant.count < 2))  # one graph has one weight
    and not (variant.count == 0 and (variant.expected or variant.sampler == "source"))  # nothing to draw
]
PLAIN = [variant for variant in VARIANTS if variant.margin is None]
BOUNDED = [variant for variant in VARIANTS if variant.margin is not None and variant.count]


def start(scale: float = 1.0) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(3)
    y, f = (torch.randn(NODES, 3, dtype=torch.float64, generator=source) for _ in range(2))
    return scale * y, f


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
class TestEveryVariant:
    def test_gradient_is_half_of_autograd(self, variant: Variant) -> None:
        y, f = start(0.3)
        y.requires_grad_()
        made = variant.terms()
        (slope,) = torch.autograd.grad(energy(y, f, made), y)
        torch.testing.assert_close(2 * gradient(y, f, made), slope, rtol=1e-10, atol=1e-10)

    def test_the_fused_layer_is_the_definition(self, variant: Variant) -> None:
        def run(step) -> tuple[Tensor, ...]:  # type: ignore[no-untyped-def]
            y, f = (part.requires_grad_() for part in start(0.3))
            lambdas = variant.repulsion().requires_grad_()
            made = variant.terms(lambdas)
            out = step(step(y, f, made, 0.5), f, made, 0.5)
            toward = torch.arange(out.numel(), dtype=torch.float64).view_as(out)
            grads = torch.autograd.grad(out, [y, f, lambdas], toward, allow_unused=True, materialize_grads=True)
            return out.detach(), *grads

        for fast, plain in zip(run(lambda *given: one_layer(*given)[0]), run(layer), strict=True):
            torch.testing.assert_close(fast, plain)

    def test_the_factors_are_those_of_the_gradient(self, variant: Variant) -> None:
        y, f = start(0.3)
        made = variant.terms()
        rebuilt = made.anchoring * made.anchor * (y - f) + made.attraction * made.links.product(y)
        _, factors = one_layer(y, f, made, 0.5)
        assert float(factors[0]) == 0.5 * made.attraction
        for factor, graph in zip(factors[1:], made.negatives, strict=True):
            rebuilt = rebuilt + factor / 0.5 * graph.product(y)
        torch.testing.assert_close(rebuilt, gradient(y, f, made))


def test_variants_really_differ() -> None:
    """Each choice moves the energy, so that the cases above are not one case many times."""
    y, f = start(0.3)
    base = Variant(count=3, apart=True)
    changed = [
        replace(base, sampler="source"),
        replace(base, expected=True),
        replace(base, count=1),
        replace(base, count=0),
        replace(base, margin=0.05),
        replace(base, self_loops=True),
        replace(base, weighted=True),
        replace(base, masked=True),
        replace(base, apart=False),
    ]
    values = [float(energy(y, f, variant.terms())) for variant in [base, *changed]]
    assert len({round(value, 9) for value in values}) == len(values)


class TestLiterally:
    """METHOD's equations with dense matrices, built from the sampled pairs alone."""

    @pytest.fixture
    def dense(self) -> dict[str, Tensor]:
        made = Variant().terms(anchoring=0.6, attraction=1.5)
        adjacency = torch.zeros(NODES, NODES, dtype=torch.float64)
        adjacency[LINKS[:, 0], LINKS[:, 1]] = adjacency[LINKS[:, 1], LINKS[:, 0]] = 1.0
        degrees = adjacency.sum(1)
        repelled = torch.where(made.anchor[:, 0] > 0, 1 / made.anchor[:, 0] - degrees, 0.0).round()
        signs = made.negatives[0].adjacency.product(torch.eye(NODES, dtype=torch.float64))
        root = repelled.sqrt()
        negative = (root[:, None] * signs * root).round()  # whole numbers: how often a pair was drawn
        assert torch.equal(negative.sum(1), repelled)
        assert negative.sum() == 2 * len(LINKS)
        return {"A": adjacency, "D": degrees, "N": negative, "DN": repelled}

    @staticmethod
    def normalised(matrix: Tensor, degrees: Tensor) -> Tensor:
        scale = torch.where(degrees > 0, degrees.clamp(min=1).rsqrt(), 0.0)
        return scale[:, None] * matrix * scale

    def test_energy(self, dense: dict[str, Tensor]) -> None:
        y, f = start()
        both = dense["D"] + dense["DN"]
        anchored = (torch.where(both > 0, both.clamp(min=1).rsqrt(), 0.0)[:, None] * (y - f)).square().sum()
        pulled = torch.trace(y.T @ self.normalised(dense["D"].diag() - dense["A"], dense["D"]) @ y)
        spread = torch.trace(y.T @ self.normalised(dense["DN"].diag() - dense["N"], dense["DN"]) @ y)
        free = Variant().terms(anchoring=0.6, attraction=1.5)
        torch.testing.assert_close(energy(y, f, free), 0.6 * anchored + 1.5 * pulled - 0.4 * spread)
        bounded = Variant(margin=0.7).terms(anchoring=0.6, attraction=1.5)
        softened = torch.log1p(torch.exp(0.7 * len(LINKS) - spread))
        torch.testing.assert_close(energy(y, f, bounded), 0.6 * anchored + 1.5 * pulled + 0.4 * softened)

    def test_layer_coefficients(self, dense: dict[str, Tensor]) -> None:
        """Y(t+1) = C1 Y + C2 f + c3 Ã Y - c4 Ã⁻ Y, on nodes with edges in both graphs."""
        y, f = start()
        alpha, lambda_0, lambda_1, lambda_k = 0.5, 0.6, 1.5, 0.4
        eye = torch.eye(NODES, dtype=torch.float64)
        anchor = (1 / (dense["D"] + dense["DN"])).diag()
        c1 = (1 - alpha * lambda_1 + alpha * lambda_k) * eye - alpha * lambda_0 * anchor
        c2 = alpha * lambda_0 * anchor
        wanted = c1 @ y + c2 @ f + alpha * lambda_1 * self.normalised(dense["A"], dense["D"]) @ y
        wanted = wanted - alpha * lambda_k * self.normalised(dense["N"], dense["DN"]) @ y
        in_both = (dense["D"] > 0) & (dense["DN"] > 0)
        assert in_both.sum() > NODES // 2
        got = layer(y, f, Variant().terms(anchoring=0.6, attraction=1.5), alpha)
        torch.testing.assert_close(got[in_both], wanted[in_both])


class TestDescent:
    @pytest.mark.parametrize("variant", PLAIN, ids=str)
    def test_safe_step_lowers_the_energy_at_every_layer(self, variant: Variant) -> None:
        y, f = start()
        made = variant.terms()
        step = safe_step_size(made)
        values = [float(energy(y, f, made))]
        for _ in range(12):
            y = layer(y, f, made, step)
            values.append(float(energy(y, f, made)))
        assert all(after < before for before, after in zip(values, values[1:], strict=False))

    @pytest.mark.parametrize("variant", BOUNDED, ids=str)
    def test_backtracked_step_lowers_the_energy_at_every_layer(self, variant: Variant) -> None:
        y, f = start()
        made = variant.terms(5 * variant.repulsion())
        values = [float(energy(y, f, made))]
        for _ in range(12):
            step = backtracked_step_size(y, f, made, 16.0)
            assert 0 < step <= 16.0
            y = layer(y, f, made, step)
            values.append(float(energy(y, f, made)))
        assert all(after <= before + 1e-6 * abs(before) for before, after in zip(values, values[1:], strict=False))
        assert values[-1] < values[0]

    def test_backtracking_is_needed_and_halves(self) -> None:
        y, f = start()
        made = Variant(margin=0.05).terms()
        assert energy(layer(y, f, made, 16.0), f, made) > energy(y, f, made)
        step = backtracked_step_size(y, f, made, 16.0)
        assert np.log2(16.0 / step) == round(np.log2(16.0 / step)) > 0

    def test_backtracking_keeps_a_good_start(self) -> None:
        y, f = start()
        assert backtracked_step_size(y, f, Variant(margin=0.05).terms(), 1e-3) == 1e-3

    def test_safe_step_is_the_bound(self) -> None:
        made = Variant(count=0).terms(anchoring=0.5, attraction=2.0)
        assert safe_step_size(made) == pytest.approx(1 / (0.5 * 1.0 + 2 * 2.0))  # node 4 has one link
        assert safe_step_size(Variant(count=0).terms(anchoring=0, attraction=0)) == 1.0

    def test_a_margin_bounds_the_energy_below(self) -> None:
        y, f = start(1e3)
        assert float(energy(y, f, Variant(count=3, margin=0.05).terms())) >= 0
        far = [
            float(energy(scale * y, f, Variant(count=3, apart=True).terms(torch.full((3,), 50.0).double())))
            for scale in (1, 2)
        ]
        assert far[1] < far[0] < 0  # without one it has no floor once repulsion is strong


class TestMinimiser:
    @pytest.mark.parametrize(
        "variant",
        [
            Variant(),
            Variant(sampler="source", count=3, apart=True),
            Variant(expected=True),
            Variant(expected=True, sampler="source", count=3, weighted=True),
            Variant(count=0),
            Variant(count=1, self_loops=True, masked=True),
        ],
        ids=str,
    )
    def test_many_layers_reach_the_direct_solution(self, variant: Variant) -> None:
        made = variant.terms(0.05 * variant.repulsion(), anchoring=1.0)
        _, f = start()
        eye = torch.eye(NODES, dtype=torch.float64)
        hessian = made.anchoring * made.anchor * eye + made.attraction * made.links.product(eye)
        for weight, graph in zip(made.repulsion, made.negatives, strict=True):
            hessian = hessian - weight / len(made.negatives) * graph.product(eye)
        in_play = made.anchor[:, 0] > 0  # a node in no graph has no energy
        hessian = hessian[in_play][:, in_play]
        assert torch.linalg.eigvalsh(hessian).min() > 0
        right = (made.anchoring * made.anchor * f)[in_play]
        solved = scipy.sparse.linalg.spsolve(scipy.sparse.csc_matrix(hessian.numpy()), right.numpy())
        y, step = f, safe_step_size(made)
        for _ in range(1500):
            y, _ = one_layer(y, f, made, step)
        torch.testing.assert_close(y[in_play], torch.as_tensor(solved), rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(gradient(y, f, made), torch.zeros_like(y), rtol=0, atol=1e-9)

    def test_bounded_energy_reaches_a_stationary_point(self) -> None:
        made = Variant(margin=0.05).terms(anchoring=1.0)
        y = f = start()[1]
        for _ in range(1500):
            y = layer(y, f, made, 0.25)
        torch.testing.assert_close(gradient(y, f, made), torch.zeros_like(y), rtol=0, atol=1e-8)


class TestIdentities:
    @pytest.mark.parametrize("sampler", ["global", "source"])
    def test_equal_weights_merge_the_graphs(self, sampler: str) -> None:
        y, f = start()
        variant = Variant(sampler=sampler, count=3)
        merged = variant.terms(torch.tensor([0.4], dtype=torch.float64))
        apart = variant.terms(torch.full((3,), 0.4, dtype=torch.float64))
        assert (len(merged.negatives), len(apart.negatives)) == (1, 3)
        torch.testing.assert_close(energy(y, f, merged), energy(y, f, apart))
        torch.testing.assert_close(gradient(y, f, merged), gradient(y, f, apart))

    @pytest.mark.parametrize("expected", BOTH)
    def test_no_negatives_is_the_ablation(self, expected: bool) -> None:
        y, f = start()
        made = Variant(count=0, expected=expected).terms(anchoring=0.6, attraction=1.5)
        wanted = 0.6 * made.anchor * (y - f) + 1.5 * made.links.product(y)
        torch.testing.assert_close(gradient(y, f, made), wanted)
        degrees = torch.bincount(LINKS.flatten(), minlength=NODES)
        torch.testing.assert_close(made.anchor[:-1, 0], 1 / degrees[:-1].double())

    @pytest.mark.parametrize("self_loops", BOTH)
    def test_isolated_nodes_keep_f(self, self_loops: bool) -> None:
        _, f = start()
        made = Variant(count=0, self_loops=self_loops).terms()
        y = f
        for _ in range(5):
            y, _ = one_layer(y, f, made, 0.5)
        torch.testing.assert_close(y[-1], f[-1], rtol=0, atol=1e-15)
        assert not torch.allclose(y[0], f[0])
        assert y.isfinite().all()

    @pytest.mark.parametrize("variant", PLAIN[::7], ids=str)
    def test_only_products_of_step_and_weights_count(self, variant: Variant) -> None:
        """The authors' (α=1, λ0=.01, λ=1, λ_K=1) is the paper's (α=.01, λ0=1, λ=100, λ_K=100)."""
        y, f = start()
        ones = torch.ones_like(variant.repulsion())
        released = layer(y, f, variant.terms(ones, anchoring=0.01, attraction=1.0), 1.0)
        paper = layer(y, f, variant.terms(100 * ones, anchoring=1.0, attraction=100.0), 0.01)
        torch.testing.assert_close(released, paper)

    def test_a_wide_margin_is_no_margin(self) -> None:
        y, f = start()
        wide, none = Variant(margin=1e3).terms(), Variant().terms()
        torch.testing.assert_close(gradient(y, f, wide), gradient(y, f, none))

    def test_a_passed_margin_pushes_no_more(self) -> None:
        y, f = start(1e3)
        passed, none = Variant(margin=0.0).terms(), Variant(margin=0.0).terms(torch.zeros(1, dtype=torch.float64))
        torch.testing.assert_close(gradient(y, f, passed), gradient(y, f, none))
