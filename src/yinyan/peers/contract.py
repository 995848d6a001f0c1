"""What every method of the harness is: a function from a task to scores of pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.graph import Graph
from yinyan.model.fitted import Fitted, embed_graph
from yinyan.model.reranking import Reranker
from yinyan.model.scoring import Model, score_pairs
from yinyan.model.shared_neighbours import CompressedLists
from yinyan.model.tensors import feature_tensor, message_graph, pick_device
from yinyan.retrieval.exact import ExactSearch, Excluded, TopK
from yinyan.retrieval.held_out import reranked_lists
from yinyan.retrieval.reranking import SHORTLIST
from yinyan.retrieval.scorer import Scorer as DecoderScorer
from yinyan.retrieval.snapshot import Snapshot
from yinyan.retrieval.state import linked_rows
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.training.data import TrainingData
from yinyan.training.defaults import ground
from yinyan.training.fingerprints import training_fingerprint
from yinyan.training.fit import fit_model
from yinyan.training.hooks import Hooks

__all__ = [
    *("Best", "BlockScorer", "Fits", "Method", "Outcome", "Overrides", "Scorer", "Task"),
    *("best_of", "blocks_of", "merged", "products", "searches", "trained"),
]

Pairs = NDArray[np.int64]
Rows = NDArray[np.int64]
Scores = NDArray[np.floating[Any]]
Overrides = Mapping[str, Mapping[str, Any]]
Scorer = Callable[[Pairs], Scores]  # (p, 2) pairs of node rows -> (p,) scores, the larger the likelier
BlockScorer = Callable[[Rows, Rows], Scores]  # (b,) sources, (t,) targets -> (b, t) scores
Best = Callable[[Rows, int, Excluded, Rows | None], list[TopK]]  # sources, k, what each leaves out, candidates
Fits = MutableMapping[str, Fitted]


@dataclass(frozen=True)
class Task:
    """A split to learn from, and how."""

    split: Split  # the edges by role
    seed: int = 0  # of the training
    settings: Overrides = field(default_factory=dict)  # by group; they override the method's own
    device: str = "auto"  # 'auto', 'cpu', 'cuda' or 'mps'
    hooks: Hooks = field(default_factory=Hooks)  # callbacks of the training
    fits: Fits | None = None  # cache of the last training, for a task that differs at test time only


class Outcome(NamedTuple):
    """The result of a method on a task."""

    score: Scorer  # scores of (p, 2) rows, with the messages of test time
    validation: float | None = None  # metric of the best epoch; None without training
    spared: float = 0.0  # seconds of training saved by the cache
    block: BlockScorer | None = None  # scores of all pairs of some sources and some targets, where that is quicker
    best: Best | None = None  # the best targets of some sources, where that is quicker than scoring all pairs
    fitted: Fitted | None = None  # the trained model, where our loop trained it


Method = Callable[[Task], Outcome]

_PAIRS = 65_536  # scored at a time

# methods are compared by what they make of messages, without what we add to ours
_PLAIN: Overrides = {"encoder": {"sketch_size": 0, "node_dropout": 0.0}}


def trained(
    task: Task,
    build: Callable[[Settings, Graph], Model] | None,
    own: Overrides | None = None,
    *,
    fixed: Overrides | None = None,
    start: Callable[[Model, TrainingData], None] | None = None,
    rerank: bool = False,
) -> Outcome:
    """Train what `build` makes (ours, without it) by our loop: the same masking, loss and choice of weights.

    Settings are the common ground of the graph, without sketches and node dropout, changed by the method's `own`, then
    by the task's, then by those that make the method what it is (`fixed`). `start` gives other weights to train from.
    With `rerank` exact counts rerank as in `LinkPredictor`, where validation edges gain by it.
    """
    split, device = task.split, pick_device(task.device)
    changes = merged(merged(merged(_PLAIN, own or {}), task.settings), fixed or {})
    settings = ground(split.graph, len(split.train_targets)).settings.updated(changes)
    messages = message_graph(split.graph, split.test_messages, device)
    spared = 0.0
    fits = task.fits if build is None and start is None else None
    key = "" if fits is None else f"{device}/{training_fingerprint(split, settings, task.seed)}"
    if fits is not None and key in fits:
        fitted = fits[key]
        spared = fitted.seconds
        features = feature_tensor(split.graph.features, device)
        embeddings = embed_graph(fitted.model, features, messages, settings, task.seed)
    else:
        fitted = fit_model(
            *(split, settings),
            seed=task.seed,
            device=device,
            calibration="platt",
            hooks=task.hooks,
            build=build,
            start=start,
            lists=partial(reranked_lists, seed=task.seed) if rerank and settings.decoder.rerank else None,
        )
        embeddings = fitted.embeddings
        if fits is not None:
            fits.clear()
            fits[key] = fitted

    reranker = None
    if fitted.reranking is not None:
        edges = split.graph.edges[split.test_messages]
        reranker = Reranker(fitted.reranking, CompressedLists.from_pairs(edges, split.graph.num_nodes))

    def score(pairs: Pairs) -> Scores:
        rows = torch.from_numpy(np.ascontiguousarray(pairs)).to(device)
        scores = score_pairs(fitted.model, embeddings, messages, rows)
        return scores if reranker is None else scores + reranker.of_pairs(rows.cpu().numpy())

    block, best = searches(fitted.model, embeddings, split, reranker)
    return Outcome(score, fitted.best_score, spared, block, best, fitted)


def searches(
    model: Model, embeddings: Tensor, split: Split, reranker: Reranker | None = None
) -> tuple[BlockScorer | None, Best | None]:
    """How the targets of a source are ranked: `Outcome.block` and `Outcome.best` of a trained model."""
    block = blocks_of(model, embeddings)
    if reranker is not None and block is not None:
        return _reranked_blocks(split, block, reranker), None
    return block, best_of(model, embeddings)


def best_of(model: Model, embeddings: Tensor) -> Best | None:
    """Exact search with a model's decoder; None for one that looks at more than two rows."""
    if not _reads_two_rows(model):
        return None
    search, rows = ExactSearch(model.decoder), Snapshot.of(embeddings)

    def best(sources: Rows, k: int, excluded: Excluded, pool: Rows | None) -> list[TopK]:
        return search.top_k(rows, sources, k, excluded, pool)

    return best


