"""The steps and validations of one process among several."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from yinyan.distributed.exchange import RowExchange
from yinyan.distributed.losses import shared_loss
from yinyan.distributed.negatives import draw_negatives
from yinyan.distributed.prepared import ROLES, Part
from yinyan.distributed.shard import EdgeSet, Nodes, Targets, sharded_messages, target_edges
from yinyan.distributed.validation import Validation
from yinyan.model.encoder import EncoderInput
from yinyan.model.fitted import EpochRecord, our_encoder
from yinyan.model.scoring import Model
from yinyan.randomness import RowDraws, named_seed, uniforms_at
from yinyan.settings import TrainingSettings
from yinyan.training.loop import Course, TrainingState, batch_size_of, refuse_divergence, validated
from yinyan.training.shared_negatives import BLOCK, descend_on_blocks

__all__ = ["SharedCourse"]


class SharedCourse(Course):
    """Steps over batches that follow from the seed, the epoch and the number of each edge.

    So do negatives and dropout. What a step computes depends on the number of processes by the order of sums only.
    """

    def __init__(self, model: Model, nodes: Nodes, part: Part, settings: TrainingSettings, seed: int) -> None:
        self._model, self._nodes, self._group = model, nodes, nodes.group
        self._settings, self._seed = settings, seed
        device = nodes.group.device
        self.features = None if part.features is None else torch.from_numpy(part.features).to(device)
        self.messages = sharded_messages(nodes, part, (ROLES["train"],))
        self._targets = target_edges(nodes, part, "train")
        self._known = EdgeSet(nodes, part, (ROLES["train"],))
        self.num_targets = int(self._group.summed(torch.tensor(len(self._targets), device=device)))
        self._batch_size = batch_size_of(settings, self.num_targets)
        self.length, self.stride = -(-self.num_targets // self._batch_size), 1  # in batches
        self.validation = Validation(nodes, part, settings, self.num_targets, seed)

    def begin(self, state: TrainingState) -> None:
        """Batches come in the order of their numbers."""
        state.order = torch.arange(self.length)

    def gradients(self, state: TrainingState) -> tuple[float, int]:
        """The gradients of a batch: of this process's rows, and of all others summed over the processes."""
        seed = named_seed(self._seed, f"epoch {state.epoch}, step {state.position}")
        batches = named_seed(self._seed, f"batches of epoch {state.epoch}")

        def is_in(edges: Tensor) -> Tensor:
            return uniforms_at(batches, edges, self.length) == state.position

        targets = self._targets.some(is_in(self._targets.edges))
        count = int(self._group.summed(torch.tensor(len(targets), device=self._group.device)))
        if not count:  # of a tiny graph
            return 0.0, 0
        hidden = is_in(self.messages.edges) if self._settings.mask_targets else None
        drops = RowDraws(named_seed(seed, "dropout of nodes"), self._nodes.own)
        y = self._model.encoder(self.features, self.messages, drops=drops, hidden=hidden)
        shared = self._settings.loss_sampler == "shared"
        loss = (self._on_blocks if shared else self._on_pairs)(y, targets, count, seed)
        self._sum_gradients()
        total = self._group.summed(torch.tensor(loss, dtype=torch.float64, device=self._group.device))
        return float(total), count

    def _on_pairs(self, y: Tensor, targets: Targets, count: int, seed: int) -> float:
        """Each edge against negatives of its own."""
        negatives = draw_negatives(self._nodes, self._known, targets, self._settings, named_seed(seed, "negatives"))
        exchange = RowExchange(self._group, self._nodes.starts, torch.cat([targets.pairs, negatives.view(-1, 2)]))
        rows = exchange.fetched(y, self._model.decoder.size)
        number = targets.numbers
        of_negatives = number[:, None] * negatives.shape[1] + torch.arange(negatives.shape[1], device=number.device)
        positive, negative = (
            self._model.logits(
                *(rows, exchange.places(pairs), self.messages),
                drops=RowDraws(named_seed(seed, f"dropout of {what}"), numbers),
            )
            for what, pairs, numbers in (("edges", targets.pairs, number), ("negatives", negatives, of_negatives))
        )
        loss = shared_loss(self._group, self._settings.loss, positive, negative, count)
        (loss + 0 * rows[:1, :1].sum()).backward()  # also of a process without an edge in the batch
        return float(loss.detach())

    def _on_blocks(self, y: Tensor, targets: Targets, count: int, seed: int) -> float:
        """Blocks of edges against negatives that they share."""
        num_blocks = -(-self._batch_size // BLOCK)
        block_of = uniforms_at(named_seed(seed, "blocks"), targets.numbers, num_blocks)
        turned = (named_seed(seed, "turns") + torch.arange(num_blocks)) % 2 == 1
        if self._nodes.directed:
            turned[:] = False
        negatives = self._shared_negatives(turned, named_seed(seed, "negatives"))
        exchange = RowExchange(self._group, self._nodes.starts, torch.cat([targets.pairs.view(-1), negatives.view(-1)]))

        def blocks() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
            for block in range(num_blocks):
                pairs = exchange.places(targets.pairs[block_of == block])
                pairs = pairs.flip(1) if turned[block] else pairs
                if len(pairs):
                    yield pairs[:, 0].contiguous(), pairs[:, 1].contiguous(), exchange.places(negatives[block])

        rows = exchange.fetched(y, self._model.decoder.size)
        return descend_on_blocks(self._model, rows, blocks(), count, self._settings.loss, None)

    def _shared_negatives(self, turned: Tensor, seed: int) -> Tensor:
        """(blocks, N) nodes that each block's edges are ranked against, of the side of their targets."""
        count = self._settings.loss_negatives
        places = torch.arange(turned.numel() * count, device=self._group.device).view(-1, count)
        left, right = (self._nodes.drawn(named_seed(seed, f"side {side}"), places, side) for side in (0, 1))
        return torch.where(turned.to(left.device)[:, None], left, right)

    def _sum_gradients(self) -> None:
        """Sum the gradients of weights that all processes hold; one that no process has a gradient for keeps none."""
        weights = [weight for weight, is_own in self._weights() if not is_own]
        has = torch.tensor([float(weight.grad is not None) for weight in weights], device=self._group.device)
        parts = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
        flat = self._group.summed(torch.cat([has, *(part.reshape(-1) for part in parts)]))
        sizes = [weight.numel() for weight in weights]
        for weight, some, number in zip(weights, flat[len(sizes) :].split(sizes), flat[: len(sizes)], strict=True):
            weight.grad = some.view_as(weight) if number else None

    def _weights(self) -> Iterator[tuple[nn.Parameter, bool]]:
        """The weights, and whether they are rows of this process alone."""
        table = our_encoder(self._model).base.table
        return ((weight, weight is table) for weight in self._model.parameters())

    def clip(self, norm: float) -> None:
        """Scale gradients by the norm of all of them, whoever holds them."""
        squares = [torch.zeros(2, dtype=torch.float64, device=self._group.device)]
        for weight, is_own in self._weights():
            if weight.grad is not None:
                square = weight.grad.double().square().sum() if not is_own else weight.grad.norm().double().square()
                squares.append(torch.stack([square * (not is_own), square * is_own]))
        shared, own = torch.stack(squares).sum(0)
        total = float((shared + self._group.summed(own)).sqrt())
        scale = min(1.0, norm / (total + 1e-6))
        for weight, _ in self._weights():
            if weight.grad is not None:
                weight.grad.mul_(scale)

    @torch.no_grad()
    def validate(self, record: EpochRecord) -> EpochRecord:
        """The figures of the validation edges of all processes."""
        y, energies = self._model.encoder.watched(EncoderInput(self.features, self.messages))
        if self._settings.refuse_runaway:
            refuse_divergence(energies)
        return validated(self._model, self.validation.scores(self._model, y, self.messages), record, self._settings)
