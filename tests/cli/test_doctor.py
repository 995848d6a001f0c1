from __future__ import annotations

import re
import sys
from email.message import Message
from pathlib import Path

import numpy as np
import pytest

import yinyan
from command_line import run, works
from yinyan.cli import doctor
from yinyan.cli.doctor import examination_table, examine
from yinyan.native import graph_kernels

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_names_versions_devices_and_extras() -> None:
    found = examine()
    assert found["yinyan"] == yinyan.__version__
    assert found["packages"]["numpy"] == np.__version__
    assert set(found["packages"]) == {"torch", "numpy", "safetensors", "pyarrow", "typer", "tomli-w"}
    assert found["devices"][0] == "cpu"
    assert found["kernel"] == "correct"


def test_knows_every_extra_that_the_package_declares() -> None:
    """It once knew two of six: a list of its own fell behind."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    found = examine()
    assert set(found["extras"]) == set(found["extra_packages"]) == set(declared) >= {"demo", "service", "index"}
    for extra, lines in declared.items():
        assert sorted(found["extra_packages"][extra]) == sorted(re.split(r"[>=\[]", line)[0] for line in lines)
    text = examination_table(found)
    assert all(f"extra {extra} " in text for extra in declared)


def test_what_is_missing_comes_with_the_command_that_installs_it() -> None:
    extras = {"demo": {"graphdatascience": None}, "plots": {"matplotlib": "3.8"}, "service": {"a": "1", "b": None}}
    text = examination_table({**examine(), "extra_packages": extras, "packages": {"torch": None}})
    assert "missing graphdatascience: pip install 'yinyan[demo]'" in text
    assert "missing b: pip install 'yinyan[service]'" in text
    assert "missing: pip install torch" in text
    assert "installed: matplotlib 3.8" in text


def test_extras_follow_from_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["torch>=2.4", "tomli>=2; python_version < '3.11'", 'no-such-package>=1; extra == "new"']
    message = Message()
    message["Provides-Extra"] = "new"
    monkeypatch.setattr(doctor, "requires", lambda name: lines)
    monkeypatch.setattr(doctor, "metadata", lambda name: message)
    found = examine()
    assert list(found["packages"]) == ["torch"]
    assert found["extras"] == {"new": None} and found["extra_packages"] == {"new": {"no-such-package": None}}


def test_the_command_prints_a_table_or_json() -> None:
    lines = works("doctor").out.splitlines()
    assert lines[0].split() == ["yinyan", yinyan.__version__]
    assert len({line.index(line.split("  ")[-1].strip()) for line in lines if not line.startswith("extra")}) == 1
    assert works("doctor", "--json").json == examine()


def test_a_wrong_kernel_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "array_equal", lambda a, b: False)
    ran = run("doctor", "--json")
    assert ran.code == 1
    assert ran.json["kernel"].startswith("WRONG")


def test_tells_why_there_are_no_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_kernels, "library", lambda: None)
    monkeypatch.setattr(graph_kernels, "why_not", lambda: "there is no C++ compiler on the path")
    assert examine()["kernels"] == "torch's own (there is no C++ compiler on the path)"
