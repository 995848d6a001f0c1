"""URLs of databases, as people write them and as messages show them: without user and password."""

from __future__ import annotations

import importlib
import re
from pathlib import Path, PurePosixPath
from typing import Any

from yinyan.errors import MissingExtraError

__all__ = ["DatabaseUrl", "file_or_url", "imported", "is_url"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def is_url(source: Any) -> bool:
    """Whether a text is a URL."""
    return isinstance(source, str) and _URL.match(source) is not None


def file_or_url(text: str) -> Path | DatabaseUrl:
    """What an argument of a command names."""
    return DatabaseUrl(text) if is_url(text) else Path(text)


def imported(module: str, cure: str) -> Any:
    """A package that is no dependency; its absence is an error with the `cure`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(cure) from error


class DatabaseUrl(str):
    """The URL of a database. Only `shown`, `name` and `stem` are for messages: the text may hold a password."""

    @property
    def scheme(self) -> str:
        """What stands before ://, in lower case; empty if it is no URL."""
        found = _URL.match(self)
        return "" if found is None else found[1].lower()

    @property
    def rest(self) -> str:
        """What stands behind ://."""
        found = _URL.match(self)
        return "" if found is None else found[2]

    @property
    def shown(self) -> str:
        """Without user, password and options."""
        return f"{self.scheme}://{self.rest.rpartition('@')[2].partition('?')[0]}"

    @property
    def name(self) -> str:
        """The name of the file, or of the database on its server."""
        return PurePosixPath(self.shown).name

    @property
    def stem(self) -> str:
        """The same without an ending."""
        return PurePosixPath(self.shown).stem
