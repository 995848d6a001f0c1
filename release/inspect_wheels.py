"""Checks wheels without running them: names, tags, files, formats, exported functions, and what they need.

    python release/inspect_wheels.py dist/*.whl

Needs the package lief (extra `release`). Libraries for other systems cannot be run on this one; this is all that is
known of them.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import lief

from _path import ROOT
from hatch_build import NATIVE, PLATFORMS, SOURCES, Platform, package_module

GLIBC = (2, 17)  # of manylinux2014
MACOS = (11, 0)
FORMATS = {"linux": lief.ELF.Binary, "darwin": lief.MachO.Binary, "win32": lief.PE.Binary}
MACHINES = {"x86_64": {"X86_64", "AMD64"}, "aarch64": {"AARCH64", "ARM64"}}
NEEDED = {  # patterns of the libraries that every system of the kind has
    "linux": r"lib(c|m|dl|pthread)\.so(\.\d+)?|ld-linux-(x86-64|aarch64)\.so\.\d",
    "darwin": r"/usr/lib/libSystem\.B\.dylib",
    "win32": r"(?i)(kernel32|ntdll)\.dll|api-ms-win-crt-[\w-]+\.dll",
}
OWN_OF_MACOS = {"__mh_dylib_header", "___dso_handle"}  # written by every linker
# C++ names that may be exported, since zig cannot leave them out for macOS and Windows: on macOS those of
# allocation, which all end in malloc; on Windows any, since names are bound to the library that was asked for
FOREIGN = {"linux": r"(?!)", "darwin": r"_Z[nd][aw]\w+|_Zd[al]\w+", "win32": r"_Z\w+"}
_CALLED = re.compile(r"\b(?:built|_required\(\))\.(\w+)")


def main() -> None:
    """Print a line per library; end with the faults, if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="+", type=Path)
    faults = [f"{path.name}: {fault}" for path in parser.parse_args().wheels for fault in inspect(path)]
    for fault in faults:
        print(fault, file=sys.stderr)
    raise SystemExit(1 if faults else 0)


def inspect(path: Path) -> list[str]:
    """What is wrong with a wheel."""
    tag = path.stem.split("-", 2)[2]
    platform = next((found for found in PLATFORMS.values() if tag == f"py3-none-{found.tag}"), None)
    if platform is None:
        return [f"its tag {tag!r} is that of no platform"]
    names = package_module(ROOT, "variants")
    expected = {
        f"yinyan/native/lib/{names.library_name(stem, variant, platform.system)}": stem
        for stem in SOURCES
        for variant in platform.processors
    }
    with zipfile.ZipFile(path) as wheel:
        faults = [] if wheel.testzip() is None else ["it is damaged"]
        members = set(wheel.namelist())
        faults += tag_faults(wheel, platform)
        faults += [f"{name} does not belong into it" for name in sorted(members) if strays(name)]
        libraries = {name for name in members if name.startswith("yinyan/native/lib/")}
        if libraries != set(expected):
            faults.append(f"its libraries are {sorted(libraries)}, expected {sorted(expected)}")
        for name in sorted(libraries & set(expected)):
            found = library_faults(wheel.read(name), platform, exports_of(expected[name]))
            faults += [f"{name}: {fault}" for fault in found]
            size = wheel.getinfo(name).file_size / 1024
            print(f"{tag}  {Path(name).name}  {size:.0f} KiB  {'; '.join(found) or 'as expected'}")
    return faults


def strays(name: str) -> bool:
    """Whether a file belongs neither to the package nor to its metadata."""
    return not re.match(r"yinyan/|yinyan-[\w.]+\.dist-info/", name) or "__pycache__" in name


