"""An index wraps a model: top-k within budgets, with a recall that was measured, kept up to date without a rebuild."""

from __future__ import annotations

import copy
import hashlib
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from yinyan.decoder import Decoder
from yinyan.errors import InputError, SettingsError
from yinyan.graph import Graph
from yinyan.results import Id, Recommendations
from yinyan.retrieval.asking import Where, checked_k, known_partners, recommended
from yinyan.retrieval.budgets import Budget, Sample, choose_effort
from yinyan.retrieval.exact import ExactSearch, Excluded, TopK
from yinyan.retrieval.flashlight import FlashlightSearch
from yinyan.retrieval.lists import Lists
from yinyan.retrieval.mips import MipsSearch
from yinyan.retrieval.probing import Effort, Probing
from yinyan.retrieval.queries import check_covered, check_linear, is_covered, is_linear, points_of, queries_at
from yinyan.retrieval.screening import Screen
from yinyan.retrieval.snapshot import Snapshot, checked_rows

__all__ = ["KINDS", "Index", "IndexMetadata", "build_index", "fingerprint", "search_of"]

Kind = Literal["auto", "exact", "mips", "flashlight"]
KINDS = ("auto", "exact", "mips", "flashlight")
Rows = NDArray[np.int64]

_EXACT_BELOW = 20_000  # nodes: there a scan of all takes about as long as a search
_SAMPLE = 64  # sources that recall is measured on; as many more choose the effort
_CHURN = 0.1  # share of rows changed since recall was measured, from which on it is asked for anew


@dataclass(frozen=True)
class IndexMetadata:
    """What an index is, and what was measured of it."""

    kind: str
    num_nodes: int
    columns: int  # of a stored row
    cells: int
    effort: dict[str, int] | None  # None: everything is scored
    promised_recall: float | None
    recall: float  # measured against exact
    k: int  # of the recall
    sample: int  # sources that it was measured on, none of which chose the effort
    milliseconds: float  # a source, in a batch of the sample
    exact_milliseconds: float
    bytes: int  # beside the embeddings
    bytes_share: float  # of the embeddings'
    fingerprint: str  # of decoder and embeddings
    seed: int

    @property
    def error(self) -> float:
        """A bound of the standard error of the measured recall."""
        return math.sqrt(self.recall * (1 - self.recall) / max(1, self.sample))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if self.effort is None:
            spent = f"{self.exact_milliseconds:.3g} ms a node"
            return f"exact index of {self.num_nodes:,} nodes: every candidate is scored ({spent})"
        return (
            f"{self.kind} index of {self.num_nodes:,} nodes: recall@{self.k} {self.recall:.4f} measured on "
            f"{self.sample} nodes, {self.milliseconds:.3g} ms a node ({self.exact_milliseconds:.3g} exact), "
            f"{self.bytes / 2**20:,.1f} MB ({self.bytes_share:.0%} of the embeddings), {self.cells:,} cells, "
            + ", ".join(f"{name} {value:,}" for name, value in self.effort.items())
        )


class _State(NamedTuple):
    """What one question sees from its beginning to its end."""

    graph: Graph
    rows: Snapshot
    search: ExactSearch | Probing
    measured_churn: float  # when recall was last measured


