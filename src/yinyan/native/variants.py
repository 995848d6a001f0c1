"""The variants of the kernels that a wheel holds, and what each needs of the processor.

The build hook of the project reads this file too, so it imports nothing of the package.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BASELINE", "SUFFIXES", "VARIANTS", "Variant", "library_name"]


class Variant(NamedTuple):
    """Kernels compiled for processors of one kind."""

    name: str  # in the names of files, and in YINYAN_NATIVE
    features: int  # bits of `processor_features` in processor.h
    what: str  # for reading


BASELINE = "baseline"

# the first that the processor can run is used
VARIANTS = (
    Variant("avx512", 3, "AVX-512 with VNNI"),
    Variant("avx2", 1, "AVX2 and FMA"),
    Variant(BASELINE, 0, "any processor of its architecture"),
)

SUFFIXES = {"linux": ".so", "darwin": ".dylib", "win32": ".dll"}  # by sys.platform


def library_name(stem: str, variant: str, platform: str) -> str:
    """The file name of a library in a wheel, such as graph_kernels.avx2.so."""
    return f"{stem}.{variant}{SUFFIXES.get(platform, '.so')}"
