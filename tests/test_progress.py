from __future__ import annotations

import io
import json
import os
import re
import signal
import threading
from pathlib import Path

import pytest

from yinyan import progress
from yinyan.errors import StoppedError, StoreError
from yinyan.progress import Checkpoints, JsonLines, interruptible, show_progress


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class TestLines:
    def test_a_line_every_few_seconds_with_the_time_left(self, clock: Clock) -> None:
        stream = io.StringIO()
        shown = show_progress(stream=stream)
        shown.start("epoch", 100)
        for done in range(1, 13):
            clock.now += 1
            shown.advance(done, f"loss {done}")
        assert stream.getvalue().splitlines() == [
            "epoch 5/100   loss 5   95 s left",
            "epoch 10/100   loss 10   90 s left",
        ]

    def test_the_last_line_says_how_long_it_took(self, clock: Clock) -> None:
        stream = io.StringIO()
        shown = show_progress(stream=stream)
        shown.start("epoch", 3)
        for done in (1, 2, 3):
            clock.now += 1
            shown.advance(done, "loss 1")
        shown.finish()
        shown.finish()
        assert stream.getvalue() == "epoch 3/3   loss 1   took 3.0 s\n"

    def test_parts_done_before_do_not_count_as_fast(self, clock: Clock) -> None:
        stream = io.StringIO()
        shown = show_progress(stream=stream)
        shown.start("nodes", 100, 90)
        clock.now += 10
        shown.advance(95)
        assert stream.getvalue() == "nodes 95/100   10 s left\n"

    def test_parts_of_a_part_count_for_the_time_left(self, clock: Clock) -> None:
        """Nothing was printed before the first epoch was over."""
        stream = io.StringIO()
        shown = show_progress(stream=stream)
        shown.start("epoch", 10)
        for done, text in ((0.25, None), (1, "loss 1"), (1.5, None)):
            clock.now += 10
            shown.advance(done, text)
        shown.finish()
        assert stream.getvalue().splitlines() == [
            "epoch 0/10   6 min 30 s left",
            "epoch 1/10   loss 1   3 min left",
            "epoch 1/10   loss 1   2 min 50 s left",
        ]

    @pytest.mark.parametrize(
        ("seconds", "said"),
        [
            *((0.24, "0.2 s"), (4.94, "4.9 s"), (42.4, "42 s"), (119, "2 min"), (162, "2 min 40 s")),
            *((594, "9 min 50 s"), (596, "10 min"), (600, "10 min"), (9000, "2.5 h")),
        ],
    )
    def test_durations(self, seconds: float, said: str, clock: Clock) -> None:
        stream = io.StringIO()
        shown = show_progress(stream=stream)
        shown.start("epoch", 1)
        clock.now += seconds
        shown.advance(1)
        shown.finish()
        assert stream.getvalue() == f"epoch 1/1   took {said}\n"

    def test_a_long_run_fills_no_log(self, clock: Clock) -> None:
        """A run of an hour printed 720 lines into its log."""
        stream = io.StringIO()
        shown = show_progress(stream=stream)
        shown.start("epoch", 3600)
        for done in range(1, 3600):
            clock.now += 1
            shown.advance(done)
        lines = stream.getvalue().splitlines()
        assert 80 < len(lines) < 110 and lines[0].startswith("epoch 5/3600")

    def test_notes_come_at_once(self) -> None:
        stream = io.StringIO()
        show_progress(stream=stream).note("read 3 rows")
        assert stream.getvalue() == "read 3 rows\n"


def test_quiet_prints_nothing() -> None:
    stream = io.StringIO()
    shown = show_progress(quiet=True, stream=stream)
    shown.start("epoch", 2)
    shown.note("a note")
    shown.advance(2, "loss 1")
    shown.finish()
    assert stream.getvalue() == ""


def test_standard_error_is_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    show_progress().note("a note")
    assert capsys.readouterr() == ("", "a note\n")


class TestTerminal:
    @pytest.fixture
    def screen(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """What a pseudo-terminal of 80 columns is sent."""
        pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", "80")
        master, slave = pty.openpty()
        with os.fdopen(slave, "w", encoding="utf-8", closefd=True) as terminal:
            shown = show_progress(stream=terminal)
            now = 0.0
            monkeypatch.setattr(shown._rich, "get_time", lambda: now)  # type: ignore[attr-defined]
            shown.note("[3] rows read")
            shown.start("yinyan, seed 0, epoch", 100)
            for done in range(1, 41):
                now += 1.0
                shown.advance(done, "loss 1.234, hits@10% 0.567, auc 0.890")
            shown._rich.refresh()  # type: ignore[attr-defined]
            shown.finish()
            terminal.flush()
            sent = b""
            os.set_blocking(master, False)
            while True:
                try:
                    sent += os.read(master, 65_536)
                except BlockingIOError:
                    break
        os.close(master)
        return sent.decode("utf-8")

    def test_shows_a_bar_an_estimate_and_figures_within_80_columns(self, screen: str) -> None:
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)
        lines = [line.rstrip() for line in re.split(r"[\r\n]+", plain)]
        assert any("━━━" in line and "40/100" in line and "60 s left" in line for line in lines)
        assert any("40/100" in line and "took 40 s" in line and "loss 1.234" in line for line in lines)
        assert max(map(len, lines)) <= 80

    def test_notes_are_not_taken_for_markup(self, screen: str) -> None:
        assert "[3] rows read" in screen


