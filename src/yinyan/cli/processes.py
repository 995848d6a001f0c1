"""`fit` on a prepared folder, by all processes that torchrun started or by one."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from yinyan.cli import common
from yinyan.cli.flags import Run
from yinyan.errors import InputError, YinYanError
from yinyan.progress import Checkpoints, JsonLines, Progress, show_progress
from yinyan.settings import GROUPS

if TYPE_CHECKING:
    from yinyan.distributed.finish import Finished
    from yinyan.distributed.fit import Job
    from yinyan.distributed.group import Group
    from yinyan.predictor import LinkPredictor
    from yinyan.settings import Settings
    from yinyan.training.fit import ListsOf
    from yinyan.training.hooks import Hooks

__all__ = ["asked_for", "fit_folder"]


def asked_for(edges: Path) -> bool:
    """Whether a fit is one of a prepared folder; a table cannot be divided among several processes."""
    if edges.is_dir() and any(edges.iterdir()):
        return True
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ:
        raise InputError(
            f"torchrun trains on a prepared folder, and '{edges}' is a table "
            "(run yinyan prepare first, or fit without torchrun)"
        )
    return False


def fit_folder(
    folder: Path,
    out: Path,
    calibration: str,
    run: Run,
    max_shard_bytes: int | None,
    *,
    unsupported: dict[str, bool],
) -> None:
    """Train on a prepared folder with all processes, and save the model from the first of them."""
    from yinyan.distributed.group import Group

    given = [flag for flag, is_set in unsupported.items() if is_set]
    if given:
        raise InputError(
            f"{given[0]} is for tables: leave it out for a prepared folder (a checkpoint is kept per epoch)"
        )
    with ExitStack() as held:
        group = Group(run.device)
        held.callback(group.leave)
        progress = show_progress(quiet=run.quiet or not group.is_first)
        model = common.predictor(run, calibration)
        job = replace(_begun(group, folder, out, run, model, progress, held), max_shard_bytes=max_shard_bytes)
        try:
            found = _fitted(group, job, progress)
        finally:
            progress.finish()
        if found is None:  # the first process does the rest
            return
        fitted = model.fitted_ = found.fitted
        model._saved(out, max_shard_bytes, found.written)
        _clear(job)
    common.note_quality(fitted, progress)
    if run.report:
        from yinyan.reporting.report import fit_report

        fit_report(run.report, model, title=f"Links of {folder.name}")
    common.print_fit(fitted, out, run.report, as_json=run.as_json)


def _begun(
    group: Group, folder: Path, out: Path, run: Run, model: LinkPredictor, progress: Progress, held: ExitStack
) -> Job:
    """What is to be done; the first process checks the places to write to and holds the folder of checkpoints."""
    from yinyan.distributed.fit import Job
    from yinyan.distributed.group import restarts

    state, what = common.state_of(out)
    restarted = restarts() > 0
    error = None
    if group.is_first:
        try:
            common.check_outputs(out, run.report)
            resume = run.resume or (restarted and state.is_dir())
            held.enter_context(Checkpoints(state, resume=resume, say=progress.note, what=what))
        except YinYanError as wrong:
            error = wrong
    group.raise_if_any(error)
    overrides = {name: getattr(model, name) for name in GROUPS if getattr(model, name) is not None}
    return Job(
        folder,
        state / "rows",
        overrides,
        seed=run.seed,
        calibration=model.calibration,
        checkpoints=state,
        resume=run.resume or restarted,
    )


def _fitted(group: Group, job: Job, progress: Progress) -> Finished | None:
    from yinyan.distributed.fit import fit_prepared

    return fit_prepared(group, job, _hooks(group, job, progress), _lists(job.seed))


def _hooks(group: Group, job: Job, progress: Progress) -> Hooks:
    from yinyan.training.hooks import Hooks
    from yinyan.training.showing import progress_hooks

    if not group.is_first:
        return Hooks()
    trackers = () if job.checkpoints is None else (JsonLines(job.checkpoints / "state.jsonl"),)
    return replace(progress_hooks(progress, "epoch"), trackers=trackers)


def _lists(seed: int):  # type: ignore[no-untyped-def]
    from yinyan.retrieval.held_out import reranked_lists

    def of(settings: Settings) -> ListsOf:
        return partial(reranked_lists, seed=seed, rerank=settings.decoder.rerank)

    return of


def _clear(job: Job) -> None:
    """The model is saved: checkpoints and rows are not needed any more."""
    from yinyan.distributed.checkpoints import remove_checkpoints

    shutil.rmtree(job.rows, ignore_errors=True)
    if job.checkpoints is not None:
        remove_checkpoints(job.checkpoints)
