"""What the commands share: reading, running with progress and interruption, printing."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import typer

from yinyan.bulk import recommend_all as stream_all
from yinyan.columns import find_column, guess_edge_columns
from yinyan.errors import InputError, MissingExtraError, StoppedError, StoreError
from yinyan.files import atomic_path, write_error, write_text
from yinyan.fitting import Hooks, graph_fingerprint
from yinyan.flags import TableFlags
from yinyan.graph import Graph
from yinyan.predictor import LinkPredictor
from yinyan.progress import JsonLines, Progress, interruptible
from yinyan.protocol import Evaluation, SeedResult, evaluate_seed
from yinyan.results import Id
from yinyan.settings import Settings, read_settings
from yinyan.store import check_target
from yinyan.tables import read_table, write_parquet
from yinyan.training import EpochRecord

__all__ = [
    "Plan",
    "check_outputs",
    "column_ids",
    "load",
    "predictor",
    "print_json",
    "read_graph",
    "recommend_all",
    "run_evaluation",
    "run_fit",
    "write_rows",
]


@dataclass(frozen=True)
class Plan:
    """What an evaluation is to measure."""

    dataset: str
    protocol: str
    seeds: tuple[int, ...]
    mlp: bool
    resume: bool


def check_outputs(model: Path | None, report: Path | None) -> None:
    """Refuse places that cannot be written before hours of work, not after."""
    if model is not None:
        check_target(model)
    if report is not None:
        from importlib.util import find_spec

        if find_spec("matplotlib") is None:
            raise MissingExtraError("--report draws with matplotlib: pip install 'yinyan[plots]'")
        if report.is_dir():
            raise StoreError(f"--report needs the name of a file: '{report}' is a directory")
        try:
            report.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_error(report, error) from error


def read_graph(links: Path, table: TableFlags, progress: Progress) -> Graph:
    """The graph of the tables, described aloud."""
    graph = Graph.from_table(links, **table.graph_options())
    progress.note(f"{links.name}: {graph.describe()}")
    return graph


def predictor(
    settings_file: Path | None,
    overrides: Mapping[str, Mapping[str, Any]],
    *,
    seed: int,
    device: str,
    calibration: str = "platt",
) -> LinkPredictor:
    """An unfitted predictor; flags win over the file."""
    chosen: dict[str, dict[str, Any]] = (
        {k: dict(v) for k, v in read_settings(settings_file).items()} if settings_file else {}
    )
    for group, values in overrides.items():
        chosen[group] = {**chosen.get(group, {}), **values}
    Settings().updated(chosen)  # a wrong value is refused before any table is read
    return LinkPredictor(**chosen, calibration=calibration, seed=seed, device=device)  # type: ignore[arg-type]


def run_fit(model: LinkPredictor, graph: Graph, out: Path, progress: Progress, *, resume: bool) -> None:
    """Fit and save; Ctrl-C leaves a checkpoint that --resume goes on from."""
    folder = out.with_name(f"{out.name}.checkpoint")
    with _Checkpoints(folder, resume=resume), interruptible(progress.note) as should_stop:
        hooks = _hooks(progress, "epoch", should_stop, folder / "state.safetensors", resume=resume)
        try:
            model.fit(graph, hooks=hooks)
        finally:
            progress.finish()
        model.save(out)
    spread = model.fitted_.metrics.get("score_spread")
    if spread is not None:
        progress.note(
            f"scores move by {spread:.1%} of their spread with the negative sample (--inference-samples averages)"
        )


def run_evaluation(model: LinkPredictor, graph: Graph, plan: Plan, progress: Progress) -> Evaluation:
    """One result a seed; after Ctrl-C, finished seeds and the state of the running one are kept for --resume."""
    folder = Path(f"{plan.dataset}.evaluation.checkpoint")
    marks = (graph_fingerprint(graph), plan.protocol, plan.mlp, repr(model.get_params(deep=False) | {"seed": None}))
    digest = hashlib.blake2b(repr(marks).encode(), digest_size=8).hexdigest()
    results: list[SeedResult] = []
    with _Checkpoints(folder, resume=plan.resume), interruptible(progress.note) as should_stop:
        for seed in plan.seeds:
            done = folder / f"{digest}-seed-{seed}.json"
            if done.exists():
                kept = json.loads(done.read_text(encoding="utf-8"))
                results.append(SeedResult(seed, kept["metrics"], kept["peers"]))
                continue

            def hooks(what: str, seed: int = seed) -> Hooks:
                progress.finish()
                state = folder / f"{digest}-seed-{seed}-{what}.safetensors"
                title = f"{what}, seed {seed}, epoch"
                return _hooks(progress, title, should_stop, state, resume=True)

            try:
                result = evaluate_seed(graph, protocol=plan.protocol, seed=seed, mlp=plan.mlp, model=model, hooks=hooks)
            finally:
                progress.finish()
            results.append(result)
            if len(plan.seeds) > 1:
                folder.mkdir(exist_ok=True)
                write_text(done, json.dumps({"metrics": result.metrics, "peers": result.peers}))
    return Evaluation(plan.dataset, plan.protocol, tuple(results))


def recommend_all(model: LinkPredictor, out: Path, k: int, progress: Progress, *, as_json: bool) -> None:
    """Every node's recommendations to a file; Ctrl-C keeps the finished parts, and the same command goes on."""
    started = False

    def show(done: int, total: int) -> None:
        nonlocal started
        if not started:
            progress.start("nodes", total, 0)
            started = True
        progress.advance(done)

    with interruptible(progress.note) as should_stop:
        try:
            count = stream_all(model, out, k, on_progress=show, should_stop=should_stop)
        except StoppedError as stopped:
            raise StoppedError(f"{stopped}. The same command goes on from there") from None
        finally:
            if started:
                progress.finish()
    if as_json:
        print_json({"rows": count, "file": str(out)})
    else:
        typer.echo(f"wrote {count:,} rows to '{out}'")


