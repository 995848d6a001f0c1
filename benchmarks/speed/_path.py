"""Imported first by the scripts of this folder: makes `lib` importable from a clone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
