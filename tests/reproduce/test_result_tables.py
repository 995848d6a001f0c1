"""Pages of results: the published value, ours under each protocol, and what was not run."""

from __future__ import annotations

import json

import pytest
from small_recipes import TABLE, made_up, table

from yinyan.evaluation import PROTOCOLS
from yinyan.reproduce import Result
from yinyan.reproduce.result_tables import as_json, as_markdown, glance, spread_over_seeds

COMMAND = "yinyan reproduce small"


@pytest.fixture
def results() -> list[Result]:
    """The first row in full (50 and 52 on cora), of ours one run that diverged."""
    found = []
    for cell in table().cells():
        if cell.method == "cn":
            found.append(made_up(cell, 50.0 + 2 * cell.seed))
        elif (cell.protocol, cell.seed) == ("released", 0):
            found.append(made_up(cell, None, seconds=20.0))
        elif cell.protocol == "released":
            found.append(made_up(cell, 61.5, seconds=40.0))
    return found


def lines(page: str) -> list[list[str]]:
    return [[part.strip() for part in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]


class TestMarkdown:
    def test_the_table(self, results: list[Result]) -> None:
        head, _, *rows = lines(as_markdown(table(), results, COMMAND))[:5]
        assert head == ["data", "A small table", "paper (released)", "released", "clean", "seeds", "seconds a run"]
        assert rows == [
            ["cora", "common neighbours", "33.92 ± 0.46", "51.00 ± 1.41", "51.00 ± 1.41", "2", "2.0"],
            ["cora", "ours", "–", "61.50, 1 of 2 diverged", "not run", "0-2", "30"],
            ["citeseer", "common neighbours", "–", "", "50.00", "1", "2.0"],
        ]

    def test_the_rest_of_the_page(self, results: list[Result]) -> None:
        page = as_markdown(table(), results, COMMAND)
        assert page.startswith("# A small table\n\nTwo heuristics.\n\nHits@100 in per cent, mean ± standard deviation.")
        for name in ("released", "clean"):
            assert f"- *{name}*: {PROTOCOLS[name]}\n" in page
        assert "LEAKS" in page, "a column that leaks says so"
        assert "clean+val" not in page, "protocols that nobody uses are not explained"
        assert "\nMade by `yinyan reproduce small`.\n" in page

    def test_at_a_glance(self, results: list[Result]) -> None:
        """Published values stand beside ours only where they are of the same protocol."""
        *_, head, _, first, second = lines(as_markdown(table(), results, COMMAND))
        assert head == ["", "cora", "citeseer"]
        assert first == ["common neighbours", "51.0 ± 1.4", "50.0"]
        assert second == ["ours", "not run", ""]
        of_clean = table(TABLE.replace('source = "released"', 'source = "clean"'))
        assert lines(glance(of_clean, results, "clean"))[2] == ["common neighbours", "51.0 ± 1.4 (33.9)", "50.0"]
        assert lines(glance(table(), results, "released"))[3] == ["ours", "61.5, 1 of 2 diverged", ""]

    def test_a_row_names_the_protocol_of_its_published_values(self, results: list[Result]) -> None:
        """Values of another protocol than the table's are marked, and not set beside ours of that protocol."""
        text = TABLE.replace('source = "released"', 'source = "clean"')
        marked = table(text.replace('method = "cn"', 'method = "cn"\nsource = "clean+val"'))
        assert lines(as_markdown(marked, results, COMMAND))[2][2] == "33.92 ± 0.46 (clean+val)"
        assert lines(as_markdown(marked, results, COMMAND))[4][2] == "–", "nothing published, nothing to mark"
        assert lines(glance(marked, results, "clean"))[2] == ["common neighbours", "51.0 ± 1.4", "50.0"]
        rows = as_json(marked, results, COMMAND)["rows"]
        assert [row.get("published under") for row in rows] == ["clean+val", "clean+val", None]

    def test_a_further_metric_has_a_column_of_its_own(self) -> None:
        """Of the same runs: nothing is run for it."""
        text = TABLE.replace('metric = "hits@100"', 'metric = "ndcg@20"\nalso = ["recall@20"]')
        found = [
            made_up(cell, 50.0, figures={"ndcg@20": 0.5, "recall@20": 0.25 + 0.5 * cell.seed})
            for cell in table(text).cells()
            if cell.method == "cn"
        ]
        assert [c.digest for c in table(text).cells()] == [
            c.digest for c in table(text.replace('also = ["recall@20"]', "")).cells()
        ]
        page = as_markdown(table(text), found, COMMAND)
        head, _, first, second, *_ = lines(page)
        columns = [f"{protocol}, {name}@20" for protocol in ("released", "clean") for name in ("NDCG", "Recall")]
        assert head[3:7] == columns
        assert first[3:7] == ["50.00 ± 0.00", "50.00 ± 35.36"] * 2
        assert second[3:7] == ["not run"] * 4
        assert "NDCG@20 and Recall@20 in per cent" in page
        assert as_json(table(text), found, COMMAND)["also"] == ["recall@20"]

    def test_nothing_run(self) -> None:
        rows = lines(as_markdown(table(), [], COMMAND))[2:]
        assert rows[0][3:] == ["not run", "not run", "0", ""]

    def test_all_diverged(self) -> None:
        results = [made_up(cell, None) for cell in table().cells()]
        assert lines(as_markdown(table(), results, COMMAND))[2][3] == "2 of 2 diverged"


def test_json_carries_each_seed_and_its_protocol_in_full(results: list[Result]) -> None:
    found = json.loads(json.dumps(as_json(table(), results, COMMAND)))
    assert {k: found[k] for k in ("recipe", "title", "metric", "published under", "command")} == {
        "recipe": "small",
        "title": "A small table",
        "metric": "hits@100",
        "published under": "released",
        "command": COMMAND,
    }
    first, citeseer, ours = found["rows"]
    assert (first["row"], first["method"], first["data"]) == ("common neighbours", "cn", "cora")
    assert (first["expect"], first["spread"], first["settings"]) == (33.92, 0.46, {})
    assert [run["seed"] for run in first["results"]["clean"]] == [0, 1]
    assert first["results"]["clean"][1] == {
        "protocol": "cora / clean / 10 shared negatives / hits@100 / seed 1",
        "seed": 1,
        "figure": 52.0,
        "figures": {"hits@100": 0.52, "mrr": 0.25},
        "seconds": 2.0,
    }
    assert list(citeseer["results"]) == ["clean"] and citeseer["expect"] is None
    assert ours["settings"] == {"encoder": {"hidden_size": 16, "num_steps": 4}}
    diverged, fine = ours["results"]["released"]
    assert diverged["figure"] is None and diverged["failure"] == "the embeddings are not finite"
    assert fine["figure"] == 61.5 and "failure" not in fine
    assert ours["results"]["clean"] == []


def test_a_metric_of_a_place_stands_beside_its_data(results: list[Result]) -> None:
    own = table(TABLE.replace("on.citeseer = {", 'on.citeseer = { metric = "mrr",', 1))
    assert {cell.metric for cell in own.cells() if cell.data == "citeseer"} == {"mrr"}
    assert {cell.metric for cell in own.cells() if cell.data == "cora"} == {"hits@100"}
    page = as_markdown(own, results, COMMAND)
    assert "Hits@100 if none is named, in per cent" in page
    assert [row[0] for row in lines(page)[2:5]] == ["cora", "cora", "citeseer (MRR)"]


class TestSpreadOverSeeds:
    def test_of_one_row(self, results: list[Result]) -> None:
        mine = [r for r in results if (r.cell.method, r.cell.data, r.cell.protocol) == ("cn", "cora", "clean")]
        found = spread_over_seeds(list(reversed(mine)))
        assert found["hits@100"]["values"] == [0.5, 0.52]
        assert found["hits@100"]["mean"] == pytest.approx(0.51)
        assert found["hits@100"]["std"] == pytest.approx(0.0141, abs=1e-4)
        assert found["mrr"] == {"mean": 0.25, "std": 0.0, "values": [0.25, 0.25]}

    def test_one_seed_has_no_spread(self, results: list[Result]) -> None:
        assert spread_over_seeds(results[:1])["hits@100"] == {"mean": 0.5, "std": 0.0, "values": [0.5]}

    def test_of_several_rows_nothing_is_said(self, results: list[Result]) -> None:
        assert spread_over_seeds(results) == {}
        assert spread_over_seeds([]) == {}
