"""How an index is made: exact search, or lists of cells with the least efforts that keep to a budget."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.retrieval.budgets import (
    Budget,
    Sample,
    measured_facts,
    measured_ks,
    nearest,
    try_efforts,
    unreached,
    within,
)
from yinyan.retrieval.cells import num_cells
from yinyan.retrieval.efforts import Effort, Efforts, ladder
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.index import LEAST_SAMPLE, Index
from yinyan.retrieval.metadata import IndexMetadata, fingerprint
from yinyan.retrieval.neighbourhoods import Neighbourhoods
from yinyan.retrieval.probing import Probing, lists_of
from yinyan.retrieval.queries import check_covered, check_linear, is_covered, is_linear
from yinyan.retrieval.screening import Screen
from yinyan.retrieval.shards import ShardedProbing, ShardedSearch
from yinyan.retrieval.snapshot import Snapshot
from yinyan.retrieval.state import linked_rows

__all__ = ["EXACT_BELOW", "KINDS", "Building", "build_index", "sample_size"]

KINDS = ("auto", "exact", "mips", "flashlight")

EXACT_BELOW = 20_000  # nodes: there a scan of all takes about as long as a search
_MOST_SAMPLE = 128  # the same, where an exact search is cheap
_SAMPLED = 3_000_000  # rows that exact searches of the sample score in all, if it is larger than the least
_STEPS_BACK = 1  # of the ladder: where it begins for other k than the one asked for
_EXACT_USELESS = 1  # times as slow as exact search: from there on `auto` tries no larger effort
_EXACT_WORTH = 4  # times as slow as the best index that misses the recall: exact is taken up to there


def build_index(
    graph: Graph,
    decoder: Decoder,
    embeddings: Tensor,
    *,
    kind: str = "auto",
    budget: Budget | None = None,
    seed: int = 0,
    sample: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Index:
    """An index of a decoder and its embeddings within a budget.

    A kind that cannot keep to the budget is an error; `auto` takes what comes nearest, and its metadata say so.
    """
    decoder, y = _on_cpu(decoder, embeddings)
    build = Building(graph, decoder, y, budget or Budget(), seed, is_auto=kind == "auto")
    return build.of_kind(kind, sample or sample_size(y.shape[0]), tell)


class Building:
    """What an index is made of, and the two ways to make one."""

    made: type[Index] = Index

    def __init__(self, graph: Graph, decoder: Decoder, y: Tensor, budget: Budget, seed: int, *, is_auto: bool) -> None:
        self.graph, self.decoder, self.y, self.budget, self.seed = graph, decoder, y, budget, seed
        self.is_auto, self.rows = is_auto, Snapshot.of(y)
        self.search, self.held = self.exact_search()  # with its bytes

    def exact_search(self) -> tuple[ExactSearch | ShardedSearch, int]:
        """What scores every candidate, and the bytes that it holds beside the rows."""
        search = ExactSearch(self.decoder, screen=_room_for_screen(self.decoder, self.y, self.budget))
        return search, search.prepare(self.rows)

    def of_kind(self, kind: str, sample: int, tell: Callable[[str], None]) -> Index:
        """The index of a kind, or of the one that suits."""
        chosen = _chosen_kind(kind, self.decoder, self.y.shape[0])
        made = self.exact() if chosen == "exact" else self.probing(chosen, sample, tell)
        tell(str(made.metadata))
        return made

    def exact(self, note: str | None = None) -> Index:
        """Every candidate is scored."""
        spent, limit = self._drawn(4).exact_milliseconds, self.budget.milliseconds
        if limit is not None and spent > limit:
            over = f"an exact search takes {spent:.3g} ms per source here, over the {limit:g} asked for"
            if not self.is_auto:
                raise SettingsError(f"{over} (raise 'milliseconds', or use kind 'auto')")
            note = over if note is None else f"{note}; {over}"
        facts = self._facts("exact", self.held, milliseconds=spent, exact_milliseconds=spent, note=note)
        return self.made(self.graph, self.decoder, self.rows, self.search, facts)

    def probing(self, kind: str, sample: int, tell: Callable[[str], None]) -> Index:
        """Lists of cells, searched with the least efforts that keep to the budget."""
        budget, cells = self.budget, self.num_cells()
        too_large = _too_large(self.y, cells, budget)
        if too_large is not None:
            if self.is_auto:
                return self.exact(f"search is exact, because {too_large}")
            raise SettingsError(f"{too_large} (raise 'megabytes', or use kind 'exact', which can do without)")
        tell(f"{kind}: {self.y.shape[0]:,} nodes into {cells:,} cells")
        search, held = self.searched_lists()
        tell(f"exact answers of {2 * sample:,} sampled nodes, which recall is measured against")
        drawn = self._drawn(2 * sample)
        half = max(1, drawn.sources.size // 2)
        measured = drawn.part(slice(half, None)) if drawn.sources.size > 1 else drawn
        found = self._efforts(search, drawn.part(slice(0, half)), measured, tell)
        if isinstance(found, str):
            return self.exact(found)
        efforts, note = found
        search = search.with_efforts(efforts)
        facts = self._facts(
            kind, held, cells=cells, note=note,
            **measured_facts(measured, search, self.rows, list(efforts.by_k), budget.k),
            **({} if note is None else {"promised_recall": None}),
        )  # fmt: skip
        return self.made(self.graph, self.decoder, self.rows, search, facts)

    def num_cells(self) -> int:
        """Cells of the lists."""
        return num_cells(self.y.shape[0])

    def searched_lists(self) -> tuple[Probing | ShardedProbing, int]:
        """A search in lists that are made now, and their bytes."""
        lists = lists_of(self.decoder, self.rows, num_cells(self.y.shape[0]), self.seed)
        return Probing(self.decoder, lists, Efforts({self.budget.k: Effort(1, 1)})), lists.num_bytes

    def _efforts(
        self, search: Probing | ShardedProbing, sample: Sample, check: Sample, tell: Callable[[str], None]
    ) -> tuple[Efforts, str | None] | str:
        """The effort of each k and what of the budget they miss; or why search had better be exact."""
        budget, chosen, missed = self.budget, dict[int, Effort](), list[str]()
        useless = _EXACT_USELESS * sample.exact_milliseconds if self.is_auto else math.inf
        others = [k for k in measured_ks(budget.k) if k != budget.k]
        first = 0  # step of the ladder
        for k in (budget.k, *others):
            trials = try_efforts(
                search, self.rows, sample, k, budget, tell, check=check, first=first, useless_from=useless
            )
            best = within(trials, budget)
            if best is None:
                best, lacking = nearest(trials, budget), unreached(trials, budget)
                if not self.is_auto:
                    cures = "lower 'recall', raise 'milliseconds', or use kind 'exact' or 'auto'"
                    raise SettingsError(f"{lacking} ({cures})")
                if sample.exact_milliseconds <= (budget.milliseconds or _EXACT_WORTH * best.milliseconds):
                    return f"search is exact, because {lacking}"
                missed.append(lacking)
            if not chosen:  # other k take about as many steps
                steps = ladder(search.num_cells, k, linear=is_linear(self.decoder))
                below = sum(step.probes < best.effort.probes for step in steps)
                first = max(0, below - _STEPS_BACK)
            chosen[k] = best.effort
        return Efforts(chosen), "; ".join(missed) or None

    def _drawn(self, count: int) -> Sample:
        excluded = partial(linked_rows, self.graph)
        around, k = Neighbourhoods.of(self.graph), max(measured_ks(self.budget.k))
        return Sample.draw(self.search, self.rows, count, k, excluded, self.seed, around)

    def _facts(self, kind: str, num_bytes: int, **measured: Any) -> IndexMetadata:
        y, budget = self.y, self.budget
        facts = IndexMetadata(
            kind=kind, num_nodes=y.shape[0], columns=y.shape[1], cells=0, effort=None, promised_recall=budget.recall,
            recall=1.0, k=budget.k, sample=0, milliseconds=0.0, exact_milliseconds=0.0, bytes=num_bytes,
            bytes_share=num_bytes / max(1, y.numel() * y.element_size()), fingerprint=fingerprint(self.decoder, y),
            seed=self.seed, asked_recall=budget.recall,
        )  # fmt: skip
        return replace(facts, **measured)


def _chosen_kind(kind: str, decoder: Decoder, num_nodes: int) -> str:
    if kind not in KINDS:
        raise SettingsError(f"'kind' needs to be one of {', '.join(KINDS)} (got {kind!r})")
    if kind == "mips":
        check_linear(decoder)
    if kind == "flashlight":
        check_covered(decoder)
    if kind != "auto":
        return kind
    if num_nodes < EXACT_BELOW or not is_covered(decoder):
        return "exact"
    return "mips" if is_linear(decoder) else "flashlight"


def sample_size(num_nodes: int) -> int:
    """Sources that recall is measured on; as many more choose the efforts."""
    return min(_MOST_SAMPLE, max(LEAST_SAMPLE, _SAMPLED // max(1, num_nodes)))


def _too_large(y: Tensor, cells: int, budget: Budget) -> str | None:
    wanted = (y.shape[0] * (y.shape[1] + 4 + 4) + cells * (4 * y.shape[1] + 8 * (y.shape[1] + 4))) / 2**20
    if budget.megabytes is None or wanted <= budget.megabytes:
        return None
    return f"an index of {y.shape[0]:,} rows takes about {wanted:,.0f} MB, over the {budget.megabytes:g} asked for"


def _room_for_screen(decoder: Decoder, y: Tensor, budget: Budget) -> bool:
    return budget.megabytes is None or Screen.bytes_for(y.shape[0], decoder.size) <= budget.megabytes * 2**20


def _on_cpu(decoder: Decoder, embeddings: Tensor) -> tuple[Decoder, Tensor]:
    device = next(decoder.parameters()).device
    y = embeddings.detach().cpu()
    return (decoder if device.type == "cpu" else copy.deepcopy(decoder).cpu()), y
