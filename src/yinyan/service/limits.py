"""The gate before the routes: who may come in, what may be brought along, and a note of everybody who came."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from yinyan.service.context import Room
from yinyan.service.doors import METRICS, escaped, is_public, local_name, of_this_site
from yinyan.service.keys import KeyRing
from yinyan.service.log_lines import LogLines
from yinyan.service.problems import BehindError, problem
from yinyan.service.prometheus import Counters
from yinyan.service.versions import HEADER, reached

__all__ = ["Gate"]

_log = logging.getLogger("yinyan.service")

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
)


class Gate:
    """Checks host, key, version and body before the routes see a request."""

    def __init__(self, app: ASGIApp, room: Room, counters: Counters, lines: LogLines) -> None:
        """A file of keys that cannot be used is refused at the start."""
        self._app, self._room, self._counters, self._lines = app, room, counters, lines
        self._limits, options = room.options.limits, room.options
        self._keys = None if options.keys is None else KeyRing(options.keys)
        self._metrics_keys = None if options.metrics_keys is None else KeyRing(options.metrics_keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, from its head to its note in the log."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, size = time.perf_counter(), 0, 0

        async def sending(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            else:
                size += len(message.get("body", b""))
            await send(message)

        headers = dict(scope["headers"])
        key = self._name(scope["path"], headers)
        try:
            await self._admit(scope, headers, key, receive, sending)
        except Exception:  # answered with 500 already: one request's error must not end the process
            _log.exception("%s %s failed", scope["method"], escaped(scope["path"]))
        finally:
            seconds = time.perf_counter() - started
            self._counters.count(getattr(scope.get("route"), "path", None), scope["method"], status, seconds)
            self._lines.put(json.dumps(_note(scope, key, status, size, seconds)))

    async def _admit(
        self, scope: Scope, headers: Mapping[bytes, bytes], key: str | None, receive: Receive, send: Send
    ) -> None:
        refusal = self._refused(scope, key)
        if refusal is None and scope["path"].startswith("/v1/"):
            refusal = await self._behind(headers)
            send = _with_version(send, self._room.now.version)
        if refusal is None and scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            body = await self._body(headers, receive)
            if body is None:  # whoever asked has gone
                return
            refusal = body if isinstance(body, Response) else _of_another_kind(headers, body)
            receive = receive if isinstance(body, Response) else _once(body, receive)
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _name(self, path: str, headers: Mapping[bytes, bytes]) -> str | None:
        """The name of the key that a request brings, if it opens the path."""
        rings = (self._keys, self._metrics_keys if path == METRICS else None)
        return next((name for ring in rings if ring is not None and (name := ring.name(headers))), None)

    def _needs_key(self, path: str) -> bool:
        if path == METRICS:
            options = self._room.options
            return not options.metrics_open and (self._keys is not None or self._metrics_keys is not None)
        return self._keys is not None and not is_public(path)

    def _refused(self, scope: Scope, key: str | None) -> Response | None:
        if self._keys is None:
            # a page of another site must not reach a service without keys through its visitor's browser
            hosts, origins = _all(scope, b"host"), _all(scope, b"origin")
            if not local_name(hosts):
                return problem(403, f"this service answers to local names such as 127.0.0.1 (got {_shown(hosts)})")
            if not of_this_site(origins, hosts):
                return problem(403, f"requests from pages of other sites are refused (got {_shown(origins)})")
        if key is None and self._needs_key(scope["path"]):
            return problem(
                401,
                "an API key is needed: send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if self._room.is_full(scope["path"]):
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "too many questions are waiting: ask again in a few seconds")
        return None

    async def _behind(self, headers: Mapping[bytes, bytes]) -> Response | None:
        """A refusal if the version that the client has seen is not reached in time."""
        given = headers.get(HEADER.lower().encode())
        try:
            return None if given is None else await reached(self._room.keeper, given, self._limits.seconds)
        except BehindError as error:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes | Response | None:
        """The whole body; a refusal where it is too large or too slow; None where the client has gone."""
        most, said = self._limits.body_bytes, headers.get(b"content-length", b"0")
        too_large = f"a body may have {most:,} bytes: send less at a time"
        if not said.isdigit() or int(said[:20]) > most:
            return _closing(413, too_large)
        parts, size, more = [], 0, True
        deadline = time.monotonic() + self._limits.body_seconds
        while more:
            try:
                message = await asyncio.wait_for(receive(), max(0.001, deadline - time.monotonic()))
            except asyncio.TimeoutError:
                return _closing(408, f"the body was not there within {self._limits.body_seconds:g} s")
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > most:
                return _closing(413, too_large)
        return b"".join(parts)


def _closing(status: int, detail: str) -> Response:
    return problem(status, detail, headers={"Connection": "close"})


def _of_another_kind(headers: Mapping[bytes, bytes], body: bytes) -> Response | None:
    """A refusal of what is not sent as JSON: forms of other sites' pages cannot."""
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if not body or kind == b"application/json":
        return None
    return problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"a body needs to be application/json (got {kind!r:.80})")


def _once(body: bytes, receive: Receive) -> Receive:
    """A `receive` that hands out a body that has been read, and then waits as the old one does."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_version(send: Send, version: int) -> Send:
    """A `send` whose answers say at which version they are, at least."""
    name = HEADER.lower().encode()

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and name not in dict(message.get("headers", ())):
            message = {**message, "headers": [*message.get("headers", ()), (name, str(version).encode())]}
        await send(message)

    return sending


def _all(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


def _shown(values: Sequence[bytes]) -> str:
    return f"{b', '.join(values)!r:.80}"


def _note(scope: Scope, key: str | None, status: int, size: int, seconds: float) -> dict[str, Any]:
    client = scope.get("client")
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "client": client[0] if client else None,
        "key": key,
        "method": scope["method"],
        "path": escaped(scope["path"]),
        "status": status,
        "bytes": size,
        "seconds": round(seconds, 6),
    }
