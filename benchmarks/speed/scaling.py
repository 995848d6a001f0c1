"""How a training step's time grows with nodes, links, dimensions, layers and negative graphs.

python benchmarks/speed/scaling.py                       # up to 30 million links; an hour or so on two cores
python benchmarks/speed/scaling.py --quick               # up to 3 million links; some minutes
python benchmarks/speed/scaling.py --quick --json --picture growth.png

Measured is the encoder's forward and backward pass as in a training step: a tenth of the links hidden, degrees and
values computed anew, K negative graphs drawn and built, one linear layer, T layers, learned repulsion, and the
gradients of all weights for a fixed random cotangent. Of n, |E|, d, T and K one grows while the others stay at
n = 100,000, |E| = 1,000,000, d = 64, T = 2, K = 1. Non-links are drawn by blocks, and nodes stand in local order, as
training puts them from 50,000 on (once a run, not counted). The exponent is the slope of a straight line through log
time over log size, by least squares: 1 is proportional growth, and less where a part of the time does not depend on
that size.

The headline is `per_edge_spread`: the largest over the smallest time per |E| d, for |E| from 100,000 on with n =
|E| / 10 (mean degree 20), d = 32. Small graphs live in the cache, so that a spread of more than 1 is memory's, as
long as the time per |E| d levels off; `per_edge_last_step` is the ratio of the last two.

The sizes of a sweep take turns, and the fastest call of each counts. Graphs are those of graphs.py.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import _path  # noqa: F401
from lib import common
from lib.common import Times
from lib.graphs import in_local_order, synthetic
from yinyan.model.encoder import Encoder
from yinyan.model.messages import MessageGraph
from yinyan.native.allocation import held_memory
from yinyan.settings import EncoderSettings


class Shape(NamedTuple):
    """What a step's time depends on."""

    nodes: int = 100_000
    links: int = 1_000_000
    dimensions: int = 64
    layers: int = 2
    negatives: int = 1


SWEEPS: dict[str, tuple[int, ...]] = {
    "nodes": (50_000, 100_000, 200_000, 400_000),
    "links": (500_000, 1_000_000, 2_000_000, 4_000_000),
    "dimensions": (32, 64, 128, 256),
    "layers": (1, 2, 4, 8),
    "negatives": (1, 2, 4, 8),
}
PER_EDGE = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)
QUICK_UP_TO = 3_000_000
DEGREE, PER_EDGE_SIZE, HIDDEN_SHARE = 20, 32, 0.1


class Step:
    """A training step's encoder on a graph of one shape."""

    def __init__(self, shape: Shape, messages: MessageGraph) -> None:
        n, m, d, steps, count = shape
        generator = torch.Generator().manual_seed(0)
        settings = EncoderSettings(
            inputs="features",
            hidden_size=d,
            num_steps=steps,
            num_negatives=count,
            sampler="blocks",
            expected_negatives=False,
            output_norm=False,
        )
        torch.manual_seed(0)
        self.encoder = Encoder(settings, n, d)
        self.messages = messages
        self.features, self.cotangent = (torch.randn(n, d, generator=generator) for _ in range(2))
        self.hidden = torch.rand(m, generator=generator) < HIDDEN_SHARE
        self.generator = generator

    def __call__(self) -> Tensor | None:
        self.encoder.zero_grad(set_to_none=True)
        y = self.encoder(self.features, self.messages, negatives=self.generator, hidden=self.hidden)
        y.backward(self.cotangent)
        return self.encoder.base.bias.grad


def timed(shapes: list[Shape], repeats: int) -> list[dict[str, float]]:
    """Minimum and median seconds of a step of each shape; graphs of one size are shared."""
    graphs: dict[tuple[int, int], MessageGraph] = {}
    for shape in shapes:
        key = shape.nodes, shape.links
        if key not in graphs:
            pairs = synthetic(*key, seed=0)
            graphs[key] = MessageGraph.from_pairs(in_local_order(pairs, shape.nodes), shape.nodes)
    tasks = {str(shape): Step(shape, graphs[shape.nodes, shape.links]) for shape in shapes}
    times = Times()
    times.run(tasks, repeats)
    return [{"seconds": times.least(name), "median": statistics.median(times.seconds[name])} for name in tasks]


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of log seconds over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def sweep(name: str, repeats: int, scale: float, values: tuple[int, ...]) -> dict[str, Any]:
    """Times and exponent while `name` grows."""
    start = scaled(Shape(), scale)
    sizes = [round(v * scale) for v in values] if name in ("nodes", "links") else list(values)
    found = timed([start._replace(**{name: size}) for size in sizes], repeats)
    seconds = [row["seconds"] for row in found]
    return {"sizes": sizes, "seconds": seconds, "exponent": exponent(sizes, seconds)}


