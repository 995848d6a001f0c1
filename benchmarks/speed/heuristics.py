"""How long each heuristic takes on the official test pairs of ogbl-ddi, and its Hits@20 there.

YINYAN_DATA=/data python benchmarks/speed/heuristics.py
YINYAN_DATA=/data python benchmarks/speed/heuristics.py --json

Messages are the training links only. Published are 17.73 for CN, 18.61 for AA and 27.60 for RA. The first two are met;
RA by its definition, Σ 1/degree, gives 6.23, and why the published figure differs is not known.
"""

from __future__ import annotations

import time

import numpy as np

import _path  # noqa: F401
from lib import common
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


def main() -> None:
    """Score the test pairs by each heuristic and print a line for it."""
    options = common.parsed(common.parser(__doc__, picture=False))
    data = common.load_data("ogbl-ddi", smoke=options.smoke)
    parts = data.parts
    if parts is None or parts.test_negatives is None:
        raise SystemExit("ogbl-ddi comes without its split")
    graph = Graph.from_arrays(parts.train, num_nodes=data.graph.num_nodes)
    pairs, positives = np.concatenate([parts.test, parts.test_negatives]), len(parts.test)
    results = []
    for heuristic in HEURISTICS:
        before = time.perf_counter()
        scores = heuristic(graph, pairs)
        seconds = time.perf_counter() - before
        hits = 100 * metric("hits@20")(scores[:positives], scores[positives:])
        name = heuristic.__name__
        results.append({"name": name, "seconds": seconds, "hits@20": hits, "published": PUBLISHED.get(name)})
    result = {"pairs": len(pairs), "edges": graph.num_edges, "results": results}
    header = ("heuristic", "seconds", "Hits@20, %", "published, %")
    common.report(options, result, lambda: common.print_table(header, [tuple(row.values()) for row in results]))


if __name__ == "__main__":
    main()
