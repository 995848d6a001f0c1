"""The command line: parse, call, print."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from yinyan import __version__, flags, hosting, research, retrieving
from yinyan.errors import InputError, StoppedError, YinYanError
from yinyan.flags import TableFlags, with_settings, with_table
from yinyan.progress import show_progress

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
@with_settings
@with_table
def fit(
    edges: flags.Edges,
    *,
    out: Annotated[Path, typer.Option(help="directory for the model")] = Path("model"),
    calibration: Annotated[str, typer.Option(help="how scores become probabilities: platt or isotonic")] = "platt",
    settings: flags.SettingsFile = None,
    seed: flags.Seed = 0,
    device: flags.Device = "auto",
    report: flags.Report = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    resume: flags.Resume = False,
    table: TableFlags,
    overrides: dict[str, Any],
) -> None:
    """Learn a model from a table of links."""
    from yinyan import shell

    shell.check_outputs(out, report)
    progress = show_progress(quiet=quiet)
    model = shell.predictor(settings, overrides, seed=seed, device=device, calibration=calibration)
    graph = shell.read_graph(edges, table, progress)
    shell.run_fit(model, graph, out, progress, resume=resume)
    if report:
        from yinyan.evidence import fit_report

        fit_report(report, model, title=f"Links of {edges.name}")
    shell.print_fit(model.fitted_, out, report, as_json=as_json)


@app.command()
@with_settings
@with_table
def evaluate(
    edges: flags.Edges,
    *,
    protocol: Annotated[
        str, typer.Option(help="clean or temporal; with +val validation links pass messages in the test")
    ] = "clean",
    seeds: Annotated[int, typer.Option(help="how many seeds, from --seed on", min=1)] = 1,
    peers: Annotated[
        str, typer.Option(help="methods to measure beside ours, such as cn,aa,ra,mlp,gcn (yinyan methods lists them)")
    ] = "cn,aa,ra",
    settings: flags.SettingsFile = None,
    seed: flags.Seed = 0,
    device: flags.Device = "auto",
    report: flags.Report = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    resume: flags.Resume = False,
    table: TableFlags,
    overrides: dict[str, Any],
) -> None:
    """Measure on held-out links, beside other methods."""
    from yinyan import shell

    shell.check_outputs(None, report)
    progress = show_progress(quiet=quiet)
    model = shell.predictor(settings, overrides, seed=seed, device=device)
    beside = shell.names(peers)
    graph = shell.read_graph(edges, table, progress)
    plan = shell.Plan(edges.stem, protocol, tuple(range(seed, seed + seeds)), beside, resume)
    evaluation = shell.run_evaluation(model, graph, plan, progress)
    if report:
        from yinyan.evidence import evaluation_report

        evaluation_report(report, evaluation, title=f"Links of {edges.name}")
    if as_json:
        shell.print_json(evaluation.to_dict())
        return
    typer.echo(str(evaluation))
    if report:
        typer.echo(f"the report is in '{report}'")


@app.command()
def recommend(
    model: flags.Model,
    nodes: Annotated[list[str] | None, typer.Argument(help="node ids", show_default=False)] = None,
    *,
    k: Annotated[int, typer.Option("-k", help="links a node, at most")] = 10,
    everything: Annotated[bool, typer.Option("--all", help="for every node; needs --out")] = False,
    among: Annotated[Path | None, typer.Option(help="table whose first column lists the candidates")] = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="the first line of --among is data")] = False,
    by_index: Annotated[bool, typer.Option("--index", help="by the index that yinyan index has built")] = False,
    out: flags.RowsFile = None,
    device: flags.Device = "auto",
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
) -> None:
    """Name the best new partners of nodes."""
    from yinyan import shell
    from yinyan.bulk import candidates, check_rows_file

    if everything == bool(nodes):
        raise InputError("recommend needs node ids, or --all for every node (one of the two)")
    if everything and out is None:
        raise InputError("--all makes many rows: name a file for them with --out links.parquet")
    if everything and among is not None:
        raise InputError("--all and --among exclude each other: leave one out")
    if out is not None:
        check_rows_file(out)
    predictor = shell.load(model, device)
    built = predictor.load_index(model) if by_index else None
    if everything and out is not None:
        shell.recommend_all(predictor, out, k, show_progress(quiet=quiet), as_json=as_json, index=built)
        return
    ids, asked = predictor.graph_.ids, built or predictor
    pool = None if among is None else candidates(predictor, among, header=not no_header)
    found = asked.recommend([ids.parse(text) for text in nodes or ()], k, among=pool)
    if out is not None:
        shell.deliver(found.to_arrow(), out, as_json=as_json)
    else:
        shell.print_links(found, as_json=as_json)


@app.command()
def score(
    model: flags.Model,
    pairs: Annotated[Path, typer.Argument(help="table of pairs, two columns of ids", show_default=False)],
    *,
    source: Annotated[str | None, typer.Option(help="column of the first id")] = None,
    target: Annotated[str | None, typer.Option(help="column of the second id")] = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="the first line is data")] = False,
    base_rate: Annotated[float, typer.Option(help="share of the pairs that are links, for the probability")] = 0.5,
    out: flags.RowsFile = None,
    device: flags.Device = "auto",
    as_json: flags.AsJson = False,
) -> None:
    """Score pairs of nodes."""
    import pyarrow as pa

    from yinyan import shell
    from yinyan.bulk import check_rows_file, pairs_of
    from yinyan.results import id_column

    if out is not None:
        check_rows_file(out)
    predictor = shell.load(model, device)
    first, second = pairs_of(predictor, pairs, source, target, header=not no_header)
    both = list(zip(first, second, strict=True))
    scores = predictor.score(both)
    chances = predictor.predict_proba(both, base_rate=base_rate)
    if out is not None:
        columns = {"source": id_column(first), "target": id_column(second), "score": scores, "probability": chances}
        shell.deliver(pa.table(columns), out, as_json=as_json)
    else:
        shell.print_scores(both, scores.tolist(), chances.tolist(), base_rate, as_json=as_json)


@app.command()
def explain(
    model: flags.Model,
    source: Annotated[str, typer.Argument(help="node id", show_default=False)],
    target: Annotated[str, typer.Argument(help="node id", show_default=False)],
    *,
    device: flags.Device = "auto",
    as_json: flags.AsJson = False,
) -> None:
    """Say which neighbours moved the score of a pair, and by how much."""
    from yinyan import shell

    predictor = shell.load(model, device)
    ids = predictor.graph_.ids
    explanation = predictor.explain(ids.parse(source), ids.parse(target))
    shell.print_json(explanation.to_dict()) if as_json else typer.echo(repr(explanation))


@app.command()
def info(model: flags.Model, *, as_json: flags.AsJson = False) -> None:
    """Show a saved model's card."""
    from yinyan import shell
    from yinyan.card import model_card

    predictor = shell.load(model, "cpu")
    fitted = predictor.fitted_
    if as_json:
        shell.print_json(shell.facts(fitted))
    else:
        typer.echo(model_card(fitted).rstrip())


