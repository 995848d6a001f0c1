"""The gate before the routes: who may come in, what may be brought along, and a note of everybody who came."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TextIO

from pydantic_core import from_json
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from yinyan.service.keys import key_name
from yinyan.service.options import Limits, is_loopback
from yinyan.service.problems import problem
from yinyan.service.prometheus import Counters

__all__ = ["Gate"]

_log = logging.getLogger("yinyan.service")

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
)


class Gate:
    """Checks host, key and body before the routes see a request."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        counters: Counters,
        access: TextIO,
        keys: Mapping[str, str] | None,
        is_full: Callable[[str], bool],
    ) -> None:
        self._app, self._limits, self._counters, self._access = app, limits, counters, access
        self._keys, self._is_full = keys, is_full

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
        key = None if self._keys is None else key_name(self._keys, headers)
        try:
            await self._admit(scope, headers, key, receive, sending)
        except Exception:  # answered with 500 already: one request's error must not end the process
            _log.exception("%s %s failed", scope["method"], scope["path"])
        finally:
            seconds = time.perf_counter() - started
            self._counters.count(getattr(scope.get("route"), "path", None), scope["method"], status, seconds)
            self._access.write(json.dumps(_note(scope, key, status, size, seconds)) + "\n")

    async def _admit(
        self, scope: Scope, headers: Mapping[bytes, bytes], key: str | None, receive: Receive, send: Send
    ) -> None:
        refusal = self._refused(scope, headers, key)
        if refusal is None and scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            body = await self._body(headers, receive)
            if body is None:  # whoever asked has gone
                return
            refusal = body if isinstance(body, Response) else _unreadable(headers, body)
            receive = receive if isinstance(body, Response) else _once(body, receive)
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refused(self, scope: Scope, headers: Mapping[bytes, bytes], key: str | None) -> Response | None:
        if self._keys is None:
            # a page of another site must not reach a service without keys through its visitor's browser
            name = _host_name(headers.get(b"host", b""))
            if not is_loopback(name):
                return problem(403, f"this service answers to local names such as 127.0.0.1 (got {name!r:.80})")
            origin = headers.get(b"origin", b"")
            if origin and origin.partition(b"://")[2] != headers.get(b"host"):
                return problem(403, f"requests from pages of other sites are refused (got {origin!r:.80})")
        elif key is None and _is_private(scope["path"]):
            return problem(
                401,
                "an API key is needed: send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if self._is_full(scope["path"]):
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "too many questions are waiting: ask again in a few seconds")
        return None

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


def _unreadable(headers: Mapping[bytes, bytes], body: bytes) -> Response | None:
    """A refusal of what is no JSON, or is nested too deeply; both before Python's own parser sees it."""
    if not body:
        return None
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        return problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"a body needs to be application/json (got {kind!r:.80})")
    try:
        body.decode()
        from_json(body, allow_inf_nan=False)
    except UnicodeDecodeError as error:
        return problem(400, f"the body is not UTF-8: {error.reason} at byte {error.start}")
    except ValueError as error:
        return problem(400, f"the body is not JSON: {error}")
    return None


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


def _is_private(path: str) -> bool:
    return path.startswith("/v1/") or path in ("/metrics", "/openapi.json")


def _host_name(host: bytes) -> str:
    text = host.decode("latin-1")
    return text.rpartition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]


def _note(scope: Scope, key: str | None, status: int, size: int, seconds: float) -> dict[str, Any]:
    client = scope.get("client")
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "client": client[0] if client else None,
        "key": key,
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "bytes": size,
        "seconds": round(seconds, 6),
    }
