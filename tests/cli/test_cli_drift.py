"""`yinyan drift`: an answer in words and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import TINY, refused, works
from contracts import planted_graph


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drift")
    graph = planted_graph(2, 30)
    text = "".join(f"n{a},n{b}\n" for a, b in graph.edges)
    (folder / "edges.csv").write_text("source,target\n" + text)
    works("fit", folder / "edges.csv", "--out", folder / "model", *TINY)
    return folder / "model"


def test_answers_in_words_and_as_json(model: Path) -> None:
    new = model.with_name("new.csv")
    new.write_text("from,to\n" + "".join(f"n{i},n{59 - i}\n" for i in range(10)) + "stranger,n1\n")
    past = model.with_name("past.csv")
    past.write_text("source,target,score\nn0,n59,1.0\nn0,n58,0.5\n")
    ran = works("drift", model, new, "--recommended", past)
    assert "11 edges: " in ran.out and "1 with 1 new node" in ran.out
    assert "1 of 2" in ran.out and "\nrefit? " in ran.out
    found = works("drift", model, new, "--recommended", past, "--json").json
    assert found["edges"] == 11 and found["followed"]["hits"] == 1
    assert found["refit"] in (True, None) and found["answer"].startswith("refit? ")


def test_columns_may_be_named(model: Path) -> None:
    new = model.with_name("named.csv")
    new.write_text("when,who,whom\n3,n0,n1\n")
    assert works("drift", model, new, "--source", "who", "--target", "whom", "--json").json["new_nodes"] == 0
    assert "columns" in refused("drift", model, new, "--source", "nobody")


def test_an_empty_table_is_an_error(model: Path) -> None:
    new = model.with_name("empty.csv")
    new.write_text("source,target\n")
    assert "no edges" in refused("drift", model, new) or "empty" in refused("drift", model, new)
