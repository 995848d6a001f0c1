"""Knowledge graphs with their relations and parts, from small files of the same form."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import yinyan
from typed_graphs import QUICK
from yinyan import LinkPredictor, datasets
from yinyan.datasets import knowledge
from yinyan.datasets.sources import knowledge_group
from yinyan.errors import InputError, SettingsError
from yinyan.relation_evaluation import relation_ranking


def triples() -> list[tuple[str, str, str]]:
    """Entities in a ring: 'next' is directed, 'near' holds both ways; and one triple from an entity to itself."""
    found = [(f"e{i}", "next", f"e{(i + 1) % 40}") for i in range(40)]
    found += [(f"e{i}", "skip", f"e{(i + 2) % 40}") for i in range(40)]
    found += [(f"e{i}", "near", f"e{(i + step) % 40}") for i in range(40) for step in (3, -3)]
    return [*found, ("e0", "near", "e0")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = triples()
    order = np.random.default_rng(0).permutation(len(rows))
    parts = [order[:-40], order[-40:-20], order[-20:]]
    place = tmp_path / knowledge_group("wn18rr").folder
    place.mkdir(parents=True)
    for name, part in zip(knowledge.FILES, parts, strict=True):
        (place / name).write_bytes(gzip.compress("".join("\t".join(rows[i]) + "\n" for i in part).encode()))
    monkeypatch.setitem(knowledge.TRIPLES, "wn18rr", (40, 3, tuple(map(len, parts))))
    return tmp_path


def test_relations_and_parts(folder: Path) -> None:
    kg = datasets.load_knowledge_graph("wn18rr", folder=folder, download=False)
    assert set(kg.graph.relations) == {"next", "skip", "near"}
    assert kg.graph.num_edges == len(triples()) - 1
    assert kg.graph.notes == ("dropped 1 self loop",)
    names, ids = list(kg.graph.relations), kg.graph.nodes["entity"].ids
    back = {(ids[h], names[r], ids[t]) for h, t, r in kg.known.tolist()}
    assert back == set(triples())
    parts = kg.parts()
    counts = [sum(len(getattr(p, part)) for p in parts.values()) for part in ("train", "valid", "test")]
    assert sum(counts) == kg.graph.num_edges


def test_evaluation_ranks_all_test_triples(folder: Path) -> None:
    kg = datasets.load_knowledge_graph("wn18rr", folder=folder, download=False)
    model = LinkPredictor(**{**QUICK, "training": {**QUICK["training"], "epochs": 2}})
    result = yinyan.evaluate(kg, model=model)
    assert result.protocol == "official"
    assert {"filtered mrr", "filtered hits@10"} <= set(result.results[0].metrics)
    assert "filtered mrr" in str(result)
    assert "filtered mrr" in result.results[0].relations["near"]
    fitted = result.results[0].model.fitted_  # type: ignore[union-attr]
    number = {name: n for n, name in enumerate(fitted.predicted)}  # type: ignore[attr-defined]
    rows = [(h, t, number[list(kg.graph.relations)[r]]) for h, t, r in kg.test.tolist()]
    found = relation_ranking(fitted, np.array(rows), np.empty((0, 3), np.int64))  # type: ignore[arg-type]
    assert len(found.tails) == len(kg.test)
    # by scores of the public question, one pair at a time
    questions, ids = result.results[0].model, kg.graph.nodes["entity"].ids
    for place in (0, 5):
        head, tail, r = rows[place]
        name = fitted.predicted[r]  # type: ignore[attr-defined]
        scores = questions.score([(ids[head], ids[t]) for t in range(40)], relation=name)  # type: ignore[union-attr]
        others = np.delete(scores, tail)
        assert found.tails[place] == pytest.approx(1 + (others > scores[tail]).sum(), abs=0.5)
        scores = questions.score([(ids[h], ids[tail]) for h in range(40)], relation=name)  # type: ignore[union-attr]
        others = np.delete(scores, head)
        assert found.heads[place] == pytest.approx(1 + (others > scores[head]).sum(), abs=0.5)


def test_what_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no knowledge graph is called 'wn18'"):
        datasets.load_knowledge_graph("wn18")
    kg = datasets.load_knowledge_graph("wn18rr", folder=folder, download=False)
    with pytest.raises(SettingsError, match="protocol='official'"):
        yinyan.evaluate(kg, protocol="clean")
    monkeypatch.setitem(knowledge.TRIPLES, "wn18rr", (41, 3, (1, 1, 1)))
    with pytest.raises(InputError, match="damaged or of another version"):
        datasets.load_knowledge_graph("wn18rr", folder=folder, download=False)
