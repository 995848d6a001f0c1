"""The state of a run by several processes, by torch.distributed.checkpoint."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

import torch
from torch import Tensor

from yinyan.distributed.group import Group
from yinyan.errors import StoreError
from yinyan.files import write_error, write_text
from yinyan.model.fitted import EpochRecord
from yinyan.model.scoring import Model
from yinyan.training.adam import Adam
from yinyan.training.best_weights import BestWeights
from yinyan.training.checkpoint import PLAIN
from yinyan.training.loop import TrainingState

__all__ = ["Checkpoints", "remove_checkpoints"]

_NAME = "epoch-{:06d}"
MARK = "run.json"  # by which a folder is known to hold the state of a run


class Checkpoints:
    """A folder with the state of a run: each process writes its own rows and its copy of the rest.

    A checkpoint is written beside the one before and renamed when all processes have written theirs, so that there
    is always a whole one.
    """

    def __init__(self, group: Group, folder: Path, marks: str) -> None:
        """`marks` name the run, so that no other resumes from it."""
        self._group, self._folder = group, folder
        self._run = hashlib.sha256(f"{marks}/{group.size}".encode()).hexdigest()

    def save(self, model: Model, optimizer: Adam, state: TrainingState) -> None:
        """Write the state; the checkpoint before is removed."""
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.state_dict_saver import save

        within = "" if state.order is None else f"-step-{state.position:09d}"  # steps of the epoch that is under way
        target = self._folder / (_NAME.format(state.epoch) + within)
        partial = target.with_suffix(".partial")
        content = self._named(_tensors(model, optimizer, state))
        if self._group.is_first:
            shutil.rmtree(partial, ignore_errors=True)
        self._group.barrier()
        error = None
        try:
            save(content, checkpoint_id=partial, no_dist=self._group.size == 1)
        except (Exception, CheckpointException) as wrong:  # of any process; the latter is no Exception
            error = StoreError(f"cannot write the checkpoint '{partial}': {_first_line(wrong)} (free some disk space)")
        self._group.raise_if_any(error)
        if self._group.is_first:
            try:
                shutil.rmtree(target, ignore_errors=True)
                partial.replace(target)
                write_text(self._folder / MARK, json.dumps({"epoch": state.epoch, "processes": self._group.size}))
            except OSError as wrong:
                error = write_error(target, wrong)
            for old in self._folder.glob("epoch-*"):
                if old != target:
                    shutil.rmtree(old, ignore_errors=True)
        self._group.raise_if_any(error)

    def load(self, model: Model, optimizer: Adam) -> TrainingState | None:
        """Put a run back where it stood; None where nothing was saved. Refuses the checkpoint of another run."""
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.filesystem import FileSystemReader
        from torch.distributed.checkpoint.state_dict_loader import load

        whole = sorted(path.name for path in self._folder.glob("epoch-*") if not path.suffix)
        name = self._group.texts(whole[-1] if whole else "")[0]  # as the first process sees the folder
        if not name:
            return None
        reader = FileSystemReader(self._folder / name)
        error, tensors = None, {}
        try:
            found = reader.read_metadata().state_dict_metadata
            for key, kind in found.items():
                if key.startswith(self._prefix):
                    tensors[key] = torch.empty(kind.size, dtype=kind.properties.dtype)  # type: ignore[union-attr]
            load(tensors, storage_reader=reader, no_dist=True)
        except (Exception, CheckpointException) as wrong:
            error = StoreError(
                f"cannot read the checkpoint '{self._folder / name}': {_first_line(wrong)} (start without --resume)"
            )
        if error is None:
            marks = bytes(tensors.pop(f"{self._prefix}run", torch.zeros(0)).tolist()).decode()
            if marks != self._run:
                error = StoreError(
                    f"the checkpoint '{self._folder / name}' is of another run: its graph, settings, seed or number of "
                    "processes differ (start again without --resume, or restore them)"
                )
        self._group.raise_if_any(error)
        return _restored({k.removeprefix(self._prefix): v for k, v in tensors.items()}, model, optimizer)

    @property
    def _prefix(self) -> str:
        return f"process {self._group.rank}/"

    def _named(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        tensors["run"] = torch.tensor(list(self._run.encode()), dtype=torch.uint8)
        return {f"{self._prefix}{name}": value.detach().contiguous() for name, value in tensors.items()}


def remove_checkpoints(folder: Path) -> None:
    """Remove all checkpoints of a folder."""
    for path in folder.glob("epoch-*"):
        shutil.rmtree(path, ignore_errors=True)


def _tensors(model: Model, optimizer: Adam, state: TrainingState) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {f"model/{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"best/{name}": value for name, value in state.best_weights.tensors().items()}
    tensors |= {f"average/{name}": value for name, value in state.average.items()}
    tensors |= {f"optimizer/{name}": value for name, value in optimizer.state().items()}
    plain = {name: getattr(state, name) for name in PLAIN}
    plain["history"] = [dataclasses.asdict(record) for record in state.history]
    tensors["state"] = torch.tensor(list(json.dumps(plain).encode()), dtype=torch.uint8)
    return tensors


def _restored(tensors: dict[str, Tensor], model: Model, optimizer: Adam) -> TrainingState:
    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

    device = next(model.parameters()).device
    model.load_state_dict(part("model/"))
    optimizer.restore(part("optimizer/"))
    plain = json.loads(bytes(tensors["state"].tolist()))
    plain["history"] = [EpochRecord(**record) for record in plain["history"]]
    best, average = ({k: v.to(device) for k, v in part(p).items()} for p in ("best/", "average/"))
    return TrainingState(**plain, best_weights=BestWeights(best), average=average)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
