"""What the commands share: reading, running with progress and interruption, printing."""

from __future__ import annotations

import functools
import hashlib
import json
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from yinyan.cli.flags import Run, SqlTarget, check_labels
from yinyan.connect.urls import DatabaseUrl
from yinyan.errors import StoppedError, StoreError
from yinyan.files import write_text
from yinyan.graph.table_options import TableOptions
from yinyan.progress import Checkpoints, JsonLines, Progress, aligned, interruptible, make_folder
from yinyan.settings import Settings, read_settings
from yinyan.text import counted, probability, text_table
from yinyan.threads import use_threads

if TYPE_CHECKING:  # the help of a command imports neither numpy nor torch
    import pyarrow as pa

    from yinyan.evaluation import Evaluation, Ranking, WholeRanking
    from yinyan.graph import Graph
    from yinyan.model.fitted import Fitted
    from yinyan.predictor import LinkPredictor
    from yinyan.results import Recommendations
    from yinyan.retrieval.index import Index
    from yinyan.training.hooks import Hooks

_NUMBERS = ("score", "rank", "probability")  # columns that stand on the right

__all__ = [
    "Plan",
    "aligned",
    "check_outputs",
    "deliver",
    "facts",
    "hooks_of",
    "load",
    "names",
    "none_found",
    "note_quality",
    "predictor",
    "print_fit",
    "print_json",
    "print_rows",
    "read_graph",
    "recommend_all",
    "run_evaluation",
    "run_fit",
    "show_graph",
    "show_links",
    "state_of",
    "task",
]


@dataclass(frozen=True)
class Plan:
    """What an evaluation is to measure."""

    dataset: str
    protocol: str
    seeds: tuple[int, ...]
    peers: tuple[str, ...]
    resume: bool
    ranking: Ranking | None = None
    whole: WholeRanking | None = None


def check_outputs(model: Path | None, report: Path | None) -> None:
    """Refuse places that cannot be written before hours of work, not after."""
    from yinyan.store import check_target

    if model is not None:
        check_target(model)
        folder, what = state_of(model)
        if folder.parent.is_dir():
            with Checkpoints.lock(folder, what):  # held by another fit: refused before the tables are read
                pass
    if report is not None:
        if report.is_dir():
            raise StoreError(f"--report needs the name of a file: '{report}' is a directory")
        make_folder(report.parent, report)


def names(text: str) -> tuple[str, ...]:
    """Methods from 'cn,aa,ra'; an unknown one is refused at once."""
    from yinyan.peers.registry import method

    chosen = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in chosen:
        method(name)
    return chosen


def read_graph(edges: Path | DatabaseUrl, table: TableOptions, progress: Progress) -> Graph:
    """The graph of the tables, described in the notes."""
    from yinyan.graph import Graph

    graph = Graph.from_table(edges, **vars(table))
    show_graph(graph, progress)
    return graph


def show_graph(graph: Graph, progress: Progress) -> None:
    """One line on the graph, one on the columns of each table, and one for each other note."""
    summary = graph.describe().splitlines()[0]
    columns = [f"columns: {line}" for line in graph.columns.lines()]
    others = [note for note in graph.notes if not (columns and note.startswith("columns: "))]
    for note in (f"graph: {summary}", *columns, *others):
        progress.note(aligned(note))


def predictor(run: Run, calibration: str = "platt") -> LinkPredictor:
    """An unfitted predictor; flags win over the file, and a wrong value is refused before any table is read."""
    from yinyan.model.tensors import pick_device
    from yinyan.predictor import LinkPredictor

    chosen = read_settings(run.settings) if run.settings else {}
    for group, values in run.overrides.items():
        chosen[group] = {**chosen.get(group, {}), **values}
    Settings().updated(chosen)
    pick_device(run.device)
    use_threads(run.threads)  # for the methods beside ours too
    fixed = {"calibration": calibration, "seed": run.seed, "device": run.device, "threads": run.threads}
    return LinkPredictor(**chosen, **fixed)  # type: ignore[arg-type]


def run_fit(
    model: LinkPredictor,
    graph: Graph,
    out: Path,
    progress: Progress,
    *,
    resume: bool,
    keep_best: bool = False,
    finish: bool = False,
    max_shard_bytes: int | None = None,
) -> None:
    """Fit and save; Ctrl-C leaves a checkpoint that --resume goes on from, or, to `keep_best`, ends the training.

    `finish` saves what a stopped run has reached.
    """
    from yinyan.model.quality import WEAK

    folder, what = state_of(out)
    offer = ", or save the best so far with --resume --finish"
    checkpoints = Checkpoints(folder, resume=resume, say=progress.note, what=what, or_else=offer)
    with checkpoints, interruptible(progress.note) as should_stop:
        hooks = hooks_of(progress, "epoch", should_stop, folder / "state.safetensors", resume=resume)
        if finish and not (folder / "state.safetensors").exists():
            raise StoreError(f"there is nothing to finish: no training state in '{folder}' (leave out --finish)")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=WEAK)  # said below, unless --quiet
            try:
                model.fit(graph, hooks=replace(hooks, keep_best=keep_best, finish=finish))
            finally:
                progress.finish()
            model.save(out, max_shard_bytes=max_shard_bytes)
    note_quality(model.fitted_, progress)


