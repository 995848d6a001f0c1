"""API keys: made at random, kept as digests, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from yinyan.errors import InputError, StoreError
from yinyan.files import write_text

__all__ = ["KeyRing", "add_key", "key_name", "read_keys"]

_log = logging.getLogger("yinyan.service")

# A key has 256 random bits, so that nobody can guess it from its digest: one round of SHA-256 is enough, and unlike a
# slow hash it lets nobody keep the service busy with wrong keys.
_PREFIX = "yy_"
_LINE = re.compile(r"(?P<name>[\w.@-]+):sha256:(?P<digest>[0-9a-f]{64})")


def add_key(path: Path, name: str) -> str:
    """Make a key, add its digest to a file under a name, and return the key, which is kept nowhere."""
    if not re.fullmatch(r"[\w.@-]{1,64}", name):
        raise InputError(f"a key's name needs letters, digits and . _ @ - only (got {name!r})")
    known = read_keys(path) if path.exists() else {}
    if name in known:
        raise InputError(f"'{path}' has a key called {name!r} already: choose another name, or remove its line")
    key = _PREFIX + secrets.token_urlsafe(32)
    before = path.read_text(encoding="utf-8").rstrip("\n") + "\n" if path.exists() else ""
    write_text(path, f"{before}{name}:sha256:{_digest(key)}\n")
    path.chmod(0o600)
    return key


def read_keys(path: Path) -> dict[str, str]:
    """Digests by name, of one key at least."""
    found = _keys_in(path)
    if not found:
        raise InputError(f"'{path}' holds no API key: make one with 'yinyan keys {path}'")
    return found


def _keys_in(path: Path) -> dict[str, str]:
    """Digests by name; lines that are empty or begin with # are comments."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"the file of API keys '{path}' cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise InputError(f"'{path}', line {number}: expected NAME:sha256:DIGEST (make lines with 'yinyan keys')")
        found[match["name"]] = match["digest"]
    return found


class KeyRing:
    """The keys of a file, as the file is now: a key whose line is removed opens nothing from the next request on."""

    def __init__(self, path: Path) -> None:
        """A file that cannot be used is refused at the start."""
        self._path = path
        self._seen = _state(path)
        self._keys: Mapping[str, str] = read_keys(path)

    def name(self, headers: Mapping[bytes, bytes]) -> str | None:
        """The name of the key that a request brings, if it is one of ours."""
        if (state := _state(self._path)) != self._seen:
            self._seen = state
            self._keys = self._read_again()
        return key_name(self._keys, headers)

    def _read_again(self) -> Mapping[str, str]:
        """The keys of a file that has changed; the last good ones if it is damaged, none if it is gone."""
        if self._seen is None:
            _log.warning("the file of API keys '%s' is gone: no key is accepted until it is back", self._path)
            return {}
        try:
            return _keys_in(self._path)
        except (InputError, StoreError) as error:
            _log.warning("%s (the keys read before remain valid)", error)
            return self._keys


def _state(path: Path) -> tuple[int, ...] | None:
    """What changes with the content of a file; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def key_name(keys: Mapping[str, str], headers: Mapping[bytes, bytes]) -> str | None:
    """The name of the key that a request brings, if it is one of ours; all are compared, whichever fits."""
    given = headers.get(b"x-api-key", b"")
    scheme, _, rest = headers.get(b"authorization", b"").partition(b" ")
    if not given and scheme.lower() == b"bearer":
        given = rest.strip()
    digest = _digest(given)
    found = None
    for name, known in keys.items():
        if hmac.compare_digest(digest, known):
            found = name
    return found


def _digest(key: str | bytes) -> str:
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).hexdigest()
