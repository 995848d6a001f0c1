"""How well tables that start from the links do before any training: validation links of an official split.

YINYAN_DATA=/data python benchmarks/completing.py                      # what was tried on ogbl-ddi
YINYAN_DATA=/data python benchmarks/completing.py --only "smoothed"    # one of them

Test links are not looked at. Hits@20 hangs on twenty non-links; the mean over 20, 50, 100 and 200 is what chose.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

from yinyan.datasets import load
from yinyan.errors import InputError
from yinyan.fitting import link_factors
from yinyan.messages import MessageGraph
from yinyan.metrics import hits_at_k
from yinyan.settings import Settings

RANKS = (20, 50, 100, 200)


STARTS: dict[str, dict[str, Any]] = {  # changes of the encoder's settings
    "completed": {"table_start": "completed"},
    "completed, half missing": {"table_start": "completed", "table_missing": 0.5},
    "smoothed": {"table_start": "smoothed"},
    "smoothed, 1,024 dimensions": {"table_start": "smoothed", "embedding_size": 1024},
    "smoothed, fewer missing": {"table_start": "smoothed", "table_missing": 0.3},
    "smoothed more": {"table_start": "smoothed", "table_ridge": 0.3},
    "smoothed less": {"table_start": "smoothed", "table_ridge": 0.03},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ogbl-ddi", help="a data set with a split of its own")
    parser.add_argument("--only", nargs="+", choices=STARTS, default=list(STARTS), metavar="START")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    data = load(given.data)
    if data.parts is None or data.parts.valid_negatives is None:
        raise InputError(f"'{given.data}' comes without a split")
    graph, parts = data.graph, data.parts
    messages = MessageGraph.from_pairs(torch.from_numpy(parts.train), graph.num_nodes, num_left=graph.num_left)
    print(f"{'':28}" + "".join(f"{f'@{rank}':>8}" for rank in RANKS) + f"{'mean':>8}{'seconds':>9}")
    for name in given.only:
        started = time.perf_counter()
        encoder = Settings().updated({"encoder": {"embedding_size": 512, **STARTS[name]}}).encoder
        rows, signs = link_factors(messages, encoder, torch.Generator().manual_seed(given.seed))
        seconds = time.perf_counter() - started
        links, others = (scores(rows, signs, pairs) for pairs in (parts.valid, parts.valid_negatives))
        hits = [hits_at_k(links, others, rank) for rank in RANKS]
        figures = "".join(f"{hit:8.4f}" for hit in [*hits, float(np.mean(hits))])
        print(f"{name:28}{figures}{seconds:9.0f}", flush=True)


def scores(rows: torch.Tensor, signs: torch.Tensor, pairs: np.ndarray) -> np.ndarray:
    ends = torch.from_numpy(pairs)
    return torch.cat([(rows[i] * signs * rows[j]).sum(1) for i, j in (part.T for part in ends.split(65536))]).numpy()


if __name__ == "__main__":
    main()
