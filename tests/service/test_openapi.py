"""Nothing that the OpenAPI document allows gets an answer that it does not name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from serving_tools import served

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def client(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("openapi")
    shutil.copytree(models / "mixed", folder / "model")
    with served(folder / "model") as client:
        yield client


@pytest.fixture(scope="module")
def document(client: httpx.Client) -> Any:
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{client.base_url.port}/openapi.json")


def test_every_answer_is_documented(document: Any) -> None:
    asked = 0
    for found in document.get_all_operations():

        @settings(max_examples=25, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=found.ok().as_strategy())
        def ask(case: Any) -> None:
            nonlocal asked
            asked += 1
            case.validate_response(case.call(timeout=20), checks=CHECKS)

        ask()
    assert asked > 150


def test_every_route_has_an_example_and_its_refusals(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, facts in methods.items():
            if path.startswith("/v1/"):
                assert {"401", "403", "503"} <= set(facts["responses"]), (method, path)
            if "requestBody" in facts:
                name = facts["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                assert document["components"]["schemas"][name]["examples"], name
                assert {"400", "408", "413", "415", "422"} <= set(facts["responses"]), (method, path)
