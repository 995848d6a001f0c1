from __future__ import annotations

import numpy as np
import pytest

import yinyan
from command_line import run, works
from yinyan import doctor, native
from yinyan.doctor import examination_table, examine


def test_names_versions_devices_and_extras() -> None:
    found = examine()
    assert found["yinyan"] == yinyan.__version__
    assert found["packages"]["numpy"] == np.__version__
    assert found["devices"][0] == "cpu"
    assert set(found["extras"]) == {"demo", "plots"}
    assert found["kernel"] == "correct"


def test_what_is_missing_names_its_cure() -> None:
    found = {**examine(), "extras": {"demo": None, "plots": "3.8"}, "packages": {"torch": None}}
    text = examination_table(found)
    assert "missing: pip install 'yinyan[demo]'" in text
    assert "missing: pip install torch" in text
    assert "matplotlib 3.8" in text and "graphdatascience None" not in text


def test_absent_packages_have_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_EXTRAS", {"demo": "no-such-package"})
    assert examine()["extras"] == {"demo": None}


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
    monkeypatch.setattr(native, "library", lambda: None)
    monkeypatch.setattr(native, "why_not", lambda: "there is no C++ compiler on the path")
    assert examine()["kernels"] == "torch's own (there is no C++ compiler on the path)"
