"""Linear propagation equals its sum of powers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layered_contract import HIDDEN, LINKS
from peer_contract import PeerContract, small
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.peers.gae import LinearPropagation
from yinyan.settings import Settings


class TestGAE(PeerContract):
    name = "gae"


class TestOptimisedGAE(PeerContract):
    name = "optimised-gae"


def encoder(**changes: Any) -> LinearPropagation:
    torch.manual_seed(0)
    plain = {"inputs": "features", "num_steps": 3, "num_negatives": 0, "dropout": 0.0, "feature_dropout": 0.0}
    settings = Settings().updated(small(encoder={**plain, "output_norm": False, **changes}))
    return LinearPropagation(settings.encoder, 9, 5)


def normalised(links: Tensor) -> Tensor:
    """(D + I)^-1/2 (A + I) (D + I)^-1/2 by definition."""
    matrix = torch.eye(9)
    for a, b in links.tolist():
        matrix[a, b] = matrix[b, a] = 1
    scale = matrix.sum(1).rsqrt()
    return scale[:, None] * matrix * scale


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_its_sum_of_powers(steps: int, masked: bool) -> None:
    model, x = encoder(num_steps=steps), torch.randn(9, 5)
    model.mix.data = torch.randn(steps)
    model.base.bias.data.normal_()
    a = normalised(LINKS[~HIDDEN] if masked else LINKS)
    start = x @ model.base.feature_weight[0] + model.base.bias  # type: ignore[index]
    expected = sum(model.mix[i] * torch.linalg.matrix_power(a, i + 1) @ start for i in range(steps))
    hidden = HIDDEN if masked else None
    torch.testing.assert_close(model(x, MessageGraph.from_pairs(LINKS, 9), hidden=hidden), expected)


def test_starts_as_the_mean_of_the_powers() -> None:
    assert encoder(num_steps=4).mix.tolist() == [0.25] * 4


def test_hidden_links_pass_no_messages() -> None:
    x = torch.randn(9, 5, requires_grad=True)
    encoder()(x, MessageGraph.from_pairs(LINKS, 9), hidden=HIDDEN)[4].square().sum().backward()
    assert x.grad is not None
    heard = x.grad.abs().sum(1) > 0
    assert heard.tolist() == [row in (4, 5, 6) for row in range(9)], "0-1-2-3 and 4-5-6 are two worlds"


def test_norm_and_dropout_come_last() -> None:
    x, messages = torch.randn(9, 5), MessageGraph.from_pairs(LINKS, 9)
    plain, norm = encoder()(x, messages), encoder(output_norm=True)(x, messages)
    torch.testing.assert_close(norm, torch.nn.functional.layer_norm(plain, (16,)))
    model = encoder(dropout=0.5)
    assert torch.equal(model(x, messages), plain)
    first, again, other = (model(x, messages, drops=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
