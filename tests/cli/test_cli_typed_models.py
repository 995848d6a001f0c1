"""Commands on saved models of several types: lists of all nodes, rules, similar nodes, odd relations, reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from typed_graphs import QUICK, odd, shop
from yinyan import LinkPredictor
from yinyan.cli.commands import app


def run(*command: Any) -> Result:
    return CliRunner().invoke(app, [str(part) for part in command])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People and products of the same ids; two relations are predicted."""
    folder = tmp_path_factory.mktemp("typed")
    LinkPredictor(**QUICK).fit(shop(), predict=["buys", "follows"]).save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    few = {**QUICK["training"], "batch_size": 7}
    LinkPredictor(**{**QUICK, "training": few}).fit(odd()).save(folder / "model")
    return folder / "model"


def answered(*arguments: Any) -> Any:
    done = run(*map(str, arguments), "--json")
    assert done.exit_code == 0, done.output + str(done.exception)
    return json.loads(done.output)


class TestAllNodes:
    def test_each_node_of_the_types_is_asked_for(self, model: Path, tmp_path: Path) -> None:
        out = tmp_path / "links.parquet"
        answered("recommend", model, "--all", "--relation", "buys", "-k", "2", "--out", out, "--quiet")
        table = pq.read_table(out).to_pydict()
        assert len(table["source"]) == 2 * (24 + 18)
        sides = set(zip(table["source_type"], table["target_type"], strict=True))
        assert sides == {("person", "product"), ("product", "person")}
        rows = zip(table["source"], table["source_type"], table["target"], strict=True)
        mine = [target for source, kind, target in rows if (kind, source) == ("person", "3")]
        assert mine == list(LinkPredictor.load(model).recommend(("person", "3"), 2, relation="buys").targets)

    def test_parts_of_another_relation_are_not_taken_up(self, model: Path, tmp_path: Path) -> None:
        out = tmp_path / "parts"
        counts = [
            answered("recommend", model, "--all", "--relation", name, "-k", "1", "--out", out, "--quiet")["rows"]
            for name in ("buys", "follows")
        ]
        assert counts == [42, 24]

    def test_nobody_twice(self, model: Path, tmp_path: Path) -> None:
        rows = answered("recommend", model, "person:1", "person:2", "--relation", "buys", "-k", "3", "--once", "target")
        targets = [row["target"] for row in rows]
        assert len(targets) == len(set(targets)) == 6


class TestRules:
    def test_allowed_and_denied(self, model: Path, tmp_path: Path) -> None:
        allow, deny = tmp_path / "allow.csv", tmp_path / "deny.csv"
        allow.write_text("source,target\nperson:3,1\nperson:3,product:2\nperson:3,5\n", encoding="utf-8")
        deny.write_text("source,target\nperson:3,5\n", encoding="utf-8")
        rows = answered("recommend", model, "person:3", "--relation", "buys", "--allow", allow, "--deny", deny)
        bought = set(LinkPredictor.load(model).graph_.of_relation("buys").neighbours(3).tolist())
        assert {row["target"] for row in rows} == {t for t in ("1", "2") if 24 + int(t) not in bought}

    def test_an_unknown_node_is_named(self, model: Path, tmp_path: Path) -> None:
        deny = tmp_path / "deny.csv"
        deny.write_text("source,target\nperson:3,x9\n", encoding="utf-8")
        done = run("recommend", str(model), "person:3", "--relation", "buys", "--deny", str(deny))
        assert done.exit_code != 0 and "'x9' is not in the graph" in str(done.exception)


def test_similar_nodes(model: Path) -> None:
    rows = answered("similar", model, "product:3", "--relation", "buys", "-k", "4")
    assert {row["target_type"] for row in rows} == {"product"} and len(rows) == 4


class TestOddRelations:
    def test_a_hub(self, strange: Path) -> None:
        done = run("recommend", str(strange), "0", "--relation", "hub")
        assert done.exit_code == 0 and "no links to recommend" in done.output

    def test_three_edges(self, strange: Path) -> None:
        assert len(answered("recommend", strange, "0", "--relation", "few", "-k", "3")) == 3
        assert "few" in run("info", str(strange)).output

    @pytest.mark.parametrize(
        ("node", "relation", "words"),
        [
            ("shop:1", "ring", "joins no nodes of type 'shop'"),
            ("4", "rings", "nearest: 'ring'"),
            ("4", "owns", "there is no relation 'owns' (relations: 'ring', 'hub', 'few')"),
        ],
    )
    def test_what_is_not_there(self, strange: Path, node: str, relation: str, words: str) -> None:
        done = run("recommend", str(strange), node, "--relation", relation)
        assert done.exit_code != 0 and words in str(done.exception)
