"""The build hook: with YINYAN_WHEEL=PLATFORM a wheel holds compiled kernels for that platform; without, none.

    YINYAN_WHEEL=manylinux2014_x86_64 python -m build --wheel

One compiler, `zig c++` of the package ziglang, compiles for all platforms on any of them. A wheel without kernels, as
`pip install .` builds it, compiles them at first use.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "YINYAN_WHEEL"
ZIG = "ziglang==0.17.0"
SOURCES = ("graph_kernels", "retrieval_kernels", "partition_kernels")
COMPILE = ("-c", "-O3", "-std=c++17", "-ffp-contract=fast", "-fvisibility-inlines-hidden")
LINK = ("-shared", "-s")
# On Linux no C++ name is exported, so that none is taken for one of another library in the same process.
EXPORTS = "{ global: *; local: _Z*; };\n"
NATIVE = Path("src/yinyan/native")

_X86 = {"baseline": "x86_64", "avx2": "x86_64_v3", "avx512": "x86_64_v4+avx512vnni"}


class Platform(NamedTuple):
    """What one wheel is made for."""

    tag: str  # of the wheel
    system: str  # as sys.platform
    target: str  # as zig names it, with the oldest C library
    processors: dict[str, str]  # variant -> zig's name of the processor


PLATFORMS = {
    "manylinux2014_x86_64": Platform(
        "manylinux_2_17_x86_64.manylinux2014_x86_64", "linux", "x86_64-linux-gnu.2.17", _X86
    ),
    "manylinux2014_aarch64": Platform(
        "manylinux_2_17_aarch64.manylinux2014_aarch64", "linux", "aarch64-linux-gnu.2.17", {"baseline": "generic"}
    ),
    "musllinux_1_2_x86_64": Platform("musllinux_1_2_x86_64", "linux", "x86_64-linux-musl", _X86),
    "macosx_11_0_arm64": Platform("macosx_11_0_arm64", "darwin", "aarch64-macos.11.0", {"baseline": "apple_m1"}),
    # macOS saves the registers of AVX-512 only for programs that have used them, so that none is chosen there
    "macosx_11_0_x86_64": Platform(
        "macosx_11_0_x86_64", "darwin", "x86_64-macos.11.0", {"baseline": "x86_64", "avx2": "x86_64_v3"}
    ),
    "win_amd64": Platform("win_amd64", "win32", "x86_64-windows-gnu", _X86),
}


class KernelsHook(BuildHookInterface):
    """Puts the libraries of kernels into a wheel, and names its platform."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """The compiler, where kernels are wanted."""
        return [ZIG] if os.environ.get(VARIABLE) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is written; an editable installation compiles at first use."""
        name = os.environ.get(VARIABLE)
        if not name or version == "editable" or self.target_name != "wheel":
            return
        if name not in PLATFORMS:
            raise ValueError(f"'{VARIABLE}' needs to be one of {', '.join(PLATFORMS)} (got {name!r})")
        folder = tempfile.TemporaryDirectory()
        self._held = folder  # until the wheel is written
        built = build_kernels(Path(self.root), Path(folder.name), PLATFORMS[name])
        build_data["force_include"].update({str(path): f"yinyan/native/lib/{path.name}" for path in built})
        build_data["tag"] = f"py3-none-{PLATFORMS[name].tag}"
        build_data["pure_python"] = False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled: the wheel has it."""
        if hasattr(self, "_held"):
            self._held.cleanup()


def build_kernels(root: Path, out: Path, platform: Platform) -> list[Path]:
    """Compile all variants of the kernels of a platform into a folder; returns the libraries.

    Only our own code is compiled for a variant's processor. The C++ library that is linked in is that of the baseline,
    which zig compiles once for each platform.
    """
    names, digest = package_module(root, "variants"), package_module(root, "sources").sources_digest
    exports, made = out / "exports.map", list[Path]()
    exports.write_text(EXPORTS, encoding="utf-8")
    baseline = f"-mcpu={platform.processors['baseline']}"
    for source in (root / NATIVE / f"{stem}.cpp" for stem in SOURCES):
        says = f"-DYINYAN_SOURCES={digest(source):#x}ull"
        for variant, processor in platform.processors.items():
            library = out / names.library_name(source.stem, variant, platform.system)
            compiled = library.with_suffix(".o")
            position = ("-fPIC",) if platform.system != "win32" else ()
            zig(platform, *COMPILE, *position, f"-mcpu={processor}", says, str(source), "-o", str(compiled))
            naming = {
                "linux": (f"-Wl,--version-script={exports}",),
                "darwin": (f"-Wl,-install_name,@rpath/{library.name}",),  # else the folder of this build
            }
            link = (*LINK, *position, *naming.get(platform.system, ()))
            zig(platform, *link, baseline, str(compiled), "-o", str(library))
            made.append(library)
    return made


def zig(platform: Platform, *arguments: str) -> None:
    """Run zig's C++ compiler for a platform."""
    command = [sys.executable, "-m", "ziglang", "c++", "-target", platform.target, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")


def package_module(root: Path, name: str) -> ModuleType:
    """A module of src/yinyan/native by its file: the package itself needs torch."""
    spec = importlib.util.spec_from_file_location(f"_native_{name}", root / NATIVE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"'{root / NATIVE}' has no {name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
