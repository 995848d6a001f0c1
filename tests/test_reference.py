"""The reference: pages as generated, sections as signatures call for them, examples that run."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import yinyan
from contracts import planted_graph, tiny
from yinyan import Graph, LinkPredictor, LiveEmbeddings, errors
from yinyan.model.fitted import our_encoder
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.service.client import ServiceError

DOCS = Path(__file__).parents[1] / "docs"
spec = spec_from_file_location("make_reference", DOCS / "make_reference.py")
assert spec is not None and spec.loader is not None
reference = module_from_spec(spec)
spec.loader.exec_module(reference)

# documented by one line each, and by the table of their page
BRIEF = {"reproduce.Job", "reproduce.Result", "reproduce.kept_results", "reproduce.run_cells"}


def items() -> Iterator[tuple[str, Any]]:
    """Every class and function of the reference by its name."""
    for _, _, names in reference.PAGES.values():
        for name in names:
            found = reference.public(name)
            if not inspect.ismodule(found):
                yield name, found
            elif name != "losses":  # of one signature, described once
                yield from ((f"{name}.{member}", getattr(found, member)) for member in reference.members(found))


ITEMS = {name: found for name, found in items() if name not in BRIEF}
CLASSES = {name: found for name, found in ITEMS.items() if inspect.isclass(found)}
CALLS = {name: found for name, found in ITEMS.items() if inspect.isfunction(found)}
CALLS |= {f"{name}.{m}": getattr(kind, m) for name, kind in CLASSES.items() for m in reference.methods(kind)}
EXAMPLES = [
    example
    for name, found in {**CLASSES, **CALLS}.items()
    for example in doctest.DocTestFinder(recurse=False).find(found, name)
    if example.examples
]


def test_the_pages_are_those_of_the_docstrings(tmp_path: Path) -> None:
    """`make docs` writes them."""
    reference.main(tmp_path)
    made, kept = ({path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")} for folder in
                  (tmp_path, DOCS / "reference"))  # fmt: skip
    kept.pop("model-format.md")  # written by hand
    assert sorted(made) == sorted(kept)
    assert [name for name in made if made[name] != kept[name]] == []


def test_every_public_name_is_on_a_page() -> None:
    known = {id(found) for found in ITEMS.values()}
    assert [n for n in yinyan.__all__ if n != "__version__" and id(getattr(yinyan, n)) not in known] == []
    named = {name for _, _, names in reference.PAGES.values() for name in names}
    assert set(yinyan._MODULES) <= named


def arguments(found: Any) -> list[str]:
    return [p for p in inspect.signature(found).parameters if p not in ("self", "cls")]


def described(found: Any) -> list[str]:
    """The parameters that a docstring describes."""
    lines = reference.sections(found).get("Parameters", [])
    return [name for line in lines if line and not line.startswith(" ") for name in line.split(", ")]


@pytest.mark.parametrize("name", CALLS)
def test_functions_have_the_sections_of_their_signature(name: str) -> None:
    found = CALLS[name]
    parts = reference.sections(found)
    assert described(found) == arguments(found)
    assert ("Returns" in parts) == (inspect.signature(found).return_annotation != "None")
    assert any(line.startswith(">>> ") for line in parts["Examples"])


@pytest.mark.parametrize("name", CLASSES)
def test_classes_describe_parameters_or_fields(name: str) -> None:
    found = CLASSES[name]
    rows = reference.fields(found)
    if found not in (yinyan.EncoderSettings, yinyan.DecoderSettings, yinyan.TrainingSettings):  # from their metadata
        assert [field for field, _, meaning in rows if not meaning] == []
    if name in ("LinkPredictor", "LiveEmbeddings", "Client"):
        assert described(found) == arguments(found)
    assert [n for n, value in reference.properties(found) if not inspect.getdoc(value)] == []
    if name in yinyan.__all__ and (found is errors.YinYanError or not issubclass(found, Exception)):
        assert "Examples" in reference.sections(found)


@pytest.mark.parametrize("name", {**CLASSES, **CALLS})
def test_raised_errors_exist(name: str) -> None:
    lines = reference.sections({**CLASSES, **CALLS}[name]).get("Raises", [])
    raised = [line for line in lines if line and not line.startswith(" ")]
    assert set(raised) <= {*errors.__all__, ServiceError.__name__, "KeyError"}


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny(training={"epochs": 1})).fit(planted_graph())


@pytest.fixture(scope="module")
def featured() -> LinkPredictor:
    features = np.random.default_rng(0).random((40, 4), dtype=np.float32)
    return LinkPredictor(**tiny(training={"epochs": 1})).fit(planted_graph(features=features))


def live_embeddings(model: LinkPredictor) -> LiveEmbeddings:
    graph, cpu = model.graph_, torch.device("cpu")
    messages = message_graph(graph, np.arange(graph.num_edges), cpu)
    return LiveEmbeddings(our_encoder(model.fitted_.model), feature_tensor(graph.features, cpu), messages)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_run(
    example: doctest.DocTest, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a `graph`, a `model` of it, an `index` of the model, and `live` embeddings of the graph with features."""
    monkeypatch.chdir(tmp_path)
    source = "".join(part.source for part in example.examples)
    for package in re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE):
        pytest.importorskip(package)
    fitted: LinkPredictor = request.getfixturevalue("model")
    graph: Graph = fitted.graph_
    example.globs = {"model": fitted, "graph": graph}
    if "index." in source:
        example.globs["index"] = fitted.index("exact", k=5)
    if "live." in source:
        example.globs["live"] = live_embeddings(request.getfixturevalue("featured"))
    found: list[str] = []
    doctest.DocTestRunner().run(example, out=found.append)
    assert not found, "".join(found)
