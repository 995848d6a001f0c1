"""Bad input, end to end through the command line: one line that names the cure, and nothing else is touched."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import yinyan
from command_line import TINY, refused, works, write_links
from yinyan import Graph, LinkPredictor
from yinyan.errors import InputError
from yinyan.store import model_files


@pytest.fixture
def links(tmp_path: Path) -> Path:
    return tmp_path / "links.csv"


def fit_refused(links: Path, *arguments: object) -> str:
    """A fit that is to fail without leaving anything in its folder."""
    before = sorted(links.parent.iterdir())
    said = refused("fit", links, "--out", links.parent / "model", *TINY, *arguments)
    assert sorted(links.parent.iterdir()) == before
    return said


def ring(n: int = 20) -> list[tuple[str, str]]:
    return [(f"n{a}", f"n{(a + s) % n}") for a in range(n) for s in (1, 3)]


def write(path: Path, rows: list[tuple[object, ...]], header: tuple[str, ...] = ("source", "target")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


class TestTables:
    def test_missing_file(self, links: Path) -> None:
        assert "there is no file" in (said := fit_refused(links)) and "links.csv" in said

    def test_a_folder_for_a_file(self, links: Path) -> None:
        links.mkdir()
        assert "is a directory: expected a CSV, TSV, Parquet, JSON lines, Excel or Arrow file" in fit_refused(links)

    def test_empty_file(self, links: Path) -> None:
        links.touch()
        assert "links.csv is empty" in fit_refused(links)

    def test_only_a_header(self, links: Path) -> None:
        links.write_text("source,target\n")
        assert "links.csv has a header line but no rows" in fit_refused(links)

    def test_one_column(self, links: Path) -> None:
        links.write_text("source\na\nb\n")
        assert "--delimiter" in fit_refused(links)

    def test_no_header_line(self, links: Path) -> None:
        links.write_text("".join(f"{a},{(a + s) % 20}\n" for a in range(20) for s in (1, 3)))
        assert "--no-header" in fit_refused(links)
        assert "20 nodes" in works("fit", links, "--no-header", "--out", links.parent / "model", *TINY).err

    @pytest.mark.parametrize("name", ["links.csv", "links.tsv", "links.parquet"])
    def test_binary_garbage(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / name
        path.write_bytes(bytes(np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8)))
        assert f"{name} is a binary file: expected CSV or TSV text, or Parquet" in fit_refused(path)

    def test_rows_of_unequal_length(self, links: Path) -> None:
        links.write_text("source,target\na,b\nc,d,e\n")
        assert "links.csv, line 3: expected 2 columns, found 3" in fit_refused(links)

    def test_no_such_column(self, links: Path) -> None:
        write(links, ring())
        assert "nearest: 'target'" in fit_refused(links, "--target", "targte")


class TestIds:
    ODD = ("a,b", 'say "hi"', "two\nlines", "🐼", "007", "7", "'", "\\", "naïve", "日本", "#5", "-")

    def test_commas_quotes_newlines_and_emoji_go_in_and_come_out(self, links: Path) -> None:
        names = [*self.ODD, *(f"n{i}" for i in range(10))]
        write(links, [(a, names[(i + s) % len(names)]) for i, a in enumerate(names) for s in (1, 3, 4)])
        model = links.parent / "model"
        works("fit", links, "--out", model, *TINY, "-q", "--na", "")  # or "-" would be a missing value
        found = works("recommend", model, "-k", "2", "--json", "--", *self.ODD).json
        assert [row["source"] for row in found[::2]] == list(self.ODD)
        kept = LinkPredictor.load(model).graph_.ids
        assert set(kept.take(range(len(kept)))) == set(names)
        works("recommend", model, "--all", "-k", "1", "--out", links.parent / "out.csv", "-q")
        with (links.parent / "out.csv").open(newline="", encoding="utf-8") as file:
            assert {row["source"] for row in csv.DictReader(file)} == set(names)

    def test_surrogate_pairs_and_halves_of_them(self) -> None:
        graph = Graph.from_arrays([(0, 1), (1, 2)], ids=["\U0001f43c", "b", "c"])
        assert graph.ids.row("\U0001f43c") == 0
        with pytest.raises(InputError, match="surrogate"):
            Graph.from_arrays([(0, 1), (1, 2)], ids=["\ud83d", "b", "c"])

    def test_unknown_node_in_recommend(self, links: Path) -> None:
        works("fit", write(links, ring()), "--out", links.parent / "model", *TINY, "-q")
        said = refused("recommend", links.parent / "model", "n77")
        assert said.startswith("error: node 'n77' is not in the graph (20 nodes; nearest: 'n7', 'n17'")


class TestNumbers:
    @pytest.mark.parametrize(
        ("value", "said"), [("nan", "missing"), ("inf", "infinite"), ("-1.5", "negative"), ("", "missing")]
    )
    def test_weights(self, value: str, said: str, links: Path) -> None:
        rows = [(*pair, "1.0") for pair in ring()]
        rows[4] = (*rows[4][:2], value)
        message = fit_refused(write(links, rows, ("source", "target", "weight")))
        assert said in message and "row 5" in message

    @pytest.mark.parametrize(("value", "said"), [("inf", "infinite"), ("-inf", "infinite")])
    def test_infinite_features(self, value: str, said: str, links: Path) -> None:
        nodes = [(f"n{i}", str(i / 3)) for i in range(20)]
        nodes[3] = ("n3", value)
        table = write(links.parent / "nodes.csv", nodes, ("id", "size"))
        message = fit_refused(write(links, ring()), "--nodes", table)
        assert said in message and "'size'" in message and "n3" in message

    def test_nan_features_are_missing_values_and_said_so(self, links: Path) -> None:
        nodes = [(f"n{i}", "nan" if i == 3 else str(i / 3)) for i in range(20)]
        table = write(links.parent / "nodes.csv", nodes, ("id", "size"))
        ran = works("fit", write(links, ring()), "--nodes", table, "--out", links.parent / "model", *TINY)
        assert "column 'size': 1 missing value" in ran.err

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_feature_matrices(self, value: float) -> None:
        features = np.ones((3, 2), dtype=np.float32)
        features[1, 1] = value
        with pytest.raises(InputError, match=r"row 1\b|node 1\b"):
            Graph.from_arrays([(0, 1), (1, 2)], features=features)


class TestNodeTables:
    def test_a_feature_row_for_an_unknown_node(self, links: Path) -> None:
        table = write(links.parent / "nodes.csv", [(f"n{i}", i) for i in range(21)], ("id", "size"))
        said = fit_refused(write(links, ring()), "--nodes", table)
        assert "'n20'" in said and "--keep-unmatched" in said
        ran = works("fit", links, "--nodes", table, "--keep-unmatched", "--out", links.parent / "model", *TINY)
        assert "1 node without an edge" in ran.err
        assert len(works("recommend", links.parent / "model", "n20", "-k", "3", "--json").json) == 3

    def test_a_node_without_features(self, links: Path) -> None:
        table = write(links.parent / "nodes.csv", [(f"n{i}", i) for i in range(19)], ("id", "size"))
        said = fit_refused(write(links, ring()), "--nodes", table)
        assert "'n19'" in said and "--keep-unmatched" in said
        ran = works("fit", links, "--nodes", table, "--keep-unmatched", "--out", links.parent / "model", *TINY)
        assert "'n19'" in ran.err and "treated as missing" in ran.err

    def test_a_node_described_twice(self, links: Path) -> None:
        table = write(links.parent / "nodes.csv", [*((f"n{i}", i) for i in range(20)), ("n3", 9)], ("id", "size"))
        assert "'n3' occurs more than once" in fit_refused(write(links, ring()), "--nodes", table)


class TestShapes:
    def test_one_edge(self, links: Path) -> None:
        said = fit_refused(write(links, [("a", "b")]))
        assert "at least 10" in said

    def test_complete_graph(self, links: Path) -> None:
        pairs = [(f"n{a}", f"n{b}") for a in range(12) for b in range(a)]
        said = fit_refused(write(links, pairs))
        assert "the graph is complete: every pair is linked" in said

    def test_isolated_nodes_only(self, links: Path) -> None:
        said = fit_refused(write(links, [(f"n{i}", f"n{i}") for i in range(20)]))
        assert "0 edges" in said and "at least 10" in said

    def test_100_000_parallel_edges(self, links: Path) -> None:
        write(links, [*ring(), *[("n0", "n1")] * 100_000])
        ran = works("fit", links, "--out", links.parent / "model", *TINY)
        assert "merged 100,000 repeated edges" in ran.err and "20 nodes" in ran.err
        write(links, [("n0", "n1")] * 100_000)
        assert "the graph has 1 edge" in refused("fit", links, "--out", links.parent / "other", *TINY)

    def test_k_larger_than_the_number_of_candidates(self, links: Path) -> None:
        works("fit", write(links, ring()), "--out", links.parent / "model", *TINY, "-q")
        rows = works("recommend", links.parent / "model", "n0", "-k", "1000000", "--json").json
        assert len(rows) == 20 - 1 - 4
        assert [row["rank"] for row in rows] == list(range(1, 16))

    def test_a_node_that_is_linked_to_all_others(self, links: Path) -> None:
        write(links, [*ring(), *(("n0", f"n{i}") for i in range(1, 20))])
        works("fit", links, "--out", links.parent / "model", *TINY, "-q")
        assert works("recommend", links.parent / "model", "n0").out.startswith("no links to recommend")
        assert works("recommend", links.parent / "model", "n0", "--json").json == []


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if shutil.which("mount") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


class TestSaving:
    def test_a_full_disk_leaves_the_old_model(self, small_disk: Path, links: Path) -> None:
        write_links(links)
        model = small_disk / "model"
        works("fit", links, "--out", model, *TINY, "-q")
        before = snapshot(small_disk)
        said = refused("fit", links, "--out", model, "--set", "training.epochs=1", "--set", "encoder.hidden_size=512")
        assert "the disk is full: free some space" in said
        assert snapshot(small_disk) == before
        assert works("info", model, "--json").json["nodes"] == 60

    def test_a_read_only_disk(self, small_disk: Path, links: Path) -> None:
        write_links(links)
        works("fit", links, "--out", small_disk / "model", *TINY, "-q")
        before = snapshot(small_disk)
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        for out in (small_disk / "model", small_disk / "other"):
            assert "the file system is read-only: choose another place" in refused("fit", links, "--out", out, *TINY)
        rows = small_disk / "rows.csv"
        assert "read-only" in refused("recommend", small_disk / "model", "n1", "--out", rows)
        assert "read-only" in refused("recommend", small_disk / "model", "--all", "--out", rows)
        assert snapshot(small_disk) == before

    def test_a_read_only_folder(self, tmp_path: Path) -> None:
        if not hasattr(os, "geteuid") or os.geteuid() == 0:
            pytest.skip("permissions do not bind root")
        links, folder = write_links(tmp_path / "links.csv"), tmp_path / "folder"
        folder.mkdir(mode=0o555)
        assert "permission is denied" in refused("fit", links, "--out", folder / "model", *TINY)

    @pytest.mark.parametrize(
        ("number", "said"),
        [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "read-only"), (errno.EIO, os.strerror(errno.EIO))],
    )
    def test_any_error_while_saving_leaves_the_old_model(
        self, number: int, said: str, links: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = links.parent / "model"
        works("fit", write_links(links), "--out", model, *TINY, "-q")
        before = snapshot(links.parent)

        def fails(*args: Any, **kwargs: Any) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(model_files, "_write_manifest", fails)
        assert said in refused("fit", links, "--out", model, *TINY, "--seed", "1")
        assert snapshot(links.parent) == before


class TestModels:
    @pytest.fixture
    def model(self, links: Path) -> Path:
        works("fit", write_links(links), "--out", links.parent / "model", *TINY, "-q")
        return links.parent / "model"

    @pytest.mark.parametrize(("version", "cure"), [(99, "upgrade yinyan"), (0, "fit again")])
    def test_of_another_format_version(self, version: int, cure: str, model: Path) -> None:
        manifest = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
        (model / "manifest.json").write_text(json.dumps({**manifest, "format": version}), encoding="utf-8")
        for command in (("info", model), ("recommend", model, "n1"), ("explain", model, "n1", "n2")):
            said = refused(*command)
            assert f"format version {version}" in said and cure in said and yinyan.__version__ in said

    def test_truncated_altered_or_incomplete(self, model: Path) -> None:
        weights = model / "weights.safetensors"
        whole = weights.read_bytes()
        weights.write_bytes(whole[:-10])
        assert "weights.safetensors' is truncated" in refused("info", model)
        weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert "weights.safetensors' has been altered" in refused("info", model)
        weights.unlink()
        assert "weights.safetensors is missing" in refused("info", model)

    def test_no_model_at_all(self, tmp_path: Path) -> None:
        assert "no model directory" in refused("recommend", tmp_path / "absent", "n1")
        assert "is not a yinyan model" in refused("recommend", tmp_path, "n1")
