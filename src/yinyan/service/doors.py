"""Who may come in: public paths, host names, origins; and how a stranger's words are written down."""

from __future__ import annotations

import re
from collections.abc import Sequence

from yinyan.service.options import is_loopback

__all__ = ["METRICS", "escaped", "is_public", "local_name", "of_this_site"]

METRICS = "/metrics"  # which may have keys of its own, or need none

# Everything else needs a key: a route that is forgotten here is closed, and not open.
_PUBLIC = frozenset({"/", "/docs", "/healthz", "/readyz"})  # the two pages hold no data
_PUBLIC_FOLDER = "/assets/"  # their files

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+)(?::[0-9]{1,5})?")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def is_public(path: str) -> bool:
    """Whether a path is answered without a key."""
    return path in _PUBLIC or path.startswith(_PUBLIC_FOLDER)


def local_name(hosts: Sequence[bytes]) -> bool:
    """Whether a request names this machine, and nothing else, as its host."""
    if len(hosts) != 1:
        return False
    match = _HOST.fullmatch(hosts[0].decode("latin-1"))
    return match is not None and is_loopback(match[1].lower())


def of_this_site(origins: Sequence[bytes], hosts: Sequence[bytes]) -> bool:
    """Whether a request comes from a page of this service, or from no page at all."""
    own = {scheme + host.lower() for scheme in (b"http://", b"https://") for host in hosts}
    return all(origin.lower() in own for origin in origins)


def escaped(text: str, most: int = 500) -> str:
    """A text of a client for a log: one line, without control characters, and no longer than `most`."""
    cut = text if len(text) <= most else text[:most] + "…"
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", cut)
