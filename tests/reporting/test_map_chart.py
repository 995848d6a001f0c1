"""The map."""

from __future__ import annotations

import pytest
from report_pages import full_content, page

from yinyan.reporting import write_report


def test_a_large_map_becomes_an_image_and_the_file_stays_small(tmp_path):
    write_report(tmp_path / "small.html", full_content(3000))
    write_report(tmp_path / "large.html", full_content(60_000))
    assert "data:image/png" not in (tmp_path / "small.html").read_text(encoding="utf-8")
    assert "data:image/png" in (tmp_path / "large.html").read_text(encoding="utf-8")
    assert (tmp_path / "large.html").stat().st_size < 2_000_000


@pytest.mark.parametrize(
    "fields",
    [
        {"points": [[0.0, 0.0]]},
        {"points": [[5.0, 5.0]] * 4, "predicted": [[0, 1]] * 30},
        {"points": [[0.0, 0.0], [1.0, 0.0]], "predicted": [[0, 1]]},
    ],
)
def test_maps_of_coinciding_or_few_nodes_are_drawn(tmp_path, fields):
    pytest.importorskip("matplotlib")
    assert "<figure" in page(tmp_path, **fields)