def tag_faults(wheel: zipfile.ZipFile, platform: Platform) -> list[str]:
    (path,) = [name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL")]
    text = wheel.read(path).decode()
    tags = {line.removeprefix("Tag: ") for line in text.splitlines() if line.startswith("Tag: ")}
    wanted = {f"py3-none-{tag}" for tag in platform.tag.split(".")}
    faults = [] if tags == wanted else [f"its tags are {sorted(tags)}, expected {sorted(wanted)}"]
    return faults + ([] if "Root-Is-Purelib: false" in text else ["it says that it holds no compiled code"])


def exports_of(stem: str) -> set[str]:
    """The functions of a source that Python calls, and those of the two headers."""
    text = (ROOT / NATIVE / f"{stem}.py").read_text(encoding="utf-8")
    called = set(_CALLED.findall(text)) | {"source_digest", "structure_layout"}
    if stem == "graph_kernels":
        called |= {f"{name}_{kind}" for name in ("layer", "project") for kind in ("float32", "bfloat16")}
        called.add("processor_features")
    return called


def library_faults(data: bytes, platform: Platform, expected: set[str]) -> list[str]:
    """What is wrong with a library."""
    library: Any = lief.parse(data)
    if not isinstance(library, FORMATS[platform.system]):
        return ["it has another format than its system reads"]
    faults = []
    machine = machine_of(library)
    architecture = platform.target.split("-")[0]
    if machine not in MACHINES[architecture]:
        faults.append(f"it is for the processor {machine}, expected {architecture}")
    exported = exports(library)
    if missing := expected - exported:
        faults.append(f"it does not export {', '.join(sorted(missing))}")
    foreign = {name for name in exported if name.startswith(("_Z", "?"))}
    if foreign := {name for name in foreign if not re.fullmatch(FOREIGN[platform.system], name)}:
        faults.append(f"it exports names of C++: {', '.join(sorted(foreign)[:3])}")
    needed = [str(getattr(other, "name", other)) for other in library.libraries]
    if isinstance(library, lief.MachO.Binary):
        needed = needed[1:]  # the first is its own name
    if others := [name for name in needed if not re.fullmatch(NEEDED[platform.system], name)]:
        faults.append(f"it needs {', '.join(others)}")
    return faults + system_faults(library, platform)


def machine_of(library: Any) -> str:
    header = library.header
    kind = header.cpu_type if isinstance(library, lief.MachO.Binary) else (
        header.machine if isinstance(library, lief.PE.Binary) else header.machine_type
    )  # fmt: skip
    return str(kind).rpartition(".")[2].replace("CPU_TYPE_", "")


def exports(library: Any) -> set[str]:
    """Exported names, as a program asks for them."""
    if isinstance(library, lief.PE.Binary):
        return {entry.name for entry in library.get_export().entries}
    names = {symbol.name for symbol in library.exported_symbols}
    if isinstance(library, lief.MachO.Binary):
        return {name.removeprefix("_") for name in names - OWN_OF_MACOS}
    return names


def system_faults(library: Any, platform: Platform) -> list[str]:
    """What an older system of the same kind would lack."""
    if isinstance(library, lief.MachO.Binary):
        oldest = tuple(library.build_version.minos[:2])
        faults = [] if oldest <= MACOS else [f"it needs macOS {oldest}"]
        if platform.target.startswith("aarch64") and not library.has_code_signature:
            faults.append("it has no signature, which Apple's processors want")
        return faults
    if isinstance(library, lief.ELF.Binary):
        wanted = [
            each.name for version in library.symbols_version_requirement for each in version.get_auxiliary_symbols()
        ]
        too_new = [name for name in wanted if name.startswith("GLIBC_") and version_of(name) > GLIBC]
        if "musl" in platform.target and wanted:
            too_new = wanted
        return [f"it needs symbols of {', '.join(too_new)}"] if too_new else []
    return []


def version_of(name: str) -> tuple[int, ...]:
    """GLIBC_2.2.5 as numbers."""
    return tuple(int(part) for part in name.partition("_")[2].split("."))


if __name__ == "__main__":
    main()
