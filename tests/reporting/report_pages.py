"""Contents, and ways to read their pages, that the tests of the report share."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from yinyan.reporting import ReportContent, write_report

SECTIONS = {  # heading, and the fields that bring it
    "Result": {"metrics": {"hits@100": 0.87, "mrr": 0.31}},
    "Beside its peers": {"metrics": {"mrr": 0.31}, "peers": {"cn": {"mrr": 0.2}}},
    "Facts": {"facts": {"nodes": "2,708"}},
    "Guessed, merged or chosen": {"notes": ["Two links were merged."]},
    "Settings": {"settings": {"encoder": {"num_steps": 4}}},
}
DRAWN = {
    "Map of the nodes": {"points": [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], "links": [[0, 1]]},
    "Scores": {"positive_scores": [2.0, 3.0], "negative_scores": [0.0, 1.0]},
    "Are the probabilities right?": {
        "positive_probabilities": [0.9, 0.6],
        "negative_probabilities": [0.1, 0.6],
        "base_rate": 0.3,
    },
    "Loss": {"history": [{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.5}]},
    "Validation": {
        "history": [{"epoch": 1, "hits": 0.5, "auc": 0.6}, {"epoch": 2, "hits": None}],
        "best_epoch": 1,
    },
    "Repulsion": {"history": [{"epoch": 1, "repulsion": 0.1}, {"epoch": 2, "repulsion": 0.2}]},
    "Energy over the layers": {"energy": [3.0, 2.0, 1.5]},
}


def page(tmp_path, **fields) -> str:
    write_report(tmp_path / "report.html", ReportContent("A title", **fields))
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def headings(text: str) -> list[str]:
    return re.findall(r"<h[123]>(.*?)</h[123]>", text)


def full_content(num_nodes: int = 300) -> ReportContent:
    pytest.importorskip("matplotlib")
    generator = np.random.default_rng(0)
    fields = {name: value for part in (SECTIONS | DRAWN).values() for name, value in part.items()}
    fields |= {
        "positive_scores": generator.normal(2, 1, 4000),
        "negative_scores": generator.normal(0, 1, 9000),
        "points": generator.standard_normal((num_nodes, 2)),
        "point_labels": generator.integers(0, 12, num_nodes),
        "links": generator.integers(0, num_nodes, (2 * num_nodes, 2)),
        "predicted": generator.integers(0, num_nodes, (40, 2)),
        "recommendations": [(f"u{i}", f"v{i}", 3.0 - i / 40, 0.9) for i in range(40)],
        "history": [{"epoch": i, "loss": 1 / i, "hits": 0.5, "mrr": 0.1, "auc": 0.5} for i in range(1, 9)],
    }
    return ReportContent("Everything", "all sections", **fields)


class Outline(HTMLParser):
    """Tags with their attributes, and whether all were closed."""

    void = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
