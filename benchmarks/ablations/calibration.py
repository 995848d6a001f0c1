"""Whether probabilities hold where they are shown: over recommended lists with test edges hidden.

YINYAN_DATA=/data python benchmarks/ablations/calibration.py --data cora,usair --json

Protocol clean, default settings: the model is fitted to the training edges with its own validation edges, and its
probabilities are compared with the test edges. The base rate is that of `fit` for a split with test edges: their number
over the pairs without a training or validation edge. `lists` are the ten best of each source; sources are all nodes, or
1,000 that stand for them, whether or not they have test edges. `best 100` are the 100 best new links of as many nodes.
With `+val` the same model embeds the validation edges too, as a model that is used does.

A figure is stated / observed. `ece` is the expected calibration error over ten bins of equal weight. The rows `pairs`
show the calibration of earlier versions, on one negative per edge, at the same base rate and at 1/2.

With --validation no test edge is scored: methods are fitted on one half of the validation edges and compared on the
other one, by log-loss (per thousand rows) and ece. This is what the method was chosen by.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import _path  # noqa: F401
from lib import common, real_graphs
from yinyan import LinkPredictor
from yinyan.metrics import reliability_bins
from yinyan.model.calibration import Calibration, fit_calibration, fit_to_lists, shifted
from yinyan.model.fitted import Fitted, embed_graph
from yinyan.model.held_out_lists import HeldOutLists, base_rate_of
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.reporting.reliability import by_degree, calibration_error, lists_of_test
from yinyan.retrieval.held_out import held_out_lists
from yinyan.splits import Split, random_split

DATA = (
    "cora,citeseer,pubmed,usair,ns,power,router,lastfm-friends,lastfm-listens,citeulike,email-enron,fb15k-237,ddi-1000"
)
SOURCES, BEST = 1_000, 100
CPU = torch.device("cpu")

Floats = NDArray[np.float64]


def main() -> None:
    parser = common.parser(__doc__, picture=False)
    parser.add_argument("--data", default=DATA, help="names of graphs, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--validation", action="store_true", help="compare methods on halves of the validation edges")
    given = common.parsed(parser, data="cora,lastfm-listens")
    rows: list[dict[str, Any]] = []
    for name in given.data.split(","):
        graph = real_graphs.load_graph(name, smoke=given.smoke)
        split = random_split(graph, seed=given.seed)
        settings = common.SMALL if given.smoke else {}
        model = LinkPredictor(seed=given.seed, **settings).fit(graph, split=split)
        found = compared(model.fitted_, split) if given.validation else measured(model, split)
        rows += [{"graph": name, **row} for row in found]
        print(f"{name} ...", file=sys.stderr, flush=True)
    common.report(given, rows, lambda: common.print_table(tuple(rows[0]), [_cells(row) for row in rows]))


def _cells(row: dict[str, Any]) -> list[object]:
    """Pairs as stated / observed."""
    return [" / ".join(f"{v:.3f}" for v in value) if isinstance(value, list) else value for value in row.values()]


def measured(model: LinkPredictor, split: Split) -> list[dict[str, Any]]:
    """A row for the model as fitted, two for the former calibration, and one with validation edges as messages."""
    fitted = model.fitted_
    both = np.union1d(split.train_messages, split.graph.find_edges(split.valid_targets))
    former = fit_calibration(*fitted.valid_scores, "platt")
    calibrations = {
        "lists": fitted.calibration.probabilities,
        "pairs": shifted_by(former, fitted.base_rate),
        "pairs at 1/2": former.probabilities,
    }
    lists, best = _shown(fitted, split)
    shown = [(name, lists, best, found) for name, found in calibrations.items()]
    renewed = replace(fitted, embeddings=_embedded(fitted, split, both))
    shown.append(("lists +val", *_shown(renewed, split), calibrations["lists"]))
    return [{"calibrated on": name, "base rate": fitted.base_rate, **_figures(*row)} for name, *row in shown]


def shifted_by(calibration: Calibration, rate: float) -> Any:
    """Probabilities at another base rate."""
    return lambda scores: shifted(calibration.probabilities(scores), rate, calibration.base_rate)


class Best(NamedTuple):
    """The best new links: their scores, and whether they are test edges."""

    scores: NDArray[np.float32]
    hits: NDArray[np.bool_]


def _shown(fitted: Fitted, split: Split) -> tuple[HeldOutLists, Best]:
    """What a user is shown: lists of nodes, and the best links of as many nodes."""
    graph, count = split.graph, min(SOURCES, split.graph.num_nodes)
    lists = lists_of_test(fitted, split, count=count)
    if lists is None:
        raise ValueError("the split has no test edges")
    asker = LinkPredictor(seed=fitted.seed)
    asker.fitted_ = fitted
    drawn = np.random.default_rng(split.seed).choice(graph.num_nodes, count, replace=False)
    best = asker.best_links(BEST, nodes=graph.ids.take(np.sort(drawn)), search="exact")
    ends = np.stack([graph.ids.rows(best.sources), graph.ids.rows(best.targets)], axis=1)
    return lists, Best(best.scores, graph.has_edges(ends))


def _figures(lists: HeldOutLists, best: Best, probabilities: Any) -> dict[str, Any]:
    chances = probabilities(lists.scores)
    return {
        "ece": calibration_error(chances, lists),
        "lists": _pair(chances, lists.hits, lists.weights),
        "few edges": _group(chances, lists, 0),
        "many edges": _group(chances, lists, -1),
        "best 100": _pair(probabilities(best.scores), best.hits),
        "95 % of observed": _interval(best.hits),
    }


def _pair(chances: Floats, hits: NDArray[np.bool_], weights: Floats | None = None) -> list[float]:
    return [float(np.average(values, weights=weights)) for values in (chances, hits)]


def _interval(hits: NDArray[np.bool_]) -> list[float]:
    bins = reliability_bins(np.full(hits.size, 0.5), hits, num_bins=1)
    return [float(bins.low[0]), float(bins.high[0])]


def _group(chances: Floats, lists: HeldOutLists, place: int) -> list[float]:
    group = by_degree(chances, lists)[place]
    return [group["predicted"], group["observed"]]


def compared(fitted: Fitted, split: Split) -> list[dict[str, Any]]:
    """Methods by their log-loss and error on one half of the validation edges, fitted on the other."""
    y, graph = _embedded(fitted, split, split.valid_messages), split.graph
    tested = graph.find_edges(np.concatenate([split.test_targets, split.valid_targets]))
    known = np.setdiff1d(np.arange(graph.num_edges), tested)
    order = np.random.default_rng(split.seed).permutation(len(split.valid_targets))
    totals: dict[str, list[tuple[float, float, float, float]]] = {}
    for half in (order[::2], order[1::2]):
        fit_on, judged = split.valid_targets[half], np.delete(split.valid_targets, half, axis=0)
        common_to_both = {"decoder": fitted.model.decoder, "embeddings": y, "graph": graph, "seed": split.seed}
        train = held_out_lists(**common_to_both, known=known, held_out=fit_on, missing=len(judged) / len(fit_on))
        seen = np.union1d(known, graph.find_edges(fit_on))
        count = min(SOURCES, graph.num_nodes)
        lists = held_out_lists(**common_to_both, known=seen, held_out=judged, missing=0.0, count=count)
        for method in ("platt", "isotonic"):
            p = fit_to_lists(train, method, fitted.base_rate).probabilities(lists.scores)  # type: ignore[arg-type]
            totals.setdefault(f"lists, {method}", []).append(_judged(p, lists))
        pairs = fit_calibration(*fitted.valid_scores, "platt")
        p = shifted_by(pairs, base_rate_of(len(judged), graph))(lists.scores)
        totals.setdefault("pairs, platt", []).append(_judged(p, lists))
    names = ("log-loss", "ece", "stated", "observed")
    means = {method: np.mean(found, axis=0).tolist() for method, found in totals.items()}
    return [{"method": method, **dict(zip(names, values, strict=True))} for method, values in means.items()]


def _judged(chances: Floats, lists: HeldOutLists) -> tuple[float, float, float, float]:
    p, w = chances.clip(1e-9, 1 - 1e-9), lists.weights
    loss = -np.average(np.where(lists.hits, np.log(p), np.log1p(-p)), weights=w)
    stated, observed = np.average(p, weights=w), np.average(lists.hits, weights=w)
    return 1e3 * float(loss), calibration_error(p, lists), float(stated), float(observed)


def _embedded(fitted: Fitted, split: Split, messages: NDArray[np.int64]) -> torch.Tensor:
    features = feature_tensor(split.graph.features, CPU)
    return embed_graph(fitted.model, features, message_graph(split.graph, messages, CPU), fitted.settings, fitted.seed)


if __name__ == "__main__":
    main()
