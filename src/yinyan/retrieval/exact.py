"""Exact top-k: every permitted pair is scored, or bounded by what it could score, in blocks of bounded size."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import InputError
from yinyan.model.decoder import Decoder, DotDecoder
from yinyan.native.retrieval_kernels import Collector, keep_best, select_above
from yinyan.retrieval.counting import num_reaching
from yinyan.retrieval.scorer import Scorer, dot_queries
from yinyan.retrieval.screening import Bounds, Screen
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["ExactSearch", "Excluded", "TopK", "best", "left_out_of"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
Excluded = Callable[[int], Rows]

_BLOCK = 1 << 20  # targets scored at a time: their scores take 4 MB, and threads meet once
_DOTS = 4096  # targets of a matrix product: the scores of _DOT_SOURCES stay in the second cache until they are compared
_DOT_SOURCES = 256  # sources of a matrix product
_WIDEST = 16  # times k: up to so many candidates of each are scored again together
_FIRST = 65_536  # targets that a first bar is taken from
_TOGETHER = 64  # sources that are folded at a time
_SCREENED = 16  # sources from which on a screen is worth making: it costs as much as scoring a few
_SCREENED_ROWS = 8192  # below, there is nothing to save
_FRONT = 2048  # rows of the largest bounds that are scored first: some have large bounds and small scores
_LEAST = float(np.finfo(np.float32).min)  # of all scores that are permitted
_TOLERANCE = 1e-5  # of scores whose last bits depend on their company, as a share of the largest


class TopK(NamedTuple):
    """Rows of the best candidates of one source, best first, and their scores."""

    rows: Rows
    scores: Scores


class ExactSearch:
    """Top-k by scoring all; `memory` bounds the bytes of scores held at a time.

    Whoever asks for many sources gets a screen (see `screening`), which takes about .28 of the bytes of the rows.
    """

    def __init__(self, decoder: Decoder, *, memory: int = 64 << 20, screen: bool = True) -> None:
        if memory < 1:
            raise InputError(f"'memory' needs to be a positive number of bytes (got {memory})")
        self.scorer = Scorer(decoder)
        self._block = max(1, min(_BLOCK, memory // 4))
        self._dots_block = max(1, min(_DOTS, memory // 4))
        self._together = max(1, min(_DOT_SOURCES, memory // (4 * self._dots_block)))
        self._may_screen = screen
        self._asked = 0  # sources so far
        self._screened: tuple[Tensor, Screen | None] | None = None  # the rows that were screened, and how
        self._lock = threading.Lock()

    def prepare(self, rows: Snapshot) -> int:
        """Make the screen at once, where there can be one, in place of after some questions; returns its bytes."""
        self._asked = max(self._asked, _SCREENED)
        screen = self._screen(rows.base)
        return 0 if screen is None else screen.num_bytes

    @torch.no_grad()
    def top_k(
        self,
        rows: Snapshot,
        sources: Rows,
        k: int,
        excluded: Excluded | None = None,
        pool: Rows | None = None,
    ) -> list[TopK]:
        """For each source the best of `pool` (sorted rows; all without), but for itself and the `excluded`."""
        left_out = [left_out_of(int(source), excluded) for source in sources]
        return self.top_k_of(rows, rows.gather(sources), k, left_out, pool)

    @torch.no_grad()
    def top_k_of(
        self, rows: Snapshot, own: Tensor, k: int, left_out: Sequence[Rows], pool: Rows | None = None
    ) -> list[TopK]:
        """The same for (s, row) stored vectors of sources, which need not stand in `rows`."""
        if type(self.scorer.decoder) is DotDecoder and self.scorer.decoder.structure is None and len(own) > 1:
            parts = range(0, len(own), self._together)
            return [
                top
                for at in parts
                for top in self._dots(rows, own[at : at + self._together], k, left_out[at : at + self._together], pool)
            ]
        self._asked += len(own)
        screen = None if pool is not None else self._screen(rows.base)
        if screen is not None:
            bounds = (made for part in own.split(_TOGETHER) for made in self.scorer.bounds(screen, rows.base, part))
            return [self._by_bounds(made, rows, own[at], k, left_out[at]) for at, made in enumerate(bounds)]
        return [self._one(rows, own[place], k, left_out[place], pool) for place in range(len(own))]

    def reaching(
        self, rows: Snapshot, sources: Rows, bars: Sequence[Scores], left_out: Sequence[Rows], pool: Rows | None = None
    ) -> list[Rows]:
        """For each source how many rows score at least each of its bars, of rows that did not change since a build."""
        return self.reaching_of(rows.base, rows.gather(sources), bars, left_out, pool)

    def reaching_of(
        self, y: Tensor, own: Tensor, bars: Sequence[Scores], left_out: Sequence[Rows], pool: Rows | None = None
    ) -> list[Rows]:
        """The same for (s, row) stored vectors of sources."""
        several = zip(own, bars, left_out, strict=True)
        return [num_reaching(self.scorer, y, one, its, out, pool) for one, its, out in several]

    def _screen(self, y: Tensor) -> Screen | None:
        worth = self._may_screen and self._asked >= _SCREENED and y.shape[0] >= _SCREENED_ROWS
        if not worth or not self.scorer.can_be_screened(y):
            return None
        with self._lock:
            if self._screened is None or self._screened[0] is not y:
                self._screened = (y, Screen.of(y, self.scorer.decoder.size))
            return self._screened[1]

    def _by_bounds(self, bounds: Bounds, rows: Snapshot, own: Tensor, k: int, left_out: Rows) -> TopK:
        """As `_one`: rows whose bound stays below the k-th best score so far are not scored."""
        y, running = rows.base, Running(k, 0.0)
        self._add_changed(running, rows, own, left_out)
        for first in range(0, y.shape[0], self._block):
            last = min(first + self._block, y.shape[0])
            bound = _forbidden(bounds(first, last), rows, left_out, first)
            if running.bar == -np.inf and 0 < k < min(_FIRST, bound.size):
                best_bounds = torch.from_numpy(bound[:_FIRST]).topk(k)
                if np.isfinite(float(best_bounds.values[-1])):
                    running.bar = float(self.scorer.scores(y, own, best_bounds.indices.numpy() + first).min())
            chosen = select_above(bound, max(running.bar, _LEAST))
            few = max(2 * k, _FRONT)
            if chosen.size > 2 * few > 0:  # the most promising raise the bar for the others
                front = np.argpartition(bound[chosen], chosen.size - few)[chosen.size - few :]
                scores = self.scorer.scores(y, own, chosen[front] + first)
                running.bar = max(running.bar, float(np.partition(scores, few - k)[few - k]))  # k of them reach it
                chosen = chosen[bound[chosen] >= running.bar]
            running.add(chosen + first, self.scorer.scores(y, own, chosen + first))
        return running.settled(lambda chosen: self._canonical(rows, own, chosen))[0]

    def _one(self, rows: Snapshot, own: Tensor, k: int, left_out: Rows, pool: Rows | None) -> TopK:
        if pool is not None:
            return self._of_pool(rows, own, k, pool[~np.isin(pool, left_out) & ~rows.is_removed[pool]])
        y, tolerance = rows.base, self._tolerance(rows)
        while True:
            running = Running(k, tolerance)
            for first in range(0, y.shape[0], self._block):
                last = min(first + self._block, y.shape[0])
                scores = _forbidden(self.scorer.scores(y, own, None, first, last), rows, left_out, first)
                if running.bar == -np.inf:
                    running.start(scores[:_FIRST], k)
                running.add(np.arange(first, last), scores)
            self._add_changed(running, rows, own, left_out)
            found, error = running.settled(lambda chosen: self._canonical(rows, own, chosen))
            if 4 * error <= tolerance * running.scale or not tolerance:
                return found
            tolerance = 8 * error / running.scale

    def _of_pool(self, rows: Snapshot, own: Tensor, k: int, allowed: Rows) -> TopK:
        """The best of some rows."""
        running = Running(k, self._tolerance(rows))
        for begin in range(0, allowed.size, self._block):
            part = allowed[begin : begin + self._block]
            if rows.churn:
                scores = self.scorer.scores(rows.gather(part), own)
            else:
                scores = self.scorer.scores(rows.base, own, part)
            running.add(part, scores)
        return running.settled(lambda chosen: self._canonical(rows, own, chosen))[0]

    def _tolerance(self, rows: Snapshot) -> float:
        return 0.0 if self.scorer.is_canonical(rows.base) else _TOLERANCE

    def _add_changed(self, running: Running, rows: Snapshot, own: Tensor, left_out: Rows) -> None:
        """What was changed or added since the build, scored in full."""
        if rows.extra_rows.size:
            scores = self.scorer.scores(rows.extra, own)
            scores[rows.extra_rows < 0] = scores[rows.extra_places(left_out)] = -np.inf
            running.add(rows.extra_rows, scores)

    def _canonical(self, rows: Snapshot, own: Tensor, chosen: Rows) -> Scores:
        if not rows.churn:
            return self.scorer.canonical(rows.base, own, chosen)
        return self.scorer.canonical(rows.gather(chosen), own, np.arange(chosen.size))

    def _dots(self, rows: Snapshot, own: Tensor, k: int, left_out: Sequence[Rows], pool: Rows | None) -> list[TopK]:
        """Several sources at once: their scores of a block are one matrix product, of which a kernel keeps the best."""
        decoder, size = self.scorer.decoder, self.scorer.decoder.size
        queries, scale = dot_queries(decoder, own), max(1.0, abs(float(decoder.bias)))  # type: ignore[arg-type]
        kept = Collector(k, left_out, _TOLERANCE, scale) if self.scorer.is_compiled(rows.base) else None
        running = [Running(k, _TOLERANCE, scale) for _ in left_out]
        room = own.new_empty(len(left_out) * self._dots_block)
        for numbers, block in _blocks(rows, pool, self._dots_block):
            out = room[: len(left_out) * block.shape[0]].view(len(left_out), block.shape[0])
            products = torch.mm(queries, block[:, :size].t(), out=out).cpu().numpy()  # the bias orders nothing
            if kept is not None:
                kept.add(products, numbers)
                continue
            for place, collected in enumerate(running):
                allowed = ~np.isin(numbers, left_out[place])
                collected.add(numbers[allowed], products[place, allowed])
        if kept is not None:
            return self._settled(rows, own, k, kept)
        return [
            r.settled(lambda chosen, place=place: self._canonical(rows, own[place], chosen))[0]  # type: ignore[misc]
            for place, r in enumerate(running)
        ]

    def _settled(self, rows: Snapshot, own: Tensor, k: int, kept: Collector) -> list[TopK]:
        """The best of what was kept, by canonical scores."""
        try:
            found = kept.rows()
        except FloatingPointError as error:
            raise _not_a_number(error.args[0]) from None
        most = max(each.size for each in found)
        if rows.churn or most > _WIDEST * k:  # one after the other: many equal scores would make a large table
            return [best(each, self._canonical(rows, own[at], each), k) for at, each in enumerate(found)]
        table = np.full((len(found), max(1, most)), -1, dtype=np.int64)
        for at, each in enumerate(found):
            table[at, : each.size] = each
        numbers, scores = keep_best(table, self.scorer.candidates(rows.base, own, table), k)
        counts = (numbers >= 0).sum(1).tolist()
        return [TopK(numbers[at, :c].copy(), scores[at, :c].copy()) for at, c in enumerate(counts)]


class Running:
    """The best of what has been added so far, with those that rounding might lift above them."""

    def __init__(self, k: int, tolerance: float, scale: float = 1.0) -> None:
        self.k, self.tolerance = k, tolerance
        self.bar, self.scale = -np.inf, scale
        self._rows: list[Rows] = []
        self._scores: list[Scores] = []
        self._count = 0

    def start(self, scores: Scores, count: int) -> None:
        """Take the bar from a first block of scores: `count` of them reach it."""
        if count < scores.size and not np.isnan(scores).any():
            least = float(torch.from_numpy(scores).topk(count).values[-1])
            if np.isfinite(least):
                self.scale = max(self.scale, float(np.abs(scores[np.isfinite(scores)]).max()))
                self.bar = least - self.tolerance * self.scale

    def add(self, rows: Rows, scores: Scores) -> None:
        """Some rows and their scores; -inf marks what is not permitted."""
        chosen = select_above(scores, self.bar if np.isfinite(self.bar) else _LEAST)
        if np.isnan(scores[chosen]).any():
            raise _not_a_number(rows[chosen][np.isnan(scores[chosen])][0])
        if chosen.size:
            self._rows.append(rows[chosen])
            self._scores.append(scores[chosen])
            self._count += chosen.size
        if self._count > 2 * self.k + 1024:
            self._tighten()

    def _tighten(self) -> None:
        rows, scores = np.concatenate(self._rows), np.concatenate(self._scores)
        if scores.size > self.k:
            self.scale = max(self.scale, float(np.abs(scores).max()))
            least = np.partition(scores, scores.size - self.k)[scores.size - self.k]
            self.bar = least - self.tolerance * self.scale
            kept = scores >= self.bar
            rows, scores = rows[kept], scores[kept]
        self._rows, self._scores, self._count = [rows], [scores], 0  # counted anew: many equal ones all stay

    def settled(self, canonical: Callable[[Rows], Scores]) -> tuple[TopK, float]:
        """The k best by canonical scores, and how far the others were from these."""
        if not self._rows:
            return TopK(np.empty(0, np.int64), np.empty(0, np.float32)), 0.0
        self._tighten()
        order = np.argsort(self._rows[0])  # rows that were changed came last
        rows, scores = self._rows[0][order], self._scores[0][order]
        if not self.tolerance:
            return best(rows, scores, self.k), 0.0
        final = canonical(rows)
        return best(rows, final, self.k), float(np.abs(final - scores).max(initial=0))


def _not_a_number(row: int) -> InputError:
    return InputError(f"the score of row {row:,} is not a number: its embedding or the source's is not finite")


def best(candidates: Rows, scores: Scores, k: int) -> TopK:
    """The `k` largest scores; equal ones in the order of the rows, whichever block they came from."""
    if k < scores.size:
        bar = np.partition(scores, scores.size - k)[scores.size - k]
        above = np.flatnonzero(scores > bar)
        level = np.flatnonzero(scores == bar)[: k - above.size]
        chosen = np.concatenate([above, level])
        candidates, scores = candidates[chosen], scores[chosen]
    order = np.lexsort((candidates, -scores))
    return TopK(candidates[order], scores[order])


def left_out_of(source: int, excluded: Excluded | None) -> Rows:
    """Sorted rows that are no candidates of a source: itself, and those that the caller excludes."""
    own = np.array([source], dtype=np.int64)
    return own if excluded is None else np.unique(np.concatenate([own, excluded(source)]))


def _forbidden(values: Scores, rows: Snapshot, left_out: Rows, first: int) -> Scores:
    """Values of the rows from `first` on, with -inf for those that may not be found in them."""
    last = first + values.size
    begin, end = np.searchsorted(left_out, [first, last])
    values[left_out[begin:end] - first] = -np.inf
    if rows.churn:
        values[rows.is_stale[first:last]] = -np.inf
    return values


def _blocks(rows: Snapshot, pool: Rows | None, size: int) -> Iterator[tuple[Rows, Tensor]]:
    """Numbers and rows of everything that may be found, some at a time."""
    if pool is None and not rows.churn:
        for first in range(0, rows.base.shape[0], size):
            block = rows.base[first : first + size]
            yield np.arange(first, first + block.shape[0]), block
        return
    everything = np.arange(rows.num_rows) if pool is None else pool
    permitted = everything[~rows.is_removed[everything]]
    for first in range(0, permitted.size, size):
        numbers = permitted[first : first + size]
        yield numbers, rows.gather(numbers)
