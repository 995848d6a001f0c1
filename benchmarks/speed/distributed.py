"""What training by several processes costs beside one process: time, memory, bytes on the wire.

python benchmarks/speed/distributed.py --json    # 200,000 nodes, 2.5 million edges, 128 dimensions, two cores

The graph is that of graphs.py: hubs and communities. Settings are those that `fit` chooses for it. `yinyan.prepare`
divides it into parts, by communities and by hash (at random).

step_ratio    The time of a training step by two processes of one thread each, over that of one process with two
    threads: medians of the steps of a round, and of the rounds, which take turns, the least. A step is the forward and
    backward pass of all layers, the loss and the update. The two train on batches of the same expected size.
step_ratio_of_one_rank    The same for one process of two threads that trains through the code of several.
cpu_ratio    The processor's seconds of a step of both processes together over those of one process with two threads.
memory_ratio    The peak memory of the largest of four processes over that of one process that trains through the same
    code. Both include the program itself, whose memory before the data were read is `resident_before`.
own_memory_ratio    The same without the memory of the program.
bytes_ratio    Bytes that all processes send each other for a layer, counted, over the bytes of the rows at the
    boundary: 4 bytes for each of the dimensions of each row that a process needs from another.
boundary    Rows at the boundary of four parts, as `prepare` counts them: for each part, the nodes of other parts that
    are neighbours of its own; and their ratio to those of parts by hash. By graph and partition: the graph itself (80 %
    of links within communities), one with 95 %, and real graphs where their files are at hand.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import _path  # noqa: F401
from lib import common
from lib.graphs import drawn, synthetic
from yinyan import InputError, prepare
from yinyan.datasets import load

REAL = ("pubmed", "email-enron", "citeulike")
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


def table_of(pairs: NDArray[np.int64], file: Path) -> Path:
    """A table of edges."""
    pq.write_table(pa.table({"source": pairs[:, 0], "target": pairs[:, 1]}), file)
    return file


def boundaries(pairs: NDArray[np.int64], place: Path) -> dict[str, float]:
    """Rows at the boundary of four parts by each partition, and the ratio of each to parts by hash."""
    edges, found = table_of(pairs, place / "edges.parquet"), {}
    partitions = ["hash", "communities"] + (["metis"] if importlib.util.find_spec("pymetis") else [])
    for partition in partitions:
        made = prepare(edges, place / partition, parts=4, partition=partition)
        if made.partition != partition:
            raise SystemExit(f"{partition} was replaced by {made.partition}: more memory is needed")
        found[partition] = float(sum(made.boundary))
        shutil.rmtree(place / partition)
    return found | {f"{name} / hash": found[name] / max(1.0, found["hash"]) for name in partitions[1:]}


def boundary_graphs(options: argparse.Namespace) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Names and edges."""
    for within in (0.8, 0.95):
        yield f"{within:.0%} within communities", drawn(options.nodes, options.links, 0, within).pairs.numpy()
    for name in () if options.smoke else REAL:
        try:
            yield name, load(name, download=False).graph.edges
        except InputError as missing:
            print(f"{name} is left out: {missing}", file=sys.stderr)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        place, steps = Path(folder), options.steps
        edges = table_of(synthetic(options.nodes, options.links, 0).numpy(), place / "edges.parquet")
        halves = prepare(edges, place / "two", parts=2).folder
        quarters = prepare(edges, place / "four", parts=4).folder
        cpu: list[float] = []
        seconds: dict[str, list[float]] = {"one process": [], "two processes": [], "one rank": []}
        for _ in range(options.rounds):
            alone = run_processes(halves, 1, threads=2, steps=steps, alone=True)[0]
            two = run_processes(halves, 2, threads=1, steps=steps)
            one = run_processes(halves, 1, threads=2, steps=steps)[0]
            for name, spent in zip(seconds, (alone, max(two, key=lambda f: f["seconds"]), one), strict=True):
                seconds[name].append(spent["seconds"])
            cpu.append(sum(f["cpu_seconds"] for f in two) / alone["cpu_seconds"])
            print(f"seconds of a step so far: {seconds}, CPU seconds over those of one process: {cpu}", file=sys.stderr)
        least = {name: min(spent) for name, spent in seconds.items()}
        four = run_processes(quarters, 4, threads=1, steps=2)
        print("timed; what follows counts rows and needs no quiet machine", file=sys.stderr, flush=True)
        boundary = {}
        for number, (name, pairs) in enumerate(boundary_graphs(options)):
            (place / f"boundary {number}").mkdir()
            boundary[name] = boundaries(pairs, place / f"boundary {number}")
    largest = max(four, key=lambda found: int(found["peak"] or 0))
    wire = four[0]["boundary_rows"] * four[0]["size"] * 4
    return {
        "nodes": options.nodes,
        "links": options.links,
        "step_seconds": seconds,
        "step_ratio": least["two processes"] / least["one process"],
        "step_ratio_of_one_rank": least["one rank"] / least["one process"],
        "cpu_ratio": min(cpu),
        "peak_bytes": {"one process": one["peak"], "largest of four": largest["peak"]},
        "resident_before": one["resident_before"],
        "memory_ratio": largest["peak"] / one["peak"],
        "own_memory_ratio": (largest["peak"] - largest["resident_before"]) / (one["peak"] - one["resident_before"]),
        "bytes_of_layer": four[0]["bytes_of_layer"],
        "bytes_ratio": four[0]["bytes_of_layer"] / max(1, wire),
        "boundary_rows": {"two processes": two[0]["boundary_rows"], "four processes": four[0]["boundary_rows"]},
        "boundary": boundary,
        "machine": common.machine(),
    }


def show(found: dict[str, Any]) -> None:
    names = ("step_ratio", "step_ratio_of_one_rank", "cpu_ratio", "memory_ratio", "own_memory_ratio", "bytes_ratio")
    common.print_table(["figure", "value"], [[name, found[name]] for name in names])
    print()
    columns = list(next(iter(found["boundary"].values())))
    rows = [[name, *(figures[column] for column in columns)] for name, figures in found["boundary"].items()]
    common.print_table(["boundary rows", *columns], rows)
    common.print_machine(found["machine"])


def main() -> None:
    made = common.parser(__doc__, picture=False)
    made.add_argument("--nodes", type=int, default=200_000)
    made.add_argument("--links", type=int, default=2_500_000)
    made.add_argument("--steps", type=int, default=6)
    made.add_argument("--rounds", type=int, default=2)
    options = common.parsed(made, nodes=400, links=1600, steps=2, rounds=1)
    found = measure(options)
    common.report(options, found, lambda: show(found))


if __name__ == "__main__":
    main()
