"""Negatives that a block of edges shares: the same gradients as autograd, on the right side, block by block."""

from __future__ import annotations

import pytest
import torch

from yinyan.errors import SettingsError
from yinyan.model.decoder import build_decoder
from yinyan.model.encoder import NodeEncoder
from yinyan.model.losses import LOSSES
from yinyan.model.scoring import Model
from yinyan.sampling import KnownPairs
from yinyan.settings import DecoderSettings, TrainingSettings
from yinyan.training import shared_negatives
from yinyan.training.shared_negatives import descend_with_shared_negatives

LINKS = torch.tensor([[0, 5], [1, 6], [2, 7], [3, 8], [4, 9]])


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model_of(kind: str, **options: object) -> Model:
    torch.manual_seed(0)
    settings = DecoderSettings(kind=kind, width=4, dropout=0.0)  # type: ignore[arg-type]
    return Model(NodeEncoder(), build_decoder(settings, 6, directed=False, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["dot", "hadamard", "multi-dot", "distance"])
@pytest.mark.parametrize("loss", ["infonce", "paper", "logrank"])
@pytest.mark.parametrize("block", [2, 100])
def test_gradients_are_those_of_the_whole_loss(
    kind: str, loss: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_negatives, "BLOCK", block)
    model, start = model_of(kind), torch.randn(10, 6, generator=generator())
    settings = TrainingSettings(loss=loss, loss_sampler="shared", loss_negatives=4)  # type: ignore[arg-type]
    known = KnownPairs.from_pairs(LINKS, 10, num_left=5)
    y = start.clone().requires_grad_()
    value = descend_with_shared_negatives(model, y * 1.0, LINKS, known, settings, generator(), None)
    other, total = start.clone().requires_grad_(), torch.zeros(())
    for sources, targets, others in shared_negatives._blocks(LINKS, known, 4, generator()):
        negatives = model.decoder(other[sources][:, None], other[others][None])
        negatives = negatives.masked_fill(others[None] == targets[:, None], float("-inf"))
        part = LOSSES[loss](model.decoder(other[sources], other[targets]), negatives)
        total = total + part * sources.numel() / len(LINKS)
    total.backward()
    assert value == pytest.approx(float(total.detach()), rel=1e-5)
    torch.testing.assert_close(y.grad, other.grad)


def test_negatives_come_from_the_side_that_is_ranked() -> None:
    known = KnownPairs.from_pairs(LINKS, 10, num_left=5)
    turned = set()
    for seed in range(4):
        for sources, targets, others in shared_negatives._blocks(LINKS, known, 50, generator(seed)):
            assert ((others >= 5) == (targets[0] >= 5)).all()
            assert ((sources >= 5) != (targets >= 5)).all()
            turned.add(bool(targets[0] < 5))
    assert turned == {True, False}, "both sides are ranked in turn"


def test_directed_edges_keep_their_direction() -> None:
    known = KnownPairs.from_pairs(LINKS, 10, directed=True)
    for seed in range(4):
        for sources, targets, _ in shared_negatives._blocks(LINKS, known, 5, generator(seed)):
            assert torch.equal(torch.stack([sources, targets], dim=1), LINKS)


def test_a_model_that_looks_around_a_pair_is_refused() -> None:
    class Looking(Model):
        def logits(self, *args: object, **options: object) -> torch.Tensor:  # type: ignore[override]
            return torch.zeros(())

    model = Looking(NodeEncoder(), build_decoder(DecoderSettings(kind="dot"), 6, directed=False))
    settings = TrainingSettings(loss_sampler="shared")
    with pytest.raises(SettingsError, match="use 'global'"):
        descend_with_shared_negatives(
            model, torch.zeros(10, 6), LINKS, KnownPairs.from_pairs(LINKS, 10), settings, generator(), None
        )


def test_a_degree_column_adds_what_degrees_say_of_a_pair() -> None:
    from yinyan.model.sketches import Sketches

    decoder = model_of("dot", degree_column=True).decoder
    degrees = torch.tensor([0.0, 1.0, 10.0, 100.0])
    rows = torch.cat([torch.zeros(4, 6), Sketches(0).of_degrees(degrees)[:, None]], dim=1)
    logits = decoder.of_block(rows, rows).detach()
    torch.testing.assert_close(logits, decoder(rows[:, None], rows[None]).detach())
    wanted = degrees.log1p()
    slopes = (logits[:, 3] - logits[:, 0]) / (wanted[3] - wanted[0])
    assert (slopes > 0.999).all()
    assert (slopes < 1.3).all(), "nearly one logarithm of the degree, whatever the other end"
    assert logits[0, 0] == pytest.approx(0.0, abs=1e-4)


def test_a_degree_column_needs_a_dot_decoder() -> None:
    with pytest.raises(SettingsError, match="needs the dot decoder"):
        model_of("hadamard", degree_column=True)
