"""A synthetic graph with hubs and communities, of any size up to tens of millions of links.

Links are drawn as in Chung and Lu's model: an end falls on a node in proportion to its weight. Weights follow a power
law of exponent 2.5, cut at an expected degree of the square root of twice the number of links. Every node belongs to a
community; their sizes follow a power law of exponent 2 between four mean degrees and a tenth of the nodes. The second
end of a link is drawn from the community of the first with probability 0.8. Repeated and self pairs are drawn again,
from the fourth round on without regard to communities, so that small communities may fill up. Node numbers are shuffled
at last: a node's neighbours are strewn over memory, which is the worst case for whatever gathers them.

200,000 nodes and 2.5 million links come out with degrees of 25 in the mean, 15 in the median and 2,121 at most; 15 %
of all ends at the top hundredth of nodes; 293 communities, the largest of 13,039 nodes; 78 % of links within them.

python benchmarks/lib/graphs.py --nodes 200000 --links 2500000    # counts this anew
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.graph import Graph
from yinyan.training.node_order import local_order

DEGREE_EXPONENT = 2.5
SIZE_EXPONENT = 2.0
WITHIN = 0.8  # share of links drawn inside a community
_ROUNDS = 100
_ROUNDS_WITHIN = 3  # after so many, what is still missing is drawn from all nodes


class Synthetic(NamedTuple):
    """A graph and the communities that it was drawn from."""

    pairs: Tensor  # (m, 2) int64, distinct, the lower node first
    communities: Tensor  # (n,) int64


def synthetic(num_nodes: int, num_links: int, seed: int) -> Tensor:
    """(m, 2) distinct undirected pairs without self pairs."""
    return drawn(num_nodes, num_links, seed).pairs


def kept(num_nodes: int, num_links: int, seed: int, folder: Path) -> Path:
    """A file of the (m, 2) pairs in a folder, drawn unless it is there."""
    file = folder / f"synthetic-{num_nodes}-{num_links}-{seed}.npy"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(file, synthetic(num_nodes, num_links, seed).numpy())
    return file


def with_features(num_nodes: int, num_links: int) -> Graph:
    """A graph with 64 features: a random vector per community, plus noise of three times its length."""
    made, rng = drawn(num_nodes, num_links, 0), np.random.default_rng(0)
    community = made.communities.numpy()
    centres = rng.normal(size=(community.max() + 1, 64))
    features = (centres[community] + 3.0 * rng.normal(size=(num_nodes, 64))).astype(np.float32)
    return Graph.from_arrays(made.pairs.numpy(), num_nodes=num_nodes, features=features)


def bipartite(left: int, right: int, num_links: int, seed: int) -> Tensor:
    """(m, 2) distinct pairs of a left node and a right one, whose number is at least `left`; no node is isolated.

    The sides are drawn at random among the nodes of a graph with communities, and links within a side are left out.
    """
    n, rng = left + right, np.random.default_rng(seed)
    crossing = 2 * left * right / (n * (n - 1))
    pairs = drawn(n, int(1.05 * num_links / crossing) + 64, seed).pairs.numpy()
    ends = np.sort(rng.permutation(n)[pairs], axis=1)
    ends = rng.permutation(ends[(ends[:, 0] < left) & (ends[:, 1] >= left)])[:num_links]
    if len(ends) < num_links:
        raise ValueError(
            f"only {len(ends):,} of {num_links:,} links join the two sides of {left:,} and {right:,} nodes"
        )
    return torch.from_numpy(without_isolated(ends, n, left=left, seed=seed))


def without_isolated(
    pairs: NDArray[np.int64], num_nodes: int, *, left: int | None = None, seed: int
) -> NDArray[np.int64]:
    """As many pairs, some of which lead to nodes that had none: a table of edges then names all nodes.

    The other end of a moved pair stays, and the end that loses it has more than eight. With `left`, pairs join a node
    below it and one from there on.
    """
    degrees = np.bincount(pairs.ravel(), minlength=num_nodes)
    isolated = np.flatnonzero(degrees == 0)
    rich = np.flatnonzero((degrees[pairs] > 8).all(axis=1))
    if isolated.size > rich.size // 8:
        raise ValueError(f"{len(pairs):,} pairs are too few to reach all of {num_nodes:,} nodes")
    moved = np.random.default_rng(seed).choice(rich, isolated.size, replace=False)
    ends = np.zeros(isolated.size, np.int64) if left is None else (isolated >= left).astype(np.int64)
    made = pairs.copy()
    made[moved, ends] = isolated
    return made


def in_local_order(pairs: Tensor, num_nodes: int) -> Tensor:
    """The pairs after nodes were moved as training moves them (`training.node_order`)."""
    return torch.from_numpy(np.argsort(local_order(pairs.numpy(), num_nodes)))[pairs]


def drawn(num_nodes: int, num_links: int, seed: int, within: float = WITHIN) -> Synthetic:
    """The same with the community of each node, and perhaps another share of links drawn inside communities."""
    n, m = num_nodes, num_links
    if not 0 < m <= n * (n - 1) // 4:
        raise ValueError(f"'num_links' needs to be between 1 and half of all pairs (got {m:,} for {n:,} nodes)")
    rng = np.random.default_rng(seed)
    bounds = _bounds(n, 2 * m / n, rng)  # communities are ranges of nodes until these are shuffled
    weights = rng.random(n) ** (-1 / (DEGREE_EXPONENT - 1))
    weights = np.minimum(weights, weights.mean() * np.sqrt(2 * m) * n / (2 * m))
    ladder = torch.from_numpy(np.concatenate([[0.0], np.cumsum(weights)]))
    keys = np.empty(0, dtype=np.int64)
    for attempt in range(_ROUNDS):
        missing = m - keys.size
        if missing <= 0:
            break
        share = within if attempt < _ROUNDS_WITHIN else 0.0
        fresh = _keys(int(missing * 1.05) + 16, n, ladder, bounds, share, rng)
        keys = _distinct(np.concatenate([keys, fresh]))
    else:
        raise ValueError(f"{m:,} links among {n:,} nodes are too many to find by drawing")
    rng.shuffle(keys)
    keys = keys[:m]
    number = rng.permutation(n)
    ends = np.stack([number[keys // n], number[keys % n]], axis=1)
    ends.sort(axis=1)
    communities = np.empty(n, dtype=np.int64)
    communities[number] = np.repeat(np.arange(bounds.size - 1), np.diff(bounds))
    return Synthetic(torch.from_numpy(ends), torch.from_numpy(communities))


def statistics(graph: Synthetic, num_nodes: int) -> dict[str, Any]:
    """What the documentation promises, counted."""
    ends = graph.communities[graph.pairs]
    degrees = torch.bincount(graph.pairs.flatten(), minlength=num_nodes)
    ordered = degrees.sort(descending=True).values.double()
    hubs = max(1, num_nodes // 100)
    return {
        "nodes": num_nodes,
        "links": graph.pairs.shape[0],
        "mean_degree": float(ordered.mean()),
        "median_degree": int(degrees.median()),
        "max_degree": int(degrees.max()),
        "isolated_nodes": int((degrees == 0).sum()),
        "ends_at_the_top_hundredth": float(ordered[:hubs].sum() / ordered.sum()),
        "communities": int(graph.communities.max()) + 1,
        "largest_community": int(torch.bincount(graph.communities).max()),
        "links_within_communities": float((ends[:, 0] == ends[:, 1]).double().mean()),
    }


def _bounds(n: int, mean_degree: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """(c + 1,) where each community's range of nodes starts, and n."""
    smallest, largest = min(n, 4 * mean_degree + 4), max(n / 10, 4 * mean_degree + 5)
    sizes: list[NDArray[np.int64]] = []
    total = 0
    while total < n:
        u = rng.random(max(16, int((n - total) / smallest / 4)))
        power = 1 - SIZE_EXPONENT
        span = smallest**power + u * (largest**power - smallest**power)
        sizes.append((span ** (1 / power)).astype(np.int64))
        total += int(sizes[-1].sum())
    ends = np.cumsum(np.concatenate(sizes))
    return np.concatenate([[0], ends[ends < n], [n]])


