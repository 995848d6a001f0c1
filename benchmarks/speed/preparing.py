"""How long `yinyan prepare` takes for synthetic edges between text ids, and how much memory it needs at most.

python benchmarks/speed/preparing.py                             # one and ten million edges
python benchmarks/speed/preparing.py --edges 1000000 10000000 100000000 --json
python benchmarks/speed/preparing.py --edges 1000000 --engine ray

The ids of each chunk of rows are made distinct; `chunk_ids` counts them over all chunks, before they become nodes.
CPU seconds are of all threads of the process that prepares; they depend less on other load than seconds.
"""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import _path  # noqa: F401

_COMMUNITY = 1000  # nodes
_WITHIN = 0.8  # share of the edges that stay in a community
_FILE_ROWS = 5_000_000


def write_edges(folder: Path, num_edges: int, num_nodes: int, seed: int = 0) -> int:
    """Write edges between text ids, most of them within communities, and return their bytes."""
    generator = np.random.default_rng(seed)
    names = np.random.default_rng(seed + 1).permutation(num_nodes)  # ids say nothing of communities
    for start in range(0, num_edges, _FILE_ROWS):
        count = min(_FILE_ROWS, num_edges - start)
        source, far = (generator.integers(0, num_nodes, count) for _ in range(2))
        near = source - source % _COMMUNITY + generator.integers(0, _COMMUNITY, count)
        target = np.where(generator.random(count) < _WITHIN, np.minimum(near, num_nodes - 1), far)
        columns = {
            name: pc.binary_join_element_wise("user-", pa.array(names[rows]).cast(pa.string()), "")
            for name, rows in (("source", source), ("target", target))
        }
        pq.write_table(pa.table(columns), folder / f"part-{start // _FILE_ROWS:05d}.parquet", row_group_size=1_000_000)
    return sum(file.stat().st_size for file in folder.iterdir())


def prepare(edges: str, out: str, parts: str, partition: str, engine: str) -> dict[str, object]:
    """Prepare one folder in this process and measure it."""
    from yinyan import prepare

    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)
    stages: dict[str, float] = {}
    chunk_ids = 0
    begun, last = time.perf_counter(), time.process_time()

    def tell(text: str) -> None:
        nonlocal last, chunk_ids
        if text.startswith("number:"):
            chunk_ids = int(text.split()[1].replace(",", ""))
        now = time.process_time()
        stages[text.partition(":")[0]], last = now - last, now
        print(text, file=sys.stderr, flush=True)

    found = prepare(edges, out, parts=int(parts), partition=partition, protocol="clean", engine=engine, tell=tell)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # kilobytes on Linux
    random = 1 - 1 / found.parts
    return {
        "nodes": found.nodes,
        "edges": found.edges,
        "chunk_ids": chunk_ids,
        "seconds": seconds,
        "cpu_seconds": time.process_time(),
        "peak_gib": peak,
        "partition": found.partition,
        "cut_share": found.cut_edges / found.edges,
        "cut_share_random": random,
        "boundary_rows": sum(found.boundary),
        "cpu_seconds_of_stages": {name: spent for name, spent in stages.items() if name not in ("columns",)},
    }


def measure(rows: int, options: object, folder: Path) -> dict[str, object]:
    """Write edges, prepare them in a process of its own, and remove both."""
    edges, out = folder / "edges", folder / "prepared"
    edges.mkdir()
    size = write_edges(edges, rows, max(_COMMUNITY, rows // 10))
    given = [str(edges), str(out), str(options.parts), options.partition, options.engine]  # type: ignore[attr-defined]
    command = [sys.executable, __file__, "--prepare", *given]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    written = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    shutil.rmtree(edges)
    shutil.rmtree(out)
    found = json.loads(done.stdout)
    return {"rows": rows, "input_mib": size / 2**20, "output_mib": written / 2**20, **found}


def main() -> None:
    """Measure each size and print the figures."""
    if sys.argv[1:2] == ["--prepare"]:  # the child imports nothing else: its peak memory is the preparation alone
        print(json.dumps(prepare(*sys.argv[2:])))
        return
    from lib import common

    parser = common.parser(__doc__, picture=False, threads=1)
    parser.add_argument("--edges", type=int, nargs="+", default=[1_000_000, 10_000_000], help="rows of the edge tables")
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--partition", default="communities", choices=("communities", "metis", "hash"))
    parser.add_argument("--engine", default="process", choices=("process", "ray"))
    parser.add_argument("--folder", type=Path, help="place for the files, removed at the end (default: temporary)")
    options = common.parsed(parser, edges=[2_000, 20_000], parts=2)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        runs = [measure(rows, options, Path(folder)) for rows in options.edges]
    result = {"parts": options.parts, "engine": options.engine, "machine": common.machine(), "runs": runs}
    common.report(options, result, lambda: show(runs, common.print_table))


def show(runs: list[dict[str, object]], print_table: Callable[..., None]) -> None:
    """One line per size, then the processor's seconds in each stage."""
    names = ("rows", "nodes", "edges", "seconds", "cpu_seconds", "peak_gib", "cut_share")
    print_table(names, [[run[name] for name in names] for run in runs])
    print()
    stages = {name: None for run in runs for name in run["cpu_seconds_of_stages"]}  # type: ignore[attr-defined]
    print_table(
        ("stage, CPU seconds", *(f"{run['rows']:,}" for run in runs)),
        [[name, *(run["cpu_seconds_of_stages"].get(name) for run in runs)] for name in stages],  # type: ignore[attr-defined]
    )


if __name__ == "__main__":
    main()
