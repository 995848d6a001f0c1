"""Negatives as a function of the seed, the step and the edge, whoever draws them."""

from __future__ import annotations

import torch
from torch import Tensor

from yinyan.distributed.shard import EdgeSet, Nodes, Targets
from yinyan.errors import TrainingError
from yinyan.randomness import named_seed
from yinyan.settings import TrainingSettings

__all__ = ["draw_negatives", "draw_validation_negatives"]

_ROUNDS = 24


def draw_negatives(nodes: Nodes, known: EdgeSet, targets: Targets, settings: TrainingSettings, seed: int) -> Tensor:
    """(t, N, 2) pairs that are no known edges; on a directed graph the last of several is the reversed target, if that
    is none."""
    count = settings.loss_negatives
    places = targets.numbers[:, None] * count + torch.arange(count, device=targets.numbers.device)
    sources = targets.pairs[:, :1].expand(-1, count) if settings.loss_sampler == "source" else None
    pairs, wrong = _drawn(nodes, known, places, seed, sources)
    if sources is not None and int(nodes.group.summed(wrong.sum())):  # linked to all nodes: any pair has to do
        chosen = wrong
        others, wrong = _drawn(nodes, known, places, named_seed(seed, "any pair"), None, chosen)
        pairs = torch.where(chosen[..., None], others, pairs)
    if int(nodes.group.summed(wrong.sum())):
        raise TrainingError(f"negatives are too rare to sample ({nodes.count:,} nodes)")
    if nodes.directed and count > 1:
        reverse = targets.pairs.flip(1)
        pairs[:, -1] = torch.where(_is_known(nodes, known, reverse)[:, None], pairs[:, -1], reverse)
    return pairs


def _drawn(
    nodes: Nodes,
    known: EdgeSet,
    places: Tensor,
    seed: int,
    sources: Tensor | None,
    chosen: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Pairs for each of the places, drawn again where they are self pairs or known, and where they still are."""
    wrong = torch.ones_like(places, dtype=torch.bool) if chosen is None else chosen.clone()
    pairs = places.new_zeros(*places.shape, 2)
    for turn in range(_ROUNDS):
        some = places[wrong]
        if sources is None:
            first = nodes.drawn(named_seed(seed, f"first {turn}"), some, 0)
        else:
            first = sources[wrong]
        drawn = torch.stack([first, nodes.drawn(named_seed(seed, f"second {turn}"), some, 1)], dim=1)
        pairs[wrong] = drawn
        is_known = known.contains(drawn) if sources is not None else _is_known(nodes, known, drawn)
        wrong[wrong.clone()] = is_known | (drawn[:, 0] == drawn[:, 1])
        if sources is None and not int(nodes.group.summed(wrong.sum())):
            break
        if sources is not None and not bool(wrong.any()):
            break
    return pairs, wrong


def _is_known(nodes: Nodes, known: EdgeSet, pairs: Tensor) -> Tensor:
    """Which (p, 2) pairs are edges, by asking the owners of their first ends."""
    group = nodes.group
    if group.size == 1:
        return known.contains(pairs)
    owner = torch.searchsorted(nodes.starts, pairs[:, 0].contiguous(), right=True) - 1
    order = owner.argsort(stable=True)
    counts = torch.bincount(owner, minlength=group.size)
    asked = group.exchange_counts(counts).tolist()
    questions = group.exchange(pairs[order], counts.tolist(), pairs.new_empty(sum(asked), 2), asked)
    answers = known.contains(questions).to(torch.uint8)
    found = group.exchange(answers, asked, answers.new_empty(len(pairs)), counts.tolist())
    answer = torch.empty_like(found)
    answer[order] = found
    return answer.bool()


def draw_validation_negatives(nodes: Nodes, known: EdgeSet, count: int, seed: int) -> Tensor:
    """(up to count, 2) different pairs that are edges of no role, the same in all processes."""
    group = nodes.group
    found = torch.empty(0, 2, dtype=torch.long, device=group.device)
    for turn in range(_ROUNDS):
        places = torch.arange(count, device=group.device)
        first, second = (nodes.drawn(named_seed(seed, f"{end} {turn}"), places, end) for end in (0, 1))
        if not nodes.directed and nodes.left is None:
            first, second = torch.minimum(first, second), torch.maximum(first, second)
        pairs = torch.stack([first, second], dim=1)
        wrong = first == second
        own = nodes.owns(first).nonzero()[:, 0]
        wrong[own] |= known.contains(pairs[own])
        found = _distinct(torch.cat([found, pairs[group.summed(wrong.long()) == 0]]), nodes.count)[:count]
        if len(found) == count:
            break
    if not len(found):
        raise TrainingError("the graph is complete: every pair is linked, so there is no link left to predict")
    return found


def _distinct(pairs: Tensor, num_nodes: int) -> Tensor:
    """The pairs without repetitions, in the order of their first places."""
    keys = pairs[:, 0] * num_nodes + pairs[:, 1]
    values, where = keys.unique(return_inverse=True)
    first = torch.full((values.numel(),), keys.numel(), device=keys.device)
    first.scatter_reduce_(0, where, torch.arange(keys.numel(), device=keys.device), "amin")
    return pairs[first.sort().values]
