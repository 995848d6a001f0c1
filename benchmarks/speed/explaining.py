"""Milliseconds to explain the score of a pair: by a few columns, beside all layers under autograd.

python benchmarks/speed/explaining.py                      # 20,000 nodes, 170,000 edges, default settings
python benchmarks/speed/explaining.py --json

`few columns` is yinyan.model.explanation.Explainer, which computes once what all pairs share (`once_ms`). `all layers`
computes all of it for every pair and runs the layers at every point of the quadrature, as earlier versions did. Pairs
are edges and random pairs; they take turns. `largest_difference` is that of the shares, over the largest of |score|,
|score_alone| and the shares. Weights are untrained: times do not depend on them.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import torch

import _path  # noqa: F401
from lib import common
from lib.graphs import synthetic
from yinyan.graph import Graph
from yinyan.model.explanation import Explainer
from yinyan.model.fitted import build_model, our_encoder
from yinyan.model.tensors import message_graph
from yinyan.randomness import Streams
from yinyan.training.defaults import suggest


def main() -> None:
    parser = common.parser(__doc__, picture=False)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--links", type=int, default=170_000)
    parser.add_argument("--pairs", type=int, default=20, help="pairs to explain, half of them edges")
    parser.add_argument("--whole", type=int, default=4, help="pairs to explain by all layers as well")
    options = common.parsed(parser, nodes=300, links=1_500, pairs=4, whole=2)
    result = measure(options.nodes, options.links, options.pairs, options.whole)
    common.report(options, result | common.machine(), lambda: show(result))


def show(result: dict[str, Any]) -> None:
    common.print_machine(common.machine())
    common.print_table(("what", "value"), list(result.items()))


def measure(num_nodes: int, num_links: int, num_pairs: int, num_whole: int) -> dict[str, Any]:
    links = synthetic(num_nodes, num_links, 0).numpy()
    graph = Graph.from_arrays(links, num_nodes=num_nodes)
    settings = suggest(graph, num_links).settings
    model = build_model(settings, graph, 0)
    messages = message_graph(graph, np.arange(graph.num_edges), torch.device("cpu"))

    def explainer() -> Explainer:
        draws = Streams.fresh(0, "inference/0", torch.device("cpu"))
        return Explainer(our_encoder(model), None, messages, draws)

    rng = np.random.default_rng(1)
    edges = graph.edges[rng.choice(graph.num_edges, num_pairs // 2, replace=False)]
    pairs = np.concatenate([edges, rng.choice(num_nodes, (num_pairs - len(edges), 2))])
    rng.shuffle(pairs)
    started = time.perf_counter()
    kept = explainer()
    once = time.perf_counter() - started
    kept.explain(model.decoder, *pairs[0].tolist())  # what is done once only shall not count
    times, differences, processor = common.Times(), [], []
    for place, (a, b) in enumerate(pairs.tolist()):
        before = time.process_time()
        times.once("few columns", lambda a=a, b=b: kept.explain(model.decoder, a, b))  # type: ignore[misc]
        processor.append(time.process_time() - before)
        if place < num_whole:
            times.once("all layers", lambda a=a, b=b: explainer().explain(model.decoder, a, b, whole=True))  # type: ignore[misc]
            differences.append(difference(kept, model.decoder, a, b))
    few, whole = sorted(times.seconds["few columns"]), times.seconds["all layers"]
    return {
        "nodes": num_nodes,
        "edges": graph.num_edges,
        "propagation_steps": settings.encoder.num_steps,
        "dimensions": settings.encoder.hidden_size,
        "sketch_size": settings.encoder.sketch_size,
        "pairs": num_pairs,
        "mean_neighbours_of_a_pair": float(graph.degrees[pairs].sum(1).mean()),
        "once_ms": 1e3 * once,
        "few_columns_ms": 1e3 * statistics.median(few),
        "few_columns_slowest_ms": 1e3 * few[-1],
        "few_columns_processor_ms": 1e3 * statistics.median(processor),
        "all_layers_pairs": len(whole),
        "all_layers_ms": 1e3 * statistics.median(whole),
        "all_layers_over_few_columns": statistics.median(whole) / statistics.median(few),
        "largest_difference": max(differences),
    }


def difference(kept: Explainer, decoder: Any, a: int, b: int) -> float:
    """Between the two ways, over the scale of the score."""
    (few, *few_scores), (whole, *whole_scores) = (kept.explain(decoder, a, b, whole=w) for w in (False, True))
    amounts = {(share.end, share.neighbour, share.attracts): share.amount for share in whole}
    scale = max(abs(x) for x in (*whole_scores, *amounts.values()))
    gaps = [abs(amounts[share.end, share.neighbour, share.attracts] - share.amount) for share in few]
    gaps += [abs(x - y) for x, y in zip(few_scores, whole_scores, strict=True)]
    return max(gaps) / scale


if __name__ == "__main__":
    main()
