"""How long a graph takes to load from CSV, and how much memory it needs at most.

python benchmarks/speed/loading.py --edges 10000000
python benchmarks/speed/loading.py --edges 1000000 --weights --json
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import _path  # noqa: F401


def write_edges(path: Path, num_edges: int, num_nodes: int, *, weights: bool, seed: int = 0) -> None:
    """Write random edges between text ids, a million rows at a time."""
    generator = np.random.default_rng(seed)
    with path.open("wb") as file:
        for start in range(0, num_edges, 1_000_000):
            count = min(1_000_000, num_edges - start)
            columns = {
                name: pc.binary_join_element_wise(
                    "user-", pa.array(generator.integers(0, num_nodes, count)).cast(pa.string()), ""
                )
                for name in ("source", "target")
            }
            if weights:
                columns["weight"] = pa.array(generator.integers(1, 100, count) / 10)
            options = pa.csv.WriteOptions(include_header=start == 0)
            pa.csv.write_csv(pa.table(columns), file, write_options=options)


def load(path: str) -> dict[str, float]:
    """Load one file in this process and measure it."""
    from yinyan.graph import Graph

    before = time.perf_counter()
    graph = Graph.from_table(path)
    seconds = time.perf_counter() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # kilobytes on Linux
    return {"nodes": graph.num_nodes, "edges": graph.num_edges, "seconds": seconds, "peak_gib": peak}


def main() -> None:
    """Write a temporary file, load it in a process of its own and print the figures."""
    if sys.argv[1:2] == ["--load"]:  # the child imports nothing else: its peak memory is the loading alone
        print(json.dumps(load(sys.argv[2])))
        return
    from lib import common

    parser = common.parser(__doc__, picture=False)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, help="default: a tenth of the edges")
    parser.add_argument("--weights", action="store_true", help="add a weight column")
    options = common.parsed(parser, edges=2_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.csv"
        write_edges(path, options.edges, options.nodes or max(2, options.edges // 10), weights=options.weights)
        command = [sys.executable, __file__, "--load", str(path)]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        result = {"rows": options.edges, "file_mib": path.stat().st_size / 2**20, **result}
    common.report(options, result, lambda: common.print_table(("", "value"), list(result.items())))


if __name__ == "__main__":
    main()
