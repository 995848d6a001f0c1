"""The page's colours."""

from __future__ import annotations

import re

from report_pages import full_content

from yinyan.reporting import write_report


def test_colours_follow_the_page(tmp_path):
    write_report(tmp_path / "report.html", full_content())
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert "var(--true, #0b6cae)" in text
    assert not re.search(r"#(010203|040506|070809|0a0b0c|0d0e0f|101112|131415)", text)
    assert not re.search(r"(fill|stroke): #000000", text)
