"""How many threads compute, and how they wait."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import yinyan
from command_line import refused, works, write_links
from contracts import planted_graph, tiny
from yinyan import LinkPredictor, threads
from yinyan.errors import SettingsError


@pytest.fixture(autouse=True)
def _threads_of_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    for name in ("OMP_NUM_THREADS", "YINYAN_THREADS"):
        monkeypatch.delenv(name, raising=False)
    yield
    torch.set_num_threads(before)


def in_a_process(code: str, **environment: str) -> list[str]:
    source = str(Path(yinyan.__file__).parents[1])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    run = subprocess.run(
        [sys.executable, "-c", code], env={**kept, "PYTHONPATH": source, **environment}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


class TestWaiting:
    """Threads that spin took many times as long as one thread, where other processes used the same cores."""

    SHOW = "import os; from yinyan import threads; print(os.environ.get('OMP_WAIT_POLICY'), threads._spins)"

    def test_threads_sleep_if_the_package_comes_before_torch(self) -> None:
        assert in_a_process(f"import yinyan; {self.SHOW}") == ["PASSIVE", "False"]
        assert in_a_process("import yinyan, sys; print('torch' in sys.modules)") == ["False"]

    def test_after_torch_nothing_is_promised(self) -> None:
        assert in_a_process(f"import torch, yinyan; {self.SHOW}") == ["None", "True"]

    @pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
    def test_what_somebody_chose_stays(self, name: str) -> None:
        found = in_a_process(f"import yinyan, os; {self.SHOW}; print(os.environ['{name}'])", **{name: "1"})
        assert found[-1] == "1" and found[1] == "False" and found[0] != "PASSIVE"


class TestNumber:
    @pytest.mark.parametrize("number", [1, 2])
    def test_as_given(self, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
        assert threads.use_threads(number) is None and torch.get_num_threads() == number
        monkeypatch.setenv("YINYAN_THREADS", str(3 - number))
        threads.use_threads(None)
        assert torch.get_num_threads() == 3 - number
        threads.use_threads(number)  # which has priority
        assert torch.get_num_threads() == number

    @pytest.mark.parametrize("wrong", [0, -1, 1.5, "two", True])
    def test_what_is_no_number_is_refused(self, wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(SettingsError, match=r"'threads' needs to be a positive integer \(got "):
            threads.use_threads(wrong)  # type: ignore[arg-type]
        monkeypatch.setenv("YINYAN_THREADS", "many")
        with pytest.raises(SettingsError, match=r"'YINYAN_THREADS' needs to be a positive integer \(got 'many'\)"):
            threads.use_threads(None)

    def test_no_more_than_cores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(threads, "available_cores", lambda: 2)
        monkeypatch.setattr(threads, "_spins", False)
        for torchs, wanted in ((1, 1), (2, 2), (7, 2)):
            torch.set_num_threads(torchs)
            assert threads.use_threads(None) is None and torch.get_num_threads() == wanted
        torch.set_num_threads(7)
        monkeypatch.setenv("OMP_NUM_THREADS", "7")  # somebody's own choice
        assert threads.use_threads(None) is None and torch.get_num_threads() == 7

    @pytest.mark.parametrize(("others", "wanted"), [(0, 4), (1, 3), (3, 1), (9, 1)])
    def test_threads_that_spin_leave_busy_cores_alone(
        self, others: int, wanted: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(threads, "available_cores", lambda: 4)
        monkeypatch.setattr(threads, "_others", lambda: others)
        torch.set_num_threads(4)
        monkeypatch.setattr(threads, "_spins", False)
        assert threads.use_threads(None) is None and torch.get_num_threads() == 4
        monkeypatch.setattr(threads, "_spins", True)
        remark = threads.use_threads(None)
        assert torch.get_num_threads() == wanted
        assert (remark is None) == (others == 0)
        if remark is not None:
            assert f"{wanted} of 4 threads are used (import yinyan before torch" in remark


class TestCores:
    @pytest.mark.parametrize(
        ("files", "wanted"),
        [
            ({}, 8),
            ({"cpu.max": "max 100000"}, 8),
            ({"cpu.max": "250000 100000"}, 2),
            ({"cpu.max": "50000 100000"}, 1),
            ({"cpu.max": "9900000 100000"}, 8),
            ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
            ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
            ({"cpu.max": "what"}, 8),
        ],
    )
    def test_affinity_and_quota(
        self, files: dict[str, str], wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text + "\n")
        monkeypatch.setattr(threads, "_GROUPS", tmp_path)
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
        assert threads.available_cores() == wanted

    @pytest.mark.parametrize(("text", "wanted"), [("0.5 0.4 0.3 4/116 99", 3), ("0.5 0.4 0.3 1/9 7", 0), ("odd", 0)])
    def test_others(self, text: str, wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "loadavg").write_text(text)
        monkeypatch.setattr(threads, "_LOAD", tmp_path / "loadavg")
        assert threads._others() == wanted


class TestPredictor:
    def test_fits_asks_and_is_saved_without_them(self, tmp_path: Path) -> None:
        model = LinkPredictor(**tiny(), threads=2).fit(planted_graph())
        assert torch.get_num_threads() == 2 and model.get_params()["threads"] == 2
        model.save(tmp_path / "model")
        torch.set_num_threads(1)
        assert LinkPredictor.load(tmp_path / "model").threads is None and torch.get_num_threads() == 1
        loaded = LinkPredictor.load(tmp_path / "model", threads=2)
        torch.set_num_threads(1)
        loaded.recommend(0, k=1)
        assert torch.get_num_threads() == 2

    def test_a_wrong_number_is_refused(self) -> None:
        with pytest.raises(SettingsError, match="'threads' needs to be a positive integer"):
            LinkPredictor(**tiny(), threads=0).fit(planted_graph())


def test_every_command_that_computes_takes_them(tmp_path: Path) -> None:
    links, model, pairs = write_links(tmp_path / "links.csv"), tmp_path / "m", tmp_path / "pairs.csv"
    pairs.write_text("source,target\nn0,n1\n")
    small = ("--set", "training.epochs=1", "--set", "encoder.hidden_size=8", "-q")
    commands = [
        ("fit", links, *small, "--out", model),
        ("recommend", model, "n0"),
        ("similar", model, "n0"),
        ("score", model, pairs),
        ("explain", model, "n0", "n1"),
        ("best-links", model, "-k", "2"),
        ("index", model, "-q"),
    ]
    for command in commands:
        for number in (2, 1):
            works(*command, "--threads", number)
            assert torch.get_num_threads() == number, command[0]
    works("recommend", model, "n0")
    assert torch.get_num_threads() == 1
    assert "needs to be a positive integer" in refused_with("YINYAN_THREADS", "x", model)


def refused_with(name: str, value: str, model: Path) -> str:
    os.environ[name] = value
    try:
        return refused("recommend", model, "n0")
    finally:
        del os.environ[name]
