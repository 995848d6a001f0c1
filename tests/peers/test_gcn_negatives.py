"""The graph convolution over links less non-links."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layered_contract import HIDDEN, LINKS, LayeredContract
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.peers import gcn_negatives
from yinyan.peers.gcn_negatives import GCNWithNegatives
from yinyan.sampling import KnownPairs


class TestGCNWithNegatives(LayeredContract):
    """Without negative graphs it is a plain stack of layers."""

    name = "gcn-negatives"
    kind = GCNWithNegatives
    needs_geometric = False

    @pytest.mark.parametrize("count", [1, 3])
    def test_equals_its_equation(self, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        drawn = watched_draws(monkeypatch)
        encoder = self.encoder(num_negatives=count, repulsion=0.4)
        messages, f = MessageGraph.from_pairs(LINKS, 9), torch.randn(9, 16)
        links = encoder.links(messages, HIDDEN, torch.Generator().manual_seed(3))
        assert [len(pairs) for pairs in drawn] == [int((~HIDDEN).sum())] * count
        signed = normalised(LINKS[~HIDDEN], loops=True) - 0.4 / count * sum(normalised(pairs) for pairs in drawn)
        (w1, b1), (w2, b2) = ((layer.linear.weight.T, layer.linear.bias) for layer in encoder.layers)
        expected = signed @ torch.relu(signed @ f @ w1 + b1) @ w2 + b2
        torch.testing.assert_close(encoder.stacked(f, links, None), expected)

    def test_non_links_are_no_visible_links(self, monkeypatch: pytest.MonkeyPatch) -> None:
        drawn = watched_draws(monkeypatch)
        messages = MessageGraph.from_pairs(LINKS, 9)
        generator = torch.Generator().manual_seed(0)
        for _ in range(50):
            self.encoder(num_negatives=1).links(messages, HIDDEN, generator)
        pairs = torch.cat(drawn)
        assert not KnownPairs.from_pairs(LINKS[~HIDDEN], 9).contains(pairs).any()
        assert KnownPairs.from_pairs(LINKS[HIDDEN], 9).contains(pairs).any()  # a hidden link is as good as absent
        assert (pairs[:, 0] != pairs[:, 1]).all()

    def test_needs_a_generator(self) -> None:
        with pytest.raises(ValueError, match="need a generator"):
            self.encoder(num_negatives=1)(None, self.messages())

    def test_tells_its_repulsion(self) -> None:
        assert self.encoder(num_negatives=2, repulsion=0.7).repulsion().tolist() == [pytest.approx(0.7)]
        assert self.encoder().repulsion().numel() == 0


def watched_draws(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The non-links of every draw from here on."""
    drawn: list[Tensor] = []
    draw = gcn_negatives.draw_pairs

    def watched(*given: Any, **options: Any) -> Tensor:
        drawn.append(draw(*given, **options))
        return drawn[-1]

    monkeypatch.setattr(gcn_negatives, "draw_pairs", watched)
    return drawn


def normalised(pairs: Tensor, *, loops: bool = False) -> Tensor:
    """D^-1/2 A D^-1/2 by definition; repeated pairs add up."""
    matrix = torch.eye(9) if loops else torch.zeros(9, 9)
    for a, b in pairs.tolist():
        matrix[a, b] += 1
        matrix[b, a] += 1
    degrees = matrix.sum(1)
    scale = torch.where(degrees > 0, degrees.clamp(min=1).rsqrt(), 0.0)
    return scale[:, None] * matrix * scale
