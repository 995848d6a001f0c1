"""Scores of triples: against plain decoders per relation, direction, and gradients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from yinyan.model.decoder import build_decoder
from yinyan.model.relation_decoder import RelationMaps, RelationModel
from yinyan.settings import DecoderSettings

SIZE, SKETCH = 6, 4


def built(kind: str, turned: list[bool], *, sketch: int = 0) -> RelationModel:
    settings = replace(DecoderSettings(depth=2, width=8, dropout=0.0), kind=kind)  # type: ignore[arg-type]
    decoder = build_decoder(settings, SIZE, directed=False, sketch_size=sketch)
    maps = RelationMaps(decoder.size, turned)
    model = RelationModel(torch.nn.Identity(), decoder, maps)  # type: ignore[arg-type]
    for parameter in maps.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def rows(sketch: int = 0) -> Tensor:
    return torch.randn(10, SIZE + (3 * sketch + 1 if sketch else 0), generator=torch.Generator().manual_seed(2))


TRIPLES = torch.tensor([[0, 1, 0], [1, 0, 0], [2, 3, 1], [3, 2, 1], [4, 9, 2], [9, 4, 2]])
TURNED = {"none": [False] * 3, "all": [True] * 3, "some": [False, True, False]}


@pytest.mark.parametrize("kind", ["hadamard", "dot", "multi-dot", "distance"])
@pytest.mark.parametrize("turned", TURNED.values(), ids=TURNED)
@pytest.mark.parametrize("sketch", [0, SKETCH])
def test_a_plain_decoder_per_relation_scores_alike(kind: str, turned: list[bool], sketch: int) -> None:
    model, y = built(kind, turned, sketch=sketch), rows(sketch)
    together = model.logits(y, TRIPLES, None)  # type: ignore[arg-type]
    for place, (source, target, relation) in enumerate(TRIPLES.tolist()):
        alone = model.decoder_of(relation)(y[source], y[target])
        torch.testing.assert_close(together[place], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("turned", TURNED.values(), ids=TURNED)
def test_only_turned_relations_have_a_direction(turned: list[bool]) -> None:
    scores = built("hadamard", turned).logits(rows(), TRIPLES, None).view(3, 2)  # type: ignore[arg-type]
    for (forth, back), directed in zip(scores.tolist(), turned, strict=True):
        assert (abs(forth - back) > 1e-4) == directed


def test_fresh_maps_leave_the_shared_decoder_as_it_is() -> None:
    torch.manual_seed(0)
    decoder = build_decoder(DecoderSettings(), SIZE, directed=False)
    model = RelationModel(torch.nn.Identity(), decoder, RelationMaps(SIZE, [False] * 3))  # type: ignore[arg-type]
    y = rows()
    torch.testing.assert_close(model.logits(y, TRIPLES, None), decoder.of_pairs(y, TRIPLES[:, :2]))  # type: ignore[arg-type]


@pytest.mark.parametrize("turned", TURNED.values(), ids=TURNED)
def test_gradients_reach_rows_and_all_parameters(turned: list[bool]) -> None:
    model, y = built("hadamard", turned), rows().requires_grad_()
    model.logits(y, TRIPLES[:, None].expand(6, 2, 3), None).square().sum().backward()  # type: ignore[arg-type]
    for tensor in (y, *model.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.any()
