"""ENERGY over relations, its GRADIENT and LAYER: against autograd, dense matrices and direct solves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.descent import descend
from yinyan.model.encoder import Encoder, EncoderInput
from yinyan.model.energy import EnergyTerms, energy, gradient, layer, safe_step_size
from yinyan.model.layer import Layer
from yinyan.model.messages import MessageGraph
from yinyan.model.relation_laplacian import RelationLaplacian
from yinyan.model.relation_messages import RelationMessages, relation_messages
from yinyan.model.typed_encoder import TypedEncoder, TypeSize
from yinyan.settings import EncoderSettings

NODES, SIZE = 9, 4  # the last has no link
PAIRS = (
    torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [1, 3], [4, 5]]),
    torch.tensor([[0, 1], [5, 6], [6, 7], [2, 7]]),  # the first is linked in two relations
    torch.tensor([[0, 4]]),
)
WEIGHTS = (None, torch.tensor([1.0, 2.0, 0.5, 3.0]), None)
HIDDEN = torch.tensor([False, True, False, False, False, False, True, False, False, False, False])
LAMBDAS = torch.tensor([0.5, 2.0, 1.3], dtype=torch.float64)


def messages(*, weighted: bool = False, dtype: torch.dtype = torch.float64) -> RelationMessages:
    return relation_messages(PAIRS, NODES, weights=WEIGHTS if weighted else (None,) * 3, dtype=dtype)


def terms(
    *,
    weighted: bool = False,
    hidden: Tensor | None = None,
    maps: Tensor | None = None,
    push: float = 0.2,
    **options: object,
) -> EnergyTerms:
    given = {"anchoring": 0.4, "expected_negatives": True, "repulsion": 0.3, **options}
    lambdas = given.pop("lambdas", LAMBDAS)
    settings = EncoderSettings(**given)  # type: ignore[arg-type]
    repulsion = torch.tensor([push], dtype=torch.float64)[: settings.num_negatives]
    return messages(weighted=weighted).terms(
        settings, repulsion, torch.Generator().manual_seed(1), hidden=hidden, weights=lambdas, maps=maps, in_parts=True
    )


def start() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(3)
    y, f = (torch.randn(NODES, SIZE, dtype=torch.float64, generator=source) for _ in range(2))
    return y, f


def maps() -> Tensor:
    return 1 + 0.5 * torch.randn(3, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


VARIANTS = {
    "plain": {},
    "weighted": {"weighted": True},
    "masked": {"hidden": HIDDEN},
    "self-loops": {"self_loops": True},
    "sampled": {"expected_negatives": False},
    "without-negatives": {"num_negatives": 0},
    "maps": {"maps": maps()},
    "maps-masked": {"maps": maps(), "hidden": HIDDEN, "weighted": True},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
class TestEveryVariant:
    def test_gradient_is_half_of_autograd(self, variant: dict[str, object]) -> None:
        y, f = start()
        y.requires_grad_()
        made = terms(**variant)  # type: ignore[arg-type]
        (slope,) = torch.autograd.grad(energy(y, f, made), y)
        torch.testing.assert_close(2 * gradient(y, f, made), slope, rtol=1e-10, atol=1e-10)

    def test_energy_falls_at_the_safe_step(self, variant: dict[str, object]) -> None:
        y, f = start()
        made = terms(**variant)  # type: ignore[arg-type]
        values = [float(energy(y, f, made))]
        for _ in range(30):
            y = layer(y, f, made, safe_step_size(made))
            values.append(float(energy(y, f, made)))
        assert (np.diff(values) <= 1e-9).all()

    def test_energy_is_the_definition(self, variant: dict[str, object]) -> None:
        """Σ_r λ_r tr((Y M_r)ᵀ L̃_r (Y M_r)) with dense matrices, built from the pairs alone."""
        y, _ = start()
        made, weighted = terms(**variant), bool(variant.get("weighted"))  # type: ignore[arg-type]
        graph, hidden = messages(weighted=weighted), variant.get("hidden")
        shown = graph.visible_weights(hidden)  # type: ignore[arg-type]
        dense = torch.zeros(3, NODES, NODES, dtype=torch.float64)
        for (i, j), r, w in zip(graph.pairs.tolist(), graph.relation_of_pair.tolist(), shown.tolist(), strict=True):
            dense[r, i, j] += w
            dense[r, j, i] += w
        degrees = dense.sum((0, 2)) + float(bool(variant.get("self_loops")))
        scale = torch.where(degrees > 0, degrees, torch.ones_like(degrees)).rsqrt()
        own = variant.get("maps")
        total = 0.0
        for r in range(3):
            laplacian = scale[:, None] * (torch.diag(dense[r].sum(1)) - dense[r]) * scale
            mapped = y if own is None else y * own[r]  # type: ignore[index]
            total += float(LAMBDAS[r] * (mapped.T @ laplacian @ mapped).trace())
        assert float(made.links.trace(y)) == pytest.approx(total, rel=1e-10)


def test_the_fused_layer_is_the_definition(kernels: str) -> None:
    """Values, and the gradients of Y, f, the attractions and the repulsion, over several steps."""
    del kernels

    def run(fused: bool) -> list[Tensor]:
        f = start()[1].float().requires_grad_()
        lambdas, repulsion = LAMBDAS.float().requires_grad_(), torch.tensor([0.2], requires_grad=True)
        graph = messages(dtype=torch.float32)
        settings = EncoderSettings(anchoring=0.4)
        made = graph.terms(settings, repulsion, None, hidden=HIDDEN, weights=lambdas, in_parts=True)
        if fused:
            out = descend(f, Layer.of(made, 0.3), 4)
        else:
            out = f
            for _ in range(4):
                out = layer(out, f, made, 0.3)
        toward = torch.arange(out.numel(), dtype=torch.float32).view_as(out) / 10
        return [out.detach(), *torch.autograd.grad(out, [f, lambdas, repulsion], toward)]

    for fast, plain in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(fast, plain, rtol=2e-4, atol=2e-5)


def test_gradients_of_attractions_are_not_zero() -> None:
    lambdas = LAMBDAS.clone().requires_grad_()
    y, f = start()
    made = messages().terms(EncoderSettings(), torch.tensor([0.2], dtype=torch.float64), None, weights=lambdas)
    (slopes,) = torch.autograd.grad(descend(f, Layer.of(made, 0.3), 3, start=y).square().sum(), lambdas)
    assert (slopes.abs() > 1e-3).all()


def test_converges_to_a_direct_solve() -> None:
    y, f = start()
    made = terms(push=0.02)
    for _ in range(4000):
        y = layer(y, f, made, safe_step_size(made))
    eye = torch.eye(NODES, dtype=torch.float64)
    # the gradient is affine in Y: its matrix is that of the products with unit vectors
    hessian = torch.stack([gradient(e[:, None], torch.zeros(NODES, 1).double(), made)[:, 0] for e in eye], dim=1)
    solved = torch.linalg.solve(hessian, made.anchoring * made.anchor * f)
    linked = made.anchor[:, 0] > 0
    torch.testing.assert_close(y[linked], solved[linked], rtol=1e-6, atol=1e-6)


def test_layers_of_equal_attractions_are_those_of_the_merged_graph() -> None:
    y, f = start()
    together = terms(lambdas=torch.full((3,), 0.7, dtype=torch.float64))
    merged = MessageGraph.from_pairs(torch.cat(PAIRS), NODES, dtype=torch.float64)
    plain = merged.terms(EncoderSettings(anchoring=0.4, attraction=0.7), torch.tensor([0.2], dtype=torch.float64), None)
    torch.testing.assert_close(gradient(y, f, together), gradient(y, f, plain))
    assert safe_step_size(together) == pytest.approx(safe_step_size(plain))


def test_unequal_attractions_and_maps_move_the_energy() -> None:
    y, f = start()
    values = [float(energy(y, f, made)) for made in (terms(), terms(lambdas=LAMBDAS.flip(0)), terms(maps=maps()))]
    assert len({round(value, 6) for value in values}) == 3


def test_a_layer_holds_one_matrix_forward_and_one_per_relation_for_gradients() -> None:
    made = terms(lambdas=LAMBDAS.clone().requires_grad_())
    assert isinstance(made.links, RelationLaplacian)
    built = Layer.of(made, 0.3)
    assert len(built.fewest) == 1
    assert len(built.matrices) == 3
    assert sum(m.values.numel() for m in built.matrices) == built.fewest[0].values.numel()


class TestOneRelationAndOneType:
    """It is the plain model, bit for bit."""

    def both(self, **options: object) -> tuple[Encoder, TypedEncoder]:
        settings = EncoderSettings(hidden_size=8, embedding_size=6, num_steps=3, sketch_size=8, **options)  # type: ignore[arg-type]
        torch.manual_seed(4)
        plain = Encoder(settings, NODES, 5)
        torch.manual_seed(4)
        return plain, TypedEncoder(settings, [TypeSize(NODES, 5)], 1)

    @pytest.mark.parametrize("options", [{}, {"learn_repulsion": "no"}, {"num_layers": 2}, {"margin": 0.1}])
    def test_embeddings_and_gradients_are_equal(self, options: dict[str, object]) -> None:
        graph = MessageGraph.from_pairs(PAIRS[0], NODES)
        x = torch.randn(NODES, 5)
        found = []
        for encoder, features in zip(self.both(**options), (x, (x,)), strict=True):
            drops, negatives = (torch.Generator().manual_seed(seed) for seed in (7, 8))
            y = encoder(features, graph, drops=drops, negatives=negatives, hidden=HIDDEN[:6])
            y.square().sum().backward()
            found.append([y.detach(), *(p.grad for p in encoder.parameters())])
        assert len(found[0]) == len(found[1])
        for one, other in zip(*found, strict=True):
            assert torch.equal(one, other)


class TestEncoder:
    def test_maps_are_for_graphs_with_relations(self) -> None:
        with pytest.raises(SettingsError, match="relation_maps"):
            Encoder(EncoderSettings(relation_maps=True), NODES, 0)

    def encoder(self, **options: object) -> TypedEncoder:
        settings = EncoderSettings(hidden_size=8, embedding_size=6, num_steps=3, **options)  # type: ignore[arg-type]
        return TypedEncoder(settings, [TypeSize(4, 3), TypeSize(NODES - 4, 0)], 3)

    @pytest.mark.parametrize("options", [{}, {"relation_maps": True}])
    def test_every_parameter_learns(self, options: dict[str, object]) -> None:
        encoder = self.encoder(**options)
        graph = messages(dtype=torch.float32)
        y = encoder((torch.randn(4, 3), None), graph)
        (y * torch.randn_like(y)).sum().backward()
        for name, parameter in encoder.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.any(), name

    def test_attractions_start_as_set(self) -> None:
        found = self.encoder(attraction=0.7).attractions()
        assert found is not None
        torch.testing.assert_close(found, torch.full((3,), 0.7))

    def test_large_attractions_do_not_diverge(self) -> None:
        encoder = self.encoder(step_size=0.8, num_negatives=0)
        encoder.settings.__dict__["num_steps"] = 200
        assert encoder.relation_offset is not None
        torch.nn.init.constant_(encoder.relation_offset, 30.0)
        given = EncoderInput((torch.randn(4, 3), None), messages(dtype=torch.float32))  # type: ignore[arg-type]
        trace = encoder.energy_trace(given)
        assert trace[-1] < trace[0]

    @pytest.mark.parametrize(
        ("options", "words"),
        [({"margin": 0.1}, "encoder.margin"), ({"attraction": 0.0}, "encoder.attraction"), ({"sign_hops": 1}, "sign")],
    )
    def test_what_relations_cannot_have_is_refused(self, options: dict[str, object], words: str) -> None:
        with pytest.raises(SettingsError, match=words):
            self.encoder(**options)
