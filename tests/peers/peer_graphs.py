"""Small graphs with hidden edges, for tests of methods that look at the graph around pairs."""

from __future__ import annotations

import networkx as nx
import torch
from hypothesis import strategies as st
from torch import Tensor

NODES = 9
EVERY_PAIR = torch.tensor([(a, b) for a in range(NODES) for b in range(NODES) if a != b])


@st.composite
def masked_graphs(draw: st.DrawFn) -> tuple[Tensor, Tensor | None]:
    """A few links or none, some of them hidden; the last node is always alone."""
    node = st.integers(0, NODES - 2)
    pairs = draw(st.sets(st.tuples(node, node).filter(lambda p: p[0] < p[1]), max_size=20))
    links = torch.tensor(sorted(pairs), dtype=torch.long).reshape(-1, 2)
    masks = st.lists(st.booleans(), min_size=len(links), max_size=len(links))
    return links, draw(st.none() | masks.map(lambda mask: torch.tensor(mask, dtype=torch.bool)))


def plain_graph(links: Tensor, hidden: Tensor | None) -> nx.Graph:
    """The visible edges."""
    graph = nx.Graph((links if hidden is None else links[~hidden]).tolist())
    graph.add_nodes_from(range(NODES))
    return graph


def subgraph_by_hand(graph: nx.Graph, pair: tuple[int, int], hops: int, *, own_edge: bool) -> nx.Graph:
    """Balls around both ends, and what the graph has between their nodes."""
    near = {node for end in pair for node in nx.single_source_shortest_path_length(graph, end, cutoff=hops)}
    around = nx.Graph(graph.subgraph(near))
    if not own_edge:
        around.remove_edges_from([pair])
    return around
