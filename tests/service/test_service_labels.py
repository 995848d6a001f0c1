"""Labels and conditions over HTTP and in the client: those of the model, of a table, and of nodes that came later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving_tools import served, tiny_predictor, two_rings
from yinyan import Client, Graph, InputError, LinkPredictor, UnknownNodeError

TABLE = {
    "name": [f"Paper {i}" for i in range(38)] + ["Twin", "Twin"],
    "year": [1990 + i for i in range(40)],
    "field": [("law", "art")[i % 2] for i in range(40)],
}
CONDITION = "candidate.field = source.field and candidate.year >= 2010"


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labelled")
    ids = [f"n{i:02d}" for i in range(40)]
    tiny_predictor().fit(Graph.from_arrays(two_rings(), ids=ids, attributes=TABLE)).save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def http(labelled: Path) -> Iterator[httpx.Client]:
    with served(labelled) as client:
        yield client


@pytest.fixture(scope="module")
def client(http: httpx.Client) -> Client:
    return Client(str(http.base_url))


@pytest.fixture(scope="module")
def predictor(labelled: Path) -> LinkPredictor:
    return LinkPredictor.load(labelled, device="cpu")


def detail(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    return str(response.json()["detail"])


def test_answers_have_labels(http: httpx.Client) -> None:
    (found,) = http.post("/v1/recommend", json={"nodes": ["paper 3"], "k": 2}).json()["results"]
    assert (found["node"], found["label"]) == ("n03", "Paper 3")
    assert all(part["label"] for part in found["recommendations"])
    (near,) = http.post("/v1/similar", json={"nodes": ["Paper 3"], "k": 2}).json()["results"]
    assert (near["node"], near["label"]) == ("n03", "Paper 3") and near["similar"][0]["label"]
    (scored,) = http.post("/v1/score", json={"pairs": [["Paper 3", "n05"]]}).json()["scores"]
    assert [scored[name] for name in ("source", "source_label", "target", "target_label")] == [
        "n03", "Paper 3", "n05", "Paper 5"
    ]  # fmt: skip
    (why,) = http.post("/v1/explain", json={"pairs": [["n03", "Paper 5"]]}).json()["explanations"]
    assert (why["source"], why["target_label"]) == ("n03", "Paper 5")
    assert any(part["label"] for part in why["contributions"])
    (vector,) = http.post("/v1/embed", json={"nodes": ["Paper 3"]}).json()["embeddings"]
    assert vector["node"] == "n03"
    page = http.get("/v1/nodes/Paper 3").json()
    assert page["id"] == "n03" and page["attributes"] == {"name": "Paper 3", "year": 1993, "field": "art"}
    assert detail(http.get("/v1/nodes/Paper 3", params={"kind": "text"}), 404)


def test_unclear_names_are_refused(http: httpx.Client) -> None:
    said = detail(http.post("/v1/recommend", json={"nodes": ["Twin"]}), 422)
    assert said == "the label 'Twin' is that of 2 nodes: give an id ('n38', 'n39')"
    said = detail(http.post("/v1/recommend", json={"nodes": ["Papr 3"]}), 404)
    assert "nearest labels: 'Paper 3' (id 'n03')" in said


def test_changes_take_ids_only(http: httpx.Client) -> None:
    assert "'Paper 3' is not in the graph" in detail(http.post("/v1/edges", json={"edges": [["Paper 3", "n09"]]}), 404)


def test_where_over_http(http: httpx.Client, predictor: LinkPredictor) -> None:
    body = {"nodes": ["n03", "n04"], "k": 50, "where": CONDITION}
    results = http.post("/v1/recommend", json=body).json()["results"]
    found = [(r["node"], p["target"]) for r in results for p in r["recommendations"]]
    wanted = predictor.recommend(["n03", "n04"], 50, where=CONDITION)
    assert found == list(zip(wanted.sources, wanted.targets, strict=True)) != []
    said = detail(http.post("/v1/recommend", json={**body, "where": "candidate.yeer > 3"}), 422)
    assert "nearest: year" in said and said.splitlines()[-1].strip() == "^"
    for odd in ("x" * 2_001, 3, "(" * 100):
        detail(http.post("/v1/recommend", json={**body, "where": odd}), 422)


def test_the_client_answers_as_the_predictor(client: Client, predictor: LinkPredictor) -> None:
    found, wanted = (asked.recommend("Paper 3", 5, where=CONDITION) for asked in (client, predictor))
    assert found.targets == wanted.targets and found.ranks.tolist() == wanted.ranks.tolist()
    assert found.source_labels == wanted.source_labels and found.target_labels == wanted.target_labels
    chances = predictor.predict_proba(list(zip(found.sources, found.targets, strict=True)))
    assert found.probabilities == pytest.approx(chances, rel=1e-4)
    assert client.similar("Paper 3", 2).target_labels == predictor.similar("n03", 2).target_labels
    assert client.similar("Paper 3", 2).probabilities is None
    why, other = client.explain("Paper 3", "n09"), predictor.explain("n03", "n09")
    assert (why.source_label, why.target_label) == (other.source_label, other.target_label)
    assert {part.label for part in why.contributions} == {part.label for part in other.contributions}
    with pytest.raises(UnknownNodeError, match="nearest labels"):
        client.recommend("Papr 3")
    with pytest.raises(InputError, match="no attribute 'yeer'"):
        client.recommend("n03", where="candidate.yeer = 1")
    with pytest.raises(InputError, match="'where' needs to be a condition in text"):
        client.recommend("n03", where=lambda node: True)  # type: ignore[arg-type]


def test_the_client_takes_data_frames(client: Client, predictor: LinkPredictor) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"source": ["n03", "Paper 4"], "target": ["n09", "n10"], "note": ["x", "y"]})
    assert client.score(frame) == pytest.approx(predictor.score(frame), rel=1e-4)
    assert client.predict_proba(frame.to_numpy()[:, :2]) == pytest.approx(predictor.predict_proba(frame), rel=1e-4)


def test_nodes_that_came_later(labelled: Path, tmp_path: Path) -> None:
    with served(labelled, log=str(tmp_path / "log.sqlite")) as http:
        client = Client(str(http.base_url))
        client.add_node("late", neighbours=["n03"], label="Late one")
        assert client.recommend("late one", 3).sources == ("late",) * 3
        rows = client.recommend("n20", 40, where="candidate.label startswith 'Late' and candidate.degree = 1")
        assert rows.targets == ("late",) and rows.target_labels == ("Late one",)
        assert "late" not in client.recommend("n20", 40, where="candidate.year > 0").targets
        assert client.recommend("n20", 40, where="candidate.year is null").targets == ("late",)
        client.add_node("twin", neighbours=["n03"], label="late ONE")
        assert client.recommend("Late one", 1).sources == ("late",)  # exactly, before without regard to case
        with pytest.raises(InputError, match="'late', 'twin'"):
            client.recommend("LATE ONE", 1)


@pytest.mark.parametrize(("options", "label"), [({}, "Paper 3"), ({"no_labels": True}, None)])
def test_labels_can_be_hidden(labelled: Path, tmp_path: Path, options: dict[str, Any], label: str | None) -> None:
    with served(labelled, log=str(tmp_path / "log.sqlite"), **options) as http:
        page = http.get("/v1/nodes/n03").json()
        assert page["label"] == label and bool(page["attributes"]) == (label is not None)
        assert http.post("/v1/recommend", json={"nodes": ["Paper 3"]}).status_code == (200 if label else 404)


def test_a_table_replaces_the_labels_of_the_model(labelled: Path, tmp_path: Path) -> None:
    table = tmp_path / "other.csv"
    table.write_text("key,alias\nn03,Third\n", encoding="utf-8")
    with served(labelled, log=str(tmp_path / "log.sqlite"), labels=str(table)) as http:
        assert http.get("/v1/nodes/third").json()["label"] == "Third"
        assert http.get("/v1/nodes/n04").json()["label"] is None
