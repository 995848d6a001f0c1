"""The command line: parse, call, print."""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from yinyan import __version__
from yinyan.cli import (
    check,
    common,
    drift,
    exporting,
    flags,
    index_commands,
    log_commands,
    preparing,
    processes,
    relations,
    research,
    serve,
    settings_list,
    tuning,
)
from yinyan.cli.flags import Run, SqlTarget, with_run, with_sql, with_table
from yinyan.connect.urls import DatabaseUrl, file_or_url
from yinyan.errors import ConditionError, InputError, StoppedError, YinYanError
from yinyan.graph.table_options import TableOptions
from yinyan.progress import show_progress

if TYPE_CHECKING:
    from yinyan.evaluation import Evaluation

__all__ = ["app", "main"]

app = typer.Typer(
    name="yinyan",
    help="Link prediction: which links are missing, and how sure are you?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
@with_run
@with_table
def fit(
    edges: flags.Edges,
    *,
    out: Annotated[Path, typer.Option(help="directory for the model")] = Path("model"),
    calibration: Annotated[str, typer.Option(help="calibration method: platt or isotonic")] = "platt",
    keep_best: Annotated[
        bool, typer.Option("--keep-best", help="Ctrl-C ends the training and saves the best model so far")
    ] = False,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="date or number: nothing later is used (default: all edges)")
    ] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="with --resume: save the best model of a stopped run, train no more")
    ] = False,
    relation: flags.RelationColumn = None,
    predict: flags.Predict = None,
    max_shard_bytes: flags.MaxShardBytes = None,
    run: Run,
    table: TableOptions,
) -> None:
    """Train a model on a table of edges, or on a prepared folder, and save it."""
    source = file_or_url(edges)
    if finish and not run.resume:
        raise InputError("--finish saves what a stopped run has reached: add --resume")
    if isinstance(source, Path) and processes.asked_for(source):
        refused = {
            "--keep-best": keep_best,
            "--as-of": as_of is not None,
            "--finish": finish,
            "--relation": relation is not None,
            "--predict": predict is not None,
            "an option for tables": table != TableOptions(),
        }
        processes.fit_folder(source, out, calibration, run, max_shard_bytes, unsupported=refused)
        return
    common.check_outputs(out, run.report)
    progress = show_progress(quiet=run.quiet)
    model = common.predictor(run, calibration)
    if relation is not None or predict:
        typed = relations.read_typed(source, table, relation, progress)
        relations.run_fit(
            *(model, typed, predict, out, progress),
            resume=run.resume,
            keep_best=keep_best,
            finish=finish,
            max_shard_bytes=max_shard_bytes,
        )
        if run.report:
            from yinyan.reporting.report import fit_report

            fit_report(run.report, model, title=f"Links of {source.name}")
        relations.print_fit(model, out, run.report, as_json=run.as_json)
        return
    graph = common.read_graph(source, table, progress)
    if as_of is not None:
        graph = graph.as_of(as_of)
        progress.note(common.aligned(graph.notes[-1]))
    common.run_fit(
        *(model, graph, out, progress),
        resume=run.resume,
        keep_best=keep_best,
        finish=finish,
        max_shard_bytes=max_shard_bytes,
    )
    if run.report:
        from yinyan.reporting.report import fit_report

        fit_report(run.report, model, title=f"Links of {source.name}")
    common.print_fit(model.fitted_, out, run.report, as_json=run.as_json)


