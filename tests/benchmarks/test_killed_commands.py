"""kill -9 in every command that writes: what was there is whole, or what is new, and the same command works again."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from lib.killed_commands import Case, cases, killed, prepared


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, an index, a report, rows and a change log that are there before the commands."""
    return prepared(tmp_path_factory.mktemp("start"))


@pytest.mark.parametrize("name", cases())
def test_a_killed_command_leaves_the_old_or_the_new_and_runs_again(name: str, start: Path, tmp_path: Path) -> None:
    found = killed(cases()[name], start, tmp_path / "folder", random.Random(name), 2, time.monotonic() + 60)
    assert found["kills"] == 2 and found["steps"] >= 2
    assert found["broken"] == []


def test_a_command_that_writes_in_place_is_found(tmp_path: Path) -> None:
    """The check itself: a file that is emptied before it is written is left empty by kill -9."""
    case = Case((), lambda folder: (folder / "rows").read_text(encoding="utf-8"), run=_writes_in_place)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "rows").write_text("old", encoding="utf-8")
    found = killed(case, folder, tmp_path / "work", random.Random(0), 9, time.monotonic() + 60)
    assert (found["steps"], found["kills"]) == (2, 2)
    assert found["broken"] == ["step 2 of 2: left "]


def _writes_in_place(arguments: list[str]) -> None:
    with Path("rows").open("w", encoding="utf-8") as file:
        file.flush()
        Path("other").mkdir()
        file.write("new")
    raise SystemExit(0)