class TestInterruptible:
    def test_the_first_signal_asks(self) -> None:
        said: list[str] = []
        with interruptible(said.append) as should_stop:
            assert not should_stop()
            os.kill(os.getpid(), signal.SIGINT)
            assert should_stop()
        assert said == ["stopping at the next safe point (Ctrl-C again stops at once)"]

    def test_the_second_stops_at_once(self) -> None:
        with pytest.raises(StoppedError, match="stopped at once"), interruptible(lambda text: None):  # noqa: PT012
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            pytest.fail("it went on")

    def test_the_former_handler_is_back_afterwards(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        with interruptible(lambda text: None):
            assert signal.getsignal(signal.SIGINT) is not before
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_signal_amid_a_line_is_heard_all_the_same(self) -> None:
        def say(text: str) -> None:
            raise RuntimeError("reentrant call")

        with interruptible(say) as should_stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert should_stop()


class TestCheckpoints:
    def test_gone_after_success(self, tmp_path: Path) -> None:
        with Checkpoints(tmp_path / "run", resume=False, say=print):
            (tmp_path / "run" / "state.safetensors").touch()
        assert not (tmp_path / "run").exists()

    def test_kept_and_named_after_a_stop(self, tmp_path: Path) -> None:
        with pytest.raises(StoppedError, match=r"^half way\. Go on with the same command and --resume$"):
            self.run_into(StoppedError("half way"), tmp_path / "run", "state.safetensors")
        assert (tmp_path / "run" / "state.safetensors").exists()

    def test_no_promise_where_nothing_was_kept(self, tmp_path: Path) -> None:
        with pytest.raises(StoppedError, match=r"^stopped at once$"):
            self.run_into(StoppedError("stopped at once"), tmp_path / "run", "state.jsonl")
        assert not (tmp_path / "run").exists()

    def test_kept_state_survives_another_error(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"^other$"):
            self.run_into(StoreError("other"), tmp_path / "run", "state.safetensors")
        assert (tmp_path / "run" / "state.safetensors").exists()

    @staticmethod
    def run_into(error: Exception, folder: Path, kept: str) -> None:
        with Checkpoints(folder, resume=False, say=print):
            (folder / kept).touch()
            raise error

    def test_a_new_run_moves_what_a_stopped_one_left_aside(self, tmp_path: Path) -> None:
        said: list[str] = []
        for number in (1, 2):
            (tmp_path / "run").mkdir()
            (tmp_path / "run" / "old.safetensors").touch()
            with Checkpoints(tmp_path / "run", resume=False, say=said.append):
                assert list((tmp_path / "run").iterdir()) == []
            assert (tmp_path / f"run.{number}" / "old.safetensors").exists()
        assert len(said) == 2 and "kept as" in said[0] and "run.1" in said[0]

    def test_a_log_alone_is_not_in_the_way(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "log.jsonl").touch()
        with Checkpoints(tmp_path / "run", resume=False, say=pytest.fail):
            pass
        assert list(tmp_path.iterdir()) == []

    def test_files_of_others_stay(self, tmp_path: Path) -> None:
        with Checkpoints(tmp_path / "run", resume=False, say=print):
            (tmp_path / "run" / "notes.txt").touch()
            (tmp_path / "run" / "log.jsonl").touch()
        assert [file.name for file in (tmp_path / "run").iterdir()] == ["notes.txt"]

    def test_resuming_needs_state_of_the_same_run(self, tmp_path: Path) -> None:
        with (
            pytest.raises(StoreError, match="nothing to resume"),
            Checkpoints(tmp_path / "run", resume=True, say=print),
        ):
            pytest.fail("entered")
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "abc-seed-0.json").touch()
        with (
            pytest.raises(StoreError, match="another run"),
            Checkpoints(tmp_path / "run", resume=True, run="xyz", say=print),
        ):
            pytest.fail("entered")
        with pytest.raises(StoppedError), Checkpoints(tmp_path / "run", resume=True, run="abc", say=print):
            raise StoppedError("again")
        assert (tmp_path / "run" / "abc-seed-0.json").exists()


class TestJsonLines:
    def test_appends(self, tmp_path: Path) -> None:
        log = JsonLines(tmp_path / "log.jsonl")
        log({"loss": 0.5}, 1)
        log({"loss": 0.25}, 2)
        lines = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line) for line in lines] == [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}]

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"cannot write .*its folder does not exist"):
            JsonLines(tmp_path / "absent" / "log.jsonl")({"loss": 0.5}, 1)


class TestStages:
    def test_the_beginning_and_the_seconds_are_told(self) -> None:
        said: list[str] = []
        with progress.stage(said.append, "reading"):
            assert said == ["reading"]
        assert len(said) == 2 and re.fullmatch(r"reading took \d+\.\d s", said[1])

    def test_no_stretch_is_silent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A service printed nothing for 82 seconds, and ended."""
        monkeypatch.setattr(progress, "_LINE_SECONDS", 0.01)
        said: list[str] = []
        heard = threading.Event()

        def tell(text: str) -> None:
            said.append(text)
            if "128 cells" in text:
                heard.set()

        with progress.stage(tell, "building an index") as detail:
            detail("128 cells")
            assert heard.wait(20)
        assert any(re.fullmatch(r"still building an index, .+: 128 cells", text) for text in said)

    def test_what_failed_has_not_taken_its_time(self) -> None:
        said: list[str] = []
        with pytest.raises(StoreError), progress.stage(said.append, "reading"):
            raise StoreError("nothing there")
        assert said == ["reading"]
