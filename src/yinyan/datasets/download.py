"""Downloads that resume where they stopped, and that are placed whole or not at all."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from yinyan import __version__
from yinyan.datasets.digests import record_digest
from yinyan.errors import YinYanError
from yinyan.files import file_digest, flush_to_disk, write_error, write_text
from yinyan.progress import Progress, make_folder

__all__ = ["MOST_BYTES", "DownloadError", "fetch"]

MOST_BYTES = 20_000_000_000  # of a file whose size is not known: the largest data set here has 3 GB
_BLOCK = 1 << 18
_MEGABYTE = 1_000_000
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # answers that may differ the next time


class DownloadError(YinYanError):
    """A file could not be downloaded; the message says from where, to where, and what to do instead."""


class _InterruptedError(Exception):
    """An attempt failed in a way that another may not."""


def fetch(
    url: str,
    target: Path,
    *,
    sha256: str | None = None,
    most: int = MOST_BYTES,
    progress: Progress | None = None,
    timeout: float = 30.0,  # seconds without a byte
    attempts: int = 4,
    pause: float = 1.0,  # seconds before the second attempt, doubled before each further one
) -> None:
    """Download `url` to `target`, and write its checksum beside it.

    What has come is kept in `NAME.part`, and the next attempt or call asks only for the rest. Where no
    checksum is known, the length that the server names is checked. More than `most` bytes are not taken.
    """
    make_folder(target.parent, target)
    partial, reason = _Partial.beside(target, url, most), ""
    for attempt in range(attempts):
        time.sleep(pause * 2 ** (attempt - 1) if attempt else 0)
        try:
            resumed = _receive(partial, progress or Progress(), timeout)
        except _InterruptedError as error:
            reason = str(error)
            continue
        digest = file_digest(partial.path)
        if sha256 in (None, digest):
            partial.place()
            record_digest(target, digest)
            return
        partial.discard()
        reason = f"its SHA-256 begins with {digest[:12]}, expected {sha256[:12] if sha256 else ''}"
        if not resumed:  # the server itself sends something else
            break
    raise _failure(partial, reason)


@dataclass(frozen=True)
class _Partial:
    """The part of a file that has come so far, and what is known of the whole."""

    url: str
    target: Path
    path: Path
    memory: Path
    most: int  # bytes that it may have

    @classmethod
    def beside(cls, target: Path, url: str, most: int) -> _Partial:
        path = target.with_name(f"{target.name}.part")
        return cls(url, target, path, path.with_name(f"{path.name}.json"), most)

    def refuse_above(self, size: int) -> None:
        """End a download that is, or says it will be, larger than it may."""
        if size > self.most:
            self.discard()
            raise _failure(self, f"it has more than the {self.most / 1e9:,.3g} GB that are expected at most")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def remembered(self) -> dict[str, Any]:
        try:
            found = json.loads(self.memory.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict) or found.get("url") != self.url or not self.size:
            self.discard()  # of another source, or of none that is known
            return {}
        return found

    def remember(self, tag: str | None, total: int | None) -> None:
        write_text(self.memory, json.dumps({"url": self.url, "tag": tag, "total": total}) + "\n")

    def discard(self) -> None:
        with self.disk():
            self.path.unlink(missing_ok=True)
            self.memory.unlink(missing_ok=True)

    def place(self) -> None:
        with self.disk():
            flush_to_disk(self.path)
            self.path.replace(self.target)
            self.memory.unlink(missing_ok=True)

    @contextmanager
    def disk(self) -> Iterator[None]:
        """Within, a system error is one of the disk and not of the network."""
        try:
            yield
        except OSError as error:
            raise write_error(self.target, error) from error


def _receive(partial: _Partial, progress: Progress, timeout: float) -> bool:
    """Ask for what is missing and append it; say whether anything was there before."""
    known = partial.remembered()
    offset = partial.size
    headers = {"User-Agent": f"yinyan/{__version__}", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        headers |= {"If-Range": known["tag"]} if known.get("tag") else {}
    try:
        response: HTTPResponse = urlopen(Request(partial.url, headers=headers), timeout=timeout)
    except HTTPError as error:
        with error:
            return _refused(partial, error, offset)
    except (OSError, HTTPException) as error:
        raise _InterruptedError(str(getattr(error, "reason", error)) or type(error).__name__) from error
    with response:
        resumed = response.status == 206
        if resumed and not _continues(response, offset, known.get("total")):
            partial.discard()
            raise _InterruptedError(f"the server sent other bytes ({response.headers['Content-Range']}) than asked for")
        offset = offset if resumed else 0
        length = response.headers["Content-Length"]
        total = offset + int(length) if length and length.isdigit() else None
        partial.refuse_above(total or 0)
        partial.remember(_tag(response), total)
        with partial.disk():
            file = partial.path.open("ab" if resumed else "wb")
        with file:
            _copy(response, file, partial, progress, offset, total, timeout)
    if total is not None and partial.size != total:
        raise _InterruptedError(f"the connection ended after {partial.size:,} of {total:,} bytes")
    return resumed


def _refused(partial: _Partial, error: HTTPError, offset: int) -> bool:
    if error.code == 416 and offset:  # nothing is left, or the file is another now
        if error.headers["Content-Range"] == f"bytes */{offset}":
            return True
        partial.discard()
        raise _InterruptedError("the file has become shorter at its source") from error
    reason = f"the server answered {error.code} {error.reason}"
    if error.code in _PASSING:
        raise _InterruptedError(reason) from error
    raise _failure(partial, reason) from error


def _continues(response: HTTPResponse, offset: int, total: int | None) -> bool:
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", response.headers["Content-Range"] or "")
    if found is None or int(found[1]) != offset:
        return False
    return total is None or found[3] in ("*", str(total))


def _tag(response: HTTPResponse) -> str | None:
    """What names this version of the file; a weak ETag does not promise the same bytes."""
    tag: str | None = response.headers["ETag"]
    changed: str | None = response.headers["Last-Modified"]
    return tag if tag and not tag.startswith("W/") else changed


def _copy(
    response: HTTPResponse,
    file: IO[bytes],
    partial: _Partial,
    progress: Progress,
    offset: int,
    total: int | None,
    timeout: float,
) -> None:
    size, unit = (_MEGABYTE, "MB") if (total or 0) >= 10 * _MEGABYTE else (1_000, "kB")
    progress.start(f"downloading {partial.target.name} ({unit})", (total or 0) // size, offset // size)
    try:
        while True:
            try:
                block = response.read1(_BLOCK)  # what has come: a stall must not take it along
            except TimeoutError as error:
                raise _InterruptedError(f"nothing came for {timeout:g} seconds") from error
            except (OSError, HTTPException) as error:
                raise _InterruptedError(f"the connection broke ({error or type(error).__name__})") from error
            if not block:
                return
            partial.refuse_above(offset + len(block))
            with partial.disk():
                file.write(block)
                file.flush()  # here, where a full disk is known for what it is
            offset += len(block)
            progress.advance(offset // size)
    finally:
        progress.finish()


def _failure(partial: _Partial, reason: str) -> DownloadError:
    kept = f"; {partial.size:,} bytes are kept, and the next attempt goes on from there" if partial.size else ""
    return DownloadError(
        f"cannot download '{partial.url}' to '{partial.target}': {reason}{kept}. Check the connection and try again, "
        "or place the file there yourself, or name a folder that has the data in the variable YINYAN_DATA"
    )
