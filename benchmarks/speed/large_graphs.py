"""Seconds and peak memory at the size of OGB's largest link graphs, on synthetic ones.

python benchmarks/speed/large_graphs.py embed             # Citation2's size: 2.9 M nodes, 30.6 M edges; T = 3
python benchmarks/speed/large_graphs.py train --steps 5   # PPA's size: 576,000 nodes, 30.3 M edges; T = 2
python benchmarks/speed/large_graphs.py train             # a whole epoch: hours on two cores
python benchmarks/speed/large_graphs.py embed --nodes 29000 --links 306000 --json

embed    The embeddings of all nodes without gradients by yinyan.model.inference.embed_all, from random features of 128
         columns, with one sampled negative graph: drawn, built and used as in a trained model's last pass; --half keeps
         layers and embeddings in bfloat16. `seconds` counts from the features
         and the built message graph to the embeddings; building that graph from pairs is `build_seconds`.
train    One epoch of yinyan.training.train with learned embeddings of 128 columns, one sampled negative graph, and the
         suggested batch size, loss, decoder and optimiser for such a graph; --steps stops it earlier, and the epoch's
         time is then that of the mean step after the first times the number of steps, which the output says. A
         whole epoch ends with a validation on 10,000 links that were held out.

The graph is that of lib/graphs.py. One process draws it and stores it (--cache, or a temporary folder), another reads
and measures, so that the drawing does not count. Peak memory is all that this second process ever held, the
interpreter, torch and the graph included (ru_maxrss).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import _path  # noqa: F401
from lib import common
from lib.graphs import kept
from lib.large_cases import training_data
from yinyan.graph import Graph
from yinyan.model.decoder import build_decoder
from yinyan.model.encoder import Encoder
from yinyan.model.inference import embed_all
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model
from yinyan.native.allocation import held_memory
from yinyan.randomness import Streams
from yinyan.settings import EncoderSettings
from yinyan.training.data import TrainingData
from yinyan.training.defaults import suggest
from yinyan.training.loop import TrainingState, train

SIZES = {"embed": (2_900_000, 30_600_000, 3), "train": (576_000, 30_300_000, 2)}  # nodes, links, T
CPU, SEED = torch.device("cpu"), 0


def embed(options: argparse.Namespace, pairs: Tensor) -> dict[str, Any]:
    settings = EncoderSettings(
        inputs="features",
        hidden_size=options.size,
        num_steps=options.layers,
        num_negatives=1,
        expected_negatives=False,
        storage="bfloat16" if options.half else "float32",
    )
    before = time.perf_counter()
    messages = MessageGraph.from_pairs(pairs, options.nodes)
    built = time.perf_counter()
    torch.manual_seed(SEED)
    features = torch.randn(options.nodes, options.size)
    encoder = Encoder(settings, options.nodes, options.size)
    generator = torch.Generator().manual_seed(SEED)
    started = time.perf_counter()
    dtype = torch.bfloat16 if options.half else torch.float32
    with torch.no_grad():
        y = embed_all(encoder, features, messages, negatives=generator, dtype=dtype)
    seconds = time.perf_counter() - started
    finite = all(bool(block.isfinite().all()) for block in y.split(65_536))
    return {"seconds": seconds, "build_seconds": built - before, "half": options.half, "finite": finite}


def training_parts(options: argparse.Namespace, pairs: Tensor) -> tuple[Model, TrainingData, Any]:
    data = training_data(pairs, options.nodes)
    some = Graph.from_arrays(np.array([[0, 1]]), num_nodes=options.nodes)  # settings depend on the number of nodes
    settings = suggest(some, data.targets.shape[0]).settings.updated(
        {
            "encoder": {
                "hidden_size": options.size,
                "embedding_size": options.size,
                "num_steps": options.layers,
                "num_negatives": 1,
                "expected_negatives": False,
                "sketch_size": 0,
            },
            "decoder": {"width": options.size},
            "training": {"epochs": 1, "evaluate_every": 1, "selection": "balanced"},
        }
    )
    if options.batch_size:
        settings = settings.updated({"training": {"batch_size": options.batch_size}})
    torch.manual_seed(SEED)
    encoder = Encoder(settings.encoder, options.nodes, 0)
    model = Model(encoder, build_decoder(settings.decoder, options.size, directed=False))
    return model, data, settings


def train_epoch(options: argparse.Namespace, pairs: Tensor) -> dict[str, Any]:
    before = time.perf_counter()
    model, data, settings = training_parts(options, pairs)
    batch = settings.training.batch_size
    steps = -(-data.targets.shape[0] // batch)
    wanted = min(options.steps or steps, steps)
    ends: list[float] = []

    def on_step(state: TrainingState) -> bool:
        ends.append(time.perf_counter())
        return len(ends) < wanted or wanted == steps

    started = time.perf_counter()
    state = train(model, data, settings.training, Streams(SEED, CPU), on_step=on_step)
    spent = time.perf_counter() - started
    each = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else ends[0] - started
    return {
        "seconds": spent if state.finished else each * steps,
        "extrapolated": not state.finished,
        "measured_seconds": spent,
        "steps_measured": len(ends),
        "steps_an_epoch": steps,
        "seconds_a_step": each,
        "batch_size": batch,
        "build_seconds": started - before,
        "valid_auc": state.history[-1].auc if state.history else None,
    }


def child(options: argparse.Namespace, file: Path) -> str:
    """What another process of this script prints, which reads the graph from a file."""
    command = [sys.executable, __file__, options.command, f"--file={file}"]
    for name in ("nodes", "links", "size", "layers", "threads", "steps", "batch_size"):
        command.append(f"--{name.replace('_', '-')}={getattr(options, name)}")
    command += ["--half"] if options.half else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"the process that measures ended with {done.returncode}")
    return done.stdout


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Draw the graph here, measure in another process."""
    with tempfile.TemporaryDirectory() as folder:
        before = time.perf_counter()
        file = kept(options.nodes, options.links, SEED, options.cache or Path(folder))
        spent = time.perf_counter() - before
        return json.loads(child(options, file)) | {"generate_seconds": spent}


