"""The plumbing of all figures."""

from __future__ import annotations

import sys

import pytest
from report_pages import Outline, full_content, headings, page

from yinyan.errors import MissingExtraError
from yinyan.reporting import ReportContent, write_report


def test_every_figure_has_its_own_ids_and_a_reading(tmp_path):
    write_report(tmp_path / "report.html", full_content())
    tags = Outline((tmp_path / "report.html").read_text(encoding="utf-8")).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 0
    drawings = [attributes for tag, attributes in tags if tag == "svg" and "aria-hidden" not in attributes]
    assert len(drawings) == 8
    assert all(drawing["role"] == "img" and len(drawing["aria-label"]) > 30 for drawing in drawings)
    assert sum(tag == "figcaption" for tag, _ in tags) == len(drawings)
    known = {f"#{name}" for name in ids}
    assert all(attributes["xlink:href"] in known for tag, attributes in tags if tag == "use")


def test_settings_of_matplotlib_do_not_leak_in_or_out(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    content = ReportContent("t", energy=[2.0, 1.0])
    write_report(tmp_path / "plain.html", content)
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30.0, "svg.hashsalt": "mine"}):
        write_report(tmp_path / "red.html", content)
        assert matplotlib.rcParams["svg.hashsalt"] == "mine"
    assert (tmp_path / "plain.html").read_bytes() == (tmp_path / "red.html").read_bytes()


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[plots\]'"):
        page(tmp_path, energy=[2.0, 1.0])
    assert list(tmp_path.iterdir()) == []
    assert "Result" in headings(page(tmp_path, metrics={"mrr": 0.5}))  # tables need no figures
