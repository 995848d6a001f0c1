"""The commands of those who serve a model: the service, and the keys to it."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from yinyan.cli import common, flags
from yinyan.errors import MissingExtraError
from yinyan.progress import make_folder, show_progress

__all__ = ["FromEnvironment", "keys", "serve", "serve_demo"]


class FromEnvironment(TyperCommand):
    """A command each of whose options may be set in the environment: --at-once by YINYAN_AT_ONCE."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        for parameter in self.params:
            if parameter.opts[0].startswith("--"):
                parameter.envvar = f"YINYAN_{str(parameter.name).upper()}"


def serve(
    model: flags.Model,
    *,
    host: Annotated[str, typer.Option(help="address to listen on; addresses of other machines need keys")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="port to listen on", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="number of processes", min=1)] = 1,
    threads: Annotated[
        int | None, typer.Option(help="number of threads per query (default: the cores shared among queries)", min=1)
    ] = None,
    api_keys: Annotated[
        Path | None, typer.Option(help="file of hashed API keys, made by yinyan keys (default: no keys)")
    ] = None,
    metrics_keys: Annotated[
        Path | None, typer.Option(help="file of hashed keys that open /metrics alone (default: API keys open it)")
    ] = None,
    metrics_open: Annotated[bool, typer.Option("--metrics-open", help="answer /metrics without a key")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="refuse changes of the graph")] = False,
    log: flags.Log = None,
    carry_over: Annotated[
        bool, typer.Option("--carry-over", help="apply the change log of another model where it fits")
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="go on with a change log that lost or damaged its newest changes")
    ] = False,
    labels: Annotated[
        Path | None, typer.Option(help="table of ids, labels and attributes (default: those of the model)")
    ] = None,
    no_labels: Annotated[bool, typer.Option("--no-labels", help="show ids only")] = False,
    label_column: Annotated[str | None, typer.Option(help="column of labels in --labels (default: guessed)")] = None,
    id_column: Annotated[str | None, typer.Option(help="column of ids in --labels (default: guessed)")] = None,
    index: Annotated[str, typer.Option(help="kind of index: auto, exact, mips or flashlight")] = "auto",
    recall: Annotated[
        float | None, typer.Option(help="target recall of the index (default: 0.98, or as saved)", min=0.01, max=1.0)
    ] = None,
    at_once: Annotated[int, typer.Option(help="maximum number of simultaneous queries per process", min=1)] = 2,
    seconds: Annotated[float, typer.Option(help="maximum seconds per query", min=0.1)] = 20.0,
    proxy: Annotated[
        str | None, typer.Option(help="address of a proxy whose X-Forwarded-For is believed (default: none)")
    ] = None,
    access_log: Annotated[
        Path | None, typer.Option(help="access log, a file of JSON lines (default: standard error)")
    ] = None,
) -> None:
    """Serve a model over HTTP, with updates of the graph and the explorer.

    Every option can be set in the environment.
    """
    Limits, Options, run = _service()  # noqa: N806

    flags.check_labels(labels, no_labels=no_labels)
    options = Options(
        model=model,
        host=host,
        port=port,
        workers=workers,
        threads=threads,
        keys=api_keys,
        metrics_keys=metrics_keys,
        metrics_open=metrics_open,
        read_only=read_only,
        log=log,
        carry_over=carry_over,
        accept_loss=accept_loss,
        labels=labels,
        no_labels=no_labels,
        label_column=label_column,
        id_column=id_column,
        index=index,
        proxy=proxy,
        recall=recall,
        access_log=access_log,
        limits=Limits(at_once=at_once, seconds=seconds),
    )
    run(options, tell=lambda words: typer.echo(words, err=True))


def serve_demo(
    *,
    port: Annotated[int, typer.Option(help="port to listen on", min=0, max=65535)] = 8000,
    folder: Annotated[Path, typer.Option(help="folder for the model")] = Path("yinyan-demo"),
    threads: flags.Threads = None,
    quiet: flags.Quiet = False,
) -> None:
    """Train a model of Cora, unless there is one, and show it in the explorer."""
    _, Options, run = _service()  # noqa: N806
    from yinyan.datasets.bundled import bundled_cora, cora_subjects
    from yinyan.graph.tables import write_parquet

    model, labels = folder / "model", folder / "subjects.parquet"
    if not (model / "manifest.json").exists():
        progress = show_progress(quiet=quiet)
        make_folder(folder, folder)
        common.run_fit(common.predictor(flags.Run(threads=threads)), bundled_cora(), model, progress, resume=False)
    write_parquet(cora_subjects(), labels)
    address = f"http://127.0.0.1:{port}"
    typer.echo(f"the explorer is at {address} (Ctrl-C ends it)")
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        threading.Timer(3.0, webbrowser.open, [address]).start()
    run(Options(model, port=port, threads=threads, labels=labels, access_log=Path(os.devnull)))


def _service() -> tuple[Any, Any, Any]:
    try:
        from yinyan.service.options import Limits, Options
        from yinyan.service.serving import serve as run
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "pydantic", "pydantic_core"):
            raise
        raise MissingExtraError("yinyan serve needs FastAPI and uvicorn: pip install 'yinyan[service]'") from error
    return Limits, Options, run


def keys(
    file: Annotated[Path, typer.Argument(help="file of hashed keys; created if missing", show_default=False)],
    *,
    name: Annotated[str, typer.Option(help="name of the key's owner, for the access log")] = "default",
) -> None:
    """Create an API key: store its digest in the file, print the key once."""
    from yinyan.service.keys import add_key

    typer.echo(add_key(file, name))
