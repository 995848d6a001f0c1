"""The colours of the page and of its drawings."""

from __future__ import annotations

__all__ = ["COMMUNITY_COLOURS", "FAINT", "FALSE", "INK", "MUTED", "PAPER", "THEME", "THIRD", "TRUE"]

# What the page may recolour: the colour drawn with (a mark found again in the SVG), and its light form
THEME = {
    "ink": ("#010203", "#1d2329"),
    "muted": ("#040506", "#59636e"),
    "faint": ("#070809", "#dfe3e8"),
    "paper": ("#0a0b0c", "#ffffff"),
    "true": ("#0d0e0f", "#0b6cae"),  # blue and orange: told apart by all common kinds of colour blindness
    "false": ("#101112", "#c2540a"),
    "third": ("#131415", "#00795c"),
}
INK, MUTED, FAINT, PAPER, TRUE, FALSE, THIRD = (drawn for drawn, _ in THEME.values())

# Mid-tones, legible on white and on black: a rasterised layer cannot follow the page
COMMUNITY_COLOURS = ("#4a7fc1", "#e0645c", "#3a9a5b", "#c9a227", "#a2559c", "#38a8b8", "#d98b5f", "#8f9a4b")
