"""email-Enron and knowledge graphs without types."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from data_set_files import real_data
from yinyan.datasets import knowledge, load
from yinyan.datasets.enron import FILE, read_enron
from yinyan.datasets.knowledge import read_knowledge
from yinyan.datasets.sources import ENRON
from yinyan.errors import InputError

PAIRS = "# Nodes: 4 Edges: 3\n# FromNodeId\tToNodeId\n0\t1\n1\t0\n1\t3\n3\t1\n2\t0\n0\t2\n"
TRIPLES = {
    "train": "/m/a\t/film/actor\t/m/b\n/m/a\t/film/director\t/m/b\n/m/c\t/film/actor\t/m/a\n",
    "valid": "/m/b\t/film/actor\t/m/a\n",
    "test": "/m/c\t/film/sequel\t/m/c\n/m/d\t/film/actor\t/m/b\n",
}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def write_triples(folder: Path, **changed: str) -> None:
    for part, text in {**TRIPLES, **changed}.items():
        write(folder / f"{part}.txt.gz", text)


def test_people_who_wrote_to_each_other_are_one_edge(tmp_path: Path) -> None:
    write(tmp_path / FILE, PAIRS)
    graph = read_enron(tmp_path / FILE)
    assert graph.edges.tolist() == [[0, 1], [0, 2], [1, 3]] and not graph.directed and graph.num_nodes == 4


@pytest.mark.parametrize("text", ["0 1 2\n", "0 -1\n", "a b\n", ""])
def test_other_lines_are_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path / FILE, text)
    with pytest.raises(InputError, match="needs lines of two numbers"):
        read_enron(tmp_path / FILE)


def test_emails_of_another_size_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "enron" / FILE, PAIRS)
    with pytest.raises(InputError, match=r"'email-enron' has 4 nodes, but 36,692 were published"):
        load("email-enron", folder=tmp_path, download=False)


def test_the_address_of_the_emails_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"allow the download of https://snap\.stanford\.edu/data/email-Enron\.txt\.gz"
    ):
        load("email-enron", folder=tmp_path, download=False)
    assert ENRON.sources[FILE].url.endswith(f"/data/{FILE}")


def test_triples_become_directed_edges_without_types(tmp_path: Path) -> None:
    write_triples(tmp_path)
    graph = read_knowledge(tmp_path)
    assert graph.directed and list(graph.ids) == ["/m/a", "/m/b", "/m/c", "/m/d"]
    assert sorted(graph.edges.tolist()) == [[0, 1], [1, 0], [2, 0], [3, 1]]
    assert graph.notes[-2:] == ("6 triples became 4 edges without types", "dropped 1 self loop")


@pytest.mark.parametrize("line", ["/m/a\t/m/b\n", "/m/a /film/actor /m/b\n"])
def test_lines_that_are_no_triples_are_refused(tmp_path: Path, line: str) -> None:
    write_triples(tmp_path, valid=line)
    with pytest.raises(InputError, match=r"valid\.txt\.gz' needs lines of head, relation and tail"):
        read_knowledge(tmp_path)


@pytest.mark.parametrize("name", knowledge.SIZES)
def test_without_the_files_their_layout_is_named(tmp_path: Path, name: str) -> None:
    lines = r"gzip files train\.txt\.gz, valid\.txt\.gz, test\.txt\.gz with lines of head, relation and tail"
    with pytest.raises(InputError, match=rf"no file 'kg/{name}/train\.txt\.gz'.*cannot be downloaded.*{lines}"):
        load(name, folder=tmp_path, download=True)


@pytest.mark.parametrize("name", knowledge.SIZES)
def test_real_knowledge_graphs_have_their_published_size(name: str) -> None:
    found = load(name, folder=real_data(f"kg/{name}"), download=False)
    size = knowledge.SIZES[name]
    assert (found.graph.num_nodes, found.graph.num_edges) == (size.nodes, size.edges)
    assert found.graph.directed and found.parts is None and "without types" in found.notes[0]


def test_real_emails_have_their_published_size() -> None:
    found = load("email-enron", folder=real_data("enron"), download=False)
    assert (found.graph.num_nodes, found.graph.num_edges) == (36_692, 183_831)
    assert not found.graph.directed and found.notes == ()