@app.command()
@with_run
@with_table
def evaluate(
    edges: flags.Edges,
    *,
    protocol: Annotated[
        str | None,
        typer.Option(help="clean, temporal, each with +val (default: temporal if edges have times)"),
    ] = None,
    negatives: Annotated[
        str | None,
        typer.Option(help="hard: up to 500 per link (default: uniform ones)"),
    ] = None,
    seeds: Annotated[int, typer.Option(help="seeds, from --seed upwards", min=1)] = 1,
    peers: Annotated[
        str | None,
        typer.Option(help="methods to compare with (default: cn,aa,ra; --rolling: with time)"),
    ] = None,
    rolling: Annotated[
        str | None,
        typer.Option(help="train until t, predict the next day, week, month, year or number", metavar="PERIOD"),
    ] = None,
    windows: Annotated[int, typer.Option(help="last windows of --rolling", min=1)] = 5,
    full_ranking: Annotated[bool, typer.Option("--full-ranking", help="rank test links among all nodes too")] = False,
    ranked: Annotated[int | None, typer.Option(help="sources in the full ranking (default: all)", min=1)] = None,
    engine: Annotated[str, typer.Option(help="place of the work: local or ray")] = "local",
    shards: flags.Shards = None,
    relation: flags.RelationColumn = None,
    predict: flags.Predict = None,
    run: Run,
    table: TableOptions,
) -> None:
    """Measure a model on held-out edges, next to other methods."""
    from yinyan.cli.searching import check_ranking

    source = file_or_url(edges)
    if rolling is not None:
        from yinyan.cli.rolling import evaluate_windows

        refused = {"--protocol": protocol, "--negatives": negatives, "--report": run.report, "--resume": run.resume}
        refused |= {"--seeds": seeds > 1, "--full-ranking": full_ranking, "--engine": engine != "local"}
        evaluate_windows(source, rolling, windows, peers, run, table, refused)
        return
    from yinyan.evaluation import PROTOCOLS, WholeRanking, default_protocol, protocol_in_words, protocol_with

    check_ranking(engine, shards, ranked, full_ranking=full_ranking)
    whole = WholeRanking(full_ranking, ranked, engine, shards)
    common.check_outputs(None, run.report)
    progress = show_progress(quiet=run.quiet)
    model = common.predictor(run)
    beside = common.names("cn,aa,ra" if peers is None else peers)
    checked = protocol_with(protocol or "clean", negatives)  # before the table is read
    protocol = checked if protocol else None
    if relation is not None or predict:
        if run.resume or full_ranking:
            raise InputError(
                "--resume and --full-ranking are for graphs without relations: leave them out (filtered ranking is "
                "part of every evaluation of relations)"
            )
        typed = relations.read_typed(source, table, relation, progress)
        seen = tuple(range(run.seed, run.seed + seeds))
        found = relations.run_evaluation(
            model, typed, predict, source.stem, protocol or "clean", seen, beside, progress
        )
        _print_evaluation(found, source, run)
        return
    graph = common.read_graph(source, table, progress)
    protocol = protocol or protocol_with(default_protocol(graph), negatives)
    if graph.times is not None and protocol in PROTOCOLS:
        progress.note(common.aligned(protocol_in_words(protocol, graph)))
    plan = common.Plan(source.stem, protocol, tuple(range(run.seed, run.seed + seeds)), beside, run.resume, whole=whole)
    evaluation = common.run_evaluation(model, graph, plan, progress)
    _print_evaluation(evaluation, source, run)


def _print_evaluation(evaluation: Evaluation, source: Path | DatabaseUrl, run: Run) -> None:
    """Figures on the screen, and a report where one is asked for."""
    if run.report:
        from yinyan.reporting.report import evaluation_report

        evaluation_report(run.report, evaluation, title=f"Links of {source.name}")
    if run.as_json:
        common.print_json(evaluation.to_dict())
        return
    typer.echo(str(evaluation))
    if run.report:
        typer.echo(f"the report is in '{run.report}'")


