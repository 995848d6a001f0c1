"""Prepared folders against graphs that are read from the same tables in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from preparing_tables import SMALL, assert_same_graph, edge_table, node_table, write_files
from yinyan import Graph, LeakError, LinkPredictor, audit, prepare, read_prepared
from yinyan.distributed.prepared import read_manifest
from yinyan.preparing.splitting import SplitRule
from yinyan.preparing.stages import Prepared


def check_folder(prepared: Prepared, folder: Path) -> None:
    """What the contract of a prepared folder says of its files."""
    facts = read_manifest(folder).content
    assert facts["starts"][0] == 0 and facts["starts"][-1] == facts["nodes"] == prepared.nodes
    numbers, roles, met = [], [], []
    for part, (first, last) in enumerate(zip(facts["starts"][:-1], facts["starts"][1:], strict=True)):
        nodes = pq.read_table(folder / f"nodes/part-{part:05d}.parquet")
        edges = pq.read_table(folder / f"edges/part-{part:05d}.parquet")
        assert nodes["row"].to_pylist() == list(range(first, last))
        row, neighbour = edges["row"].to_numpy(), edges["neighbour"].to_numpy()
        assert ((row >= first) & (row < last)).all()
        assert (np.diff(row * facts["nodes"] + neighbour) >= (0 if facts["directed"] else 1)).all()
        trained = np.bincount(row[edges["role"].to_numpy() == 0] - first, minlength=last - first)
        assert np.array_equal(nodes["degree"].to_numpy(), trained)
        pairs = np.stack([np.minimum(row, neighbour), np.maximum(row, neighbour), edges["edge"].to_numpy()], axis=1)
        numbers.append(pairs)
        roles.append(np.stack([edges["edge"].to_numpy(), edges["role"].to_numpy()], axis=1))
        outside = neighbour[(neighbour < first) | (neighbour >= last)]
        met.append((len(outside), len(np.unique(outside))))
    distinct = np.unique(np.concatenate(numbers), axis=0)
    assert np.array_equal(distinct[:, 2], np.arange(len(distinct)))  # numbered in the order of (min, max)
    assert sum(map(len, numbers)) == 2 * facts["edges"]
    assert prepared.cut_edges == sum(cut for cut, _ in met) // 2
    assert prepared.boundary == tuple(boundary for _, boundary in met)
    if not (facts["directed"] and facts["times"]):
        assert len(np.unique(np.concatenate(roles), axis=0)) == len(distinct)  # one role per pair


CASES: dict[str, dict[str, Any]] = {
    "undirected": {},
    "directed": {"directed": True, "time": False},
    "directed in time": {"directed": True},
    "without weights": {"weight": False, "time": False},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_graph_is_that_of_the_tables(tmp_path: Path, case: str, ending: str) -> None:
    options, table = CASES[case], edge_table()
    files = write_files(table, tmp_path / "edges", 4, ending)
    prepared = prepare(files, tmp_path / "out", parts=3, memory=SMALL, protocol="clean", **options)
    found, split = read_prepared(tmp_path / "out", verify=True)
    wanted = Graph.from_table(table, **options)
    assert_same_graph(found, wanted)
    check_folder(prepared, tmp_path / "out")
    assert audit(split).leaks == ()
    assert prepared.roles == tuple(len(getattr(split, f"{part}_targets")) for part in ("train", "valid", "test"))
    if not options.get("directed"):
        assert prepared.roles[1:] == (round(0.1 * found.num_edges), round(0.2 * found.num_edges))


def test_two_kinds_of_nodes(tmp_path: Path) -> None:
    table = edge_table(sides=True)
    options: dict[str, Any] = {"bipartite": True, "weight": False, "time": False}
    prepared = prepare(write_files(table, tmp_path / "edges", 2), tmp_path / "out", parts=2, memory=SMALL, **options)
    found, split = read_prepared(tmp_path / "out")
    assert_same_graph(found, Graph.from_table(table, **options))
    check_folder(prepared, tmp_path / "out")
    assert split.protocol == "holdout" and split.test_messages.size == found.num_edges
    same = edge_table()
    files = write_files(same, tmp_path / "same", 2)
    with pytest.raises(ValueError, match=r"on both sides of the bipartite graph .*--prefixes"):
        prepare(files, tmp_path / "no", parts=2, **options)
    prepare(files, tmp_path / "yes", parts=2, prefixes=("u:", "i:"), **options)
    assert_same_graph(read_prepared(tmp_path / "yes")[0], Graph.from_table(same, prefixes=("u:", "i:"), **options))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_features_come_with_the_nodes(tmp_path: Path, ending: str) -> None:
    table = edge_table()
    nodes = node_table(Graph.from_table(table))
    nodes = nodes.drop_columns(["x"]) if ending == "csv" else nodes
    files = write_files(table, tmp_path / "edges", 2), write_files(nodes, tmp_path / "nodes", 3, ending)
    prepare(files[0], tmp_path / "out", nodes=files[1], parts=4, memory=SMALL)
    found, _ = read_prepared(tmp_path / "out")
    wanted = Graph.from_table(table, nodes=nodes)
    assert_same_graph(found, wanted)
    assert len(read_manifest(tmp_path / "out").content["features"]["columns"]) == found.features.shape[1]
    assert found.feature_encoder is not None and wanted.feature_encoder is not None
    assert [p.name for p in found.feature_encoder.plans] == [p.name for p in wanted.feature_encoder.plans]


def test_nodes_of_one_table_only(tmp_path: Path) -> None:
    table = edge_table()
    nodes = node_table(Graph.from_table(table)).drop_columns(["x"])
    extra = pa.table({"id": ["alone"], "kind": ["k1"], "age": [30.0]})
    nodes = pa.concat_tables([nodes.slice(2), extra])
    files = write_files(table, tmp_path / "edges", 2), write_files(nodes, tmp_path / "nodes", 1)
    with pytest.raises(ValueError, match=r"the edges mention 2 nodes \('n\d+', 'n\d+'\) that the node tables lack"):
        prepare(files[0], tmp_path / "no", nodes=files[1], parts=2)
    prepare(files[0], tmp_path / "out", nodes=files[1], parts=2, unmatched="keep")
    assert_same_graph(read_prepared(tmp_path / "out")[0], Graph.from_table(table, nodes=nodes, unmatched="keep"))
    whole = pa.concat_tables([node_table(Graph.from_table(table)).drop_columns(["x"]), extra])
    write_files(whole, tmp_path / "more", 1)
    with pytest.raises(ValueError, match=r"describe 1 node \('alone'\) that the edges never mention"):
        prepare(files[0], tmp_path / "no2", nodes=tmp_path / "more", parts=2)


def test_integer_ids_stay_integers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"u": rng.integers(-(2**62), 2**62, 50)[rng.integers(0, 50, 900)], "v": rng.integers(0, 50, 900)})
    prepare(write_files(table, tmp_path / "edges", 2), tmp_path / "out", parts=2, partition="hash")
    assert_same_graph(read_prepared(tmp_path / "out")[0], Graph.from_table(table))
    assert read_manifest(tmp_path / "out").content["ids"] == "int64"
    prepare(tmp_path / "edges", tmp_path / "text", parts=2, id_type="text")
    assert_same_graph(read_prepared(tmp_path / "text")[0], Graph.from_table(table, id_type="text"))


def test_a_temporal_split_is_that_of_the_graph(tmp_path: Path) -> None:
    from yinyan import temporal_split

    table = edge_table()
    files = write_files(table, tmp_path / "edges", 3)
    prepare(files, tmp_path / "out", parts=2, protocol="temporal", memory=SMALL, valid_share=0.15, test_share=0.1)
    graph, split = read_prepared(tmp_path / "out")
    wanted = temporal_split(graph, seed=0, valid_share=0.15, test_share=0.1)
    for part in ("train", "valid", "test"):
        assert np.array_equal(getattr(split, f"{part}_targets"), getattr(wanted, f"{part}_targets"))
    assert audit(split).leaks == ()


def contents(folder: Path) -> dict[str, Any]:
    """Every table of a folder, without the rows that its files are read in."""
    return {str(f.relative_to(folder)): pq.read_table(f) for f in sorted(folder.rglob("*.parquet"))}


def test_a_split_that_leaks_is_refused_before_anything_is_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that gave an edge and its reverse two roles; the audit comes before parts are made."""
    monkeypatch.setattr(SplitRule, "roles", lambda self, block: np.where(block.backward, 2, block.low % 2).astype("i1"))
    files, said = write_files(edge_table(), tmp_path / "edges", 2), []
    with pytest.raises(LeakError, match="reversed"):
        prepare(files, tmp_path / "out", parts=3, memory=SMALL, protocol="clean", directed=True, tell=said.append)
    stages = [line.partition(":")[0] for line in said]
    assert "split" in stages
    assert not {"audit", "partition", "place-edges", "write-parts"} & set(stages)
    assert not (tmp_path / "out/manifest.json").exists()


