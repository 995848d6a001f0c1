"""From tables larger than memory to a folder of parts: the stages, in order."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from yinyan.distributed.prepared import MANIFEST
from yinyan.errors import InputError, StoreError
from yinyan.files import exclusive, remove_abandoned
from yinyan.graph.features import FeatureEncoder
from yinyan.graph.table_options import TableOptions
from yinyan.preparing.edge_reading import one_kind, read_edges
from yinyan.preparing.inputs import Paths, divided
from yinyan.preparing.merging import edge_digest, merge_range, send_edges
from yinyan.preparing.node_reading import SAMPLE_ROWS, feature_names, fit_features, read_nodes, send_features
from yinyan.preparing.numbering import Numbers, check_nodes, number_ids, numbers_of
from yinyan.preparing.owners import halve_range, place_edges, place_ids
from yinyan.preparing.partitioning import Sizes, check_partition, partition_nodes
from yinyan.preparing.plan import Partition, Plan, Protocol, make_plan, remembered
from yinyan.preparing.ranges import Ranges, ranges_of
from yinyan.preparing.splitting import SplitRule, audit_range, check_parts, split_rule
from yinyan.preparing.tasks import Engine, Summary, check_engine, run_stage
from yinyan.preparing.writing import Material, write_manifest, write_part
from yinyan.progress import make_folder
from yinyan.text import counted

__all__ = ["Prepared", "prepare", "prepare_tables", "total"]

_FEATURE_SHARE = 16  # of the memory budget, one in so many bytes for the features of a range


@dataclass(frozen=True)
class Prepared:
    """What a prepared folder holds; `print` shows it.

    Examples
    --------
    >>> from pyarrow import csv, table
    >>> csv.write_csv(table({"source": graph.edges[:, 0], "target": graph.edges[:, 1]}), "edges.csv")
    >>> from yinyan import prepare
    >>> prepare("edges.csv", "prepared", parts=2).parts
    2
    """

    folder: Path  # with manifest.json
    parts: int  # number of parts
    nodes: int  # number of nodes
    edges: int  # number of distinct edges
    roles: tuple[int, int, int]  # training, validation and test edges
    partition: str  # how the nodes were divided: 'communities', 'metis' or 'hash'
    cut_edges: int  # edges whose ends have different owners
    boundary: tuple[int, ...]  # for each part, nodes of other parts that are neighbours of its own

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Returns
        -------
        dict
            Every field, the folder as text.

        Examples
        --------
        >>> from pyarrow import csv, table
        >>> csv.write_csv(table({"source": graph.edges[:, 0], "target": graph.edges[:, 1]}), "edges.csv")
        >>> from yinyan import prepare
        >>> prepare("edges.csv", "prepared", parts=2).to_dict()["parts"]
        2
        """
        return {**asdict(self), "folder": str(self.folder)}

    def __str__(self) -> str:
        train, valid, test = self.roles
        return (
            f"'{self.folder}': {self.nodes:,} nodes and {self.edges:,} edges in {counted(self.parts, 'part')} "
            f"({self.partition}); {train:,} training, {valid:,} validation, {test:,} test edges; "
            f"{self.cut_edges / max(1, self.edges):.0%} of the edges join two parts"
        )


