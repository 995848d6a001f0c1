"""Checkpoints: whole or refused, and everything in them comes back."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import torch

from contracts import planted_graph
from yinyan import files
from yinyan.errors import StoreError
from yinyan.model.fitted import EpochRecord, build_model
from yinyan.model.scoring import Model
from yinyan.randomness import Streams
from yinyan.settings import Settings
from yinyan.training import checkpoint
from yinyan.training.best_weights import BestWeights
from yinyan.training.checkpoint import load_checkpoint, save_checkpoint
from yinyan.training.loop import TrainingState, build_optimizer

CPU = torch.device("cpu")
SMALL = Settings().updated({"encoder": {"hidden_size": 6, "embedding_size": 4, "inputs": "embeddings"}})


class Run:
    """A model, its optimiser and its streams, some way into a run."""

    def __init__(self, seed: int = 0) -> None:
        self.model: Model = build_model(SMALL, planted_graph(size=8), seed)
        self.optimizer = build_optimizer(self.model, SMALL.training)
        self.streams = Streams(seed, CPU)
        self.state = TrainingState()

    def advance(self) -> Run:
        for parameter in self.model.parameters():
            parameter.grad = torch.randn_like(parameter)
        self.optimizer.step(0.01)
        torch.rand(5, generator=self.streams["dropout"])
        best = {name: value.detach() + 1 for name, value in self.model.state_dict().items()}
        self.state = TrainingState(
            epoch=2,
            position=3,
            order=torch.tensor([2, 0, 1]),
            loss_sum=1.25,
            best_score=0.1 + 0.2,
            best_epoch=1,
            best_weights=BestWeights(best),
            waited=1,
            history=[EpochRecord(1, 0.5, 0.01), EpochRecord(2, 1 / 3, 0.02, 0.1, 0.2, 0.3, 0.4)],
        )
        return self

    def save(self, path: Path) -> None:
        save_checkpoint(path, "mark", self.model, self.optimizer, self.streams, self.state)

    def load(self, path: Path, fingerprint: str = "mark") -> TrainingState:
        self.state = load_checkpoint(path, fingerprint, self.model, self.optimizer, self.streams)
        return self.state


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.safetensors"


def test_everything_comes_back(file: Path) -> None:
    before = Run().advance()
    before.save(file)
    after = Run(seed=1)
    after.load(file)
    for name, value in before.model.state_dict().items():
        assert torch.equal(after.model.state_dict()[name], value), name
    for name, value in before.state.best_weights.tensors().items():
        assert torch.equal(after.state.best_weights[name], value), name
    assert set(after.state.best_weights.tensors()) == set(before.state.best_weights.tensors())
    assert before.state.order is not None and after.state.order is not None
    assert torch.equal(after.state.order, before.state.order)
    for name in ("epoch", "position", "loss_sum", "best_score", "best_epoch", "waited", "finished", "history"):
        assert getattr(after.state, name) == getattr(before.state, name), name
    for use in Streams.uses:
        assert torch.equal(after.streams.state()[use], before.streams.state()[use])


def test_the_optimiser_goes_on_as_before(file: Path) -> None:
    before = Run().advance()
    before.save(file)
    after = Run(seed=1)
    after.load(file)
    for run in (before, after):
        for parameter in run.model.parameters():
            parameter.grad = torch.ones_like(parameter)
        run.optimizer.step(0.01)
    for one, other in zip(before.model.parameters(), after.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_first_state_of_a_run_comes_back(file: Path) -> None:
    """No best weights, no order and no optimiser slots yet; minus infinity is the best score so far."""
    Run().save(file)
    state = Run(seed=1).load(file)
    assert state.best_score == float("-inf")
    assert state.order is None
    assert not state.best_weights


def test_another_run_is_refused(file: Path) -> None:
    Run().save(file)
    with pytest.raises(StoreError, match="is of another run: its graph, settings or seed differ"):
        Run().load(file, "another mark")


def damaged(content: bytes, how: str) -> bytes:
    return {
        "empty": b"",
        "truncated": content[: len(content) // 2],
        "cut by a byte": content[:-1],
        "not a checkpoint": b"epoch = 3\n" * 100,
        "a broken header": content[:20] + b"#" * 20 + content[40:],
    }[how]


@pytest.mark.parametrize("how", ["empty", "truncated", "cut by a byte", "not a checkpoint", "a broken header"])
def test_a_damaged_checkpoint_is_refused(file: Path, how: str) -> None:
    Run().advance().save(file)
    file.write_bytes(damaged(file.read_bytes(), how))
    with pytest.raises(StoreError, match=rf"cannot read the checkpoint '{file}': .*start again without resuming"):
        Run().load(file)


def test_a_tensor_file_of_another_kind_is_refused(file: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(3)}, file)
    with pytest.raises(StoreError, match="is of another run"):
        Run().load(file)


@pytest.mark.parametrize("stage", ["while writing", "before the swap"])
def test_a_crash_keeps_the_last_checkpoint(file: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    Run().save(file)
    before = file.read_bytes()

    def fail(*args: Any) -> None:
        raise KeyboardInterrupt

    if stage == "while writing":
        monkeypatch.setattr(checkpoint, "save_file", fail)
    else:
        monkeypatch.setattr(files, "flush_to_disk", fail)
    with pytest.raises(KeyboardInterrupt):
        Run().advance().save(file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_full_disk_is_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """safetensors words the system's errors in its own way; the cure must be named all the same."""
    from safetensors import SafetensorError

    def full(*args: Any) -> None:
        raise SafetensorError(f"Error while serializing: I/O error: No space left (os error {errno.ENOSPC})")

    Run().save(file)
    before = file.read_bytes()
    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(StoreError, match=rf"cannot write '{file}': the disk is full: free some space"):
        Run().advance().save(file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]
