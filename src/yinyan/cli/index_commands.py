"""The commands about many nodes at once: an index of a model, and the best new links of its whole graph."""

from __future__ import annotations

from typing import Annotated

import typer

from yinyan.cli import common, flags, relations
from yinyan.cli.flags import SqlTarget, with_sql
from yinyan.errors import InputError
from yinyan.progress import show_progress

__all__ = ["best_links", "index"]


def index(
    model: flags.Model,
    *,
    relation: flags.RelationName = None,
    kind: Annotated[str, typer.Option(help="kind of index: auto, exact, mips or flashlight")] = "auto",
    recall: Annotated[float, typer.Option(help="minimum share of the exact top k that it finds")] = 0.98,
    milliseconds: Annotated[
        float | None, typer.Option(help="maximum milliseconds per query (default: no limit)")
    ] = None,
    megabytes: Annotated[
        float | None, typer.Option(help="maximum size in MB, without the embeddings (default: no limit)")
    ] = None,
    k: Annotated[
        int,
        typer.Option("-k", help="links per node that recall is measured for, beside 1, 10, 20, 50, 100"),
    ] = 100,
    seed: flags.Seed = 0,
    threads: flags.Threads = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
) -> None:
    """Build an index of a saved model, measure its recall, save it with the model.

    A model with relations gets one for each predicted relation, or for --relation alone.
    """
    if kind not in ("auto", "exact", "mips", "flashlight"):
        raise InputError(f"--kind needs to be auto, exact, mips or flashlight (got {kind!r})")
    progress = show_progress(quiet=quiet)
    predictor = common.load(model, "cpu", threads=threads)
    if not relations.has_relations(model):
        relations.refuse_name(relation)
    names = relations.predicted(predictor) if relation is None else [relation]
    made = []
    for name in names:  # one for each relation that is predicted, unless one is named
        if len(names) > 1:
            progress.note(f"relation {name!r}")
        found = predictor.index(
            kind,  # type: ignore[arg-type]
            relation=name,
            recall=recall,
            milliseconds=milliseconds,
            megabytes=megabytes,
            k=k,
            seed=seed,
            tell=progress.note,
        )
        found.save(model)
        made.append(found.metadata)
    if as_json:
        facts = [metadata.to_dict() for metadata in made]
        common.print_json(facts[0] if len(facts) == 1 else {"indexes": facts})
    else:
        typer.echo("\n".join(map(str, made)))


@with_sql
def best_links(
    model: flags.Model,
    *,
    relation: flags.RelationName = None,
    k: Annotated[int, typer.Option("-k", help="maximum number of links")] = 100,
    where: flags.Where = None,
    labels: flags.Labels = None,
    no_labels: flags.NoLabels = False,
    by_index: flags.ByIndex = False,
    exact: flags.Exact = False,
    engine: flags.Engine = "local",
    shards: flags.Shards = None,
    out: flags.RowsFile = None,
    sql: SqlTarget | None,
    device: flags.Device = "auto",
    threads: flags.Threads = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
) -> None:
    """Recommend the best new links of the whole graph."""
    from yinyan.cli import searching
    from yinyan.cli.bulk import check_rows_file
    from yinyan.retrieval.best_links import FIRST
    from yinyan.retrieval.choice import described
    from yinyan.retrieval.conditions import check_condition

    searching.check_flags(by_index=by_index, exact=exact)
    searching.check_engine(engine, shards, everything=True)
    if out is not None and sql is not None:
        raise InputError("--out and --to-sql exclude each other: leave one out")
    check_rows_file(out)
    if sql is not None:
        sql.check()
    if relations.has_relations(model):
        relations.refuse({"--labels": bool(labels), "--no-labels": no_labels, "--engine": engine != "local"})
    else:
        relations.refuse_name(relation)
    predictor = common.load(model, device, labels, threads=threads, no_labels=no_labels)
    progress, graph = show_progress(quiet=quiet), predictor._asked(relation)[0].graph
    if where is not None:
        check_condition(graph, where)
    count, at = graph.num_nodes, searching.place(predictor, model, engine, shards, threads)
    with at, common.task(progress, "nodes", count) as should_stop:
        built = searching.chosen_index(
            *(predictor, model, count, FIRST, progress),
            by_index=by_index,
            exact=exact,
            engine=engine,
            relation=relation,
        )
        found = predictor.best_links(
            k,
            relation=relation,
            where=where,
            index=built,
            search="exact",
            on_progress=lambda done, total: progress.advance(done),
            should_stop=should_stop,
        )
    progress.note(described(built, FIRST, narrowed=where is not None))
    common.show_links(found, sql or out, as_json=as_json, empty=common.none_found(where))