def measure_file(options: argparse.Namespace) -> None:
    """The work of the child."""
    before = time.perf_counter()
    pairs = torch.from_numpy(np.load(options.file))
    loaded = time.perf_counter() - before
    with held_memory():  # as in a model's own training
        found = (embed if options.command == "embed" else train_epoch)(options, pairs)
    sizes = {name: getattr(options, name) for name in ("nodes", "links", "size", "layers")}
    result = {"command": options.command, **found, "load_seconds": loaded, "peak_gigabytes": common.peak_gigabytes()}
    print(json.dumps(result | {"sizes": sizes | {"negatives": 1}} | common.machine()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (nodes, links, layers) in SIZES.items():
        command = commands.add_parser(name)
        common.add_options(command)
        command.add_argument("--nodes", type=int, default=nodes)
        command.add_argument("--links", type=int, default=links)
        command.add_argument("--size", type=int, default=128, help="dimensions")
        command.add_argument("--layers", type=int, default=layers, help="T")
        command.add_argument("--half", action="store_true", help="embed: layers and embeddings in bfloat16")
        command.add_argument("--steps", type=int, default=0, help="train: stop after so many and extrapolate")
        command.add_argument("--batch-size", type=int, default=0, help="train: other than suggested")
        command.add_argument("--cache", type=Path, help="a folder that keeps the graph for the next run")
        command.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = common.parsed(parser, nodes=400, links=2_000, size=8)
    if options.file:
        measure_file(options)
        return
    result = measure(options)
    if options.picture:
        shown = {k: result[k] for k in ("load_seconds", "build_seconds", "seconds")}
        title = (
            f"{options.command}: {options.nodes:,} nodes, {options.links:,} links, {result['peak_gigabytes']:.1f} GiB"
        )
        common.bars(options.picture, shown, title=title, label="seconds", line=None)
    common.report(options, result, lambda: show(result))


def show(result: dict[str, Any]) -> None:
    common.print_machine(result)
    sizes = result["sizes"]
    shape = f"{sizes['nodes']:,} nodes, {sizes['links']:,} edges, {sizes['size']} dimensions"
    print(f"\n{shape}, T = {sizes['layers']}, K = 1\n")
    plain = {k: v for k, v in result.items() if isinstance(v, (int, float)) and k.endswith(("seconds", "gigabytes"))}
    common.print_table((result["command"], ""), [(k.replace("_", " "), v) for k, v in plain.items()])
    if result.get("extrapolated"):
        print(
            f"\nExtrapolated: {result['steps_measured']} of {result['steps_an_epoch']:,} steps were run, of "
            f"{result['seconds_a_step']:.2f} s each; a whole epoch would take {result['seconds']:,.0f} s."
        )


if __name__ == "__main__":
    main()
