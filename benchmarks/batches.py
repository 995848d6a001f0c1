"""What steps smaller than the whole graph cost: accuracy on validation links, seconds, and what a step keeps in memory.

YINYAN_DATA=/data python benchmarks/batches.py                          # Cora, Citeseer and a synthetic graph
YINYAN_DATA=/data python benchmarks/batches.py --data cora --epochs 60 --seeds 3
YINYAN_DATA=/data python benchmarks/batches.py --quick --json --picture batches.png

whole            The settings that yinyan suggests for the graph: all nodes at once, b target links a step.
whole b/r        The same with an r-th of the targets a step: r times as many passes of the encoder.
shared r         The targets of `whole b/r`, r batches to a pass (updates_per_propagation): the decoder is updated as
                 often as in `whole b/r`, the encoder as often as in `whole`.
clusters P/c     P clusters, c of them at a time (clusters, clusters_per_step): P/c updates a step of b targets.

Protocol clean, split of seed 0, a fixed number of epochs; test links are never looked at. Accuracy is the best
validation of each run, a mean over `--seeds` runs that differ in weights and draws; with one seed, half a point of
Hits@10% is noise. `within` is the share of message links that no cluster boundary cuts. `kept` is what autograd
holds for the backward pass of the encoder, weights and features left out, at the largest piece of a step;
`remembered` is what clusters store of the nodes that are not computed, in main memory and without gradients.
The synthetic graph is that of graphs.py with 64 features: a random vector a community, plus noise of three times
its length.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

import common
from graphs import drawn
from yinyan.batches import Clusters, TrainingData
from yinyan.datasets import load
from yinyan.defaults import suggest
from yinyan.fitting import build_model
from yinyan.graph import Graph
from yinyan.propagation import SparseMatrix
from yinyan.protocol import make_split
from yinyan.randomness import Streams
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.tensors import training_data
from yinyan.training import TrainingState, batcher, train

CPU = torch.device("cpu")
SHARED = (2, 4, 8)
CLUSTERS = ((8, 2), (8, 1))
_NOISE = 3.0


def synthetic_graph(num_nodes: int, num_links: int) -> Graph:
    """Communities, and features that tell them with noise."""
    made, rng = drawn(num_nodes, num_links, 0), np.random.default_rng(0)
    community = made.communities.numpy()
    centres = rng.normal(size=(community.max() + 1, 64))
    features = (centres[community] + _NOISE * rng.normal(size=(num_nodes, 64))).astype(np.float32)
    return Graph.from_arrays(made.pairs.numpy(), num_nodes=num_nodes, features=features)


def variants(base: Settings) -> dict[str, Settings]:
    batch = base.training.batch_size
    changes: dict[str, dict[str, Any]] = {"whole": {}}
    for r in SHARED:
        part = -(-batch // r)
        changes[f"whole b/{r}"] = {"batch_size": part}
        changes[f"shared {r}"] = {"batch_size": part, "updates_per_propagation": r}
    for count, together in CLUSTERS:
        changes[f"clusters {count}/{together}"] = {"clusters": count, "clusters_per_step": together}
    return {name: base.updated({"training": change}) for name, change in changes.items()}


def run(split: Split, data: TrainingData, settings: Settings, seed: int) -> tuple[TrainingState, float]:
    """A whole training and its seconds."""
    model = build_model(settings, split.graph, seed)
    started = time.perf_counter()
    state = train(model, data, settings.training, Streams(seed, CPU))
    return state, time.perf_counter() - started


def memory(split: Split, data: TrainingData, settings: Settings) -> dict[str, float | None]:
    """MiB that one step keeps and remembers, and the share of links within clusters."""
    model = build_model(settings, split.graph, 0)
    made = batcher(model, data, settings.training)
    size = settings.training.batch_size * settings.training.updates_per_propagation
    batch, most = torch.arange(min(size, data.targets.shape[0])), 0
    features = vars(data.features).values() if isinstance(data.features, SparseMatrix) else [data.features]
    given = [*model.parameters(), *features]
    places = {tensor.data_ptr() for tensor in given if isinstance(tensor, Tensor)}
    held: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in places:
            held[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        for piece in made.pieces(batch, None, Streams(0, CPU)):
            del piece
            most = max(most, sum(held.values()))
            held.clear()
    remembered = within = None
    if isinstance(made, Clusters):
        steps, bytes_each = settings.encoder.num_steps + 1, 2 if settings.encoder.storage == "bfloat16" else 4
        remembered = steps * split.graph.num_nodes * settings.encoder.hidden_size * bytes_each / 2**20
        ends = made.part[data.messages.pairs]
        within = float((ends[:, 0] == ends[:, 1]).double().mean())
    return {"kept_mib": most / 2**20, "remembered_mib": remembered, "links_within": within}


def measured(split: Split, epochs: int | None, seeds: int) -> dict[str, dict[str, Any]]:
    """One row a variant; runs of the same seed follow each other, so that a busy hour disturbs all alike."""
    data = training_data(split.graph, split, CPU)
    suggested = suggest(split.graph, len(split.train_targets)).settings
    epochs = epochs or suggested.training.epochs
    fixed = {"epochs": epochs, "patience": 0, "evaluate_every": max(1, epochs // 20)}
    settings = variants(suggested.updated({"encoder": {"sketch_size": 0}, "training": fixed}))  # clusters have none
    runs: dict[str, list[tuple[TrainingState, float]]] = {name: [] for name in settings}
    run(split, data, settings["whole"].updated({"training": {"epochs": 1}}), 0)  # unmeasured: the first is slower
    for seed in range(seeds):
        for name, chosen in settings.items():
            runs[name].append(run(split, data, chosen, seed))
    rows = {}
    for name, chosen in settings.items():
        best = [max((r for r in s.history if r.score is not None), key=lambda r: r.score or 0) for s, _ in runs[name]]
        hits, auc = [r.hits or 0.0 for r in best], [r.auc or 0.0 for r in best]
        rows[name] = {
            "hits": statistics.mean(hits),
            "hits_spread": statistics.stdev(hits) if seeds > 1 else None,
            "auc": statistics.mean(auc),
            "best_epoch": statistics.mean(r.epoch for r in best),
            "seconds_an_epoch": min(seconds for _, seconds in runs[name]) / epochs,
            **memory(split, data, chosen),
        }
    return rows


def main() -> None:
    parser = common.parser(__doc__, quick="Cora only, 15 epochs")
    parser.add_argument("--data", nargs="+", default=["cora", "citeseer", "synthetic"])
    parser.add_argument("--epochs", type=int, help="another number than the suggested one")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each variant")
    parser.add_argument("--nodes", type=int, default=4_000, help="of the synthetic graph")
    parser.add_argument("--links", type=int, default=20_000, help="of the synthetic graph")
    options = parser.parse_args()
    if options.quick:
        options.data, options.epochs = ["cora"], options.epochs or 15
    if "YINYAN_DATA" not in os.environ and set(options.data) != {"synthetic"}:
        parser.error("YINYAN_DATA needs to name the folder that holds the data")
    torch.set_num_threads(options.threads)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in options.data:
        graph = synthetic_graph(options.nodes, options.links) if name == "synthetic" else load(name)
        found[name] = measured(make_split(graph, "clean", 0), options.epochs, options.seeds)
    result = {"data": found, "epochs": options.epochs, "seeds": options.seeds, **common.machine()}
    if options.picture:
        bars = {f"{data}, {name}": row["hits"] for data, rows in found.items() for name, row in rows.items()}
        common.bars(options.picture, bars, title="Validation", label="Hits@10%", line=None)
    if options.json:
        common.print_json(result)
        return
    common.print_machine(result)
    for data, rows in found.items():
        print(f"\n{data}\n")
        header = ("", "Hits@10%", "±", "AUC", "best epoch", "s an epoch", "MiB kept", "MiB remembered", "within")
        common.print_table(header, [(name, *row.values()) for name, row in rows.items()])


if __name__ == "__main__":
    main()
