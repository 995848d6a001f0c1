"""The graph that propagation.py measures on, and how a part of it becomes a task."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lib import common
from lib.graphs import in_local_order, synthetic
from yinyan.model.energy import EnergyTerms
from yinyan.model.layer import Layer
from yinyan.model.messages import MessageGraph
from yinyan.settings import EncoderSettings

NUM_STEPS, STEP_SIZE, HIDDEN_SHARE = 2, 0.3, 0.1


@dataclass(frozen=True)
class Case:
    """A graph and everything on it that several parts need."""

    pairs: Tensor  # (m, 2) as they came
    messages: MessageGraph  # the same in local order
    order_seconds: float
    features: Tensor  # (n, d)
    f: Tensor  # (n, d)
    y: Tensor  # (n, d), other than f: a layer in the midst of a descent reads both
    cotangent: Tensor  # (n, d)
    hidden: Tensor  # (m,)
    terms: EnergyTerms  # nothing hidden, sampled negatives, a constant repulsion

    @classmethod
    def make(cls, num_nodes: int, num_links: int, size: int, seed: int) -> Case:
        generator = torch.Generator().manual_seed(seed)
        pairs = synthetic(num_nodes, num_links, seed)
        started = time.perf_counter()
        moved = in_local_order(pairs, num_nodes)
        order_seconds = time.perf_counter() - started
        messages = MessageGraph.from_pairs(moved, num_nodes)
        dense = [torch.randn(num_nodes, size, generator=generator) for _ in range(4)]
        hidden = torch.rand(num_links, generator=generator) < HIDDEN_SHARE
        terms = messages.terms(settings(size), torch.tensor([0.3]), generator)
        return cls(pairs, messages, order_seconds, *dense, hidden, terms)

    @property
    def size(self) -> int:
        return self.f.shape[1]

    def layer(self) -> Layer:
        return Layer.of(self.terms, STEP_SIZE)

    def entries(self) -> int:
        """Stored entries of both matrices."""
        return sum(matrix.columns.numel() for matrix in self.layer().matrices)


def settings(size: int, **changes: Any) -> EncoderSettings:
    """K = 1 sampled negatives, f linear; the rest as it comes."""
    values: dict[str, Any] = {
        "inputs": "features",
        "hidden_size": size,
        "num_steps": NUM_STEPS,
        "step_size": STEP_SIZE,
        "num_negatives": 1,
        "sampler": "blocks",
        "expected_negatives": False,
        "output_norm": False,
    }
    return EncoderSettings(**(values | changes))


def without_gradients(task: common.Task) -> common.Task:
    """The task outside of autograd."""

    def run() -> object:
        with torch.no_grad():
            return task()

    return run


def forward_and_backward(model: nn.Module, embed: Callable[[], Tensor], cotangent: Tensor) -> common.Task:
    """Forward and backward; returns the gradient of the largest weight."""

    def run() -> Tensor | None:
        model.zero_grad(set_to_none=True)
        embed().backward(cotangent)
        return max(model.parameters(), key=Tensor.numel).grad

    return run


def demand_equal(first: Any, *others: Any, what: str) -> None:
    """A benchmark of two things that differ would say nothing."""
    for other in others:
        gap = float((first - other).abs().max() / first.abs().max())
        if gap > 1e-4:
            raise SystemExit(f"{what} differ by {gap:.2g} of their largest entry: nothing was measured")
