"""Files of a release agree with each other: versions, Python versions, platforms, and the scripts they call."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import yinyan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (extra dev)")

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def workflow(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((GITHUB / "workflows" / name).read_text(encoding="utf-8"))
    return found


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load(text("CITATION.cff"))
    assert citation["version"] == yinyan.__version__
    assert citation["cff-version"] == "1.2.0" and citation["references"][0]["doi"] == "10.1109/TKDE.2024.3481015"
    assert "## [Unreleased]" in text("CHANGELOG.md") or f"## [{yinyan.__version__}]" in text("CHANGELOG.md")


def test_every_python_that_is_promised_is_tested() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    prefix = "Programming Language :: Python :: "
    promised = [line.removeprefix(prefix) for line in project["classifiers"] if re.match(prefix + r"3\.\d+$", line)]
    assert workflow("test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"] == promised
    tried = workflow("release.yml")["jobs"]["try"]["strategy"]["matrix"]["include"]
    assert {entry["python"] for entry in tried} == set(promised)
    assert project["requires-python"] == f">={promised[0]}"
    assert f"Python {promised[0]} to {promised[-1]}" in text("README.md")


def test_wheels_that_are_tried_are_built() -> None:
    hook = text("hatch_build.py")
    for entry in workflow("release.yml")["jobs"]["try"]["strategy"]["matrix"]["include"]:
        assert f'"{entry["wheel"]}' in hook, entry


def test_only_the_last_job_may_publish() -> None:
    """Trusted publishing: the right to publish is in one job, which runs no code of the project."""
    jobs = workflow("release.yml")["jobs"]
    allowed = [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})]
    assert allowed == ["publish"] and jobs["publish"]["needs"] == ["build", "try"]
    assert not any("run" in step for step in jobs["publish"]["steps"])
    assert "password" not in text(".github/workflows/release.yml").replace("there is no password", "")


def test_scripts_and_targets_that_are_called_exist() -> None:
    named = [text("Makefile"), *(path.read_text(encoding="utf-8") for path in GITHUB.glob("workflows/*.yml"))]
    scripts = {found for page in named for found in re.findall(r"\b(?:release|benchmarks)/[\w/]+\.py", page)}
    assert scripts >= {"release/build_wheels.py", "release/inspect_wheels.py", "release/try_wheel.py"}
    assert [name for name in sorted(scripts) if not (ROOT / name).is_file()] == []
    targets = {found for page in named[1:] for found in re.findall(r"\bmake (\w+)$", page, re.MULTILINE)}
    assert targets and all(f"\n{target}:" in text("Makefile") for target in targets)


def test_issue_forms_have_what_github_wants() -> None:
    for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.name == "config.yml":
            continue
        assert {"name", "description", "body"} <= set(form)
        for part in form["body"]:
            assert part["type"] == "textarea" and part["attributes"]["label"] and part["id"]
