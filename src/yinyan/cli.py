"""The command line: parse, call, print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from yinyan import __version__
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

Edges = Annotated[Path, typer.Argument(help="table of links: CSV, TSV or Parquet", show_default=False)]
Model = Annotated[Path, typer.Argument(help="directory of a saved model", show_default=False)]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="TOML file of settings; flags win over it")]
Seed = Annotated[int, typer.Option(help="all randomness grows from it")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps")]
Report = Annotated[Path | None, typer.Option(help="write an HTML report there")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON on standard output")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="no progress on standard error")]
Resume = Annotated[bool, typer.Option("--resume", help="go on where a stopped run was")]


@app.command()
@with_settings
@with_table
def fit(
    edges: Edges,
    *,
    out: Annotated[Path, typer.Option(help="directory for the model")] = Path("model"),
    calibration: Annotated[str, typer.Option(help="of probabilities: platt or isotonic")] = "platt",
    settings: SettingsFile = None,
    seed: Seed = 0,
    device: Device = "auto",
    report: Report = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    resume: Resume = False,
    table: TableFlags,
    overrides: dict[str, Any],
) -> None:
    """Learn a model from a table of links."""
    from yinyan import shell

    shell.check_outputs(out, report)
    progress = show_progress(quiet=quiet)
    graph = shell.read_graph(edges, table, progress)
    model = shell.predictor(settings, overrides, seed=seed, device=device, calibration=calibration)
    shell.run_fit(model, graph, out, progress, resume=resume)
    if report:
        from yinyan.evidence import fit_report

        fit_report(report, model, title=f"Links of {edges.name}")
    fitted = model.fitted_
    if as_json:
        shell.print_json({"model": str(out), "protocol": fitted.protocol, "seed": seed, "validation": fitted.metrics})
        return
    figures = ", ".join(f"{name} {value:.4f}" for name, value in fitted.metrics.items())
    typer.echo(f"validation on {len(fitted.valid_scores[0]):,} held-out links: {figures}")
    typer.echo(f"saved the model in '{out}'" + (f", the report in '{report}'" if report else ""))
    typer.echo(f"next: yinyan recommend {out} NODE -k 10, or yinyan evaluate {edges} for test figures")


@app.command()
@with_settings
@with_table
def evaluate(
    edges: Edges,
    *,
    protocol: Annotated[str, typer.Option(help="clean or clean+val")] = "clean",
    seeds: Annotated[int, typer.Option(help="how many seeds, from --seed on", min=1)] = 1,
    mlp: Annotated[bool, typer.Option("--mlp", help="also fit a model that ignores the graph")] = False,
    settings: SettingsFile = None,
    seed: Seed = 0,
    device: Device = "auto",
    report: Report = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    resume: Resume = False,
    table: TableFlags,
    overrides: dict[str, Any],
) -> None:
    """Measure on held-out links, beside common neighbours, Adamic-Adar and resource allocation."""
    from yinyan import shell

    shell.check_outputs(None, report)
    progress = show_progress(quiet=quiet)
    graph = shell.read_graph(edges, table, progress)
    model = shell.predictor(settings, overrides, seed=seed, device=device)
    plan = shell.Plan(edges.stem, protocol, tuple(range(seed, seed + seeds)), mlp, resume)
    evaluation = shell.run_evaluation(model, graph, plan, progress)
    if report:
        from yinyan.evidence import evaluation_report

        evaluation_report(report, evaluation, title=f"Links of {edges.name}")
    shell.print_json(evaluation.to_dict()) if as_json else typer.echo(str(evaluation))


@app.command()
def recommend(
    model: Model,
    nodes: Annotated[list[str] | None, typer.Argument(help="node ids", show_default=False)] = None,
    *,
    k: Annotated[int, typer.Option("-k", help="links a node")] = 10,
    everything: Annotated[bool, typer.Option("--all", help="for every node; needs --out")] = False,
    among: Annotated[Path | None, typer.Option(help="table whose first column lists the candidates")] = None,
    out: Annotated[Path | None, typer.Option(help="write .parquet or .csv instead of printing")] = None,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Name the best new partners of nodes."""
    from yinyan import shell

    if everything == bool(nodes):
        raise InputError("recommend needs node ids, or --all for every node (one of the two)")
    if everything and (out is None or among is not None):
        raise InputError("--all writes many rows: name a file with --out links.parquet (and no --among)")
    predictor = shell.load(model, device)
    if everything and out is not None:
        shell.recommend_all(predictor, out, k, show_progress(quiet=quiet), as_json=as_json)
        return
    ids = predictor.graph_.ids
    pool = None if among is None else shell.column_ids(predictor, among, 0)
    found = predictor.recommend([ids.parse(text) for text in nodes or ()], k, among=pool)
    if out is not None:
        shell.write_rows(found.to_arrow(), out)
    if as_json:
        shell.print_json([row._asdict() for row in found])
    else:
        typer.echo(f"wrote {len(found):,} rows to '{out}'" if out else repr(found))


