"""From a prepared folder to a trained model, by all processes of a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch

from yinyan import __version__
from yinyan.distributed.checkpoints import Checkpoints
from yinyan.distributed.course import SharedCourse
from yinyan.distributed.finish import Finished, Trained, finished
from yinyan.distributed.group import Group
from yinyan.distributed.model import refuse_unsupported, sharded_model, start_sharded
from yinyan.distributed.prepared import Manifest, read_manifest, read_part
from yinyan.distributed.requests import STOP, Requests
from yinyan.distributed.row_files import RowFiles
from yinyan.distributed.shard import Nodes, target_edges
from yinyan.errors import StoppedError, YinYanError
from yinyan.graph import Graph
from yinyan.model.calibration import Method
from yinyan.model.fitted import EpochRecord
from yinyan.model.scoring import Model
from yinyan.settings import Settings
from yinyan.text import counted
from yinyan.training.defaults import suggest
from yinyan.training.fit import ListsOf
from yinyan.training.hooks import Hooks
from yinyan.training.loop import TrainingState, build_optimizer, run
from yinyan.training.remarks import LossWatch
from yinyan.training.summary import model_in_words, training_in_words

__all__ = ["Job", "facts_of", "fit_prepared"]

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Job:
    """What is to be trained, the same in all processes."""

    folder: Path
    rows: Path  # folder for rows of the model, which all processes see; it is emptied, and not removed
    overrides: Mapping[str, Any]  # settings by group
    seed: int = 0
    calibration: Method = "platt"
    checkpoints: Path | None = None  # folder for the state after each epoch
    resume: bool = False
    max_shard_bytes: int | None = None


@dataclass(frozen=True)
class _Facts:
    """What settings and weights depend on, without the graph itself."""

    num_nodes: int
    directed: bool
    is_bipartite: bool
    features: np.ndarray[Any, np.dtype[np.float32]] | None  # without rows
    edge_features: None = None  # prepared folders have none


def facts_of(manifest: Manifest, num_nodes: int) -> Graph:
    """In the place of the graph of a folder, with another number of nodes, where only sizes are looked at."""
    features = np.empty((0, manifest.num_features), np.float32) if manifest.num_features else None
    return cast(Graph, _Facts(num_nodes, manifest.directed, manifest.num_left is not None, features))


def fit_prepared(
    group: Group, job: Job, hooks: Hooks, lists: Callable[[Settings], ListsOf] | None = None
) -> Finished | None:
    """Train on a prepared folder with all processes; the first one returns the model, the others None.

    `hooks` are of the first process; others report nothing. `lists` makes of the settings what probabilities are
    calibrated on, as in `fit_model`.
    """
    started = time.perf_counter()
    manifest = _in_all(group, lambda: read_manifest(job.folder))
    group.agree(
        {
            "the version of yinyan": __version__,
            "the version of torch": torch.__version__,
            "the prepared folder (digest of its manifest)": manifest.digest,
            "settings": sorted((group, str(values)) for group, values in job.overrides.items()),
            "the seed": job.seed,
        }
    )
    parts = manifest.parts_of(group.rank, _checked_size(group, manifest))
    part = _in_all(group, lambda: read_part(manifest, parts))
    nodes = Nodes(group, manifest, part.left)
    num_targets = int(group.summed(torch.tensor(len(target_edges(nodes, part, "train")), device=group.device)))
    suggestion = suggest(facts_of(manifest, nodes.count), num_targets, dict(job.overrides))
    settings = suggestion.settings.updated(job.overrides)
    refuse_unsupported(settings)
    _describe(group, manifest, settings, num_targets, hooks)
    model = sharded_model(settings, facts_of(manifest, 1), nodes, job.seed)
    course = SharedCourse(model, nodes, part, settings.training, job.seed)
    start_sharded(model, settings, course.messages, job.seed)
    state = _trained(group, job, model, course, settings, manifest, hooks)
    return finished(
        Trained(group, manifest, nodes, part, model, course, settings, state, job.seed),
        RowFiles(group, job.rows, job.max_shard_bytes),
        calibration=job.calibration,
        hooks=hooks,
        lists=None if lists is None else lists(settings),
        reasons=suggestion.reasons,
        started=started,
    )


def _in_all(group: Group, read: Callable[[], _Found]) -> _Found:
    """What this process reads; an error of one is an error of all."""
    found, error = None, None
    try:
        found = read()
    except YinYanError as wrong:
        error = wrong
    group.raise_if_any(error)
    return cast(_Found, found)


def _checked_size(group: Group, manifest: Manifest) -> int:
    manifest.starts(group.size)
    return group.size


def _describe(group: Group, manifest: Manifest, settings: Settings, num_targets: int, hooks: Hooks) -> None:
    kind = "directed" if manifest.directed else "undirected" if manifest.num_left is None else "bipartite"
    hooks.tell(f"graph: {manifest.num_nodes:,} nodes, {manifest.num_edges:,} edges, {kind}, '{manifest.folder}'")
    where = "on GPUs" if group.device.type == "cuda" else "on CPUs"
    hooks.tell(
        f"processes: {group.size} {where}, {counted(manifest.num_parts, 'part')}, about "
        f"{manifest.num_nodes // group.size:,} nodes each"
    )
    hooks.tell(f"model: {model_in_words(settings, facts_of(manifest, manifest.num_nodes))}")
    hooks.tell(f"training: {training_in_words(settings, num_targets)}")


def _trained(
    group: Group,
    job: Job,
    model: Model,
    course: SharedCourse,
    settings: Settings,
    manifest: Manifest,
    hooks: Hooks,
) -> TrainingState:
    """Run the loop, with a checkpoint after each epoch and when one is asked for."""
    optimizer, state = build_optimizer(model, settings.training), TrainingState()
    marks = f"{manifest.digest}/{job.seed}/{settings.to_toml()}"
    checkpoints = None if job.checkpoints is None else Checkpoints(group, job.checkpoints, marks)
    if checkpoints is not None and job.resume:
        found = checkpoints.load(model, optimizer)
        state = state if found is None else found
        hooks.tell(f"resumed: after epoch {state.epoch}" if found else "resumed: no checkpoint yet, starting over")
    if state.order is None and 0 < state.position < course.length:  # asked for in the middle of an epoch
        course.begin(state)
    watch = LossWatch(settings.training.learning_rate, hooks.tell, [record.loss for record in state.history])

    def on_epoch(record: EpochRecord) -> None:
        if checkpoints is not None:
            checkpoints.save(model, optimizer, state)
        figures = {k: float(v) for k, v in vars(record).items() if v is not None and k != "epoch"}
        for tracker in hooks.trackers:
            tracker(figures, record.epoch)
        hooks.on_epoch(record)
        watch(record.loss)

    def on_step(now: TrainingState) -> bool:
        hooks.on_step(now.epoch + now.position / course.length)
        if checkpoints is None or now.position == course.length:  # the end of the epoch writes one in any case
            return True
        asked = group.largest(requests.taken())
        if asked:
            checkpoints.save(model, optimizer, now)
            hooks.tell(f"checkpoint: in epoch {now.epoch + 1}, in '{job.checkpoints}'")
        if asked == STOP:
            raise StoppedError(
                f"training was stopped in epoch {now.epoch + 1}; its state is in '{job.checkpoints}' (repeat the "
                "command with --resume and the same number of processes)"
            )
        return True

    hooks.on_start(settings.training.epochs, state.epoch)
    with Requests() as requests:
        return run(
            *(model, course, settings.training),
            state=state,
            optimizer=optimizer,
            on_epoch=on_epoch,
            on_step=on_step,
        )