def _keys(
    count: int, n: int, ladder: Tensor, bounds: NDArray[np.int64], share: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """lower * n + upper of so many drawn pairs, self pairs left out."""
    first = _at(ladder, torch.from_numpy(rng.random(count)).mul_(ladder[-1]))
    low, span = torch.zeros(count, dtype=torch.float64), ladder[-1].repeat(count)
    if share > 0:
        starts = torch.from_numpy(bounds)
        own = torch.searchsorted(starts, first, right=True) - 1
        within = torch.from_numpy(rng.random(count) < share)
        edges = ladder[starts]
        low = torch.where(within, edges[own], low)
        span = torch.where(within, edges[own + 1] - low, span)
    second = _at(ladder, torch.from_numpy(rng.random(count)).mul_(span).add_(low))
    keys = torch.minimum(first, second).mul_(n).add_(torch.maximum(first, second))
    return keys[first != second].numpy()


def _at(ladder: Tensor, heights: Tensor) -> Tensor:
    """The node on whose rung each height falls."""
    return (torch.searchsorted(ladder, heights, right=True) - 1).clamp_(0, ladder.numel() - 2)


def _distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    keys.sort()
    kept = np.empty(keys.size, dtype=bool)
    kept[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=kept[1:])
    return keys[kept]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--links", type=int, default=2_500_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument("--smoke", action="store_true", help="a tiny graph: shows that it runs")
    options = parser.parse_args()
    if options.smoke:
        options.nodes, options.links = 300, 1_500
    started = time.perf_counter()
    graph = drawn(options.nodes, options.links, options.seed)
    seconds = time.perf_counter() - started
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found = statistics(graph, options.nodes) | {"seconds": seconds, "peak_gigabytes": gigabytes}
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for name, value in found.items():
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
        print(f"{name.replace('_', ' '):28} {text:>14}")


if __name__ == "__main__":
    main()