@app.command()
@with_settings
def demo(
    *,
    seed: flags.Seed = 0,
    seeds: Annotated[int, typer.Option(help="how many seeds, from --seed on", min=1)] = 1,
    device: flags.Device = "auto",
    report: flags.Report = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    resume: flags.Resume = False,
    overrides: dict[str, Any],
) -> None:
    """Predict citations of Cora, with an honest score beside the classical heuristics."""
    from yinyan import shell
    from yinyan.datasets import bundled_cora
    from yinyan.demo import best_citations, citation_table, hidden_among_best
    from yinyan.evidence import evaluation_report

    shell.check_outputs(None, report)
    progress = show_progress(quiet=quiet)
    graph = bundled_cora()
    progress.note(f"Cora. {graph.describe()}")
    model = shell.predictor(None, overrides, seed=seed, device=device)
    plan = shell.Plan("cora", "clean", tuple(range(seed, seed + seeds)), ("cn", "aa", "ra", "mlp"), resume)
    evaluation = shell.run_evaluation(model, graph, plan, progress)
    citations = best_citations(evaluation)
    if report:
        links = [c.link for c in citations]
        evaluation_report(report, evaluation, title="Missing citations of Cora", recommended=links)
    if as_json:
        shell.print_json({**evaluation.to_dict(), "citations": [c.to_dict() for c in citations]})
        return
    typer.echo(f"{evaluation}\n\nTen recommended citations, of which the model was shown none:\n")
    typer.echo(citation_table(citations))
    found, hidden, papers = hidden_among_best(evaluation)
    of = f"{hidden} hidden citations of {papers} papers, {found} ({found / hidden:.0%})"
    typer.echo(f"\nOf {of} are among the ten that the model recommends the paper out of {graph.num_nodes:,}.")
    if report:
        typer.echo(f"\nthe report is in '{report}'")


@app.command()
def doctor(*, as_json: flags.AsJson = False) -> None:
    """Say what this installation can do."""
    from yinyan import shell
    from yinyan.doctor import examination_table, examine

    found = examine()
    shell.print_json(found) if as_json else typer.echo(examination_table(found))
    if found["kernel"] != "correct":
        raise typer.Exit(1)


for _command in (
    *(hosting.serve, hosting.serve_demo, hosting.keys),
    *(retrieving.index, retrieving.mine),
    *(research.audit, research.reproduce, research.methods, research.datasets),
):
    app.command()(_command)


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


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors that a user can act on become one line and a non-zero exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an id that the terminal cannot show is no reason to fail
    try:
        app(arguments)
    except StoppedError as stopped:
        typer.echo(str(stopped), err=True)
        sys.exit(130)
    except YinYanError as error:
        typer.echo(f"error: {' '.join(str(error).splitlines())}", err=True)
        sys.exit(1)
    except OSError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
