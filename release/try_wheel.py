"""Installs one wheel alone into a fresh virtual environment and runs it there: no compiler on the path, offline.

    python release/try_wheel.py dist/yinyan-*-manylinux_2_17_x86_64*.whl

Dependencies are those of the Python that runs this (they are read where they are), or with --index those that pip finds
there. `yinyan doctor` has to report the wheel's kernels, the tests of the kernels have to pass with each variant that
the processor can run and without any, and `yinyan demo` has to end well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import venv
from pathlib import Path

from _path import ROOT
from hatch_build import package_module

# what compares compiled kernels with torch
TESTS = (
    *("native/test_graph_kernels.py", "native/test_without_kernels.py", "test_randomness.py"),
    *("model/test_layer.py", "model/test_sketches.py", "model/test_pair_products.py"),
    *("retrieval/test_scorer.py", "retrieval/test_screening.py", "retrieval/test_index.py"),
    "sampling/test_block_sampling.py",
)
TOOLS = ("pytest", "hypothesis", "scipy", "networkx")  # that these tests import
LEFT_OUT = "not TestBuilding" + (" and not fork" if os.name == "nt" else "")  # a wheel does not compile


def main() -> None:
    """Stop at the first fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--index", action="store_true", help="install dependencies with pip (default: use ours)")
    parser.add_argument("--no-tests", action="store_true", help="only doctor and demo (pytest is not needed)")
    parser.add_argument("--no-demo", action="store_true", help="leave out the demo, which takes about a minute")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the environment there and leave it")
    options = parser.parse_args()
    with contextlib.ExitStack() as held:
        folder = options.keep or Path(held.enter_context(tempfile.TemporaryDirectory()))
        tried = Trial(folder.resolve())
        tried.install(options.wheel, from_index=options.index)
        variants = tried.check_kernels()
        for variant in () if options.no_tests else (*variants, "0"):
            tried.run_tests(variant)
        if not options.no_demo:
            tried.demo()


class Trial:
    """A virtual environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True, clear=True)
        self.python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        kept = ("PATH", "CXX", "PYTHONPATH", "YINYAN_NATIVE", "XDG_CACHE_HOME", "HOME")
        self.environment = {name: value for name, value in os.environ.items() if name not in kept}
        self.tests = shutil.copytree(ROOT / "tests", folder / "tests", dirs_exist_ok=True)  # no sources beside them
        (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: slow\n    cuda: cuda\n", encoding="utf-8")
        self.environment |= {"PATH": str(self.python.parent), "HOME": str(folder), "USERPROFILE": str(folder)}

    def install(self, wheel: Path, *, from_index: bool) -> None:
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if from_index:
            subprocess.run([*pip, f"{wheel}[demo]", *TOOLS], check=True)
            return
        subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True)
        (place,) = (self.folder / "venv").glob("**/site-packages")
        # one line is one more folder of packages; its own .pth files, an editable yinyan among them, are not read
        (place / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")

    def run(self, *arguments: str, **variables: str) -> str:
        """What a command prints, offline where the system lets us."""
        command = [*offline(), str(self.python), *arguments]
        done = subprocess.run(
            command,
            env=self.environment | variables,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed with {variables}:\n{done.stdout[-4000:]}")
        return done.stdout

    def check_kernels(self) -> list[str]:
        """The variants that this processor can run, each asked for by its name; the best is the default."""
        where = self.run("-c", "import yinyan; print(yinyan.__file__)").strip()
        if str(self.folder.resolve()) not in str(Path(where).resolve()):
            raise SystemExit(f"'{where}' was imported, not the wheel")
        found = json.loads(self.run("-m", "yinyan", "doctor", "--json"))
        if not found["kernels"].startswith("of the wheel") or found["kernel"] != "correct":
            raise SystemExit(f"the wheel's kernels are not used: {found['kernels']}, {found['kernel']}")
        able = []
        for variant in package_module(ROOT, "variants").VARIANTS:
            try:
                one = json.loads(self.run("-m", "yinyan", "doctor", "--json", YINYAN_NATIVE=variant.name))
            except SystemExit as refused:
                if "needs a processor with" not in str(refused) and "has others" not in str(refused):
                    raise
                print(f"{variant.name}: not for this processor")
                continue
            able.append(variant.name)
            print(f"{variant.name}: {one['kernels']}, {one['kernel']}")
        if (found["kernels"].rpartition("for ")[2]) not in one_of(able):
            raise SystemExit(f"{found['kernels']!r} is not the best of {able}")
        print(f"offline: {'yes' if offline() else 'not enforced'}; default: {found['kernels']}")
        return able

    def run_tests(self, variant: str) -> None:
        """The tests that compare kernels with torch."""
        given = [str(self.tests / name) for name in TESTS]
        command = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", LEFT_OUT, "-m", "not slow", *given)
        out = self.run(*command, YINYAN_NATIVE=variant)
        print(f"tests with YINYAN_NATIVE={variant}: {out.strip().splitlines()[-1]}")

    def demo(self) -> None:
        out = self.run("-m", "yinyan", "demo", "--quiet")
        lines = [line for line in out.splitlines() if line.startswith("yinyan")]
        if not lines:
            raise SystemExit(f"the demo did not print its table:\n{out}")
        print(f"demo: {lines[0]}")


def one_of(able: list[str]) -> list[str]:
    """What the best variant was made for."""
    variants = package_module(ROOT, "variants").VARIANTS
    return [next(variant.what for variant in variants if variant.name in able)]


def offline() -> list[str]:
    """The words before a command that take the network from it, where the system allows that."""
    tool = shutil.which("unshare")
    if tool is None:
        return []
    words = [tool, "--net"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [tool, "--map-root-user", "--net"]
    return words if subprocess.run([*words, "true"], capture_output=True).returncode == 0 else []


if __name__ == "__main__":
    main()
