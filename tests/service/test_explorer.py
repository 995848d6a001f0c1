"""The explorer: what is shipped, its parts by node's test runner, and its views in a real browser."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import yinyan
from serving_tools import served
from typed_graphs import QUICK, shop_tables
from yinyan.reporting.report import evaluation_report

WEB = Path(__file__).parents[2] / "web"
PACKAGE = Path(yinyan.__file__).parent
STATIC = PACKAGE / "service" / "static"
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")

# The browser's cases (web/tests/e2e); one browser runs them all, and each is reported by its name
CASES = (
    "search",
    "walk",
    "while a node loads",
    "pan and zoom",
    "explain",
    "filters",
    "shared address",
    "directed",
    "export",
    "accept and undo",
    "reject and undo",
    "keys alone",
    "model page",
    "a map of 20,000",
    "phone",
    "themes",
    "what goes wrong",
    "a key is asked for",
    "read only",
    "accessible, light",
    "accessible, dark",
    "api page",
    "api page, dark",
    "api page, phone",
    "api page, with a key",
    "another origin",
)
OF_RELATIONS = (
    "types and their legend",
    "the relation that is predicted",
    "edges of one relation",
    "figures of a relation",
    "relations on a phone",
    "relations, accessible",
    "report of relations",
)
OF_A_REPORT = ("report, light", "report, dark", "report, phone", "report, printed")
OF_A_DRAWING = ("drawing, light", "drawing, dark", "drawing, phone", "drawing, in a notebook")


def missing(what: str) -> None:
    """Skips with a reason, or fails where the tests have to run."""
    if os.environ.get("YINYAN_E2E") == "required":
        pytest.fail(f"YINYAN_E2E=required, but {what}")
    pytest.skip(what)


@pytest.fixture(scope="module")
def node() -> str:
    """Node, with the packages of web/package.json."""
    found = shutil.which("node")
    if found is None:
        missing("there is no node")
    if not (WEB / "node_modules" / "playwright-core").is_dir():
        missing("the packages of web/ are not installed (npm ci, in web/)")
    return str(found)


@pytest.fixture(scope="module")
def browser() -> str:
    """A Chromium to drive; $YINYAN_BROWSER names one, or it is looked for."""
    named = os.environ.get("YINYAN_BROWSER")
    found = named or next((path for path in map(shutil.which, BROWSERS) if path), None)
    if found is None:
        missing(f"there is no browser (looked for {', '.join(BROWSERS)})")
    return str(found)


def run_node(node: str, *arguments: object, seconds: float = 120) -> str:
    run = subprocess.run(
        [node, *map(str, arguments)], cwd=WEB, capture_output=True, text=True, encoding="utf-8", timeout=seconds
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-6000:]
    return run.stdout


def shipped(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestShipped:
    """The built page stands in the package, so that its users need no node."""

    def test_is_small(self) -> None:
        files = shipped(STATIC)
        named = {"index.html", "assets/explorer.js", "assets/explorer.css", "assets/licences.txt"}
        assert named | {"docs.html", "assets/docs.js", "assets/docs.css"} <= set(files)
        assert sum(len(gzip.compress(data)) for data in files.values()) < 100_000

    def test_asks_no_other_host(self) -> None:
        for name, data in {**shipped(STATIC), **shipped(PACKAGE / "reporting"), **shipped(PACKAGE / "drawing")}.items():
            if name.endswith((".txt", ".svg", ".py", ".pyc")):
                continue
            hosts = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`]*", data.decode()))
            assert hosts <= {"http://www.w3.org/2000/svg"}, name  # a name space, which nobody asks for

    @pytest.mark.parametrize("name", ["index.html", "docs.html"])
    def test_runs_under_a_strict_policy(self, name: str) -> None:
        page = (STATIC / name).read_text(encoding="utf-8")
        assert 'Content-Security-Policy" content="default-src \'self\'"' in page
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
        addresses = re.findall(r"(?:src|href)=\"([^\"#]+)", page)
        assert addresses, "the page names its files"
        files = [address.split("?")[0] for address in addresses if address not in ("./", "docs")]  # and two pages
        assert all((STATIC / file).is_file() for file in files)

    def test_is_what_its_source_gives(self, node: str, tmp_path: Path) -> None:
        run_node(node, "build.mjs", "--out", tmp_path)
        assert shipped(tmp_path / "service" / "static") == shipped(STATIC), "run `make web`"
        for name in ("reporting/template.html", "drawing/template.html"):
            assert (tmp_path / name).read_bytes() == (PACKAGE / name).read_bytes(), "run `make web`"


def test_source_has_sound_types(node: str) -> None:
    run_node(node, WEB / "node_modules" / "typescript" / "bin" / "tsc", "--noEmit")


def test_parts(node: str) -> None:
    told = run_node(node, "unit.mjs")
    assert int(re.search(r"^# pass (\d+)", told, re.MULTILINE)[1]) > 20  # type: ignore[index]


def small_graph() -> yinyan.Graph:
    """Two groups of papers with links inside; 7 and '7' are two of them."""
    ids = [7, "7", *(f"c{i}" for i in range(24)), *(f"d{i}" for i in range(26))]
    rng, half = np.random.default_rng(0), len(ids) // 2
    groups = [rng.integers(0, half, (170, 2)), rng.integers(half, 2 * half, (110, 2))]
    ring = [(i, (i + 1) % len(ids)) for i in range(len(ids))]
    pairs = {(min(a, b), max(a, b)) for a, b in [*np.concatenate(groups).tolist(), *ring] if a != b}
    return yinyan.Graph.from_arrays(np.array(sorted(pairs)), ids=ids)


def labels_of(graph: yinyan.Graph) -> str:
    odd = {"c1": '=HYPERLINK("x")', "c2": 'Commas, and "quotes"'}
    names = [i for i in (graph.ids[row] for row in range(graph.num_nodes)) if i not in (7, "7")]
    cells = [str(odd.get(str(i), f"Paper {i}")).replace('"', '""') for i in names]
    rows = [f'{i},"{cell}",{1990 + n}' for n, (i, cell) in enumerate(zip(names, cells, strict=True))]
    return "\n".join(["id,label,year", *rows, ""])


SIZES: dict[str, Any] = {"encoder": {"hidden_size": 16, "embedding_size": 16}, "decoder": {"width": 16}}


@pytest.fixture(scope="module")
def address(node: str, browser: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service of a small model on a free port."""
    folder = tmp_path_factory.mktemp("explorer")
    graph = small_graph()
    yinyan.LinkPredictor(seed=0, device="cpu", **SIZES, training={"epochs": 10}).fit(graph).save(folder / "model")
    (folder / "labels.csv").write_text(labels_of(graph), encoding="utf-8")
    with served(folder / "model", labels=str(folder / "labels.csv")) as client:
        yield str(client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def results(address: str, node: str, browser: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run_node(node, "tests/e2e/run.mjs", address, browser, seconds=300))
    return answer


@pytest.mark.parametrize("case", CASES)
def test_in_a_browser(case: str, results: dict[str, Any]) -> None:
    assert "failed" not in results[case], results[case]["failed"]


def test_every_case_is_named(results: dict[str, Any]) -> None:
    assert tuple(results) == CASES


@pytest.fixture(scope="module")
def of_a_report(node: str, browser: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("report") / "report.html"
    model = yinyan.LinkPredictor(seed=0, device="cpu", **SIZES, training={"epochs": 10})
    evaluation = yinyan.evaluate(small_graph(), dataset="papers", seeds=(0,), model=model)
    evaluation_report(path, evaluation, title='Papers </script> & "more"')
    answer: dict[str, Any] = json.loads(run_node(node, "tests/e2e/run.mjs", path.as_uri(), browser, seconds=300))
    return answer


@pytest.mark.parametrize("case", OF_A_REPORT)
def test_a_report_in_a_browser(case: str, of_a_report: dict[str, Any]) -> None:
    assert "failed" not in of_a_report[case], of_a_report[case]["failed"]


def test_every_case_of_a_report_is_named(of_a_report: dict[str, Any]) -> None:
    assert tuple(of_a_report) == OF_A_REPORT


@pytest.fixture(scope="module")
def of_a_drawing(node: str, browser: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The drawing of a node as a page, and as a notebook shows it."""
    folder = tmp_path_factory.mktemp("drawing")
    model = yinyan.LinkPredictor(seed=0, device="cpu", **SIZES, training={"epochs": 3}).fit(small_graph())
    shown = model.explore("c3", k=6)
    shown.save(folder / "drawing.html")
    (folder / "frame.html").write_text(f"<!doctype html><title>notebook</title>{shown._repr_html_()}", encoding="utf-8")
    found: dict[str, Any] = {}
    for name in ("drawing.html", "frame.html"):
        found |= json.loads(run_node(node, "tests/e2e/run.mjs", (folder / name).as_uri(), browser, seconds=300))
    return found


@pytest.mark.parametrize("case", OF_A_DRAWING)
def test_a_drawing_in_a_browser(case: str, of_a_drawing: dict[str, Any]) -> None:
    assert "failed" not in of_a_drawing[case], of_a_drawing[case]["failed"]


def test_every_case_of_a_drawing_is_named(of_a_drawing: dict[str, Any]) -> None:
    assert tuple(of_a_drawing) == OF_A_DRAWING


def market() -> yinyan.TypedGraph:
    """People who buy, view and follow, and shops that sell; ids and labels differ."""
    tables = shop_tables(24, 18)

    def columns(name: str, first: str, second: str) -> dict[str, list[str]]:
        pairs: Any = tables[name]
        return {"a": [f"{first}{a}" for a, _ in pairs], "b": [f"{second}{b}" for _, b in pairs]}

    edges = {
        ("person", "buys", "product"): columns("buys", "u", "p"),
        ("person", "views", "product"): columns("views", "u", "p"),
        ("person", "follows", "person"): columns("follows", "u", "u"),
        ("shop", "sells", "product"): {"a": [f"s{i % 3}" for i in range(18)], "b": [f"p{i}" for i in range(18)]},
    }
    kinds = {"person": ("u", "Person", 24), "product": ("p", "Thing", 18), "shop": ("s", "Shop", 3)}
    nodes = {
        kind: {"id": [f"{letter}{i}" for i in range(count)], "title": [f"{word} {i}" for i in range(count)]}
        for kind, (letter, word, count) in kinds.items()
    }
    return yinyan.Graph.from_tables(edges, nodes, directed=["follows"], unmatched="keep")


@pytest.fixture(scope="module")
def of_relations(node: str, browser: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The cases of a model with relations, against its service and its report."""
    folder, graph = tmp_path_factory.mktemp("relations"), market()
    model = yinyan.LinkPredictor(**QUICK)
    model.fit(graph, predict=["buys", "follows"]).save(folder / "model")
    evaluation = yinyan.evaluate(graph, predict=["buys", "follows"], peers=["cn"], model=model)
    evaluation_report(folder / "report.html", evaluation, title="A shop")
    results: dict[str, Any] = {}
    with served(folder / "model") as client:
        for base in (str(client.base_url).rstrip("/"), (folder / "report.html").as_uri()):
            results |= json.loads(run_node(node, "tests/e2e/run.mjs", base, browser, "", "relations", seconds=200))
    return results


@pytest.mark.parametrize("case", OF_RELATIONS)
def test_relations_in_a_browser(case: str, of_relations: dict[str, Any]) -> None:
    assert "failed" not in of_relations[case], of_relations[case]["failed"]
