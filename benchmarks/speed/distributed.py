"""What training by several processes costs beside one process: time, memory, bytes on the wire.

python benchmarks/speed/distributed.py --json    # 200,000 nodes, 2.5 million edges, 128 dimensions, two cores

The graph is that of graphs.py: hubs and communities. Settings are those that `fit` chooses for it. It is divided into
parts in the local order that keeps communities together, and at random.

step_ratio    The median time of a training step by two processes of one thread each, over that of one process with two
    threads. A step is the forward and backward pass of all layers, the loss and the update. The two train on batches of
    the same expected size.
memory_ratio    The peak memory of the largest of four processes over that of one process that trains through the same
    code. Both include the program itself, whose memory before the data were read is `resident_before`.
own_memory_ratio    The same without the memory of the program.
bytes_ratio    Bytes that all processes send each other for a layer, counted, over the bytes of the rows at the
    boundary: 4 bytes for each of the dimensions of each row that a process needs from another.
boundary_ratio    Rows at the boundary of four parts that keep communities together, over those of random parts.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import _path  # noqa: F401
from lib import common
from lib.graphs import synthetic
from yinyan.distributed.writing import write_prepared
from yinyan.graph import Graph
from yinyan.splits import holdout_split
from yinyan.training.node_order import local_order

CHILD = Path(__file__).resolve().parents[1] / "lib" / "rank_child.py"


def run_processes(folder: Path, size: int, *, threads: int, steps: int, alone: bool = False) -> list[dict[str, Any]]:
    """What each of so many processes has measured."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asked = json.dumps({"folder": str(folder), "threads": threads, "steps": steps, "alone": alone})
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    started = []
    for rank in range(size):
        given = {**os.environ, **place, "RANK": str(rank), "OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, str(CHILD), asked]
        started.append(subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a process failed: see its message above")
    return [json.loads(output) for output in outputs]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    pairs = synthetic(options.nodes, options.links, 0).numpy()
    graph = Graph.from_arrays(pairs, num_nodes=options.nodes)
    split = holdout_split(graph, seed=0, valid_share=0.1, valid_negatives=1000)
    orders = {
        "communities": local_order(graph.edges[split.train_messages], graph.num_nodes),
        "random": np.random.default_rng(0).permutation(graph.num_nodes),
    }
    with tempfile.TemporaryDirectory() as place:
        folders = {name: write_prepared(split, Path(place) / name, 4, order) for name, order in orders.items()}
        del graph, split, pairs
        near, steps = folders["communities"], options.steps
        alone = run_processes(near, 1, threads=2, steps=steps, alone=True)[0]
        one = run_processes(near, 1, threads=2, steps=steps)[0]
        two = run_processes(near, 2, threads=1, steps=steps)
        four = run_processes(near, 4, threads=1, steps=2)
        strewn = run_processes(folders["random"], 4, threads=1, steps=1)[0]
    largest = max(four, key=lambda found: int(found["peak"] or 0))
    wire = four[0]["boundary_rows"] * four[0]["size"] * 4
    return {
        "step_seconds": {"one process": alone["seconds"], "two processes": max(f["seconds"] for f in two)},
        "step_ratio": max(f["seconds"] for f in two) / alone["seconds"],
        "step_ratio_of_one_rank": one["seconds"] / alone["seconds"],
        "peak_bytes": {"one process": one["peak"], "largest of four": largest["peak"]},
        "resident_before": one["resident_before"],
        "memory_ratio": largest["peak"] / one["peak"],
        "own_memory_ratio": (largest["peak"] - largest["resident_before"]) / (one["peak"] - one["resident_before"]),
        "bytes_of_layer": four[0]["bytes_of_layer"],
        "bytes_ratio": four[0]["bytes_of_layer"] / max(1, wire),
        "boundary_rows": {"communities": four[0]["boundary_rows"], "random": strewn["boundary_rows"]},
        "boundary_ratio": four[0]["boundary_rows"] / max(1, strewn["boundary_rows"]),
        "machine": common.machine(),
    }


def show(found: dict[str, Any]) -> None:
    names = ("step_ratio", "memory_ratio", "own_memory_ratio", "bytes_ratio", "boundary_ratio")
    common.print_table(["figure", "value"], [[name, found[name]] for name in names])
    common.print_machine(found["machine"])


def main() -> None:
    made = common.parser(__doc__, picture=False)
    made.add_argument("--nodes", type=int, default=200_000)
    made.add_argument("--links", type=int, default=2_500_000)
    made.add_argument("--steps", type=int, default=6)
    options = common.parsed(made, nodes=400, links=1600, steps=2)
    found = measure(options)
    common.report(options, found, lambda: show(found))


if __name__ == "__main__":
    main()
