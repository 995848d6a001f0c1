"""Commands on tables with a column of relations, and on models with relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from yinyan.cli import common
from yinyan.connect.urls import DatabaseUrl
from yinyan.errors import InputError, StoreError
from yinyan.graph.table_options import TableOptions
from yinyan.progress import Checkpoints, Progress, aligned, interruptible
from yinyan.text import counted

if TYPE_CHECKING:  # the help of a command imports neither numpy nor torch
    from yinyan.evaluation import Evaluation
    from yinyan.graph.typed_graph import TypedGraph
    from yinyan.graph.typed_tables import TypedOptions
    from yinyan.model.typed_fitted import TypedFitted
    from yinyan.predictor import LinkPredictor
    from yinyan.results import Explanation, Recommendations
    from yinyan.retrieval.index import Index
    from yinyan.retrieval.rules import Rules

__all__ = [
    "Asked",
    "has_relations",
    "predicted",
    "print_fit",
    "print_info",
    "read_typed",
    "refuse",
    "refuse_name",
    "run_evaluation",
    "run_fit",
    "show_rows",
    "typed_options",
]


def typed_options(table: TableOptions, relation: str | None, nodes: Any = None) -> TypedOptions:
    """What a table with a column of relations is read with, beside a table of `nodes`; all are of one type."""
    from yinyan.graph.typed_tables import ONE_TYPE, TypedOptions

    if relation is None:
        raise InputError("--predict names relations: name their column as well with --relation")
    if table.bipartite or table.prefixes:
        raise InputError("--bipartite and --prefixes are for tables without relations: leave them out")
    if nodes is None:
        table = replace(
            table, nodes=None, nodes_query=None, node_id=None, feature_columns=None, label=None, attributes=None
        )
    plain = replace(table, directed=False, query=None, nodes=nodes, nodes_query=None)
    return TypedOptions(plain, None if nodes is None else {ONE_TYPE: nodes}, relation, table.directed)


def read_typed(edges: Path | DatabaseUrl, table: TableOptions, relation: str | None, progress: Progress) -> TypedGraph:
    """The graph of a table with a column of relations; all nodes are of one type."""
    from yinyan.graph.typed_tables import graph_from_tables

    chosen, described = table.sources(edges)
    graph = graph_from_tables(chosen, typed_options(table, relation, described))
    for line in graph.describe().splitlines():
        progress.note(aligned(f"graph: {line.removeprefix('- ')}"))
    return graph


def run_fit(
    model: LinkPredictor,
    graph: TypedGraph,
    predict: Sequence[str] | None,
    out: Path,
    progress: Progress,
    *,
    resume: bool,
    keep_best: bool,
    finish: bool,
    max_shard_bytes: int | None,
) -> None:
    """Fit and save; Ctrl-C leaves a checkpoint, as of a plain graph."""
    folder, what = common.state_of(out)
    offer = ", or save the best so far with --resume --finish"
    checkpoints = Checkpoints(folder, resume=resume, say=progress.note, what=what, or_else=offer)
    with checkpoints, interruptible(progress.note) as should_stop:
        state = folder / "state.safetensors"
        hooks = common.hooks_of(progress, "epoch", should_stop, state, resume=resume)
        if finish and not state.exists():
            raise StoreError(f"there is nothing to finish: no training state in '{folder}' (leave out --finish)")
        try:
            chosen = replace(hooks, keep_best=keep_best, finish=finish)
            model.fit(graph, predict=list(predict) if predict else None, hooks=chosen)
        finally:
            progress.finish()
        model.save(out, max_shard_bytes=max_shard_bytes)


def run_evaluation(
    model: LinkPredictor,
    graph: TypedGraph,
    predict: Sequence[str] | None,
    dataset: str,
    protocol: str,
    seeds: Sequence[int],
    peers: Sequence[str],
    progress: Progress,
) -> Evaluation:
    """Figures of all seeds."""
    from yinyan.evaluation import evaluate
    from yinyan.training.showing import progress_hooks

    try:
        return evaluate(
            graph,
            dataset=dataset,
            protocol=protocol,
            predict=list(predict) if predict else None,
            seeds=seeds,
            peers=peers,
            model=model,
            hooks=lambda what: progress_hooks(progress, f"{what}, epoch"),
        )
    finally:
        progress.finish()


def has_relations(path: Path) -> bool:
    """Whether a saved model has relations; what is no model is left to those who load it."""
    return (path / "relations.json").is_file()


def predicted(model: LinkPredictor) -> list[str | None]:
    """The relations that a model predicts; None alone for a model without relations."""
    return list(getattr(model.fitted_, "predicted", (None,)))


def refuse(given: Mapping[str, bool]) -> None:
    """Refuse the flags that are given and know no relations."""
    wrong = [flag for flag, is_given in given.items() if is_given]
    if wrong:
        raise InputError(f"{wrong[0]} is not for models with relations yet: leave it out")


def refuse_name(relation: str | None) -> None:
    """Refuse the name of a relation where there are none."""
    if relation is not None:
        raise InputError(f"this model has one kind of edge, and no relation {relation!r}: leave out --relation")


class Asked:
    """A saved model and the relation that is asked about."""

    def __init__(self, path: Path, relation: str | None, device: str, threads: int | None) -> None:
        self.model = common.load(path, device, threads=threads)
        questions = self.model._typed(relation)
        if questions is None:
            raise StoreError(f"the model in '{path}' has no relations: its files have been changed")
        self.questions, self.relation = questions, questions.named(relation)
        self.names = questions.names(self.relation)

    def nodes(self, texts: Sequence[str]) -> list[Any]:
        """Nodes from texts: ids, or type:id where several types have the id."""
        return [self.names.parse(text) for text in texts]

    def everyone(self) -> list[Any]:
        """All nodes of the types of the relation."""
        import numpy as np

        from yinyan.cli.bulk import named_rows

        state = self.questions.of(self.relation).state
        return named_rows(state, np.arange(state.num_nodes))

    def rules(self, allow: Path | None, deny: Path | None, once: str | None) -> Rules:
        """Rules from tables of two columns: a node, and one of its candidates or of those denied to it."""
        from yinyan.graph.pair_tables import pairs_from_frame
        from yinyan.graph.tables import open_table
        from yinyan.retrieval.rules import Rules

        def lists(path: Path | None) -> list[tuple[Any, Any]] | None:
            if path is None:
                return None
            opened = open_table(path)
            pairs = pairs_from_frame(opened.read(list(opened.names)))
            return [tuple(self.names.parse(end) if isinstance(end, str) else end for end in pair) for pair in pairs]  # type: ignore[misc]

        return Rules(lists(allow), lists(deny), once)  # type: ignore[arg-type]  # a wrong word is refused

    def recommend(
        self,
        nodes: Sequence[Any],
        k: int,
        among: Path | None,
        where: str | None,
        rules: Rules | None,
        *,
        header: bool,
        index: Index | None,
    ) -> Recommendations:
        """Links of some nodes."""
        pool = None if among is None else _first_column(among, header=header)
        return self.model.recommend(nodes, k, relation=self.relation, among=pool, where=where, rules=rules, index=index)

    def score(
        self, pairs: Path, source: str | None, target: str | None, *, header: bool, base_rate: float | None
    ) -> list[dict[str, Any]]:
        """Rows with score and probability."""
        from yinyan.graph.pair_tables import pair_columns
        from yinyan.graph.tables import open_table

        opened = open_table(pairs, header=header)
        table = opened.read(columns := pair_columns(opened.names, source, target))
        ends = [table[name].cast("large_string").to_pylist() for name in columns]
        both = [tuple(self.names.parse(text, end) for end, text in enumerate(pair)) for pair in zip(*ends, strict=True)]
        state = self.questions.of(self.relation).state
        places = state.pair_rows(both)
        answer: dict[str, Any] = {}
        for end, name in enumerate(("source", "target")):
            labels = state.labels(places[:, end])
            answer |= {name: state.ids(places[:, end])} | ({} if labels is None else {f"{name}_label": labels})
        answer["score"] = self.model.score(both, relation=self.relation).tolist()
        answer["probability"] = self.model.predict_proba(both, base_rate=base_rate, relation=self.relation).tolist()
        return [dict(zip(answer, row, strict=True)) for row in zip(*answer.values(), strict=True)]

    def explain(self, source: str, target: str) -> Explanation:
        """Contributions by relation."""
        ends = (self.names.parse(text, end) for end, text in enumerate((source, target)))
        return self.model.explain(*ends, relation=self.relation)


def show_rows(rows: list[dict[str, Any]], out: Path | None, *, as_json: bool) -> None:
    """Scored pairs, to a file or printed."""
    if out is not None:
        import pyarrow as pa

        common.deliver(pa.Table.from_pylist(rows), out, as_json=as_json)
        return
    common.print_rows(rows, as_json=as_json, empty="no pairs to score")


def print_fit(model: LinkPredictor, out: Path, report: Path | None, *, as_json: bool) -> None:
    """What came of a fit, and what to do next."""
    fitted = cast("TypedFitted", model.fitted_)
    if as_json:
        facts = {"protocol": fitted.protocol, "seed": fitted.seed, "validation": fitted.metrics}
        common.print_json(
            {"model": str(out), **facts, "relations": {n: f.metrics for n, f in fitted.relations.items()}}
        )
        return
    rows = [
        {"relation": name, "attraction": fitted.attractions[name], **own.metrics}
        for name, own in list(fitted.relations.items())[:40]
        if own.metrics
    ]
    common.print_rows(rows, as_json=False, right=range(1, 6))
    figures = ", ".join(f"{name} {value:.4f}" for name, value in fitted.metrics.items())
    typer.echo(f"validation, weights of epoch {fitted.best_epoch} of {len(fitted.history)}: {figures}")
    relations = counted(len(fitted.predicted), "predicted relation")
    typer.echo(f"saved the model in '{out}' ({relations})" + (f", the report in '{report}'" if report else ""))


def print_info(path: Path, *, as_json: bool) -> None:
    """The card of a saved model with relations."""
    from yinyan.store.typed_files import typed_card

    fitted = cast("TypedFitted", common.load(path, "cpu").fitted_)
    if not as_json:
        typer.echo(typed_card(fitted).rstrip())
        return
    common.print_json(
        {
            "nodes": {name: len(kind.ids) for name, kind in fitted.graph.nodes.items()},
            "links": {name: len(relation.edges) for name, relation in fitted.graph.relations.items()},
            "predicted": list(fitted.predicted),
            "attractions": fitted.attractions,
            "validation": fitted.metrics,
            "relations": {name: own.metrics for name, own in fitted.relations.items()},
            "settings": fitted.settings.to_dict(),
        }
    )


def _first_column(path: Path, *, header: bool) -> list[Any]:
    from yinyan.graph.tables import open_table

    opened = open_table(path, header=header)
    return list(opened.read(opened.names[:1])[opened.names[0]].to_pylist())
