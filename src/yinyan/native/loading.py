"""The library of kernels that is used: the wheel's for this processor, or one compiled here; any other is refused."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from yinyan.errors import SettingsError
from yinyan.native.compiling import NoKernelsError, compiled
from yinyan.native.sources import sources_digest
from yinyan.native.variants import BASELINE, VARIANTS, library_name

__all__ = ["Kernels", "RefusedError", "layout_digest", "load_kernels", "packaged_folder", "switched_off"]

_VARIABLE = "YINYAN_NATIVE"
_ON, _OFF, _COMPILE = "1", "0", "compile"
_PROCESSOR = "graph_kernels"  # the library that tells the processor's features
_WHOLE = 2**64 - 1


class Kernels(NamedTuple):
    """A library, and where it is from."""

    library: ctypes.CDLL
    origin: str


class RefusedError(NoKernelsError):
    """A library is not the one that this code calls."""


def load_kernels(source: Path, structures: Sequence[type[ctypes.Structure]]) -> Kernels:
    """The library of a source file, by YINYAN_NATIVE; NoKernelsError says why there is none.

    `structures` are those that its functions read, in the order of its `structure_layout`. A library of the wheel that
    is refused or cannot be loaded is reported in a warning too.
    """
    choice = _choice()
    if choice == _OFF:
        raise NoKernelsError(f"switched off by {_VARIABLE}=0")
    folder = packaged_folder()
    if choice == _COMPILE or (choice == _ON and not folder.is_dir()):
        return Kernels(_checked(compiled(source), source, structures), "compiled for this processor")
    try:
        path, what = _packaged(folder, source.stem, choice)
        return Kernels(_checked(_opened(path), source, structures), f"of the wheel, for {what}")
    except NoKernelsError as error:
        warnings.warn(f"the compiled kernels are not used: {error}", RuntimeWarning, stacklevel=2)
        raise


def switched_off() -> bool:
    """Whether YINYAN_NATIVE asks for torch's own products."""
    return _choice() == _OFF


def packaged_folder() -> Path:
    """Where a wheel has its libraries; a source installation has no such folder."""
    return Path(__file__).with_name("lib")


def layout_digest(structures: Sequence[type[ctypes.Structure]]) -> int:
    """Names, places and sizes of structures and their fields in 64 bits: `layout_of` of abi.h."""
    digest = 0xCBF29CE484222325
    for structure in structures:
        fields = [(name, getattr(structure, name)) for name, *_ in structure._fields_]
        whole = (structure.__name__.lstrip("_"), 0, ctypes.sizeof(structure))
        for name, offset, size in (whole, *((name, field.offset, field.size) for name, field in fields)):
            for number in (*name.encode(), offset, size):
                digest = (digest ^ number) * 0x100000001B3 & _WHOLE
    return digest


def _choice() -> str:
    given = os.environ.get(_VARIABLE, _ON)
    known = (_ON, _OFF, _COMPILE, *(variant.name for variant in VARIANTS))
    if given not in known:
        raise SettingsError(f"{_VARIABLE} needs to be one of {', '.join(known)} (got {given!r})")
    return given


def _packaged(folder: Path, stem: str, choice: str) -> tuple[Path, str]:
    """The wheel's library for the processor, or of the variant that is asked for, and for what it was made."""
    there = [v for v in VARIANTS if (folder / library_name(stem, v.name, sys.platform)).is_file()]
    if choice != _ON and choice not in [variant.name for variant in there]:
        names = ", ".join(variant.name for variant in there) or "none, since it was installed from source"
        raise SettingsError(f"{_VARIABLE} asks for the kernels {choice!r}, but this installation has others: {names}")
    if not there:
        raise NoKernelsError(f"'{folder}' has no library for {sys.platform}: install yinyan anew")
    features = _processor_features(folder)
    able = [variant for variant in there if variant.features & features == variant.features]
    if choice == _ON:
        chosen = able[0]
    else:
        chosen = next(variant for variant in there if variant.name == choice)
        if chosen not in able:
            best = able[0].name
            raise SettingsError(
                f"{_VARIABLE}={choice} needs a processor with {chosen.what}; this one can run {best!r} at best"
            )
    return folder / library_name(stem, chosen.name, sys.platform), chosen.what


@functools.cache
def _processor_features(folder: Path) -> int:
    baseline = _opened(folder / library_name(_PROCESSOR, BASELINE, sys.platform))
    return int(_number(baseline, "processor_features", ctypes.c_uint32))


def _opened(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise NoKernelsError(f"'{path}' cannot be loaded ({error}): install yinyan anew") from error


def _checked(library: ctypes.CDLL, source: Path, structures: Sequence[type[ctypes.Structure]]) -> ctypes.CDLL:
    """The library, if it was made of these sources and its structures are laid out as ours."""
    _compare(library, "source_digest", sources_digest(source), "it was made of other sources")
    _compare(library, "structure_layout", layout_digest(structures), "its structures have another layout")
    return library


def _compare(library: ctypes.CDLL, name: str, expected: int, what: str) -> None:
    found = _number(library, name, ctypes.c_uint64)
    if found != expected:
        difference = f"{what} ({name} {found:#x}, expected {expected:#x})"
        raise RefusedError(f"'{library._name}' is refused, because {difference}: install yinyan anew")


def _number(library: ctypes.CDLL, name: str, kind: type[ctypes.c_uint32] | type[ctypes.c_uint64]) -> int:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise RefusedError(f"'{library._name}' is refused: it has no function {name!r}") from None
    function.restype = kind
    return int(function())
