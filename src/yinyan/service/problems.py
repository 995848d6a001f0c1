"""Errors as problem details (RFC 9457), with the library's own messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from yinyan.errors import StoreError, UnknownNodeError, YinYanError
from yinyan.live.shared_log import LogFullError, UncertainError
from yinyan.live.structure import ConflictError

__all__ = ["BehindError", "OverloadedError", "TooMuchError", "TookTooLongError", "add_handlers", "problem"]

_MEDIA_TYPE = "application/problem+json"


class OverloadedError(YinYanError):
    """More requests arrived at once than can be answered in time."""


class BehindError(YinYanError):
    """This process has not reached the version that a client has seen."""


class TooMuchError(YinYanError):
    """One request exceeds a limit."""


class TookTooLongError(YinYanError):
    """An answer took longer than allowed."""


# the first kind that fits
_STATUS: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    (UnknownNodeError, HTTPStatus.NOT_FOUND),
    (ConflictError, HTTPStatus.CONFLICT),
    (TooMuchError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (OverloadedError, HTTPStatus.SERVICE_UNAVAILABLE),
    (BehindError, HTTPStatus.SERVICE_UNAVAILABLE),
    (LogFullError, HTTPStatus.SERVICE_UNAVAILABLE),
    (UncertainError, HTTPStatus.SERVICE_UNAVAILABLE),
    (TookTooLongError, HTTPStatus.GATEWAY_TIMEOUT),
    (StoreError, HTTPStatus.CONFLICT),
    (YinYanError, HTTPStatus.UNPROCESSABLE_ENTITY),
)


def problem(status: int, detail: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """A response that says what is wrong; as ASCII, since a message may quote what is no valid text."""
    title = HTTPStatus(status).phrase
    body = json.dumps({"type": "about:blank", "title": title, "status": int(status), "detail": detail})
    extra = dict(headers or {})
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        extra.setdefault("Retry-After", "1")
    return Response(body, status_code=status, media_type=_MEDIA_TYPE, headers=extra)


def add_handlers(app: FastAPI) -> None:
    """Turn every error into a problem."""

    @app.exception_handler(YinYanError)
    async def of_library(request: Request, error: YinYanError) -> Response:
        return problem(next(status for kind, status in _STATUS if isinstance(error, kind)), str(error))

    @app.exception_handler(RequestValidationError)
    async def of_request(request: Request, error: RequestValidationError) -> Response:
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, _said(error))

    @app.exception_handler(HTTPException)
    async def of_route(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_methods(app, request.scope))
        return problem(error.status_code, str(error.detail), headers=headers)

    @app.exception_handler(Exception)
    async def of_ours(request: Request, error: Exception) -> Response:
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error of the service: see its log")


def _methods(app: FastAPI, scope: Scope) -> list[str]:
    """The methods of all routes at an address: one address may have several routes."""
    here = [route for route in app.routes if isinstance(route, Route) and route.matches(scope)[0] != Match.NONE]
    return sorted({method for route in here for method in route.methods or ()})


def _said(error: RequestValidationError) -> str:
    """The first thing that is wrong with a request, and where."""
    first, *others = error.errors()
    where = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    wrong = first.get("input")
    got = f" (got {wrong!r:.80})" if where and not isinstance(wrong, (dict, list)) else ""
    rest = f"; {len(others)} more" if others else ""
    return f"{'.'.join(where) or 'the body'}: {first['msg']}{got}{rest}"
