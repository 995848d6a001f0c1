from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import yinyan
from command_line import TINY, Ran, refused, run, start, works, write_links

COMMANDS = ("fit", "evaluate", "recommend", "score", "explain", "info", "demo", "doctor")
ODD = ["O'Neil, Ann", 'say "hi"', "line\nbreak", "🐼 panda", "Łódź", " padded ", "007", "7", "-5", "a;b"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def messy(folder: Path) -> Path:
    """Odd ids, odd column names, repeated links, self loops, rows that lack an end."""
    names = [*ODD, *(f"p{i}" for i in range(20))]
    rows = [[a, names[(i + step) % len(names)], 1 + i % 3] for i, a in enumerate(names) for step in (1, 3, 7)]
    rows += [*rows[:5], ["007", "007", 1], ["", "7", 1], ["7", "", 1]]
    path = folder / "messy.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["Quelle (ID)", "Ziel, Name", "Rating"], *rows])
    return path


@pytest.fixture(scope="module")
def fitted(messy: Path, folder: Path) -> tuple[Path, Ran]:
    model = folder / "model"
    return model, works("fit", messy, "--out", model, *TINY)


@pytest.fixture(scope="module")
def model(fitted: tuple[Path, Ran]) -> Path:
    return fitted[0]


def outside(*arguments: object, cwd: Path) -> tuple[int, str, str]:
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


class TestHelp:
    def test_answers_within_half_a_second(self, tmp_path: Path) -> None:
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            code, out, _ = outside("--help", cwd=tmp_path)
            times.append(time.perf_counter() - begun)
            assert code == 0
        assert all(command in out for command in COMMANDS)
        assert min(times) < 0.5

    def test_imports_neither_torch_nor_numpy_nor_arrow(self) -> None:
        source = str(Path(yinyan.__file__).parents[1])
        script = (
            f"import sys; sys.path.insert(0, {source!r})\n"
            "from yinyan.cli import main\n"
            "try:\n    main(['fit', '--help'])\n"
            "except SystemExit:\n    pass\n"
            "print(sorted({name.split('.')[0] for name in sys.modules} & {'torch', 'numpy', 'pyarrow', 'pandas'}))\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"

    @pytest.mark.parametrize("command", COMMANDS)
    def test_shows_every_flag_whole_on_a_narrow_terminal(self, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("TERMINAL_WIDTH", "80")
        assert "…" not in works(command, "--help").out

    def test_version(self) -> None:
        assert works("--version").out == f"yinyan {yinyan.__version__}\n"

    def test_a_misspelt_flag_is_a_usage_error_with_a_hint(self, messy: Path) -> None:
        ran = run("fit", messy, "--epohcs", "3")
        assert ran.code == 2
        assert "--epochs" in ran.err and ran.out == ""


class TestFit:
    def test_says_what_was_read_on_standard_error(self, fitted: tuple[Path, Ran]) -> None:
        err = fitted[1].err
        assert "30 nodes (text ids)" in err
        assert "source column 'Quelle (ID)', target column 'Ziel, Name', weight column 'Rating' (guessed)" in err
        assert "dropped 2 rows of messy.csv without both ends" in err
        assert "dropped 1 self loop" in err and "merged 5 repeated edges" in err
        assert "epoch 2/2, loss" in err

    def test_says_what_came_of_it_on_standard_output(self, fitted: tuple[Path, Ran]) -> None:
        lines = fitted[1].out.splitlines()
        assert len(lines) == 3
        assert lines[0].startswith("validation on 9 held-out links, weights of epoch ")
        assert lines[1] == f"saved the model in '{fitted[0]}'"
        assert lines[2].startswith(f"next: yinyan recommend {fitted[0]} 'O'\"'\"'Neil, Ann', or yinyan evaluate")

    def test_the_next_command_it_names_works(self, tmp_path: Path) -> None:
        links = tmp_path / "numbers.csv"
        links.write_text("a,b\n" + "".join(f"-{i + 1},-{(i + s) % 20 + 1}\n" for i in range(20) for s in (1, 3, 5)))
        out = works("fit", links, "--out", tmp_path / "m", *TINY, "--quiet").out
        assert f"next: yinyan recommend {tmp_path / 'm'} -- -1," in out
        assert works("recommend", tmp_path / "m", "--", "-1").out.splitlines()[1].startswith("-1 ")

    def test_json_is_the_only_thing_on_standard_output(self, messy: Path, tmp_path: Path) -> None:
        ran = works("fit", messy, "--out", tmp_path / "m", *TINY, "--json", "--seed", "3")
        assert ran.json["model"] == str(tmp_path / "m")
        assert (ran.json["protocol"], ran.json["seed"]) == ("holdout", 3)
        assert set(ran.json["validation"]) >= {"hits@10%", "mrr", "auc", "ap"}
        assert "epoch 2/2" in ran.err

    def test_quiet_leaves_standard_error_empty(self, messy: Path, tmp_path: Path) -> None:
        assert works("fit", messy, "--out", tmp_path / "m", *TINY, "-q").err == ""

    def test_leaves_no_checkpoint_behind(self, messy: Path, tmp_path: Path) -> None:
        works("fit", messy, "--out", tmp_path / "m", *TINY, "-q")
        assert [p.name for p in tmp_path.iterdir()] == ["m"]

    def test_into_the_current_directory(self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        place = tmp_path / "here"
        place.mkdir()
        monkeypatch.chdir(place)
        works("fit", messy, "--out", ".", *TINY, "-q")
        assert works("info", place, "--json").json["nodes"] == 30

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_node_table(self, kind: str, messy: Path, tmp_path: Path) -> None:
        names = [*ODD, *(f"p{i}" for i in range(20))]
        columns = {
            "name": names,
            "age": [None if i % 7 == 0 else 20 + i for i in range(30)],
            "colour": [("red", "blue", None)[i % 3] for i in range(30)],
        }
        table, path = pa.table(columns), tmp_path / f"nodes.{kind}"
        pq.write_table(table, path) if kind == "parquet" else pa_csv.write_csv(table, path)
        ran = works("fit", messy, "--nodes", path, "--node-id", "name", "--out", tmp_path / "m", *TINY)
        assert "column 'age': 5 missing values" in ran.err
        assert "column 'colour': 10 missing values" in ran.err
        assert "5 features" in ran.err
        one = works("fit", messy, "--nodes", path, "--node-id", "0", "--feature", "age", "--out", tmp_path / "m", *TINY)
        assert "2 features" in one.err

    def test_bipartite_with_the_same_integers_on_both_sides(self, tmp_path: Path) -> None:
        path = tmp_path / "ratings.csv"
        pairs = [(u, (u * 3 + s) % 15, 1 + s % 5) for u in range(20) for s in range(5)]
        path.write_text("user,item,rating\n" + "".join(f"{u},{i},{r}\n" for u, i, r in pairs), encoding="utf-8")
        common = ("fit", path, "--bipartite", "--out", tmp_path / "m", *TINY)
        assert "--prefixes" in refused(*common)
        ran = works(*common, "--prefixes", "user:,item:")
        assert "sides of 20 and 15 nodes" in ran.err
        rows = works("recommend", tmp_path / "m", "user:3", "-k", "100", "--json").json
        assert len(rows) == 10 and all(row["target"].startswith("item:") for row in rows)

    def test_directed(self, tmp_path: Path) -> None:
        path = write_links(tmp_path / "links.csv")
        assert "Directed graph" in works("fit", path, "--directed", "--out", tmp_path / "m", *TINY).err
        pairs = tmp_path / "pairs.csv"
        pairs.write_text("source,target\nn1,n2\nn2,n1\n", encoding="utf-8")
        there, back = works("score", tmp_path / "m", pairs, "--json").json["pairs"]
        assert there["score"] != back["score"]

    @pytest.mark.parametrize("comment", ["", "# Nodes: 40 Edges: 160\n# FromNodeId\tToNodeId\n"])
    def test_whitespace_edge_list_without_a_header(self, comment: str, tmp_path: Path) -> None:
        path = tmp_path / "snap.txt"
        path.write_text(comment + "".join(f"{i}\t{(i + s) % 40}\n" for i in range(40) for s in (1, 2, 5, 7)))
        flags = ("--no-header", "--id-type", "integer", "--out", tmp_path / "m", *TINY)
        assert "40 nodes (integer ids), 160 edges" in works("fit", path, *flags).err
        assert works("recommend", tmp_path / "m", "7", "-k", "1", "--json").json[0]["source"] == 7

    def test_weights_can_be_left_unused(self, messy: Path, tmp_path: Path) -> None:
        ran = works("fit", messy, "--no-weight", "--out", tmp_path / "m", *TINY)
        assert "weight" not in ran.err

    def test_settings_are_checked_before_the_table_is_read(self, tmp_path: Path) -> None:
        assert "training.epochs" in refused("fit", tmp_path / "absent.csv", "--epochs", "0")
        assert "'device' needs to be" in refused("fit", tmp_path / "absent.csv", "--device", "abacus")

    def test_a_place_that_cannot_be_written_is_refused_in_one_line(self, messy: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("kept")
        assert "is a file" in refused("fit", messy, "--out", tmp_path / "file", *TINY)
        assert "cannot write" in refused("fit", messy, "--out", tmp_path / "file" / "model", *TINY)
        assert (tmp_path / "file").read_text() == "kept"

    def test_report(self, messy: Path, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        page = tmp_path / "new" / "report.html"
        ran = works("fit", messy, "--out", tmp_path / "m", *TINY, "-q", "--report", page)
        assert f"the report in '{page}'" in ran.out
        check_report(page, "Links of messy.csv", "AUC", "MRR")


class TestEvaluate:
    def test_stands_beside_the_heuristics(self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        ran = works("evaluate", messy, *TINY)
        lines = ran.out.splitlines()
        assert lines[0] == "messy, protocol 'clean', test links, seed 0"
        assert lines[1].split() == ["hits@100", "mrr", "auc", "ap"]
        assert [line.split()[0] for line in lines[2:6]] == ["yinyan", "cn", "aa", "ra"]
        assert lines[6] == "hits@100 says nothing here: there are only 18 test non-links"
        assert list(tmp_path.iterdir()) == []

    def test_json_of_several_seeds(self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        ran = works("evaluate", messy, *TINY, "--seeds", "2", "--seed", "5", "--protocol", "clean+val", "--json")
        assert ran.json["seeds"] == [5, 6] and ran.json["protocol"] == "clean+val"
        assert set(ran.json["peers"]) == {"cn", "aa", "ra"}
        auc = ran.json["values"]["auc"]
        assert ran.json["metrics"]["auc"] == pytest.approx(sum(auc) / 2)
        assert ran.err.count("chosen: no features") == 1, "what every seed chooses is said once"

    def test_an_unknown_protocol_leaves_nothing_behind(
        self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert "clean, clean+val" in refused("evaluate", messy, *TINY, "--protocol", "dirty")
        assert list(tmp_path.iterdir()) == []

    def test_report(self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("matplotlib")
        monkeypatch.chdir(tmp_path)
        ran = works("evaluate", messy, *TINY, "-q", "--report", "report.html")
        assert ran.out.splitlines()[-1] == "the report is in 'report.html'"
        check_report(tmp_path / "report.html", "Links of messy.csv", "AUC", "Adamic")


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
        assert len(lines) == 1 + 29 - 6
        assert lines[0].split() == ["source", "target", "score", "rank"]
        assert all(line.startswith("line\\nbreak") for line in lines[1:])

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

    def test_among_without_a_header(self, model: Path, tmp_path: Path) -> None:
        path = tmp_path / "candidates.csv"
        path.write_text("p9\np10\n", encoding="utf-8")
        rows = works("recommend", model, "7", "--among", path, "--no-header", "--json").json
        assert {row["target"] for row in rows} == {"p9", "p10"}

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_all_to_a_file(self, kind: str, model: Path, tmp_path: Path) -> None:
        path = tmp_path / f"links.{kind}"
        ran = works("recommend", model, "--all", "-k", "2", "--out", path, "--json")
        assert ran.json == {"rows": 60, "file": str(path)}
        read = pq.read_table(path) if kind == "parquet" else pa_csv.read_csv(path, parse_options=_MULTILINE)
        assert read.column_names == ["source", "target", "score", "rank"] and read.num_rows == 60
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
            (("--all", "--out", "links.txt"), ".parquet or .csv"),
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
        assert answer["base_rate"] == 0.5
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
        head, *rows = works("score", model, pairs, "--base-rate", "0.01").out.splitlines()
        assert head.endswith("probability at base rate 0.01") and len(rows) == 2
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


class TestExplainInfoDoctor:
    def test_explain_adds_up(self, model: Path) -> None:
        answer = works("explain", model, "7", "007", "--json").json
        parts = sum(part["amount"] for part in answer["contributions"])
        assert answer["score"] == pytest.approx(answer["score_alone"] + parts + answer["residue"], abs=1e-4)
        assert {"neighbour", "end", "kind", "amount"} == set(answer["contributions"][0])

    def test_explain_reads_well(self, model: Path) -> None:
        head, alone, columns, *rows = works("explain", model, "7", "007").out.splitlines()
        assert head.startswith("7 – 007: score ") and head.endswith("at base rate 0.5")
        assert "without any message to or from either end" in alone
        assert "moved the score by" in columns and len(rows) >= 6
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


_MULTILINE = pa_csv.ParseOptions(newlines_in_values=True)


def check_report(page: Path, *mentioned: str) -> None:
    """One file, whole, that fetches nothing."""
    text = page.read_text(encoding="utf-8")
    assert text.lower().startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    for part in mentioned:
        assert part in text
    for fetched in ('src="http', "src='http", '<link rel="stylesheet"', "@import", "<script src", 'href="http'):
        assert fetched not in text
