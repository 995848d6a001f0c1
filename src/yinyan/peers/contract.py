"""What every method of the harness is: a function from a task to scores of pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
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
from yinyan.retrieval.ranks import Listing, ranks_of
from yinyan.retrieval.scorer import Scorer as DecoderScorer
from yinyan.retrieval.shards import Search
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
    *("Best", "BlockScorer", "Fits", "Method", "Outcome", "Overrides", "Ranks", "Scorer", "Task"),
    *("merged", "products", "searches", "trained"),
]

Pairs = NDArray[np.int64]
Rows = NDArray[np.int64]
Scores = NDArray[np.floating[Any]]
Overrides = Mapping[str, Mapping[str, Any]]
Scorer = Callable[[Pairs], Scores]  # (p, 2) pairs of node rows -> (p,) scores, the larger the likelier
BlockScorer = Callable[[Rows, Rows], Scores]  # (b,) sources, (t,) targets -> (b, t) scores
Best = Callable[[Rows, int, Excluded, Rows | None], list[TopK]]  # sources, k, what each leaves out, candidates
# sources, the relevant targets of each, what else is no candidate of it, candidates -> ascending ranks of the relevant
Ranks = Callable[[Rows, Sequence[Rows], Sequence[Rows], Rows | None], list[Rows]]
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
    ranks: Ranks | None = None  # ranks among all candidates, where these need not all be scored here


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

    best, ranks = searches(fitted.model, embeddings, split, reranker)
    return Outcome(score, fitted.best_score, spared, best=best, fitted=fitted, ranks=ranks)


def searches(
    model: Model,
    embeddings: Tensor,
    split: Split | None = None,
    reranker: Reranker | None = None,
    search: Search | None = None,
) -> tuple[Best | None, Ranks | None]:
    """How the targets of a source are ranked: `Outcome.best` and `Outcome.ranks` of a trained model.

    Both are None for a model that looks at more than two rows, and the first for one that is reranked: its shortlist
    stands first, in the order that users see. The `search` is exact; it is that of this process unless given.
    """
    if not _reads_two_rows(model):
        return None, None
    rows, found = Snapshot.of(embeddings), search or ExactSearch(model.decoder)
    scorer, listing = DecoderScorer(model.decoder), None
    if reranker is not None and split is not None:
        graph = split.graph
        linked = np.concatenate([graph.find_edges(split.train_targets), graph.find_edges(split.valid_targets)])
        known = graph.with_edges(np.union1d(linked[linked >= 0], split.test_messages))
        listing = Listing(reranker, partial(linked_rows, known))

    def best(sources: Rows, k: int, excluded: Excluded, pool: Rows | None) -> list[TopK]:
        return found.top_k(rows, sources, k, excluded, pool)

    def ranks(sources: Rows, relevant: Sequence[Rows], barred: Sequence[Rows], pool: Rows | None) -> list[Rows]:
        return ranks_of(found, scorer, rows, sources, relevant, barred, pool, listing)

    return None if listing is not None else best, ranks


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
