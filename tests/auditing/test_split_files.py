"""Other people's splits: folders as they are found in the wild, and the command that audits them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from command_line import refused, run, works
from yinyan.auditing.split_files import read_split_folder
from yinyan.datasets import bundled_cora
from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.splits import Parts, random_split, released_split

NODES = 50


def made_graph(*, integers: bool = False) -> Graph:
    pairs = np.array([(a, b) for a in range(NODES) for b in range(a + 1, NODES)])
    chosen = np.random.default_rng(0).choice(len(pairs), 200, replace=False)
    ids = None if integers else [f"n{row}" for row in range(NODES)]
    return Graph.from_arrays(pairs[np.sort(chosen)], ids=ids, num_nodes=NODES)


def made_parts(graph: Graph) -> Parts:
    split = random_split(graph, seed=0, valid_negatives=25)
    return Parts(
        split.train_targets,
        split.valid_targets,
        split.test_targets,
        valid_negatives=split.valid_negatives,
        test_negatives=split.test_negatives,
    )


GRAPH, NUMBERED = made_graph(), made_graph(integers=True)
PARTS = made_parts(GRAPH)


def write_pairs(path: Path, pairs: np.ndarray, graph: Graph = GRAPH, *, header: str = "", between: str = ",") -> Path:
    rows = [f"{graph.ids[a]}{between}{graph.ids[b]}" for a, b in pairs.tolist()]
    path.write_text("".join(f"{line}\n" for line in ([header] if header else []) + rows), encoding="utf-8")
    return path


def write_folder(folder: Path, parts: Parts, graph: Graph = GRAPH) -> Path:
    folder.mkdir()
    for part in ("train", "valid", "test"):
        write_pairs(folder / f"{part}_pos.txt", getattr(parts, part), graph, between="\t")
        negatives = getattr(parts, f"{part}_negatives")
        if negatives is not None:
            write_pairs(folder / f"{part}_neg.txt", negatives, graph, between="\t")
    return folder


def same(read: Parts, parts: Parts, *names: str) -> bool:
    return all(
        np.array_equal(getattr(read, name), getattr(parts, name)) for name in names or ("train", "valid", "test")
    )


ALL = ("train", "valid", "test", "valid_negatives", "test_negatives")


class TestReading:
    def test_text_files_without_headers(self, tmp_path: Path) -> None:
        """The first line of text ids could be a header, but for the nodes that it names."""
        folder = write_folder(tmp_path / "split", PARTS)
        read = read_split_folder(folder, GRAPH)
        assert same(read.parts, PARTS, *ALL)
        assert read.notes == ()

    @pytest.mark.parametrize(
        ("train", "valid", "test", "negative"),
        [
            ("train.csv", "val.csv", "test.csv", "test_neg.csv"),
            ("train_edges.csv", "val_edges.csv", "test_edges.csv", "test_edges_false.csv"),
            ("Train-Pos.txt", "validation_pos.tsv", "TEST.POS.csv", "neg_test.txt"),
            ("training.tsv", "valid_links.csv", "test_positives.csv", "test_negatives.csv"),
            ("pos_train.csv", "dev.csv", "split_test.csv", "test_non_links.csv"),
        ],
    )
    def test_names(self, train: str, valid: str, test: str, negative: str, tmp_path: Path) -> None:
        assert PARTS.test_negatives is not None
        write_pairs(tmp_path / train, PARTS.train, header="source,target")
        write_pairs(tmp_path / valid, PARTS.valid, header="a;b", between=";")
        write_pairs(tmp_path / test, PARTS.test)
        write_pairs(tmp_path / negative, PARTS.test_negatives, between=" ")
        (tmp_path / "README.md").write_text("a split")
        (tmp_path / "train_features.npy").write_bytes(b"not read")
        read = read_split_folder(tmp_path, GRAPH)
        assert same(read.parts, PARTS, "train", "valid", "test", "test_negatives")
        assert read.parts.valid_negatives is None
        assert read.notes == (
            "left 'README.md' aside: its name is no part of a split",
            "left 'train_features.npy' aside: its name is no part of a split",
        )

    def test_numpy_parquet_and_no_validation(self, tmp_path: Path) -> None:
        np.save(tmp_path / "train.npy", PARTS.train.T)  # as PyTorch Geometric writes them
        table = {
            "from": [NUMBERED.ids[a] for a, _ in PARTS.test.tolist()],
            "to": PARTS.test[:, 1],
            "w": PARTS.test[:, 1],
        }
        pq.write_table(pa.table(table), tmp_path / "test.parquet")
        own = np.random.default_rng(0).integers(NODES, size=(len(PARTS.test), 4, 2))
        np.save(tmp_path / "test_neg.npy", own.astype(np.int32))
        read = read_split_folder(tmp_path, NUMBERED)
        assert same(read.parts, PARTS, "train", "test")
        assert np.array_equal(np.asarray(read.parts.test_negatives), own)
        assert read.parts.valid.shape == (0, 2)
        assert read.notes == ("no validation links",)

    @pytest.mark.parametrize("text", [False, True])
    def test_one_archive_of_arrays(self, text: bool, tmp_path: Path) -> None:
        """Integers in arrays may mean ids that a CSV made text."""
        graph = Graph.from_arrays(GRAPH.edges, ids=[str(row) for row in range(NODES)]) if text else NUMBERED
        np.savez(
            tmp_path / "split.npz", train_edge=PARTS.train, val_edge=PARTS.valid, test_edge=PARTS.test,
            test_edge_neg=PARTS.test_negatives, weight=np.ones(3),
        )  # fmt: skip
        assert same(read_split_folder(tmp_path, graph).parts, PARTS, "train", "valid", "test", "test_negatives")

    def test_labels(self, tmp_path: Path) -> None:
        for part in ("train", "valid", "test"):
            pairs, negatives = getattr(PARTS, part), getattr(PARTS, f"{part}_negatives")
            rows = [f"{GRAPH.ids[a]},{GRAPH.ids[b]},1" for a, b in pairs.tolist()]
            rows += [f"{GRAPH.ids[a]},{GRAPH.ids[b]},0" for a, b in ([] if negatives is None else negatives.tolist())]
            (tmp_path / f"{part}.csv").write_text("\n".join(["node1,node2,label", *rows]) + "\n")
        read = read_split_folder(tmp_path, GRAPH)
        assert same(read.parts, PARTS, *ALL)
        (tmp_path / "test.csv").write_text("node1,node2,label\nn1,n2,yes\n")
        with pytest.raises(InputError, match=r"test.csv needs 0 or 1 in each row of column 'label'"):
            read_split_folder(tmp_path, GRAPH)

    def test_ogb(self, tmp_path: Path) -> None:
        assert PARTS.test_negatives is not None
        torch.save({"edge": PARTS.train, "weight": np.ones(3)}, tmp_path / "train.pt")
        torch.save({"edge": PARTS.valid, "edge_neg": PARTS.valid_negatives}, tmp_path / "valid.pt")
        others = np.random.default_rng(0).integers(NODES, size=(len(PARTS.test), 4))
        held = {
            "source_node": PARTS.test[:, 0].copy(),
            "target_node": PARTS.test[:, 1].copy(),
            "target_node_neg": others,
        }
        torch.save(held, tmp_path / "test.pt")
        read = read_split_folder(tmp_path, NUMBERED).parts
        assert same(read, PARTS, "train", "valid", "test", "valid_negatives")
        negatives = np.asarray(read.test_negatives)
        assert np.array_equal(negatives[:, :, 1], others)
        assert (negatives[:, :, 0] == PARTS.test[:, :1]).all()

    def test_tensors(self, tmp_path: Path) -> None:
        torch.save(torch.from_numpy(PARTS.train), tmp_path / "train_pos.pt")
        torch.save({"edge": torch.from_numpy(PARTS.valid).T, "weight": torch.ones(3)}, tmp_path / "valid.pt")
        torch.save(torch.from_numpy(PARTS.test), tmp_path / "test.pt")
        assert same(read_split_folder(tmp_path, NUMBERED).parts, PARTS)

    def test_files_that_ask_to_run_code_are_refused(self, tmp_path: Path) -> None:
        torch.save({"edge": Path("x")}, tmp_path / "train.pt")
        with pytest.raises(InputError, match="asks for pathlib"):
            read_split_folder(tmp_path, NUMBERED)

    def test_heart_samples_are_taken_before_shared_ones(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "split", PARTS, NUMBERED)
        own = np.random.default_rng(0).integers(NODES, size=(len(PARTS.test), 4, 2))
        np.save(folder / "heart_test_samples.npy", own)
        read = read_split_folder(folder, NUMBERED)
        assert np.array_equal(np.asarray(read.parts.test_negatives), own)
        assert same(read.parts, PARTS, "valid_negatives")
        assert read.notes == ("left 'test_neg.txt' aside: 'heart_test_samples.npy' is taken",)

    def test_prefixes(self, tmp_path: Path) -> None:
        links = tmp_path / "links.csv"
        pairs = [(u, (u * 3 + s) % 15) for u in range(20) for s in range(5)]
        links.write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in pairs))
        graph = Graph.from_table(links, bipartite=True, prefixes=("user:", "item:"))
        (tmp_path / "split").mkdir()
        for part, some in (("train", pairs[20:]), ("valid", pairs[:10]), ("test", pairs[10:20])):
            np.save(tmp_path / "split" / f"{part}.npy", np.array(some))
        read = read_split_folder(tmp_path / "split", graph, prefixes=("user:", "item:")).parts
        named = [(graph.ids[a], graph.ids[b]) for a, b in read.test.tolist()]
        assert named == [(f"user:{u}", f"item:{i}") for u, i in pairs[10:20]]


class TestRefusals:
    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="is not a folder: name the folder"):
            read_split_folder(tmp_path / "absent", GRAPH)

    @pytest.mark.parametrize("missing", ["train", "test"])
    def test_missing_parts(self, missing: str, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "split", PARTS)
        (folder / f"{missing}_pos.txt").unlink()
        with pytest.raises(InputError, match=f"has no links of '{missing}' .*valid_pos.txt.*: name the files train, "):
            read_split_folder(folder, GRAPH)

    def test_two_files_for_one_part(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "split", PARTS)
        write_pairs(folder / "val.csv", PARTS.valid)
        with pytest.raises(
            InputError, match=r"the valid links are given more than once, by 'val.csv' and 'valid_pos.txt'"
        ):
            read_split_folder(folder, GRAPH)

    def test_unknown_nodes(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "split", PARTS)
        with (folder / "test_neg.txt").open("a") as file:
            file.write("n1\tn99\n")
        with pytest.raises(InputError, match=r"'test_neg.txt': node 'n99' is not in the graph .* --nodes adds nodes"):
            read_split_folder(folder, GRAPH)

    def test_a_missing_end(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "split", PARTS)
        with (folder / "test_neg.txt").open("a") as file:
            file.write("n1\t\n")
        with pytest.raises(InputError, match=r"'test_neg.txt': a pair lacks an end"):
            read_split_folder(folder, GRAPH)

    @pytest.mark.parametrize(
        "array", [np.zeros((4, 3), np.int64), np.zeros((4, 2)), np.zeros(4, np.int64), np.zeros((4, 3, 2), np.int64)]
    )
    def test_arrays_that_are_no_pairs(self, array: np.ndarray, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "split", PARTS, NUMBERED)
        (folder / "train_pos.txt").unlink()
        np.save(folder / "train.npy", array)
        with pytest.raises(InputError, match=r"'train.npy' needs to be an array of ids of shape \(pairs, 2\) \(got"):
            read_split_folder(folder, NUMBERED)

    @pytest.mark.parametrize("name", ["train.npy", "train.npz", "train.pt", "train.parquet"])
    def test_damaged_files(self, name: str, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "split", PARTS)
        (folder / "train_pos.txt").unlink()
        (folder / name).write_bytes(b"PAR1 \x93NUMPY PK")
        with pytest.raises(InputError, match=name):
            read_split_folder(folder, GRAPH)

    def test_pickled_objects_are_not_loaded(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "split", PARTS)
        (folder / "train_pos.txt").unlink()
        np.save(folder / "train.npy", np.array([print, 1], dtype=object), allow_pickle=True)
        with pytest.raises(InputError, match=r"train.npy' cannot be read .* save a plain array"):
            read_split_folder(folder, GRAPH)


class TestCommand:
    @pytest.fixture
    def links(self, tmp_path: Path) -> Path:
        return write_pairs(tmp_path / "links.csv", GRAPH.edges, header="source,target")

    def test_a_clean_split_passes(self, links: Path, tmp_path: Path) -> None:
        ran = works("audit", links, write_folder(tmp_path / "split", PARTS))
        assert ran.out.startswith("no leaks, 0 warnings\nchecked:\n- links in two parts")
        assert "50 nodes (text ids), 200 edges" in ran.err

    def test_the_authors_split_is_caught(self, tmp_path: Path) -> None:
        cora = bundled_cora()
        split = released_split(cora, seed=0)
        links = write_pairs(tmp_path / "cora.csv", cora.edges, cora, header="source,target")
        parts = Parts(split.train_targets, split.valid_targets, split.test_targets, test_negatives=split.test_negatives)
        ran = run("audit", links, write_folder(tmp_path / "split", parts, cora))
        assert ran.code == 1
        assert ran.out.startswith(
            "3 leaks, 3 warnings\nLEAK reversed: validation links whose reverse is a training link"
        )
        assert f"{len(split.test_targets):,} (70." in ran.out

    def test_json(self, links: Path, tmp_path: Path) -> None:
        leaking = replace(PARTS, train=np.concatenate([PARTS.train, PARTS.test[:3]]))
        ran = run("audit", links, write_folder(tmp_path / "split", leaking), "--json", "--quiet")
        assert (ran.code, ran.err) == (1, "")
        assert ran.json["leaks"] == 1
        (finding,) = ran.json["findings"]
        first = [GRAPH.ids[row] for row in PARTS.test[0].tolist()]
        assert (finding["kind"], finding["count"], finding["example"]) == ("repeated", 3, first)

    def test_directed(self, links: Path, tmp_path: Path) -> None:
        turned = replace(PARTS, train=np.concatenate([PARTS.train, PARTS.test[:3, ::-1]]))
        folder = write_folder(tmp_path / "split", turned)
        assert "LEAK reversed" in run("audit", links, folder).out
        ran = works("audit", links, folder, "--directed")
        assert "warning reversed: test links whose reverse is a training link: 3 of" in ran.out
        assert "warning not-in-graph" in ran.out

    def test_what_was_left_aside_is_said(self, links: Path, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "split", PARTS)
        (folder / "notes.md").write_text("mine")
        assert "left 'notes.md' aside" in works("audit", links, folder).err

    def test_refusals_are_one_line(self, links: Path, tmp_path: Path) -> None:
        assert "is not a folder" in refused("audit", links, tmp_path / "absent", "--quiet")
        (tmp_path / "empty").mkdir()
        assert "has no links of 'train' (it holds nothing)" in refused("audit", links, tmp_path / "empty", "--quiet")

    def test_help_shows_every_flag_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("TERMINAL_WIDTH", "80")
        assert "…" not in works("audit", "--help").out

    def test_heart_citeseer(self, tmp_path: Path) -> None:
        """No leak, but not spotless: its hard non-links of the test include links of the test."""
        data = os.environ.get("YINYAN_DATA")
        folder = Path(data or "") / "heart" / "citeseer"
        if data is None or not folder.is_dir():
            pytest.skip("needs HeaRT's folder 'heart/citeseer' in $YINYAN_DATA")
        links = tmp_path / "citeseer.tsv"
        rows = "".join((folder / f"{part}_pos.txt").read_text() for part in ("train", "valid", "test"))
        links.write_text(f"source\ttarget\n{rows}")
        ran = works("audit", links, folder, "--json", "--quiet")
        counts = {(f["kind"], f["words"].split()[0]): f["count"] for f in ran.json["findings"]}
        assert ran.json["leaks"] == 0
        assert counts == {
            ("self-pairs", "training"): 48,
            ("mislabelled", "validation"): 267,
            ("mislabelled", "test"): 461,
            ("doubled-negatives", "test"): 12,
            ("shared-negatives", "validation"): 89,
            ("shared-negatives", "test"): 163,
        }
