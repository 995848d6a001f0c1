"""A model on disk, and its card."""

from __future__ import annotations

from yinyan.store.model_files import FORMAT, check_target, load_model, read_manifest, save_model

__all__ = ["FORMAT", "check_target", "load_model", "read_manifest", "save_model"]