def test_the_audit_says_what_was_checked(tmp_path: Path) -> None:
    said: list[str] = []
    files = write_files(edge_table(), tmp_path / "edges", 2)
    prepared = prepare(files, tmp_path / "out", parts=3, memory=SMALL, protocol="clean", time=False, tell=said.append)
    stages = [line.partition(":")[0] for line in said]
    assert stages.index("audit") < stages.index("partition") < stages.index("place-edges")
    (line,) = (line for line in said if line.startswith("audit"))
    assert f"{prepared.edges:,} edges in" in line and "no leaks" in line
    assert audit(read_prepared(tmp_path / "out")[1], raises=False).leaks == ()


def test_the_result_depends_neither_on_memory_nor_on_the_order_of_files(tmp_path: Path) -> None:
    table = edge_table().drop_columns(["weight"])
    files = sorted(write_files(table, tmp_path / "edges", 5).iterdir())
    prepare(files, tmp_path / "a", parts=3, protocol="clean")
    prepare(files[::-1], tmp_path / "b", parts=3, protocol="clean", memory=SMALL)
    ours, theirs = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert list(ours) == list(theirs)
    assert all(ours[name].equals(theirs[name]) for name in ours)
    other = prepare(files, tmp_path / "c", parts=3, protocol="clean", seed=1)
    assert other.roles == prepare(files, tmp_path / "a", parts=3, protocol="clean").roles
    assert not contents(tmp_path / "c")["edges/part-00000.parquet"].equals(ours["edges/part-00000.parquet"])


