"""A page of one file: a template that `make web` built, with its data in it."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["filled"]


def filled(template: str, title: str, content: Mapping[str, Any]) -> str:
    """The template with a title and data; the same content gives the same text."""
    # in ASCII and without "<" no text can end the element that holds it
    data = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    name = html.escape("".join(letter if letter.isprintable() else " " for letter in title))
    head, title_mark, rest = template.partition("{{title}}")
    middle, data_mark, end = rest.partition("{{data}}")
    if not title_mark or not data_mark:
        raise ValueError("the template has no place for title and data: run `make web`")
    return head + name + middle + data + end
