"""Averaging over sampled negative graphs at inference: the same weights, 1, 4 and 16 samples.

YINYAN_DATA=/data python benchmarks/ablations/inference_samples.py --data cora --seeds 2

Protocol clean, splits of seeds 100, 101, …; the suggested settings with sketches of 64 and negatives sampled instead of
expected. A figure is Hits@10% plus AUC on validation links, as in hyperparameters.py; `spread` is its standard
deviation over several draws, which averaging should lower. Test links are never scored.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import torch

import _path  # noqa: F401
from lib import common
from yinyan.evaluation import make_split
from yinyan.metrics import hits_at_rate, roc_auc
from yinyan.model.fitted import embed_graph
from yinyan.model.scoring import score_pairs
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.splits import Split
from yinyan.training.defaults import ground
from yinyan.training.fit import fit_model
from yinyan.training.hooks import Hooks

CPU = torch.device("cpu")
SAMPLES = (1, 4, 16)
DRAWS = 5


def main() -> None:
    parser = common.parser(__doc__, picture=False)
    parser.add_argument("--data", default="cora")
    parser.add_argument("--seeds", type=int, default=1)
    given = common.parsed(parser)
    data, rows = common.load_data(given.data, smoke=given.smoke), []
    for seed in range(100, 100 + given.seeds):
        split = make_split(data, "clean", seed)
        for samples, found in figures(split, seed, common.SMALL if given.smoke else {}).items():
            mean, spread = statistics.mean(found), statistics.stdev(found)
            rows.append({"seed": seed, "samples": samples, "validation": mean, "spread": spread})
        print(f"seed {seed} ...", file=sys.stderr, flush=True)
    common.report(given, rows, lambda: common.print_table(tuple(rows[0]), [tuple(row.values()) for row in rows]))


def figures(split: Split, seed: int, changes: dict[str, dict[str, Any]]) -> dict[int, list[float]]:
    """By number of samples: the figure of each draw."""
    settings = ground(split.graph, len(split.train_targets)).settings
    settings = settings.updated({"encoder": {"sketch_size": 64, "expected_negatives": False}}).updated(changes)
    model = fit_model(split, settings, seed=seed, device=CPU, calibration="platt", hooks=Hooks()).model
    features = feature_tensor(split.graph.features, CPU)
    messages = message_graph(split.graph, split.valid_messages, CPU)
    pairs = [torch.from_numpy(given) for given in (split.valid_targets, split.valid_negatives.reshape(-1, 2))]
    found: dict[int, list[float]] = {}
    for samples in SAMPLES:
        averaged = settings.updated({"training": {"inference_samples": samples}})
        for draw in range(DRAWS):
            rows = embed_graph(model, features, messages, averaged, draw)
            links, others = (score_pairs(model, rows, messages, given) for given in pairs)
            found.setdefault(samples, []).append(hits_at_rate(links, others, 0.1) + roc_auc(links, others))
    return found


if __name__ == "__main__":
    main()
