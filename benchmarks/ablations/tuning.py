"""Tuning of peers: the same few candidates for every method, compared on validation links of the reported splits.

python benchmarks/ablations/tuning.py --data cora citeseer --methods yinyan gae optimised-gae ncn ncnc
python benchmarks/ablations/tuning.py --data lastfm-friends collegemsg --methods gcn   # ten others: no features
python benchmarks/ablations/tuning.py --data citeulike --methods ials lightgcn-as-published   # each its own
python benchmarks/ablations/tuning.py --data cora --methods buddy neo-gnn ocn --budget 90   # edge-wise: four others

Data that are judged by full ranking have their official split, and NDCG@20 of the validation links decides.

Prints the best candidate of each method and data set; the recipe `peers` holds what came of it. Test links are never
scored here.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import _path  # noqa: F401
from lib import common
from yinyan.evaluation import make_split
from yinyan.peers import Task, method
from yinyan.peers.contract import merged
from yinyan.peers.full_ranking import is_ranking_metric, ranked
from yinyan.splits import Split
from yinyan.training.defaults import suggest

Settings = dict[str, dict[str, Any]]

_DEEP: Settings = {"encoder": {"dropout": 0.1}, "decoder": {"depth": 3, "norm": True, "dropout": 0.1}}

CANDIDATES: dict[str, Settings] = {
    "own": {},
    "deep": _DEEP,
    "deep, half of the features dropped": {**_DEEP, "encoder": {"dropout": 0.1, "feature_dropout": 0.5}},
    "deep, little decay": {**_DEEP, "training": {"weight_decay": 0.05}},
}
# of edge-wise methods and of those with a pairwise loss: most have a deep decoder of their own, or another kind
PAIRWISE: dict[str, Settings] = {
    "own": {},
    "deep, half of the features dropped": CANDIDATES["deep, half of the features dropped"],
    "rate .01": {"training": {"learning_rate": 0.01}},
    "decay .2": {"training": {"weight_decay": 0.2}},
}
PAIRWISE_METHODS = ("plnlp", "agdn", "gidn", "cflp", "seal", "nbfnet", "neo-gnn", "elph", "buddy", "gdgnn")
PAIRWISE_METHODS += ("ocn", "ocnp", "lpformer")
_NARROW: Settings = {
    "encoder": {"embedding_size": 64, "dropout": 0.5},
    "decoder": {"depth": 2, "norm": False, "dropout": 0.5},
}
_SUGGESTED = ("batch_size", "epochs", "evaluate_every", "loss", "loss_negatives")
_LITTLE: Settings = {"training": {"weight_decay": 0.05}}
WITHOUT_FEATURES: dict[str, Settings] = {
    "own": _NARROW,
    "deep": merged(_NARROW, _DEEP),
    "little decay": merged(_NARROW, _LITTLE),
    "deep, little decay": merged(merged(_NARROW, _DEEP), _LITTLE),
    "one layer": merged(_NARROW, {"encoder": {"num_steps": 1}}),
    "two layers": merged(_NARROW, {"encoder": {"num_steps": 2}}),
    "deep, 256 dimensions in": _DEEP,
    "deep, little decay, 256 dimensions in": merged(_DEEP, _LITTLE),
}

# of methods that have little in common with ours
_SOFTMAX: Settings = {"training": {"loss": "infonce", "loss_negatives": 256, "learning_rate": 0.03}}
OF_METHOD: dict[str, dict[str, Settings]] = {
    "lightgcn-as-published": {
        "softmax, decay .03": merged(_SOFTMAX, {"training": {"weight_decay": 0.03}}),
        "softmax, decay .01": merged(_SOFTMAX, {"training": {"weight_decay": 0.01}}),
        "softmax, decay .003": merged(_SOFTMAX, {"training": {"weight_decay": 0.003}}),
        "softmax, decay .06": merged(_SOFTMAX, {"training": {"weight_decay": 0.06}}),
        "BPR, rate .05, decay .001": {"training": {"learning_rate": 0.05, "weight_decay": 0.001}},
        "BPR, rate .02, decay .0003": {"training": {"learning_rate": 0.02, "weight_decay": 0.0003, "epochs": 90}},
        "softmax, decay .03, 128 dimensions": merged(
            _SOFTMAX, {"training": {"weight_decay": 0.03}, "encoder": {"embedding_size": 128}}
        ),
    },
    "ials": {
        f"weight {weight:g}, decay {decay:g}": {
            "encoder": {"attraction": weight},
            "training": {"weight_decay": decay},
        }
        for weight in (1.0, 10.0, 40.0, 160.0)
        for decay in (1.0, 30.0, 100.0, 300.0)
    },
    # the candidate with half of the features dropped is their own setting
    **{name: {some: PAIRWISE[some] for some in ("own", "rate .01", "decay .2")} for name in ("surel", "surel+")},
}


def candidates_of(name: str, split: Split) -> dict[str, Settings]:
    """What a method is tried with."""
    if name in OF_METHOD:
        return OF_METHOD[name]
    if name in PAIRWISE_METHODS and split.graph.features is not None:
        return PAIRWISE
    return without_features(split) if split.graph.features is None else CANDIDATES


def validated(name: str, split: Split, seed: int, settings: Settings, *, by_ranking: bool) -> float | None:
    """The method's figure of the validation links."""
    outcome = method(name)(Task(split, seed, settings, "cpu"))
    return ranked(outcome, split, "valid").means["ndcg@20"] if by_ranking else outcome.validation


