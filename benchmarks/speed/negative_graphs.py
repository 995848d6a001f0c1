"""Milliseconds of a training step and of an embedding pass against the number of negative graphs, K.

python benchmarks/speed/negative_graphs.py --json
python benchmarks/speed/negative_graphs.py --nodes 10000 --links 100000

On Cora with the default settings of our encoder, and on a graph of lib/graphs.py with features of --size columns. A
step is the encoder's forward and backward pass with a third of the edges hidden, negatives drawn and built anew; the
decoder and the optimiser do not depend on K. `mean` is the mean of all negative graphs, the default of our model: no
negative is drawn. Tasks take turns, and the fastest of --repeats counts, in processor time of one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import _path  # noqa: F401
from lib import common
from lib.graphs import synthetic
from lib.inference_costs import timed
from yinyan.graph import Graph
from yinyan.model.encoder import Encoder
from yinyan.model.inference import embed_all
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.native.allocation import held_memory
from yinyan.splits import random_split
from yinyan.training.defaults import ground

COUNTS = (0, 1, 2, 4, 8)
HIDDEN_SHARE = 1 / 3  # as the default batch on Cora
CPU = torch.device("cpu")


def variants() -> dict[str, dict[str, Any]]:
    """Settings of the encoder by name."""
    sampled = {f"K = {k}": {"num_negatives": k, "expected_negatives": False} for k in COUNTS}
    return sampled | {"mean": {"num_negatives": 1, "expected_negatives": True}}


def tasks(graph: Graph, chosen: np.ndarray) -> dict[str, Callable[[], object]]:
    """A step and a pass for each number of negative graphs."""
    messages, features = message_graph(graph, chosen, CPU), feature_tensor(graph.features, CPU)
    settings = ground(graph, len(chosen)).settings.updated({"encoder": {"sketch_size": 0}})
    width = 0 if graph.features is None else graph.features.shape[1]
    generator = torch.Generator().manual_seed(0)
    hidden = torch.rand(len(chosen), generator=generator) < HIDDEN_SHARE
    made: dict[str, Callable[[], object]] = {}
    for name, own in variants().items():
        torch.manual_seed(0)
        encoder = Encoder(settings.updated({"encoder": own}).encoder, graph.num_nodes, width)

        def step(encoder: Encoder = encoder) -> Tensor | None:
            encoder.zero_grad(set_to_none=True)
            y = encoder(features, messages, negatives=generator, hidden=hidden)
            y.square().sum().backward()
            return encoder.base.bias.grad

        def embed(encoder: Encoder = encoder) -> Tensor:
            return embed_all(encoder, features, messages, negatives=generator)

        made |= {f"{name}/step": step, f"{name}/embed": embed}
    return made


def measure(graph: Graph, chosen: np.ndarray, repeats: int) -> list[dict[str, Any]]:
    with held_memory():
        made = tasks(graph, chosen)
        for task in made.values():
            task()  # unmeasured
        rounds = [{name: timed(task) for name, task in made.items()} for _ in range(repeats)]
    least = {name: 1e3 * min(times[name] for times in rounds) for name in made}
    return [
        {"negatives": name, "step_ms": least[f"{name}/step"], "embed_ms": least[f"{name}/embed"]} for name in variants()
    ]


def main() -> None:
    parser = common.parser(__doc__, picture=False, threads=1)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--links", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=128, help="feature columns")
    parser.add_argument("--repeats", type=int, default=3)
    options = common.parsed(parser, nodes=300, links=1_500, size=130, repeats=1)
    cora = random_split(common.load_data("cora", smoke=options.smoke).graph, seed=0)
    features = np.random.default_rng(0).normal(size=(options.nodes, options.size)).astype(np.float32)
    pairs = synthetic(options.nodes, options.links, 0).numpy()
    large = Graph.from_arrays(pairs, num_nodes=options.nodes, features=features)
    graphs = {"cora": (cora.graph, cora.train_messages), "synthetic": (large, np.arange(options.links))}
    rows = {name: measure(*given, options.repeats) for name, given in graphs.items()}
    sizes = {name: [graph.num_nodes, len(chosen)] for name, (graph, chosen) in graphs.items()}
    result = {"graphs": rows, "sizes": sizes} | common.machine()
    common.report(options, result, lambda: show(result))


def show(result: dict[str, Any]) -> None:
    common.print_machine(result)
    for name, rows in result["graphs"].items():
        nodes, edges = result["sizes"][name]
        print(f"\n{name}: {nodes:,} nodes, {edges:,} message edges")
        common.print_table(("negative graphs", "step, ms", "embed, ms"), [tuple(row.values()) for row in rows])


if __name__ == "__main__":
    main()
