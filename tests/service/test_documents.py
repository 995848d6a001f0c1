"""The lines of the documentation get answers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from serving_tools import served, tiny_predictor, two_rings
from typed_graphs import QUICK, shop_tables
from yinyan import Graph, LinkPredictor

ROOT = Path(__file__).parents[2]


def curl_lines(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    found = [line for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
    return [line for line in [*found, *re.findall(r"`(curl [^`]*)`", text)] if line.startswith("curl ")]


def is_typed(line: str) -> bool:
    """Whether a line asks a model with relations."""
    return "relation" in line or "type=" in line


def save_plain(folder: Path) -> None:
    ids = ["p1", "p9", "p2", "p1033", *(f"q{i}" for i in range(36))]
    tiny_predictor().fit(Graph.from_arrays(two_rings(), ids=ids)).save(folder)


def save_typed(folder: Path) -> None:
    tables = shop_tables()
    named = {
        (ends[0], relation, ends[1]): {
            "from": [f"u{i}" for i, _ in tables[relation]],
            "to": [f"p{j}" for _, j in tables[relation]],
        }
        for relation, ends in {"buys": ("person", "product"), "views": ("person", "product")}.items()
    }
    LinkPredictor(**QUICK).fit(Graph.from_tables(named), predict=["buys"]).save(folder)


@pytest.mark.parametrize(
    ("name", "least", "typed"),
    [("README.md", 1, False), ("docs/guide/service.md", 15, False), ("docs/guide/service.md", 6, True)],
)
def test_curl_lines_are_answered(name: str, least: int, typed: bool, tmp_path: Path) -> None:
    (save_typed if typed else save_plain)(tmp_path / "model")
    lines = [line for line in curl_lines(name) if is_typed(line) == typed]
    assert len(lines) >= least
    with served(tmp_path / "model") as client:
        for line in lines:
            words = shlex.split(line)[1:]
            headers, body, method, address = {}, None, None, ""
            while words:
                word = words.pop(0)
                if word == "-H":
                    key, _, value = words.pop(0).partition(": ")
                    headers[key] = value
                elif word == "-d":
                    body = words.pop(0)
                elif word == "-X":
                    method = words.pop(0)
                elif word != "-s":
                    address = word.removeprefix("localhost:8000")
            method = method or ("GET" if body is None else "POST")
            answer = client.request(method, address, headers=headers, content=body)
            assert answer.status_code == 200, (line, answer.text)
            assert answer.json().keys() - {"version"}, line


def test_the_client_of_the_page_is_answered(tmp_path: Path) -> None:
    ids = ["p1", *(f"q{i}" for i in range(38)), "p9"]
    tiny_predictor().fit(Graph.from_arrays(two_rings(), ids=ids)).save(tmp_path / "model")
    text = (ROOT / "docs/guide/service.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert found
    with served(tmp_path / "model") as client:
        for block in found:
            assert "http://127.0.0.1:8000" in block
            exec(block.replace("http://127.0.0.1:8000", str(client.base_url)), {})
        assert client.get("/v1/model").json()["live"]["added_links"] == 1


def test_every_promise_of_the_page_names_tests_that_exist() -> None:
    """The page has to say what is promised, and every line which tests show it."""
    text = (ROOT / "docs/guide/service.md").read_text(encoding="utf-8")
    section = text.partition("\n## What is promised\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(lines) >= 15
    for word in ("Durability", "Consistency", "Staleness", "Limits", "Keys", "Logging"):
        assert f"**{word}.**" in section
    for line in lines:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line.split("|")[2])
        assert len(named) == line.split("|")[2].count("`") // 2 > 0, line
        for path, name in named:
            assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.M), f"{path}::{name}"
