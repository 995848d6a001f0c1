"""Leaks between the links of a split: the same answer in two places."""

from __future__ import annotations

import numpy as np

from yinyan.auditing.findings import Log
from yinyan.auditing.material import ACROSS, NAMES, Material, contains, of_one_node
from yinyan.graph.edge_lists import distinct
from yinyan.text import counted

__all__ = ["LINK_CHECKS"]


def parts_are_disjoint(material: Material, log: Log) -> None:
    """No link is in two parts, in either direction."""
    ordered = {part: distinct(material.ordered(pairs)) for part, pairs in material.targets.items()}
    for later, earlier in ACROSS:
        pairs, known = material.targets[later], ordered[earlier]
        same = contains(known, material.ordered(pairs))
        log.found(
            "repeated",
            material.tally_marked(pairs, same),
            f"{NAMES[later]} links that are {NAMES[earlier]} links too",
        )
        log.found(
            "reversed",
            material.tally(pairs, material.reversed_among(known)),
            f"{NAMES[later]} links whose reverse is a {NAMES[earlier]} link",
            severity="warning" if material.directed else "leak",
        )
    sizes = ", ".join(f"{len(pairs):,} {NAMES[part]}" for part, pairs in material.targets.items())
    how = "directed" if material.directed else "undirected"
    log.looked(f"links in two parts, either way round: {sizes} ({how})")


def messages_hide_targets(material: Material, log: Log) -> None:
    """No target is among the messages that score it."""
    for part, messages in material.messages.items():
        seen = material.tally(material.targets[part], material.among(distinct(material.keys(messages))))
        log.found("scored-by-itself", seen, f"{NAMES[part]} links that pass messages when they are scored")
    sizes = ", ".join(f"{len(messages):,} at {NAMES[part]}" for part, messages in material.messages.items())
    log.looked(f"targets among the messages that score them: {sizes or 'the split leaves the messages open'}")


def links_are_whole(material: Material, log: Log) -> None:
    """Each link once in its part, and between two nodes that may be linked."""
    for part, pairs in material.targets.items():
        _find_doubled(material, log, part)
        log.found("self-pairs", material.tally(pairs, of_one_node), f"{NAMES[part]} links of a node with itself")
        if material.one_sided is not None:
            within = material.tally(pairs, material.one_sided)
            log.found("one-sided", within, f"{NAMES[part]} links within one side of the bipartite graph")
        if material.graph is not None and not contains(material.graph_keys, material.target_keys[part]).all():
            lacking = (material.graph.find_edges(pairs) < 0) & ~of_one_node(pairs)
            tally = material.tally_marked(pairs, lacking)
            log.found("not-in-graph", tally, f"{NAMES[part]} links that are no edges of the graph")
    absent = "not in the graph" if material.graph is not None else "without a graph to look them up in"
    log.looked(f"links within a part: repeated, of a node with itself, {absent}")


def _find_doubled(material: Material, log: Log, part: str) -> None:
    if len(material.target_keys[part]) == len(material.targets[part]):
        return
    keys, counts = np.unique(material.keys(material.targets[part]), return_counts=True)
    if counts.min() == counts.max():
        log.looked(f"every {NAMES[part]} link is there {int(counts[0])} times, which changes no share")
        return
    repeats = int(counts.sum()) - len(keys), int(counts.sum()), material.pair_of(int(keys[counts.argmax()]))
    log.found("doubled", repeats, f"{NAMES[part]} links that repeat another of the part, either way round")


def past_predicts_future(material: Material, log: Log) -> None:
    """Under a temporal protocol no link is later than those that it helps to predict."""
    graph = material.graph
    if not material.temporal or graph is None or graph.times is None:
        log.looked("times: not looked at, the split is not by time")
        return
    times = {part: graph.times[graph.find_edges(pairs)] for part, pairs in material.targets.items()}
    for later, earlier in ACROSS:
        if not (times[earlier].size and times[later].size):
            continue
        late = times[earlier] > times[later].min()
        tally = material.tally_marked(material.targets[earlier], late)
        log.found("future", tally, f"{NAMES[earlier]} links later than the first {NAMES[later]} link")
    log.looked(f"times of {counted(sum(map(len, times.values())), 'link')}")


LINK_CHECKS = (parts_are_disjoint, messages_hide_targets, links_are_whole, past_predicts_future)
