"""The section of metrics."""

from __future__ import annotations

import re

from report_pages import page


def test_the_comparison_marks_the_best_of_each_column(tmp_path):
    text = page(
        tmp_path,
        metrics={"mrr": 0.31, "auc": 0.9004, "brier": 0.2},
        peers={"cn": {"mrr": 0.4, "auc": 0.90041}, "mlp": {"mrr": float("nan"), "brier": 0.1}},
        protocol="80 / 10 / 10 <random>",
    )
    rows = dict(re.findall(r"<bdi>(\w+)</bdi></th>(.*?)</tr>", text))
    cells = {name: re.findall(r"<td>(.*?)</td>", row) for name, row in rows.items()}
    assert cells["yinyan"] == ["0.310", "<strong>0.900</strong>", "0.200"]
    assert cells["cn"] == ["<strong>0.400</strong>", "<strong>0.900</strong>", "–"]
    assert cells["mlp"] == ["–", "–", "<strong>0.100</strong>"]
    assert "Protocol: 80 / 10 / 10 &lt;random&gt;." in text
    assert "lower is better" in text
    assert "yinyan leads, alone or level, on 1 of 3 metrics." in text


def test_the_protocol_may_come_from_the_facts(tmp_path):
    text = page(tmp_path, metrics={"mrr": 0.3}, peers={"cn": {"mrr": 0.2}}, facts={"protocol": "temporal"})
    assert "Protocol: temporal." in text
