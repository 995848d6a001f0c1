"""Seconds of each method for the test pairs of a graph of ogbl-ppa's or ogbl-citation2's size, and of Cora.

python benchmarks/speed/inference.py ppa --json          # 576,289 nodes, 21.2 M training edges, 6.0 M test pairs
python benchmarks/speed/inference.py citation2 --json    # 2,927,963 nodes, 30.4 M training edges, 86.7 M test pairs
python benchmarks/speed/inference.py cora --json         # the real graph, 2,112 test pairs
python benchmarks/speed/inference.py ppa --methods buddy,seal --seconds 2

Times are processor seconds of one thread, which other programs on the machine disturb little. Weights are untrained:
time does not depend on them. The large graphs are those of lib/graphs.py, with heavy-tailed
degrees and the mean degrees of the data sets. PPA's has no features, Citation2's has 128 columns. Settings are those of
each method for such a graph; ours are those of `LinkPredictor` without any setting, without the reranking of lists.

prepare   work per graph: sketches, walks, PageRanks, sums over walks
embed     the embedding pass over all nodes
pairs     all test pairs; --seconds are spent on a sample, and the rest is extrapolated from its time per pair

Parts that take too long or too much memory are timed on a smaller graph with the same mean degree, whose size is in
`nodes`, and multiplied by the ratio of nodes; its hubs have fewer neighbours. `extrapolated` names such parts.
On Cora all pairs are scored, the fastest of --repeats counts, and `pair` is the whole time, prepare and embed included,
over the number of pairs; settings are those of the recipes that hold the accuracy of the method.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _path  # noqa: F401
from lib import common
from lib.cora_costs import cora_costs
from lib.inference_costs import with_peak
from lib.large_cases import SIZES, SMOKE, Size
from lib.large_costs import METHODS, SMALLER, Bench


def size_of(options: Any) -> Size:
    """The numbers of the data set, or for a smoke run small ones of its kind."""
    size = SIZES[options.graph]
    kind = {"features": min(size.features, SMOKE.features), "per_source": size.per_source}
    return SMOKE._replace(**kind) if options.smoke else size


def large(options: Any) -> list[dict[str, Any]]:
    """Every method on one of the large graphs."""
    place = list(SIZES).index(options.graph)
    size = size_of(options)
    chosen = options.methods.split(",") if options.methods else METHODS
    found = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            *(size, options.cache or Path(folder), options.seconds),
            smaller=lambda name: 2 if options.smoke else SMALLER[name][place],
        )
        for name in chosen:
            started = time.perf_counter()
            found.append(with_peak(lambda name=name: bench.cost(name)).to_dict())  # type: ignore[misc]
            spent = time.perf_counter() - started
            print(f"{name}: {spent:.0f} s; {found[-1]}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = common.parser(__doc__, picture=False, threads=1)
    parser.add_argument("graph", choices=[*SIZES, "cora"])
    parser.add_argument("--methods", help="some, with commas between them; all unless given")
    parser.add_argument("--seconds", type=float, default=3.0, help="of scoring, per method, on a large graph")
    parser.add_argument("--repeats", type=int, default=3, help="on Cora")
    parser.add_argument("--cache", type=Path, help="a folder that keeps the graphs for the next run")
    options = common.parsed(parser, seconds=0.02, repeats=1)
    started = time.perf_counter()
    rows = cora_costs(options) if options.graph == "cora" else large(options)
    size = None if options.graph == "cora" else size_of(options)._asdict()
    result = {"graph": options.graph, "size": size, "methods": rows}
    result |= {"total_seconds": time.perf_counter() - started} | common.machine()
    common.report(options, result, lambda: show(result))


def show(result: dict[str, Any]) -> None:
    common.print_machine(result)
    print()
    names = ("method", "prepare, s", "embed, s", "ms per pair", "all pairs, s", "total, s", "extrapolated")
    rows = [
        (m["method"], m["prepare"], m["embed"], 1e3 * m["pair"], m["pairs"], m["seconds"], " ".join(m["extrapolated"]))
        for m in result["methods"]
    ]
    common.print_table(names, rows)


if __name__ == "__main__":
    main()
