"""Recommenders: LightGCN trained as published, implicit alternating least squares, and popularity."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import DivergedError, MissingExtraError, SettingsError, StoppedError
from yinyan.graph import Graph
from yinyan.model.fitted import EpochRecord
from yinyan.model.losses import infonce, log_rank
from yinyan.model.operators import EdgeStructure, SymmetricOperator
from yinyan.model.tensors import message_graph, pick_device
from yinyan.peers.contract import Outcome, Overrides, Task, merged, products
from yinyan.peers.full_ranking import ranked
from yinyan.randomness import Streams, named_seed, uniform_nodes
from yinyan.sampling import KnownPairs, draw_pairs
from yinyan.settings import Settings
from yinyan.splits import known_pairs

__all__ = ["ials", "lightgcn_as_published", "popularity", "propagated"]

Pairs = NDArray[np.int64]
Matrix = NDArray[np.float32]

_START = 0.1  # standard deviation of the first embeddings, as published

_LIGHTGCN: Overrides = {
    "encoder": {"embedding_size": 64, "num_steps": 3},
    "training": {
        "loss": "logrank",
        "loss_negatives": 1,
        "batch_size": 8192,
        "learning_rate": 0.05,
        "weight_decay": 1e-3,
        "epochs": 45,
        "evaluate_every": 3,
        "patience": 3,
    },
}
_IALS: Overrides = {
    "encoder": {"embedding_size": 128, "attraction": 1.0},
    "training": {"epochs": 15, "weight_decay": 0.01},
}
_LIGHTGCN_FIXED: Overrides = {
    "encoder": {"inputs": "embeddings", "num_negatives": 0, "output_norm": False},
    "decoder": {"kind": "dot"},
    "training": {"mask_targets": False, "schedule": "constant", "averaging": 0.0, "loss_sampler": "source"},
}


def lightgcn_as_published(task: Task) -> Outcome:
    """LightGCN with its own loss (He et al., SIGIR 2020): targets are not masked, and each source has negatives.

    `training.loss` is 'logrank' (Bayesian personalised ranking, `loss_negatives` for each pair) or 'infonce' (sampled
    softmax, `loss_negatives` for all pairs of a step; known links among them do not count). `weight_decay` is the
    factor of the squared norms of a step's embeddings. The epoch is chosen by NDCG@20 of the validation links.
    """
    settings = Settings().updated(merged(merged(_LIGHTGCN, task.settings), _LIGHTGCN_FIXED))
    device = pick_device(task.device)
    split, training = task.split, settings.training
    if training.loss not in ("logrank", "infonce"):
        raise SettingsError(f"LightGCN needs 'training.loss' to be 'logrank' or 'infonce' (got {training.loss!r})")
    steps = settings.encoder.num_steps
    messages = message_graph(split.graph, split.train_messages, device)
    operator = messages.adjacency(self_loops=False)[0]
    pairs = _with_sources(split.graph, split.train_targets).to(device)
    table = _start(split.graph, settings.encoder.embedding_size, task.seed, device)
    streams = Streams(task.seed, device)
    known = known_pairs(split.graph, split.graph.edges[split.known_in_training]).to(device)
    ranking = _Ranking(settings, operator, known, messages.structure, streams["loss_negatives"])
    optimizer = torch.optim.Adam([table], lr=training.learning_rate, fused=device.type != "mps")
    task.hooks.on_start(training.epochs, 0)
    best, kept, waited = -1.0, table.detach().clone(), 0
    for epoch in range(1, training.epochs + 1):
        order = torch.randperm(len(pairs), generator=streams["batches"], device=device)
        total = 0.0
        for rows in order.split(training.batch_size or len(pairs)):
            if task.hooks.should_stop():
                raise StoppedError("training was stopped: run it again")
            loss = ranking.loss(table, pairs[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(rows) / len(pairs)
        if not np.isfinite(total):
            raise DivergedError("the loss of LightGCN is not finite: lower training.learning_rate")
        score = None
        if epoch % training.evaluate_every == 0 or epoch == training.epochs:
            y = propagated(table.detach(), operator, steps).cpu().numpy()
            score = ranked(_outcome(y), split, "valid").means["ndcg@20"]
            waited = 0 if score > best else waited + 1
            if score > best:
                best, kept = score, table.detach().clone()
        task.hooks.on_epoch(EpochRecord(epoch, total, training.learning_rate, score=score))
        if training.patience and waited >= training.patience:
            break
    at_test = message_graph(split.graph, split.test_messages, device).adjacency(self_loops=False)[0]
    return _outcome(propagated(kept, at_test, steps).cpu().numpy(), validation=best)


def propagated(table: Tensor, operator: SymmetricOperator, steps: int) -> Tensor:
    """(n, d) mean of E, Ã E, …, Ã^T E, by our compiled products; differentiable in E."""
    return _Propagation.apply(table, operator, steps)  # type: ignore[no-any-return]


class _Propagation(torch.autograd.Function):
    """The mean of the powers of a symmetric matrix is symmetric: its backward pass is itself."""

    @staticmethod
    def forward(ctx, table, operator, steps):  # type: ignore[no-untyped-def]
        ctx.operator, ctx.steps = operator, steps
        y, mean = table, table / (steps + 1)
        for _ in range(steps):
            y = operator.product(y)
            mean.add_(y, alpha=1 / (steps + 1))
        return mean

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return _Propagation.apply(grad.contiguous(), ctx.operator, ctx.steps), None, None


def ials(task: Task) -> Outcome:
    """Implicit alternating least squares (Hu et al., ICDM 2008) by the package `implicit`.

    It has 128 factors and 15 iterations. Of the task's settings it reads `encoder.embedding_size` (factors),
    `encoder.attraction` (weight α of the observed links), `training.weight_decay` (regularisation) and
    `training.epochs` (iterations). A directed graph's scores are those of the direction, an undirected one's the sum
    of both.
    """
    settings = Settings().updated(merged(_IALS, task.settings))
    graph, messages = task.split.graph, task.split.test_messages
    links, weights = graph.edges[messages], None if graph.weights is None else graph.weights[messages]
    left = graph.num_left
    if left is not None:
        users, items = _als(links - np.array([0, left]), (left, graph.num_nodes - left), weights, settings, task.seed)
        return _outcome(np.concatenate([users, items]))
    if not graph.directed:
        links, weights = np.concatenate([links, links[:, ::-1]]), None if weights is None else np.tile(weights, 2)
    sources, targets = _als(links, (graph.num_nodes, graph.num_nodes), weights, settings, task.seed)
    if graph.directed:
        return _outcome(sources, targets)
    return _outcome(np.concatenate([sources, targets], axis=1), np.concatenate([targets, sources], axis=1))


def popularity(task: Task) -> Outcome:
    """For each source, targets by their number of edges: preferential attachment, as products of degrees."""
    graph, messages = task.split.graph, task.split.test_messages
    degrees = np.bincount(graph.edges[messages].reshape(-1), minlength=graph.num_nodes)
    return _outcome(degrees[:, None].astype(np.float32))


def _als(
    links: Pairs, shape: tuple[int, int], weights: NDArray[np.float32] | None, settings: Settings, seed: int
) -> tuple[Matrix, Matrix]:
    """Factors of the rows and of the columns of a sparse matrix."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads would get in the way of implicit's own
    try:
        from implicit.cpu.als import AlternatingLeastSquares
        from scipy.sparse import csr_matrix
    except ImportError as error:
        raise MissingExtraError("this method needs implicit: pip install 'yinyan[recommenders]'") from error
    values = np.ones(len(links), dtype=np.float32) if weights is None else weights
    model = AlternatingLeastSquares(
        factors=settings.encoder.embedding_size,
        regularization=settings.training.weight_decay,
        alpha=settings.encoder.attraction,
        iterations=settings.training.epochs,
        num_threads=torch.get_num_threads(),
        random_state=named_seed(seed, "weights") % 2**32,
    )
    model.fit(csr_matrix((values, (links[:, 0], links[:, 1])), shape=shape), show_progress=False)
    return np.asarray(model.user_factors), np.asarray(model.item_factors)


