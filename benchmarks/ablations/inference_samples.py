"""What several samples of non-links at inference bring: the same weights, rows averaged over 1, 4 and 16 samples.

YINYAN_DATA=/data python benchmarks/inference_samples.py --data cora --seeds 2

Protocol clean, splits of seeds 100, 101, …; the suggested settings with sketches of 64 and non-links sampled instead of
expected. A figure is Hits@10% plus AUC on validation links, as in levers.py; `spread` is its standard deviation over
several draws, which averaging should lower. Test links are never scored.
"""

from __future__ import annotations

import argparse
import statistics

import torch

from yinyan.datasets import load
from yinyan.defaults import ground
from yinyan.fitting import Hooks, embed_graph, fit_model
from yinyan.metrics import hits_at_rate, roc_auc
from yinyan.protocol import make_split
from yinyan.splits import Split
from yinyan.tensors import feature_tensor, message_graph
from yinyan.training import score_pairs

CPU = torch.device("cpu")
SAMPLES = (1, 4, 16)
DRAWS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="cora")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    data = load(given.data)
    for seed in range(100, 100 + given.seeds):
        split = make_split(data, "clean", seed)
        for samples, found in figures(split, seed).items():
            spread = statistics.stdev(found)
            print(f"seed {seed}, {samples:2} samples: {statistics.mean(found):.4f}, spread {spread:.4f}", flush=True)


def figures(split: Split, seed: int) -> dict[int, list[float]]:
    """By number of samples: the figure of each draw."""
    settings = ground(split.graph, len(split.train_targets)).settings
    settings = settings.updated({"encoder": {"sketch_size": 64, "expected_negatives": False}})
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
