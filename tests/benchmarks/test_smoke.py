"""Every benchmark runs: the commands that the documentation quotes cannot rot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from forked import run_script

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(p for p in BENCHMARKS.glob("*/*.py") if p.parent.name != "lib" and p.name != "_path.py")
COMMANDS = {  # of scripts that have several
    "large_graphs.py": ("embed", "train"),
    "inference.py": ("ppa", "citation2", "cora"),
    "fitting.py": ("--old-minutes 0.1",),  # a few steps of the older revision
}
OPTIONAL = ("faiss", "torch_geometric", "fastapi", "uvicorn", "ray", "optuna")  # peers, and what belongs to an extra
RUNS = [(path, given) for path in SCRIPTS for given in COMMANDS.get(path.name, ("",))]


@pytest.mark.parametrize(("path", "given"), RUNS, ids=[f"{path.stem} {given}".strip() for path, given in RUNS])
def test_a_smoke_run_prints_figures(
    path: Path, given: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = run_script(path, [*given.split(), "--smoke"], tmp_path, tmp_path_factory.mktemp("printed"))
    missing = r"(?:No module named '|MissingExtraError: (?:the engine '|tuning needs ))(\w+)"
    absent = re.search(missing, run.stderr)
    name = absent and absent[1]
    if run.returncode and name in OPTIONAL:
        pytest.skip(f"{path.name} needs {name}, which is not installed")
    assert run.returncode == 0, run.stderr
    assert len(re.findall(r"\d+", run.stdout)) >= 4, run.stdout
    assert list(tmp_path.iterdir()) == [], "a smoke run keeps nothing"


def test_the_readme_has_a_line_for_every_benchmark() -> None:
    page = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    for path in SCRIPTS:
        assert f"`python benchmarks/{path.parent.name}/{path.name}" in page, path.name


def test_commands_of_the_documentation_name_benchmarks_that_exist() -> None:
    root = BENCHMARKS.parent
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *BENCHMARKS.rglob("*.py"), BENCHMARKS / "README.md"]
    named = {
        found for page in pages for found in re.findall(r"benchmarks/[\w/]+\.py", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert [name for name in named if not (root / name).is_file()] == []


def test_minutes_are_no_placeholders_and_no_row_is_doubled() -> None:
    """Rows whose minutes were MPPA, MCIT… stood beside those with figures."""
    page = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in page.splitlines() if line[:1] == "|"]
    commands = [row[1] for row in rows if len(row) == 4 and row[1].startswith("`python")]
    assert len(commands) > 40, "the tables are read"
    assert [cell for row in rows for cell in row if re.fullmatch(r"[A-Z][A-Z0-9]{2,}", cell)] == []
    assert sorted({command for command in commands if commands.count(command) > 1}) == []
