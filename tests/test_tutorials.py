"""The tutorials run, in one process; what they show was made by the code that they hold."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from test_docs import AVOIDED

pytest.importorskip("graphdatascience", reason="the data of the tutorials are in the extra 'demo'")

FOLDER = Path(__file__).parents[1] / "docs/tutorials"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
NEEDS = {"03": "matplotlib", "05": "matplotlib", "07": "matplotlib", "08": "fastapi"}


def cells(name: str, kind: str) -> list[dict[str, Any]]:
    notebook = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def run(source: str, scope: dict[str, Any]) -> tuple[Any, str]:
    """The value of a cell's last expression, and what it printed."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), scope)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), scope)
    return value, printed.getvalue()


def without_numbers(text: str) -> str:
    """Figures differ in their last digits, and times by the machine."""
    return re.sub(r"[-+]?\d[\d,.:]*(?:e-?\d+)?", "#", text)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_runs_and_prints_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name[:2] in NEEDS:
        pytest.importorskip(NEEDS[name[:2]])
    if NEEDS.get(name[:2]) == "matplotlib":
        import matplotlib

        matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    scope: dict[str, Any] = {"__name__": "__main__"}
    try:
        for cell in cells(name, "code"):
            value, printed = run("".join(cell["source"]), scope)
            kept = [
                "".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream" and o["name"] == "stdout"
            ]
            assert without_numbers(printed) == without_numbers("".join(kept)), "execute it again: make tutorials"
            shown = any(output["output_type"] == "execute_result" for output in cell["outputs"])
            assert shown == (value is not None), "execute it again: make tutorials"
            if hasattr(value, "_repr_html_"):
                assert value._repr_html_()
    finally:
        if "service" in scope:
            scope["service"].kill()
            scope["service"].wait(timeout=20)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_outputs_are_of_one_run_without_complaints(name: str) -> None:
    code = cells(name, "code")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs and not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_text_is_in_the_words_of_the_field(name: str) -> None:
    text = "\n\n".join("".join(cell["source"]) for cell in cells(name, "markdown"))
    assert re.findall(rf"\b(?:{'|'.join(AVOIDED)})\b", " ".join(text.split()), re.IGNORECASE) == []
    assert max(map(len, text.splitlines())) <= 100
    assert all(len(paragraph.splitlines()) <= 6 for paragraph in text.split("\n\n"))


def test_they_are_read_in_the_order_of_their_numbers() -> None:
    """Each names the next, and the index names all."""
    for name, following in zip(NOTEBOOKS, NOTEBOOKS[1:], strict=False):
        assert f"({following})" in "".join(cells(name, "markdown")[-1]["source"])
    index = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\(tutorials/([\w-]+\.ipynb)\)", index) == NOTEBOOKS
