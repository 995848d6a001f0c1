"""Our hard negatives beside those that HeaRT published, on HeaRT's split of Citeseer.

YINYAN_DATA=/data python benchmarks/ablations/hard_negatives.py --json

`overlap` is the share of a link's published negatives that are among ours, the mean over validation and test links;
`chance` is that of as many nodes drawn at random. `heuristics` compares the two kinds, the links and random pairs by
resource allocation, PageRank and the cosine of features. `released_rule` ranks as HeaRT's released code does and asks
how many negatives of an end that decides: nodes of score 0 have a rank right below the last positive one there, so
that with the best of three ranks most nodes are tied, and the choice among them is arbitrary. `overwritten` also
follows the code in writing ranks over the similarities, which the next link of the same node then takes for scores.
No link is scored by a model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import _path  # noqa: F401
from lib import common
from yinyan.evaluation import make_split
from yinyan.graph import Graph
from yinyan.hard_negatives import similarities, with_hard_negatives
from yinyan.splits import Split

Pairs = NDArray[np.int64]
Scores = NDArray[np.float64]
NAMES = ("resource_allocation", "pagerank", "cosine")


def main() -> None:
    parser = common.parser(__doc__, picture=False)
    parser.add_argument("--data", default="heart-citeseer", help="a data set that comes with HeaRT's negatives")
    given = common.parsed(parser)
    published = make_split(common.load_data(given.data, smoke=given.smoke), "official", 0)
    started = time.perf_counter()
    ours = with_hard_negatives(published, count=published.test_negatives.shape[1])
    seconds = time.perf_counter() - started
    nodes = np.unique(np.concatenate([published.valid_targets, published.test_targets]))
    scores = Rows(published, nodes)
    result = {
        "data": given.data,
        "links": len(published.valid_targets) + len(published.test_targets),
        "negatives_per_link": published.test_negatives.shape[1],
        "seconds": round(seconds, 2),
        "overlap": overlap(published, ours),
        "heuristics": heuristics(published, ours, scores),
        "released_rule": {
            name: released_rule(published, ours, scores, overwrites=overwrites)
            for name, overwrites in (("as_described", False), ("overwritten", True))
        },
        "published_negatives_that_are_edges": edges_among(published),
        "machine": common.machine(),
    }
    common.report(given, result, lambda: show(result))


class Rows:
    """Scores of all nodes for each end of a held-out link, over the training edges."""

    def __init__(self, split: Split, nodes: NDArray[np.int64]) -> None:
        graph = split.graph.with_edges(split.valid_messages)
        self.place = {int(node): row for row, node in enumerate(nodes)}
        self.tables = [rows(nodes) for rows in similarities(graph)]

    def of(self, pairs: Pairs, kept: NDArray[np.int64]) -> list[Scores]:
        """Each heuristic's scores of pairs, looked up from the end that is kept."""
        rows = np.array([self.place[int(node)] for node in kept])
        others = np.where(pairs[:, 0] == kept, pairs[:, 1], pairs[:, 0])
        return [table[rows, others] for table in self.tables]


class End(NamedTuple):
    """One end of a held-out link: what was published for it, and what we chose."""

    graph: Graph
    node: int
    other: int  # the end of the link that is replaced
    known: NDArray[np.int64]  # neighbours that HeaRT leaves out
    published: NDArray[np.int64]
    ours: NDArray[np.int64]


def ends(published: Split, ours: Split) -> Iterator[End]:
    """The ends of validation links, then of test links, in the order of HeaRT's code."""
    graph = published.graph
    train = graph.with_edges(published.train_messages)
    both = np.union1d(published.train_messages, graph.find_edges(published.valid_targets))
    for part, known in (("valid", train), ("test", graph.with_edges(both))):
        links = getattr(published, f"{part}_targets")
        theirs, own = (getattr(split, f"{part}_negatives") for split in (published, ours))
        for link, negatives, chosen in zip(links, theirs, own, strict=True):
            for side in (0, 1):
                node = int(link[side])
                sets = [pairs[pairs[:, side] == node, 1 - side] for pairs in (negatives, chosen)]
                if len(sets[0]):
                    yield End(graph, node, int(link[1 - side]), known.neighbours(node), *sets)


def overlap(published: Split, ours: Split) -> dict[str, float]:
    """Shares of the published negatives of an end that are ours, and that as many random nodes would be."""
    found = [
        (np.isin(end.published, end.ours).mean(), len(end.ours) / end.graph.num_nodes) for end in ends(published, ours)
    ]
    shares, chance = np.array(found).T
    return {"mean": float(shares.mean()), "least": float(shares.min()), "largest": float(shares.max()),
            "chance": float(chance.mean())}  # fmt: skip