def note_quality(fitted: Fitted, progress: Progress) -> None:
    """Say so where a model is hardly better than chance, or depends on the sampled negatives."""
    from yinyan.model.quality import weakness

    if (wrong := weakness(fitted.metrics)) is not None:
        progress.note(f"warning: {wrong}")
    spread = fitted.metrics.get("score_spread")
    if spread is not None:
        progress.note(
            f"scores vary by {spread:.1%} of their spread with the sampled negatives "
            "(--set training.inference_samples=4 averages over four samples)"
        )


def state_of(out: Path) -> tuple[Path, str]:
    """The folder for the state of a fit, and what the fit makes, in words."""
    place = out if out.name else out.resolve()  # '.' has no name to put a folder beside
    return place.with_name(f"{place.name}.checkpoint"), f"the model directory '{out}'"


def run_evaluation(model: LinkPredictor, graph: Graph, plan: Plan, progress: Progress) -> Evaluation:
    """One result per seed; after Ctrl-C, finished seeds and the state of the running one are kept for --resume."""
    from yinyan.evaluation import Evaluation, SeedResult, evaluate_seed
    from yinyan.training.fingerprints import graph_fingerprint

    folder = Path(f"{plan.dataset}.evaluation.checkpoint")
    marks = (
        graph_fingerprint(graph),
        plan.protocol,
        plan.peers,
        repr(plan.ranking),
        None if plan.whole is None else (plan.whole.wanted, plan.whole.sources),  # wherever they are ranked
        repr(model.get_params(deep=False) | {"seed": None, "threads": None}),
    )
    digest = hashlib.blake2b(repr(marks).encode(), digest_size=8).hexdigest()
    results: list[SeedResult] = []
    tell = functools.cache(lambda text: progress.note(aligned(text)))  # once: every seed has the same model
    checkpoints = Checkpoints(folder, resume=plan.resume, run=digest, say=progress.note)
    with checkpoints, interruptible(progress.note) as should_stop:
        for seed in plan.seeds:
            done = folder / f"{digest}-seed-{seed}.json"
            # the last seed runs again if need be, so that there is a model to draw
            if done.exists() and (seed != plan.seeds[-1] or any(r.model for r in results)):
                kept = json.loads(done.read_text(encoding="utf-8"))
                results.append(SeedResult(seed, kept["metrics"], kept["peers"], kept["found"]))
                progress.note(f"seed {seed}: figures kept from the stopped run")
                continue

            def hooks(what: str, seed: int = seed) -> Hooks:
                progress.finish()
                state = folder / f"{digest}-seed-{seed}-{what}.safetensors"
                title = f"{what}, seed {seed}, epoch"
                spoken = tell if what == "yinyan" else lambda text: None  # peers have their names only
                return hooks_of(progress, title, should_stop, state, resume=True, tell=spoken)

            try:
                result = evaluate_seed(
                    graph,
                    protocol=plan.protocol,
                    seed=seed,
                    peers=plan.peers,
                    model=model,
                    hooks=hooks,
                    ranking=plan.ranking,
                    whole=plan.whole,
                )
            finally:
                progress.finish()
            results.append(result)
            kept = {"metrics": result.metrics, "peers": result.peers, "found": result.found}
            write_text(done, json.dumps(kept))
    return Evaluation(plan.dataset, plan.protocol, tuple(results))


def recommend_all(
    model: LinkPredictor,
    out: Path,
    k: int,
    progress: Progress,
    *,
    as_json: bool,
    relation: str | None = None,
    index: Index | None = None,
    where: str | None = None,
    at_once: int = 1,
    sql: SqlTarget | None = None,
) -> None:
    """Every node's recommendations to a file, or to `sql` with parts beside `out`.

    Ctrl-C keeps the finished parts, and the same command goes on.
    """
    from yinyan.cli.bulk import recommend_all as stream_all
    from yinyan.retrieval.choice import described

    try:
        with task(progress, "nodes", model._asked(relation)[0].graph.num_nodes) as should_stop:
            count = stream_all(
                model, out, k, relation=relation, index=index, where=where, at_once=at_once,
                sql=sql,
                on_progress=lambda done, _: progress.advance(done), should_stop=should_stop,
            )  # fmt: skip
    except StoppedError as stopped:
        raise StoppedError(f"{stopped}. The same command goes on from there") from None
    progress.note(described(index, k, narrowed=where is not None))
    facts = None if index is None else index.metadata
    _say_written(
        count,
        sql or out,
        as_json=as_json,
        search={
            "search": "exact" if facts is None else facts.kind,
            "recall": None if facts and where is not None else facts.recall_at(k) if facts else 1.0,
        },
    )


@contextmanager
def task(progress: Progress, title: str, total: int, done: int = 0) -> Iterator[Callable[[], bool]]:
    """A task of `total` parts, shown; what it yields is true once Ctrl-C was pressed."""
    progress.start(title, total, done)
    try:
        with interruptible(progress.note) as should_stop:
            yield should_stop
    finally:
        progress.finish()


