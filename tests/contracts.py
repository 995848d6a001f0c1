"""What every implementation of a role must do, inherited by the tests of each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from yinyan.decoder import Decoder, build_decoder
from yinyan.settings import DecoderSettings


class DecoderContract:
    """Scores pairs of embeddings: one at a time or many, either way round unless told otherwise."""

    kind: str
    size = 6

    def build(self, *, directed: bool = False, **options: Any) -> Decoder:
        torch.manual_seed(0)
        chosen = DecoderSettings(kind=self.kind, **{"width": 8, **options})  # type: ignore[arg-type]
        return build_decoder(chosen, self.size, directed=directed).double()

    @staticmethod
    def rows(count: int, *, seed: int = 0) -> Tensor:
        return torch.randn(count, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))

    @pytest.fixture(params=[False, True], ids=["undirected", "directed"])
    def decoder(self, request: pytest.FixtureRequest) -> Decoder:
        return self.build(directed=request.param)

    def test_symmetric_unless_directed(self, decoder: Decoder) -> None:
        sources, targets = self.rows(5), self.rows(5, seed=1)
        forth, back = decoder(sources, targets), decoder(targets, sources)
        if decoder.is_symmetric:
            torch.testing.assert_close(forth, back)
        else:
            assert ((forth - back).abs() > 1e-6).all()

    def test_is_directed_only_on_directed_data(self) -> None:
        assert self.build(directed=False, directed_maps=True).is_symmetric
        assert not self.build(directed=True, directed_maps=True).is_symmetric
        assert self.build(directed=True, directed_maps=False, allow_symmetric=True).is_symmetric

    def test_directed_maps_start_near_symmetric(self) -> None:
        directed, plain = self.build(directed=True), self.build()
        plain.load_state_dict({k: v for k, v in directed.state_dict().items() if not k.endswith("_map")})
        sources, targets = self.rows(50), self.rows(50, seed=1)
        together = torch.stack([directed(sources, targets), plain(sources, targets)])
        assert torch.corrcoef(together)[0, 1] > 0.8

    def test_batch_equals_single(self, decoder: Decoder) -> None:
        sources, targets = self.rows(5), self.rows(5, seed=1)
        singles = [decoder(s, t) for s, t in zip(sources, targets, strict=True)]
        assert singles[0].shape == ()
        torch.testing.assert_close(decoder(sources, targets), torch.stack(singles))

    def test_broadcasts(self, decoder: Decoder) -> None:
        sources, targets = self.rows(3), self.rows(4, seed=1)
        grid = decoder(sources[:, None], targets[None])
        assert grid.shape == (3, 4)
        for i in range(3):
            torch.testing.assert_close(grid[i], decoder(sources[i], targets))

    def test_no_pairs(self, decoder: Decoder) -> None:
        assert decoder(self.rows(0), self.rows(0)).shape == (0,)

    @pytest.mark.parametrize("precision", [torch.float32, torch.float64])
    def test_finite_at_extremes(self, decoder: Decoder, precision: torch.dtype) -> None:
        decoder = decoder.to(precision)
        large = torch.full((2, 6), 1e4, dtype=precision, requires_grad=True)
        for other in (large, -large, torch.zeros_like(large)):
            score = decoder(large, other)
            assert score.isfinite().all()
            (grad,) = torch.autograd.grad(score.sum(), large)
            assert grad.isfinite().all()

    def test_gradient_reaches_embeddings_and_parameters(self, decoder: Decoder) -> None:
        sources, targets = (self.rows(5, seed=s).requires_grad_() for s in (0, 1))
        decoder(sources, targets).square().sum().backward()
        for tensor in (sources, targets, *decoder.parameters()):
            assert tensor.grad is not None
            assert tensor.grad.any()

    def test_inference_is_deterministic(self, decoder: Decoder) -> None:
        sources, targets = self.rows(5), self.rows(5, seed=1)
        assert torch.equal(decoder(sources, targets), decoder(sources, targets))

    def test_can_learn_which_pairs_are_links(self, decoder: Decoder) -> None:
        """Equal embeddings are linked and opposite ones are not: every decoder must be able to say so."""
        y = self.rows(20)
        optimizer = torch.optim.Adam(decoder.parameters(), lr=0.02)
        for _ in range(60):
            loss = torch.nn.functional.softplus(torch.cat([-decoder(y, y), decoder(y, -y)])).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert decoder(y, y).min() > decoder(y, -y).max()

    def test_state_survives_a_reload(self, decoder: Decoder) -> None:
        torch.manual_seed(9)
        other = self.build(directed=not decoder.is_symmetric)
        for parameter in other.parameters():
            parameter.data.normal_()
        sources, targets = self.rows(5), self.rows(5, seed=1)
        assert not torch.allclose(other(sources, targets), decoder(sources, targets))
        other.load_state_dict(decoder.state_dict())
        assert torch.equal(other(sources, targets), decoder(sources, targets))
