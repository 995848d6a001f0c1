"""Decoders: one contract for all kinds, and what is particular to each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from contracts import DecoderContract
from yinyan.errors import SettingsError
from yinyan.model.decoder import Decoder, DistanceDecoder, DotDecoder, HadamardMLP, MultiDotDecoder, build_decoder
from yinyan.settings import DecoderSettings


class TestHadamard(DecoderContract):
    kind = "hadamard"

    def test_is_an_mlp_of_the_product(self) -> None:
        decoder = self.build(depth=3, residual=False, norm=False)
        assert isinstance(decoder, HadamardMLP)
        x = self.rows(5) * self.rows(5, seed=1)
        for linear in decoder.hidden:
            x = F.relu(x @ linear.weight.T + linear.bias)
        wanted = (x @ decoder.output.weight.T + decoder.output.bias)[:, 0]
        torch.testing.assert_close(decoder(self.rows(5), self.rows(5, seed=1)), wanted)

    def test_residual_and_norm(self) -> None:
        decoder = self.build(depth=3, width=self.size)
        assert isinstance(decoder, HadamardMLP)
        x = self.rows(5) * self.rows(5, seed=1)
        for linear in decoder.hidden:
            x = x + F.relu(F.layer_norm(x @ linear.weight.T + linear.bias, (self.size,)))
        wanted = (x @ decoder.output.weight.T + decoder.output.bias)[:, 0]
        torch.testing.assert_close(decoder(self.rows(5), self.rows(5, seed=1)), wanted)

    def test_depth_one_is_linear_in_the_product(self) -> None:
        decoder = self.build(depth=1)
        zero, one = decoder(torch.zeros(6).double(), self.rows(1)[0]), decoder(*self.rows(2))
        torch.testing.assert_close(decoder(3 * self.rows(2)[0], self.rows(2)[1]) - zero, 3 * (one - zero))

    @pytest.mark.parametrize(
        ("name", "first", "second"),
        [("depth", 2, 3), ("width", 8, 16), ("residual", True, False), ("norm", True, False)],
    )
    def test_each_setting_matters(self, name: str, first: Any, second: Any) -> None:
        beside = {"width": self.size} if name == "residual" else {}
        made = [self.build(**{**beside, name: value}) for value in (first, second)]
        scores = [decoder(self.rows(5), self.rows(5, seed=1)) for decoder in made]
        assert not torch.allclose(*scores)

    def test_dropout_matters_in_training_only(self) -> None:
        decoder, pair = self.build(dropout=0.5), (self.rows(50), self.rows(50, seed=1))
        without = self.build(dropout=0.0)
        torch.testing.assert_close(decoder(*pair), without(*pair))
        torch.testing.assert_close(without(*pair, torch.Generator().manual_seed(0)), without(*pair))
        assert not torch.allclose(decoder(*pair, torch.Generator().manual_seed(0)), decoder(*pair))

    def test_no_residual_across_different_widths(self) -> None:
        """A residual needs equal shapes: from six columns to eight there is none, and settings agree."""
        scores = [self.build(width=8, residual=value)(self.rows(5), self.rows(5, seed=1)) for value in (True, False)]
        torch.testing.assert_close(*scores)


class TestDot(DecoderContract):
    kind = "dot"

    def test_is_a_scaled_inner_product(self) -> None:
        decoder = self.build()
        assert isinstance(decoder, DotDecoder)
        wanted = (self.rows(5) * self.rows(5, seed=1)).sum(1) / self.size**0.5
        torch.testing.assert_close(decoder(self.rows(5), self.rows(5, seed=1)), wanted, rtol=1e-6, atol=1e-6)

    def test_ranks_as_the_inner_product_whatever_it_learned(self) -> None:
        decoder = self.build()
        for parameter in decoder.parameters():
            parameter.data.fill_(-2.0)
        source, targets = self.rows(1)[0], self.rows(30, seed=1)
        assert torch.equal(decoder(source, targets).argsort(), (targets @ source).argsort())


class TestMultiDot(DecoderContract):
    kind = "multi-dot"

    def build(self, *, directed: bool = False, **options: Any) -> MultiDotDecoder:
        decoder = super().build(directed=directed, **{"heads": 3, **options})
        assert isinstance(decoder, MultiDotDecoder)
        return decoder

    def test_adds_a_hidden_layer_to_the_sum_of_its_heads(self) -> None:
        decoder = self.build(heads=2)
        assert decoder.hidden is not None
        assert decoder.output is not None
        products = decoder.weight * self.rows(5) * self.rows(5, seed=1)
        dots = torch.stack([products[:, :3].sum(1), products[:, 3:].sum(1)], dim=1)
        units = F.relu(dots @ decoder.hidden.weight.T + decoder.hidden.bias)
        wanted = dots.sum(1) + (units @ decoder.output.weight.T)[:, 0] + decoder.bias
        torch.testing.assert_close(decoder(self.rows(5), self.rows(5, seed=1)), wanted)

    def test_one_head_is_a_signed_inner_product(self) -> None:
        decoder = self.build(heads=1)
        decoder.weight.data.copy_(torch.tensor([1.0, -1.0, 0.5, -2.0, 0.0, 3.0]))
        wanted = (self.rows(5) * decoder.weight * self.rows(5, seed=1)).sum(1)
        torch.testing.assert_close(decoder(self.rows(5), self.rows(5, seed=1)), wanted)
        assert decoder.hidden is None

    @pytest.mark.parametrize("directed", [False, True])
    @pytest.mark.parametrize("heads", [1, 4])
    def test_a_block_is_products_of_matrices(self, heads: int, directed: bool) -> None:
        decoder, left, right = self.build(heads=heads, directed=directed), self.rows(3), self.rows(4, seed=1)
        torch.testing.assert_close(decoder.of_block(left, right), decoder(left[:, None], right[None]))

    @pytest.mark.parametrize("directed", [False, True])
    @pytest.mark.parametrize("heads", [1, 4])
    def test_folds_into_a_hadamard_mlp(self, heads: int, directed: bool) -> None:
        decoder, pair = self.build(heads=heads, directed=directed), (self.rows(9), self.rows(9, seed=1))
        for parameter in decoder.parameters():
            parameter.data.normal_()
        folded = decoder.folded()
        assert len(folded.hidden) == (heads > 1)
        torch.testing.assert_close(folded(*pair), decoder(*pair))

    def test_dropout_matters_in_training_only(self) -> None:
        decoder, pair = self.build(dropout=0.5), (self.rows(50), self.rows(50, seed=1))
        torch.testing.assert_close(decoder(*pair), self.build(dropout=0.0)(*pair))
        assert not torch.allclose(decoder(*pair, torch.Generator().manual_seed(0)), decoder(*pair))

    def test_more_heads_than_columns_are_refused(self) -> None:
        with pytest.raises(SettingsError, match=r"decoder\.heads: each head needs a column.*got 7 heads and 6 columns"):
            self.build(heads=7)


class TestDistance(DecoderContract):
    kind = "distance"

    def test_falls_with_the_distance(self) -> None:
        decoder = self.build()
        assert isinstance(decoder, DistanceDecoder)
        start, way = self.rows(2)
        scores = [decoder(start, start + step * way).item() for step in (0.0, 0.5, 1.0, 2.0)]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == pytest.approx(2.0)
        wanted = 2 - (self.rows(5) - self.rows(5, seed=1)).square().sum(1) / self.size
        torch.testing.assert_close(decoder(self.rows(5), self.rows(5, seed=1)), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["hadamard", "dot", "multi-dot", "distance"])
def test_a_symmetric_decoder_on_directed_data_must_be_asked_for(kind: Any) -> None:
    with pytest.raises(SettingsError, match=r"decoder\.directed_maps: a symmetric decoder.*allow_symmetric = true"):
        build_decoder(DecoderSettings(kind=kind, directed_maps=False), 4, directed=True)
    asked = DecoderSettings(kind=kind, directed_maps=False, allow_symmetric=True)
    assert build_decoder(asked, 4, directed=True).is_symmetric
    assert build_decoder(DecoderSettings(kind=kind, directed_maps=False), 4, directed=False).is_symmetric


def test_a_decoder_must_say_how_it_scores() -> None:
    with pytest.raises(NotImplementedError):
        Decoder(4, directed=False)(torch.zeros(4), torch.zeros(4))
