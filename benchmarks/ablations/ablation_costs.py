"""What each lever costs at inference: embedding all nodes, and scoring given pairs.

YINYAN_DATA=/data python benchmarks/lever_costs.py --data pubmed
YINYAN_DATA=/data python benchmarks/lever_costs.py --data cora --on "sketches of 64" --json --picture costs.png

Weights are fresh: time does not depend on them, but for the number of rounds that the exact minimum takes. Levers take
turns, the fastest of five calls counts; ratios are to the base in the same run. Levers that change training alone
(the loss, its non-links, batches, dropout, averages) build the same model as the base and are left out.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import torch

import common
import levers
import variants
from yinyan.datasets import load
from yinyan.defaults import ground
from yinyan.fitting import build_model
from yinyan.protocol import make_split
from yinyan.randomness import Streams
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.tensors import feature_tensor, message_graph
from yinyan.training import Model, decode

REPEATS = 5
AT_INFERENCE = ("inputs", "hidden_size", "embedding_size", "num_steps", "num_negatives", "sampler", "output_norm")
AT_INFERENCE += ("expected_negatives", "margin", "sketch_size", "kind", "depth", "width", "residual", "norm")


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--data", default="pubmed")
    parser.add_argument("--on", choices=list(levers.LEVERS), default="sketches of 64", metavar="NAME")
    parser.add_argument("--pairs", type=int, default=50_000)
    options = parser.parse_args()
    if "YINYAN_DATA" not in os.environ:
        parser.error("YINYAN_DATA needs to name the folder that holds the data")
    torch.set_num_threads(options.threads)
    rows = measure(options.data, options.on, options.pairs)
    if options.picture:
        bars = {row["lever"]: row["embed_ratio"] for row in rows}
        common.bars(options.picture, bars, title=f"Embedding all of {options.data}", label="ratio to the base")
    if options.json:
        common.print_json({"rows": rows} | common.machine())
        return
    common.print_machine(common.machine())
    common.print_table(("lever", "embed, ms", "ratio", "score, ms", "ratio"), [tuple(row.values()) for row in rows])


def costing(settings: Settings) -> tuple[Any, ...]:
    """What of the settings an embedding or a score takes longer for."""
    flat = {**settings.to_dict()["encoder"], **settings.to_dict()["decoder"]}
    return tuple(flat[name] for name in AT_INFERENCE)


def models(split: Split, data: str, on: str) -> dict[str, Model]:
    """The base first, then each lever whose model is another one."""
    suggested = ground(split.graph, len(split.train_targets)).settings
    base = levers.changed(levers.BASES.get(data, {}), levers.LEVERS[on], suggested)
    usual, built = costing(suggested.updated(base)), {}
    for lever, change in levers.LEVERS.items():
        settings = suggested.updated(levers.changed(base, change, suggested))
        build = variants.VARIANTS.get(lever)
        learned = settings.encoder.inputs != "features"  # starts of tables cost nothing later
        if lever == levers.BASE or build is not None or (costing(settings) != usual and not learned):
            built[lever] = build_model(settings, split.graph, 0, build)
    return built


def measure(data: str, on: str, num_pairs: int) -> list[dict[str, Any]]:
    device, split = torch.device("cpu"), make_split(load(data), "clean", levers.FIRST_SEED)
    features = feature_tensor(split.graph.features, device)
    messages = message_graph(split.graph, split.test_messages, device)
    pairs = torch.randint(split.graph.num_nodes, (num_pairs, 2), generator=torch.Generator().manual_seed(0))
    tasks: dict[str, common.Task] = {}

    @torch.no_grad()
    def embed(model: Model) -> torch.Tensor:
        return model.encoder(features, messages, negatives=Streams.fresh(0, "inference/0", device))

    built = models(split, data, on)
    for lever, model in built.items():
        tasks[f"embed {lever}"] = partial(embed, model)
        tasks[f"score {lever}"] = partial(decode, model.decoder, embed(model), pairs)
    times = common.Times()
    times.run(tasks, REPEATS)
    least = {name: 1e3 * times.least(name) for name in tasks}
    return [
        {
            "lever": lever,
            "embed_ms": least[f"embed {lever}"],
            "embed_ratio": least[f"embed {lever}"] / least[f"embed {levers.BASE}"],
            "score_ms": least[f"score {lever}"],
            "score_ratio": least[f"score {lever}"] / least[f"score {levers.BASE}"],
        }
        for lever in built
    ]


if __name__ == "__main__":
    main()
