"""Every example of the documentation runs."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from yinyan.cli import main
from yinyan.reproduce import read_recipe

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAPERS = ["p1", "p2", "p3", "p4", "p5", "p6", "p9", "p1033", *(f"q{i}" for i in range(72))]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the documentation speaks of: papers of two fields that cite within their field."""
    rng = np.random.default_rng(0)
    n = len(PAPERS)
    ends = rng.integers(0, n // 2, (400, 2)) * 2 + np.arange(400)[:, None] % 2
    columns = {"citing": [PAPERS[i] for i in ends[:, 0]], "cited": [PAPERS[i] for i in ends[:, 1]]}
    columns["citing"] += PAPERS  # everybody cites somebody
    columns["cited"] += [PAPERS[(i + 2) % n] for i in range(n)]
    pa.csv.write_csv(pa.table(columns), tmp_path / "edges.csv")
    nodes = {"id": PAPERS, "year": rng.integers(1990, 2020, n), "field": [f"field {i % 2}" for i in range(n)]}
    pa.parquet.write_table(pa.table(nodes), tmp_path / "papers.parquet")
    (tmp_path / "pairs.csv").write_text("source,target\np1,p9\np1,p4\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(path: Path) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in FENCE.findall(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "name", ["README.md", "docs/guide.md", "docs/evaluation.md", "docs/model-format.md", "docs/retrieval.md"]
)
def test_python_and_shell_blocks_run(name: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "docs/model-format.md":
        main_ok(["fit", "edges.csv", "--nodes", "papers.parquet", "--out", "model", "--epochs", "1"])
    scope: dict[str, object] = {}
    ran = 0
    for kind, text in blocks(ROOT / name):
        if kind == "python":
            exec(compile(text, name, "exec"), scope)
            ran += 1
        for line in text.splitlines() if kind == "" else ():
            if line.startswith("yinyan ") and not line.startswith("yinyan demo"):
                main_ok(shlex.split(line)[1:])
                ran += 1
    assert ran > 0
    assert "error:" not in capsys.readouterr().err


def main_ok(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code in (0, None)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(path: Path, tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) > 3


def test_links_between_documents_resolve() -> None:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} points to {target}"


def test_the_table_of_the_readme_is_the_one_that_its_command_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- docs/results/peers\.md -->\n(.*?)\n\n", readme, re.DOTALL)
    assert table is not None
    assert table[1] in (ROOT / "docs/results/peers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted((ROOT / "docs/results").glob("*.json")), ids=lambda file: file.stem)
def test_committed_results_are_those_of_their_recipes(file: Path) -> None:
    """Settings and published values of a page are the recipe's; every figure carries its protocol."""
    recipe, page = read_recipe(file.stem), json.loads(file.read_text(encoding="utf-8"))
    assert page["command"] == f"yinyan reproduce {file.stem}"
    places = [(row, place) for row in recipe.rows for place in row.places]
    assert len(places) == len(page["rows"])
    for (row, place), found in zip(places, page["rows"], strict=True):
        assert (row.name, row.method, place.data) == (found["row"], found["method"], found["data"])
        assert (place.expect, place.settings) == (found["expect"], found["settings"])
        for protocol, results in found["results"].items():
            assert [r["seed"] for r in results] == list(range(len(results)))
            for result in results:
                assert result["protocol"].startswith(f"{place.data} / {protocol} / ")
                assert result["protocol"].endswith(f"{place.metric or recipe.metric} / seed {result['seed']}")
