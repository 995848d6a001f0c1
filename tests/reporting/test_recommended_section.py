"""The section of recommended links."""

from __future__ import annotations

from report_pages import headings, page


def test_recommendations_make_a_table_without_a_map(tmp_path):
    text = page(tmp_path, recommendations=[("a", 7, 2.5, None), ("b", "007", 1.0, None)])
    assert "Recommended links" in headings(text)
    assert "probability" not in text
    assert "<bdi>a</bdi></td><td><bdi>7</bdi></td><td>2.50</td>" in text


def test_long_lists_say_how_long_they_are(tmp_path):
    text = page(tmp_path, recommendations=[(i, i, 0.0, 0.25) for i in range(1234)])
    assert text.count("25.0\N{NO-BREAK SPACE}%") == 100
    assert "The first 100 of 1,234" in text
