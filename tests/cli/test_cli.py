from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import yinyan
from command_line import MESSY, TINY, Ran, refused, run, start, works, write_links, write_messy

COMMANDS = (
    *("fit", "evaluate", "recommend", "score", "explain", "info", "demo", "doctor", "check"),
    *("index", "best-links", "similar", "audit", "reproduce", "methods", "datasets", "settings", "tune"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def messy(folder: Path) -> Path:
    return write_messy(folder / "messy.csv")


@pytest.fixture(scope="module")
def fitted(messy: Path, folder: Path) -> tuple[Path, Ran]:
    model = folder / "model"
    return model, works("fit", messy, "--out", model, *TINY)


def outside(*arguments: object, cwd: Path) -> tuple[int, str, str]:
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


class TestHelp:
    def test_answers_within_half_a_second(self, tmp_path: Path) -> None:
        times = [9.0]
        while min(times) >= 0.5 and len(times) <= 10:  # a busy machine gets some tries
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
            "for command in ('fit', 'evaluate', 'audit', 'reproduce'):\n"
            "    try:\n        main([command, '--help'])\n"
            "    except SystemExit:\n        pass\n"
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
        ran = run("fit", messy, "--reprot", "page.html")
        assert ran.code == 2
        assert "--report" in ran.err and ran.out == ""

    @pytest.mark.parametrize("command", COMMANDS)
    def test_fits_on_two_screens(self, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setenv("TERMINAL_WIDTH", "100")
        lines = works(command, "--help").out.splitlines()
        assert len(lines) <= 100  # of 50 lines: commands that read tables have more than forty options
        assert not any("num-steps" in line or "--epochs" in line for line in lines)


class TestFit:
    def test_says_what_was_read_on_standard_error(self, fitted: tuple[Path, Ran]) -> None:
        err = fitted[1].err
        assert err.startswith("graph      30 nodes (text ids), 90 edges, undirected, edge weights, no node features\n")
        assert "columns    source = 'Quelle (ID)', target = 'Ziel, Name', weight = 'Rating' (guessed)\n" in err
        assert "dropped 2 rows of messy.csv without both ends" in err
        assert "dropped 1 self loop" in err and "merged 5 repeated edges" in err
        assert "model      learned node embeddings (8), 6 propagation steps in 8 dimensions, 128-dimensional" in err
        assert "training   up to 2 epochs, 3 steps each, InfoNCE with 8 negatives per edge\n" in err
        assert "memory     about " in err
        assert re.search(r"^epoch 2/2   loss \d\.\d{3}   valid hits@10% \d\.\d{3}   auc \d\.\d{3}   took ", err, re.M)

    def test_says_what_came_of_it_on_standard_output(self, fitted: tuple[Path, Ran]) -> None:
        lines = fitted[1].out.splitlines()
        assert len(lines) == 3
        assert lines[0].startswith("validation on 9 held-out edges, weights of epoch ")
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
        columns = {
            "name": MESSY,
            "age": [None if i % 7 == 0 else 20 + i % 11 for i in range(30)],
            "colour": [("red", "blue", None)[i % 3] for i in range(30)],
        }
        table, path = pa.table(columns), tmp_path / f"nodes.{kind}"
        pq.write_table(table, path) if kind == "parquet" else pa_csv.write_csv(table, path)
        ran = works("fit", messy, "--nodes", path, "--node-id", "name", "--out", tmp_path / "m", *TINY)
        assert "column 'age': 5 missing values" in ran.err
        assert "column 'colour': 10 missing values" in ran.err
        assert "5 node features" in ran.err
        one = works("fit", messy, "--nodes", path, "--node-id", "0", "--feature", "age", "--out", tmp_path / "m", *TINY)
        assert "2 node features" in one.err

    def test_bipartite_with_the_same_integers_on_both_sides(self, tmp_path: Path) -> None:
        path = tmp_path / "ratings.csv"
        pairs = [(u, (u * 3 + s) % 15, 1 + s % 5) for u in range(20) for s in range(5)]
        path.write_text("user,item,rating\n" + "".join(f"{u},{i},{r}\n" for u, i, r in pairs), encoding="utf-8")
        common = ("fit", path, "--bipartite", "--out", tmp_path / "m", *TINY)
        assert "--prefixes" in refused(*common)
        ran = works(*common, "--prefixes", "user:,item:")
        assert "bipartite (20 and 15 nodes)" in ran.err
        rows = works("recommend", tmp_path / "m", "user:3", "-k", "100", "--json").json
        assert len(rows) == 10 and all(row["target"].startswith("item:") for row in rows)

    def test_directed(self, tmp_path: Path) -> None:
        path = write_links(tmp_path / "links.csv")
        assert ", directed, " in works("fit", path, "--directed", "--out", tmp_path / "m", *TINY).err
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
        assert "training.epochs" in refused("fit", tmp_path / "absent.csv", "--set", "training.epochs=0")
        assert "'device' needs to be" in refused("fit", tmp_path / "absent.csv", "--device", "abacus")

    def test_a_place_that_cannot_be_written_is_refused_in_one_line(self, messy: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("kept")
        assert "is a file" in refused("fit", messy, "--out", tmp_path / "file", *TINY)
        assert "cannot write" in refused("fit", messy, "--out", tmp_path / "file" / "model", *TINY)
        assert (tmp_path / "file").read_text() == "kept"

    def test_report(self, messy: Path, tmp_path: Path) -> None:
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
        assert lines[1].split() == ["hits@1", "mrr", "auc", "ap"]
        assert [line.split()[0] for line in lines[2:6]] == ["yinyan", "cn", "aa", "ra"]
        assert len(lines) == 6
        assert list(tmp_path.iterdir()) == []

    def test_json_of_several_seeds(self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        ran = works("evaluate", messy, *TINY, "--seeds", "2", "--seed", "5", "--protocol", "clean+val", "--json")
        assert ran.json["seeds"] == [5, 6] and ran.json["protocol"] == "clean+val"
        assert set(ran.json["peers"]) == {"cn", "aa", "ra"}
        auc = ran.json["values"]["auc"]
        assert ran.json["metrics"]["auc"] == pytest.approx(sum(auc) / 2)
        assert ran.err.count("model      learned node embeddings") == 1, "what every seed shares is printed once"

    def test_beside_other_peers(self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        ran = works("evaluate", messy, *TINY, "--peers", "jaccard, mlp", "--json")
        assert list(ran.json["peers"]) == ["jaccard", "mlp"]
        assert "mlp, seed 0, epoch 2/2" in ran.err and "jaccard" not in ran.err
        assert ran.err.count("model      ") == 1, "peers have their names only"
        table = works("evaluate", messy, *TINY, "--peers", "", "-q").out.splitlines()
        assert [line.split()[0] for line in table[2:]] == ["yinyan"]

    def test_among_hard_negatives(self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        ran = works("evaluate", messy, *TINY, "--negatives", "hard", "-q", "--report", "report.html")
        lines = ran.out.splitlines()
        assert lines[0].startswith("messy, protocol 'clean-hard', test links") and "mrr" in lines[1].split()[0]
        assert "clean-hard" in (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "'negatives' needs to be 'hard'" in refused("evaluate", tmp_path / "absent.csv", "--negatives", "soft")

    def test_an_unknown_peer_is_refused_before_the_table_is_read(self, tmp_path: Path) -> None:
        said = refused("evaluate", tmp_path / "absent.csv", "--peers", "cn,mpl")
        assert "there is no method 'mpl' (nearest: 'mlp'" in said

    def test_links_are_ranked_among_all_nodes(
        self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        ran = works("evaluate", messy, *TINY, "--peers", "cn", "--full-ranking", "--ranked", "5", "--json")
        names = ["full-mrr", "ndcg@10", "recall@10"]
        assert list(ran.json["metrics"])[:3] == list(ran.json["peers"]["cn"])[:3] == names

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (["--engine", "ray"], "--engine ray is an option of --full-ranking"),
            (["--ranked", "5"], "--ranked is an option of --full-ranking"),
            (["--full-ranking", "--shards", "2"], "--shards is an option of --engine ray"),
            (["--full-ranking", "--engine", "dask"], "--engine needs to be local or ray (got 'dask')"),
        ],
    )
    def test_options_of_a_full_ranking_that_do_not_fit_are_refused(
        self, given: list[str], said: str, tmp_path: Path
    ) -> None:
        assert said in refused("evaluate", tmp_path / "absent.csv", *given)

    def test_a_protocol_that_leaks_says_so(self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        lines = works("evaluate", messy, *TINY, "--protocol", "released", "-q").out.splitlines()
        assert lines[0].startswith("messy, protocol 'released'") and lines[-1].startswith("LEAKS: ")

    def test_a_protocol_that_the_table_cannot_have(
        self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert "needs the times" in refused("evaluate", messy, *TINY, "--protocol", "temporal")
        assert "needs data that come with a split" in refused("evaluate", messy, *TINY, "--protocol", "official")
        assert list(tmp_path.iterdir()) == []

    def test_an_unknown_protocol_leaves_nothing_behind(
        self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert "clean, clean+val" in refused("evaluate", messy, *TINY, "--protocol", "dirty")
        assert list(tmp_path.iterdir()) == []

    def test_report(self, messy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        ran = works("evaluate", messy, *TINY, "-q", "--report", "report.html")
        assert ran.out.splitlines()[-1] == "the report is in 'report.html'"
        check_report(tmp_path / "report.html", "Links of messy.csv", "AUC", "Adamic")


def check_report(page: Path, *mentioned: str) -> None:
    """One file, whole, that fetches nothing."""
    text = page.read_text(encoding="utf-8")
    assert text.lower().startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    for part in mentioned:
        assert part in text
    for fetched in ('src="http', "src='http", '<link rel="stylesheet"', "@import", "<script src", 'href="http'):
        assert fetched not in text
