from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest

from serving_tools import access_lines, served
from yinyan import LinkPredictor, Rules
from yinyan.reporting.content import model_content
from yinyan.service.keys import add_key
from yinyan.service.options import Limits
from yinyan.service.slow_clients import SlowClientProtocol


@pytest.fixture(scope="module")
def shared(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One service for questions that change nothing."""
    import shutil

    folder = tmp_path_factory.mktemp("shared")
    shutil.copytree(models / "plain", folder / "model")
    table = folder / "papers.csv"
    table.write_text("id,title,year\n" + "".join(f"n{i:02d},Paper number {i},{1990 + i}\n" for i in range(30)))
    with served(folder / "model", labels=str(table)) as client:
        client.model = folder / "model"  # type: ignore[attr-defined]
        yield client


@pytest.fixture(scope="module")
def predictor(models: Path) -> LinkPredictor:
    return LinkPredictor.load(models / "plain", device="cpu")


def is_problem(response: httpx.Response, status: int, words: str) -> bool:
    body = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert response.status_code == body["status"] == status, body
    assert set(body) == {"type", "title", "status", "detail"}
    assert words in body["detail"], body
    return True


def test_scores_are_the_predictors(shared: httpx.Client, predictor: LinkPredictor) -> None:
    pairs = [("n00", "n01"), ("n00", "n30"), ("n05", "n17")]
    found = shared.post("/v1/score", json={"pairs": pairs, "base_rate": 0.1}).json()
    np.testing.assert_allclose([s["score"] for s in found["scores"]], predictor.score(pairs), rtol=1e-5)
    np.testing.assert_allclose(
        [s["probability"] for s in found["scores"]], predictor.predict_proba(pairs, base_rate=0.1), rtol=1e-5
    )
    assert [s["is_link"] for s in found["scores"]] == [True, False, False] and found["version"] == 0
    default = shared.post("/v1/score", json={"pairs": pairs}).json()
    chances = [s["probability"] for s in default["scores"]]
    np.testing.assert_allclose(chances, predictor.predict_proba(pairs), rtol=1e-5)
    assert (found["base_rate"], default["base_rate"]) == (0.1, predictor.base_rate_)


def test_rules_are_the_predictors(shared: httpx.Client, predictor: LinkPredictor) -> None:
    lists = {"allow": {"n00": ["n20", "n21", "n22", "n23"]}, "deny": {"n25": ["n01", "n02"], "n00": ["n21"]}}
    for once in (None, "target", "node"):
        sent = {name: [{"source": s, "targets": t} for s, t in found.items()] for name, found in lists.items()}
        body = {"nodes": ["n00", "n25", "n26"], "k": 3, "rules": {**sent, "once": once}}
        results = shared.post("/v1/recommend", json=body).json()["results"]
        wanted = predictor.recommend(["n00", "n25", "n26"], 3, rules=Rules(**lists, once=once))
        found = [(r["node"], p["target"]) for r in results for p in r["recommendations"]]
        assert found == [(row.source, row.target) for row in wanted] and found
    none = {"nodes": ["n00"], "rules": {"allow": [{"source": "n00", "targets": []}]}}
    assert shared.post("/v1/recommend", json=none).json()["results"][0]["recommendations"] == []
    wrong = {"nodes": ["n00"], "rules": {"once": "source"}}
    assert is_problem(shared.post("/v1/recommend", json=wrong), 422, "once")
    many = {"nodes": ["n00"], "rules": {"deny": [{"source": "n00", "targets": ["n01"] * 10_001}]}}
    assert is_problem(shared.post("/v1/recommend", json=many), 413, "nodes in the rule 'deny'")
    stranger = {"nodes": ["n00"], "rules": {"deny": [{"source": "n00", "targets": ["nobody"]}]}}
    assert is_problem(shared.post("/v1/recommend", json=stranger), 404, "nobody")


@pytest.mark.parametrize("k", [1, 7, 100])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("among", [None, ["n01", "n20", "n31", "n00"]])
def test_recommendations_are_the_predictors(
    shared: httpx.Client, predictor: LinkPredictor, k: int, known: bool, among: list[str] | None
) -> None:
    body = {"nodes": ["n00", "n25"], "k": k, "exclude_known": not known, "among": among}
    answer = shared.post("/v1/recommend", json=body).json()
    results = answer["results"]
    wanted = predictor.recommend(["n00", "n25"], k, exclude_known=not known, among=among)
    found = [(r["node"], p["target"], p["rank"]) for r in results for p in r["recommendations"]]
    assert found == [(row.source, row.target, row.rank) for row in wanted]
    scores = [p["score"] for r in results for p in r["recommendations"]]
    np.testing.assert_allclose(scores, wanted.scores, rtol=1e-4, atol=1e-5)
    chances = [p["probability"] for r in results for p in r["recommendations"]]
    np.testing.assert_allclose(chances, wanted.probabilities, rtol=1e-3)
    assert (answer["base_rate"], answer["missing_share"]) == (wanted.base_rate, wanted.missing_share)


def test_the_old_field_known_is_exclude_known_for_one_version(shared: httpx.Client) -> None:
    body = {"nodes": ["n00"], "k": 100}
    for known in (False, True):
        old = shared.post("/v1/recommend", json={**body, "known": known})
        assert old.json() == shared.post("/v1/recommend", json={**body, "exclude_known": not known}).json()


def test_similar_nodes_are_the_predictors(shared: httpx.Client, predictor: LinkPredictor) -> None:
    results = shared.post("/v1/similar", json={"nodes": ["n00", "n25"], "k": 4}).json()["results"]
    wanted = predictor.similar(["n00", "n25"], 4)
    found = [(r["node"], s["node"], s["rank"]) for r in results for s in r["similar"]]
    assert found == [(row.source, row.target, row.rank) for row in wanted]
    np.testing.assert_allclose([s["similarity"] for r in results for s in r["similar"]], wanted.scores, atol=1e-6)
    assert [s["label"] for s in results[0]["similar"] if s["node"] == "n01"] in ([], ["Paper number 1"])
    assert is_problem(shared.post("/v1/similar", json={"nodes": ["nope"]}), 404, "not in the graph")
    assert is_problem(shared.post("/v1/similar", json={"nodes": ["n00"] * 101}), 413, "100 nodes")


def test_explanations_are_the_predictors(shared: httpx.Client, predictor: LinkPredictor) -> None:
    found = shared.post("/v1/explain", json={"pairs": [["n00", "n01"]]}).json()["explanations"][0]
    wanted = predictor.explain("n00", "n01")
    assert found["score"] == pytest.approx(wanted.score, abs=1e-5) and found["is_link"]
    assert found["score_alone"] + sum(c["amount"] for c in found["contributions"]) + found["residue"] == pytest.approx(
        found["score"], abs=1e-4
    )
    assert [c["neighbour"] for c in found["contributions"]] == [c.neighbour for c in wanted.contributions]
    assert is_problem(shared.post("/v1/explain", json={"pairs": [["n00", "n00"]]}), 422, "two different nodes")


def test_embeddings_are_the_predictors(shared: httpx.Client, predictor: LinkPredictor) -> None:
    found = shared.post("/v1/embed", json={"nodes": ["n03", "n01"]}).json()["embeddings"]
    np.testing.assert_allclose([e["vector"] for e in found], predictor.embed(["n03", "n01"]), rtol=1e-5)


def test_nodes_are_found_and_shown(shared: httpx.Client) -> None:
    most = shared.get("/v1/nodes", params={"limit": 2}).json()["nodes"]
    assert [(n["id"], n["degree"]) for n in most] == [("n00", 5), ("n20", 5)]
    assert shared.get("/v1/nodes", params={"query": "n03"}).json()["nodes"][0] == {
        "id": "n03", "label": "Paper number 3", "degree": 4
    }  # fmt: skip
    assert shared.get("/v1/nodes", params={"query": "paper number 12"}).json()["nodes"][0]["id"] == "n12"
    page = shared.get("/v1/nodes/n00", params={"limit": 2, "offset": 1}).json()
    assert page["attributes"] == {"title": "Paper number 0", "year": 1990} and page["degree"] == 5
    assert [n["id"] for n in page["neighbours"]] == ["n02", "n18"]
    assert shared.get("/v1/nodes/n35").json()["attributes"] == {}
    assert is_problem(shared.get("/v1/nodes/n0x"), 404, "nearest")


def test_a_neighbourhood_can_be_drawn(shared: httpx.Client, predictor: LinkPredictor) -> None:
    for limit in (3, 60):
        found = shared.get("/v1/neighbourhood/n00", params={"limit": limit}).json()
        ids = [n["id"] for n in found["nodes"]]
        assert ids[0] == "n00" and len(ids) == len(set(ids)) <= limit
        graph = predictor.graph_
        rows = set(graph.ids.rows(ids).tolist())
        wanted = {tuple(pair) for pair in graph.edges.tolist() if set(pair) <= rows}
        assert {tuple(graph.ids.rows(link).tolist()) for link in found["links"]} == wanted
        assert {n["hop"] for n in found["nodes"]} == ({0, 1} if limit == 3 else {0, 1, 2})


def test_the_map_has_a_place_for_every_node(shared: httpx.Client, predictor: LinkPredictor) -> None:
    whole = shared.get("/v1/map").json()
    assert len(whole["ids"]) == len(whole["x"]) == len(whole["y"]) == len(whole["labels"]) == 40
    assert np.abs([whole["x"], whole["y"]]).max() == 1 and np.var(whole["x"]) > 0 and np.var(whole["y"]) > 0
    pairs = {frozenset((whole["ids"][a], whole["ids"][b])) for a, b in whole["edges"]}
    assert pairs == {frozenset(predictor.graph_.ids.take(pair)) for pair in predictor.graph_.edges}
    assert len(shared.get("/v1/map", params={"limit": 5}).json()["ids"]) == 5


def test_the_model_says_what_it_is(shared: httpx.Client, predictor: LinkPredictor) -> None:
    page = shared.get("/v1/model").json()
    assert page["model"]["num_nodes"] == 40 and page["model"]["num_links"] == predictor.graph_.num_edges
    assert page["metrics"] == pytest.approx(predictor.metrics_)
    assert len(page["training"]) == 2 and page["settings"]["encoder"]["hidden_size"] == 8
    assert page["live"] == {
        "version": 0, "added_links": 0, "removed_links": 0, "added_nodes": 0, "rejected": 0, "drift": 0.0
    }  # fmt: skip
    assert not page["read_only"] and page["index"]["kind"] == "exact"
    assert predictor.fitted_.valid_lists is not None
    assert sum(b["count"] for b in page["reliability"]) == len(predictor.fitted_.valid_lists.scores)
    assert page["probabilities"]["base_rate"] == predictor.base_rate_
    content = json.loads(json.dumps(model_content(predictor.fitted_)))
    assert page["model"].items() >= content.pop("model").items()
    assert {name: page[name] for name in content} == content, "as in a report"


def test_ids_of_both_types_stay_apart(mixed: Path) -> None:
    with served(mixed) as client:
        pages = {kind: client.get("/v1/nodes/7", params={"kind": kind}).json()["id"] for kind in ("text", "integer")}
        assert pages == {"text": "7", "integer": 7}
        assert client.get("/v1/nodes/7").json()["id"] == "7"  # text wins where both are there
        assert client.get("/v1/nodes/100").json()["id"] == 100
        assert client.get("/v1/nodes/a%2Fb").json()["id"] == "a/b"
        assert client.get("/v1/nodes/%C3%A4%3F%23").json()["id"] == "ä?#"
        assert client.get("/v1/nodes/").json()["id"] == ""
        assert is_problem(client.get("/v1/nodes/007", params={"kind": "integer"}), 404, "spells no integer")
        assert client.post("/v1/edges", json={"edges": [[7, 110], ["7", 111], ["007", 112]]}).json()["added"] == 3
        near = {
            key: [n["id"] for n in client.get(f"/v1/nodes/{text}", params={"kind": kind}).json()["neighbours"]]
            for key, text, kind in ((7, "7", "integer"), ("7", "7", "text"), ("007", "007", "text"))
        }
        assert 110 in near[7] and 111 in near["7"] and 112 in near["007"] and 111 not in near[7]
        assert client.post("/v1/nodes", json={"nodes": [{"id": 8}, {"id": "8"}, {"id": 10**30}]}).json()["added"] == 3
        assert is_problem(client.post("/v1/nodes", json={"nodes": [{"id": "8"}]}), 409, "'8' is already in the graph")
        assert client.get("/v1/nodes", params={"query": "1" + "0" * 30}).json()["nodes"][0]["id"] == 10**30


def test_changes_are_seen_at_once(model: Path) -> None:
    with served(model) as client:
        before = client.post("/v1/score", json={"pairs": [["n00", "n30"]]}).json()["scores"][0]
        best = client.post("/v1/recommend", json={"nodes": ["n00"], "k": 1}).json()["results"][0]["recommendations"][0]
        assert client.post("/v1/edges", json={"edges": [["n00", "n30"], ["n00", "n30"]]}).json() == {
            "added": 1, "version": 1
        }  # fmt: skip
        after = client.post("/v1/score", json={"pairs": [["n00", "n30"]]}).json()
        assert (
            after["version"] == 1 and after["scores"][0]["is_link"] and after["scores"][0]["score"] != before["score"]
        )
        assert client.request("DELETE", "/v1/edges", json={"edges": [["n30", "n00"]]}).json() == {
            "removed": 1, "version": 2
        }  # fmt: skip
        again = client.post("/v1/score", json={"pairs": [["n00", "n30"]]}).json()["scores"][0]
        assert again["score"] == pytest.approx(before["score"], abs=1e-5)
        pair = ["n00", best["target"]]
        assert client.post("/v1/rejections", json={"pairs": [pair]}).json() == {"rejected": 1, "version": 3}
        body = {"nodes": ["n00", best["target"]], "k": 40, "known": True}
        for result in client.post("/v1/recommend", json=body).json()["results"]:
            named = {result["node"], *(p["target"] for p in result["recommendations"])}
            assert not set(pair) <= named
        assert client.request("DELETE", "/v1/rejections", json={"pairs": [pair]}).json()["rejected"] == 1
        node = {"id": "fresh", "neighbours": ["n00"], "label": "A fresh one"}
        assert client.post("/v1/nodes", json={"nodes": [node]}).json()["added"] == 1
        assert client.get("/v1/nodes", params={"query": "a fresh"}).json()["nodes"][0]["id"] == "fresh"
        assert client.get("/v1/nodes/fresh").json()["neighbours"][0]["id"] == "n00"
        live = client.get("/v1/model").json()["live"]
        assert live["added_nodes"] == 1 and live["version"] == 5


def test_a_read_only_service_says_so(model: Path) -> None:
    with served(model, read_only=True) as client:
        assert is_problem(client.post("/v1/edges", json={"edges": [["n00", "n30"]]}), 409, "read-only")
        assert client.get("/v1/model").json()["read_only"]


def test_wrong_requests_are_told_what_is_wrong(shared: httpx.Client) -> None:
    post = shared.post
    assert is_problem(post("/v1/score", json={"pairs": [["n00"]]}), 422, "pairs.0")
    assert is_problem(post("/v1/score", json={"pairs": [["n00", 1.5]]}), 422, "pairs.0.1")
    assert is_problem(post("/v1/score", json={"pairs": [["n00", True]]}), 422, "pairs.0.1")
    assert is_problem(post("/v1/score", json={"pairs": [], "base_rate": 1}), 422, "base_rate")
    assert is_problem(post("/v1/recommend", json={"nodes": ["n00"], "k": 0}), 422, "k: ")
    assert is_problem(post("/v1/recommend", json={"nodes": ["n00"], "kk": 3}), 422, "kk")
    assert is_problem(post("/v1/recommend", json={"nodes": ["n00"], "k": 10**6}), 413, "1,000 links per node")
    assert is_problem(post("/v1/score", json={"pairs": [["n00", "n01"]] * 10_001}), 413, "10,000 pairs")
    assert is_problem(post("/v1/recommend", json={"nodes": [5]}), 404, "node 5 is not in the graph")
    assert is_problem(post("/v1/edges", json={"edges": [["n00", "n00"]]}), 422, "to itself")
    assert is_problem(post("/v1/nodes", json={"nodes": [{"id": "x", "features": [1.0]}]}), 422, "no features")
    assert is_problem(shared.get("/v1/nodes", params={"limit": 0}), 422, "limit")
    assert is_problem(shared.get("/v1/nowhere"), 404, "Not Found")
    assert is_problem(shared.get("/v1/score"), 405, "Method Not Allowed")


def test_odd_bodies_are_refused(shared: httpx.Client) -> None:
    def send(content: bytes, kind: str = "application/json") -> httpx.Response:
        return shared.post("/v1/score", content=content, headers={"Content-Type": kind})

    deep = b'{"pairs":' + b"[" * 40_000 + b"]" * 40_000 + b"}"
    assert is_problem(send(deep), 400, "recursion limit")
    assert is_problem(send(b'{"pairs": [["\xff\xfe", "n00"]]}'), 400, "not UTF-8")
    assert is_problem(send(json.dumps({"pairs": []}).encode("utf-16")), 400, "not UTF-8")
    assert is_problem(send(b'{"pairs": [["n00", "n01"]'), 400, "not JSON")
    assert is_problem(send(b'{"pairs": [], "base_rate": NaN}'), 400, "not JSON")
    assert is_problem(send(b'{"pairs": [["\\ud800", "n01"]]}'), 400, "not JSON")
    assert is_problem(send(b'{"pairs": [[' + b"9" * 5_000 + b', "n01"]]}'), 400, "not JSON")
    assert is_problem(send(b'{"pairs": []}', "text/plain"), 415, "application/json")
    assert is_problem(send(b""), 422, "the body")
    assert is_problem(send(b"[]"), 422, "the body")


def test_large_bodies_are_refused_however_they_come(model: Path) -> None:
    with served(model, limits=Limits(body_bytes=1_000)) as client:
        assert is_problem(client.post("/v1/score", content=b" " * 1_001), 413, "1,000 bytes")

        def chunks() -> Iterator[bytes]:
            for _ in range(20):
                yield b" " * 100

        assert is_problem(client.post("/v1/score", content=chunks()), 413, "1,000 bytes")
        assert client.get("/healthz").json() == {"status": "alive"}


def test_slow_bodies_and_slow_heads_are_cut_off(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlowClientProtocol, "head_seconds", 0.3)
    with served(model, limits=Limits(body_seconds=0.3)) as client:
        port = client.room.options.port  # type: ignore[attr-defined]
        with socket.create_connection(("127.0.0.1", port), timeout=5) as drip:
            drip.sendall(b"POST /v1/score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n")
            started = time.monotonic()
            for _ in range(3):
                drip.sendall(b" ")
                time.sleep(0.05)
            answer = drip.recv(4_096)
            assert b"408" in answer.split(b"\r\n")[0] and time.monotonic() - started < 3
            assert b"connection: close" in answer.lower()
        with socket.create_connection(("127.0.0.1", port), timeout=5) as drip:
            drip.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answer = b""
            while b"alive" not in answer:
                answer += drip.recv(4_096)
            drip.sendall(b"GET /heal")  # the next head never ends
            started = time.monotonic()
            assert drip.recv(4_096) == b"" and time.monotonic() - started < 3


def test_overload_is_answered_quickly(model: Path) -> None:
    limits = Limits(at_once=1, waiting=1, seconds=5)
    with served(model, limits=limits) as client:
        room = client.room  # type: ignore[attr-defined]
        hold, statuses = threading.Event(), []
        threading.Thread(target=lambda: room.desk._pool.submit(hold.wait, 10), daemon=True).start()

        def ask() -> None:
            with httpx.Client(base_url=client.base_url, trust_env=False, timeout=20) as mine:
                statuses.append(mine.post("/v1/score", json={"pairs": [["n00", "n01"]]}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 5
        while len(statuses) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert statuses == [503] * 3  # at once, while the others wait
        refused = client.post("/v1/score", json={"pairs": [["n00", "n01"]]})
        assert is_problem(refused, 503, "ask again") and refused.headers["retry-after"] == "1"
        assert client.get("/healthz").status_code == 200
        hold.set()
        for thread in threads:
            thread.join(10)
        assert sorted(statuses) == [200, 200, 503, 503, 503]


def test_an_answer_that_takes_too_long_is_given_up(model: Path) -> None:
    with served(model, limits=Limits(at_once=1, seconds=0.2)) as client:
        room = client.room  # type: ignore[attr-defined]
        hold = threading.Event()
        room.desk._pool.submit(hold.wait, 10)
        response = client.post("/v1/score", json={"pairs": [["n00", "n01"]]})
        hold.set()
        assert is_problem(response, 504, "0.2 s")


def test_an_error_of_our_own_is_a_problem_and_no_secret(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(model) as client:
        monkeypatch.setattr("yinyan.service.answers.score", lambda *args: 1 / 0)
        response = client.post("/v1/score", json={"pairs": []})
        assert is_problem(response, 500, "see its log") and "ZeroDivision" not in response.text
        monkeypatch.undo()
        assert client.post("/v1/score", json={"pairs": []}).status_code == 200


def test_keys_open_the_service(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    key, other = add_key(file, "ann"), add_key(file, "bob")
    with served(model, keys=str(file)) as client:
        assert is_problem(client.get("/v1/model"), 401, "Authorization: Bearer")
        for headers in ({"X-API-Key": key}, {"Authorization": f"Bearer {other}"}, {"Authorization": f"bearer {key}"}):
            assert client.get("/v1/model", headers=headers).status_code == 200
        for headers in ({"X-API-Key": key + "x"}, {"Authorization": f"Basic {key}"}, {"X-API-Key": "ä".encode()}):
            assert client.get("/v1/model", headers=headers).status_code == 401
        assert client.get("/metrics").status_code == client.get("/openapi.json").status_code == 401
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        assert client.get("/").status_code == 200  # the page asks for the key itself
    assert [line["key"] for line in access_lines(model)][1:4] == ["ann", "bob", "ann"]
    assert key not in (model.parent / "access.jsonl").read_text() and key not in file.read_text()


def test_pages_of_other_sites_are_kept_out(shared: httpx.Client) -> None:
    assert is_problem(shared.get("/v1/model", headers={"Host": "evil.example"}), 403, "local names")
    assert is_problem(shared.post("/v1/reload", headers={"Origin": "http://evil.example"}), 403, "other sites")
    host = f"127.0.0.1:{shared.base_url.port}"
    assert shared.get("/v1/model", headers={"Origin": f"http://{host}"}).status_code == 200
    assert shared.get("/v1/model", headers={"Host": "localhost:1"}).status_code == 200
    assert shared.get("/v1/model", headers={"Host": "[::1]:1"}).status_code == 200
    assert "access-control-allow-origin" not in shared.get("/v1/model").headers


def test_answers_carry_safe_headers(shared: httpx.Client) -> None:
    for path in ("/", "/v1/model", "/nowhere", "/assets/../../app.py", "/assets/none.js"):
        response = shared.get(path)
        assert "default-src 'self'" in response.headers["content-security-policy"], path
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff" and "server" not in response.headers
    assert shared.get("/assets/%2e%2e/%2e%2e/app.py").status_code == 404


def test_everybody_who_came_is_noted_and_counted(model: Path) -> None:
    with served(model) as client:
        client.post("/v1/score", json={"pairs": [["n00", "n01"]]})
        client.get("/v1/nodes/nobody")
        client.get("/v1/nodes/n00")
        text = client.get("/metrics").text
    notes = access_lines(model)
    assert [(n["method"], n["path"], n["status"]) for n in notes[:3]] == [
        ("POST", "/v1/score", 200),
        ("GET", "/v1/nodes/nobody", 404),
        ("GET", "/v1/nodes/n00", 200),
    ]
    assert all(n["seconds"] > 0 and n["bytes"] > 0 and n["client"] == "127.0.0.1" for n in notes)
    assert 'yinyan_requests_total{route="/v1/score",method="POST",status="200"} 1' in text
    assert 'yinyan_requests_total{route="/v1/nodes/{id:path}",method="GET",status="404"} 1' in text
    assert 'yinyan_request_seconds_count{route="/v1/nodes/{id:path}"} 2' in text
    assert "yinyan_nodes 40" in text and text.endswith("\n")


def test_a_refusal_of_a_change_is_not_a_change(model: Path) -> None:
    with served(model) as client:
        body: dict[str, Any] = {"nodes": [{"id": "a", "neighbours": ["b"]}, {"id": "c", "neighbours": ["nobody"]}]}
        assert client.post("/v1/nodes", json=body).status_code == 404
        assert client.get("/v1/model").json()["model"]["num_nodes"] == 40


def test_an_id_is_fetched_by_exactly_its_characters(model: Path) -> None:
    """GET /v1/nodes/n0%0A answered for n0, and ids with an inner newline could not be fetched."""
    with served(model) as client:
        ids = ["a\nb", "n00\n", "\n", "a\u2028/b\r"]
        assert is_problem(client.get("/v1/nodes/n00%0A"), 404, "not in the graph")
        assert client.post("/v1/nodes", json={"nodes": [{"id": value} for value in ids]}).json()["added"] == 4
        for value in ids:
            for path in ("nodes", "neighbourhood"):
                page = client.get(f"/v1/{path}/{quote(value, safe='')}").json()
                assert (page if path == "nodes" else page["nodes"][0])["id"] == value
        assert client.get("/v1/model%0A").status_code == 404


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/edges", "DELETE, POST"),
        ("/v1/rejections", "DELETE, POST"),
        ("/v1/nodes", "GET, POST"),
        ("/v1/model", "GET"),
    ],
)
def test_allow_names_all_methods_of_a_path(shared: httpx.Client, path: str, methods: str) -> None:
    """`Allow` named the methods of the first route alone, and so lacked DELETE."""
    refused = shared.put(path)
    assert is_problem(refused, 405, "Method Not Allowed") and refused.headers["allow"] == methods


def test_a_whole_number_may_be_written_as_a_float(mixed: Path) -> None:
    """`k: 1428.0` was refused, though an integer of JSON Schema may be written so."""
    with served(mixed) as client:
        for body in ({"nodes": [7.0], "k": 3.0}, {"nodes": [7], "k": 3}):
            answer = client.post("/v1/recommend", json=body).json()["results"][0]
            assert answer["node"] == 7 and isinstance(answer["node"], int) and len(answer["recommendations"]) == 3
        assert is_problem(client.post("/v1/recommend", json={"nodes": [7], "k": 1428.0}), 413, "1,000 links")
        for wrong in (3.5, "3", True, None):
            assert is_problem(client.post("/v1/recommend", json={"nodes": [7], "k": wrong}), 422, "k: ")
        assert client.post("/v1/recommend", json={"nodes": [7.5]}).status_code == 422
