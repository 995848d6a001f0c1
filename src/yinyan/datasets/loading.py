"""Data sets by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from yinyan.datasets import collegemsg, enron, knowledge, ogb, planetoid, recommender, seal
from yinyan.datasets.bundled import LASTFM_SIZES, bundled_lastfm
from yinyan.datasets.dataset import Dataset, Size, check_size
from yinyan.datasets.heart import read_heart
from yinyan.datasets.knowledge import KnowledgeGraph
from yinyan.datasets.places import Places
from yinyan.datasets.sources import (
    COLLEGEMSG,
    ENRON,
    heart_group,
    knowledge_group,
    ogb_group,
    planetoid_group,
    recommender_group,
    seal_group,
)
from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.progress import Progress

__all__ = ["NAMES", "load", "load_knowledge_graph"]


def load(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: Progress | None = None,
) -> Dataset:
    """Load a data set by its name.

    `fixed-*` are the splits of the HeaRT benchmark with uniform negatives, `heart-*` the same with hard negatives.
    `citeulike`, `amazon-beauty` and `ml-1m` are bipartite graphs of users and items with a fixed split, judged by full
    ranking. There is no download for them. `fb15k-237` and `wn18rr` are directed graphs of entities without the types
    of their edges, without a download either.

    Parameters
    ----------
    name
        One of `yinyan.datasets.NAMES`.
    folder
        The folder of the files; $YINYAN_DATA, and then the user's cache, unless given.
    download
        Whether missing files are downloaded, to the folder or the cache.
    progress
        Shows the progress of a download.

    Returns
    -------
    Dataset
        The graph, its split if it comes with one, and its usual metric.

    Raises
    ------
    InputError
        If there is no such data set or folder, or the files are missing or damaged.
    MissingExtraError
        If the data set comes with an extra that is not installed.

    Examples
    --------
    >>> from yinyan import datasets
    >>> datasets.load("lastfm-friends", download=False).graph
    Graph(undirected, nodes=1,892, edges=12,717, features=None)
    """
    if name not in _READERS:
        near = get_close_matches(str(name), NAMES, n=3, cutoff=0.5)
        known = ", ".join(repr(found) for found in near or NAMES)
        raise InputError(f"no data set is called {name!r} ({'nearest' if near else 'known'}: {known})")
    given = None if folder is None else Path(folder).expanduser()
    if given is not None and not download and not given.is_dir():
        raise InputError(f"'{given}' is not a folder: give the one that holds planetoid/, heart/, ogbl_ddi/ and so on")
    found = _READERS[name](name, Places(given, download, progress))
    return replace(found, notes=found.graph.notes)


def load_knowledge_graph(
    name: str, *, folder: str | os.PathLike[str] | None = None, download: bool = True
) -> KnowledgeGraph:
    """Load a knowledge graph with its relations and its parts. There is no download: the files have to be there.

    Parameters
    ----------
    name
        'fb15k-237' or 'wn18rr'.
    folder
        The folder of the files; $YINYAN_DATA, and then the user's cache, unless given.
    download
        Whether missing files are looked for elsewhere.

    Returns
    -------
    KnowledgeGraph
        The graph, and the triples of training, validation and test.

    Raises
    ------
    InputError
        If there is no such data set or folder, or the files are missing or damaged.

    Examples
    --------
    >>> from yinyan import datasets
    >>> len(datasets.load_knowledge_graph("wn18rr").graph.relations)  # doctest: +SKIP
    11
    """
    if name not in knowledge.TRIPLES:
        raise InputError(f"no knowledge graph is called {name!r} (known: {', '.join(map(repr, knowledge.TRIPLES))})")
    places = Places(None if folder is None else Path(folder).expanduser(), download, None)
    return knowledge.read_triples(places.obtain(knowledge_group(name)), name)


def _planetoid(name: str, places: Places) -> Dataset:
    graph, looped = planetoid.read_planetoid(places.obtain(planetoid_group(name)), name)
    return replace(_whole(name, graph, planetoid.SIZES[name]), self_loops=looped)


def _heart(name: str, places: Places) -> Dataset:
    kind, _, of = name.partition("-")
    hard = kind == "heart"
    folder = places.obtain(heart_group(of, hard=hard))
    graph, parts = read_heart(folder, _planetoid(of, places).graph, hard=hard)
    return Dataset(name, graph, parts, "mrr" if hard else "hits@100")


def _ogb(name: str, places: Places) -> Dataset:
    layout = ogb.LAYOUTS[name]
    graph, parts = ogb.read_ogb(places.obtain(ogb_group(layout)), layout)
    check_size(name, graph, parts, layout.size)
    return Dataset(name, graph, parts, layout.metric, leaks=layout.leaks)


def _recommender(name: str, places: Places) -> Dataset:
    layout = recommender.LAYOUTS[name]
    graph, parts = recommender.read_recommender(places.obtain(recommender_group(name)), layout)
    check_size(name, graph, parts, layout.size)
    return Dataset(name, graph, parts, "ndcg@20")


def _seal(name: str, places: Places) -> Dataset:
    return _whole(name, seal.read_seal(places.obtain(seal_group(name)) / seal.FILES[name]), seal.SIZES[name])


def _collegemsg(name: str, places: Places) -> Dataset:
    path = places.find(COLLEGEMSG.folder, collegemsg.FILES) or collegemsg.packaged_file()
    graph = collegemsg.read_collegemsg(path or places.obtain(COLLEGEMSG) / collegemsg.FILES[0])
    return _whole(name, graph, collegemsg.SIZE)


def _enron(name: str, places: Places) -> Dataset:
    return _whole(name, enron.read_enron(places.obtain(ENRON) / enron.FILE), enron.SIZE)


def _knowledge(name: str, places: Places) -> Dataset:
    return _whole(name, knowledge.read_knowledge(places.obtain(knowledge_group(name))), knowledge.SIZES[name])


def _lastfm(name: str, places: Places) -> Dataset:
    return _whole(name, bundled_lastfm(name), LASTFM_SIZES[name])


def _whole(name: str, graph: Graph, size: Size) -> Dataset:
    """A graph without a split of its own."""
    check_size(name, graph, None, size)
    return Dataset(name, graph, None, "hits@100")


_READERS: dict[str, Callable[[str, Places], Dataset]] = {
    **dict.fromkeys(planetoid.SIZES, _planetoid),
    **dict.fromkeys((f"{kind}-{of}" for kind in ("fixed", "heart") for of in planetoid.SIZES), _heart),
    **dict.fromkeys(ogb.LAYOUTS, _ogb),
    **dict.fromkeys(seal.FILES, _seal),
    "collegemsg": _collegemsg,
    "email-enron": _enron,
    **dict.fromkeys(LASTFM_SIZES, _lastfm),
    **dict.fromkeys(knowledge.SIZES, _knowledge),
    **dict.fromkeys(recommender.LAYOUTS, _recommender),
}

NAMES = tuple(_READERS)