def without_features(split: Split) -> dict[str, Settings]:
    """All of these, and the deep ones with the steps and the loss that are suggested for ours."""
    training = suggest(split.graph, len(split.train_targets)).settings.to_dict()["training"]
    ours = {"training": {name: training[name] for name in _SUGGESTED}}
    deep = ("deep", "deep, little decay")
    taught = {f"{name}, taught as ours": merged(WITHOUT_FEATURES[name], ours) for name in deep}
    return WITHOUT_FEATURES | taught


def main() -> None:
    parser = common.parser(__doc__, picture=False, threads=1)
    parser.add_argument("--data", nargs="+", default=["cora", "citeseer"])
    parser.add_argument("--methods", nargs="+", default=["yinyan", "gae", "optimised-gae", "ncn", "ncnc"])
    parser.add_argument("--candidates", nargs="+", help="only these")
    parser.add_argument("--budget", type=float, help="CPU seconds per method after which no more candidate starts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/tuning.jsonl"), help="finished lines are kept")
    few = ["own", "deep", "softmax, decay .01", "BPR, rate .05, decay .001"]
    methods = ["gcn", "lightgcn-as-published"]
    options = common.parsed(parser, data=["cora", "collegemsg"], methods=methods, candidates=few, out=None)
    found = {(row["data"], row["method"], row["candidate"]): row["validation"] for row in kept_rows(options.out)}
    best_of = []
    for data in options.data:
        loaded = common.load_data(data, smoke=options.smoke)
        by_ranking = is_ranking_metric(loaded.metric)
        split = make_split(loaded, "official" if by_ranking else "clean", options.seed)
        for name in options.methods:
            candidates = candidates_of(name, split)
            candidates = {some: candidates[some] for some in options.candidates or candidates if some in candidates}
            tried: dict[str, float] = {}
            began = time.process_time()
            for candidate, settings in candidates.items():
                if tried and options.budget and time.process_time() - began > options.budget:
                    break
                if (data, name, candidate) not in found:
                    settings = merged(settings, common.SMALL if options.smoke else {})
                    started = time.perf_counter()
                    score = validated(name, split, options.seed, settings, by_ranking=by_ranking)
                    row = {"data": data, "method": name, "candidate": candidate, "validation": score}
                    keep(row | {"seconds": round(time.perf_counter() - started, 1)}, options.out)
                    found[data, name, candidate] = score
                tried[candidate] = found[data, name, candidate]
            best = max(tried, key=tried.__getitem__)
            best_of.append({"data": data, "method": name, "candidate": best, "validation": tried[best]})
    header = ("data", "method", "best candidate", "validation")
    common.report(options, best_of, lambda: common.print_table(header, [tuple(row.values()) for row in best_of]))


def keep(row: dict[str, Any], path: Path | None) -> None:
    """Print a finished line, and add it to the file."""
    if path is not None:
        with path.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
    print(json.dumps(row), file=sys.stderr, flush=True)


def kept_rows(path: Path | None) -> list[dict[str, Any]]:
    """Lines that were finished before."""
    if path is None:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
