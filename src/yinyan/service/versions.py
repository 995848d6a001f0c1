"""Versions: a client that sends the version it has seen never gets an answer from an older state."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response

from yinyan.errors import YinYanError
from yinyan.live.keeper import Keeper
from yinyan.service.problems import BehindError, TookTooLongError, problem
from yinyan.service.workers import within

__all__ = ["HEADER", "document_versions", "reached"]

HEADER = "X-Yinyan-Version"

_NUMBER = re.compile(rb"[0-9]{1,18}")  # what the change log can count


async def reached(keeper: Keeper, given: bytes, seconds: float) -> Response | None:
    """Wait until the state has the version that a client has seen; a refusal if that cannot be."""
    if _NUMBER.fullmatch(given) is None:
        return problem(400, f"{HEADER} needs to be a whole number of at most 18 digits (got {given!r:.80})")
    version = int(given)
    if version <= keeper.now.version:
        return None
    try:
        last = await within(keeper.last_logged(), seconds)
        if version > last:
            return problem(
                412,
                f"version {version:,} is not in the change log, which ends at {last:,} (is it another log, or an "
                f"older copy?): leave out {HEADER} to read the present state",
            )
        await within(keeper.reached(version), seconds)
    except TookTooLongError:
        raise BehindError(f"version {version:,} was not reached within {seconds:g} s: ask again") from None
    except YinYanError as error:
        raise BehindError(f"version {version:,} cannot be reached: {error}") from error
    return None


def document_versions(app: FastAPI) -> None:
    """Name the header in the OpenAPI document, where it is read and where it is sent."""
    made = app.openapi
    words = "number of the last change that the answer includes"
    asked = {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "largest version that the client has seen: the answer comes from no older state",
        "schema": {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
        "example": 0,
    }

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = made()
            for path, operations in document["paths"].items():
                for operation in operations.values() if path.startswith("/v1/") else ():
                    operation.setdefault("parameters", []).append(asked)
                    sent = {HEADER: {"description": words, "schema": {"type": "integer"}}}
                    operation["responses"]["200"]["headers"] = sent
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]
