from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from command_line import Ran, works
from contracts import planted_graph, tiny
from yinyan.demo import Citation, citation_table, hidden_among_best
from yinyan.errors import MissingExtraError
from yinyan.evidence import NewLink
from yinyan.predictor import LinkPredictor
from yinyan.protocol import evaluate

SMALL = ("--epochs", "1", "--hidden-size", "16", "--decoder-width", "16")


@pytest.fixture(scope="module")
def cora() -> None:
    from yinyan.datasets import bundled_cora

    try:
        bundled_cora()
    except MissingExtraError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def quick(cora: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_json_has_what_was_promised(quick: Path) -> None:
    ran: Ran = works("demo", *SMALL, "--quiet", "--json", "--seed", "2")
    answer = ran.json
    assert ran.err == ""
    assert (answer["dataset"], answer["protocol"], answer["seed"]) == ("cora", "clean", 2)
    assert set(answer["metrics"]) >= {"hits@100", "mrr", "auc"}
    assert set(answer["peers"]) == {"cn", "aa", "ra", "mlp"}
    for figures in (answer["metrics"], *answer["peers"].values()):
        assert all(0 <= figures[name] <= 1 for name in ("hits@100", "mrr", "auc"))
    assert len(answer["citations"]) == 10
    assert set(answer["citations"][0]) == {"source", "target", "score", "probability", "hidden"}
    assert list(quick.iterdir()) == []


def test_reads_well_and_reports(quick: Path) -> None:
    pytest.importorskip("matplotlib")
    ran = works("demo", *SMALL, "--report", "report.html")
    lines = ran.out.splitlines()
    assert lines[0] == "cora, protocol 'clean', test links, seed 0"
    assert [line.split()[0] for line in lines[2:7]] == ["yinyan", "cn", "aa", "ra", "mlp"]
    table = lines.index("Ten recommended citations, of which the model was shown none:") + 2
    assert lines[table].split()[:3] == ["paper", "paper", "score"]
    assert len(lines[table + 1 : -4]) == 10
    assert re.fullmatch(
        r"Of \d+ hidden citations of 200 papers, \d+ \(\d+%\) are among the ten .* out of 2,708\.", lines[-3]
    )
    assert lines[-1] == "the report is in 'report.html'"
    assert "Cora. Undirected graph: 2,708 nodes" in ran.err
    page = (quick / "report.html").read_text(encoding="utf-8")
    assert "Missing citations of Cora" in page and "Adamic-Adar" in page and "no graph (MLP)" in page


def test_citations_say_which_were_hidden() -> None:
    rows = [Citation(NewLink(1, 22, 3.14159, 0.98765), True), Citation(NewLink(333, 4, -1.0, 0.5), False)]
    head, first, second = citation_table(rows).splitlines()
    assert head.split("  ")[-1] == "probability at base rate 0.5"
    assert first.split() == ["1", "22", "3.14", "0.988", "a", "hidden", "citation"]
    assert second.split() == ["333", "4", "-1.00", "0.500", "new"]
    assert rows[0].to_dict() == {"source": 1, "target": 22, "score": 3.14159, "probability": 0.98765, "hidden": True}


def test_hidden_links_are_counted_from_either_end() -> None:
    graph = planted_graph(size=10, inside=0.4)
    evaluation = evaluate(graph, seeds=(0,), model=LinkPredictor(**tiny()))
    split = evaluation.results[0].split
    assert split is not None
    ends = np.unique(split.test_targets)
    everything = hidden_among_best(evaluation, k=graph.num_nodes)
    assert everything.found == everything.hidden == 2 * len(split.test_targets)  # each asked from both ends
    assert everything.papers == len(ends)
    assert hidden_among_best(evaluation, k=1).found <= len(ends) < everything.hidden
