"""From trained weights to a model: every process embeds and writes its own rows, the first one makes the model of them.

No process holds all embeddings, rows of the table or features in its memory: the first one maps the files of all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.distributed.course import SharedCourse
from yinyan.distributed.group import Group
from yinyan.distributed.prepared import ROLES, Manifest, Part, read_ids
from yinyan.distributed.row_files import RowFiles
from yinyan.distributed.shard import Nodes, ShardedMessages, sharded_messages
from yinyan.errors import DivergedError
from yinyan.graph import Graph
from yinyan.graph.feature_matrix import is_sparse, sparse_from_entries
from yinyan.graph.features import Features, SparseFeatures
from yinyan.graph.ids import Ids
from yinyan.model.calibration import Method
from yinyan.model.encoder import EncoderInput
from yinyan.model.fitted import Fitted, empty_model, our_encoder
from yinyan.model.inference import is_finite
from yinyan.model.scoring import Model
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.store.parts import WrittenRows
from yinyan.training.fit import ListsOf, calibrated, recommended_lists, validation_metrics
from yinyan.training.hooks import Hooks
from yinyan.training.loop import TrainingState, ValidationScores

__all__ = ["Finished", "Trained", "finished", "whole_model"]

Rows = NDArray[np.int64]


class Finished(NamedTuple):
    """A model, and the files in which rows of its arrays lie already."""

    fitted: Fitted
    written: Mapping[str, Sequence[WrittenRows]]


@dataclass(frozen=True)
class Trained:
    """What a process holds at the end of the training: its own rows, and what all of them share."""

    group: Group
    manifest: Manifest
    nodes: Nodes
    part: Part
    model: Model
    course: SharedCourse
    settings: Settings
    state: TrainingState
    seed: int

    @property
    def message_roles(self) -> tuple[int, ...]:
        """The roles of edges that pass messages when the model is used."""
        with_valid = self.manifest.protocol == "holdout"
        return (ROLES["train"], ROLES["valid"]) if with_valid else (ROLES["train"],)

    @property
    def table_name(self) -> str | None:
        """The name of the table of embeddings among the weights."""
        if our_encoder(self.model).base.table is None:
            return None
        return next(name for name in self.model.state_dict() if name.endswith("base.table"))


@torch.no_grad()
def finished(
    trained: Trained,
    files: RowFiles,
    *,
    calibration: Method,
    hooks: Hooks,
    lists: ListsOf | None,
    reasons: tuple[str, ...],
    started: float,
) -> Finished | None:
    """The model in the first process; None in the others."""
    scores = _write_embeddings(trained, files)
    _write_features(trained, files)
    num_tested = _write_edges(trained, files)
    energy = trained.model.encoder.energy_trace(EncoderInput(trained.course.features, _messages(trained)))
    if not trained.group.is_first:
        return None
    graph = _graph(trained, files)
    split = _split(trained, graph, files)
    table = None if trained.table_name is None else torch.from_numpy(files.mapped(trained.table_name))
    model = whole_model(trained.model, trained.settings, graph, table)
    valid = scores.positive, scores.negative
    num_missing = num_tested or len(split.valid_targets)
    valid_rows = torch.from_numpy(files.mapped("valid_embeddings"))
    known = np.arange(graph.num_edges)
    found, reranking = recommended_lists(lists, model, valid_rows, split, known, num_missing, hooks)
    state = trained.state
    fitted = Fitted(
        graph=graph,
        message_edges=split.test_messages,
        settings=trained.settings,
        seed=trained.seed,
        model=model,
        embeddings=torch.from_numpy(files.mapped("embeddings")),
        calibration=calibrated(valid, found, calibration, graph, num_missing),
        metrics=validation_metrics(*valid),
        protocol=split.protocol,
        split_text=split.describe(),
        reasons=reasons,
        history=tuple(state.history),
        best_epoch=state.best_epoch,
        best_score=state.best_score,
        energy=tuple(energy),
        seconds=time.perf_counter() - started,
        valid_scores=valid,
        valid_lists=found,
        reranking=reranking,
    )
    return Finished(fitted, files.files)


def whole_model(model: Model, settings: Settings, graph: Graph, table: Tensor | None) -> Model:
    """The model on the CPU with the rows of all processes, in the order of the graph."""
    whole = empty_model(settings, graph)
    weights = {name: value.cpu() for name, value in model.state_dict().items()}
    if table is not None:
        weights[next(name for name in weights if name.endswith("base.table"))] = table
    whole.load_state_dict(weights, assign=True)
    for weight in whole.parameters():
        weight.requires_grad_(True)
    return whole


# -- what every process writes -------------------------------------------------------------------------------


def _messages(trained: Trained) -> ShardedMessages:
    """The messages when the model is used."""
    if trained.message_roles == (ROLES["train"],):
        return trained.course.messages
    return sharded_messages(trained.nodes, trained.part, trained.message_roles)


def _write_embeddings(trained: Trained, files: RowFiles) -> ValidationScores:
    """Own rows of the embeddings that validation edges are scored by, of those for use, and of the table."""
    nodes, model, course = trained.nodes, trained.model, trained.course
    y = _embedded(trained, course.messages)
    scores = course.validation.scores(model, y, course.messages)
    files.write("valid_embeddings", nodes.in_order(y.cpu().numpy()))
    messages = _messages(trained)
    if messages is not course.messages:
        del y
        y = _embedded(trained, messages)
    files.write("embeddings", nodes.in_order(y.cpu().numpy()))
    table = our_encoder(model).base.table
    if table is not None:
        files.write(cast(str, trained.table_name), nodes.in_order(table.detach().cpu().numpy()))
    return scores


def _embedded(trained: Trained, messages: ShardedMessages) -> Tensor:
    y, _ = trained.model.encoder.watched(EncoderInput(trained.course.features, messages))
    wrong = trained.group.summed(torch.tensor(not is_finite(y), dtype=torch.long, device=y.device))
    if wrong:
        raise DivergedError(
            "the embeddings are not finite: the energy diverges. Lower encoder.step_size or encoder.repulsion"
        )
    return y


def _write_features(trained: Trained, files: RowFiles) -> None:
    """Own rows of the features, sparse where few of all entries are nonzero."""
    own = trained.part.features
    if own is None:
        return
    blocks = trained.nodes.in_order(own)
    nonzero = int(trained.group.summed(torch.tensor(np.count_nonzero(own), device=trained.group.device)))
    if not is_sparse(nonzero, (trained.nodes.count, own.shape[1])):
        files.write("features", blocks)
        return
    rows = []
    for block in blocks:
        row, column = np.nonzero(block)
        rows.append(sparse_from_entries(row, column, block[row, column], (len(block), block.shape[1])))
    files.write("feature_values", [each.values for each in rows])
    firsts = files.write("feature_indices", [each.indices for each in rows])
    starts = [each.indptr[:-1] + first for each, first in zip(rows, firsts, strict=True)]
    if trained.group.rank == trained.group.size - 1:
        starts[-1] = np.append(starts[-1], nonzero)
    files.write("feature_indptr", starts)


def _write_edges(trained: Trained, files: RowFiles) -> int:
    """The edges that begin in own rows and that the model may know; returns how many others there are, of all."""
    nodes, part = trained.nodes, trained.part
    if part.forward is not None:
        begins = part.forward
    elif nodes.left is not None:
        begins = nodes.left.cpu().numpy()[part.row - nodes.first]
    else:
        begins = part.row < part.neighbour
    known = begins & np.isin(part.role, (ROLES["train"], ROLES["valid"]))
    others = int(begins.sum() - known.sum())
    pairs = torch.from_numpy(np.stack([part.row[known], part.neighbour[known]], axis=1)).to(nodes.group.device)
    first = files.write("edges", [nodes.numbers_of(pairs).cpu().numpy()])[0]
    for name, values in (("weights", part.weight), ("times", part.time)):
        if values is not None:
            files.write(name, [values[known]])
    roles = part.role[known]
    files.write("roles", [roles])
    files.write("message_edges", [first + np.flatnonzero(np.isin(roles, trained.message_roles))])
    return int(nodes.group.summed(torch.tensor(others, device=nodes.group.device)))


# -- what the first process makes of it ----------------------------------------------------------------------


def _graph(trained: Trained, files: RowFiles) -> Graph:
    """The graph of the edges that the model may know."""
    manifest, sides = trained.manifest, None
    ids = Ids.from_values(read_ids(manifest))
    if manifest.num_left is not None:
        ids = ids.select(trained.nodes.order())
        sides = (np.arange(manifest.num_nodes) >= manifest.num_left).astype(np.int8)
    return Graph(
        ids=ids,
        edges=files.mapped("edges"),
        weights=files.mapped("weights") if "weights" in files.files else None,
        times=files.mapped("times") if "times" in files.files else None,
        features=_features(manifest, files),
        sides=sides,
        directed=manifest.directed,
        feature_encoder=manifest.encoder(),
    )


def _features(manifest: Manifest, files: RowFiles) -> Features | None:
    if "features" in files.files:
        return files.mapped("features")
    if "feature_indptr" not in files.files:
        return None
    indptr, indices, values = (files.mapped(f"feature_{name}") for name in ("indptr", "indices", "values"))
    return SparseFeatures(indptr, indices, values, manifest.num_features)


def _split(trained: Trained, graph: Graph, files: RowFiles) -> Split:
    """The split of these edges."""
    manifest, roles = trained.manifest, files.mapped("roles")
    train, valid = (np.flatnonzero(roles == ROLES[name]) for name in ("train", "valid"))
    without = "" if manifest.protocol == "holdout" else ", without those of the test"
    return Split(
        graph=graph,
        protocol=manifest.protocol,
        seed=trained.seed,
        train_targets=graph.edges[train],
        valid_targets=graph.edges[valid],
        test_targets=np.empty((0, 2), np.int64),
        train_messages=train,
        valid_messages=train,
        test_messages=files.mapped("message_edges"),
        known_in_training=train,
        valid_negatives=trained.nodes.numbers_of(trained.course.validation.negatives).cpu().numpy(),
        test_negatives=np.empty((0, 2), np.int64),
        words=f"as prepared in {manifest.num_parts} parts{without}",
    )
