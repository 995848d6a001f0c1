"""The command line on tables with a column of relations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from yinyan.cli.commands import app

SMALL = [
    *("--set", "training.epochs=2", "--set", "training.batch_size=30", "--set", "encoder.hidden_size=16"),
    *("--set", "encoder.embedding_size=8", "--set", "encoder.sketch_size=8", "--quiet"),
]


def run(*command: Any) -> Result:
    return CliRunner().invoke(app, [str(part) for part in command])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tables") / "edges.csv"
    rows = ["head,kind,tail"]
    for i in range(30):
        rows += [f"n{i},knows,n{(i + k) % 30}" for k in (1, 2, 3)]
        rows += [f"n{i},likes,n{(i * 7 + 5) % 30}"] if (i * 7 + 5) % 30 != i else []
    file.write_text("\n".join(rows) + "\n")
    return file


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    out = table.with_name("model")
    done = run("fit", table, "--relation", "kind", "--source", "head", "--target", "tail", "--out", out, *SMALL)
    assert done.exit_code == 0, done.output
    assert "knows" in done.output
    return out


def test_recommend_score_and_explain(model: Path, tmp_path: Path) -> None:
    done = run("recommend", model, "n3", "--relation", "knows", "-k", 3, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert len(found) == 3
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("source,target\n" + "\n".join(f"n3,{row['target']}" for row in found) + "\n")
    scored = json.loads(run("score", model, pairs, "--relation", "knows", "--json").output)
    assert [row["score"] for row in scored] == pytest.approx([row["score"] for row in found], rel=1e-4)
    why = run("explain", model, "node:n3", "n9", "--relation", "likes")
    assert why.exit_code == 0, why.output
    assert "relation" in why.output


def test_labels_of_a_model_with_relations(table: Path, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("id,name\n" + "".join(f"n{i},Person {i}\n" for i in range(30)))
    out = tmp_path / "named"
    columns = ("--relation", "kind", "--source", "head", "--target", "tail", "--nodes", nodes)
    done = run("fit", table, *columns, "--out", out, *SMALL)
    assert done.exit_code == 0, done.output
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("source,target\nPerson 3,n9\nn3,person 9\n")
    first, second = json.loads(run("score", out, pairs, "--relation", "knows", "--json").stdout)
    for name, value in first.items():
        assert value == (second[name] if isinstance(value, str) else pytest.approx(second[name], rel=1e-4))
    assert list(first) == ["source", "source_label", "target", "target_label", "score", "probability"]
    assert (first["source"], first["source_label"], first["target_label"]) == ("n3", "Person 3", "Person 9")
    found = json.loads(run("recommend", out, "Person 3", "--relation", "knows", "-k", 2, "--json").stdout)
    assert found[0]["source"] == "n3" and found[0]["target_label"] == "Person " + found[0]["target"][1:]
    assert "n3 (Person 3)" in run("explain", out, "Person 3", "n9", "--relation", "knows").output
    best = json.loads(run("best-links", out, "--relation", "knows", "-k", 2, "--json").stdout)
    assert all(row["source_label"] == "Person " + row["source"][1:] for row in best)


def test_info(model: Path) -> None:
    assert "| knows |" in run("info", model).output
    facts = json.loads(run("info", model, "--json").output)
    assert facts["predicted"] == list(facts["relations"]) == ["knows", "likes"]
    assert 0 <= facts["relations"]["knows"]["auc"] <= 1


def test_check_finds_it_intact(model: Path) -> None:
    done = run("check", model)
    assert done.exit_code == 0, done.output
    assert "30 nodes" in done.output


def test_audit_finds_a_relation_that_is_written_twice(table: Path, tmp_path: Path) -> None:
    columns = ("--relation", "kind", "--source", "head", "--target", "tail", "--quiet")
    assert json.loads(run("audit", table, *columns, "--json").output)["findings"] == []
    lines = table.read_text().splitlines()
    twice = tmp_path / "twice.csv"
    twice.write_text(
        "\n".join([*lines, *(f"{c},known by,{a}" for a, _, c in (x.split(",") for x in lines[1:]))]) + "\n"
    )
    done = run("audit", twice, *columns, "--directed")
    assert done.exit_code == 0, done.output
    assert "warning contained-relation: edges of relation 'knows' that are reversed edges of 'known by'" in done.output
    wrong = run("audit", table)
    assert "needs a folder of split files, or --relation" in str(wrong.exception)


def test_audit_of_parts_finds_answers_under_another_relation(table: Path, tmp_path: Path) -> None:
    columns = ("--relation", "kind", "--source", "head", "--target", "tail", "--directed", "--quiet")
    header, *lines = table.read_text().splitlines()
    knows = [line for line in lines if ",knows," in line]
    turned = [",".join((tail, "known by", head)) for head, _, tail in (line.split(",") for line in knows)]
    whole, parts = tmp_path / "twice.csv", tmp_path / "parts"
    whole.write_text("\n".join([header, *knows, *turned]) + "\n")
    parts.mkdir()
    (parts / "train.csv").write_text("\n".join([header, *knows[:70], *turned]) + "\n")
    (parts / "test.csv").write_text("\n".join([header, *knows[70:]]) + "\n")
    done = run("audit", whole, parts, *columns)
    assert done.exit_code == 1, done.output
    assert "LEAK answered-by-relation: test links of relation 'knows' whose reverse is a message" in done.output
    (parts / "train.csv").write_text("\n".join([header, *knows[:72]]) + "\n")
    again = run("audit", whole, parts, *columns, "--json")
    kinds = [finding["kind"] for finding in json.loads(again.output)["findings"]]
    assert again.exit_code == 1 and kinds == ["repeated", "inverse-relations"]  # two test links are training links
    (parts / "test.csv").unlink()
    assert "has no table of test links" in str(run("audit", whole, parts, *columns).exception)
    assert "is not a folder" in str(run("audit", whole, tmp_path / "none", *columns).exception)


def test_evaluate(table: Path, tmp_path: Path) -> None:
    columns = ("--relation", "kind", "--source", "head", "--target", "tail")
    done = run("evaluate", table, *columns, "--report", tmp_path / "report.html", *SMALL)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert any(line.startswith("relation") and "auc" in line for line in lines)
    assert {"knows", "likes"} <= {line.split(" ")[0] for line in lines}
    assert "filtered mrr" in done.output and f"the report is in '{tmp_path / 'report.html'}'" in lines[-1]
    assert '"by_relation":{"knows"' in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_relation_without_test_edges_is_not_measured(table: Path, tmp_path: Path) -> None:
    rare = tmp_path / "rare.csv"
    rare.write_text(table.read_text() + "".join(f"n{i},rare,n{i + 9}\n" for i in range(3)))
    columns = ("--relation", "kind", "--source", "head", "--target", "tail", "--peers", "", "--json")
    done = run("evaluate", rare, *columns, *SMALL)
    assert done.exit_code == 0, done.output + str(done.exception)
    assert list(json.loads(done.output)["relations"]) == ["knows", "likes"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["recommend", "MODEL", "n3"], "predicts several relations"),
        (["recommend", "MODEL", "n3", "--relation", "know"], "nearest"),
        (["recommend", "MODEL", "x", "--relation", "knows"], "'x' is not in the graph"),
        (["recommend", "MODEL", "n3", "--relation", "knows", "--engine", "ray"], "--engine"),
        (["recommend", "MODEL", "n3", "--relation", "knows", "--no-labels"], "--no-labels is not for models"),
        (["similar", "MODEL", "n3"], "predicts several relations"),
        (["fit", "TABLE", "--predict", "knows"], "name their column as well with --relation"),
        (["fit", "TABLE", "--relation", "kind", "--bipartite"], "leave them out"),
    ],
)
def test_refusals(model: Path, table: Path, tmp_path: Path, command: list[str], words: str) -> None:
    places = {"MODEL": str(model), "TABLE": str(table), "links.csv": str(tmp_path / "links.csv")}
    done = run(*(places.get(part, part) for part in command))
    assert done.exit_code != 0
    assert words in done.output + str(done.exception)
