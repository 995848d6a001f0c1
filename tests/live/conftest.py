"""Small saved models, to be changed."""

from __future__ import annotations

from serving_tools import model, models

__all__ = ["model", "models"]
