"""Low-rank completion: how well embedding tables made of the edges predict validation links before any training.

YINYAN_DATA=/data python benchmarks/ablations/low_rank_completion.py                      # what was tried on ogbl-ddi
YINYAN_DATA=/data python benchmarks/ablations/low_rank_completion.py --only "smoothed"    # one of them

Test links are not looked at. Hits@20 depends on twenty negatives; the mean over 20, 50, 100 and 200 is what chose.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch

import _path  # noqa: F401
from lib import common
from yinyan.errors import InputError
from yinyan.metrics import hits_at_k
from yinyan.model.messages import MessageGraph
from yinyan.peers.combined import RANKS, combined_factors
from yinyan.peers.completion import Factors, completed_and_smoothed, completed_factors, smoothed_factors

_BOTH: dict[int, tuple[Factors, Factors]] = {}  # by size: all weights share them


def combined(messages: MessageGraph, size: int, *, weight: float, generator: torch.Generator) -> Factors:
    """Rows of smoothed scores beside those of completion, with a weight for the latter."""
    if size not in _BOTH:
        _BOTH[size] = completed_and_smoothed(messages, size, generator=generator)
    completed, smoothed = _BOTH[size]
    return combined_factors(smoothed, completed, weight)


STARTS: dict[str, tuple[Any, dict[str, Any]]] = {  # the function and its options
    "completed": (completed_factors, {}),
    "completed, half missing": (completed_factors, {"missing": 0.5}),
    "smoothed": (smoothed_factors, {}),
    "smoothed, 1,024 dimensions": (smoothed_factors, {"size": 1024}),
    "smoothed, fewer missing": (smoothed_factors, {"missing": 0.3}),
    "smoothed more": (smoothed_factors, {"ridge": 0.3}),
    "smoothed less": (smoothed_factors, {"ridge": 0.03}),
    **{f"combined, weight {weight}": (combined, {"weight": weight}) for weight in (0.2, 0.4, 0.6, 0.8, 1.0)},
}


def main() -> None:
    parser = common.parser(__doc__, picture=False)
    parser.add_argument("--data", default="ogbl-ddi", help="a data set with a split of its own")
    parser.add_argument("--only", nargs="+", choices=STARTS, default=list(STARTS), metavar="START")
    parser.add_argument("--seed", type=int, default=0)
    given = common.parsed(parser)
    data = common.load_data(given.data, smoke=given.smoke)
    if data.parts is None or data.parts.valid_negatives is None:
        raise InputError(f"'{given.data}' comes without a split")
    graph, parts = data.graph, data.parts
    messages = MessageGraph.from_pairs(torch.from_numpy(parts.train), graph.num_nodes, num_left=graph.num_left)
    rows = []
    small = {"size": 16} if given.smoke else {}
    for name in given.only:
        started = time.perf_counter()
        make, options = STARTS[name]
        generator = torch.Generator().manual_seed(given.seed)
        factors, signs = make(messages, **{"size": 512, **options, **small}, generator=generator)
        seconds = time.perf_counter() - started
        links, others = (scores(factors, signs, pairs) for pairs in (parts.valid, parts.valid_negatives))
        hits = [hits_at_k(links, others, rank) for rank in RANKS]
        rows.append({"start": name, **{f"@{rank}": hit for rank, hit in zip(RANKS, hits, strict=True)}})
        rows[-1] |= {"mean": float(np.mean(hits)), "seconds": seconds}
        print(f"{name} ...", file=sys.stderr, flush=True)
    common.report(given, rows, lambda: common.print_table(tuple(rows[0]), [tuple(row.values()) for row in rows]))


def scores(rows: torch.Tensor, signs: torch.Tensor, pairs: np.ndarray) -> np.ndarray:
    ends = torch.from_numpy(pairs)
    return torch.cat([(rows[i] * signs * rows[j]).sum(1) for i, j in (part.T for part in ends.split(65536))]).numpy()


if __name__ == "__main__":
    main()
