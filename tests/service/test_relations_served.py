"""Models with relations over HTTP: questions, looking around, reloads, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from test_openapi import CHECKS

import yinyan
from serving_tools import served
from typed_graphs import QUICK, odd, shop
from yinyan import LinkPredictor, Rules
from yinyan.errors import InputError, ServiceError, SettingsError, UnknownNodeError

PERSON, PRODUCT = {"type": "person", "id": "3"}, {"type": "product", "id": "4"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two predicted relations; people and products have the same ids."""
    folder = tmp_path_factory.mktemp("typed")
    LinkPredictor(**QUICK).fit(shop(), predict=["buys", "follows"]).save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def predictor(saved: Path) -> LinkPredictor:
    return LinkPredictor.load(saved, device="cpu")


@pytest.fixture(scope="module")
def service(saved: Path) -> Iterator[httpx.Client]:
    with served(saved) as client:
        yield client


@pytest.fixture(scope="module")
def client(service: httpx.Client) -> yinyan.Client:
    return yinyan.Client(str(service.base_url))


def _links(found: Any) -> list[tuple[Any, Any]]:
    return list(zip(found.sources, found.targets, strict=True))


class TestTheClientAnswersAsThePredictor:
    def test_partners(self, client: yinyan.Client, predictor: LinkPredictor) -> None:
        for relation, node in (("buys", ("person", "3")), ("buys", ("product", "4")), ("follows", "3")):
            found, wanted = (who.recommend(node, 5, relation=relation) for who in (client, predictor))
            assert _links(found) == _links(wanted)
            np.testing.assert_allclose(found.probabilities, wanted.probabilities, rtol=1e-3)
            assert found.target_labels == wanted.target_labels
        several = [("person", "3"), ("product", "4")]
        assert _links(client.recommend(several, 4, relation="buys")) == _links(
            predictor.recommend(several, 4, relation="buys")
        )

    def test_partners_that_are_narrowed(self, client: yinyan.Client, predictor: LinkPredictor) -> None:
        rules = Rules(allow={("person", "3"): ["1", "2"]}, deny={("person", "5"): [("product", "7")]}, once="target")
        asked: dict[str, Any] = {"relation": "buys", "exclude_known": False, "k": 3}
        people = [("person", "3"), ("person", "5")]
        for more in ({"rules": rules}, {"among": ["1", ("product", "2")]}, {"where": "candidate.title = 'thing 7'"}):
            assert _links(client.recommend(people, **asked, **more)) == _links(
                predictor.recommend(people, **asked, **more)
            )

    def test_scores_and_reasons(self, client: yinyan.Client, predictor: LinkPredictor) -> None:
        pairs = [("3", "4"), (("person", "5"), ("product", "5"))]
        np.testing.assert_allclose(
            client.score(pairs, relation="buys"), predictor.score(pairs, relation="buys"), rtol=1e-5
        )
        chances = [who.predict_proba(pairs, base_rate=0.2, relation="buys") for who in (client, predictor)]
        np.testing.assert_allclose(*chances, rtol=1e-5)
        why, wanted = (who.explain("3", "4", relation="buys") for who in (client, predictor))
        assert why.by_relation() == pytest.approx(wanted.by_relation(), abs=1e-5)
        assert {c.end_type for c in why.contributions} == {"person", "product"}

    def test_vectors_and_similar_nodes(self, client: yinyan.Client, predictor: LinkPredictor) -> None:
        nodes = [("product", "3"), ("person", "3")]
        np.testing.assert_allclose(client.embed(nodes), predictor.embed(nodes), rtol=1e-5)
        near, wanted = (who.similar(("product", "3"), 4, relation="buys") for who in (client, predictor))
        assert _links(near) == _links(wanted)

    def test_looking_around(self, client: yinyan.Client) -> None:
        assert [node["type"] for node in client.search("3", limit=2)] == ["person", "product"]
        assert [node["id"] for node in client.search("thing 7", limit=1)] == ["7"]
        assert {node["type"] for node in client.search(type="product", limit=30)} == {"product"}
        found = client.node(("product", "4"))
        bought = client.node(("product", "4"), relation="buys")["neighbours"]
        assert {edge["relation"] for edge in found["neighbours"]} == {"buys", "views"}
        assert found["degree"] == len(found["neighbours"]) > len(bought) > 0
        assert found["attributes"]["title"] == "thing 4"


