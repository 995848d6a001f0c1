"""The commands that ask a saved model: recommend, score, explain, info."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import yinyan
from command_line import ODD, TINY, refused, works, write_messy
from yinyan.text import percent

_MULTILINE = pa_csv.ParseOptions(newlines_in_values=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("questions")
    works("fit", write_messy(folder / "messy.csv"), "--out", folder / "model", *TINY, "-q")
    return folder / "model"


class TestRecommend:
    def test_rows_best_first_without_known_links(self, model: Path) -> None:
        rows = works("recommend", model, "🐼 panda", "line\nbreak", "-k", "3", "--json").json
        assert [row["rank"] for row in rows] == [1, 2, 3, 1, 2, 3]
        assert [row["source"] for row in rows] == ["🐼 panda"] * 3 + ["line\nbreak"] * 3
        assert rows[0]["score"] >= rows[1]["score"] >= rows[2]["score"]
        known = yinyan.LinkPredictor.load(model).graph_
        pairs = [known.ids.rows([row["source"], row["target"]]) for row in rows]
        assert not known.has_edges(pairs).any()

    def test_prints_every_row_and_escapes_line_breaks(self, model: Path) -> None:
        lines = works("recommend", model, "line\nbreak", "-k", "1000").out.splitlines()
        assert len(lines) == 1 + 29 - 6 + 1
        assert lines[0].split() == ["source", "target", "score", "rank", "probability"]
        assert all(line.startswith("line\\nbreak") for line in lines[1:-1])

    def test_states_how_sure_the_links_are(self, model: Path) -> None:
        """Once `recommend` printed no probability, and `best-links` one for a base rate of 1/2."""
        loaded = yinyan.LinkPredictor.load(model)
        for asked in (["recommend", model, "7", "-k", "3"], ["best-links", model, "-k", "3"]):
            line = works(*asked).out.splitlines()[-1]
            assert line.startswith(
                f"probability: at a base rate of {percent(loaded.base_rate_)} (as many missing edges "
            )
            assert " such links, " in line and line.endswith(("is a missing edge", "are missing edges"))
        rows = works("recommend", model, "7", "-k", "3", "--json").json
        chances = loaded.predict_proba([("7", row["target"]) for row in rows])
        assert [row["probability"] for row in rows] == pytest.approx(chances.tolist())

    def test_leading_zeros_are_kept_apart(self, model: Path) -> None:
        assert {row["source"] for row in works("recommend", model, "7", "007", "-k", "1", "--json").json} == {
            "7",
            "007",
        }

    def test_among_takes_the_first_column_whatever_its_name(self, model: Path, tmp_path: Path) -> None:
        path = tmp_path / "candidates.csv"
        path.write_text("x,source,target\np9,p1,p2\np10,p3,p4\n", encoding="utf-8")
        rows = works("recommend", model, "7", "--among", path, "--json").json
        assert {row["target"] for row in rows} == {"p9", "p10"}

    def test_rules(self, model: Path, tmp_path: Path) -> None:
        plain = [row["target"] for row in works("recommend", model, "7", "-k", "50", "--json").json]
        table = tmp_path / "pairs.csv"
        table.write_text(f'source,target\n7,"{plain[0]}"\n7,p3\n7,p4\n')
        rows = works("recommend", model, "7", "-k", "50", "--deny", table, "--json").json
        assert [row["target"] for row in rows] == [name for name in plain if name not in (plain[0], "p3", "p4")]
        rows = works("recommend", model, "7", "007", "-k", "50", "--allow", table, "--json").json
        assert {row["target"] for row in rows if row["source"] == "7"} <= {plain[0], "p3", "p4"}
        assert sum(row["source"] == "007" for row in rows) > 3, "other sources may be given anyone"
        works("recommend", model, "--all", "-k", "1", "--once", "node", "--out", tmp_path / "links.csv")
        ends = [end for row in pa_csv.read_csv(tmp_path / "links.csv", parse_options=_MULTILINE).to_pylist()
                for end in (row["source"], row["target"])]  # fmt: skip
        assert len(ends) == len(set(ends)) > 10
        assert "'once' needs to be 'target', 'node' or None" in refused("recommend", model, "7", "--once", "source")
        assert "need --engine local and a file" in refused(
            *("recommend", model, "--all", "--once", "node", "--out", tmp_path / "parts")
        )

    def test_among_without_a_header(self, model: Path, tmp_path: Path) -> None:
        path = tmp_path / "candidates.csv"
        path.write_text("p9\np10\n", encoding="utf-8")
        rows = works("recommend", model, "7", "--among", path, "--no-header", "--json").json
        assert {row["target"] for row in rows} == {"p9", "p10"}

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_all_to_a_file(self, kind: str, model: Path, tmp_path: Path) -> None:
        path = tmp_path / f"links.{kind}"
        ran = works("recommend", model, "--all", "-k", "2", "--out", path, "--json")
        assert ran.json == {"rows": 60, "file": str(path), "search": "exact", "recall": 1.0}
        read = pq.read_table(path) if kind == "parquet" else pa_csv.read_csv(path, parse_options=_MULTILINE)
        assert read.column_names == ["source", "target", "score", "rank", "probability"] and read.num_rows == 60
        assert "nodes 30/30" in ran.err
        assert [p.name for p in tmp_path.iterdir()] == [path.name]

    def test_some_to_a_file(self, model: Path, tmp_path: Path) -> None:
        path = tmp_path / "links.parquet"
        assert works("recommend", model, "7", "-k", "2", "--out", path).out == f"wrote 2 rows to '{path}'\n"
        said = works("recommend", model, "7", "-k", "2", "--out", path, "--json").json
        assert said == {"rows": 2, "file": str(path)}
        assert pq.read_table(path)["source"].to_pylist() == ["7", "7"]

    @pytest.mark.parametrize(
        ("arguments", "cure"),
        [
            ((), "--all"),
            (("7", "--all"), "one of the two"),
            (("--all",), "--out links.parquet"),
            (("--all", "--out", "links.txt"), "needs to end in .parquet, .csv, .jsonl"),
            (("--all", "--out", "absent/links.csv"), "create it first"),
            (("--all", "--out", "links.csv", "--among", "x.csv"), "exclude each other"),
            (("7", "-k", "0"), "positive integer"),
            (("nobody",), "is not in the graph"),
        ],
    )
    def test_what_it_refuses(self, arguments: tuple[str, ...], cure: str, model: Path) -> None:
        assert cure in refused("recommend", model, *arguments)


class TestScore:
    @pytest.fixture
    def pairs(self, tmp_path: Path) -> Path:
        path = tmp_path / "pairs.csv"
        path.write_text('to,from\n007,🐼 panda\n"O\'Neil, Ann",7\n', encoding="utf-8")
        return path

    def test_guesses_the_columns_by_their_names(self, model: Path, pairs: Path) -> None:
        answer = works("score", model, pairs, "--json").json
        assert answer["base_rate"] == yinyan.LinkPredictor.load(model).base_rate_
        assert [(p["source"], p["target"]) for p in answer["pairs"]] == [("🐼 panda", "007"), ("7", "O'Neil, Ann")]
        loaded = yinyan.LinkPredictor.load(model)
        expected = loaded.score([("🐼 panda", "007"), ("7", "O'Neil, Ann")])
        assert [p["score"] for p in answer["pairs"]] == pytest.approx(expected.tolist())

    def test_named_columns(self, model: Path, pairs: Path) -> None:
        answer = works("score", model, pairs, "--json", "--source", "to", "--target", "from").json
        assert [p["source"] for p in answer["pairs"]] == ["007", "O'Neil, Ann"]
        one = works("score", model, pairs, "--json", "--source", "to").json
        assert [p["target"] for p in one["pairs"]] == ["🐼 panda", "7"]

    def test_states_the_base_rate(self, model: Path, pairs: Path) -> None:
        head, *rows, sure = works("score", model, pairs, "--base-rate", "0.01").out.splitlines()
        assert head.endswith("probability") and len(rows) == 2
        assert sure.startswith("probability: at a base rate of 1 %; of ")
        assert "as many missing edges as" in works("score", model, pairs).out.splitlines()[-1]
        assert "between 0 and 1" in refused("score", model, pairs, "--base-rate", "2")

    def test_to_a_file(self, model: Path, pairs: Path, tmp_path: Path) -> None:
        path = tmp_path / "scores.csv"
        assert works("score", model, pairs, "--out", path, "--json").json == {"rows": 2, "file": str(path)}
        assert path.read_text(encoding="utf-8").startswith('"source","target","score","probability"')

    def test_a_blank_id_is_refused_by_its_row(self, model: Path, pairs: Path) -> None:
        pairs.write_text("from,to\n7,007\n7,\n", encoding="utf-8")
        assert "no id in row 2 of column 'to'" in refused("score", model, pairs)

    def test_an_unknown_id_is_refused_by_name(self, model: Path, pairs: Path) -> None:
        pairs.write_text("from,to\n7,007\n7,p99\n", encoding="utf-8")
        assert "node 'p99' is not in the graph" in refused("score", model, pairs)


class TestExplainAndInfo:
    def test_explain_adds_up(self, model: Path) -> None:
        answer = works("explain", model, "7", "007", "--json").json
        parts = sum(part["amount"] for part in answer["contributions"])
        assert answer["score"] == pytest.approx(answer["score_alone"] + parts + answer["residue"], abs=1e-4)
        assert {"neighbour", "end", "kind", "amount", "label"} == set(answer["contributions"][0])

    def test_explain_reads_well(self, model: Path) -> None:
        head, alone, columns, *rows = works("explain", model, "7", "007").out.splitlines()
        assert head.startswith("7 – 007: score ") and "probability" in head and head.endswith(" %")
        assert "without any message to or from either end" in alone
        assert "change of the score" in columns and len(rows) >= 6
        assert "two different nodes" in refused("explain", model, "7", "7")

    def test_info(self, model: Path) -> None:
        assert "30 nodes" in works("info", model).out
        facts = works("info", model, "--json").json
        assert facts["nodes"] == 30 and facts["settings"]["training"]["epochs"] == 2
        assert "no model directory" in refused("info", model / "absent")

    def test_the_library_reads_what_the_command_line_wrote(self, model: Path) -> None:
        loaded = yinyan.LinkPredictor.load(model)
        assert set(ODD) <= set(loaded.graph_.ids.take(range(30)))


def test_ids_that_the_terminal_cannot_spell_are_escaped(model: Path, tmp_path: Path) -> None:
    source = str(Path(yinyan.__file__).parents[1])
    environment = {"PYTHONPATH": source, "PYTHONIOENCODING": "latin-1", "PATH": "", "OMP_NUM_THREADS": "1"}
    base = [sys.executable, "-m", "yinyan", "recommend", str(model), "Łódź", "-k", "1"]
    plain = subprocess.run(base, env=environment, capture_output=True, cwd=tmp_path)
    assert plain.returncode == 0, plain.stderr
    assert b"\\u0141\xf3d\\u017a" in plain.stdout
    as_json = subprocess.run([*base, "--json"], env=environment, capture_output=True, cwd=tmp_path)
    assert json.loads(as_json.stdout)[0]["source"] == "Łódź"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--engine", "dask", "--all"], "--engine needs to be local or ray"),
        (["--shards", "2", "--all"], "--shards is an option of --engine ray"),
        (["--engine", "ray", "0"], "--engine ray answers for every node"),
        (["--engine", "ray", "--all", "--index", "--exact"], "--index and --exact exclude each other"),
    ],
)
def test_options_of_engines_that_do_not_fit_are_refused(given: list[str], said: str, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "links"] if "--all" in given else []
    assert said in refused("recommend", tmp_path, *given, *out)
