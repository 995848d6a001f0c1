"""The optimiser: the same updates as torch's AdamW, with a state that can be put back."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch import nn

from yinyan.training.adam import Adam, Group


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


def test_a_fit_does_not_import_the_compiler_of_torch() -> None:
    """It takes most of a second, a third of a small fit."""
    code = (
        "import sys, numpy as np, yinyan\n"
        "pairs = np.random.default_rng(0).integers(0, 60, (300, 2))\n"
        "yinyan.LinkPredictor(epochs=1).fit(yinyan.Graph.from_arrays(pairs[pairs[:, 0] != pairs[:, 1]]))\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