class TestAnswers:
    def test_types_are_named(self, service: httpx.Client) -> None:
        body = {"nodes": [PERSON], "k": 2, "relation": "buys"}
        (result,) = service.post("/v1/recommend", json=body).json()["results"]
        assert (result["node"], result["type"]) == ("3", "person")
        assert {partner["type"] for partner in result["recommendations"]} == {"product"}
        body = {"pairs": [["3", "4"]], "relation": "buys"}
        (scored,) = service.post("/v1/score", json=body).json()["scores"]
        assert (scored["source_type"], scored["target_type"]) == ("person", "product")
        (why,) = service.post("/v1/explain", json=body).json()["explanations"]
        assert why["relation"] == "buys" and why["score"] == pytest.approx(scored["score"], abs=1e-4)

    def test_requests_of_different_relations_are_answered_together(self, service: httpx.Client) -> None:
        from yinyan.service.answers import Asked, Wish, recommend_together

        room = service.room  # type: ignore[attr-defined]
        wishes = [(("person", "3"), "buys"), (("person", "3"), "follows"), (("person", "x"), "buys"), ("3", "nothing")]
        found = recommend_together(room.now, [Asked(Wish([node], 3), relation) for node, relation in wishes])
        types = [found[place]["results"][0]["recommendations"][0]["type"] for place in (0, 1)]  # type: ignore[index]
        assert types == ["product", "person"]
        assert isinstance(found[2], UnknownNodeError) and isinstance(found[3], InputError)

    def test_a_neighbourhood(self, service: httpx.Client) -> None:
        found = service.get("/v1/neighbourhood/4", params={"type": "product", "limit": 12}).json()
        assert len(found["nodes"]) == 12 and found["nodes"][0]["type"] == "product"
        assert len(found["links"]) == len(found["ends"]) == len(found["relations"]) > 0
        for (a, b), relation, (source, target) in zip(found["ends"], found["relations"], found["links"], strict=True):
            assert (found["nodes"][a]["id"], found["nodes"][b]["id"]) == (source, target)
            ends = (found["nodes"][a]["type"], found["nodes"][b]["type"])
            assert ends == ("person", "person" if relation == "follows" else "product")
        bought = service.get("/v1/neighbourhood/4", params={"type": "product", "relation": "buys"}).json()
        assert set(bought["relations"]) == {"buys"}

    def test_the_model_and_its_map(self, service: httpx.Client) -> None:
        page = service.get("/v1/model").json()
        assert page["relation"] == "buys" and page["read_only"]
        assert [kind["name"] for kind in page["types"]] == ["person", "product"]
        assert {r["name"]: r["predicted"] for r in page["relations"]} == {"buys": True, "views": False, "follows": True}
        other = service.get("/v1/model", params={"relation": "follows"}).json()
        assert other["metrics"] != page["metrics"] and other["overall"] == page["overall"]
        drawn = service.get("/v1/map").json()
        assert drawn["types"] == ["person"] * 24 + ["product"] * 18 and len(drawn["edges"]) > 50

    def test_ready_and_counted(self, service: httpx.Client) -> None:
        assert service.get("/readyz").status_code == 200
        text = service.get("/metrics").text
        assert "yinyan_nodes 42" in text and "yinyan_links 3" in text.replace("yinyan_links 312", "yinyan_links 3")


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("route", "body", "status", "words"),
        [
            ("recommend", {"nodes": [PERSON]}, 422, "predicts several relations: name one"),
            ("recommend", {"nodes": [PERSON], "relation": "bys"}, 422, "nearest: 'buys'"),
            ("recommend", {"nodes": [PERSON], "relation": "views"}, 422, "a message only"),
            ("recommend", {"nodes": ["3"], "relation": "buys"}, 422, "name its type"),
            ("recommend", {"nodes": [{"type": "shop", "id": "3"}], "relation": "buys"}, 422, "no nodes of type 'shop'"),
            ("recommend", {"nodes": [{"type": "person"}], "relation": "buys"}, 422, "id"),
            ("recommend", {"nodes": [{"type": "person", "id": "x"}], "relation": "buys"}, 404, "'x' is not in the"),
            ("score", {"pairs": [["3", "23"]], "relation": "buys"}, 404, "type 'product'"),
            ("score", {"pairs": [[PRODUCT, PERSON]], "relation": "buys"}, 422, "pairs are (source, target)"),
            ("explain", {"pairs": [["3", "3"]], "relation": "follows"}, 422, "two different nodes"),
            ("embed", {"nodes": [{"type": "shop", "id": "3"}]}, 422, "there is no node type 'shop'"),
            ("embed", {"nodes": ["3"]}, 422, "name its type"),
            ("similar", {"nodes": [PERSON], "relation": "nothing"}, 422, "there is no relation 'nothing'"),
        ],
    )
    def test_questions(self, service: httpx.Client, route: str, body: Any, status: int, words: str) -> None:
        answer = service.post(f"/v1/{route}", json=body)
        assert answer.status_code == status
        assert words in answer.json()["detail"]

    @pytest.mark.parametrize(
        ("path", "status", "words"),
        [
            ("nodes/3", 422, "name its type"),
            ("nodes/3?type=shop", 422, "there is no node type 'shop'"),
            ("nodes/x?type=person", 404, "not in the graph"),
            ("nodes?relation=sells", 422, "there is no relation 'sells'"),
            ("neighbourhood/3?type=person&relation=sells", 422, "there is no relation"),
            ("nodes/3?type=person&kind=integer", 404, "not in the graph"),
            ("model?relation=views", 422, "a message only"),
        ],
    )
    def test_looking_around(self, service: httpx.Client, path: str, status: int, words: str) -> None:
        answer = service.get(f"/v1/{path}")
        assert answer.status_code == status
        assert words in answer.json()["detail"]

    def test_changes(self, client: yinyan.Client, service: httpx.Client) -> None:
        calls = [
            lambda: client.add_links([("3", "4")]),
            lambda: client.remove_links([("3", "4")]),
            lambda: client.add_node("new"),
            lambda: client.reject([("3", "4")]),
        ]
        for call in calls:
            with pytest.raises(ServiceError, match="served without changes of its graph: fit again") as error:
                call()
            assert error.value.status == 409
        assert service.get("/v1/model").json()["version"] == 0

    def test_a_table_of_labels(self, saved: Path, tmp_path: Path) -> None:
        (tmp_path / "labels.csv").write_text("id,label\n3,three\n", encoding="utf-8")
        with pytest.raises(SettingsError, match="--labels is for models without relations"):
            served(saved, labels=tmp_path / "labels.csv").__enter__()

    def test_relations_of_a_plain_model(self, mixed: Path) -> None:
        with served(mixed) as service:
            for body in ({"nodes": [7], "relation": "buys"}, {"nodes": [{"type": "person", "id": 7}]}):
                answer = service.post("/v1/recommend", json=body)
                assert answer.status_code == 422 and "this model has one" in answer.json()["detail"]
            for path in ("nodes?type=person", "nodes/7?relation=buys", "model?relation=buys"):
                assert service.get(f"/v1/{path}").status_code == 422