def _outcome(sources: Matrix, targets: Matrix | None = None, validation: float | None = None) -> Outcome:
    score, block = products(sources, targets)
    return Outcome(score, validation, block=block)


def _start(graph: Graph, size: int, seed: int, device: torch.device) -> Tensor:
    """(n, size) embeddings to learn."""
    generator = torch.Generator().manual_seed(named_seed(seed, "weights"))
    rows = torch.randn(graph.num_nodes, size, generator=generator) * _START
    return rows.to(device).requires_grad_()


def _with_sources(graph: Graph, targets: Pairs) -> Tensor:
    """(·, 2) pairs whose first end ranks: users of a bipartite graph, sources of a directed one, or both ends."""
    one_way = graph.directed or graph.is_bipartite
    return torch.from_numpy(np.ascontiguousarray(targets if one_way else np.concatenate([targets, targets[:, ::-1]])))


@dataclass(frozen=True)
class _Ranking:
    """The loss of a step: positives of some sources against negatives of theirs."""

    settings: Settings
    operator: SymmetricOperator
    known: KnownPairs  # links that negatives avoid
    structure: EdgeStructure  # the same by node
    generator: torch.Generator

    def loss(self, table: Tensor, pairs: Tensor) -> Tensor:
        """Of (b, 2) pairs, with the squared norms of the embeddings that it touches."""
        training = self.settings.training
        y = propagated(table, self.operator, self.settings.encoder.num_steps)
        sources, targets = y.index_select(0, pairs[:, 0]), y.index_select(0, pairs[:, 1])
        positives = (sources * targets).sum(1)
        if training.loss == "logrank":
            repeated = pairs[:, 0].repeat_interleave(training.loss_negatives)
            others = draw_pairs(self.known, len(repeated), self.generator, sources=repeated)[:, 1]
            rivals = y.index_select(0, others).view(len(pairs), training.loss_negatives, -1)
            loss = log_rank(positives, torch.bmm(rivals, sources[:, :, None])[:, :, 0])
        else:
            others = self._pool()
            logits = sources @ y.index_select(0, others).T
            loss = infonce(positives, logits.masked_fill(self._linked(pairs[:, 0], others), -torch.inf))
        touched = table.index_select(0, torch.cat([pairs.reshape(-1), others])).square().sum()
        return loss + 0.5 * training.weight_decay * touched / len(pairs)

    def _pool(self) -> Tensor:
        """(N,) targets, drawn uniformly, that all sources of a step are ranked against."""
        first = self.known.num_left or 0
        count = self.settings.training.loss_negatives
        drawn = uniform_nodes(self.known.num_nodes - first, count, self.generator, self.known.device)
        return first + drawn

    def _linked(self, sources: Tensor, pool: Tensor) -> Tensor:
        """(b, N) which of the pool's nodes are linked to each source, or the source itself."""
        distinct, place = torch.unique(pool, return_inverse=True)
        slot = torch.full((self.known.num_nodes,), -1, device=pool.device)
        slot[distinct] = torch.arange(len(distinct), device=pool.device)
        indptr, neighbours = self.structure.of_rows(sources)
        rows = torch.repeat_interleave(torch.arange(len(sources), device=pool.device), indptr.diff())
        slots = slot[neighbours.long()]
        met = slots >= 0
        marks = torch.zeros(len(sources), len(distinct), dtype=torch.bool, device=pool.device)
        marks[rows[met], slots[met]] = True
        own = slot[sources]
        marks[torch.arange(len(sources), device=pool.device)[own >= 0], own[own >= 0]] = True
        return marks.index_select(1, place)
