"""Everything a resumed run needs, in one file: weights, optimiser, best weights, random states, position."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from yinyan.errors import StoreError
from yinyan.files import atomic_path
from yinyan.model.fitted import EpochRecord
from yinyan.model.scoring import Model
from yinyan.randomness import Streams
from yinyan.training.adam import Adam
from yinyan.training.best_weights import BestWeights
from yinyan.training.loop import TrainingState

__all__ = ["PLAIN", "load_checkpoint", "save_checkpoint"]

PLAIN = ("epoch", "position", "loss_sum", "best_score", "best_epoch", "waited", "progress_score", "finished")


def save_checkpoint(
    path: Path,
    fingerprint: str,
    model: Model,
    optimizer: Adam,
    streams: Streams,
    state: TrainingState,
) -> None:
    """Write the run's state; `fingerprint` names the run, so that no other resumes from it."""
    tensors: dict[str, Tensor] = {f"model/{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"best/{name}": value for name, value in state.best_weights.tensors().items()}
    tensors |= {f"average/{name}": value for name, value in state.average.items()}
    tensors |= {f"stream/{use}": value for use, value in streams.state().items()}
    tensors |= {f"optimizer/{name}": value for name, value in optimizer.state().items()}
    if state.order is not None:
        tensors["order"] = state.order
    plain = {name: getattr(state, name) for name in PLAIN}
    plain["history"] = [dataclasses.asdict(record) for record in state.history]
    metadata = {"fingerprint": fingerprint, "state": json.dumps(plain)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, temporary, metadata)


def load_checkpoint(path: Path, fingerprint: str, model: Model, optimizer: Adam, streams: Streams) -> TrainingState:
    """Put a run back where it stood; refuses the checkpoint of another run."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (OSError, SafetensorError) as error:
        raise StoreError(f"cannot read the checkpoint '{path}': {error} (start again without resuming)") from error
    if not metadata or metadata.get("fingerprint") != fingerprint:
        raise StoreError(
            f"the checkpoint '{path}' is of another run: its graph, settings or seed differ "
            "(start again without resuming, or restore them)"
        )

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

    model.load_state_dict(part("model/"))
    streams.restore(part("stream/"))
    optimizer.restore(part("optimizer/"))
    plain = json.loads(metadata["state"])
    plain["history"] = [EpochRecord(**record) for record in plain["history"]]
    device = next(model.parameters()).device
    best, average = ({k: v.to(device) for k, v in part(p).items()} for p in ("best/", "average/"))
    return TrainingState(**plain, best_weights=BestWeights(best), average=average, order=tensors.get("order"))