def deliver(table: pa.Table, out: Path | SqlTarget, *, as_json: bool) -> None:
    """Rows to a file or a database, and a line on it."""
    from yinyan.cli.bulk import write_rows

    write_rows(table, out) if isinstance(out, Path) else out.write(table.schema, [table])
    _say_written(table.num_rows, out, as_json=as_json)


def load(
    path: Path, device: str, labels: Path | None = None, *, threads: int | None = None, no_labels: bool = False
) -> LinkPredictor:
    """A saved model, with its own labels, those of a table, or none."""
    from yinyan.predictor import LinkPredictor

    check_labels(labels, no_labels=no_labels)
    model = LinkPredictor.load(path, device=device, threads=threads)
    if labels is not None or no_labels:
        model.fitted_ = replace(model.fitted_, graph=model.graph_.with_attributes(labels))
    return model


def print_json(content: Any) -> None:
    """One JSON document on standard output."""
    plain = "utf" not in (sys.stdout.encoding or "utf-8").lower()
    typer.echo(json.dumps(content, indent=2, ensure_ascii=plain))


def print_fit(fitted: Fitted, out: Path, report: Path | None, *, as_json: bool) -> None:
    """What came of a fit, and what to do next."""
    if as_json:
        print_json({"model": str(out), **{k: facts(fitted)[k] for k in ("protocol", "seed", "validation")}})
        return
    figures = ", ".join(f"{name} {value:.4f}" for name, value in fitted.metrics.items() if name != "score_spread")
    weights = f"weights of epoch {fitted.best_epoch} of {len(fitted.history)}"
    typer.echo(f"validation on {counted(len(fitted.valid_scores[0]), 'held-out edge')}, {weights}: {figures}")
    typer.echo(f"saved the model in '{out}'" + (f", the report in '{report}'" if report else ""))
    node = str(fitted.graph.ids[0])
    asked = shlex.join(["yinyan", "recommend", str(out), *(["--"] if node.startswith("-") else []), node])
    typer.echo(f"next: {asked}, or yinyan evaluate with the same table and options for test figures")


def facts(fitted: Fitted) -> dict[str, Any]:
    """Facts about a model, for JSON."""
    return {
        "nodes": fitted.graph.num_nodes,
        "links": fitted.graph.num_edges,
        "protocol": fitted.protocol,
        "seed": fitted.seed,
        "validation": fitted.metrics,
        "best_epoch": fitted.best_epoch,
        "base_rate": fitted.base_rate,
        "missing_share": fitted.missing_share,
        "settings": fitted.settings.to_dict(),
    }


def none_found(where: str | None, *, ruled: bool = False) -> str:
    """Why there are no links to recommend."""
    if ruled:
        return "no links to recommend: the rules leave no candidate, or all that they leave are neighbours already"
    if where is not None:
        return "no links to recommend: no candidate meets the condition, or all that do are neighbours already"
    return "no links to recommend: every candidate is a neighbour already"


def show_links(
    found: Recommendations,
    out: Path | SqlTarget | None,
    *,
    as_json: bool,
    empty: str,
) -> None:
    """All rows of an answer, to a file, to a database or printed: the repr of a long answer leaves some out."""
    if out is not None:
        deliver(found.to_arrow(), out, as_json=as_json)
        return
    print_rows(found.to_dicts(), as_json=as_json, empty=empty)
    if found.how_sure() and not as_json:
        typer.echo(found.how_sure())


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool, right: Sequence[int] = (), empty: str = "") -> None:
    """Rows with the same keys, as JSON or as a table; the columns `right`, and all scores and ranks, are numbers."""
    if as_json:
        print_json(rows)
    elif not rows:
        typer.echo(empty)
    else:
        cells = [[_cell(name, value) for name, value in row.items()] for row in rows]
        numbers = [place for place, name in enumerate(rows[0]) if name.split()[0] in _NUMBERS]
        typer.echo(text_table(list(rows[0]), cells, right=[*right, *numbers]))


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    return probability(value) if name == "probability" else f"{value:.3f}" if isinstance(value, float) else str(value)


def _say_written(count: int, out: Path | SqlTarget, *, as_json: bool, search: Mapping[str, Any] | None = None) -> None:
    if as_json:
        place = {"file": str(out)} if isinstance(out, Path) else {"table": out.table}
        print_json({"rows": count, **place, **(search or {})})
    else:
        typer.echo(f"wrote {count:,} rows to " + (f"'{out}'" if isinstance(out, Path) else str(out)))


def hooks_of(
    progress: Progress,
    title: str,
    should_stop: Callable[[], bool],
    state: Path,
    *,
    resume: bool,
    tell: Callable[[str], None] | None = None,
) -> Hooks:
    """What shows a training as progress, stops it, and keeps its state in a file."""
    from yinyan.training.showing import progress_hooks

    shown = progress_hooks(progress, title)
    return replace(
        shown,
        tell=tell or shown.tell,
        should_stop=should_stop,
        checkpoint=state,
        resume=resume,
        trackers=(JsonLines(state.with_suffix(".jsonl")),),
    )