@app.command()
@with_sql
def recommend(
    model: flags.Model,
    nodes: Annotated[list[str] | None, typer.Argument(help="node ids or labels", show_default=False)] = None,
    *,
    relation: flags.RelationName = None,
    k: Annotated[int, typer.Option("-k", help="maximum number of links per node")] = 10,
    everything: Annotated[bool, typer.Option("--all", help="recommend for every node; needs --out")] = False,
    among: Annotated[
        Path | None, typer.Option(help="table whose first column lists the candidates (default: all nodes)")
    ] = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="first line of --among is data")] = False,
    skip_unknown: flags.SkipUnknown = False,
    where: flags.Where = None,
    allow: flags.Allow = None,
    deny: flags.Deny = None,
    once: flags.Once = None,
    labels: flags.Labels = None,
    no_labels: flags.NoLabels = False,
    by_index: flags.ByIndex = False,
    exact: flags.Exact = False,
    engine: flags.Engine = "local",
    shards: flags.Shards = None,
    out: flags.RowsOrParts = None,
    sql: SqlTarget | None,
    device: flags.Device = "auto",
    threads: flags.Threads = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
) -> None:
    """Recommend the best new links of nodes.

    With --engine ray, actors of a Ray cluster each hold a part of the embeddings and search it, exactly or by an index.
    """
    from yinyan.cli import searching
    from yinyan.cli.bulk import bulk_rules, candidates, check_parts_folder, check_rows_file, is_parts_folder
    from yinyan.retrieval.choice import described
    from yinyan.retrieval.conditions import check_condition

    searching.check_flags(by_index=by_index, exact=exact)
    if everything == bool(nodes):
        raise InputError("recommend needs node ids, or --all for every node (one of the two)")
    if out is not None and sql is not None:
        raise InputError("--out and --to-sql exclude each other: leave one out")
    if everything and out is None and sql is None:
        raise InputError("--all makes many rows: name a file for them with --out links.parquet")
    if everything and among is not None:
        raise InputError("--all and --among exclude each other: leave one out")
    ruled = (allow, deny, once) != (None, None, None)
    if ruled and (engine == "ray" or (everything and out is not None and is_parts_folder(out))):
        raise InputError("--allow, --deny and --once need --engine local and a file for --out: leave them out")
    searching.check_engine(engine, shards, everything=everything)
    if everything and out is not None and is_parts_folder(out):
        check_parts_folder(out)
    elif sql is not None:
        sql.check()
    else:
        check_rows_file(out)
    if relations.has_relations(model):
        relations.refuse({"--engine": engine != "local", "--labels": bool(labels), "--no-labels": no_labels})
        about = relations.Asked(model, relation, device, threads)
        kept = about.model.load_index(model, relation=about.relation) if by_index else None
        if everything and not ruled:
            place, progress = out or _parts_beside(model, sql), show_progress(quiet=quiet)
            common.recommend_all(
                *(about.model, place, k, progress),
                as_json=as_json,
                relation=about.relation,
                index=kept,
                where=where,
                sql=sql,
            )
            return
        rules = about.rules(allow, deny, once) if ruled else None
        asked = about.everyone() if everything else about.nodes(nodes or ())
        links = about.recommend(asked, k, among, where, rules, header=not no_header, index=kept)
        common.show_links(links, sql or out, as_json=as_json, empty=common.none_found(where, ruled=ruled))
        return
    relations.refuse_name(relation)
    predictor = common.load(model, device, labels, threads=threads, no_labels=no_labels)
    graph, progress = predictor.graph_, show_progress(quiet=quiet)
    if where is not None:
        check_condition(graph, where)
    rules = bulk_rules(graph, allow, deny, once) if ruled else None
    count = graph.num_nodes if everything else len(nodes or ())
    narrowed = exact or ((ruled or among is not None or where is not None) and not everything and not by_index)
    with searching.place(predictor, model, engine, shards, threads):
        built = searching.chosen_index(
            predictor, model, count, k, progress, by_index=by_index, exact=narrowed, engine=engine
        )
        if everything and not ruled:
            common.recommend_all(
                *(predictor, out or _parts_beside(model, sql), k, progress),
                as_json=as_json,
                index=built,
                where=where,
                at_once=1 if engine == "local" else 2,
                sql=sql,
            )
            return
    pool = None if among is None else candidates(
        graph, among, header=not no_header, skip_unknown=skip_unknown, tell=progress.note
    )  # fmt: skip
    asked = list(graph.ids.take(range(graph.num_nodes))) if everything else [graph.parse(t) for t in nodes or ()]
    found = predictor.recommend(asked, k, among=pool, where=where, rules=rules, index=built, search="exact")
    common.show_links(found, sql or out, as_json=as_json, empty=common.none_found(where, ruled=ruled))
    progress.note(described(built, k, narrowed=ruled or among is not None or where is not None))


def _parts_beside(model: Path, sql: SqlTarget | None) -> Path:
    """What the folder of parts is named after, where rows go to a database."""
    return model.with_name(f"{model.name}.{'' if sql is None else sql.table}")


