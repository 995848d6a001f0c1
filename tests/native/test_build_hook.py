"""The build hook: a wheel for a platform holds its kernels, any other holds none."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("hatchling", reason="hatchling is not installed (extra dev)")

ROOT = Path(__file__).parents[2]
X86 = "manylinux2014_x86_64"


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the hook; it notes zig's calls in `calls` and writes what they should make."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    made: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hatch_build", made)  # hatchling looks for its classes there
    spec.loader.exec_module(made)
    made.calls = []

    def zig(platform: Any, *arguments: str) -> None:
        made.calls.append((platform, *arguments))
        Path(arguments[arguments.index("-o") + 1]).write_bytes(b"made")

    monkeypatch.setattr(made, "zig", zig)
    return made


def built(hook: ModuleType, version: str = "standard") -> dict[str, Any]:
    data: dict[str, Any] = {"force_include": {}}
    made = hook.KernelsHook(str(ROOT), {}, None, None, "", "wheel")
    made.initialize(version, data)
    assert all(Path(path).is_file() for path in data["force_include"])
    made.finalize(version, data, "")
    assert not any(Path(path).exists() for path in data["force_include"])
    return data


@pytest.mark.parametrize("version", ["standard", "editable"])
def test_no_platform_no_kernels(hook: ModuleType, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """`pip install .` compiles at first use; so does an editable installation, whatever is asked for."""
    monkeypatch.delenv("YINYAN_WHEEL", raising=False)
    if version == "editable":
        monkeypatch.setenv("YINYAN_WHEEL", X86)
    assert built(hook, version) == {"force_include": {}} and hook.calls == []


@pytest.mark.parametrize(
    ("platform", "variants", "ending"),
    [
        (X86, ["avx2", "avx512", "baseline"], ".so"),
        ("manylinux2014_aarch64", ["baseline"], ".so"),
        ("macosx_11_0_x86_64", ["avx2", "baseline"], ".dylib"),
        ("win_amd64", ["avx2", "avx512", "baseline"], ".dll"),
    ],
)
def test_a_platform_has_its_tag_and_its_variants(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch, platform: str, variants: list[str], ending: str
) -> None:
    monkeypatch.setenv("YINYAN_WHEEL", platform)
    data = built(hook)
    assert data["tag"].startswith("py3-none-") and platform in data["tag"] and data["pure_python"] is False
    expected = [f"yinyan/native/lib/{stem}.{v}{ending}" for stem in hook.SOURCES for v in variants]
    assert sorted(data["force_include"].values()) == sorted(expected)
    assert {call[0].target for call in hook.calls} == {hook.PLATFORMS[platform].target}
    links = [call for call in hook.calls if "-shared" in call]
    assert len(links) == len(expected) and len(hook.calls) == 2 * len(expected)
    baseline = f"-mcpu={hook.PLATFORMS[platform].processors['baseline']}"
    assert all(baseline in call for call in links), "the C++ library is for any processor"
    assert all(any("--version-script" in word for word in call) == (ending == ".so") for call in links)


def test_what_is_compiled_says_its_sources(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from yinyan.native.sources import sources_digest

    monkeypatch.setenv("YINYAN_WHEEL", X86)
    built(hook)
    for stem in hook.SOURCES:
        digest = sources_digest(ROOT / f"src/yinyan/native/{stem}.cpp")
        compiled = [call for call in hook.calls if "-c" in call and any(f"{stem}.cpp" in word for word in call)]
        assert len(compiled) == 3 and all(f"-DYINYAN_SOURCES={digest:#x}ull" in call for call in compiled)


def test_an_unknown_platform_is_an_error_that_lists_them(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YINYAN_WHEEL", "linux_x86_64")
    with pytest.raises(ValueError, match=r"'YINYAN_WHEEL' needs to be one of manylinux2014_x86_64, .* 'linux_x86_64'"):
        built(hook)


def test_zig_is_needed_for_kernels_only(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    made = hook.KernelsHook(str(ROOT), {}, None, None, "", "wheel")
    monkeypatch.setenv("YINYAN_WHEEL", X86)
    assert made.dependencies() == [hook.ZIG]
    monkeypatch.delenv("YINYAN_WHEEL")
    assert made.dependencies() == []
    assert f'"{hook.ZIG}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_wheel_of_this_machine_is_built_and_used(tmp_path: Path) -> None:
    """The real compiler and the real wheel, imported from where it is unpacked."""
    pytest.importorskip("ziglang", reason="ziglang is not installed (extra release)")
    pytest.importorskip("build", reason="build is not installed (extra release)")
    if sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("Linux on x86-64 or aarch64")
    platform = f"manylinux2014_{os.uname().machine}"
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, env={**os.environ, "YINYAN_WHEEL": platform}, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    code = "import yinyan; from yinyan.native import graph_kernels as g; print(yinyan.__file__, g.origin())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "unpacked"), "PATH": "/nowhere"}
    environment.pop("YINYAN_NATIVE", None)
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert str(tmp_path) in run.stdout and "of the wheel, for " in run.stdout
