"""Steps and validations of a training on relations, as the loop asks for them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from yinyan.model.encoder import EncoderInput
from yinyan.model.fitted import EpochRecord
from yinyan.model.losses import LOSSES
from yinyan.model.relation_decoder import RelationModel
from yinyan.model.scoring import score_pairs
from yinyan.randomness import Streams
from yinyan.sampling import draw_triples
from yinyan.settings import TrainingSettings
from yinyan.training.data import draw_loss_negatives
from yinyan.training.loop import (
    BatchCourse,
    TrainingState,
    ValidationScores,
    batch_size_of,
    refuse_divergence,
    validated,
)
from yinyan.training.past import marked
from yinyan.training.typed_data import TypedData

__all__ = ["TypedCourse"]

_SURE = -30.0  # the logit of a pair that has no negative to be compared with


class TypedCourse(BatchCourse):
    """The course of one process: triples in batches that mix the predicted relations."""

    def __init__(self, model: RelationModel, data: TypedData, settings: TrainingSettings, streams: Streams) -> None:
        stride = batch_size_of(settings, data.targets.shape[0])
        super().__init__(model, data.targets.shape[0], data.targets.device, streams, stride)
        self._data, self._settings = data, settings

    def gradients(self, state: TrainingState) -> tuple[float, int]:
        """Hide the batch from the messages, embed all nodes, score the batch against fresh negatives."""
        batch = self.batch(state)
        data, settings, streams = self._data, self._settings, self._streams
        if data.alone is None:  # relation by relation, as they are decoded
            batch = batch[torch.argsort(data.targets[batch, 2], stable=True)]
        hidden = marked(data.messages, data.pair_of_target[batch]) if settings.mask_targets else None
        drops, links = streams["dropout"], data.targets[batch]
        features: Any = data.features
        y = self._model.encoder(
            features, data.messages, negatives=streams["message_negatives"], drops=drops, hidden=hidden
        )
        negatives, lacking = self._negatives(links)
        own, others = (
            self._model.logits(y, some, data.messages, hidden=hidden, drops=drops) for some in (links, negatives)
        )
        if lacking is not None:
            others = others.masked_fill(lacking, _SURE)
        loss = LOSSES[settings.loss](own, others)
        loss.backward()
        return float(loss.detach()), batch.numel()

    @torch.no_grad()
    def validate(self, record: EpochRecord) -> EpochRecord:
        """The record with the figures of the validation edges of all predicted relations together."""
        data, settings, messages = self._data, self._settings, self._data.valid_messages
        features: Any = data.features
        given = EncoderInput(features, messages, self._streams["message_negatives"])
        y, energies = self._model.encoder.watched(given)
        if settings.refuse_runaway:
            refuse_divergence(energies)
        positive, negative = (
            score_pairs(self._model, y, messages, some) for some in (data.valid_links, data.valid_non_links)
        )
        listed = score_pairs(self._model, y, messages, data.valid_lists) if settings.selection == "ranking" else None
        scores = ValidationScores(positive, negative, listed, data.is_rival.cpu().numpy())
        return validated(self._model, scores, record, settings)

    def _negatives(self, links: Tensor) -> tuple[Tensor, Tensor | None]:
        """(b, N, 3) negatives, and which of them are none."""
        data, settings, generator = self._data, self._settings, self._streams["loss_negatives"]
        if data.alone is not None:
            known, rows, places = data.alone
            drawn = rows[draw_loss_negatives(known, places[links[:, :2]], settings, generator)]
            return torch.cat([drawn, torch.zeros_like(drawn[..., :1])], dim=-1), None
        keep_end = settings.loss_sampler == "source"
        return draw_triples(data.known, links, settings.loss_negatives, generator, keep_end=keep_end)