class _Run:
    """The stages of one preparation, one after the other; what one leaves to the next is in the work folder."""

    def __init__(self, plan: Plan, engine: Engine, tell: Callable[[str], None]) -> None:
        self.plan, self.engine, self.tell = plan, engine, tell

    def stage(
        self,
        name: str,
        function: Callable[[Path, Any], Summary],
        tasks: Sequence[Any],
        describe: Callable[[list[Summary]], str],
    ) -> list[Summary]:
        """Run a stage, or what an earlier run left of it."""
        return run_stage(self.plan.work, name, function, tasks, engine=self.engine, describe=describe, tell=self.tell)

    def forget(self, *names: str) -> None:
        """Free the disk of what no later stage reads."""
        for name in names:
            shutil.rmtree(self.plan.work / name, ignore_errors=True)

    def run(self) -> dict[str, Any]:
        """All stages; returns what the manifest says."""
        numbered, numbers, encoder = self.number()
        merged, rule, roles = self.merge(numbers, numbered)
        sizes = Sizes(int(numbers.starts[-1]), total(merged, "edges"))
        ranges, cut = self.partition(sizes, encoder["columns"])
        if encoder["encoder"] is not None:
            self.send_features(numbers, ranges, encoder)
        self.place(ranges, rule, numbers)
        graph = edge_digest(numbered, merged)
        written, common = self.write(ranges, encoder, graph, roles)
        return _facts(self.plan, sizes, numbered, common, graph, cut, roles, written, encoder)

    def number(self) -> tuple[list[Summary], Numbers, Summary]:
        """Rows in, numbered ids out, and how the columns of the nodes become features."""
        plan = self.plan
        edges = self.stage("read-edges", partial(read_edges, plan), divided(plan.edges, plan.chunk_rows), _read)
        _one_clock(edges)
        nodes = []
        if plan.nodes:
            groups = divided(plan.nodes, plan.chunk_rows)
            share = SAMPLE_ROWS / max(1, sum(piece.rows for group in groups for piece in group))
            nodes = self.stage("read-nodes", partial(read_nodes, plan), [(g, share) for g in groups], _read)
        kinds: dict[str, str] = {}
        for facts in (*nodes, *edges):
            kinds |= facts["kinds"]
        if not total(edges, "ids"):
            raise InputError("the edge tables have no row with both a source and a target")
        one_kind(kinds)
        numbered = self.stage("number", partial(number_ids, plan), range(plan.id_buckets), lambda found: (
            f"{total(found, 'ids'):,} ids in, {total(found, 'nodes'):,} nodes out"
        ))  # fmt: skip
        _same_count(total(edges, "ids") + total(nodes, "ids"), total(numbered, "ids"), "ids")
        lacking, _ = check_nodes(plan, numbered)
        encoder: Summary = {"encoder": None, "columns": 0}
        if plan.nodes:
            encoder = self.stage("fit-features", partial(fit_features, plan, lacking), [0], lambda found: (
                f"{found[0]['rows']:,} sampled nodes in, {counted(found[0]['columns'], 'feature column')} out"
            ))[0]  # fmt: skip
            for note in encoder.get("notes", ()):
                self.tell(note)
        self.edge_chunks = [facts["chunks"] for facts in edges]
        self.node_chunks = [facts["chunks"] for facts in nodes]
        return numbered, numbers_of(plan, numbered), {**encoder, "kind": one_kind(kinds)}

    def merge(self, numbers: Numbers, numbered: list[Summary]) -> tuple[list[Summary], SplitRule, list[int]]:
        """Distinct edges, and the audited rule of their split."""
        plan, nodes = self.plan, int(numbers.starts[-1])
        chunks = sum(self.edge_chunks) + sum(self.node_chunks)
        firsts = np.cumsum([0, *self.edge_chunks])[:-1].tolist()
        sent = self.stage("send-edges", partial(send_edges, plan, numbers, nodes, chunks), firsts, lambda found: (
            f"{total(found, 'rows'):,} rows in, {_left(found):,} edges out "
            f"({total(found, 'loops'):,} self loops and {total(found, 'weightless'):,} edges of weight zero dropped)"
        ))  # fmt: skip
        merged = self.stage("merge-edges", partial(merge_range, plan, nodes), range(plan.edge_ranges), lambda found: (
            f"{total(found, 'rows'):,} edges in, {total(found, 'edges'):,} distinct edges out"
        ))  # fmt: skip
        _same_count(_left(sent), total(merged, "rows"), "edges")
        self.forget("read-edges", "send-edges")
        rule = self.stage("split", partial(_rule, plan, nodes, merged), [0], lambda found: "limits of the parts found")
        chosen = SplitRule(**rule[0])
        audited = self.stage("audit", partial(audit_range, plan, chosen), range(plan.edge_ranges), lambda found: (
            "{:,} edges in, {:,} training, {:,} validation, {:,} test edges out, no leaks".format(
                total(found, "rows"), *(sum(facts["roles"][role] for facts in found) for role in range(3))
            )
        ))  # fmt: skip
        _same_count(total(merged, "edges"), total(audited, "rows"), "edges")
        return merged, chosen, check_parts(plan, audited)

    def partition(self, sizes: Sizes, columns: int) -> tuple[Ranges, Summary]:
        """Which rows each part owns."""
        plan = self.plan
        (cut,) = self.stage("partition", partial(partition_nodes, plan, sizes), [0], lambda found: (
            f"{sizes.nodes:,} nodes in, {counted(plan.parts, 'part')} out ({found[0]['partition']})"
        ))  # fmt: skip
        if cut["note"]:
            self.tell(cut["note"])
        count = max(plan.edge_ranges, 4 * columns * sizes.nodes * _FEATURE_SHARE // plan.memory)
        place = plan.work / "partition" / "00000.npy" if cut["place"] else None
        return ranges_of(np.array(cut["starts"]), count, place), cut

    def send_features(self, numbers: Numbers, ranges: Ranges, encoder: Summary) -> None:
        """Features to the owners of their nodes."""
        plan = self.plan
        firsts = sum(self.edge_chunks) + np.cumsum([0, *self.node_chunks])[:-1]
        tasks = list(zip(divided(plan.nodes, plan.chunk_rows), firsts.tolist(), strict=True))
        chunks = sum(self.edge_chunks) + sum(self.node_chunks)
        plans = FeatureEncoder.from_dict(encoder["encoder"])
        self.stage("send-features", partial(send_features, plan, numbers, chunks, ranges, plans), tasks, _read)

    def place(self, ranges: Ranges, rule: SplitRule, numbers: Numbers) -> None:
        """Edges and ids to the owners of their rows."""
        plan, starts = self.plan, numbers.starts.tolist()
        self.stage("place-ids", partial(place_ids, plan, ranges, starts), range(plan.id_buckets), _rows("ids"))
        self.forget("number", "read-nodes")
        placed = self.stage(
            "place-edges", partial(place_edges, plan, ranges, rule), range(plan.edge_ranges), _rows("edges")
        )
        self.forget("merge-edges")
        counts = np.sum([facts["counts"] for facts in placed], axis=0)
        begins = np.concatenate([[0], np.cumsum(counts)]).tolist()
        halve = partial(halve_range, plan, ranges, begins)
        halved = self.stage("halve-edges", halve, range(len(ranges)), lambda found: (
            f"{total(found, 'rows'):,} edges in, {total(found, 'halves'):,} halves out"
        ))  # fmt: skip
        _same_count(total(placed, "rows"), total(halved, "rows"), "edges")
        self.forget("place-edges")

    def write(self, ranges: Ranges, encoder: Summary, graph: str, roles: list[int]) -> tuple[list[Summary], Material]:
        """The files of the parts."""
        plan = self.plan
        common = Material(
            mark=f"{graph} {plan.digest()}",
            ranges=ranges,
            features=encoder["columns"],
            missing=tuple(encoder.get("missing", ())),
            id_type="int64" if encoder["kind"] == "integer" else "string",
            with_weights=plan.roles.weight is not None,
            with_times=plan.roles.time is not None,
        )
        written = self.stage("write-parts", partial(write_part, plan, common), range(plan.parts), lambda found: (
            f"{total(found, 'edges'):,} halves and {int(ranges.bounds[-1]):,} nodes in, "
            f"{counted(plan.parts, 'part')} out"
        ))  # fmt: skip
        found = np.sum([facts["roles"] for facts in written], axis=0).tolist()
        _same_count([2 * count for count in roles], found, "edges by role")
        return written, common


def prepare(
    edges: Paths,
    out: str | os.PathLike[str],
    *,
    parts: int,
    nodes: Paths | None = None,
    partition: Partition = "communities",
    protocol: Protocol = "holdout",
    valid_share: float | None = None,
    test_share: float | None = None,
    seed: int = 0,
    engine: Engine = "auto",
    memory: float | None = None,
    restart: bool = False,
    tell: Callable[[str], None] | None = None,
    source: str | int | None = None,
    target: str | int | None = None,
    weight: str | int | Literal[False] | None = None,
    time: str | int | Literal[False] | None = None,
    node_id: str | int | None = None,
    feature_columns: Sequence[str | int] | None = None,
    directed: bool = False,
    bipartite: bool = False,
    prefixes: tuple[str, str] | None = None,
    unmatched: Literal["error", "keep"] = "error",
    id_type: Literal["keep", "text", "integer"] = "keep",
    header: bool = True,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    na_values: Sequence[str] | None = None,
) -> Prepared:
    """Prepare a graph that may exceed memory: number, merge, split, audit and divide its tables into parts.

    The folder holds Parquet files of nodes and edges for each part, and a manifest. A run that was stopped or killed
    goes on when the same call is repeated. The result does not depend on the engine, on `memory` (but for the
    partition, which may need more) or on the order of the files.

    Parameters
    ----------
    edges
        Files of edges: paths, folders, globs, or URLs that pyarrow's file systems open (s3://, gs://, hdfs://). The
        formats are those of `Graph.from_table`.
    out
        Local folder for the result.
    parts
        Number of parts: one per process of a distributed training.
    nodes
        Files of nodes, in the same forms: ids and feature columns.
    partition
        'communities' keeps neighbours together; 'metis' does so with the package pymetis; 'hash' spreads nodes evenly.
        The first two hold 40 or 80 bytes per edge in memory, and become 'hash' if that exceeds `memory`.
    protocol
        Split of the edges: 'holdout' (validation edges only), 'clean' (at random by unordered pairs) or 'temporal'.
    valid_share, test_share
        Shares of the edges for validation and test: 0.1 and 0.2 unless given, 0.1 and 0 with 'holdout'.
    seed
        Decides a random split.
    engine
        'process' runs here, 'ray' on a Ray cluster whose nodes share the file system. 'auto' takes Ray if this process
        has joined a cluster or RAY_ADDRESS names one.
    memory
        Memory to use, in GiB and per task: half of what is free, 8 at most, unless given.
    restart
        Whether a preparation that is in the folder, finished or not, is discarded.
    tell
        Called with a line for each stage: rows in, rows out.
    source, target, weight, time
        Columns of the edges, by name or position; guessed unless given. False reads no weights or times.
    node_id, feature_columns
        Columns of the nodes; guessed, and all others, unless given.
    directed, bipartite, prefixes, unmatched, id_type, header, delimiter, encoding, na_values
        As in `Graph.from_table`.

    Returns
    -------
    Prepared
        Counts and the folder, which `read_prepared` and distributed training read.

    Raises
    ------
    InputError
        If a file cannot be read, a column or an id is missing, or options exclude each other.
    LeakError
        If the split leaks.
    StoreError
        If the folder cannot be written, or holds something else.
    MissingExtraError
        If `engine` or `partition` needs a package that is missing.

    Examples
    --------
    >>> from pyarrow import csv, table
    >>> csv.write_csv(table({"source": graph.edges[:, 0], "target": graph.edges[:, 1]}), "edges.csv")
    >>> from yinyan import prepare
    >>> prepared = prepare("edges.csv", "prepared", parts=2, partition="hash")
    >>> prepared.partition
    'hash'
    """
    tables = TableOptions(
        source=source, target=target, weight=weight, time=time, nodes=nodes, node_id=node_id,
        feature_columns=feature_columns, directed=directed, bipartite=bipartite, prefixes=prefixes,
        unmatched=unmatched, id_type=id_type, header=header, delimiter=delimiter, encoding=encoding,
        na_values=na_values,
    )  # fmt: skip
    return prepare_tables(
        edges, Path(out), tables, parts=parts, partition=partition, protocol=protocol, valid_share=valid_share,
        test_share=test_share, seed=seed, engine=engine, memory=memory, restart=restart, tell=tell,
    )  # fmt: skip


def prepare_tables(
    edges: Paths,
    out: Path,
    tables: TableOptions,
    *,
    parts: int,
    partition: Partition,
    protocol: Protocol,
    valid_share: float | None,
    test_share: float | None,
    seed: int,
    engine: Engine,
    memory: float | None,
    restart: bool,
    tell: Callable[[str], None] | None,
) -> Prepared:
    """As `prepare`, with the options of the tables in one object."""
    say = tell or (lambda text: None)
    chosen = check_engine(engine)
    check_partition(partition)
    _refuse_url(out)
    out = out.expanduser().absolute()
    make_folder(out, out)
    with exclusive(out / ".lock", f"the folder '{out}'"):
        if restart:
            _discard(out)
        _refuse_strangers(out)
        plan = make_plan(
            edges, out, tables, parts=parts, partition=partition, protocol=protocol, valid_share=valid_share,
            test_share=test_share, seed=seed, memory=memory,
        )  # fmt: skip
        if (out / MANIFEST).exists():
            return _prepared_before(plan, say)
        make_folder(plan.work, plan.work)
        remove_abandoned(plan.work, ".")
        plan = remembered(plan)
        for note in plan.notes:
            say(note)
        facts = _Run(plan, chosen, say).run()
        encoder = facts.pop("encoder")
        write_manifest(plan, facts, encoder)
        shutil.rmtree(plan.work, ignore_errors=True)
    return _prepared(out)


def _refuse_url(out: Path) -> None:
    """Stages write to a folder, in place and more than once, which object stores do not do."""
    found = re.match(r"[a-z][a-z0-9+.-]+:/", str(out))
    if found is not None:
        raise InputError(
            f"'{out}' is a URL: a prepared folder is written to a file system (give a folder, a mounted one if several "
            "machines are to read it, and copy it to the store when it is finished)"
        )


def total(summaries: Sequence[Summary], name: str) -> int:
    """The sum of a count over tasks."""
    return sum(facts[name] for facts in summaries)


def _rule(plan: Plan, num_nodes: int, merged: list[Summary], place: Path, task: int) -> Summary:
    return asdict(split_rule(plan, num_nodes, total(merged, "edges"), total(merged, "pairs")))


def _left(sent: Sequence[Summary]) -> int:
    return total(sent, "rows") - total(sent, "loops") - total(sent, "weightless")


def _read(found: list[Summary]) -> str:
    rows, dropped = total(found, "rows"), total(found, "dropped")
    return f"{rows:,} rows in, {rows - dropped:,} rows out ({dropped:,} without an id dropped)"


def _rows(what: str) -> Callable[[list[Summary]], str]:
    return lambda found: f"{total(found, 'rows'):,} {what} in, {total(found, 'rows'):,} {what} out"


def _same_count(given: Any, found: Any, what: str) -> None:
    if given != found:
        raise StoreError(f"a stage got {given} {what} and returned {found}: prepare anew with restart=True (--restart)")


def _one_clock(edges: Sequence[Summary]) -> None:
    clocks: dict[str, str] = {}
    for facts in edges:
        clocks |= facts["clocks"]
    if len(clocks) > 1:
        raise InputError(
            f"times are dates in {clocks['dates']} and numbers in {clocks['numbers']}: write all of them in one way"
        )


def _facts(
    plan: Plan,
    sizes: Sizes,
    numbered: list[Summary],
    common: Material,
    graph: str,
    cut: Summary,
    roles: list[int],
    written: list[Summary],
    encoder: Summary,
) -> dict[str, Any]:
    """What the manifest says."""
    features = None
    if encoder["encoder"] is not None:
        features = {"columns": feature_names(encoder["encoder"]), "dtype": "float32"}
    split = {"protocol": plan.protocol, "valid_share": plan.valid_share, "test_share": plan.test_share}
    return {
        "graph": graph,
        "prepared": common.mark,
        "parts": plan.parts,
        "nodes": sizes.nodes,
        "edges": sizes.edges,
        "directed": plan.directed,
        "num_left": total(numbered, "num_left") if plan.bipartite else None,
        "starts": cut["starts"],
        "ids": common.id_type,
        "features": features,
        "weights": common.with_weights,
        "times": common.with_times,
        "partition": cut["partition"],
        "seed": plan.seed,
        "split": {**split, "train": roles[0], "valid": roles[1], "test": roles[2]},
        "cut_edges": total(written, "cut") // 2,
        "boundary": [facts["boundary"] for facts in written],
        "files": {name: file for facts in written for name, file in facts["files"].items()},
        "encoder": encoder["encoder"],
    }


def _prepared(folder: Path) -> Prepared:
    facts = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    split = facts["split"]
    return Prepared(
        folder, facts["parts"], facts["nodes"], facts["edges"], (split["train"], split["valid"], split["test"]),
        facts["partition"], facts["cut_edges"], tuple(facts["boundary"]),
    )  # fmt: skip


def _prepared_before(plan: Plan, say: Callable[[str], None]) -> Prepared:
    """A finished folder of the same preparation; another one is refused."""
    facts = json.loads((plan.out / MANIFEST).read_text(encoding="utf-8"))
    if facts.get("plan") != plan.digest():
        raise StoreError(
            f"'{plan.out}' holds a graph prepared from other files or with other options: choose another folder, or "
            "pass restart=True (--restart) to discard it"
        )
    shutil.rmtree(plan.work, ignore_errors=True)  # of a run that was killed at its very end
    say(f"'{plan.out}' is prepared already")
    return _prepared(plan.out)


def _ours(folder: Path) -> bool:
    return (folder / MANIFEST).exists() or (folder / ".work" / "plan.json").exists()


def _refuse_strangers(folder: Path) -> None:
    others = sorted(entry.name for entry in folder.iterdir() if entry.name not in (".lock", ".work"))
    if others and not _ours(folder):
        raise StoreError(f"'{folder}' holds other files ({others[0]!r}): choose a new or an empty folder")


def _discard(folder: Path) -> None:
    """Remove a preparation, and nothing else; the manifest first, so that what is left is not taken for whole."""
    if _ours(folder):
        (folder / MANIFEST).unlink(missing_ok=True)
        (folder / "features.json").unlink(missing_ok=True)
        for name in ("nodes", "edges"):
            for file in (folder / name).glob("part-*.parquet"):
                file.unlink()
            (folder / name).rmdir() if (folder / name).exists() and not any((folder / name).iterdir()) else None
        shutil.rmtree(folder / ".work", ignore_errors=True)
