"""Knowledge distillation: MLPs that read features only, trained to score as a graph neural network does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.model.fitted import build_model, embed_graph
from yinyan.model.losses import LOSSES
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model, Pairs
from yinyan.model.tensors import feature_tensor, message_graph, pick_device
from yinyan.peers.contract import Method, Outcome, Task, merged, trained
from yinyan.peers.gnn import sage
from yinyan.peers.mlp import OWN, without_graph
from yinyan.peers.ours import yinyan
from yinyan.peers.walks import WalkGraph, nearby
from yinyan.randomness import drawn_seed
from yinyan.settings import Settings
from yinyan.training.hooks import Hooks

__all__ = [
    *("Student", "Teacher", "Teaching", "context_divergence", "distilled", "ranking_loss"),
    *("distilled_logits", "distilled_representations", "llp"),
    *("distilled_logits_from_yinyan", "distilled_representations_from_yinyan", "llp_from_yinyan"),
]


@dataclass(frozen=True)
class Teacher:
    """The embeddings and the decoder of a trained model."""

    rows: Tensor  # (n, d)
    decoder: Decoder

    @torch.no_grad()
    def logits(self, pairs: Tensor) -> Tensor:
        """(...) logits of (..., 2) pairs."""
        return self.decoder.of_pairs(self.rows, pairs)


@dataclass(frozen=True)
class Teaching:
    """Weights of the terms of a student's loss, and the context of an anchor."""

    edges: float = 1.0  # training loss of edges and negatives
    logits: float = 0.0  # squared difference of the probabilities of the same pairs
    representations: float = 0.0  # 1 - cosine of the embeddings of student and teacher
    distribution: float = 0.0  # divergence of the scores of an anchor and its context (LLP)
    ranking: float = 0.0  # order of these scores (LLP)
    margin: float = 0.1  # between two scores that are ranked, as probabilities
    walks: int = 3  # per anchor
    hops: int = 2  # nodes of a walk
    random: int = 1  # uniform nodes of the context per node of a walk

    def __post_init__(self) -> None:
        least = {"walks": 1, "hops": 1}
        for name, value in vars(self).items():
            if value < least.get(name, 0):
                raise SettingsError(f"'{name}' needs to be at least {least.get(name, 0)} (got {value})")

    @property
    def has_context(self) -> bool:
        """Whether anchors and their contexts are scored."""
        return self.distribution > 0 or self.ranking > 0


