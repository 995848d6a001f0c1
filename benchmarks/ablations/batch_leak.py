"""Batch leak: what the column sums of a batch say about the labels of its links, by themselves and to a trained OCN.

YINYAN_DATA=/data python benchmarks/ablations/batch_leak.py                     # ogbl-ddi, cora, citeseer
YINYAN_DATA=/data python benchmarks/ablations/batch_leak.py --data cora --methods ocn-as-published ocn

The published code of OCN divides common neighbours by the number of links of the batch that share them, and scores
edges and negatives in separate batches. The score here is that number alone, per edge of the common neighbour, as a
mean over the common neighbours of a pair: no feature, no training. AUC of test links, in batches of one label and in
batches of both. `--methods` are trained, and scored in the same two ways. About a dozen forms of the statistic were
tried on the test links of ogbl-ddi; this one was the strongest in batches of one label, and a plain mean was close. It
shows that the batch reveals labels, and is no figure of a method.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import _path  # noqa: F401
from lib import common
from yinyan.evaluation import make_split
from yinyan.metrics import metric, roc_auc
from yinyan.model.messages import MessageGraph
from yinyan.model.tensors import message_graph
from yinyan.peers import Task, method
from yinyan.peers.ncn import common_neighbours
from yinyan.splits import Split

BATCHES = {"ogbl-ddi": 32_768, "cora": 8_192, "citeseer": 4_096}  # links scored together in the published runs
LISTED = 4_096  # pairs whose common neighbours are listed at a time

Scores = NDArray[np.floating[Any]]
Scorer = Callable[[NDArray[np.int64]], Scores]  # of the pairs of one batch


def main() -> None:
    parser = common.parser(__doc__, picture=False, threads=1)
    parser.add_argument("--data", nargs="+", default=list(BATCHES), choices=BATCHES)
    parser.add_argument("--methods", nargs="*", default=[], help="peers to train, each scored in both ways")
    parser.add_argument("--seed", type=int, default=0)
    given = common.parsed(parser, data=["ogbl-ddi", "cora"], methods=["ocn-as-published"])
    rows: list[dict[str, Any]] = []
    for name in given.data:
        data = common.load_data(name, smoke=given.smoke)
        split = make_split(data, "clean" if data.parts is None else "official", given.seed)
        messages = message_graph(split.graph, split.test_messages, torch.device("cpu"))
        scorers: dict[str, Callable[[], Scorer]] = {"column sums": lambda messages=messages: by_column_sums(messages)}
        for peer in given.methods:
            task = Task(split, given.seed, common.SMALL if given.smoke else {}, "cpu")
            scorers[peer] = lambda peer=peer, task=task: method(peer)(task).score
        for scored, make in scorers.items():
            started = time.perf_counter()
            figures = both_ways(make(), split, BATCHES[name], data.metric, given.seed)
            rows.append({"data": name, "score": scored, "batch": BATCHES[name], **figures})
            rows[-1]["seconds"] = round(time.perf_counter() - started, 1)
    common.report(given, rows, lambda: common.print_table(tuple(rows[0]), [tuple(row.values()) for row in rows]))


def by_column_sums(messages: MessageGraph) -> Scorer:
    """The mean over a pair's common neighbours of links of the batch that share them, per edge of theirs; 0 without."""
    degrees = messages.structure.degrees().clamp(min=1)

    def score(pairs: NDArray[np.int64]) -> Scores:
        rows, nodes = [], []
        for begin in range(0, len(pairs), LISTED):
            around = common_neighbours(messages, torch.from_numpy(pairs[begin : begin + LISTED]), None)
            rows.append(around.row + begin)
            nodes.append(around.node)
        row, node = torch.cat(rows), torch.cat(nodes)
        sums = torch.bincount(node, minlength=messages.num_nodes) / degrees
        totals = torch.bincount(row, sums[node].double(), minlength=len(pairs))
        return (totals / torch.bincount(row, minlength=len(pairs)).clamp(min=1)).numpy()

    return score


def both_ways(score: Scorer, split: Split, batch: int, measure: str, seed: int) -> dict[str, float]:
    """AUC and the data set's metric of test links, in batches of one label and in shuffled batches of both."""
    links, others = split.test_targets, split.test_negatives.reshape(-1, 2)
    together = np.concatenate([links, others])
    order = np.random.default_rng(seed).permutation(len(together))
    mixed = np.empty(len(together))
    mixed[order] = in_batches(score, together[order], batch)
    ways = {
        "separate": (in_batches(score, links, batch), in_batches(score, others, batch)),
        "mixed": (mixed[: len(links)], mixed[len(links) :]),
    }
    figures = {"AUC": roc_auc, measure: metric(measure)}
    return {f"{name}, {way}": float(of(*scores)) for name, of in figures.items() for way, scores in ways.items()}


def in_batches(score: Scorer, pairs: NDArray[np.int64], batch: int) -> Scores:
    return np.concatenate([score(pairs[begin : begin + batch]) for begin in range(0, len(pairs), batch)])


if __name__ == "__main__":
    main()
