"""What a served model is: its figures and how they were measured, its training, its state of now."""

from __future__ import annotations

from typing import Any

from yinyan.live.live_state import LiveState
from yinyan.live.typed_state import TypedState
from yinyan.reporting.content import model_content, relations_content

__all__ = ["model_page"]


def model_page(state: LiveState | TypedState, relation: str | None = None, *, read_only: bool) -> dict[str, Any]:
    """All of it, as plain values; with relations the figures and charts of one of them."""
    if isinstance(state, TypedState):
        return {**_typed_page(state, relation), "read_only": read_only}
    served, structure = state.of(relation).served, state.structure
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


def _typed_page(state: TypedState, relation: str | None) -> dict[str, Any]:
    served, whole = state.served, state.served.fitted
    name = whole.predicted[0] if relation is None else state.questions.named(relation)
    content = model_content(whole.relations[name])
    now = {"num_nodes": state.num_nodes, "num_links": state.num_links, "fingerprint": served.fingerprint}
    notes = [*whole.graph.notes, *content["notes"]]
    unchanged = dict.fromkeys(("added_links", "removed_links", "added_nodes", "rejected"), 0)
    return {
        "name": served.path.resolve().name,
        **content,
        **relations_content(whole),
        "relation": name,
        "notes": list(dict.fromkeys(notes)),
        "energy": list(whole.energy),
        "model": {**content["model"], **now},
        "index": served.finder.of(name).describe(),
        "live": {"version": state.version, **unchanged, "drift": state.drift},
        "version": state.version,
    }
