"""CONTRIBUTING's worked example, followed step by step in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_worked_decoder_keeps_the_contract(tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    decoder, contract = (textwrap.dedent(b) for b in re.findall(r"^   ```python\n(.*?)^   ```", text, re.M | re.S))
    (name,) = re.findall(r"Add its name to `DECODERS` in the same file: `(.*?)`", text)
    source = shutil.copytree(ROOT / "src/yinyan", tmp_path / "src/yinyan", ignore=shutil.ignore_patterns("__pycache__"))

    edit(source / "model/decoder.py", "DECODERS: dict[", f"{decoder}\n\nDECODERS: dict[")
    edit(
        source / "model/decoder.py",
        '    "distance": DistanceDecoder,\n',
        f'    "distance": DistanceDecoder,\n    {name}\n',
    )
    edit(
        source / "settings.py",
        'Literal["hadamard", "dot", "multi-dot", "distance", "complex"]',
        'Literal["hadamard", "dot", "multi-dot", "distance", "complex", "cosine"]',
    )
    (tmp_path / "test_cosine.py").write_text(f"from contracts import DecoderContract\n\n\n{contract}")

    paths = os.pathsep.join([str(tmp_path / "src"), str(ROOT / "tests")])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-q", "test_cosine.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"\d\d passed", run.stdout) or "100%" in run.stdout, run.stdout


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file.name} holds {old!r} {text.count(old)} times"
    file.write_text(text.replace(old, new), encoding="utf-8")