def per_edge(links: list[int], repeats: int) -> dict[str, Any]:
    """Seconds per |E| d over graphs of one mean degree."""
    shapes = [Shape(2 * m // DEGREE, m, PER_EDGE_SIZE) for m in links]
    found = timed(shapes, repeats)
    each = [row["seconds"] / (m * PER_EDGE_SIZE) for row, m in zip(found, links, strict=True)]
    return {
        "links": links,
        "dimensions": PER_EDGE_SIZE,
        "seconds": [row["seconds"] for row in found],
        "seconds_per_link_and_dimension": each,
        "per_edge_spread": max(each) / min(each),
        "per_edge_last_step": each[-1] / each[-2] if len(each) > 1 else math.nan,
        "exponent": exponent(links, [row["seconds"] for row in found]),
    }


def scaled(shape: Shape, scale: float) -> Shape:
    return shape._replace(nodes=round(shape.nodes * scale), links=round(shape.links * scale))


def main() -> None:
    parser = common.parser(__doc__, quick=f"stop at {QUICK_UP_TO:,} links, with few rounds and three sizes a sweep")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies nodes and links, to try the script")
    options = common.parsed(parser, scale=0.01, quick=True)
    started = time.perf_counter()
    repeats = 1 if options.smoke else 3 if options.quick else 5
    links = [round(m * options.scale) for m in PER_EDGE if not options.quick or m <= QUICK_UP_TO]
    sweeps = {}
    with held_memory():  # as in training
        headline = per_edge(links, repeats)
        for name, values in SWEEPS.items():
            print(f"{name} ...", file=sys.stderr, flush=True)
            sweeps[name] = sweep(name, repeats, options.scale, values[:3] if options.quick else values)
    result = {
        "per_edge_spread": headline["per_edge_spread"],
        "exponents": {name: found["exponent"] for name, found in sweeps.items()},
        "per_edge": headline,
        "sweeps": sweeps,
        "defaults": scaled(Shape(), options.scale)._asdict(),
        **common.machine(),
        "total_seconds": time.perf_counter() - started,
        "peak_gigabytes": common.peak_gigabytes(),
    }
    if options.picture:
        panels = {
            f"{name}: exponent {found['exponent']:.2f}": (found["sizes"], found["seconds"], name, "seconds per step")
            for name, found in sweeps.items()
        }
        each = [1e9 * value for value in headline["seconds_per_link_and_dimension"]]
        title = f"mean degree {DEGREE}: spread {headline['per_edge_spread']:.2f}"
        common.curves(options.picture, panels | {title: (links, each, "links", "ns per edge and dimension")})
    common.report(options, result, lambda: show(result))


def show(result: dict[str, Any]) -> None:
    common.print_machine(result)
    print()
    found = result["per_edge"]
    rows = [
        (links, seconds, 1e9 * each)
        for links, seconds, each in zip(
            found["links"], found["seconds"], found["seconds_per_link_and_dimension"], strict=True
        )
    ]
    common.print_table(("edges", "s per step", f"ns per edge and dimension (d = {found['dimensions']})"), rows)
    print(f"per_edge_spread {found['per_edge_spread']:.2f}, last step {found['per_edge_last_step']:.2f}\n")
    rows = [
        (name, " ".join(f"{s:,}" for s in row["sizes"]), " ".join(f"{s:.3g}" for s in row["seconds"]), row["exponent"])
        for name, row in result["sweeps"].items()
    ]
    common.print_table(("growing", "sizes", "s per step", "exponent"), rows)
    print(f"\n{result['total_seconds']:.0f} seconds, {result['peak_gigabytes']:.1f} GiB at most")


if __name__ == "__main__":
    main()
