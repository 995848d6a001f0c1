"""Steps and validations of a training that asks for both ends of each triple among all nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.answer_ranking import rank_answers
from yinyan.model.encoder import EncoderInput
from yinyan.model.fitted import EpochRecord
from yinyan.model.relation_decoder import RelationModel
from yinyan.model.relation_vectors import RelationVectors
from yinyan.randomness import Streams
from yinyan.settings import TrainingSettings
from yinyan.training.answers import descend_on_answers, questions_of
from yinyan.training.loop import TrainingState
from yinyan.training.past import marked
from yinyan.training.typed_course import TypedCourse
from yinyan.training.typed_data import TypedData

__all__ = ["AnswerCourse"]

_TOGETHER = 20  # questions with the same query that a step gets at once: one query serves them, and hubs are spread
_RANKED = 5_000  # validation triples that choose the epoch

Rows = NDArray[np.int64]


class AnswerCourse(TypedCourse):
    """The course of one process: both ends of all triples, questions with the same query next to each other."""

    def __init__(self, model: RelationModel, data: TypedData, settings: TrainingSettings, streams: Streams) -> None:
        super().__init__(model, data, settings, streams)
        if settings.loss != "infonce":
            raise SettingsError(
                f"training.loss: with relations and loss_sampler = {settings.loss_sampler!r} it needs to be 'infonce' "
                f"(got {settings.loss!r}; use loss = 'infonce', or another loss_sampler)"
            )
        if not isinstance(model.relations, RelationVectors):
            raise SettingsError(
                f"training.loss_sampler: {settings.loss_sampler!r} with relations needs decoder.kind = 'complex', "
                "whose scores are one product of two matrices (or use 'global' or 'source')"
            )
        self._vectors = model.relations
        triples = data.targets.cpu()
        self.num_targets = self.length = 2 * len(triples)
        self._groups = _same_queries(triples)
        chosen = np.random.default_rng(0).permutation(len(data.valid_links))[:_RANKED]
        self._ranked = data.valid_links.cpu().numpy()[np.sort(chosen)]
        known = torch.cat([data.known.triples, data.valid_links]).cpu().numpy()
        either = np.array([space.is_within and not space.directed for space in data.known.spaces])[known[:, 2]]
        self._known = np.concatenate([known, known[either][:, [1, 0, 2]]])

    def begin(self, state: TrainingState) -> None:
        """An order of the questions: some with the same query, then others."""
        generator = self._streams["batches"]
        shuffled = torch.randperm(self.length, generator=generator, device=generator.device)
        groups = self._groups.to(shuffled.device)[shuffled]
        order = torch.argsort(groups, stable=True)
        shuffled, groups = shuffled[order], groups[order]
        starts = torch.searchsorted(groups, groups)
        place = torch.arange(self.length, device=groups.device) - starts
        parts = (groups * self.length + place // _TOGETHER).unique(return_inverse=True)[1]
        turn = torch.randperm(int(parts[-1]) + 1, generator=generator, device=generator.device)
        state.order = shuffled[torch.argsort(turn[parts], stable=True)]

    def gradients(self, state: TrainingState) -> tuple[float, int]:
        """Hide the triples of the step from the messages, embed all nodes, and answer."""
        batch = self.batch(state)
        data, settings, streams = self._data, self._settings, self._streams
        hidden = None
        if settings.mask_targets and self._model.encoder.settings.num_steps:  # type: ignore[union-attr]
            hidden = marked(data.messages, data.pair_of_target[batch % len(data.targets)])
        features: Any = data.features
        y = self._model.encoder(
            features, data.messages, negatives=streams["message_negatives"], drops=streams["dropout"], hidden=hidden
        )
        questions = questions_of(data.targets, batch)
        loss = descend_on_answers(
            *(self._vectors, y, questions, data.known.limits, settings),
            *(streams["loss_negatives"], streams["dropout"]),
        )
        return loss, batch.numel()

    @torch.no_grad()
    def validate(self, record: EpochRecord) -> EpochRecord:
        """The record with the filtered MRR of validation triples among all nodes, which 'mrr' chooses by."""
        found = super().validate(record)
        if not len(self._ranked):
            return found
        data = self._data
        features: Any = data.features
        y = self._model.encoder.embeddings(
            EncoderInput(features, data.valid_messages, self._streams["message_negatives"])
        )
        limits = data.known.limits.cpu()
        ranked = rank_answers(self._vectors, y, self._ranked, self._known, limits).means["mrr"]
        return replace(found, mrr=ranked, score=ranked if self._settings.selection == "mrr" else found.score)


def _same_queries(triples: Tensor) -> Tensor:
    """(2t,) a number for each question, the same for those of one query."""
    numbers: Tensor = questions_of(triples, torch.arange(2 * len(triples))).queries.unique(return_inverse=True)[1]
    return numbers
