"""A C++ file as a shared library: compiled once by the machine's own compiler, and kept."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from yinyan.native.library_cache import find_library, keep_library, library_folder
from yinyan.native.sources import sources_digest

__all__ = ["NoKernelsError", "compiled", "pointers"]

_FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-ffp-contract=fast")
_FOR_THIS_PROCESSOR = (("-march=native",), ("-mcpu=native",), ())  # the first that the compiler takes
_COMPILERS = ("c++", "g++", "clang++")
_COMPILE_SECONDS = 120


class NoKernelsError(RuntimeError):
    """There is no library of kernels; the message says why. Nobody fails for it: torch does the same work."""


def compiled(source: Path) -> ctypes.CDLL:
    """The library, from the cache where it was built before; NoKernelsError says why there is none."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(os.environ.get("CXX") or name))), None)
    if compiler is None:
        raise NoKernelsError("there is no C++ compiler on the path")
    try:
        return ctypes.CDLL(str(_built(compiler, source)))
    except (OSError, subprocess.SubprocessError) as error:
        raise NoKernelsError(f"{compiler} could not build them: {error}") from error


def pointers(*names: str) -> tuple[tuple[str, type[ctypes.c_void_p]], ...]:
    """Fields of a structure that are addresses."""
    return tuple((name, ctypes.c_void_p) for name in names)


def _built(compiler: str, source: Path) -> Path:
    """The compiled library in the cache, found by everything that it depends on."""
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=30).stdout
    sources = f"-DYINYAN_SOURCES={sources_digest(source):#x}ull"
    what = version + repr((_FLAGS, sources)).encode() + _processor().encode()
    key, folder = hashlib.sha256(what).hexdigest()[:24], library_folder()
    kept = find_library(folder, key)
    if kept is not None:
        return kept
    with tempfile.TemporaryDirectory(dir=folder) as place:
        made = Path(place) / "kernels.so"
        for tuned in _FOR_THIS_PROCESSOR:
            command = [compiler, *_FLAGS, *tuned, sources, str(source), "-o", str(made)]
            done = subprocess.run(command, capture_output=True, timeout=_COMPILE_SECONDS)
            if done.returncode == 0:
                return keep_library(made, folder, key)
    raise OSError(done.stderr.decode(errors="replace").strip()[-300:])


def _processor() -> str:
    """What code for 'this processor' may rely on: a cache can be shared between machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    return platform.machine() + "".join(sorted({line for line in lines if line.startswith(("flags", "Features"))}))