class Student(Model):
    """A model whose loss compares it with a teacher, whose embeddings are computed once."""

    def __init__(self, own: Model, teacher: Teacher, teaching: Teaching, walked: WalkGraph) -> None:
        super().__init__(own.encoder, own.decoder)
        self.teacher, self.teaching, self.walked = teacher, teaching, walked  # none of them is learned

    def loss(
        self,
        pairs: Pairs,
        messages: MessageGraph,
        kind: str,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """The weighted terms; those of weight 0 are not computed."""
        links, non_links = (
            self.logits(pairs.rows, some, messages, hidden=hidden, drops=drops)
            for some in (pairs.links, pairs.non_links)
        )
        how, teacher = self.teaching, self.teacher
        total = how.edges * LOSSES[kind](links, non_links)
        if how.logits:
            both = torch.cat([links, non_links.flatten()])
            wanted = torch.cat([teacher.logits(pairs.links), teacher.logits(pairs.non_links).flatten()])
            total = total + how.logits * F.mse_loss(both.sigmoid(), wanted.sigmoid())
        if how.representations:
            apart = 1 - F.cosine_similarity(pairs.rows, teacher.rows, dim=-1)
            total = total + how.representations * apart.mean()
        if how.has_context:
            around = self.contexts(len(pairs.links) / max(1, len(messages.pairs)), drops).to(pairs.rows.device)
            own = self.logits(pairs.rows, around, messages, hidden=hidden, drops=drops).sigmoid()
            wanted = teacher.logits(around).sigmoid()
            total = total + how.distribution * context_divergence(own, wanted)
            total = total + how.ranking * ranking_loss(own, wanted, how.margin)
        return total

    def contexts(self, share: float, generator: torch.Generator | None) -> Tensor:
        """(a, c, 2) a share of the nodes as anchors, each with the nodes of its walks and with uniform nodes."""
        if generator is None:
            raise ValueError("contexts need a generator")
        n, how = self.walked.num_nodes, self.teaching
        rng = np.random.default_rng(drawn_seed(generator))
        anchors = rng.permutation(n)[: max(1, round(min(1.0, share) * n))]
        starts = np.repeat(anchors, how.walks)
        near = nearby(self.walked, starts, how.hops, rng).reshape(anchors.size, -1)
        others = rng.integers(n, size=(anchors.size, near.shape[1] * how.random))
        context = np.concatenate([near, others], axis=1)
        return torch.from_numpy(np.stack([np.broadcast_to(anchors[:, None], context.shape), context], axis=-1))


def context_divergence(own: Tensor, wanted: Tensor) -> Tensor:
    """KL(softmax(wanted) ‖ softmax(own)) of (a, c) scores of anchors and their contexts, mean over anchors."""
    return F.kl_div(own.log_softmax(-1), wanted.softmax(-1), reduction="sum") / len(own)


def ranking_loss(own: Tensor, wanted: Tensor, margin: float) -> Tensor:
    """max(0, margin - r (own_i - own_j)), mean over anchors and pairs i < j of their contexts.

    r is the sign of wanted_i - wanted_j, and 0 where that is within the margin.
    """
    i, j = torch.triu_indices(own.shape[1], own.shape[1], 1, device=own.device)
    gap = wanted[:, i] - wanted[:, j]
    order = gap.sign() * (gap.abs() > margin)
    return F.relu(margin - order * (own[:, i] - own[:, j])).mean()


def distilled(task: Task, teacher: Method, teaching: Teaching) -> Outcome:
    """A student of a method that our loop trains, on the same split; the task's settings hold for both.

    Embeddings of the teacher are of the training messages. On a graph without features the student learns a vector per
    node.
    """
    graph = task.split.graph
    taught = _teacher(task, teacher)

    def build(settings: Settings, graph: Graph) -> Model:
        if settings.training.loss_sampler == "shared":
            raise SettingsError(
                "training.loss_sampler: a student is compared with its teacher pair by pair, which 'shared' does not "
                "allow (use 'global' or 'source')"
            )
        chosen = task.split.train_messages
        weights = None if graph.weights is None else graph.weights[chosen]
        walked = WalkGraph.from_links(graph.edges[chosen], graph.num_nodes, weights)
        return Student(build_model(settings, graph, task.seed), taught, teaching, walked)

    own = merged(OWN, {"encoder": {"num_layers": 2}})
    return trained(task, build, own, fixed=without_graph(graph))


def _teacher(task: Task, teacher: Method) -> Teacher:
    """The trained teacher. A checkpoint of the task is the student's."""
    hooks = Hooks(should_stop=task.hooks.should_stop)
    fitted = teacher(replace(task, hooks=hooks, fits=None)).fitted
    if fitted is None:
        raise ValueError("a teacher is a method that our loop trains")
    split, device = task.split, pick_device(task.device)
    messages = message_graph(split.graph, split.train_messages, device)
    features = feature_tensor(split.graph.features, device)
    rows = embed_graph(fitted.model, features, messages, fitted.settings, task.seed)
    return Teacher(rows, fitted.model.decoder)


def _method(teacher: Method, teaching: Teaching) -> Callable[[Task], Outcome]:
    return lambda task: distilled(task, teacher, teaching)


_LOGITS = Teaching(logits=10.0)  # 10 validates better than 1 on Cora
_REPRESENTATIONS = Teaching(representations=1.0)
_LLP = Teaching(edges=0.1, distribution=1.0, ranking=1.0)  # defaults of the released code

distilled_logits = _method(sage, _LOGITS)
distilled_representations = _method(sage, _REPRESENTATIONS)
llp = _method(sage, _LLP)
distilled_logits_from_yinyan = _method(yinyan, _LOGITS)
distilled_representations_from_yinyan = _method(yinyan, _REPRESENTATIONS)
llp_from_yinyan = _method(yinyan, _LLP)