class Index:
    """Answers as its model does, by search.

    Readers see the state of one moment: changes make a new state and put it in the old one's place.
    """

    def __init__(
        self, graph: Graph, decoder: Decoder, rows: Snapshot, search: ExactSearch | Probing, metadata: IndexMetadata
    ) -> None:
        self.decoder, self.metadata = decoder, metadata
        self._state = _State(graph, rows, search, rows.churn)
        self._writing = threading.RLock()

    def __repr__(self) -> str:
        return str(self.metadata) + (f"\n{self.advice}" if self.advice else "")

    @property
    def search(self) -> ExactSearch | Probing:
        """What answers."""
        return self._state.search

    # -- asking --------------------------------------------------------------------------------------------

    def recommend(
        self,
        nodes: Id | Sequence[Id],
        k: int = 10,
        *,
        among: Iterable[Id] | None = None,
        known: bool = False,
        where: Where | None = None,
    ) -> Recommendations:
        """As `LinkPredictor.recommend`."""
        state = self._state

        def ask(sources: Rows, count: int, excluded: Excluded | None, pool: Rows | None) -> list[TopK]:
            if pool is None and state.rows.num_rows > state.graph.num_nodes:  # rows that have no id yet
                pool = np.arange(state.graph.num_nodes)
            return _asked(state, sources, count, excluded, pool)

        return recommended(state.graph, ask, nodes, k, among=among, known=known, where=where)

    def top_k(
        self, sources: Any, k: int, excluded: Excluded | None = None, pool: NDArray[np.int64] | None = None
    ) -> list[TopK]:
        """By rows: for each source the best of `pool` (all without), but for itself and the rows `excluded` names."""
        chosen = None if pool is None else np.unique(np.asarray(pool, dtype=np.int64))
        return _asked(self._state, np.atleast_1d(np.asarray(sources)), checked_k(k), excluded, chosen)

    # -- changes -------------------------------------------------------------------------------------------

    def update(self, rows: Any, embeddings: Any, *, graph: Graph | None = None) -> None:
        """Put other embeddings in the place of some rows, or add rows beyond the last; all of it or, with an error,
        nothing. A `graph` that knows more nodes or links replaces the one that names ids and known links."""
        with self._writing:
            state = self._state
            snapshot = state.rows.updated(rows, embeddings)
            if graph is not None and graph.num_nodes > snapshot.num_rows:
                raise InputError(f"the graph has {graph.num_nodes:,} nodes, and there are {snapshot.num_rows:,} rows")
            self._state = state._replace(rows=snapshot, graph=graph or state.graph)

    def remove(self, rows: Any) -> None:
        """Take rows out: nothing recommends them, and nobody may ask for them."""
        with self._writing:
            self._state = self._state._replace(rows=self._state.rows.without(rows))

    @property
    def churn(self) -> float:
        """Rows changed since the build, as a share of those built."""
        return self._state.rows.churn

    @property
    def advice(self) -> str | None:
        """What the index asks for, if its recall may no longer be what it says."""
        promised, state = self.metadata.promised_recall, self._state
        if self.metadata.effort is None:
            return None
        if promised is not None and self.metadata.recall + self.metadata.error < promised:
            return f"recall is {self.metadata.recall:.4f}, below the {promised:g} asked for: call rebuild()"
        if state.rows.churn - state.measured_churn >= _CHURN:
            return (
                f"{state.rows.churn:.0%} of the rows have changed since the build: call measure() to see whether the "
                f"recall of {self.metadata.recall:.4f} still holds, or rebuild()"
            )
        return None

    def measure(self, *, sample: int = _SAMPLE, seed: int = 1) -> float:
        """Recall as it is now, against exact on drawn sources; kept in the metadata."""
        state = self._state
        if isinstance(state.search, ExactSearch):
            return 1.0
        excluded = _known_rows(state.graph, state.rows)
        drawn = Sample.draw(ExactSearch(self.decoder), state.rows, sample, self.metadata.k, excluded, seed)
        trial = drawn.try_out(state.search, state.rows)
        with self._writing:
            self.metadata = replace(
                self.metadata, recall=trial.recall, milliseconds=trial.milliseconds,
                exact_milliseconds=drawn.exact_milliseconds, sample=drawn.sources.size,
            )  # fmt: skip
            self._state = self._state._replace(measured_churn=state.rows.churn)
        return trial.recall

    def rebuild(self, *, tell: Callable[[str], None] = lambda text: None) -> None:
        """Build anew from the rows of now, with the same kind and the same promise."""
        with self._writing:
            state, old = self._state, self.metadata
            budget = Budget(recall=old.promised_recall, k=old.k)
            made = build_index(
                state.graph, self.decoder, state.rows.merged(), kind=old.kind, budget=budget, seed=old.seed, tell=tell,
            )  # fmt: skip
            removed = np.flatnonzero(state.rows.is_removed)
            fresh = made._state
            self.metadata = made.metadata
            self._state = fresh._replace(rows=fresh.rows.without(removed)) if removed.size else fresh

    # -- keeping -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the index into its model's directory, whole or not at all."""
        from yinyan.retrieval.index_store import save_index

        if self.churn:
            raise SettingsError("rows have changed since the build: call rebuild() before save()")
        search = self._state.search
        save_index(Path(path), self.metadata, search.lists if isinstance(search, Probing) else None)


