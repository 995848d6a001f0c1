"""The words that users read are the field's: help texts, settings, the service's descriptions, messages."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

import yinyan
from yinyan.cli.commands import app
from yinyan.graph.table_options import TableOptions
from yinyan.settings import GROUPS

SOURCE = Path(yinyan.__file__).parent
ELSEWHERE = ("reporting", "memory.py")  # their words follow with their own changes

_COUNTED = "links?|edges?|nodes?|rows?|numbers?|vectors?|columns?|steps?|negatives|neighbours|milliseconds"
_PER = "node|link|edge|step|pair|query|source|seed|value|positive|row"
AVOIDED = re.compile(
    r"\b(lever|levers|told|tell|tells|said|say|says|heard|hear|hears|spoken of|speaks?|non-links?|by heart|beliefs?"
    r"|seems? to be missing|graph of bits|ways down|surest|four embeddings in five|at most a|as it comes|by itself"
    r"|moments?|rooms?|houses?|partners?|tell its company|nothing was chosen on"
    rf"|(?:{_COUNTED}) an? (?:{_PER})"
    r")\b",
    re.IGNORECASE,
)


def commands() -> dict[str, typer.core.TyperCommand]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return dict(group.commands)  # type: ignore[arg-type]


def docstrings_of(tree: ast.Module) -> set[int]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.body]
    firsts = [node.body[0].value for node in nodes if isinstance(node.body[0], ast.Expr)]
    return {id(first) for first in firsts if isinstance(first, ast.Constant)}


def literals(path: Path, *, docstrings: bool) -> Iterator[tuple[int, str]]:
    """Texts of a file that are no names; documentation of code only where it is shown to users."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = set() if docstrings else docstrings_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            text = node.value.strip()
            if " " in text or not text.isidentifier():
                yield node.lineno, text


@pytest.mark.parametrize(
    ("text", "avoided"),
    [
        ("3 non-links a link", True),
        ("time of a node at most", False),  # for a person to see
        ("links a node, at most", True),
        ("a node is told by its neighbourhood", True),
        ("negatives per edge", False),
        ("edges between two kinds of nodes", False),
    ],
)
def test_the_pattern_finds_what_it_should(text: str, avoided: bool) -> None:
    assert bool(AVOIDED.search(text)) == avoided


def test_messages() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if any(part in path.parts for part in ELSEWHERE):
            continue
        shown = path.name in ("schemas.py", "app.py") and path.parent.name == "service"
        for line, text in literals(path, docstrings=shown):
            match = AVOIDED.search(text)
            if match:
                found.append(f"{path.relative_to(SOURCE)}:{line}: {match[0]!r} in {text!r}")
    assert found == []


@pytest.mark.parametrize("name", [*commands()])
def test_help(name: str) -> None:
    command = commands()[name]
    assert not AVOIDED.search(command.help or "")
    assert (command.help or "")[0].isupper()
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        text = getattr(parameter, "help", None) or ""
        assert text, f"{name}: {parameter.name} has no help"
        assert not AVOIDED.search(text), text
        assert "\n" not in text and len(text) <= 72, f"{name}: {text!r} needs to fit on one line"


def test_settings_and_table_options() -> None:
    for kind in (*GROUPS.values(), TableOptions):
        for field in dataclasses.fields(kind):
            text = field.metadata["help"]
            assert not AVOIDED.search(text), text
            assert "\n" not in text and len(text) <= 110 and not text.endswith("."), text
            assert not text.startswith(("how ", "what ", "whether ")), f"{text!r} needs to begin with a noun or a verb"


def test_openapi(tmp_path: Path) -> None:
    """Every route and every parameter of the service is described."""
    pytest.importorskip("fastapi")
    from fastapi import FastAPI

    from yinyan.service import routes as service

    api = FastAPI(title="yinyan")

    class Nothing:
        def __getattr__(self, name: str) -> Nothing:
            return self

    for add in (service._questions, service._browsing, service._changes):
        add(api, Nothing())  # type: ignore[arg-type]
    routes = [route for methods in api.openapi()["paths"].values() for route in methods.values()]
    assert len(routes) >= 15
    for route in routes:
        assert route["description"] and not AVOIDED.search(route["description"])
        for parameter in route.get("parameters", ()):
            assert parameter.get("description"), (route["summary"], parameter["name"])
            assert not AVOIDED.search(parameter["description"])
