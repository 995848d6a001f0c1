"""What a served model is: its figures and how they were measured, its training, its state of now."""

from __future__ import annotations

from typing import Any

from yinyan.live.live_state import LiveState
from yinyan.reporting.content import model_content

__all__ = ["model_page"]


def model_page(state: LiveState, *, read_only: bool) -> dict[str, Any]:
    """All of it, as plain values."""
    served, structure = state.served, state.structure
    content = model_content(served.fitted)
    now = {"num_nodes": structure.num_nodes, "num_links": structure.num_links, "fingerprint": served.fingerprint}
    return {
        "name": served.path.resolve().name,
        **content,
        "model": {**content["model"], **now},
        "index": served.finder.describe(),
        "live": {
            "version": state.version,
            "added_links": structure.added_links,
            "removed_links": structure.removed_links,
            "added_nodes": structure.names.num_new,
            "rejected": structure.num_rejected,
            "drift": state.drift,
        },
        "read_only": read_only,
        "version": state.version,
    }
