"""The heuristics through the contract: no training, scores over the messages of test time."""

from __future__ import annotations

from collections.abc import Callable

from yinyan.graph import Graph
from yinyan.peers import heuristics, walk_sums
from yinyan.peers.contract import Method, Outcome, Pairs, Scores, Task

__all__ = ["aa", "cn", "jaccard", "katz", "pagerank", "preferential", "ra"]


def _method(heuristic: Callable[[Graph, Pairs], Scores]) -> Method:
    def run(task: Task) -> Outcome:
        messages = task.split.graph.with_edges(task.split.test_messages)
        return Outcome(lambda pairs: heuristic(messages, pairs))

    return run


cn = _method(heuristics.common_neighbours)
aa = _method(heuristics.adamic_adar)
ra = _method(heuristics.resource_allocation)
jaccard = _method(heuristics.jaccard)
preferential = _method(heuristics.preferential_attachment)
katz = _method(walk_sums.katz)
pagerank = _method(walk_sums.personalised_pagerank)
