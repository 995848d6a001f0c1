"""Named streams and the dropout they drive."""

from __future__ import annotations

import pytest
import torch

from yinyan.native import graph_kernels
from yinyan.randomness import Streams, dropout, named_seed, uniform_nodes

CPU = torch.device("cpu")


def draws(streams: Streams, use: str, count: int = 5) -> list[int]:
    return torch.randint(2**40, (count,), generator=streams[use]).tolist()


class TestNamedSeed:
    def test_is_stable_across_releases(self) -> None:
        """A saved model's split must come back: these numbers may never change."""
        assert named_seed(0, "split") == 8_002_339_936_503_433_115
        assert named_seed(1, "split") == 7_849_952_764_585_313_339

    def test_differs_by_seed_and_by_use(self) -> None:
        seeds = {named_seed(seed, use) for seed in range(50) for use in Streams.uses}
        assert len(seeds) == 50 * len(Streams.uses)
        assert all(0 <= seed < 2**63 for seed in seeds)

    def test_neighbours_are_not_confused(self) -> None:
        assert named_seed(1, "1/x") != named_seed(11, "/x")


class TestStreams:
    def test_same_seed_same_draws(self) -> None:
        one, other = Streams(3, CPU), Streams(3, CPU)
        assert [draws(one, use) for use in Streams.uses] == [draws(other, use) for use in Streams.uses]

    def test_other_seed_other_draws(self) -> None:
        one, other = Streams(3, CPU), Streams(4, CPU)
        assert all(draws(one, use) != draws(other, use) for use in Streams.uses)

    def test_uses_do_not_share_draws(self) -> None:
        streams = Streams(3, CPU)
        assert len({tuple(draws(streams, use)) for use in Streams.uses}) == len(Streams.uses)

    def test_a_use_does_not_disturb_the_others(self) -> None:
        quiet, busy = Streams(3, CPU), Streams(3, CPU)
        draws(busy, "dropout", 100)
        assert draws(quiet, "batches") == draws(busy, "batches")

    def test_leaves_the_global_generator_alone(self) -> None:
        torch.manual_seed(5)
        wanted = torch.rand(3).tolist()
        torch.manual_seed(5)
        draws(Streams(3, CPU), "batches")
        assert torch.rand(3).tolist() == wanted

    def test_restore_goes_on_where_state_was_taken(self) -> None:
        streams = Streams(3, CPU)
        for use in Streams.uses:
            draws(streams, use, 7)
        saved = streams.state()
        wanted = [draws(streams, use) for use in Streams.uses]
        other = Streams(99, CPU)
        other.restore(saved)
        assert [draws(other, use) for use in Streams.uses] == wanted

    def test_unknown_use(self) -> None:
        with pytest.raises(KeyError):
            Streams(3, CPU)["weather"]

    def test_fresh_is_shared_by_nobody(self) -> None:
        streams, again = Streams(3, CPU), Streams.fresh(3, "batches", CPU)
        torch.randint(2**40, (5,), generator=Streams.fresh(3, "batches", CPU))
        assert draws(streams, "batches") == torch.randint(2**40, (5,), generator=again).tolist()


class TestDropout:
    def test_rate_zero_is_the_identity(self) -> None:
        x = torch.randn(3, 4)
        assert dropout(x, 0.0, torch.Generator()) is x

    def test_no_generator_is_the_identity(self) -> None:
        x = torch.randn(3, 4)
        assert dropout(x, 0.9, None) is x

    @pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.99])
    def test_keeps_the_expectation_and_drops_its_share(self, rate: float) -> None:
        generator = torch.Generator().manual_seed(1)
        dropped = dropout(torch.ones(1000, 1000, dtype=torch.float64), rate, generator)
        assert float(dropped.mean()) == pytest.approx(1.0, abs=0.05 if rate > 0.9 else 0.005)
        assert float((dropped == 0).double().mean()) == pytest.approx(rate, abs=0.004)  # a multiple of 1/256
        assert dropped.unique().numel() == 2

    def test_every_place_is_dropped_alike(self) -> None:
        generator = torch.Generator().manual_seed(1)
        kept = sum((dropout(torch.ones(3, 7), 0.5, generator) > 0).double() for _ in range(4000))
        assert isinstance(kept, torch.Tensor)
        assert ((kept / 4000 - 0.5).abs() < 0.04).all()

    def test_neighbouring_places_are_independent(self) -> None:
        generator = torch.Generator().manual_seed(1)
        kept = (dropout(torch.ones(4000, 16), 0.5, generator) > 0).double()
        correlation = torch.corrcoef(kept.T) - torch.eye(16, dtype=torch.float64)
        assert correlation.abs().max() < 0.08

    @pytest.mark.parametrize("shape", [(0,), (1,), (7,), (8,), (3, 5)])
    def test_any_shape_and_type(self, shape: tuple[int, ...]) -> None:
        for kind in (torch.float32, torch.float64):
            result = dropout(torch.ones(shape, dtype=kind), 0.5, torch.Generator().manual_seed(1))
            assert result.shape == shape
            assert result.dtype == kind

    def test_a_view_keeps_its_values(self) -> None:
        x = torch.arange(1.0, 13.0).view(3, 4).T  # not contiguous
        result = dropout(x, 0.5, torch.Generator().manual_seed(1))
        assert ((result == 0) | (result == 2 * x)).all()
        assert result.any()

    def test_gradient_passes_only_what_is_kept(self) -> None:
        x = torch.ones(50, requires_grad=True)
        result = dropout(x, 0.5, torch.Generator().manual_seed(1))
        result.sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad, result.detach())

    def test_same_generator_state_same_mask(self) -> None:
        first = dropout(torch.ones(40), 0.5, torch.Generator().manual_seed(1))
        again = dropout(torch.ones(40), 0.5, torch.Generator().manual_seed(1))
        other = dropout(torch.ones(40), 0.5, torch.Generator().manual_seed(2))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


class TestUniformNodes:
    @pytest.mark.parametrize("num_nodes", [1, 7, 2_900_000])
    def test_the_same_with_kernels_and_without(self, num_nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        def drawn() -> torch.Tensor:
            return uniform_nodes(num_nodes, 100_000, torch.Generator().manual_seed(5), torch.device("cpu"))

        ours = drawn()
        monkeypatch.setattr(graph_kernels, "library", lambda: None)
        assert torch.equal(ours, drawn())
        assert int(ours.min()) >= 0 and int(ours.max()) < num_nodes

    def test_is_uniform_and_independent(self) -> None:
        drawn = uniform_nodes(16, 320_000, torch.Generator().manual_seed(1), torch.device("cpu"))
        for chosen in (drawn, drawn[::2] * 16 + drawn[1::2]):  # single draws, and neighbouring ones together
            kinds = 16 if chosen is drawn else 256
            counts = torch.bincount(chosen, minlength=kinds).double()
            mean = len(chosen) / kinds
            chi_square = float(((counts - mean) ** 2 / mean).sum())
            assert abs(chi_square - (kinds - 1)) < 5 * (2 * (kinds - 1)) ** 0.5

    def test_goes_on_with_the_generator(self) -> None:
        generator = torch.Generator().manual_seed(1)
        first, second = (uniform_nodes(1000, 50, generator, torch.device("cpu")) for _ in range(2))
        assert not torch.equal(first, second)
