from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import Ran, works
from yinyan.cli.demo import MRR_WORDS, Citation, citation_table
from yinyan.errors import MissingExtraError

SMALL = tuple(
    part for text in ("training.epochs=1", "encoder.hidden_size=16", "decoder.width=16") for part in ("--set", text)
)


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
    assert set(answer["recall@10"]) == {"yinyan", "cn", "aa", "ra", "mlp"}
    assert all(0 <= share <= 1 for share in answer["recall@10"].values())
    assert set(answer["citations"][0]) == {"source", "target", "score", "probability", "hidden"}
    assert list(quick.iterdir()) == []


def test_reads_well_and_reports(quick: Path) -> None:
    ran = works("demo", *SMALL, "--report", "report.html")
    lines = ran.out.splitlines()
    assert re.fullmatch(
        r"\d+ citations of 200 papers were hidden\. Each method recommends 10 of all 2,708 papers .*", lines[0]
    )
    assert lines[1] == "Share of the hidden citations that are among the 10:"
    assert lines[3].split() == ["recall@10"]
    assert [line.split()[0] for line in lines[4:9]] == ["yinyan", "cn", "aa", "ra", "mlp"]
    assert all(re.search(r" \d+\.\d%", line) for line in lines[4:9])
    second = lines.index("cora, protocol 'clean', test links, seed 0")
    assert second == 10
    assert [line.split()[0] for line in lines[second + 2 : second + 7]] == ["yinyan", "cn", "aa", "ra", "mlp"]
    assert lines[second + 7] == MRR_WORDS
    table = lines.index("The ten new citations with the highest scores:") + 2
    assert lines[table].split()[:3] == ["paper", "paper", "score"]
    assert len(lines[table + 1 : -2]) == 10
    assert lines[-1] == "the report is in 'report.html'"
    assert "graph      2,708 nodes (integer ids), 5,278 edges, undirected, 1,433 node features" in ran.err
    page = (quick / "report.html").read_text(encoding="utf-8")
    assert "Missing citations of Cora" in page and "Adamic-Adar" in page and "no graph (MLP)" in page


def test_citations_say_which_were_hidden() -> None:
    rows = [Citation(1, 22, 3.14159, 0.98765, True), Citation(333, 4, -1.0, 0.5, False)]
    head, first, second = citation_table(rows).splitlines()
    assert head.split("  ")[-1] == "probability"
    assert first.split() == ["1", "22", "3.14", "0.988", "a", "hidden", "citation"]
    assert second.split() == ["333", "4", "-1.00", "0.500", "new"]
    assert rows[0]._asdict() == {"source": 1, "target": 22, "score": 3.14159, "probability": 0.98765, "hidden": True}