@app.command()
def similar(
    model: flags.Model,
    nodes: Annotated[list[str], typer.Argument(help="node ids or labels", show_default=False)],
    *,
    relation: flags.RelationName = None,
    k: Annotated[int, typer.Option("-k", help="similar nodes per node, at most")] = 10,
    labels: flags.Labels = None,
    no_labels: flags.NoLabels = False,
    out: flags.RowsFile = None,
    device: flags.Device = "auto",
    threads: flags.Threads = None,
    as_json: flags.AsJson = False,
) -> None:
    """List the nodes nearest in the embedding space, by cosine."""
    from yinyan.cli.bulk import check_rows_file

    check_rows_file(out)
    if relations.has_relations(model):
        relations.refuse({"--labels": bool(labels), "--no-labels": no_labels})
        about = relations.Asked(model, relation, device, threads)
        near = about.model.similar(about.nodes(nodes), k, relation=about.relation)
        common.show_links(near, out, as_json=as_json, empty="no similar nodes: there is no other node")
        return
    relations.refuse_name(relation)
    predictor = common.load(model, device, labels, threads=threads, no_labels=no_labels)
    found = predictor.similar([predictor.graph_.parse(text) for text in nodes], k)
    common.show_links(found, out, as_json=as_json, empty="no similar nodes: there is no other node")


@app.command()
def score(
    model: flags.Model,
    pairs: Annotated[Path, typer.Argument(help="table of pairs: two columns of ids", show_default=False)],
    *,
    relation: flags.RelationName = None,
    source: Annotated[str | None, typer.Option(help="column of source ids (default: guessed)")] = None,
    target: Annotated[str | None, typer.Option(help="column of target ids (default: guessed)")] = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="first line is data (default: column names)")] = False,
    base_rate: Annotated[
        float | None, typer.Option(help="share of links among the pairs (default: base rate of the model)")
    ] = None,
    skip_unknown: flags.SkipUnknown = False,
    labels: flags.Labels = None,
    no_labels: flags.NoLabels = False,
    out: flags.RowsFile = None,
    device: flags.Device = "auto",
    threads: flags.Threads = None,
    as_json: flags.AsJson = False,
) -> None:
    """Score pairs of nodes."""
    if relations.has_relations(model):
        relations.refuse({"--labels": bool(labels), "--skip-unknown": skip_unknown})
        found = relations.Asked(model, relation, device, threads)
        scored = found.score(pairs, source, target, header=not no_header, base_rate=base_rate)
        relations.show_rows(scored, out, as_json=as_json)
        return
    relations.refuse_name(relation)
    import pyarrow as pa

    from yinyan.cli.bulk import check_rows_file, pairs_of
    from yinyan.results import id_column
    from yinyan.text import how_sure

    check_rows_file(out)
    predictor = common.load(model, device, labels, threads=threads, no_labels=no_labels)
    graph = predictor.graph_
    rows = pairs_of(
        graph, pairs, source, target, header=not no_header, skip_unknown=skip_unknown,
        tell=lambda text: typer.echo(text, err=True),
    )  # fmt: skip
    ends = {"source": rows[:, 0], "target": rows[:, 1]}
    columns: dict[str, Any] = {}
    for name, places in ends.items():
        columns[name], said = graph.ids.take(places), graph.labels_of(places)
        columns |= {} if said is None else {f"{name}_label": said}
    both = list(zip(columns["source"], columns["target"], strict=True))
    scores = predictor.score(both)
    columns["score"] = scores.tolist()
    chances = predictor.predict_proba(both, base_rate=base_rate).tolist()
    if out is not None:
        typed = {name: id_column(columns[name]) for name in ends} | {"score": scores}
        table = {name: typed.get(name, values) for name, values in columns.items()}
        common.deliver(pa.table({**table, "probability": chances}), out, as_json=as_json)
        return
    rate = predictor.base_rate_ if base_rate is None else base_rate
    columns["probability"] = chances
    answers = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if as_json:
        common.print_json({"base_rate": rate, "pairs": answers})
        return
    common.print_rows(answers, as_json=False, empty="no pairs to score")
    if answers:
        missing = predictor.fitted_.missing_share if base_rate is None else None
        typer.echo(how_sure(rate, missing, sum(chances) / len(chances)))


