"""Labels and conditions from end to end: in Python, in a saved model, on the command line and in the report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from command_line import TINY, refused, run, works
from contracts import tiny
from yinyan import Graph, LinkPredictor, evaluate
from yinyan.errors import InputError, StoreError, UnknownNodeError
from yinyan.reporting.report import fit_report

N = 30
COUNTRIES = ["DE", "FR", "IT"]


def write_tables(folder: Path) -> tuple[Path, Path]:
    """Links of n0, n1, … and a table of their names, years and countries; two of them are called Twin."""
    edges, nodes = folder / "edges.csv", folder / "nodes.csv"
    rows = [f"n{a},n{(a + step) % N}" for a in range(N) for step in (1, 2, 5)]
    edges.write_text("source,target\n" + "\n".join(rows) + "\n", encoding="utf-8")
    names = ["Twin" if i in (10, 11) else f"Person {i}" for i in range(N)]
    lines = [f"n{i},{names[i]},{1990 + i},{COUNTRIES[i % 3]}" for i in range(N)]
    nodes.write_text("id,title,year,country\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return edges, nodes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("labels")
    edges, nodes = write_tables(made)
    ran = works("fit", edges, "--nodes", nodes, "--out", made / "model", *TINY)
    assert "node id = 'id' of nodes.csv, label = 'title' (guessed)" in ran.err
    return made


@pytest.fixture(scope="module")
def saved(folder: Path) -> Path:
    return folder / "model"


@pytest.fixture(scope="module")
def model(saved: Path) -> LinkPredictor:
    return LinkPredictor.load(saved, device="cpu")


# -- Python --------------------------------------------------------------------------------------------------


def test_answers_carry_labels(model: LinkPredictor) -> None:
    found = model.recommend("Person 3", k=2)
    assert found.sources == ("n3", "n3") and found.source_labels == ("Person 3", "Person 3")
    assert found.target_labels == tuple(model.graph_.labels_of(model.graph_.rows_of(found.targets)) or ())
    columns = ["source", "source_label", "target", "target_label", "score", "rank", "probability"]
    assert repr(found).splitlines()[0].split() == columns
    assert found[:1].target_labels == found.target_labels[:1]  # type: ignore[index]
    assert found.to_arrow().column_names == columns and list(found.to_pandas().columns) == columns
    assert list(found.to_dicts()[0]) == columns and "Person 3" in found._repr_html_()
    best = model.best_links(2)
    assert best.to_arrow().column_names == columns and best.source_labels is not None
    assert model.similar("person 3", k=2).source_labels == ("Person 3",) * 2
    index = model.index("exact", k=5)
    assert index.recommend("Person 3", k=2).target_labels == found.target_labels


def test_an_explanation_carries_labels(model: LinkPredictor) -> None:
    why = model.explain("Person 3", "n8")
    assert (why.source, why.target, why.source_label, why.target_label) == ("n3", "n8", "Person 3", "Person 8")
    assert repr(why).startswith("n3 (Person 3) – n8 (Person 8): score ")
    parts = [part for part in why.contributions if part.neighbour is not None]
    assert parts and all(part.label == (model.graph_.labels_of(model.graph_.rows_of([part.neighbour])) or [0])[0]
                         for part in parts if part.neighbour is not None)  # fmt: skip
    frame = why.to_pandas()
    assert frame["amount"].tolist() == [part.amount for part in why.contributions]


def test_a_label_in_place_of_an_id_everywhere(model: LinkPredictor) -> None:
    pairs, names = [("n3", "n8"), ("n1", "n2")], [("Person 3", "person 8"), ("n1", "PERSON 2")]
    assert model.score(names).tolist() == model.score(pairs).tolist()
    assert model.predict_proba(("Person 3", "n8")) == model.predict_proba(("n3", "n8"))
    assert np.array_equal(model.embed("Person 3"), model.embed("n3"))
    assert list(model.recommend("n3", among=["Person 20", "n21"])) == list(model.recommend("n3", among=["n20", "n21"]))
    with pytest.raises(InputError, match=r"the label 'Twin' is that of 2 nodes: give an id \('n10', 'n11'\)"):
        model.recommend("Twin")
    with pytest.raises(UnknownNodeError, match=r"nearest labels: 'Person 3' \(id 'n3'\)"):
        model.recommend("Persn 3")


def test_models_without_labels_answer_as_before(saved: Path) -> None:
    model = LinkPredictor.load(saved)
    plain = model.graph_.with_attributes(None)
    graph = Graph(plain.ids, plain.edges)
    found = LinkPredictor(**tiny(training={"epochs": 1})).fit(graph).recommend("n3", k=2)
    assert found.source_labels is None
    assert found.to_arrow().column_names == ["source", "target", "score", "rank", "probability"]


def test_new_nodes_have_no_attributes(model: LinkPredictor) -> None:
    grown = model.extended(["new"], {"year": [2000], "country": ["DE"]}, [("new", "n1")])
    assert grown.graph_.labels_of(grown.graph_.rows_of(["new", "Person 3"])) == [None, "Person 3"]
    assert "new" not in grown.recommend("n5", k=N, where="candidate.year > 0").targets
    assert grown.recommend("n5", k=N, where="candidate.label is null").targets == ("new",)


def test_new_nodes_are_joined_to_known_ones_by_label(model: LinkPredictor) -> None:
    features = {"year": [2000], "country": ["DE"]}
    by_label = model.embed_new(["new"], features, [("new", "Person 3"), ("person 4", "new")])
    assert np.array_equal(by_label, model.embed_new(["new"], features, [("new", "n3"), ("n4", "new")]))
    named_alike = model.extended(["Person 3"], features, [("Person 3", "n1")])  # an id wins over a label
    assert named_alike.recommend("Person 3", k=1)[0].source == "Person 3"
    with pytest.raises(UnknownNodeError, match=r"nearest labels: 'Person 3'"):
        model.embed_new(["new"], features, [("new", "Persn 3")])


def test_a_model_keeps_its_attributes(model: LinkPredictor, saved: Path, tmp_path: Path) -> None:
    table = pq.read_table(saved / "attributes.parquet")
    assert table.column_names == ["title", "year", "country"] and table.num_rows == N
    model.save(tmp_path / "again")
    again = LinkPredictor.load(tmp_path / "again")
    condition = "candidate.country = source.country and candidate.year < 2010"
    assert list(again.recommend("Person 3", where=condition)) == list(model.recommend("n3", where=condition))
    assert again.graph_.label_column == "title"


def test_damaged_attributes_are_named(saved: Path, tmp_path: Path) -> None:
    import shutil

    from yinyan.store import model_files

    broken = shutil.copytree(saved, tmp_path / "broken")
    pq.write_table(pq.read_table(broken / "attributes.parquet").slice(0, 3), broken / "attributes.parquet")
    (broken / "manifest.json").unlink()
    model_files._write_manifest(broken, model_files.FORMAT)
    with pytest.raises(StoreError, match=r"attributes\.parquet has 3 rows, and there are 30 ids"):
        LinkPredictor.load(broken)


# -- other objects -------------------------------------------------------------------------------------------


def test_pairs_from_data_frames(model: LinkPredictor) -> None:
    pandas, polars, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    pairs = [("n3", "n8"), ("n1", "n2"), ("Person 4", "n9")]
    wanted, chances = model.score(pairs).tolist(), model.predict_proba(pairs, base_rate=0.1).tolist()
    two = {"x": [a for a, _ in pairs], "y": [b for _, b in pairs]}
    named = {"weight": [1.0] * 3, "to": two["y"], "from": two["x"]}
    for columns in (two, named):
        for frame in (columns, pandas.DataFrame(columns), polars.DataFrame(columns), pa.table(columns)):
            assert model.score(frame).tolist() == wanted
            assert model.predict_proba(frame, base_rate=0.1).tolist() == chances
    assert model.score(np.array(pairs)).tolist() == wanted
    assert model.score(pandas.DataFrame({"x": [], "y": []}, dtype=str)).shape == (0,)
    with pytest.raises(InputError, match=r"needs two columns, or columns called 'source' and 'target'"):
        model.score(pandas.DataFrame({"x": ["n1"], "y": ["n2"], "z": [1]}))


@pytest.mark.parametrize("kind", ["networkx", "pandas", "arrow", "path", "scipy", "pyg", "graph"])
def test_fit_converts_and_says_so(kind: str, tmp_path: Path) -> None:
    import pandas
    import pyarrow as pa
    import scipy.sparse as sp
    import torch

    from yinyan import Hooks

    ring = np.array([(i, (i + step) % 20) for i in range(20) for step in (1, 3)])
    table = {"source": ring[:, 0], "target": ring[:, 1]}
    path = tmp_path / "ring.csv"
    path.write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in ring))
    matrix = sp.coo_matrix((np.ones(80), (np.r_[ring[:, 0], ring[:, 1]], np.r_[ring[:, 1], ring[:, 0]])))
    if kind == "networkx":
        given: Any = pytest.importorskip("networkx").Graph(ring.tolist())
    elif kind == "pyg":
        data = pytest.importorskip("torch_geometric.data")
        given = data.Data(edge_index=torch.from_numpy(np.concatenate([ring, ring[:, ::-1]]).T), num_nodes=20)
    else:
        forms = {"pandas": pandas.DataFrame(table), "arrow": pa.table(table), "path": path, "scipy": matrix}
        given = {**forms, "graph": Graph.from_arrays(ring)}[kind]
    lines: list[str] = []
    model = LinkPredictor(**tiny(training={"epochs": 1})).fit(given, hooks=Hooks(tell=lines.append))
    assert (model.graph_.num_nodes, model.graph_.num_edges) == (20, 40)
    said = [line for line in lines if line.startswith("graph: converted from ")]
    if kind == "graph":
        assert not said
    else:
        method = {"networkx": "networkx", "scipy": "scipy", "pyg": "pyg"}.get(kind, "table")
        assert len(said) == 1 and said[0].endswith(f"by Graph.from_{method} with default options")
        assert model.graph_.notes[0] == said[0].removeprefix("graph: ")


def test_what_fit_cannot_convert() -> None:
    with pytest.raises(InputError, match=r"fit needs a yinyan.Graph, a NetworkX graph.* \(got list\)"):
        LinkPredictor().fit([(0, 1)])


def test_evaluate_converts_too_and_gives_a_data_frame() -> None:
    nx = pytest.importorskip("networkx")
    result = evaluate(
        nx.karate_club_graph(), peers=["cn"], seeds=(0, 1), model=LinkPredictor(**tiny(training={"epochs": 1}))
    )
    frame = result.to_pandas()
    assert frame["method"].tolist() == ["yinyan", "yinyan", "cn", "cn"] and frame["seed"].tolist() == [0, 1, 0, 1]
    assert frame.loc[frame["method"] == "cn", "auc"].tolist() == result.figures("cn")["auc"]


# -- the command line ----------------------------------------------------------------------------------------


class TestCommands:
    def test_recommend_by_label(self, saved: Path) -> None:
        rows = works("recommend", saved, "person 3", "-k", "2", "--json").json
        assert rows == works("recommend", saved, "n3", "-k", "2", "--json").json
        assert rows[0]["source_label"] == "Person 3" and rows[0]["target_label"].startswith(("Person", "Twin"))
        head, first, *_ = works("recommend", saved, "n3", "-k", "2").out.splitlines()
        assert head.split()[:4] == ["source", "source_label", "target", "target_label"] and "Person 3" in first
        assert works("recommend", saved, "n3", "--no-labels").out.splitlines()[0].split()[:2] == ["source", "target"]
        assert "give an id ('n10', 'n11')" in refused("recommend", saved, "Twin")
        assert "nearest labels: 'Person 3'" in refused("recommend", saved, "Persn 3")

    def test_labels_from_a_table(self, saved: Path, tmp_path: Path) -> None:
        table = tmp_path / "other.csv"
        table.write_text("key,alias\n" + "".join(f"n{i},alias {i}\n" for i in range(N)), encoding="utf-8")
        rows = works("similar", saved, "alias 3", "-k", "1", "--labels", table, "--json").json
        assert rows[0]["source"] == "n3" and rows[0]["target_label"].startswith("alias")
        assert "exclude each other" in refused("similar", saved, "n3", "--labels", table, "--no-labels")

    def test_where(self, saved: Path, model: LinkPredictor) -> None:
        text = "candidate.country = source.country and candidate.year >= 2005"
        rows = works("recommend", saved, "n3", "-k", "40", "--where", text, "--json").json
        assert [row["target"] for row in rows] == list(model.recommend("n3", 40, where=text).targets) != []
        best = works("best-links", saved, "-k", "7", "--where", text, "--json").json
        assert [row["target"] for row in best] == list(model.best_links(7, where=text).targets)
        assert "no candidate meets the condition" in works("recommend", saved, "n3", "--where", "false").out
        ran = run("recommend", saved, "n3", "--where", "candidate.yeer > 3")
        assert ran.code == 1 and ran.out == ""
        error, shown, caret = ran.err.splitlines()
        assert error.startswith("error: the condition cannot be used: there is no attribute 'yeer'")
        assert shown.strip() == "candidate.yeer > 3" and caret.strip() == "^"
        assert run("best-links", saved, "--where", "candidate.year >").code == 1

    def test_where_for_every_node(self, saved: Path, model: LinkPredictor, tmp_path: Path) -> None:
        path, text = tmp_path / "links.parquet", "candidate.year > source.year"
        works("recommend", saved, "--all", "-k", "2", "--where", text, "--out", path)
        rows = pq.read_table(path).to_pylist()
        wanted = model.recommend([f"n{i}" for i in range(N)], 2, where=text).to_dicts()
        assert [(row["source"], row["target"], row["target_label"]) for row in rows] == [
            (row["source"], row["target"], row["target_label"]) for row in wanted
        ]
        assert refused("recommend", saved, "--all", "--out", path, "-k", "0")

    def test_score_and_explain(self, saved: Path, tmp_path: Path) -> None:
        pairs = tmp_path / "pairs.csv"
        pairs.write_text("source,target\nPerson 3,n8\nn1,person 2\n", encoding="utf-8")
        found = works("score", saved, pairs, "--json").json["pairs"]
        assert [(p["source"], p["source_label"], p["target"]) for p in found] == [
            ("n3", "Person 3", "n8"), ("n1", "Person 1", "n2")
        ]  # fmt: skip
        out = tmp_path / "scores.parquet"
        works("score", saved, pairs, "--out", out)
        assert pq.read_table(out).column_names == [
            "source", "source_label", "target", "target_label", "score", "probability"
        ]  # fmt: skip
        assert works("explain", saved, "Person 3", "n8").out.startswith("n3 (Person 3) – n8 (Person 8)")
        assert works("explain", saved, "n3", "n8", "--no-labels", "--json").json["source_label"] is None


class TestUnknownNodes:
    @pytest.fixture
    def pairs(self, tmp_path: Path) -> Path:
        path = tmp_path / "pairs.csv"
        lines = ["source,target", "n1,n2", "", "x1,n3", '"n\n4",n5', "n6,x2", *(f"y{i},n1" for i in range(6)), "n7,n8"]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def test_lines_are_named(self, saved: Path, pairs: Path) -> None:
        """Blank lines and values of several lines count as a text editor counts them."""
        error = refused("score", saved, pairs)
        assert "pairs.csv, line 4: node 'x1' is not in the graph" in error
        assert "9 rows of 11 with unknown nodes: lines 4, 5, 7, 8, 9 and 4 more" in error and "--skip-unknown" in error

    def test_they_can_be_skipped(self, saved: Path, pairs: Path) -> None:
        ran = works("score", saved, pairs, "--skip-unknown", "--json")
        assert [p["source"] for p in ran.json["pairs"]] == ["n1", "n7"]
        assert "skipped 9 rows of 11 of pairs.csv with unknown nodes" in ran.err

    def test_rows_of_parquet(self, saved: Path, tmp_path: Path) -> None:
        import pyarrow as pa

        path = tmp_path / "pairs.parquet"
        pq.write_table(pa.table({"source": ["n1", "x"], "target": ["n2", "n3"]}), path)
        assert "pairs.parquet, row 2: node 'x'" in refused("score", saved, path)

    def test_among(self, saved: Path, tmp_path: Path) -> None:
        path = tmp_path / "candidates.csv"
        path.write_text("node\nn20\nPerson 21\nnobody\n", encoding="utf-8")
        error = refused("recommend", saved, "n3", "--among", path)
        assert "candidates.csv, line 4: node 'nobody' is not in the graph" in error and "1 row of 3" in error
        ran = works("recommend", saved, "n3", "--among", path, "--skip-unknown", "--json")
        assert {row["target"] for row in ran.json} == {"n20", "n21"}
        assert "skipped 1 row of 3 of candidates.csv" in ran.err


def test_the_report_shows_labels(model: LinkPredictor, tmp_path: Path) -> None:
    fit_report(tmp_path / "report.html", model, title="Labels")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    data = re.search(r'id="report-data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert data is not None
    content = json.loads(data[1])
    link = content["recommended"]["links"][0]
    assert link["source_label"].startswith(("Person", "Twin")) and 0 < link["probability"] < 1
    assert content["map"]["labels"][3] == "Person 3"
