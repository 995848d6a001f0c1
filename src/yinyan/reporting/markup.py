"""Pieces of HTML: safe text, sections, figures and wide tables."""

from __future__ import annotations

import html
import re

__all__ = ["escaped", "figure", "section", "wide"]

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def escaped(value: object) -> str:
    """Any value as text that no browser takes for markup; what has no form at all becomes a question mark."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", str(value)))


def section(heading: str, body: str) -> str:
    """A section of the page under its heading."""
    return f"<section><h2>{heading}</h2>{body}</section>\n"


def figure(title: str, svg: str, caption: str, kind: str = "chart") -> str:
    """A drawing with its title, if any, and its caption."""
    heading = f"<h3>{title}</h3>" if title else ""
    return f"<figure class='{kind}'>{heading}{svg}<figcaption>{escaped(caption)}</figcaption></figure>"


def wide(table: str, label: str) -> str:
    """A table that may be wider than a phone scrolls by itself."""
    return f"<div class='wide' role='region' aria-label='{label}' tabindex='0'>{table}</div>"
