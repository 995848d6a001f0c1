"""The page as a whole."""

from __future__ import annotations

import re

import numpy as np
import pytest
from report_pages import DRAWN, SECTIONS, Outline, full_content, headings, page

from yinyan.errors import StoreError
from yinyan.reporting import ReportContent, write_report

HOSTILE = "<script>alert(1)</script>\"'&\n\x00\ud800 \U0001f98a </td>"


def test_a_title_alone_makes_a_page(tmp_path):
    text = page(tmp_path)
    assert headings(text) == ["A title"]
    assert "<section" not in text
    assert '<html lang="en">' in text


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_section_comes_with_its_data(tmp_path, heading):
    assert heading in headings(page(tmp_path, **SECTIONS[heading]))
    assert heading not in headings(page(tmp_path))


@pytest.mark.parametrize("heading", DRAWN)
def test_a_figure_comes_with_its_data(tmp_path, heading):
    pytest.importorskip("matplotlib")
    assert heading in headings(page(tmp_path, **DRAWN[heading]))


@pytest.mark.parametrize(
    "fields",
    [
        {"positive_scores": [1.0]},
        {"positive_scores": [1.0], "negative_scores": []},
        {"negative_probabilities": [0.1], "base_rate": 0.5},
        {"history": [{"epoch": 1}]},
        {"history": [{"epoch": 1, "repulsion": 0.1}]},
        {"energy": [1.0]},
        {"settings": {"encoder": {}}},
        {"points": np.zeros((0, 2))},
        {"best_epoch": 3},
    ],
)
def test_half_given_data_make_no_section(tmp_path, fields):
    assert "<section" not in page(tmp_path, **fields)


def test_texts_cannot_become_markup(tmp_path):
    pytest.importorskip("matplotlib")
    content = ReportContent(
        title=HOSTILE,
        subtitle=HOSTILE,
        generated=HOSTILE,
        name=HOSTILE,
        protocol=HOSTILE,
        facts={HOSTILE: HOSTILE},
        notes=[HOSTILE],
        metrics={HOSTILE: 0.5},
        peers={HOSTILE + "2": {HOSTILE: 0.4}},
        recommendations=[(HOSTILE, HOSTILE, 1.0, 0.5)],
        settings={HOSTILE: {HOSTILE: HOSTILE}},
    )
    write_report(tmp_path / "report.html", content)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    outline = Outline(text)
    assert not outline.open
    assert "script" not in {tag for tag, _ in outline.tags}
    assert "\x00" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;\n\ufffd\ufffd \U0001f98a") >= 14


def test_the_page_needs_nothing_else(tmp_path):
    write_report(tmp_path / "report.html", full_content())
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    outline = Outline(text)
    assert not outline.open
    addresses = set(re.findall(r"https?://[^\s\"']+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not {"script", "link", "iframe", "base"} & {tag for tag, _ in outline.tags}
    for _, attributes in outline.tags:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    assert "@import" not in text and not re.search(r"url\((?!#)", text)


def test_headings_descend_one_level_at_a_time(tmp_path):
    write_report(tmp_path / "report.html", full_content())
    tags = Outline((tmp_path / "report.html").read_text(encoding="utf-8")).tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))


def test_the_same_content_gives_the_same_bytes(tmp_path):
    content = full_content(4000)
    for name in ("one.html", "two.html"):
        write_report(tmp_path / name, content)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_a_failed_write_leaves_the_old_page(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(StoreError, match=r"report\.html.*free some space"):
        write_report(target, ReportContent("new"))
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StoreError, match="its folder does not exist"):
        write_report(tmp_path / "nowhere" / "report.html", ReportContent("t"))
