"""The loss of questions: each end of a triple is asked for, among all nodes of its type or a sample that is shared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.model.descent import give_up
from yinyan.model.relation_vectors import RelationVectors
from yinyan.randomness import uniform_nodes
from yinyan.settings import TrainingSettings

__all__ = ["Questions", "descend_on_answers", "questions_of"]

_MOST_ROWS = 1 << 40
_BLOCK_LOGITS = 1 << 23  # held at a time: 32 MB


class Questions(NamedTuple):
    """Ends that are asked for, each with what is known."""

    given: Tensor  # (b,) row of the known end
    relation: Tensor  # (b,)
    backwards: Tensor  # (b,) whether a source is asked for
    answer: Tensor  # (b,) row of the end that is asked for

    @property
    def queries(self) -> Tensor:
        """(b,) a number for each, the same for those with the same known end and relation."""
        return (self.relation * 2 + self.backwards.long()) * _MOST_ROWS + self.given

    def take(self, places: Tensor) -> Questions:
        """Some of them."""
        return Questions(*(part[places] for part in self))


def questions_of(triples: Tensor, asked: Tensor) -> Questions:
    """The questions of numbers below 2t: the target of each of (t, 3) triples, then the source of each."""
    rows, backwards = asked % len(triples), asked >= len(triples)
    source, target, relation = triples[rows].unbind(1)
    return Questions(
        torch.where(backwards, target, source), relation, backwards, torch.where(backwards, source, target)
    )


def descend_on_answers(
    vectors: RelationVectors,
    y: Tensor,
    questions: Questions,
    limits: Tensor,
    settings: TrainingSettings,
    generator: torch.Generator,
    drops: torch.Generator | None,
) -> float:
    """Add the gradients of the loss of a step to the weights; returns the loss.

    The loss of a question is the cross-entropy of its answer among all nodes of the right type; with `loss_sampler` =
    'shared' the step's `loss_negatives`, drawn uniformly, stand for all others. Questions with the same known end and
    relation are one query. `limits` (R, 4) are the first row and the number of sources and of targets of each
    relation. The memory of y may be used for its gradient, unless y is a weight itself: then its gradient is sparse
    where the loss touches few rows.
    """
    rows, total, count = y.detach(), 0.0, questions.given.numel()
    gradient = _Gradient(rows)
    for some, first, size in _by_type(questions, limits):
        pool = None
        if settings.loss_sampler == "shared":
            pool = first + uniform_nodes(size, settings.loss_negatives, generator, y.device)
        for block in _blocks(some, size if pool is None else len(pool)):
            total += _descend_on_block(vectors, rows, gradient, block, (first, size), pool, count, drops)
    if settings.n3:
        total += _penalise(vectors, rows, gradient, questions, settings.n3 / count)
    if y.is_leaf and gradient.is_sparse and settings.optimizer == "adagrad" and not settings.clip_norm:
        y.grad = gradient.sparse()
        return total
    if not y.is_leaf:
        give_up(y)
    y.backward(gradient.dense())
    return total


class _Gradient:
    """The gradient of all rows, of which a step may touch a few."""

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows
        self._parts: list[tuple[Tensor, Tensor]] = []  # places and what is added there
        self._spans: list[tuple[int, Tensor]] = []  # first rows and what is added from there on

    def add(self, places: Tensor, part: Tensor) -> None:
        """Add to some rows, which may repeat."""
        self._parts.append((places, part))

    def add_span(self, first: int, part: Tensor) -> None:
        """Add to rows next to each other."""
        self._spans.append((first, part))

    @property
    def is_sparse(self) -> bool:
        """Whether less than half of the rows are touched."""
        return not self._spans and 2 * sum(len(places) for places, _ in self._parts) < len(self._rows)

    def dense(self) -> Tensor:
        """All rows."""
        total = torch.zeros_like(self._rows)
        for first, part in self._spans:
            total[first : first + len(part)] += part
        for places, part in self._parts:
            total.index_add_(0, places, part)
        return total

    def sparse(self) -> Tensor:
        """The rows that were touched, each once, in order."""
        places, which = torch.cat([places for places, _ in self._parts]).unique(return_inverse=True)
        values = self._rows.new_zeros(len(places), self._rows.shape[1])
        values.index_add_(0, which, torch.cat([part for _, part in self._parts]))
        return torch.sparse_coo_tensor(
            places[None], values, self._rows.shape, is_coalesced=True, check_invariants=False
        )


class _Block(NamedTuple):
    """Queries, and the questions that each stands for."""

    queries: Tensor  # (q, 3) known end, relation, whether a source is asked for
    which: Tensor  # (b,) the query of each question
    answers: Tensor  # (b,) rows


def _descend_on_block(
    vectors: RelationVectors,
    rows: Tensor,
    gradient: _Gradient,
    block: _Block,
    span: tuple[int, int],
    pool: Tensor | None,
    count: int,
    drops: torch.Generator | None,
) -> float:
    """Add the gradients in the rows to `gradient`, and those in the vectors to them."""
    first, size = span
    known, relation, backwards = block.queries.unbind(1)
    # gathered by hand: the gradient of a gather would be as large as all rows, for each block anew
    given = rows.index_select(0, known).requires_grad_()
    far = (rows[first : first + size] if pool is None else rows.index_select(0, pool)).requires_grad_()
    queries = vectors.queries(given, relation, backwards.bool(), drops)
    if pool is None:
        loss = _CrossEntropy.apply(vectors.block(queries, far), block.which, block.answers - first, count)
        loss.backward()
        gradient.add_span(first, _grad(far))
    else:
        answers = rows.index_select(0, block.answers).requires_grad_()
        own = vectors.paired(queries.index_select(0, block.which), answers)
        loss = _sampled(vectors.block(queries, far), own, block, pool, size) / count
        loss.backward()
        gradient.add(pool, _grad(far))
        gradient.add(block.answers, _grad(answers))
    gradient.add(known, _grad(given))
    return float(loss.detach())


def _sampled(logits: Tensor, own: Tensor, block: _Block, pool: Tensor, size: int) -> Tensor:
    """The sum of the cross-entropies of answers with logits `own`; (q, k) logits of a sample stand for the others.

    An answer that was drawn is no negative of its own question.
    """
    others = logits.logsumexp(1)[block.which]
    number = pool.new_full(own.shape, len(pool))
    order = pool.argsort()
    place = torch.searchsorted(pool[order], block.answers).clamp(max=len(pool) - 1)
    met = (pool[order][place] == block.answers).nonzero()[:, 0]
    if met.numel():
        same = pool[None] == block.answers[met, None]
        others = others.index_copy(0, met, logits[block.which[met]].masked_fill(same, -torch.inf).logsumexp(1))
        number[met] -= same.sum(1)
    others = others + ((size - 1) / number.clamp(min=1).to(own)).log()
    return F.softplus(others - own).sum()


def _grad(rows: Tensor) -> Tensor:
    return torch.zeros_like(rows) if rows.grad is None else rows.grad


class _CrossEntropy(torch.autograd.Function):
    """Σ of -log softmax(logits of its query)[its answer] over questions, divided by a count."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, which: Tensor, columns: Tensor, count: int) -> Tensor:
        chances = logits.softmax(1)
        shift = logits.amax(1) - chances.amax(1).log()  # the logarithm of the sum: the largest chance is not small
        ctx.save_for_backward(chances, which, columns)
        ctx.count = count
        return (shift[which] - logits[which, columns]).sum() / count

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None, None]:
        chances, which, columns = ctx.saved_tensors
        times = torch.bincount(which, minlength=len(chances)).to(chances)
        chances *= times[:, None]  # nobody else reads them
        chances.view(-1).index_add_(
            0, which * chances.shape[1] + columns, -torch.ones_like(columns, dtype=chances.dtype)
        )
        return chances.mul_(slope / ctx.count), None, None, None


