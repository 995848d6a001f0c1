"""The kernels of a wheel against those that a local compiler builds for this processor, in turns.

python release/try_wheel.py dist/yinyan-*-manylinux_2_17_x86_64*.whl --keep /tmp/trial
python benchmarks/speed/wheel.py --python /tmp/trial/venv/bin/python --json

Two processes of one installation take turns, a task at a time, so that a busy machine disturbs both alike: one with the
wheel's kernels, one with YINYAN_NATIVE=compile. `fit` is a whole fit of Cora with few epochs; the others are kernels
alone. Ratios are of minima, wheel over local: below 1 the wheel is faster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch

import _path  # noqa: F401
from lib import common
from lib.layer_cases import Case, without_gradients
from yinyan import LinkPredictor
from yinyan.datasets import bundled_cora
from yinyan.model.decoder import build_decoder
from yinyan.model.descent import descend
from yinyan.model.operators import EdgeStructure
from yinyan.native import graph_kernels
from yinyan.randomness import uniform_nodes
from yinyan.reproduce.stand_ins import stand_in
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import DecoderSettings

KINDS = {"wheel": "1", "local": "compile"}  # the values of YINYAN_NATIVE
TASKS = ("layer", "negatives", "exact_search", "fit")
SOURCES = 8  # of an exact search


def tasks(options: dict[str, Any]) -> dict[str, common.Task]:
    """What a process can be asked for; the same numbers in both."""
    nodes, edges, size = options["nodes"], options["edges"], options["size"]
    case = Case.make(nodes, edges, size, seed=0)
    layer, cpu = case.layer(), torch.device("cpu")
    torch.manual_seed(0)
    decoder = build_decoder(DecoderSettings(width=size), size, directed=False).requires_grad_(False)
    rows, sources = Snapshot.of(case.y), np.arange(SOURCES)
    graph = stand_in("cora").graph if options["smoke"] else bundled_cora()
    settings = {"training": {"epochs": options["epochs"]}}

    def negatives() -> object:
        generator = torch.Generator().manual_seed(1)
        return EdgeStructure.from_pairs(uniform_nodes(nodes, 2 * edges, generator, cpu).view(-1, 2), nodes)

    return {
        "layer": without_gradients(lambda: descend(case.f, layer, 1, start=case.y)),
        "negatives": negatives,
        "exact_search": lambda: ExactSearch(decoder).top_k(rows, sources, 100),
        "fit": lambda: LinkPredictor(seed=0, **settings).fit(graph),
    }


def child(options: dict[str, Any]) -> None:
    """Answer each name of a task on a line with its seconds."""
    torch.set_num_threads(options["threads"])
    known = tasks(options)
    print(json.dumps({"kernels": graph_kernels.origin(), **common.machine()}), flush=True)
    for line in sys.stdin:
        started = time.perf_counter()
        known[line.strip()]()
        print(time.perf_counter() - started, flush=True)


class Process:
    """One of the two, and what it says of itself."""

    def __init__(self, python: str, kind: str, given: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [python, __file__, "--child", json.dumps(given)],
            env={**os.environ, "YINYAN_NATIVE": KINDS[kind]}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.facts: dict[str, Any] = json.loads(self._line())

    def seconds(self, task: str) -> float:
        print(task, file=self.process.stdin, flush=True)
        return float(self._line())

    def end(self) -> None:
        """Close its input and wait for it."""
        self.process.communicate()

    def _line(self) -> str:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise SystemExit("a measured process ended; its error is above")
        return line


def main() -> None:
    """Let the two take turns and print the ratios."""
    if sys.argv[1:2] == ["--child"]:
        child(json.loads(sys.argv[2]))
        return
    parser = common.parser(__doc__, picture=False, threads=1)
    parser.add_argument("--python", default=sys.executable, help="of the environment that the wheel is installed in")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=7)
    options = common.parsed(parser, nodes=300, edges=900, size=16, epochs=1, repeats=1)
    given = {name: getattr(options, name) for name in ("nodes", "edges", "size", "epochs", "threads", "smoke")}
    processes = {kind: Process(options.python, kind, given) for kind in KINDS}
    kernels = {kind: process.facts["kernels"] for kind, process in processes.items()}
    if not options.smoke and not (
        kernels["wheel"].startswith("of the wheel") and kernels["local"].startswith("compiled")
    ):
        raise SystemExit(f"{options.python} needs an installed wheel and a compiler; its kernels are {kernels}")
    times = common.Times()
    for turn in range(1 + options.repeats):  # the first is a warm-up
        for task in TASKS:
            for kind in list(KINDS)[:: 1 if turn % 2 else -1]:
                seconds = processes[kind].seconds(task)
                if turn:
                    times.seconds.setdefault(f"{task}_{kind}", []).append(seconds)
    for process in processes.values():
        process.end()
    ratios = {task: times.ratio(f"{task}_wheel", f"{task}_local") for task in TASKS}
    facts = {name: value for name, value in processes["wheel"].facts.items() if name != "kernels"}
    result = {
        "settings": given,
        "kernels": kernels,
        "machine": facts,
        "milliseconds": times.milliseconds(),
        "ratios": ratios,
    }
    common.report(options, result, lambda: show(result))


def show(result: dict[str, Any]) -> None:
    print("; ".join(f"{kind}: {words}" for kind, words in result["kernels"].items()))
    spent = result["milliseconds"]
    rows = [
        (task, *(f"{spent[f'{task}_{kind}']['min']:.1f}" for kind in KINDS), f"{ratio:.2f}")
        for task, ratio in result["ratios"].items()
    ]
    common.print_table(("milliseconds", *KINDS, "wheel / local"), rows)
    common.print_machine(result["machine"])


if __name__ == "__main__":
    main()
