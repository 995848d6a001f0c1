"""Gauges of the edges that came after the fit."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from serving_tools import models, served
from yinyan import LinkPredictor

__all__ = ["models"]


def gauges(client: httpx.Client) -> dict[str, float]:
    text = client.get("/metrics").text
    return {name: float(value) for name, value in re.findall(r"^(yinyan_recent_\w+) (\S+)$", text, re.MULTILINE)}


def test_gauges_are_the_figures_of_the_change_log(model: Path) -> None:
    predictor = LinkPredictor.load(model)
    ids = predictor.graph_.ids
    new = [(ids[a], ids[b]) for a in range(0, 12) for b in range(25, 31)]
    with served(model) as client:
        assert gauges(client) == {}, "nothing has changed"
        assert client.post("/v1/edges", json={"edges": [new[0]]}).status_code == 200
        assert set(gauges(client)) == {f"yinyan_recent_{name}" for name in ("edges", "new_node_share", "refit")}, (
            "too few for figures of scores"
        )
        assert client.post("/v1/edges", json={"edges": new}).status_code == 200
        found = gauges(client)
        drift = predictor.drift(new)
        assert drift.auc is not None and drift.score_shift is not None
        assert found["yinyan_recent_edges"] == len(new) == 72
        assert abs(found["yinyan_recent_auc"] - drift.auc.now.value) < 1e-4
        assert abs(found["yinyan_recent_score_shift"] - drift.score_shift) < 1e-3
        assert found["yinyan_recent_refit"] == 1.0, "there are nearly as many new edges as the model had"


def test_removed_edges_do_not_count_and_new_nodes_do(model: Path) -> None:
    with served(model) as client:
        client.post("/v1/edges", json={"edges": [("n00", "n30"), ("n01", "n31")]})
        assert client.request("DELETE", "/v1/edges", json={"edges": [("n00", "n30")]}).status_code == 200
        assert gauges(client)["yinyan_recent_edges"] == 1
        answer = client.post("/v1/nodes", json={"nodes": [{"id": "new", "neighbours": ["n03", "n04"]}]})
        assert answer.status_code == 200, answer.text
        found = gauges(client)
        assert found["yinyan_recent_edges"] == 3 and abs(found["yinyan_recent_new_node_share"] - 2 / 3) < 1e-4
        assert found["yinyan_recent_refit"] == 1.0