@pytest.mark.parametrize("partition", ["communities", "metis"])
def test_neighbours_share_a_part(tmp_path: Path, partition: Any) -> None:
    if partition == "metis":
        pytest.importorskip("pymetis", reason="pymetis is not installed")
    files = write_files(edge_table(20_000), tmp_path / "edges", 1)
    by_hash = prepare(files, tmp_path / "hash", parts=4, partition="hash")
    kept = prepare(files, tmp_path / "kept", parts=4, partition=partition)
    assert kept.partition == partition
    assert 0.7 < by_hash.cut_edges / by_hash.edges < 0.8
    assert kept.cut_edges < 0.5 * by_hash.cut_edges and sum(kept.boundary) < sum(by_hash.boundary)
    check_folder(kept, tmp_path / "kept")
    assert_same_graph(read_prepared(tmp_path / "kept")[0], read_prepared(tmp_path / "hash")[0])


def test_too_little_memory_for_communities_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    files = write_files(edge_table(), tmp_path / "edges", 1)
    prepared = prepare(files, tmp_path / "out", parts=2, memory=1e-5, tell=said.append)
    assert prepared.partition == "hash"
    assert any("communities needs about" in line and "--memory" in line for line in said)
    assert any(line.startswith("merge-edges: ") and "edges in" in line and "out" in line for line in said)


def test_a_model_learns_from_a_prepared_folder(tmp_path: Path) -> None:
    prepare(write_files(edge_table(3_000, 300), tmp_path / "edges", 2), tmp_path / "out", parts=2)
    graph, split = read_prepared(tmp_path / "out")
    model = LinkPredictor(training={"epochs": 1}, encoder={"hidden_size": 8}).fit(graph, split=split)
    assert model.recommend("n1", 3).to_dicts()