def _penalise(
    vectors: RelationVectors, rows: Tensor, gradient: _Gradient, questions: Questions, weight: float
) -> float:
    """The sum of third powers of both ends and of the vector of each question, with its gradients."""
    ends, times = torch.cat([questions.given, questions.answer]).unique(return_counts=True)
    own = rows.index_select(0, ends).requires_grad_()
    used = vectors.vectors(questions.relation, questions.backwards)
    loss = weight * ((vectors.cubes(own) * times).sum() + vectors.cubes(used).sum())
    loss.backward()
    if own.grad is not None:
        gradient.add(ends, own.grad)
    return float(loss.detach())


def _by_type(questions: Questions, limits: Tensor) -> Iterator[tuple[Questions, int, int]]:
    """The questions whose answers are of one type, with the first row and the number of its nodes."""
    spans = torch.where(questions.backwards[:, None], limits[questions.relation, :2], limits[questions.relation, 2:])
    kinds, kind_of = spans.unique(dim=0, return_inverse=True)
    for number, (first, size) in enumerate(kinds.tolist()):
        yield (questions if len(kinds) == 1 else questions.take((kind_of == number).nonzero()[:, 0])), first, size


def _blocks(questions: Questions, num_candidates: int) -> Iterator[_Block]:
    """Distinct queries, so many at a time that their logits stay small."""
    keys, which = questions.queries.unique(return_inverse=True)
    ways = keys // _MOST_ROWS
    queries = torch.stack([keys % _MOST_ROWS, ways // 2, ways % 2], dim=1)
    order = torch.argsort(which)
    which, answers = which[order], questions.answer[order]
    step = max(1, _BLOCK_LOGITS // max(1, num_candidates))
    for first in range(0, len(queries), step):
        part = queries[first : first + step]
        begin, end = torch.searchsorted(which, torch.tensor([first, first + len(part)], device=which.device)).tolist()
        yield _Block(part, which[begin:end] - first, answers[begin:end])