def heuristics(published: Split, ours: Split, scores: Rows) -> dict[str, dict[str, dict[str, float]]]:
    """Share of pairs with a positive score, and the mean score in units of the links' mean, by kind of pair."""
    generator = np.random.default_rng(0)
    links = np.concatenate([published.valid_targets, published.test_targets])
    kinds = {"links": [links], "published": [], "ours": [], "random": []}
    kept: dict[str, list[NDArray[np.int64]]] = {"links": [links[:, 0]], "published": [], "ours": [], "random": []}
    for end in ends(published, ours):
        random = generator.integers(0, end.graph.num_nodes, 20)
        random = random[random != end.node]
        for name, nodes in (("published", end.published), ("ours", end.ours), ("random", random)):
            kept[name].append(np.full(len(nodes), end.node))
            kinds[name].append(np.stack([kept[name][-1], nodes], axis=1))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, pairs in kinds.items():
        values = scores.of(np.concatenate(pairs), np.concatenate(kept[name]))
        for which, some in zip(NAMES, values, strict=False):
            found.setdefault(which, {})[name] = {"positive": float((some > 0).mean()), "mean": float(some.mean())}
    for by_kind in found.values():
        unit = by_kind["links"]["mean"] or 1.0
        for row in by_kind.values():
            row["mean"] /= unit
    return found


def released_rule(published: Split, ours: Split, scores: Rows, *, overwrites: bool) -> dict[str, float]:
    """What the rule of HeaRT's released code decides, and whether the published negatives follow it."""
    tables = [table.copy() for table in scores.tables]
    rows = []
    for end in ends(published, ours):
        out, row = np.concatenate([end.known, [end.node, end.other]]), scores.place[end.node]
        ranks = [_released_ranks(table[row], out) for table in tables]
        if overwrites and len(tables) == 3:
            tables[2][row] = ranks[2]
        best = np.min(ranks, axis=0)
        cut = np.sort(best)[len(end.published) - 1]
        decided = np.flatnonzero(best < cut)
        rows.append(
            (
                len(decided) / len(end.published),
                np.isin(decided, end.published).sum() / max(1, len(decided)),
                np.isin(decided, end.ours).sum() / max(1, len(decided)),
                (best[end.published] <= cut).mean(),
                (best == cut).sum(),
                float(len(decided) > 0),
            )
        )
    share, theirs, own, within, tied, any_decided = np.array(rows).T
    some = any_decided > 0
    return {
        "decided": float(share.mean()),
        "decided_that_are_published": float(np.average(theirs[some], weights=share[some])) if some.any() else 1.0,
        "decided_that_are_ours": float(np.average(own[some], weights=share[some])) if some.any() else 1.0,
        "published_within_the_cut": float(within.mean()),
        "nodes_tied_for_the_rest": float(tied.mean()),
    }


def _released_ranks(scores: Scores, out: NDArray[np.int64]) -> Scores:
    """Ranks from 1; then one rank for all nodes of score 0, and one more for those left out."""
    allowed = np.ones(len(scores), dtype=np.bool_)
    allowed[out] = False
    ranked = np.flatnonzero(allowed & (scores > 0))
    ordered = np.sort(scores[ranked])
    below = np.searchsorted(ordered, scores[ranked])  # smaller scores: tied ones share the worst rank
    last = below.max() - below.min() + 1 if len(ranked) else 0
    ranks = np.where(allowed, last + 1.0, last + 2.0)
    ranks[ranked] = below.max(initial=0) - below + 1
    return ranks


def edges_among(split: Split) -> int:
    """Published negatives that are edges of the whole graph."""
    pairs = np.concatenate([split.valid_negatives.reshape(-1, 2), split.test_negatives.reshape(-1, 2)])
    return int(split.graph.has_edges(pairs).sum())


def show(result: dict[str, Any]) -> None:
    """Three tables."""
    counts = ("links", "negatives_per_link", "seconds", "published_negatives_that_are_edges")
    common.print_table(("figure", "value"), [(name, result[name]) for name in counts])
    common.print_table(tuple(result["overlap"]), [tuple(f"{value:.3f}" for value in result["overlap"].values())])
    common.print_table(
        ("heuristic", "pairs", "positive", "mean"),
        [
            (which, kind, f"{row['positive']:.3f}", f"{row['mean']:.3f}")
            for which, by_kind in result["heuristics"].items()
            for kind, row in by_kind.items()
        ],
    )
    rules = result["released_rule"]
    common.print_table(
        ("released rule", *rules),
        [(name, *(f"{rule[name]:.3f}" for rule in rules.values())) for name in rules["overwritten"]],
    )


if __name__ == "__main__":
    main()
