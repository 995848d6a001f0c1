"""Times of every method on Cora's test pairs, with the settings of the rows that hold its accuracy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lib import common
from lib.inference_costs import PREPARES, Cost, embedded, scorer, timed, with_peak
from lib.large_costs import METHODS as LARGE
from lib.large_costs import OURS
from lib.untrained import Untrained, untrained
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.native.allocation import held_memory
from yinyan.peers import METHODS, Task, method
from yinyan.peers.contract import Overrides, merged
from yinyan.reproduce import read_recipe
from yinyan.splits import Split, random_split

RECIPES = ("defaults", "peers", "gnns", "non-gnn")  # of several rows of a method the first counts
OTHERS = ("plnlp", "agdn", "gidn", "cflp", "ocnp")  # timed too, whether or not a recipe has them
CPU = torch.device("cpu")


class Source(NamedTuple):
    """A row of a recipe that holds the accuracy of a method on Cora."""

    method: str
    label: str
    recipe: str  # nothing where no recipe has a row: the method's own settings
    settings: Overrides


def sources() -> list[Source]:
    """One for each method; those that are timed in any case have one too. OCN as published leaks, and has no place."""
    found: dict[str, Source] = {}
    for name in RECIPES:
        for row in read_recipe(name).rows:
            for place in row.places if not row.method.endswith("-as-published") else ():
                if place.data == "cora" and "clean" in place.protocols and not row.row_normalised:
                    found.setdefault(row.method, Source(row.method, row.name, name, place.settings))
    for name in (*LARGE, *OTHERS):
        found.setdefault(name, Source(name, name, "", {}))
    return list(found.values())


def cora_costs(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The cost of every method."""
    split = random_split(common.load_data("cora", smoke=options.smoke).graph, seed=0)
    pairs = np.concatenate([split.test_targets, split.test_negatives.reshape(-1, 2)])
    pairs = np.random.default_rng(0).permutation(pairs)
    chosen = options.methods.split(",") if options.methods else None
    found = []
    for source in sources():
        if chosen is None or source.method in chosen:
            settings = merged(source.settings, common.SMALL) if options.smoke else source.settings
            run = with_peak(lambda s=source, o=settings: _cost(s.method, split, o, pairs, options.repeats))  # type: ignore[misc]
            found.append(run.to_dict() | {"recipe": source.recipe, "label": source.label, "settings": settings})
            print(f"{source.method}: {1e6 * run.pair:,.0f} us per pair", file=sys.stderr, flush=True)
    return found


@held_memory()
def _cost(name: str, split: Split, settings: Overrides, pairs: NDArray[np.int64], repeats: int) -> Cost:
    found = Cost(name, split.graph.num_nodes, pairs_timed=len(pairs))
    score, again = _scoring(name, split, settings, found)
    first = timed(lambda: score(pairs))
    found.pairs = min(timed(lambda: score(pairs)) for _ in range(repeats))
    found.prepare = max(0.0, first - found.pairs) if name in PREPARES else 0.0  # of others it is warming up
    found.embed = min(again() for _ in range(repeats))
    found.pair = found.seconds / len(pairs)
    return found


def _scoring(
    name: str, split: Split, settings: Overrides, found: Cost
) -> tuple[Callable[[NDArray[np.int64]], object], Callable[[], float]]:
    """How pairs are scored, and a measured embedding pass."""
    if METHODS[name].family == "heuristic":
        found.note = "no embeddings"
        return method(name)(Task(split, settings=settings, device="cpu")).score, lambda: 0.0
    features = feature_tensor(split.graph.features, CPU)
    messages = message_graph(split.graph, split.test_messages, CPU)
    if name == OURS:  # trained, since validation edges choose whether exact counts are added to scores
        outcome = method(name)(Task(split, settings=settings, device="cpu"))
        if outcome.fitted is None:
            raise ValueError(f"{name} is trained by the common loop, and has a fitted model")
        found.note = "trained; scores " + ("with" if outcome.fitted.reranking else "without") + " exact counts"
        made = Untrained(outcome.fitted.model, outcome.fitted.settings)
        return outcome.score, lambda: embedded(made, features, messages)[1]
    made = untrained(name, split, settings)
    y, _ = embedded(made, features, messages)
    score = scorer(made, y, messages)
    return lambda rows: score(torch.from_numpy(rows)), lambda: embedded(made, features, messages)[1]
