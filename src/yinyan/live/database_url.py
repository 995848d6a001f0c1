"""The address of a change log in a database; its text for messages has no credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from yinyan.errors import SettingsError

__all__ = ["DatabaseUrl", "is_url"]

_SCHEMA = "yinyan"  # of the tables, unless the URL names another
_ANY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_URL = re.compile(
    r"postgres(?:ql)?://(?:[^@/]*@)?"  # user and password
    r"(?P<hosts>[A-Za-z0-9_.,:\[\]%-]*)(?:/(?P<database>[A-Za-z0-9_.%-]*))?"
    r"(?:\?(?P<options>.*))?",
    re.DOTALL,
)
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}")


def is_url(text: str) -> bool:
    """Whether a text is meant as a URL, of whatever kind."""
    return _ANY.match(text) is not None


@dataclass(frozen=True)
class DatabaseUrl:
    """A PostgreSQL database and the schema of the log in it."""

    connection: str = field(repr=False)  # the URL as libpq reads it, with all of its options
    name: str  # for messages
    schema: str = _SCHEMA

    @classmethod
    def parsed(cls, url: str) -> DatabaseUrl:
        """From the text of a user; errors quote no part of it, since any part may be a password."""
        found = _URL.fullmatch(url)
        if found is None:
            raise SettingsError(
                "the change log needs to be a file, or a URL as postgresql://user:password@host:5432/database?sslmode="
                "require (got another kind of URL, or special characters: write @ : / ? % in a name or password as "
                "%40 %3A %2F %3F %25)"
            )
        given = (found["options"] or "").split("&")
        schemas = [option.partition("=")[2] for option in given if option.startswith("schema=")]
        schema = schemas[-1] if schemas else _SCHEMA
        if not _NAME.fullmatch(schema):
            raise SettingsError(
                "'schema' in the URL of the change log needs to be a name of up to 51 lower-case letters, digits "
                f"and underscores (got {schema!r})"
            )
        kept = "&".join(option for option in given if option and not option.startswith("schema="))
        bare = url[: found.start("options") - 1] if found["options"] is not None else url
        name = f"postgresql://{found['hosts']}/{found['database'] or ''}"
        return cls(f"{bare}?{kept}" if kept else bare, name if schema == _SCHEMA else f"{name}?schema={schema}", schema)

    def __str__(self) -> str:
        return self.name
