"""The optimiser: the same updates as torch's AdamW, with a state that can be put back."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from yinyan.training import adam
from yinyan.training.adam import Adagrad, Adam, Group


def weights(seed: int = 0) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(size, generator=generator)) for size in ((3, 4), (5,), ())]


def with_gradients(params: list[nn.Parameter], step: int) -> None:
    generator = torch.Generator().manual_seed(100 + step)
    for param in params:
        param.grad = torch.randn(param.shape, generator=generator)


def test_updates_are_those_of_torch() -> None:
    ours, theirs = weights(), weights()
    optimizer = Adam([Group(ours[:2], 0.5), Group(ours[2:], 0.0, pace=10.0)])
    reference = torch.optim.AdamW(
        [{"params": theirs[:2], "weight_decay": 0.5}, {"params": theirs[2:], "weight_decay": 0.0}], lr=1.0
    )
    for step, rate in enumerate((0.01, 0.02, 0.005)):
        with_gradients(ours, step)
        with_gradients(theirs, step)
        optimizer.step(rate)
        for group, pace in zip(reference.param_groups, (1.0, 10.0), strict=True):
            group["lr"] = rate * pace
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)


def test_adagrad_is_that_of_torch_and_goes_on_from_its_state() -> None:
    ours, theirs = weights(), weights()
    optimizer = Adagrad([Group(ours, 0.0)])
    reference = torch.optim.Adagrad(theirs, lr=0.1)
    for step in range(4):
        if step == 2:
            state = {name: value.clone() for name, value in optimizer.state().items()}
            optimizer = Adagrad([Group(ours, 0.0)])
            optimizer.restore(state)
        with_gradients(ours, step)
        with_gradients(theirs, step)
        optimizer.step(0.1)
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)


def test_a_weight_without_a_gradient_stays() -> None:
    params = weights()
    before = params[1].detach().clone()
    optimizer = Adam([Group(params, 0.5)])
    with_gradients(params, 0)
    params[1].grad = None
    optimizer.step(0.1)
    assert torch.equal(params[1], before)
    assert not torch.equal(params[0], weights()[0])
    optimizer.zero_grad()
    assert all(param.grad is None for param in params)


def test_a_restored_state_goes_on_alike() -> None:
    straight, stopped = weights(), weights()
    first, second = (Adam([Group(params, 0.1)]) for params in (straight, stopped))
    for step in range(2):
        for params, optimizer in ((straight, first), (stopped, second)):
            with_gradients(params, step)
            optimizer.step(0.1)
    resumed = Adam([Group(stopped, 0.1)])
    resumed.restore({name: value.clone() for name, value in second.state().items()})
    for params, optimizer in ((straight, first), (stopped, resumed)):
        with_gradients(params, 9)
        optimizer.step(0.1)
    for mine, other in zip(straight, stopped, strict=True):
        assert torch.equal(mine, other)


class TestByRows:
    """One second moment per row, first moments in bfloat16."""

    @staticmethod
    def stepped(params: list[nn.Parameter], *, by_rows: bool, steps: int = 4, same: bool = True) -> list[nn.Parameter]:
        optimizer = Adam([Group(params, 0.5, by_rows=by_rows)])
        for step in range(steps):
            with_gradients(params, step)
            for param in params:
                if same and param.grad is not None:  # of one size in a row, so that its mean is each one's own
                    param.grad = param.grad.sign() * param.grad.abs().mean(-1, keepdim=True)
            optimizer.step(0.1)
        return params

    def test_rows_of_equal_gradients_move_as_without(self) -> None:
        mine, other = (self.stepped(weights()[:1], by_rows=by_rows)[0] for by_rows in (True, False))
        torch.testing.assert_close(mine, other, rtol=0.01, atol=0.01)  # of bfloat16
        assert not torch.equal(mine, weights()[0])

    def test_a_row_moves_by_its_own_gradients_alone(self) -> None:
        params = weights()[:1]
        optimizer = Adam([Group(params, 0.0, by_rows=True)])
        params[0].grad = torch.tensor([[3.0, 0.0, 0.0, 4.0], [0.0] * 4, [1e-3] * 4])
        before = params[0].detach().clone()
        optimizer.step(0.1)
        moved = params[0].detach() - before
        expected = torch.tensor([[-0.12, 0.0, 0.0, -0.16], [0.0] * 4, [-0.1] * 4])  # -.1 g / root of the mean square
        torch.testing.assert_close(moved, expected, rtol=5e-3, atol=1e-4)

    def test_blocks_of_rows_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = self.stepped(weights()[:1], by_rows=True, same=False)[0]
        monkeypatch.setattr(adam, "_BLOCK_ROWS", 2)
        assert torch.equal(whole, self.stepped(weights()[:1], by_rows=True, same=False)[0])

    def test_takes_a_quarter_of_the_memory(self) -> None:
        sizes = []
        for by_rows in (False, True):
            params = [nn.Parameter(torch.ones(1000, 128))]
            optimizer = Adam([Group(params, 0.0, by_rows=by_rows)])
            params[0].grad = torch.ones(1000, 128)
            optimizer.step(0.1)
            sizes.append(sum(value.numel() * value.element_size() for value in optimizer.state().values()))
        assert sizes[1] < 0.26 * sizes[0]

    def test_a_restored_state_goes_on_alike(self) -> None:
        straight, stopped = weights()[:1], weights()[:1]
        first, second = (Adam([Group(params, 0.1, by_rows=True)]) for params in (straight, stopped))
        for params, optimizer in ((straight, first), (stopped, second)):
            with_gradients(params, 0)
            optimizer.step(0.1)
        resumed = Adam([Group(stopped, 0.1, by_rows=True)])
        resumed.restore({name: value.clone() for name, value in second.state().items()})
        for params, optimizer in ((straight, first), (stopped, resumed)):
            with_gradients(params, 9)
            optimizer.step(0.1)
        assert torch.equal(straight[0], stopped[0])


def test_a_fit_does_not_import_the_compiler_of_torch() -> None:
    """It takes most of a second, a third of a small fit."""
    code = (
        "import sys, numpy as np, yinyan\n"
        "pairs = np.random.default_rng(0).integers(0, 60, (300, 2))\n"
        "yinyan.LinkPredictor(epochs=1).fit(yinyan.Graph.from_arrays(pairs[pairs[:, 0] != pairs[:, 1]]))\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
