"""A training in Python is seen: its lines, its bar and the time left."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from contracts import planted_graph, tiny
from yinyan import Hooks, LinkPredictor, progress
from yinyan.errors import SettingsError
from yinyan.training import fit as fitting
from yinyan.training import showing


class Notebook(io.StringIO):
    """A stream as a kernel's."""


Notebook.__module__ = "ipykernel.iostream"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, forecast: float = 100.0, **options: Any) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(fitting, "forecast", lambda *given: forecast)
    LinkPredictor(**tiny()).fit(planted_graph(), **options)
    return stream.getvalue()


def test_verbose_prints_the_lines_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit of 399 s in Python printed nothing."""
    lines = shown(monkeypatch, io.StringIO(), verbose=True).splitlines()
    assert [line.split()[0] for line in lines] == ["model", "training", "memory", "time", "epoch"]
    assert lines[3] == "time       about 1 min 40 s"
    assert "valid hits@10%" in lines[-1] and " took " in lines[-1]
    assert shown(monkeypatch, io.StringIO(), verbose=False) == ""


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_long_run_is_never_silent(stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit of 399 s in a script whose output went to a file printed nothing."""
    text = shown(monkeypatch, stream())
    assert "model " in text and "about 1 min 40 s" in text and "epoch" in text
    assert shown(monkeypatch, stream(), forecast=9.9) == ""
    assert shown(monkeypatch, stream(), hooks=Hooks()) == ""  # whoever has hooks shows what they like
    assert "epoch" in shown(monkeypatch, stream(), hooks=Hooks(), verbose=True)


def test_a_run_that_takes_longer_than_its_forecast_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose forecast was short stayed silent however long it took."""
    monkeypatch.setattr(showing, "_LONG", 0.0)
    text = shown(monkeypatch, io.StringIO(), forecast=-1.0)
    assert [line.split()[0] for line in text.splitlines()] == ["model", "training", "memory", "time", "epoch"]

    clock = iter([0.0, 4.0, 8.0, 12.0])
    monkeypatch.setattr(showing, "_LONG", 10.0)
    monkeypatch.setattr(showing.time, "monotonic", lambda: next(clock))
    seen: list[Any] = []

    class Seen(progress.Progress):
        def start(self, title: str, total: int, done: float = 0) -> None:
            seen.append((title, total, done))

        def advance(self, done: float, text: str | None = "") -> None:
            seen.append((done, text))

        def note(self, text: str) -> None:
            seen.append(text)

    late = showing._OfLongRuns(Seen())
    late.note("early")
    late.start("epoch", 4)
    late.advance(1.0, "loss 1")
    assert seen == []
    late.advance(1.5, None)
    assert seen == ["early", ("epoch", 4, 1.5), (1.5, None)]


def test_without_a_console_nothing_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(fitting, "forecast", lambda *given: 100.0)
    assert LinkPredictor(**tiny()).fit(planted_graph(), verbose=True).fitted_ is not None


def test_hooks_are_called_beside_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs: list[int] = []
    text = shown(
        monkeypatch, io.StringIO(), verbose=True, hooks=Hooks(on_epoch=lambda record: epochs.append(record.epoch))
    )
    assert epochs == [1, 2, 3] and "epoch 3/3" in text


def test_anything_else_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"'verbose' needs to be True, False or 'auto' \(got 'yes'\)"):
        LinkPredictor(**tiny()).fit(planted_graph(), verbose="yes")  # type: ignore[arg-type]


class TestNotebook:
    @pytest.fixture
    def states(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
        """What a cell showed, one state after the other: how it came there, its text and its HTML."""
        display = pytest.importorskip("IPython.display")
        states: list[tuple[str, str, str]] = []

        class Handle:
            def display(self, shown: Any) -> None:
                states.append(("display", repr(shown), shown._repr_html_()))

            def update(self, shown: Any) -> None:
                states.append(("update", repr(shown), shown._repr_html_()))

        monkeypatch.setattr(display, "DisplayHandle", Handle)
        return states

    def test_one_block_is_shown_anew_within_an_epoch(
        self, monkeypatch: pytest.MonkeyPatch, states: list[tuple[str, str, str]]
    ) -> None:
        now = [0.0]
        monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
        stream = Notebook()
        bar = progress.show_progress(stream=stream)
        bar.note("model      <a model>")
        bar.start("epoch", 10)
        for done, text in ((0.5, None), (1, "loss 1.000"), (1.5, None)):
            now[0] += 10
            bar.advance(done, text)
        bar.finish()
        assert stream.getvalue() == "" and [way for way, _, _ in states] == ["display", *["update"] * 4]
        assert [text.split("\n")[-1] for _, text, _ in states] == [
            "model      <a model>",
            "epoch 0/10   3 min 10 s left",
            "epoch 1/10   3 min left   loss 1.000",
            "epoch 1/10   2 min 50 s left   loss 1.000",
            "epoch 1/10   loss 1.000   took 30 s",
        ]
        assert 'value="0.1500"' in states[3][2] and "&lt;a model&gt;" in states[3][2]
        assert "<progress" not in states[4][2] and "took 30 s" in states[4][2]

    def test_a_long_run_is_shown(self, monkeypatch: pytest.MonkeyPatch, states: list[tuple[str, str, str]]) -> None:
        assert shown(monkeypatch, Notebook()) == ""
        last = states[-1][1].splitlines()
        assert [line.split()[0] for line in last] == ["model", "training", "memory", "time", "epoch"]
        states.clear()
        assert shown(monkeypatch, Notebook(), forecast=9.9) == "" and states == []


class TestCtrlC:
    @pytest.fixture(autouse=True)
    def _usual_handler(self) -> Iterator[None]:
        """A process in the background of a shell starts with the signal ignored."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
        signal.signal(signal.SIGINT, before)

    def test_keep_best_keeps_what_there_is(self) -> None:
        """Ctrl-C in a notebook lost hours of training."""

        def interrupt(record: Any) -> None:
            if record.epoch == 2:
                os.kill(os.getpid(), signal.SIGINT)

        before = signal.getsignal(signal.SIGINT)
        longer = tiny(training={"epochs": 50, "patience": 0})
        model = LinkPredictor(**longer).fit(planted_graph(), hooks=Hooks(on_epoch=interrupt), keep_best=True)
        assert 2 <= len(model.fitted_.history) < 50 and len(model.recommend(0, k=3)) == 3
        assert signal.getsignal(signal.SIGINT) is before
        with pytest.raises(KeyboardInterrupt):
            LinkPredictor(**longer).fit(planted_graph(), hooks=Hooks(on_epoch=interrupt))

    def test_in_another_thread_hooks_stop_it(self) -> None:
        found: list[LinkPredictor] = []

        def work() -> None:
            hooks = Hooks(should_stop=lambda: True)
            found.append(LinkPredictor(**tiny()).fit(planted_graph(), hooks=hooks, keep_best=True))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found[0].fitted_.best_epoch == 0
