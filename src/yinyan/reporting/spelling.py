"""Numbers as the page spells them."""

from __future__ import annotations

import math

__all__ = ["number", "percent", "plain"]

_MISSING = "\N{EN DASH}"


def number(value: float, decimals: int = 3) -> str:
    """A fixed number of decimals, none from a thousand on; a dash for what is not finite."""
    if not math.isfinite(value):
        return _MISSING
    return f"{value:,.{decimals}f}" if abs(value) < 1000 else f"{value:,.0f}"


def plain(value: float) -> str:
    """Three significant digits, and all digits before the point."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """A share as a percentage; a dash where it is unknown."""
    if share is None or not math.isfinite(share):
        return _MISSING
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%" if share >= 0.01 else f"{100 * share:.2g}\N{NO-BREAK SPACE}%"