def blocks_of(model: Model, embeddings: Tensor) -> BlockScorer | None:
    """Scores of some sources with a model's decoder, by its compiled kernel; None for one that looks at more rows."""
    if not _reads_two_rows(model):
        return None
    scorer = DecoderScorer(model.decoder)

    def block(sources: Rows, targets: Rows) -> Scores:
        return np.stack([scorer.scores(embeddings, embeddings[int(source)], targets) for source in sources])

    return block


def _reranked_blocks(split: Split, block: BlockScorer, reranker: Reranker) -> BlockScorer:
    """Scores in the order that users see: the shortlist of new partners reranked, and the others behind it."""
    graph = split.graph
    linked = np.concatenate([graph.find_edges(split.train_targets), graph.find_edges(split.valid_targets)])
    known = graph.with_edges(np.union1d(linked[linked >= 0], split.test_messages))

    def reranked_block(sources: Rows, targets: Rows) -> Scores:
        scores = np.array(block(sources, targets))
        for row, source in zip(scores, sources.tolist(), strict=True):
            old = np.append(linked_rows(known, source), source)
            places = np.minimum(np.searchsorted(targets, old), targets.size - 1)  # targets are ascending
            new = row.copy()
            new[places[targets[places] == old]] = -np.inf
            listed = np.argpartition(-new, SHORTLIST)[:SHORTLIST] if new.size > SHORTLIST else np.arange(new.size)
            listed = listed[np.isfinite(new[listed])]
            starts = np.array([0, listed.size])
            better = row[listed] + reranker.of_candidates(np.array([source]), starts, targets[listed])
            row -= max(0.0, float(row.max() - better.min(initial=np.inf))) + 1.0
            row[listed] = better
        return scores

    return reranked_block


def products(left: NDArray[np.float32], right: NDArray[np.float32] | None = None) -> tuple[Scorer, BlockScorer]:
    """Scores by inner products of (n, d) rows of sources and of targets, the same rows unless two are given."""
    targets = left if right is None else right

    def score(pairs: Pairs) -> Scores:
        blocks = (pairs[at : at + _PAIRS] for at in range(0, len(pairs), _PAIRS))
        parts = [np.einsum("pd,pd->p", left[block[:, 0]], targets[block[:, 1]]) for block in blocks]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)

    def block(sources: Rows, others: Rows) -> Scores:
        return left[sources] @ targets[others].T

    return score, block


def _reads_two_rows(model: Model) -> bool:
    """Whether a score depends on the embeddings of its two nodes alone."""
    return type(model).logits is Model.logits


def merged(first: Overrides, second: Overrides) -> dict[str, dict[str, Any]]:
    """Both overrides, group by group; the second wins."""
    return {group: {**first.get(group, {}), **second.get(group, {})} for group in (*first, *second)}
