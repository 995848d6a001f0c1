"""What the way of drawing non-links costs in accuracy on validation links.

YINYAN_DATA=/data python benchmarks/ablations/negative_samplers.py                     # Pubmed and a synthetic graph
python benchmarks/ablations/negative_samplers.py --data synthetic --epochs 10 --seeds 2 --json --picture samplers.png

expected         The mean of all negative graphs, which is the default.
global           Both ends drawn uniformly, one non-link a link.
blocks           The same chances, but a node's non-links end in four blocks of 64 consecutive nodes.
source           One end of each link kept.

The settings that yinyan suggests, but for the negatives and a fixed number of epochs; protocol clean, split of seed 0.
Runs of a seed share weights and order of batches. Accuracy is the best validation of a run; test links are never looked
at. The synthetic graph has nodes numbered community by community, which is the worst case for blocks: all nodes of one
are alike.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import torch

import _path  # noqa: F401
from lib import common
from lib.graphs import with_features
from yinyan.evaluation import make_split
from yinyan.graph import Graph
from yinyan.model.fitted import build_model
from yinyan.randomness import Streams
from yinyan.training.data import training_data
from yinyan.training.defaults import suggest
from yinyan.training.loop import train
from yinyan.training.node_order import local_order

CPU = torch.device("cpu")
SAMPLERS: dict[str, dict[str, Any]] = {
    "expected": {"expected_negatives": True},
    "global": {"expected_negatives": False, "sampler": "global"},
    "blocks": {"expected_negatives": False, "sampler": "blocks"},
    "source": {"expected_negatives": False, "sampler": "source"},
}


def numbered_by_communities(num_nodes: int, num_links: int) -> Graph:
    given = with_features(num_nodes, num_links)
    order = local_order(given.edges, num_nodes)
    features = np.asarray(given.features)[order]
    return Graph.from_arrays(np.argsort(order)[given.edges], num_nodes=num_nodes, features=features)


def measured(graph: Graph, epochs: int, seeds: int) -> dict[str, dict[str, Any]]:
    split = make_split(graph, "clean", 0)
    data = training_data(graph, split, CPU)
    fixed = {"epochs": epochs, "patience": 0, "evaluate_every": max(1, epochs // 10)}
    base = suggest(graph, len(split.train_targets)).settings.updated({"encoder": {"sketch_size": 0}, "training": fixed})
    found: dict[str, dict[str, Any]] = {name: {"seconds": [], "hits": [], "auc": []} for name in SAMPLERS}
    for seed in range(seeds):
        for name, change in SAMPLERS.items():
            settings = base.updated({"encoder": change})
            model = build_model(settings, split.graph, seed)
            started = time.perf_counter()
            state = train(model, data, settings.training, Streams(seed, CPU))
            found[name]["seconds"].append(time.perf_counter() - started)
            best = max((row for row in state.history if row.score is not None), key=lambda row: row.score or 0)
            found[name]["hits"].append(best.hits or 0.0)
            found[name]["auc"].append(best.auc or 0.0)
    return found


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--data", nargs="+", choices=("pubmed", "synthetic"), default=["pubmed", "synthetic"])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    options = common.parsed(parser, epochs=2, seeds=1)
    nodes, links = (400, 2_000) if options.smoke else (20_000, 200_000)
    result: dict[str, Any] = {"epochs": options.epochs}
    for name in options.data:
        pubmed = name == "pubmed"
        graph = common.load_data(name, smoke=options.smoke).graph if pubmed else numbered_by_communities(nodes, links)
        result[name] = measured(graph, options.epochs, options.seeds)
    if options.picture:
        bars = {
            f"{data}, {name}": statistics.mean(result[data][name]["hits"]) for data in options.data for name in SAMPLERS
        }
        common.bars(options.picture, bars, title="Validation", label="Hits@10%", line=None)
    common.report(options, result | common.machine(), lambda: show(result, options.data, options.seeds))


def show(result: dict[str, Any], data: list[str], seeds: int) -> None:
    for name in data:
        rows = [
            (sampler, *(f"{statistics.mean(found[m]):.4f}" for m in ("hits", "auc")), _spread(found["hits"]))
            for sampler, found in result[name].items()
        ]
        print(f"\n{name}, {result['epochs']} epochs, {seeds} seeds")
        common.print_table(("negatives", "Hits@10%", "AUC", "spread of Hits@10%"), rows)


def _spread(values: list[float]) -> str:
    return f"{statistics.stdev(values):.4f}" if len(values) > 1 else ""


if __name__ == "__main__":
    main()
