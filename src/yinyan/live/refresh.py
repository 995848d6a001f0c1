"""Passes over the whole live graph in the background, before rows that are followed one by one differ from them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.live.live_state import LiveState, Measured
from yinyan.live.renewal import Renewal, renewal_for
from yinyan.live.structure import Effect
from yinyan.model.inference import is_finite
from yinyan.retrieval.exact import ExactSearch, TopK
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["Refresher", "measured", "top_overlap"]

Rows = NDArray[np.int64]

_log = logging.getLogger("yinyan.service")

_SHARE = 0.002  # changed links, as a share of all, after which a pass begins; it adapts to what passes find
_SHARES = (0.0005, 0.02)  # between which it adapts
_OVERLAP = 0.99  # share of the ten best partners that has to be right when a pass begins
_RELAXED = 0.996  # above, passes may be rarer
_OUTRUN = 3.0  # times the share, from which on a change is made by a pass of its own
_PATIENT = 0.8  # of that, from which on writes wait for the pass that is under way
_SAMPLE = 64  # nodes whose best partners are compared
_TOP = 10


class Refresher:
    """Decides when a pass is due, makes it in a thread, and measures there what it has corrected.

    All methods but those of the thread are called by the keeper's.
    """

    def __init__(self) -> None:
        self.share = _SHARE
        self._thread: threading.Thread | None = None
        self._is_made = threading.Event()  # the pass has ended, and is measured next
        self._is_taken = self._is_outdated = False
        self._made: Renewal | None = None
        self._measured: Measured | None = None
        self._missed: list[Effect] = []

    @property
    def is_passing(self) -> bool:
        """Whether a pass is under way, or has ended and waits to be taken up."""
        return self._thread is not None and not self._is_taken

    def note(self, renewal: Renewal | None, state: LiveState, effects: Sequence[Effect]) -> None:
        """Changes were made, and `state` shows them: a pass begins where many have come together."""
        if self.is_passing:
            self._missed += effects
        elif self._thread is None and renewal is not None and renewal.changed > self.share * state.structure.num_links:
            self._is_made.clear()
            self._is_taken = self._is_outdated = False
            self._made, self._measured, self._missed = None, None, []
            self._thread = threading.Thread(target=self._run, args=(state,), name="refresh", daemon=True)
            self._thread.start()

    def limit(self, state: LiveState) -> float:
        """How many links may change after a pass over all rows, before the next one has to be waited for."""
        return _OUTRUN * self.share * state.structure.num_links

    def is_outrun(self, renewal: Renewal | None, state: LiveState) -> bool:
        """Whether so much has changed since the last pass that the one under way has to be waited for."""
        return self.is_passing and renewal is not None and renewal.changed > _PATIENT * self.limit(state)

    def outdate(self) -> None:
        """There was a pass over all rows meanwhile: the one under way only measures."""
        self._is_outdated = True

    def wait(self, seconds: float) -> None:
        """Wait for the pass that is under way."""
        self._is_made.wait(seconds)

    def join(self) -> None:
        """Wait for the end of the thread."""
        if self._thread is not None:
            self._thread.join()

    def taken(self) -> tuple[Renewal, list[Effect]] | None:
        """The pass that has ended, and what it missed; None where there is none."""
        if not self.is_passing or not self._is_made.is_set():
            return None
        self._is_taken = True
        made, self._made = self._made, None
        return None if made is None or self._is_outdated else (made, self._missed)

    def measured(self) -> Measured | None:
        """What was measured of the last pass, once; the share of changes before the next one adapts to it."""
        if self._thread is None or not self._is_taken or self._thread.is_alive():
            return None
        self._thread, found = None, self._measured
        if found is not None:
            self._adapt(found.overlap)
        return found

    def _adapt(self, overlap: float) -> None:
        if overlap < _OVERLAP:
            self.share *= max(0.25, 0.5 * (1 - _OVERLAP) / (1 - overlap))
        elif overlap > _RELAXED:
            self.share *= 1.1
        self.share = min(max(self.share, _SHARES[0]), _SHARES[1])

    def _run(self, state: LiveState) -> None:
        try:
            made = renewal_for(state.served.fitted, state.structure, state.inputs)
            rows = made.values
            if not is_finite(rows):
                raise ValueError("the embeddings are not finite")
            self._made = made
            self._is_made.set()  # what follows keeps nobody waiting
            self._measured = measured(state, rows)
        except Exception:  # the rows that are followed one by one still answer
            _log.exception("the embeddings could not be computed anew")
        finally:
            self._is_made.set()


def measured(state: LiveState, fresh: Tensor, sample: int = _SAMPLE) -> Measured:
    """How far the rows of a state are from those of a pass over its graph."""
    live = state.snapshot.merged()
    apart = (live - fresh).norm(dim=1) / fresh.norm(dim=1).clamp(min=torch.finfo(fresh.dtype).tiny)
    if not apart.numel():
        return Measured(0.0, 0.0, 1.0)
    return Measured(float(apart.mean()), float(apart.max()), top_overlap(state, fresh, sample))


def top_overlap(state: LiveState, fresh: Tensor, sample: int = _SAMPLE, k: int = _TOP) -> float:
    """The share of the k best partners of a sample of nodes, exactly searched, that live and fresh rows agree on."""
    n, left = state.num_nodes, state.num_left
    drawn = np.sort(np.random.default_rng(state.version).choice(n, min(n, sample), replace=False))
    sides: list[tuple[Rows, Rows | None]] = [(drawn, None)]
    if left is not None:
        sides = [(drawn[drawn < left], np.arange(left, n)), (drawn[drawn >= left], np.arange(left))]
    shares: list[float] = []
    for sources, pool in sides:
        found = [
            _best(state, Snapshot.of(rows, check=False), sources, k, pool) for rows in (state.snapshot.merged(), fresh)
        ]
        for one, other in zip(*found, strict=True):
            if other.rows.size:
                shares.append(np.intersect1d(one.rows, other.rows).size / other.rows.size)
    return float(np.mean(shares)) if shares else 1.0


def _best(state: LiveState, rows: Snapshot, sources: Rows, k: int, pool: Rows | None) -> list[TopK]:
    if not sources.size:
        return []
    search = ExactSearch(state.decoder, screen=False)
    return search.top_k(rows, sources, k, lambda row: state.left_out(row, True), pool)
