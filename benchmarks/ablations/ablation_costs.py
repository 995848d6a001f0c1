"""What each ablation of hyperparameters.py costs at inference: embedding all nodes, and scoring given pairs.

YINYAN_DATA=/data python benchmarks/ablations/ablation_costs.py --data pubmed
YINYAN_DATA=/data python benchmarks/ablations/ablation_costs.py --data cora --on "sketches of 64" --json

Weights are fresh: time does not depend on them, but for the number of rounds that the exact minimum takes. Models take
turns, the fastest of five calls counts; ratios are to the base in the same run. Ablations that change training alone
(the loss, its negatives, batches, dropout, averages) build the same model as the base and are left out.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

import _path  # noqa: F401
import hyperparameters
from lib import common, variants
from yinyan.evaluation import make_split
from yinyan.model.fitted import build_model
from yinyan.model.scoring import Model, decode
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.randomness import Streams
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.training.defaults import ground

REPEATS = 5
AT_INFERENCE = ("inputs", "hidden_size", "embedding_size", "num_steps", "num_negatives", "sampler", "output_norm")
AT_INFERENCE += ("expected_negatives", "margin", "sketch_size", "kind", "depth", "width", "residual", "norm")


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--data", default="pubmed")
    parser.add_argument("--on", choices=list(hyperparameters.ABLATIONS), default="sketches of 64", metavar="NAME")
    parser.add_argument("--pairs", type=int, default=50_000)
    options = common.parsed(parser, pairs=200)
    rows = measure(options.data, options.on, options.pairs, smoke=options.smoke)
    if options.picture:
        bars = {row["ablation"]: row["embed_ratio"] for row in rows}
        common.bars(options.picture, bars, title=f"Embedding all of {options.data}", label="ratio to the base")
    common.report(options, {"rows": rows} | common.machine(), lambda: show(rows))


def show(rows: list[dict[str, Any]]) -> None:
    common.print_machine(common.machine())
    common.print_table(("ablation", "embed, ms", "ratio", "score, ms", "ratio"), [tuple(row.values()) for row in rows])


def costing(settings: Settings) -> tuple[Any, ...]:
    """What of the settings an embedding or a score takes longer for."""
    flat = {**settings.to_dict()["encoder"], **settings.to_dict()["decoder"]}
    return tuple(flat[name] for name in AT_INFERENCE)


def models(split: Split, data: str, on: str, *, smoke: bool) -> dict[str, Model]:
    """The base first, then each ablation whose model is another one."""
    suggested = ground(split.graph, len(split.train_targets)).settings
    base = hyperparameters.changed(hyperparameters.BASES.get(data, {}), hyperparameters.ABLATIONS[on], suggested)
    usual, built = costing(suggested.updated(base)), {}
    for ablation, change in hyperparameters.ABLATIONS.items():
        settings = suggested.updated(hyperparameters.changed(base, change, suggested))
        build = variants.VARIANTS.get(ablation)
        learned = settings.encoder.inputs != "features"  # starts of tables cost nothing later
        if ablation == hyperparameters.BASE or build is not None or (costing(settings) != usual and not learned):
            built[ablation] = build_model(settings.updated(common.SMALL if smoke else {}), split.graph, 0, build)
    return built


def measure(data: str, on: str, num_pairs: int, *, smoke: bool) -> list[dict[str, Any]]:
    given = common.load_data(data, smoke=smoke)
    device, split = torch.device("cpu"), make_split(given, "clean", hyperparameters.FIRST_SEED)
    features = feature_tensor(split.graph.features, device)
    messages = message_graph(split.graph, split.test_messages, device)
    pairs = torch.randint(split.graph.num_nodes, (num_pairs, 2), generator=torch.Generator().manual_seed(0))
    tasks: dict[str, common.Task] = {}

    @torch.no_grad()
    def embed(model: Model) -> torch.Tensor:
        return model.encoder(features, messages, negatives=Streams.fresh(0, "inference/0", device))

    built = models(split, data, on, smoke=smoke)
    for ablation, model in built.items():
        tasks[f"embed {ablation}"] = partial(embed, model)
        tasks[f"score {ablation}"] = partial(decode, model.decoder, embed(model), pairs)
    times = common.Times()
    times.run(tasks, 1 if smoke else REPEATS)
    least = {name: 1e3 * times.least(name) for name in tasks}
    return [
        {
            "ablation": ablation,
            "embed_ms": least[f"embed {ablation}"],
            "embed_ratio": least[f"embed {ablation}"] / least[f"embed {hyperparameters.BASE}"],
            "score_ms": least[f"score {ablation}"],
            "score_ratio": least[f"score {ablation}"] / least[f"score {hyperparameters.BASE}"],
        }
        for ablation in built
    ]


if __name__ == "__main__":
    main()
