"""The loss over all pairs: its gradients, its labels, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from contracts import planted_graph, tiny
from yinyan.errors import SettingsError
from yinyan.model.decoder import build_decoder
from yinyan.model.encoder import NodeEncoder
from yinyan.model.scoring import Model
from yinyan.predictor import LinkPredictor
from yinyan.sampling import KnownPairs
from yinyan.settings import DecoderSettings, TrainingSettings
from yinyan.training import all_pairs
from yinyan.training.all_pairs import descend_on_all_pairs

KNOWN = torch.tensor([[0, 5], [1, 6], [2, 7], [4, 9], [0, 9]])
BATCH = KNOWN[[0, 3]]


def model_of(kind: str, *, directed: bool = False) -> Model:
    torch.manual_seed(0)
    settings = DecoderSettings(kind=kind, width=4, dropout=0.0)  # type: ignore[arg-type]
    return Model(NodeEncoder(), build_decoder(settings, 6, directed=directed)).double()


def settings_of(**options: Any) -> TrainingSettings:
    return TrainingSettings(loss_sampler="all", **options)


def start() -> Tensor:
    return torch.randn(10, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()


def by_definition(model: Model, y: Tensor, known: KnownPairs, share: float) -> Tensor:
    """The same loss, pair by pair."""

    def key(pair: list[int]) -> tuple[int, ...]:
        return tuple(pair) if known.directed else tuple(sorted(pair))

    edges, batch = ({key(pair) for pair in some.tolist()} for some in (KNOWN, BATCH))
    left = known.num_left
    positives, negatives = [], []
    for i in range(10) if left is None else range(left):
        for j in range(10) if left is None else range(left, 10):
            logit = model.decoder(y[i], y[j])
            if key([i, j]) in batch:
                positives.append(F.softplus(-logit))
            elif i != j and key([i, j]) not in edges:
                p = float(logit.detach().sigmoid())
                label = share * p / (share * p + 1 - p)
                negatives.append((1 - label) * F.softplus(logit) + label * F.softplus(-logit))
    return torch.stack(positives).mean() + torch.stack(negatives).mean()


@pytest.mark.parametrize("kind", ["multi-dot", "dot", "hadamard", "distance"])
@pytest.mark.parametrize(("directed", "num_left"), [(False, None), (True, None), (False, 5)])
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("block", [3, 100])
def test_gradients_are_those_of_the_whole_loss(
    kind: str, directed: bool, num_left: int | None, share: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_pairs, "BLOCK", block)
    known = KnownPairs.from_pairs(KNOWN, 10, num_left, directed=directed)
    model, y = model_of(kind, directed=directed), start()
    value = descend_on_all_pairs(model, y * 1.0, BATCH, known, settings_of(missing_share=share), None)
    found = [y.grad, *(parameter.grad for parameter in model.parameters())]
    other, wanted_y = model_of(kind, directed=directed), start()
    wanted = by_definition(other, wanted_y, known, share)
    wanted.backward()
    assert value == pytest.approx(float(wanted.detach()))
    for first, second in zip(found, [wanted_y.grad, *(p.grad for p in other.parameters())], strict=True):
        torch.testing.assert_close(first, second)


def test_a_negative_that_looks_like_an_edge_is_spared() -> None:
    """With all edges seen its logit falls; with some missing, the surer the model is, the less it falls."""
    logits = torch.tensor([-4.0, 0.0, 4.0, 8.0])
    pull = logits.sigmoid() - all_pairs._missing(logits, 0.2)
    assert pull[3] < pull[2] < pull[1]
    torch.testing.assert_close(logits.sigmoid() - all_pairs._missing(logits, 0.0), logits.sigmoid())


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    known, y = KnownPairs.from_pairs(KNOWN, 10), start()
    with pytest.raises(SettingsError, match=r"training\.loss: with loss_sampler = 'all'.*got 'infonce'"):
        descend_on_all_pairs(model_of("dot"), y, BATCH, known, settings_of(loss="infonce"), None)

    class EdgeWise(Model):
        def logits(self, *given: Any, **options: Any) -> Tensor:
            raise NotImplementedError

    with pytest.raises(SettingsError, match=r"decoder of two stored rows.*got EdgeWise"):
        descend_on_all_pairs(EdgeWise(NodeEncoder(), model_of("dot").decoder), y, BATCH, known, settings_of(), None)
    monkeypatch.setattr(all_pairs, "LARGEST", 9)
    with pytest.raises(SettingsError, match=r"for 9 nodes at most.*this graph has 10"):
        descend_on_all_pairs(model_of("dot"), y, BATCH, known, settings_of(), None)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_a_model_learns_by_it(share: float) -> None:
    training = {"loss_sampler": "all", "missing_share": share, "batch_size": 60, "epochs": 30}
    model = LinkPredictor(**tiny(decoder={"kind": "multi-dot"}, training=training))
    model.fit(planted_graph(inside=0.6, across=0.01))
    inside = [model.score((0, other)) for other in range(1, 20)]
    across = [model.score((0, other)) for other in range(20, 40)]
    assert sum(inside) / len(inside) > sum(across) / len(across)