def load(path: Path, device: str) -> LinkPredictor:
    """A saved model."""
    return LinkPredictor.load(path, device=device)


def column_ids(
    model: LinkPredictor, path: Path, place: int, name: str | None = None, *, header: bool = True
) -> list[Id]:
    """The ids in a column of a table, in the model's own types: text from a CSV may mean an integer id."""
    table = read_table(path, header=header)
    if table.num_columns <= place:
        raise InputError(f"'{path}' needs {place + 1} columns of ids (it has {table.num_columns})")
    if name is None and place < 2 and table.num_columns >= 2:
        chosen = guess_edge_columns(table.column_names)[place]
    else:
        chosen = table.column_names[place] if name is None else find_column(table.column_names, name, "id")
    values = table[chosen].to_pylist()
    ids = model.graph_.ids
    return [ids.parse(v) if isinstance(v, str) else v for v in values]


def write_rows(table: pa.Table, path: Path) -> None:
    """A table to Parquet or CSV, by the name of the file."""
    if path.suffix == ".parquet":
        write_parquet(table, path)
    elif path.suffix == ".csv":
        with atomic_path(path) as temporary:
            pa_csv.write_csv(table, temporary)
    else:
        raise InputError(f"'{path}' needs to end in .parquet or .csv")


def print_json(content: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


class _Checkpoints:
    """A folder for the state of a run: emptied at the start unless resuming, gone at the end unless stopped."""

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self._folder, self._resume = folder, resume

    def __enter__(self) -> None:
        if self._resume and not self._folder.is_dir():
            raise StoreError(f"there is nothing to resume: no folder '{self._folder}' (leave out --resume)")
        if not self._resume and self._folder.is_dir():
            shutil.rmtree(self._folder)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        elif isinstance(error, StoppedError):
            raise StoppedError(f"{error}. Go on with the same command and --resume") from None


def _hooks(progress: Progress, title: str, should_stop: Callable[[], bool], state: Path, *, resume: bool) -> Hooks:
    def on_start(epochs: int, done: int) -> None:
        state.parent.mkdir(parents=True, exist_ok=True)
        progress.start(title, epochs, done)

    def on_epoch(record: EpochRecord) -> None:
        hits = "" if record.hits is None else f", validation hits@10% {record.hits:.3f}, auc {record.auc:.3f}"
        progress.advance(record.epoch, f"loss {record.loss:.3f}{hits}")

    return Hooks(
        tell=progress.note,
        on_start=on_start,
        on_epoch=on_epoch,
        should_stop=should_stop,
        checkpoint=state,
        resume=resume,
        trackers=(JsonLines(state.with_suffix(".jsonl")),),
    )