@app.command()
def score(
    model: Model,
    pairs: Annotated[Path, typer.Argument(help="table of pairs, two columns of ids", show_default=False)],
    *,
    source: Annotated[str | None, typer.Option(help="column of the first id")] = None,
    target: Annotated[str | None, typer.Option(help="column of the second id")] = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="the first line is data")] = False,
    base_rate: Annotated[float, typer.Option(help="share of the pairs that are links, for the probability")] = 0.5,
    out: Annotated[Path | None, typer.Option(help="write .parquet or .csv instead of printing")] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Score pairs of nodes."""
    import pyarrow as pa

    from yinyan import shell
    from yinyan.results import id_column, text_table

    predictor = shell.load(model, device)
    first = shell.column_ids(predictor, pairs, 0, source, header=not no_header)
    second = shell.column_ids(predictor, pairs, 1, target, header=not no_header)
    both = list(zip(first, second, strict=True))
    scores = predictor.score(both)
    chances = predictor.predict_proba(both, base_rate=base_rate)
    if out is not None:
        columns = {"source": id_column(first), "target": id_column(second), "score": scores, "probability": chances}
        shell.write_rows(pa.table(columns), out)
        typer.echo(f"wrote {len(both):,} rows to '{out}'")
    elif as_json:
        rows = zip(first, second, scores.tolist(), chances.tolist(), strict=True)
        keys = ("source", "target", "score", "probability")
        shell.print_json({"base_rate": base_rate, "pairs": [dict(zip(keys, row, strict=True)) for row in rows]})
    else:
        rows_text = [
            [str(a), str(b), f"{s:.3f}", f"{p:.3f}"] for a, b, s, p in zip(first, second, scores, chances, strict=True)
        ]
        typer.echo(
            text_table(
                ["source", "target", "score", f"probability at base rate {base_rate:g}"], rows_text, right=(2, 3)
            )
        )


@app.command()
def explain(
    model: Model,
    source: Annotated[str, typer.Argument(help="node id", show_default=False)],
    target: Annotated[str, typer.Argument(help="node id", show_default=False)],
    *,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Say which neighbours moved the score of a pair, and by how much."""
    from yinyan import shell

    predictor = shell.load(model, device)
    ids = predictor.graph_.ids
    explanation = predictor.explain(ids.parse(source), ids.parse(target))
    shell.print_json(explanation.to_dict()) if as_json else typer.echo(repr(explanation))


@app.command()
def info(model: Model, *, as_json: AsJson = False) -> None:
    """Show a saved model's card."""
    from yinyan import shell
    from yinyan.card import model_card

    predictor = shell.load(model, "cpu")
    fitted = predictor.fitted_
    if as_json:
        facts = {
            "nodes": fitted.graph.num_nodes,
            "links": fitted.graph.num_edges,
            "protocol": fitted.protocol,
            "seed": fitted.seed,
            "validation": fitted.metrics,
            "best_epoch": fitted.best_epoch,
            "settings": fitted.settings.to_dict(),
        }
        shell.print_json(facts)
    else:
        typer.echo(model_card(fitted))


@app.command()
@with_settings
def demo(
    *,
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(help="how many seeds, from --seed on", min=1)] = 1,
    device: Device = "auto",
    report: Report = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    resume: Resume = False,
    overrides: dict[str, Any],
) -> None:
    """Predict citations of Cora, with an honest score beside the classical heuristics."""
    from yinyan import shell
    from yinyan.datasets import bundled_cora
    from yinyan.demo import best_citations, citation_table
    from yinyan.evidence import evaluation_report

    shell.check_outputs(None, report)
    progress = show_progress(quiet=quiet)
    graph = bundled_cora()
    progress.note(f"Cora. {graph.describe()}")
    model = shell.predictor(None, overrides, seed=seed, device=device)
    plan = shell.Plan("cora", "clean", tuple(range(seed, seed + seeds)), mlp=True, resume=resume)
    evaluation = shell.run_evaluation(model, graph, plan, progress)
    citations = best_citations(evaluation.results[0])
    if report:
        evaluation_report(report, evaluation, title="Missing citations of Cora", recommended=citations)
    if as_json:
        shell.print_json({**evaluation.to_dict(), "citations": [c._asdict() for c in citations]})
        return
    typer.echo(f"\n{evaluation}\n\nTen recommended citations, of which the model was shown none:\n")
    typer.echo(citation_table(citations))
    if report:
        typer.echo(f"\nthe report is in '{report}'")


@app.command()
def doctor(*, as_json: AsJson = False) -> None:
    """Say what this installation can do."""
    from yinyan import shell
    from yinyan.doctor import examine

    found = examine()
    if as_json:
        shell.print_json(found)
    else:
        for name, value in found.items():
            if isinstance(value, dict):
                for part, version in value.items():
                    cure = f"missing: pip install 'yinyan[{part}]'" if name == "extras" else "missing"
                    typer.echo(f"{name:>9} {part:<12} {version or cure}")
            else:
                typer.echo(f"{name:>9} {', '.join(value) if isinstance(value, list) else value}")
    if found["kernel"] != "correct":
        raise typer.Exit(1)


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
    """Run the command line; the library's errors become one line and a non-zero exit."""
    try:
        app(arguments)
    except StoppedError as stopped:
        typer.echo(str(stopped), err=True)
        sys.exit(130)
    except YinYanError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        sys.exit(130)
