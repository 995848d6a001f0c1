"""How long each heuristic takes on the official test pairs of ogbl-ddi, and its Hits@20 there.

YINYAN_DATA=/data python benchmarks/heuristics.py          # reads /data/ogbl_ddi, in OGB's layout
YINYAN_DATA=/data python benchmarks/heuristics.py --json

Messages are the training links only. Published are 17.73 for CN, 18.61 for AA and 27.60 for RA. The first two are met;
RA by its definition, Σ 1/degree, gives 6.23, and why the published figure differs is not known.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yinyan.graph import Graph
from yinyan.metrics import metric
from yinyan.peers.heuristics import (
    adamic_adar,
    common_neighbours,
    jaccard,
    preferential_attachment,
    resource_allocation,
)
from yinyan.peers.walk_sums import katz, personalised_pagerank

HEURISTICS = (
    common_neighbours,
    adamic_adar,
    resource_allocation,
    jaccard,
    preferential_attachment,
    katz,
    personalised_pagerank,
)
PUBLISHED = {"common_neighbours": 17.73, "adamic_adar": 18.61, "resource_allocation": 27.60}


def read_split(folder: Path, part: str) -> dict[str, np.ndarray[Any, Any]]:
    """One part of OGB's split, read without running what a pickle might ask for."""
    rebuild = np.empty(0).__reduce__()[0]  # numpy moved it, and the files name its old place
    allowed = [(rebuild, "numpy.core.multiarray._reconstruct"), np.ndarray, np.dtype, type(np.dtype("int64"))]
    with torch.serialization.safe_globals(allowed):
        return dict(torch.load(folder / "split" / "target" / f"{part}.pt", weights_only=True))


def main() -> None:
    """Score the test pairs by each heuristic and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if "YINYAN_DATA" not in os.environ:
        parser.error("YINYAN_DATA needs to name the folder that holds ogbl_ddi")
    folder = Path(os.environ["YINYAN_DATA"]) / "ogbl_ddi"
    train, test = read_split(folder, "train"), read_split(folder, "test")
    num_nodes = 1 + max(int(part.max()) for part in (train["edge"], test["edge"], test["edge_neg"]))
    graph = Graph.from_arrays(train["edge"], num_nodes=num_nodes)
    pairs, positives = np.concatenate([test["edge"], test["edge_neg"]]), len(test["edge"])
    results = []
    for heuristic in HEURISTICS:
        before = time.perf_counter()
        scores = heuristic(graph, pairs)
        seconds = time.perf_counter() - before
        hits = 100 * metric("hits@20")(scores[:positives], scores[positives:])
        name = heuristic.__name__
        results.append({"name": name, "seconds": seconds, "hits@20": hits, "published": PUBLISHED.get(name)})
        if not options.json:
            known = f"  (published {PUBLISHED[name]:.2f})" if name in PUBLISHED else ""
            sys.stdout.write(f"{name:>24}  {seconds:6.2f} s  Hits@20 {hits:6.2f}{known}\n")
    if options.json:
        sys.stdout.write(json.dumps({"pairs": len(pairs), "edges": graph.num_edges, "results": results}) + "\n")


if __name__ == "__main__":
    main()