@app.command()
def explain(
    model: flags.Model,
    source: Annotated[str, typer.Argument(help="node id or label", show_default=False)],
    target: Annotated[str, typer.Argument(help="node id or label", show_default=False)],
    *,
    relation: flags.RelationName = None,
    labels: flags.Labels = None,
    no_labels: flags.NoLabels = False,
    device: flags.Device = "auto",
    threads: flags.Threads = None,
    as_json: flags.AsJson = False,
) -> None:
    """Show how much each neighbour changed the score of a pair."""
    if relations.has_relations(model):
        relations.refuse({"--labels": bool(labels)})
        why = relations.Asked(model, relation, device, threads).explain(source, target)
        common.print_json(why.to_dict()) if as_json else typer.echo(repr(why))
        return
    relations.refuse_name(relation)
    predictor = common.load(model, device, labels, threads=threads, no_labels=no_labels)
    explanation = predictor.explain(*map(predictor.graph_.parse, (source, target)))
    common.print_json(explanation.to_dict()) if as_json else typer.echo(repr(explanation))


@app.command()
def info(model: flags.Model, *, as_json: flags.AsJson = False) -> None:
    """Print the card of a saved model: data, protocol, figures, settings."""
    if relations.has_relations(model):
        relations.print_info(model, as_json=as_json)
        return
    from yinyan.store.card import model_card

    fitted = common.load(model, "cpu").fitted_
    common.print_json(common.facts(fitted)) if as_json else typer.echo(model_card(fitted).rstrip())


@app.command()
@with_run
def demo(
    *,
    seeds: Annotated[int, typer.Option(help="seeds, from --seed upwards", min=1)] = 1,
    run: Run,
) -> None:
    """Predict hidden citations of Cora, next to heuristics and an MLP."""
    from yinyan.cli.demo import MRR_WORDS, RANKING, best_citations, citation_table, found_table
    from yinyan.datasets import bundled_cora
    from yinyan.reporting.report import evaluation_report

    common.check_outputs(None, run.report)
    progress = show_progress(quiet=run.quiet)
    graph = bundled_cora()
    common.show_graph(graph, progress)
    model = common.predictor(run)
    plan = common.Plan(
        "cora", "clean", tuple(range(run.seed, run.seed + seeds)), ("cn", "aa", "ra", "mlp"), run.resume, RANKING
    )
    evaluation = common.run_evaluation(model, graph, plan, progress)
    citations = best_citations(evaluation)
    if run.report:
        evaluation_report(run.report, evaluation, title="Missing citations of Cora")
    if run.as_json:
        ranked = {f"recall@{RANKING.k}": evaluation.found()}
        common.print_json({**evaluation.to_dict(), "citations": [c._asdict() for c in citations], **ranked})
        return
    typer.echo(f"{found_table(evaluation)}\n\n{evaluation}\n{MRR_WORDS}\n")
    typer.echo("The ten new citations with the highest scores:\n")
    typer.echo(citation_table(citations))
    if run.report:
        typer.echo(f"\nthe report is in '{run.report}'")


@app.command()
def doctor(*, as_json: flags.AsJson = False) -> None:
    """Check this installation: versions, devices, extras, kernels."""
    from yinyan.cli.doctor import examination_table, examine

    found = examine()
    common.print_json(found) if as_json else typer.echo(examination_table(found))
    if found["kernel"] != "correct":
        raise typer.Exit(1)


app.command(cls=serve.FromEnvironment)(serve.serve)
for _command in (
    preparing.prepare,
    *(serve.serve_demo, serve.keys, log_commands.compact),
    *(index_commands.index, index_commands.best_links, check.check, drift.drift),
    exporting.export,
    *(research.audit, research.reproduce, research.methods, research.datasets),
    *(tuning.tune, settings_list.settings),
):
    app.command()(_command)
app.command("mine", hidden=True, deprecated=True)(index_commands.best_links)  # its old name


def _version(value: bool) -> None:
    if value:
        typer.echo(f"yinyan {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Link prediction: which links are missing, and how sure are you?"""


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning in one line, without the place in the code."""
    typer.echo(f"warning: {message}", err=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors that a user can act on become one line and a non-zero exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an id that the terminal cannot show is no reason to fail
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app(arguments)
    except StoppedError as stopped:
        typer.echo(str(stopped), err=True)
        sys.exit(130)
    except ConditionError as error:
        typer.echo(f"error: {error}", err=True)  # with the line of its caret
        sys.exit(1)
    except YinYanError as error:
        typer.echo(f"error: {' '.join(str(error).splitlines())}", err=True)
        sys.exit(1)
    except OSError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
