"""Rows of other processes: which ones are needed, and how they and their gradients travel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from yinyan.distributed.group import Group

__all__ = ["RowExchange"]


class RowExchange:
    """The rows of others that a process needs, in ascending order, and its own rows that others need.

    Process p owns the rows from starts[p] to starts[p + 1] - 1. It is the `Halo` of operators whose columns are this
    process's rows and, behind them, those needed.
    """

    def __init__(self, group: Group, starts: Tensor, wanted: Tensor) -> None:
        """`wanted` are row numbers of the whole graph, in any order, repeated or not, owned or not."""
        self.group = group
        self.first, last = int(starts[group.rank]), int(starts[group.rank + 1])
        self.num_own = last - self.first
        wanted = wanted.reshape(-1)
        self.rows = wanted[(wanted < self.first) | (wanted >= last)].unique()
        ends = torch.searchsorted(self.rows, starts.to(wanted.device))
        received = ends.diff()
        sent = group.exchange_counts(received)
        self.received, self.sent = received.tolist(), sent.tolist()
        asked = self.rows.new_empty(sum(self.sent))
        group.exchange(self.rows, self.received, asked, self.sent)
        self.places_sent = asked - self.first  # of own rows, in the order in which they are sent

    def places(self, rows: Tensor) -> Tensor:
        """Where rows of the whole graph stand among the own rows and those needed."""
        own = rows - self.first
        others = self.num_own + torch.searchsorted(self.rows, rows)
        return torch.where((own >= 0) & (own < self.num_own), own, others)

    def started(self, rows: Tensor) -> Callable[[], Tensor]:
        """Begin to exchange rows, which must not change meanwhile; the call waits, and returns all of them."""
        if self.group.size == 1:
            return lambda: rows
        whole: Tensor | None = getattr(rows, "whole", None)  # set by `buffer`
        if whole is None:
            whole = self._room(rows)
            whole[: self.num_own] = rows
        found = whole
        sent = rows.index_select(0, self.places_sent)
        wait = self.group.exchange_started(sent, self.sent, found[self.num_own :], self.received)

        def arrived() -> Tensor:
            wait()
            return found

        return arrived

    def extended(self, rows: Tensor) -> Tensor:
        """(own + needed, ...) this process's rows, and behind them those of the others."""
        return self.started(rows)()

    def fetched(self, rows: Tensor, size: int) -> Tensor:
        """The same, differentiable in the first `size` columns."""
        return _Fetched.apply(rows, self, size)  # type: ignore[no-any-return]

    def returned(self, slopes: Tensor) -> Tensor:
        """(own, d) gradients of own rows, given those of own and of needed rows: others' are sent back and added."""
        total = slopes[: self.num_own].clone()
        if self.group.size > 1:
            back = slopes.new_empty(len(self.places_sent), slopes.shape[1])
            self.group.exchange(slopes[self.num_own :].contiguous(), self.received, back, self.sent)
            total.index_add_(0, self.places_sent, back)  # process by process, row by row: in a fixed order
        return total

    def buffer(self, like: Tensor) -> Tensor:
        """An empty tensor of the same size, with room for the rows of others behind it."""
        whole = self._room(like)
        rows = whole[: self.num_own]
        rows.whole = whole  # type: ignore[attr-defined]
        return rows

    def summed(self, x: Tensor) -> Tensor:
        """The sum over the processes."""
        return self.group.summed(x)

    def share(self, x: Tensor) -> Tensor:
        """What this process adds to a sum, for an x that all hold."""
        return x / self.group.size

    def _room(self, rows: Tensor) -> Tensor:
        return rows.new_empty(self.num_own + len(self.rows), *rows.shape[1:])


class _Fetched(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: RowExchange, size: int) -> Tensor:
        ctx.exchange, ctx.size, ctx.width = exchange, size, rows.shape[1]
        return exchange.extended(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None, None]:
        found = ctx.exchange.returned(slopes[:, : ctx.size])
        if ctx.size < ctx.width:
            found = torch.cat([found, found.new_zeros(len(found), ctx.width - ctx.size)], dim=1)
        return found, None, None
