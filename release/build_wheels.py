"""Builds the source distribution, and a wheel with compiled kernels for each platform.

    python release/build_wheels.py --out dist
    python release/build_wheels.py --out dist --platform manylinux2014_x86_64

Needs the packages build, hatchling and ziglang (extra `release`); nothing is downloaded. The first wheel of a platform
takes a minute or two longer: zig compiles its C++ library once, and keeps it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from _path import ROOT
from hatch_build import PLATFORMS, VARIABLE


def main() -> None:
    """Build what is asked for; the folder is emptied of older distributions of ours first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("dist"))
    parser.add_argument("--platform", action="append", choices=list(PLATFORMS), help="repeatable; default: all")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for old in (*options.out.glob("yinyan-*.whl"), *options.out.glob("yinyan-*.tar.gz")):
        old.unlink()
    build("--sdist", options.out)
    for platform in options.platform or PLATFORMS:
        build("--wheel", options.out, platform)


def build(what: str, out: Path, platform: str | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {VARIABLE: platform} if platform else {}
    command = [sys.executable, "-m", "build", what, "--no-isolation", "--outdir", str(out.resolve()), str(ROOT)]
    subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    main()