def build_index(
    graph: Graph,
    decoder: Decoder,
    embeddings: Tensor,
    *,
    kind: str = "auto",
    budget: Budget | None = None,
    seed: int = 0,
    sample: int = _SAMPLE,
    tell: Callable[[str], None] = lambda text: None,
) -> Index:
    """An index of a decoder and its embeddings within a budget."""
    budget = budget or Budget()
    decoder, y = _on_cpu(decoder, embeddings)
    chosen = _chosen_kind(kind, decoder, y.shape[0])
    rows, exact = Snapshot.of(y), ExactSearch(decoder, screen=_room_for_screen(decoder, y, budget))
    held = exact.prepare(rows)
    excluded = _known_rows(graph, rows)
    facts = IndexMetadata(
        kind=chosen, num_nodes=y.shape[0], columns=y.shape[1], cells=0, effort=None, promised_recall=budget.recall,
        recall=1.0, k=budget.k, sample=0, milliseconds=0.0, exact_milliseconds=0.0, bytes=0, bytes_share=0.0,
        fingerprint=fingerprint(decoder, y), seed=seed,
    )  # fmt: skip
    if chosen == "exact":
        timed = Sample.draw(exact, rows, 4, budget.k, excluded, seed)
        spent = timed.exact_milliseconds
        if budget.milliseconds is not None and spent > budget.milliseconds:
            raise SettingsError(
                f"an exact search takes {spent:.3g} ms a source here, over the {budget.milliseconds:g} asked for"
            )
        share = held / max(1, y.numel() * y.element_size())
        facts = replace(facts, milliseconds=spent, exact_milliseconds=spent, bytes=held, bytes_share=share)
        return Index(graph, decoder, rows, exact, facts)
    cells = _num_cells(y.shape[0])
    _check_memory(y, cells, budget)
    tell(f"{chosen}: {y.shape[0]:,} nodes into {cells:,} cells")
    some = rows.gather(np.random.default_rng(seed).choice(y.shape[0], min(y.shape[0], 512), replace=False))
    lists = Lists.build(points_of(decoder, y), cells, seed, queries_at(decoder, some, some[:, None]))
    search = search_of(chosen, decoder, lists, Effort(1, 1))
    drawn = Sample.draw(exact, rows, 2 * sample, budget.k, excluded, seed)
    half = max(1, drawn.sources.size // 2)
    search = search.with_effort(choose_effort(search, rows, drawn.part(slice(0, half)), budget, tell))
    measured = drawn.part(slice(half, None)) if drawn.sources.size > 1 else drawn
    trial = measured.try_out(search, rows)
    facts = replace(
        facts, cells=cells, effort=asdict(search.effort), recall=trial.recall, sample=measured.sources.size,
        milliseconds=trial.milliseconds, exact_milliseconds=drawn.exact_milliseconds, bytes=lists.num_bytes,
        bytes_share=lists.num_bytes / max(1, y.numel() * y.element_size()),
    )  # fmt: skip
    tell(str(facts))
    return Index(graph, decoder, rows, search, facts)


def search_of(kind: str, decoder: Decoder, lists: Lists, effort: Effort) -> Probing:
    """The search of a kind that has lists."""
    return (MipsSearch if kind == "mips" else FlashlightSearch)(decoder, lists, effort)


def fingerprint(decoder: Decoder, embeddings: Tensor) -> str:
    """A digest of what scores depend on."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(decoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(value.detach().cpu().numpy()).tobytes())
    digest.update(repr(tuple(embeddings.shape)).encode())
    for block in embeddings.detach().split(1 << 16):
        digest.update(np.ascontiguousarray(block.cpu().numpy()).data)
    return digest.hexdigest()


def _asked(state: _State, sources: NDArray[Any], k: int, excluded: Excluded | None, pool: Rows | None) -> list[TopK]:
    if not sources.size:
        return []
    asked = sources.astype(np.int64)
    for chosen in (asked, pool):
        checked_rows(np.unique(chosen) if chosen is not None else [], state.rows.num_rows)
    gone = asked[state.rows.is_removed[asked]]
    if gone.size:
        raise InputError(f"row {gone[0]:,} was removed from the index")
    return state.search.top_k(state.rows, asked, k, excluded, pool)


def _known_rows(graph: Graph, rows: Snapshot) -> Excluded:
    """Known partners; a row that the graph does not know has none."""
    known = known_partners(graph)
    return lambda source: known(source) if source < graph.num_nodes else np.empty(0, np.int64)


def _chosen_kind(kind: str, decoder: Decoder, num_nodes: int) -> str:
    if kind not in KINDS:
        raise SettingsError(f"'kind' needs to be one of {', '.join(KINDS)} (got {kind!r})")
    if kind == "mips":
        check_linear(decoder)
    if kind == "flashlight":
        check_covered(decoder)
    if kind != "auto":
        return kind
    if num_nodes < _EXACT_BELOW or not is_covered(decoder):
        return "exact"
    return "mips" if is_linear(decoder) else "flashlight"


def _num_cells(num_nodes: int) -> int:
    """About four times the square root, a power of two; never fewer than sixteen rows a cell in the mean."""
    power = round(math.log2(4 * math.sqrt(max(1, num_nodes))))
    return max(1, min(1 << power, num_nodes // 16))


def _check_memory(y: Tensor, cells: int, budget: Budget) -> None:
    wanted = (y.shape[0] * (y.shape[1] + 4 + 4) + cells * (4 * y.shape[1] + 8 * (y.shape[1] + 4))) / 2**20
    if budget.megabytes is not None and wanted > budget.megabytes:
        raise SettingsError(
            f"an index of {y.shape[0]:,} rows takes about {wanted:,.0f} MB, over the {budget.megabytes:g} asked for "
            f"(raise 'megabytes', or use kind 'exact', which can do without)"
        )


def _room_for_screen(decoder: Decoder, y: Tensor, budget: Budget) -> bool:
    return budget.megabytes is None or Screen.bytes_for(y.shape[0], decoder.size) <= budget.megabytes * 2**20


def _on_cpu(decoder: Decoder, embeddings: Tensor) -> tuple[Decoder, Tensor]:
    device = next(decoder.parameters()).device
    y = embeddings.detach().cpu()
    return (decoder if device.type == "cpu" else copy.deepcopy(decoder).cpu()), y
