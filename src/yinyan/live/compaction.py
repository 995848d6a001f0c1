"""Compaction of a change log: old changes are replaced by their net effect, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from yinyan.errors import StoreError
from yinyan.graph.ids import Id
from yinyan.live.log_places import LogPlace, open_log
from yinyan.live.shared_log import History
from yinyan.live.structure import Change

__all__ = ["Compacted", "compact", "is_due", "net_effect"]

_KEPT = 1_000  # newest changes that stay as they are, so that other processes can follow
_GROWN = 20_000  # changes one by one, below which compaction is not worth it
_ITEMS = 10_000  # nodes or pairs of a record

Pair = tuple[Id, Id]


class Compacted(NamedTuple):
    """What a compaction did."""

    changes: int  # that were replaced
    records: int  # of the net effect
    bytes_before: int
    bytes_after: int


def is_due(place: LogPlace) -> bool:
    """Whether a log has grown so much that its compaction pays: by many changes, and by half of its net effect."""
    log = open_log(place)
    try:
        facts = log.facts()
    finally:
        log.close()
    return facts.count - facts.base > _KEPT + max(_GROWN, facts.net_items // 2)


def compact(place: LogPlace, *, keep: int = _KEPT, directed: bool | None = None) -> Compacted:
    """Compact a log, also beside a service that uses it; a crash leaves the old log or the new one.

    `directed` says whether pairs have a direction, where the log does not know yet.
    """
    log = open_log(place, create=False)
    try:
        before = log.size()
        history, facts = log.history(), log.facts()
        if facts.directed:
            directed = facts.directed == "yes"
        if directed is None:
            raise StoreError(f"the change log '{place}' belongs to no model yet (start yinyan serve with it once)")
        until = max(history.base, facts.count - keep)
        if until == history.base:
            return Compacted(0, facts.net_count, before, before)
        net, items = net_effect(history, until, directed=directed)
        if not log.replace_until(until, history.base, net, items):
            return Compacted(0, log.facts().net_count, before, log.size())
        log.shrink()
        return Compacted(until - history.base, len(net), before, log.size())
    finally:
        log.close()


def net_effect(history: History, until: int, *, directed: bool) -> tuple[list[Change], int]:
    """Records that do what all changes up to a version did together, and how many nodes and pairs they name.

    It is the same for every model: nodes in the order and with the neighbours that they came with, and for each pair
    the last thing that was said of it.
    """
    nodes: list[list[dict[str, Any]]] = []  # by record; those of one change may name each other, and stay together
    links: dict[Pair, bool] = {}
    rejected: dict[Pair, bool] = {}

    def ordered(pair: Sequence[Id]) -> Pair:
        a, b = pair
        return (a, b) if directed or (str(a), isinstance(a, str)) <= (str(b), isinstance(b, str)) else (b, a)

    changes = [*history.net, *(logged.change for logged in history.changes if logged.version <= until)]
    for change in changes:
        kind = change["kind"]
        if kind == "add_nodes":
            if not nodes or len(nodes[-1]) + len(change["nodes"]) > _ITEMS:
                nodes.append([])
            nodes[-1] += change["nodes"]
            for node in change["nodes"]:
                for other in node.get("neighbours") or ():
                    links.pop(ordered((node["id"], other)), None)  # the node brings it
        elif kind in ("add_links", "remove_links"):
            links.update(dict.fromkeys(map(ordered, change["pairs"]), kind == "add_links"))
        elif kind in ("reject", "take_back"):
            rejected.update(dict.fromkeys(map(ordered, change["pairs"]), kind == "reject"))
    parts = {
        "remove_links": [pair for pair, there in links.items() if not there],
        "add_links": [pair for pair, there in links.items() if there],
        "reject": [pair for pair, there in rejected.items() if there],
    }
    records: list[Change] = [{"kind": "add_nodes", "nodes": part} for part in nodes]
    records += [
        {"kind": kind, "pairs": part} for kind, pairs in parts.items() for part in _parts([list(p) for p in pairs])
    ]
    return records, sum(map(len, nodes)) + sum(map(len, parts.values()))


def _parts(items: Sequence[Any]) -> Iterable[list[Any]]:
    return (list(items[first : first + _ITEMS]) for first in range(0, len(items), _ITEMS))
