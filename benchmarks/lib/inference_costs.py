"""What scoring pairs costs in processor seconds: work per graph, the embedding pass and pairs, of any method."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lib import resident
from lib.untrained import Untrained
from yinyan.model.inference import embed_all
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.model.scoring import score_pairs
from yinyan.native.allocation import held_memory

Score = Callable[[Tensor], object]
BLOCK = 16_384  # pairs of one call of a model, as `score_pairs` has it
PREPARES = ("buddy", "elph", "lpformer", "ocn", "surel", "surel+")  # methods that keep work per graph from call to call
CHUNK = 2**18  # pairs drawn at a time
_FINISHED = 5  # times the budget in which all pairs are to be scored
_CALLS = 3  # with one pair each, of which the median is the cost of a call


@dataclass
class Cost:
    """Seconds of a method for all test pairs, by part."""

    method: str
    nodes: int  # of the graph on which it was timed
    prepare: float = 0.0  # once per graph: sketches, walks, PageRanks
    embed: float = 0.0  # the embedding pass, once per graph
    call: float = 0.0  # of a block of pairs, whatever their number
    pair: float = 0.0
    pairs_timed: int = 0
    pairs: float = 0.0  # all test pairs
    peak_gigabytes: float | None = None
    extrapolated: list[str] = field(default_factory=list)  # parts
    note: str = ""

    @property
    def seconds(self) -> float:
        """All parts."""
        return self.prepare + self.embed + self.pairs

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self), "seconds": self.seconds}


class Scored(NamedTuple):
    """Times of scoring."""

    first: float  # of the first call, with one pair: work per graph too
    call: float  # of a later one
    pair: float
    pairs_timed: int
    seconds: float  # of the pairs timed


def timed(task: Callable[[], object]) -> float:
    """Processor seconds of one call: other programs on the machine count little, as long as there is one thread."""
    before = time.process_time()
    made = task()
    spent = time.process_time() - before
    del made
    return spent


@torch.no_grad()
def embedded(made: Untrained, features: Tensor | SparseMatrix | None, messages: MessageGraph) -> tuple[Tensor, float]:
    """Embeddings of all nodes, and the processor seconds of the pass."""
    generator = torch.Generator().manual_seed(0)
    before = time.process_time()
    y = embed_all(made.model.encoder, features, messages, negatives=generator)
    return y, time.process_time() - before


def scorer(made: Untrained, y: Tensor, messages: MessageGraph) -> Score:
    """Scores of pairs as the harness makes them."""
    return lambda pairs: score_pairs(made.model, y, messages, pairs)


@torch.no_grad()
@held_memory()  # as in a run that scores much
def scored(
    score: Score,
    draw: Callable[[int], Tensor],
    total: int,
    budget: float,
    *,
    most: int = CHUNK,
    ready: Callable[[Tensor], object] = lambda pairs: None,
) -> Scored:
    """Score drawn pairs for about `budget` seconds, or until there were `total`; `ready` is not counted.

    All are scored if that takes a few times as long.
    """

    def once(count: int) -> float:
        pairs = draw(count)
        ready(pairs)
        return timed(lambda: score(pairs))

    first = once(1)
    call = statistics.median(once(1) for _ in range(_CALLS))
    size = min(16, total, most)
    spent = once(size)
    while spent - call < budget / 8 and 4 * size <= min(most, total):  # too short to count
        size *= 4
        spent = once(size)
    done, calls = size, math.ceil(size / BLOCK)
    while done < total and (spent < budget or spent * total < _FINISHED * budget * done):
        size = min(size, total - done)
        spent, done, calls = spent + once(size), done + size, calls + math.ceil(size / BLOCK)
    return Scored(first, call, max(0.0, spent - calls * call) / done, done, spent)


def cost_of(
    name: str,
    times: Scored,
    total: int,
    *,
    nodes: int,
    embed: float = 0.0,
    prepare: float | None = None,
    kept_calls: bool = False,
    factors: tuple[float, float, float] = (1.0, 1.0, 1.0),
    note: str = "",
) -> Cost:
    """Everything for `total` pairs.

    Work per graph, of methods that keep it, is what the first call took longer than others, unless it is given. With
    `kept_calls` what a call costs whatever its pairs is work per graph too, which need not be repeated. The times of
    work per graph, of the embedding pass and of pairs are multiplied by `factors` for a larger graph.
    """
    per_graph, per_embedding, per_pair = factors
    made = Cost(name, nodes, note=note, pairs_timed=times.pairs_timed)
    made.prepare = prepare if prepare is not None else _more(times.first, times.call) if name in PREPARES else 0.0
    if times.pairs_timed >= total and per_pair == 1.0 and not kept_calls:
        made.pairs = times.seconds
    else:
        made.extrapolated.append("pairs")
        made.pairs = total * times.pair + (0.0 if kept_calls else math.ceil(total / BLOCK) * times.call)
    made.prepare = per_graph * (made.prepare + (times.call if kept_calls else 0.0))
    made.embed, made.pairs, made.pair = per_embedding * embed, per_pair * made.pairs, per_pair * made.pairs / total
    made.call = times.call
    made.extrapolated += ["prepare"] if per_graph != 1.0 and made.prepare else []
    made.extrapolated += ["embed"] if per_embedding != 1.0 and made.embed else []
    return made


def _more(first: float, later: float) -> float:
    return max(0.0, first - later)


def with_peak(measure: Callable[[], Cost]) -> Cost:
    """The cost, with the most memory that was held meanwhile, the graph included."""
    counted = resident.fresh_peak() is not None
    found = measure()
    if counted:
        found.peak_gigabytes = resident.peak() / 2**30
    return found