class TestOddRelations:
    """A hub, a relation of three edges, a type without edges, and ids that two types have."""

    @pytest.fixture(scope="class")
    def odd_client(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
        folder = tmp_path_factory.mktemp("odd")
        LinkPredictor(**{**QUICK, "training": {**QUICK["training"], "batch_size": 7}}).fit(odd()).save(folder / "model")
        with served(folder / "model") as client:
            yield client

    def test_a_hub_has_no_link_left(self, odd_client: httpx.Client) -> None:
        asked = {"nodes": ["0", "4"], "k": 40, "relation": "hub"}
        hub, other = odd_client.post("/v1/recommend", json=asked).json()["results"]
        assert hub["recommendations"] == [] and len(other["recommendations"]) == 28

    def test_a_relation_of_three_edges_is_answered_without_figures(self, odd_client: httpx.Client) -> None:
        asked = {"nodes": ["0"], "k": 3, "relation": "few"}
        (found,) = odd_client.post("/v1/recommend", json=asked).json()["results"]
        assert len(found["recommendations"]) == 3 and found["recommendations"][0]["target"] != "9"
        page = odd_client.get("/v1/model?relation=few").json()
        assert page["metrics"] == {} and page["roc"] is None and page["lists"] is None

    def test_a_type_without_edges(self, odd_client: httpx.Client) -> None:
        page = odd_client.get("/v1/nodes/1?type=shop").json()
        assert page["degree"] == 0 and page["neighbours"] == []
        drawn = odd_client.get("/v1/neighbourhood/1?type=shop").json()
        assert len(drawn["nodes"]) == 1 and drawn["links"] == drawn["ends"] == []
        vector = odd_client.post("/v1/embed", json={"nodes": [{"type": "shop", "id": "1"}]}).json()["embeddings"][0]
        assert vector["type"] == "shop" and np.isfinite(vector["vector"]).all()
        asked = {"nodes": [{"type": "shop", "id": "1"}], "relation": "ring"}
        answer = odd_client.post("/v1/recommend", json=asked)
        assert answer.status_code == 422 and "joins no nodes of type 'shop'" in answer.json()["detail"]

    def test_an_id_of_two_types(self, odd_client: httpx.Client) -> None:
        answer = odd_client.get("/v1/nodes/1")
        assert answer.status_code == 422 and "name its type, ('node', '1')" in answer.json()["detail"]
        (found,) = odd_client.post("/v1/recommend", json={"nodes": ["1"], "k": 1, "relation": "ring"}).json()["results"]
        assert found["type"] == "node"  # the relation joins nodes of one type alone


def test_labels_may_be_left_out(saved: Path) -> None:
    with served(saved, no_labels=True) as service:
        assert service.get("/v1/nodes/4?type=product").json()["label"] is None
        body = {"nodes": [PERSON], "k": 2, "relation": "buys"}
        (result,) = service.post("/v1/recommend", json=body).json()["results"]
        assert {partner["label"] for partner in result["recommendations"]} == {None}


def test_another_model_is_taken_up(saved: Path, tmp_path: Path) -> None:
    """A reload counts as a version, and the kind of the model may change with it."""
    shutil.copytree(saved, tmp_path / "model")
    with served(tmp_path / "model") as service:
        client = yinyan.Client(str(service.base_url))
        LinkPredictor(**QUICK).fit(shop(seed=4), predict="views").save(tmp_path / "model")
        client.reload()
        assert client.version == 1
        assert len(client.recommend(("person", "3"), 2)) == 2  # one predicted relation needs no name
        assert client.model()["relation"] == "views"


def test_a_saved_index_of_a_relation_is_used(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "model")
    LinkPredictor.load(saved).index("flashlight", relation="buys", k=3, recall=None).save(tmp_path / "model")
    with served(tmp_path / "model") as service:
        kinds = {r: service.get(f"/v1/model?relation={r}").json()["index"]["kind"] for r in ("buys", "follows")}
        assert kinds == {"buys": "flashlight", "follows": "exact"}
        body = {"nodes": [PERSON], "k": 2, "relation": "buys"}
        assert service.post("/v1/recommend", json=body).status_code == 200


def test_every_answer_is_documented(service: httpx.Client) -> None:
    document = schemathesis.openapi.from_url(f"http://127.0.0.1:{service.base_url.port}/openapi.json")
    for found in document.get_all_operations():
        assert isinstance(found.ok().path, str)
        if found.ok().method != "get" and found.ok().path not in ("/v1/recommend", "/v1/score"):
            continue

        @settings(max_examples=8, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=found.ok().as_strategy())
        def ask(case: Any) -> None:
            case.validate_response(case.call(timeout=20), checks=CHECKS)

        ask()
