"""Imported first by the scripts of this folder: makes the build hook importable from a clone."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
