"""The commands that build an index of a saved model, ask it, and mine a whole graph."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from command_line import TINY, refused, works, write_links
from yinyan import LinkPredictor
from yinyan.retrieval import building, choice


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    works("fit", write_links(folder / "links.csv", nodes=300), "--out", folder / "model", *TINY, "--quiet")
    return folder / "model"


def test_builds_says_and_keeps(saved: Path) -> None:
    ran = works("index", saved, "--kind", "flashlight", "--recall", "0.8", "-k", "5")
    assert "flashlight index of 300 nodes: recall@1" in ran.out and "recall@5 " in ran.out
    said = works("index", saved, "--kind", "flashlight", "--recall", "0.8", "-k", "5", "--json", "--quiet").json
    assert said["kind"] == "flashlight" and said["k"] == 5 and 0 <= said["recall"] <= 1
    assert (saved / "index.safetensors").is_file()
    index = LinkPredictor.load(saved).load_index(saved)
    assert index.metadata.to_dict() == said


def test_asks_the_index(saved: Path, tmp_path: Path) -> None:
    assert works("index", saved, "--kind", "exact", "--json", "--quiet").json["recall"] == 1
    plain, by_index = (works("recommend", saved, "n1", "n2", "--json", *flag).json for flag in ((), ("--index",)))
    assert plain == by_index
    works("recommend", saved, "--all", "--index", "-k", "2", "--out", tmp_path / "a.parquet", "--quiet")
    works("recommend", saved, "--all", "-k", "2", "--out", tmp_path / "b.parquet", "--quiet")
    assert pq.read_table(tmp_path / "a.parquet").equals(pq.read_table(tmp_path / "b.parquet"))
    best = works("best-links", saved, "-k", "4", "--json", "--quiet").json
    assert best == works("best-links", saved, "-k", "4", "--index", "--json", "--quiet").json
    assert [set(link) for link in best] == [{"source", "target", "score", "rank", "probability"}] * 4
    works("best-links", saved, "-k", "4", "--out", tmp_path / "c.csv", "--quiet")
    assert (tmp_path / "c.csv").read_text().splitlines()[0] == '"source","target","score","rank","probability"'
    old = works("mine", saved, "-k", "4", "--json", "--quiet")
    assert old.json == best and "deprecated" in old.err.lower()


def test_similar_nodes(saved: Path, tmp_path: Path) -> None:
    found = LinkPredictor.load(saved).similar(["n1", "n2"], 3)
    told = works("similar", saved, "n1", "n2", "-k", "3", "--json").json
    assert [(row["source"], row["target"], row["rank"]) for row in told] == [(a, b, rank) for a, b, _, rank in found]
    assert "n1" in works("similar", saved, "n1").out
    works("similar", saved, "n1", "-k", "3", "--out", tmp_path / "near.parquet")
    assert pq.read_table(tmp_path / "near.parquet").num_rows == 3
    assert "'nobody' is not in the graph" in refused("similar", saved, "nobody")


def test_an_index_of_another_model_is_refused(saved: Path, tmp_path: Path) -> None:
    works("index", saved, "--kind", "exact", "--quiet")
    other = tmp_path / "model"
    works("fit", write_links(tmp_path / "links.csv", nodes=300, seed=1), "--out", other, *TINY, "--quiet")
    assert "has no index" in refused("recommend", other, "n1", "--index")
    shutil.copy(saved / "index.safetensors", other)
    assert "belongs to another model" in refused("recommend", other, "n1", "--index")


def test_impossible_budgets_are_one_line(saved: Path) -> None:
    assert "needs to be auto, exact, mips or flashlight" in refused("index", saved, "--kind", "hnsw")
    assert "'recall' needs to be above 0" in refused("index", saved, "--recall", "2")
    assert "covers decoders that are one inner product" in refused("index", saved, "--kind", "mips")
    assert json.loads((saved / "manifest.json").read_text())["format"] == 1


class TestTheChoice:
    """`recommend --all` and `best-links` build an index where it pays, keep it, and report its recall."""

    @pytest.fixture
    def worthwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A graph that counts as large, and builds that cost nothing."""
        monkeypatch.setattr(choice, "EXACT_BELOW", 100)
        monkeypatch.setattr(building, "EXACT_BELOW", 100)
        monkeypatch.setattr(choice, "_LEAST", 100)
        monkeypatch.setattr(choice, "estimated_costs", lambda *given: choice.Costs(2.0, 0.5, 0.5))

    @pytest.fixture
    def fresh(self, saved: Path, tmp_path: Path) -> Path:
        folder = tmp_path / "model"
        shutil.copytree(saved, folder)
        (folder / "index.safetensors").unlink(missing_ok=True)
        return folder

    @pytest.mark.usefixtures("worthwhile")
    def test_builds_keeps_and_asks_again(self, fresh: Path, tmp_path: Path) -> None:
        rows = tmp_path / "a.parquet"
        ran = works("recommend", fresh, "--all", "-k", "5", "--out", rows, "--json")
        assert "an index is built" in ran.err
        assert ran.json["rows"] == pq.read_table(rows).num_rows
        facts = LinkPredictor.load(fresh).load_index(fresh).metadata
        assert (ran.json["search"], ran.json["recall"]) == (facts.kind, facts.recall_at(5))
        assert ("recall@5" in ran.err) == (facts.kind != "exact")
        again = works("recommend", fresh, "--all", "-k", "5", "--out", tmp_path / "b.parquet")
        assert "an index is built" not in again.err
        assert pq.read_table(rows).equals(pq.read_table(tmp_path / "b.parquet"))
        assert "an index is built" not in works("best-links", fresh, "-k", "3").err

    @pytest.mark.usefixtures("worthwhile")
    def test_exact_is_exact(self, fresh: Path, tmp_path: Path) -> None:
        ran = works("recommend", fresh, "--all", "-k", "3", "--out", tmp_path / "a.parquet", "--exact", "--json")
        assert (ran.json["search"], ran.json["recall"]) == ("exact", 1.0)
        assert "search: exact" in ran.err
        assert "search: exact" in works("best-links", fresh, "-k", "3", "--exact").err
        assert "search: exact" in works("recommend", fresh, "n1").err
        assert not (fresh / "index.safetensors").exists()
        assert "exclude each other" in refused("recommend", fresh, "n1", "--exact", "--index")

    @pytest.mark.usefixtures("worthwhile")
    def test_an_index_of_another_model_is_replaced(self, saved: Path, tmp_path: Path) -> None:
        other = tmp_path / "model"
        works("fit", write_links(tmp_path / "links.csv", nodes=300, seed=1), "--out", other, *TINY, "--quiet")
        works("index", saved, "--kind", "exact", "--quiet")
        shutil.copy(saved / "index.safetensors", other)
        ran = works("recommend", other, "--all", "-k", "2", "--out", tmp_path / "a.parquet")
        assert "belongs to another model" in ran.err and "an index is built" in ran.err
        assert LinkPredictor.load(other).load_index(other).metadata.num_nodes == 300

    def test_a_small_graph_is_scanned(self, fresh: Path, tmp_path: Path) -> None:
        ran = works("recommend", fresh, "--all", "-k", "2", "--out", tmp_path / "a.parquet", "--json")
        assert (ran.json["search"], ran.json["recall"]) == ("exact", 1.0)
        assert not (fresh / "index.safetensors").exists()
