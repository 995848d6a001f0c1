"""Seconds of a whole training at ogbl-ppa's size, extrapolated from a few steps: BUDDY against ours.

python benchmarks/speed/training_costs.py --json
python benchmarks/speed/training_costs.py --methods buddy --steps 3

Both have the settings that the library chooses for 576,289 nodes without features and 21.2 million training edges, in
the same loop. `seconds` are those of the mean of --steps steps times the steps of all epochs, and of the work before
them; early stopping would end either sooner. They are processor seconds of one thread, with untrained weights.

Ours starts from eigenvectors and puts nodes into local order. BUDDY makes sketches. Eigenvectors and sketches are timed
on a graph with the same mean degree and a --part of the nodes, and multiplied by the ratio. In the steps of BUDDY,
sketches of single nodes stand for those of neighbourhoods, which have the same size.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import _path  # noqa: F401
from lib import common
from lib.graphs import in_local_order, kept
from lib.inference_costs import timed
from lib.large_cases import SIZES, SMOKE, Size, training_data
from lib.large_costs import OURS
from lib.untrained import Untrained, split_of_size, untrained
from yinyan.model.fitted import our_encoder
from yinyan.model.messages import MessageGraph
from yinyan.model.spectral import start_spectrally
from yinyan.native.allocation import held_memory
from yinyan.peers.set_sketches import Balls, own_sketches
from yinyan.randomness import Streams
from yinyan.training.data import TrainingData
from yinyan.training.loop import TrainingState, train

METHODS = (OURS, "buddy")
CPU = torch.device("cpu")


def prepared(name: str, size: Size, part: int, folder: Path) -> float:
    """Seconds of the work before the first step, local order aside, timed on a smaller graph."""
    small = size.part(part)
    links = torch.from_numpy(np.load(kept(small.nodes, small.links, 0, folder)))[: small.train]
    messages = MessageGraph.from_pairs(links, small.nodes)
    made = untrained(name, split_of_size(small.nodes, size.train, 0))
    if name == OURS:
        generator = Streams.fresh(0, "spectral start", CPU)
        spent = timed(lambda: start_spectrally(our_encoder(made.model), messages, generator))
    else:
        spent = timed(lambda: Balls.of(messages, made.settings.encoder.num_steps))
    return spent * size.nodes / small.nodes


def timed_steps(made: Untrained, data: TrainingData, wanted: int) -> list[float]:
    """Processor seconds of each of the first steps."""
    ends: list[float] = []

    def on_step(state: TrainingState) -> bool:
        ends.append(time.process_time())
        return len(ends) < wanted

    started = time.process_time()
    train(made.model, data, made.settings.training, Streams(0, CPU), on_step=on_step)
    return [after - before for before, after in zip([started, *ends], ends, strict=False)]


def cost(name: str, options: Any, size: Size, folder: Path) -> dict[str, Any]:
    links = torch.from_numpy(np.load(kept(size.nodes, size.links, 0, folder)))[: size.train].clone()
    made = untrained(name, split_of_size(size.nodes, size.train, 0))
    ordering = time.process_time()
    if made.settings.training.node_order == "local" and name == OURS:
        links = in_local_order(links, size.nodes)
    ordering = time.process_time() - ordering
    data = training_data(links, size.nodes)
    del links
    sketched = nullcontext() if name == OURS else mock.patch.object(Balls, "of", _stand_in)
    with sketched:
        each = timed_steps(made, data, options.steps)
    training = made.settings.training
    per_epoch = -(-size.train // training.batch_size)
    before = ordering + prepared(name, size, options.part, folder)
    step = sum(each) / len(each)
    return {
        "method": name,
        "batch_size": training.batch_size,
        "steps_per_epoch": per_epoch,
        "epochs": training.epochs,
        "steps_timed": len(each),
        "seconds_per_step": step,
        "seconds_per_epoch": step * per_epoch,
        "prepare": before,
        "seconds": before + step * per_epoch * training.epochs,
        "extrapolated": True,
    }


def _stand_in(messages: MessageGraph, steps: int, hidden: torch.Tensor | None = None) -> Balls:
    """Tables of the right size; `hidden` is None, as sketches are made once."""
    own = own_sketches(messages.num_nodes, messages.pairs.device)
    return Balls((own,) * (steps + 1), torch.ones(messages.num_nodes, steps))


def main() -> None:
    parser = common.parser(__doc__, picture=False, threads=1)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--part", type=int, default=32, help="nodes over those of the graph for work before steps")
    parser.add_argument("--cache", type=Path, help="a folder that keeps the graphs for the next run")
    options = common.parsed(parser, steps=1, part=2)
    size = SMOKE if options.smoke else SIZES["ppa"]
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, held_memory():
        rows = [cost(name, options, size, options.cache or Path(folder)) for name in options.methods.split(",")]
    result = {"size": size._asdict(), "methods": rows, "total_seconds": time.perf_counter() - started}
    result |= {"peak_gigabytes": common.peak_gigabytes()} | common.machine()
    common.report(options, result, lambda: show(result))


def show(result: dict[str, Any]) -> None:
    common.print_machine(result)
    print()
    names = ("method", "batch", "steps per epoch", "epochs", "s per step", "before, s", "all, h (extrapolated)")
    keys = ("method", "batch_size", "steps_per_epoch", "epochs", "seconds_per_step", "prepare")
    common.print_table(names, [(*(row[key] for key in keys), row["seconds"] / 3600) for row in result["methods"]])


if __name__ == "__main__":
    main()
