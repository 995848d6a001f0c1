"""node2vec: skip-gram vectors of biased random walks, as frozen inputs of a decoder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import build_decoder
from yinyan.model.scoring import Model
from yinyan.peers.contract import Outcome, Task, trained
from yinyan.peers.factorisation import Table
from yinyan.peers.walks import WalkGraph, walk
from yinyan.randomness import named_seed
from yinyan.settings import Settings

__all__ = ["Walking", "node2vec", "skip_gram"]

_WALKS = 64  # a step of the optimiser at most
_STEPS = 200  # an epoch at least: the fewer nodes, the fewer walks a step
_POOL = 256  # non-context nodes drawn for a step, shared by all of its places


@dataclass(frozen=True)
class Walking:
    """How to walk, and how to learn from it."""

    p: float = 1.0  # the larger, the rarer a step back
    q: float = 1.0  # the larger, the nearer to the start
    walks_per_node: int = 10
    length: int = 40  # nodes of a walk
    window: int = 10  # places to either side that are a node's context
    negatives: float = 5.0  # weight of non-context nodes, for each of context
    epochs: int = 2  # each walks anew
    size: int = 128
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        least = {"walks_per_node": 1, "length": 2, "window": 1, "epochs": 1, "size": 1}
        for name, value in vars(self).items():
            if value < least.get(name, 0) or value == 0:
                bound = f"at least {least[name]}" if name in least else "above 0"
                raise SettingsError(f"'{name}' needs to be {bound} (got {value})")


def node2vec(task: Task, *, walking: Walking | None = None) -> Outcome:
    """Vectors first, then a Hadamard MLP over pairs of them (Grover and Leskovec, KDD 2016; as in the OGB's harness).

    Only messages of training are walked, so that neither validation nor test links shape a vector.
    """
    walking, chosen = walking or Walking(), task.split.train_messages

    def build(settings: Settings, graph: Graph) -> Model:
        weights = None if graph.weights is None else graph.weights[chosen]
        walked = WalkGraph.from_links(graph.edges[chosen], graph.num_nodes, weights)
        vectors = skip_gram(walked, walking, named_seed(task.seed, "walks"))
        decoder = build_decoder(settings.decoder, walking.size, directed=graph.directed)
        return Model(Table(vectors, learned=False), decoder)

    return trained(task, build, fixed={"encoder": {"inputs": "random", "num_steps": 0, "num_negatives": 0}})


def skip_gram(graph: WalkGraph, walking: Walking, seed: int) -> Tensor:
    """(n, size) vectors; zero for nodes without links, which no walk meets."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    shape = (graph.num_nodes, walking.size)
    centres = torch.rand(shape, generator=generator).sub_(0.5).div_(walking.size).requires_grad_()
    contexts = torch.zeros(shape, requires_grad=True)
    optimizer = torch.optim.SparseAdam([centres, contexts], lr=walking.learning_rate)
    starts = np.repeat(np.flatnonzero(graph.degrees), walking.walks_per_node)
    frequency = torch.from_numpy(graph.degrees**0.75).cumsum(0)  # as in word2vec
    for _ in range(walking.epochs):
        nodes = walk(graph, rng.permutation(starts), walking.length, walking.p, walking.q, rng)
        for block in torch.from_numpy(nodes).split(max(1, min(_WALKS, len(nodes) // _STEPS))):
            drawn = torch.rand(_POOL, dtype=torch.float64, generator=generator) * frequency[-1]
            pool = torch.searchsorted(frequency, drawn, right=True).clamp_(max=graph.num_nodes - 1)
            loss = _loss(centres, contexts, block, pool, walking)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return centres.detach() * torch.from_numpy(graph.degrees > 0)[:, None]


def _loss(centres: Tensor, contexts: Tensor, walks: Tensor, pool: Tensor, walking: Walking) -> Tensor:
    """Skip-gram with negative sampling over (w, l) walks, for each pair of context.

    All pairs of a walk are scored by one product, and all places against one pool of nodes by another.
    """
    centre = F.embedding(walks, centres, sparse=True)  # (w, l, d)
    context = F.embedding(walks, contexts, sparse=True)
    places = torch.arange(walks.shape[1])
    gap = (places[:, None] - places).abs()
    near = ((gap > 0) & (gap <= walking.window)).to(centre.dtype)
    wanted = (F.softplus(-centre @ context.mT) * near).sum()
    unwanted = F.softplus(centre @ F.embedding(pool, contexts, sparse=True).T).mean(-1) * near.sum(-1)
    return (wanted + walking.negatives * unwanted.sum()) / (near.sum() * walks.shape[0])
