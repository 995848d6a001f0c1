"""Models with relations on disk: the same answers after a reload, and refusals of those who know no relations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from typed_graphs import QUICK, shop
from yinyan import LinkPredictor
from yinyan.cli.commands import app
from yinyan.errors import StoreError
from yinyan.store import load_model


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**QUICK).fit(shop(), predict=["buys", "follows"])


@pytest.fixture(scope="module")
def saved(model: LinkPredictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("typed") / "model"
    model.save(path)
    return path


def test_answers_are_the_same_after_a_reload(model: LinkPredictor, saved: Path) -> None:
    again = LinkPredictor.load(saved)
    np.testing.assert_array_equal(model.embeddings_, again.embeddings_)
    assert model.metrics_ == again.metrics_
    assert model.settings_ == again.settings_
    for relation, node in (("buys", ("product", "4")), ("follows", "4")):
        one, other = (m.recommend(node, relation=relation, k=5) for m in (model, again))
        assert one.targets == other.targets
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.probabilities, other.probabilities)
    one, other = (m.explain("3", "4", relation="buys").by_relation() for m in (model, again))
    assert one == pytest.approx(other)
    again.save(saved)
    assert LinkPredictor.load(saved).metrics_ == model.metrics_


def test_a_model_in_parts_is_the_same(model: LinkPredictor, saved: Path, tmp_path: Path) -> None:
    model.save(tmp_path / "parts", max_shard_bytes=300)
    assert len(list((tmp_path / "parts").glob("0-edges-*-of-*.safetensors"))) > 1
    one, other = LinkPredictor.load(saved, device="cpu"), LinkPredictor.load(tmp_path / "parts", device="cpu")
    np.testing.assert_array_equal(one.embeddings_, other.embeddings_)
    found = [each.recommend("4", relation="follows", k=5) for each in (one, other)]
    assert found[0].targets == found[1].targets
    np.testing.assert_array_equal(found[0].scores, found[1].scores)


def test_those_who_know_no_relations_refuse_it(saved: Path) -> None:
    with pytest.raises(StoreError, match="has relations, which are not understood here: ask it in Python"):
        load_model(saved, torch.device("cpu"))
    done = CliRunner().invoke(app, ["similar", str(saved), "3"])
    assert done.exit_code != 0


@pytest.mark.parametrize("name", ["relations.json", "ids-1.parquet", "weights.safetensors"])
def test_damage_is_found(model: LinkPredictor, tmp_path: Path, name: str) -> None:
    model.save(tmp_path / "model")
    (tmp_path / "model" / name).write_bytes(b"{}")
    with pytest.raises(StoreError):
        LinkPredictor.load(tmp_path / "model")


def test_the_card_names_relations(saved: Path) -> None:
    card = (saved / "README.md").read_text(encoding="utf-8")
    assert "| buys |" in card
    assert "views (messages only)" in card
    figures = json.loads((saved / "metrics.json").read_text(encoding="utf-8"))
    assert set(figures["relations"]) == {"buys", "follows"}
