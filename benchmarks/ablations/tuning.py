"""The same few candidates for every method, compared on validation links of the splits that are reported.

    python benchmarks/tuning.py --data cora citeseer --methods yinyan gae optimised-gae ncn ncnc
    python benchmarks/tuning.py --data lastfm-friends collegemsg --methods gcn     # ten others: there are no features

Prints one line a candidate, and the best of each method and data set; the recipe `peers` holds what came of it. Test
links are never scored here.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from yinyan.datasets import load
from yinyan.defaults import suggest
from yinyan.peers import Task, method
from yinyan.peers.contract import merged
from yinyan.protocol import make_split
from yinyan.splits import Split

Settings = dict[str, dict[str, Any]]

_DEEP: Settings = {"encoder": {"dropout": 0.1}, "decoder": {"depth": 3, "norm": True, "dropout": 0.1}}

CANDIDATES: dict[str, Settings] = {
    "own": {},
    "deep": _DEEP,
    "deep, half of the features dropped": {**_DEEP, "encoder": {"dropout": 0.1, "feature_dropout": 0.5}},
    "deep, little decay": {**_DEEP, "training": {"weight_decay": 0.05}},
}
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


def without_features(split: Split) -> dict[str, Settings]:
    """All of these, and the deep ones with the steps and the loss that are suggested for ours."""
    training = suggest(split.graph, len(split.train_targets)).settings.to_dict()["training"]
    ours = {"training": {name: training[name] for name in _SUGGESTED}}
    deep = ("deep", "deep, little decay")
    taught = {f"{name}, taught as ours": merged(WITHOUT_FEATURES[name], ours) for name in deep}
    return WITHOUT_FEATURES | taught


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["cora", "citeseer"])
    parser.add_argument("--methods", nargs="+", default=["yinyan", "gae", "optimised-gae", "ncn", "ncnc"])
    parser.add_argument("--candidates", nargs="+", help="only these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/tuning.jsonl"), help="finished lines are kept")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    found = {(row["data"], row["method"], row["candidate"]): row["validation"] for row in kept}
    for data in options.data:
        split = make_split(load(data), "clean", options.seed)
        candidates = without_features(split) if split.graph.features is None else CANDIDATES
        candidates = {name: candidates[name] for name in options.candidates or candidates}
        for name in options.methods:
            for candidate, settings in candidates.items():
                if (data, name, candidate) in found:
                    continue
                started = time.perf_counter()
                score = method(name)(Task(split, options.seed, settings, "cpu")).validation
                row = {"data": data, "method": name, "candidate": candidate, "validation": score}
                row["seconds"] = round(time.perf_counter() - started, 1)
                with options.out.open("a") as lines:
                    lines.write(json.dumps(row) + "\n")
                print(json.dumps(row), file=sys.stderr, flush=True)
                found[data, name, candidate] = score
            best = max(candidates, key=lambda c: found[data, name, c])
            print(f"{data:10} {name:15} {best:36} {found[data, name, best]:.4f}")


if __name__ == "__main__":
    main()
