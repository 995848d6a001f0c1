"""Bodies of requests: counted, then parsed, then checked, and large ones in a thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

from yinyan.service.options import Limits
from yinyan.service.problems import TooMuchError
from yinyan.service.schemas import Body

__all__ = ["Bodies"]

_SMALL = 16 << 10  # bytes that are checked sooner than handed to a thread
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class Bodies:
    """Reads bodies in a thread of its own, one large body at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bodies")

    async def read(self, body: bytes, shape: type[Body]) -> Body:
        """A body as one of the schemas; raises what is wrong with it."""
        if len(body) <= _SMALL:
            return self.parsed(body, shape)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.parsed, body, shape)

    def parsed(self, body: bytes, shape: type[Body]) -> Body:
        """Counts and lengths come before types, so that what a wrong body costs is bounded."""
        _few_lists(body, self._limits.lists)
        try:
            body.decode()
            content = from_json(body, allow_inf_nan=False)
        except UnicodeDecodeError as error:
            raise HTTPException(400, f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
        except ValueError as error:
            raise HTTPException(400, f"the body is not JSON: {error}") from None
        shape.count(content, self._limits)
        try:
            return shape.model_validate(content)
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_url=False, include_context=False)) from None

    def route_class(self) -> type[APIRoute]:
        """Routes whose body is read here; FastAPI documents it, and gets it checked."""
        read = self.read

        class BodyRoute(APIRoute):
            def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
                handle = super().get_route_handler()
                field = self.body_field
                shape: type[Body] | None = None if field is None else cast(type[Body], field.field_info.annotation)

                async def checked(request: Request) -> Response:
                    body = b"" if shape is None else await request.body()
                    return await handle(_Checked(request, await read(body, shape)) if shape and body else request)

                return checked

        return BodyRoute

    def close(self) -> None:
        """Finish what was begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class _Checked(Request):
    """A request whose body has been read and checked."""

    def __init__(self, request: Request, body: Body) -> None:
        super().__init__(request.scope, request.receive)
        self._checked = body

    async def body(self) -> bytes:
        """Not read again: only whether there is one matters."""
        return b"{}"

    async def json(self) -> Any:
        """What was made of it."""
        return self._checked


def _few_lists(body: bytes, most: int) -> None:
    """Refuse what would become very many objects, before it does; brackets within texts do not count."""
    if _brackets(body) <= most:
        return
    count = _brackets(_STRING.sub(b"", body))
    if count > most:
        raise TooMuchError(f"one request may have {most:,} lists and objects (got {count:,}): send several")


def _brackets(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")
