"""The commands of those who serve a model: the service, and the keys to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yinyan import flags
from yinyan.errors import MissingExtraError

__all__ = ["keys", "serve"]


def serve(
    model: flags.Model,
    *,
    host: Annotated[str, typer.Option(help="address to listen at; others than this machine's own need keys")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="port to listen at", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="processes", min=1)] = 1,
    api_keys: Annotated[Path | None, typer.Option(help="file of hashed API keys (yinyan keys makes it)")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="refuse changes of the graph")] = False,
    log: Annotated[Path | None, typer.Option(help="change log (beside the model: MODEL.changes.sqlite)")] = None,
    carry_over: Annotated[
        bool, typer.Option("--carry-over", help="apply a log of another model as far as it fits this one")
    ] = False,
    labels: Annotated[Path | None, typer.Option(help="table of nodes: an id, a label, columns to show")] = None,
    label_column: Annotated[str | None, typer.Option(help="its column of labels")] = None,
    id_column: Annotated[str | None, typer.Option(help="its column of ids")] = None,
    index: Annotated[str, typer.Option(help="how partners are found: auto, exact, mips or flashlight")] = "auto",
    at_once: Annotated[int, typer.Option(help="questions a process works on at a time", min=1)] = 2,
    seconds: Annotated[float, typer.Option(help="for an answer, at most", min=0.1)] = 20.0,
    access_log: Annotated[Path | None, typer.Option(help="file of JSON lines (else standard error)")] = None,
) -> None:
    """Answer questions over HTTP, follow changes of the graph, and show the explorer."""
    try:
        from yinyan.service.options import Limits, Options
        from yinyan.service.serving import serve as run
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "pydantic", "pydantic_core"):
            raise
        raise MissingExtraError("yinyan serve needs FastAPI and uvicorn: pip install 'yinyan[service]'") from error

    def text(path: Path | None) -> str | None:
        return None if path is None else str(path)

    options = Options(
        model=str(model),
        host=host,
        port=port,
        workers=workers,
        keys=text(api_keys),
        read_only=read_only,
        log=text(log),
        carry_over=carry_over,
        labels=text(labels),
        label_column=label_column,
        id_column=id_column,
        index=index,
        access_log=text(access_log),
        limits=Limits(at_once=at_once, seconds=seconds),
    )
    run(options, tell=lambda words: typer.echo(words, err=True))


def keys(
    file: Annotated[Path, typer.Argument(help="file of hashed keys; made if it is not there", show_default=False)],
    *,
    name: Annotated[str, typer.Option(help="whose key it is, for the access log")] = "default",
) -> None:
    """Make an API key: its digest goes to the file, the key itself is printed once."""
    from yinyan.service.keys import add_key

    typer.echo(add_key(file, name))
