"""Two fits to one directory, and a fit that was killed before its first checkpoint."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from command_line import TINY, refused, start, wait_until, works, write_links
from yinyan.predictor import LinkPredictor
from yinyan.progress import Checkpoints

ENDLESS = ("--set", "training.epochs=100000", "--set", "training.patience=0", "--set", "encoder.hidden_size=8")


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_a_second_fit_is_refused_and_a_killed_one_starts_over(tmp_path: Path) -> None:
    """The first to end deleted the other's checkpoint; --resume called a killed run 'of another run'."""
    links = write_links(tmp_path / "links.csv")
    log = tmp_path / "model.checkpoint" / "state.jsonl"
    first = start("fit", links, *ENDLESS, cwd=tmp_path)
    try:
        wait_until(log.exists, first)
        (tmp_path / "model.checkpoint" / "state.safetensors").touch()  # as after a minute
        for more in ((), ("--resume",)):
            said = refused("fit", links, *TINY, "--out", tmp_path / "model", *more)
            assert f"model' is in use by process {first.pid} on " in said and "choose another name" in said
        assert (tmp_path / "model.checkpoint" / "state.safetensors").exists(), "the first one's state is safe"
        assert first.poll() is None
        (tmp_path / "model.checkpoint" / "state.safetensors").unlink()
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=20)
    finally:
        first.kill()
    assert log.exists() and not (tmp_path / "model").exists()
    resumed = works("fit", links, *TINY, "--out", tmp_path / "model", "--resume")
    assert "starting over: the stopped run had saved no state in" in resumed.err
    assert len(LinkPredictor.load(tmp_path / "model").fitted_.history) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["links.csv", "model"]


def test_an_empty_folder_is_no_other_run(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "run").mkdir()
    with Checkpoints(tmp_path / "run", resume=True, run="abc", say=said.append):
        pass
    assert said == [f"starting over: the stopped run had saved no state in '{tmp_path / 'run'}' yet"]
    assert list(tmp_path.iterdir()) == []
