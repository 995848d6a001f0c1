"""A model on disk, and its card."""

from __future__ import annotations

from yinyan.store.model_files import (
    FORMAT,
    any_fitted_model,
    check_target,
    fitted_model,
    load_any_model,
    load_model,
    read_manifest,
    save_model,
    saved_rows,
)
from yinyan.store.opening import OpenedModel, opened_model

__all__ = [
    "FORMAT",
    "OpenedModel",
    "any_fitted_model",
    "check_target",
    "fitted_model",
    "load_any_model",
    "load_model",
    "opened_model",
    "read_manifest",
    "save_model",
    "saved_rows",
]
