"""Indexes of models with relations: one for each predicted relation, kept with the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from typed_graphs import QUICK, shop
from yinyan import LinkPredictor
from yinyan.cli.commands import app
from yinyan.errors import InputError, SettingsError, StoreError, UnknownNodeError
from yinyan.retrieval import building as module
from yinyan.retrieval import choice
from yinyan.retrieval.rules import Rules


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**QUICK).fit(shop(people=400, products=300))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of some hundred nodes get an index too."""
    for each in (module, choice):
        monkeypatch.setattr(each, "EXACT_BELOW", 100)


@pytest.mark.parametrize("relation", ["buys", "views", "follows"])
def test_an_index_finds_what_its_recall_says(small: None, model: LinkPredictor, relation: str) -> None:
    index = model.index(relation=relation, recall=0.9, k=10)
    assert index.metadata.relation == relation
    assert index.metadata.effort is not None
    assert index.metadata.recall >= 0.9
    assert f"relation '{relation}'" in str(index)
    asked = [("person", str(i)) for i in range(0, 400, 8)]
    exact = model.recommend(asked, k=10, relation=relation, search="exact")
    found = model.recommend(asked, k=10, relation=relation, index=index)
    same = {*zip(exact.sources, exact.targets, strict=True)} & {*zip(found.sources, found.targets, strict=True)}
    assert len(same) >= 0.8 * len(exact)
    assert found.recall == index.metadata.recall_at(10)
    assert found.probabilities is not None


def test_answers_are_of_the_right_type_and_named_by_it(model: LinkPredictor) -> None:
    index = model.index("exact", relation="buys")
    exact = model.recommend(("product", "3"), relation="buys", k=5)
    assert index.recommend(("product", "3"), k=5).targets == exact.targets
    with pytest.raises(InputError, match="name its type"):
        index.recommend("3")
    with pytest.raises(UnknownNodeError, match="nearest"):
        index.recommend(("product", "350"))
    with pytest.raises(InputError, match="joins no nodes of type 'shop'"):
        index.recommend([("shop", "3")])


def test_each_relation_has_a_file_of_its_own(small: None, model: LinkPredictor, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    for relation in ("buys", "follows"):
        model.index("exact", relation=relation).save(tmp_path / "model")
    back = LinkPredictor.load(tmp_path / "model")
    assert back.load_index(tmp_path / "model", relation="follows").metadata.relation == "follows"
    found = back.load_index(tmp_path / "model", relation="buys").recommend([("person", "7")], k=4)
    assert found.targets == model.recommend([("person", "7")], k=4, relation="buys").targets
    with pytest.raises(StoreError, match=r"no index of relation 'views'.*--relation views"):
        back.load_index(tmp_path / "model", relation="views")


def test_the_index_of_another_relation_is_refused(model: LinkPredictor, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    model.index("exact", relation="buys").save(tmp_path / "model")
    (tmp_path / "model" / "index-0.safetensors").rename(tmp_path / "model" / "index-1.safetensors")
    with pytest.raises(StoreError, match="another model"):
        model.load_index(tmp_path / "model", relation="views")


def test_questions_that_need_a_relation(model: LinkPredictor) -> None:
    with pytest.raises(InputError, match="predicts several relations: name one"):
        model.index()
    with pytest.raises(InputError, match="no relation 'sells'"):
        model.index(relation="sells")
    with pytest.raises(SettingsError, match="'kind' needs to be"):
        model.index("fast", relation="buys")  # type: ignore[arg-type]


def test_the_search_is_chosen_per_relation(small: None, model: LinkPredictor) -> None:
    assert model.choose_index(1, relation="follows") is None
    found = model.recommend([("person", "1")], relation="views", k=3, search="index")
    assert len(found) == 3
    assert model._asked("views")[2].index is not None
    assert model._asked("follows")[2].index is None


def test_best_links_by_an_index(small: None, model: LinkPredictor) -> None:
    exact = model.best_links(20, relation="buys", search="exact")
    found = model.best_links(20, relation="buys", search="index")
    both = {*zip(exact.sources, exact.targets, strict=True)} & {*zip(found.sources, found.targets, strict=True)}
    assert len(both) >= 16


def test_rules_hold_for_relations(model: LinkPredictor) -> None:
    """`recommend` of a relation took rules and did not keep them."""
    asked = [("person", "1"), ("person", "2")]
    first = model.recommend(asked, relation="buys", k=2)
    denied = Rules(deny={("person", "1"): list(first.targets[:2])})  # the products, not the people of these ids
    found = model.recommend(asked, relation="buys", k=2, rules=denied)
    assert not set(found.targets[:2]) & set(first.targets[:2])
    assert found.targets[2:] == first.targets[2:]
    once = model.recommend([("person", str(i)) for i in range(20)], relation="buys", k=3, rules=Rules(once="target"))
    assert len(set(once.targets)) == len(once.targets)
    allowed = model.recommend(asked, relation="buys", k=5, rules=Rules(allow={("person", "1"): ["9", "11"]}))
    assert set(allowed.targets[:2]) == {"9", "11"}
    with pytest.raises(InputError, match="name its type"):
        model.recommend(asked, relation="buys", rules=Rules(deny={"1": ["2"]}))


def test_pairs_go_from_source_to_target(model: LinkPredictor) -> None:
    assert model.score(("1", "2"), relation="buys") == model.score((("person", "1"), ("product", "2")), relation="buys")
    with pytest.raises(InputError, match=r"the source of relation 'person buys product' is a 'person'"):
        model.score((("product", "2"), ("person", "1")), relation="buys")


def test_the_command_builds_one_for_each_relation(model: LinkPredictor, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model.save(folder)

    def run(*command: Any) -> Any:
        done = CliRunner().invoke(app, [*map(str, command), "--quiet"])
        assert done.exit_code == 0, done.output
        return json.loads(done.output)

    made = run("index", folder, "--kind", "exact", "--json")["indexes"]
    assert [facts["relation"] for facts in made] == ["buys", "views", "follows"]
    assert run("index", folder, "--kind", "exact", "--relation", "views", "--json")["relation"] == "views"
    asked = ("recommend", folder, "person:3", "--relation", "buys", "-k", 3, "--json")
    assert run(*asked, "--index") == run(*asked)
    best = run("best-links", folder, "--relation", "follows", "-k", 4, "--json")
    assert len(best) == 4
    checked = CliRunner().invoke(app, ["check", str(folder), "--json"])
    files = {row["file"]: row for row in json.loads(checked.output)["files"]}
    assert files["index-0.safetensors"]["state"] == "intact"
    assert "relation 'buys'" in files["index-0.safetensors"]["note"]
    arrays = np.frombuffer((folder / "index-2.safetensors").read_bytes(), np.uint8).copy()
    arrays[-1] ^= 1
    (folder / "index-2.safetensors").write_bytes(arrays.tobytes())
    assert CliRunner().invoke(app, ["check", str(folder)]).exit_code == 1
