"""Unseen nodes: the graph grows, the layers run again, nothing is retrained."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from yinyan.errors import InputError
from yinyan.features import Features, SparseFeatures, features_from_matrix
from yinyan.fitting import Fitted, embed_graph, our_encoder
from yinyan.graph import Graph
from yinyan.randomness import named_seed
from yinyan.tables import read_table
from yinyan.tensors import feature_tensor, message_graph
from yinyan.training import Model

__all__ = ["Extension", "extend", "new_features"]

Id = int | str
Rows = NDArray[np.int64]


class Extension(NamedTuple):
    """A fitted model that knows more nodes, and their rows in it."""

    fitted: Fitted
    rows: Rows


class _Growth(NamedTuple):
    """The grown graph, where old and new nodes went, and which links it may pass messages over."""

    graph: Graph
    old_rows: Rows
    new_rows: Rows
    message_edges: Rows
    new_links: Rows  # (·, 2) rows of the grown graph


def extend(fitted: Fitted, features: Any, links: Sequence[tuple[Id, Id]], ids: Sequence[Id] | None = None) -> Extension:
    """`fitted` with new nodes, called `ids` or, without, by their place 0..m-1 as the first end of `links`."""
    for place, link in enumerate(links):
        if not isinstance(link, Sequence | np.ndarray) or isinstance(link, str) or len(link) != 2:
            raise InputError(f"link {place} needs two ends (got {link!r})")
    count = _count(features, links, ids)
    ends = _ends(fitted.graph, links, ids, count)
    names = list(ids) if ids is not None else _free_names(fitted.graph, count)
    growth = _grow(fitted, new_features(fitted.graph, features, count), ends, names)
    model = _grown_model(fitted, growth)
    device = fitted.embeddings.device
    embeddings = embed_graph(
        model,
        feature_tensor(growth.graph.features, device),
        message_graph(growth.graph, growth.message_edges, device),
        fitted.settings,
        fitted.seed,
    )
    grown = replace(fitted, graph=growth.graph, message_edges=growth.message_edges, model=model, embeddings=embeddings)
    return Extension(grown, growth.new_rows)


def _count(features: Any, links: Sequence[tuple[Id, Id]], ids: Sequence[Id] | None) -> int:
    if ids is not None:
        return len(ids)
    if features is None:
        return 1 + max((int(link[0]) for link in links if isinstance(link[0], int | np.integer)), default=-1)
    if isinstance(features, Mapping):
        return len(next(iter(features.values()), ()))
    return int(features.shape[0]) if hasattr(features, "shape") else len(features)


def _ends(graph: Graph, links: Sequence[tuple[Id, Id]], ids: Sequence[Id] | None, count: int) -> Rows:
    """(·, 2) rows of the links, new node j standing at num_nodes + j."""
    n = graph.num_nodes
    place = {name: n + j for j, name in enumerate(range(count) if ids is None else ids)}
    found = np.empty((len(links), 2), dtype=np.int64)
    for i, link in enumerate(links):
        for side, end in enumerate(link):
            is_new = end in place and (ids is not None or side == 0)
            if ids is None and side == 0 and not is_new:
                names = f"the {count} new nodes are called 0..{count - 1}" if count else "there are no new nodes"
                raise InputError(f"link {i} starts at new node {end!r}, but {names} (or pass their names as 'ids')")
            found[i, side] = place[end] if is_new else graph.ids.row(end)
        if found[i].max() < n:
            raise InputError(f"link {i}, {link!r}, joins two known nodes: fit again to change what is known")
        if found[i, 0] == found[i, 1]:
            raise InputError(f"link {i} joins the new node {link[0]!r} to itself")
    return found


def _free_names(graph: Graph, count: int) -> list[Id]:
    """Names for nodes that nobody will ask for by name."""
    names: list[Id] = []
    serial = 0
    while len(names) < count:
        name: Id = -1 - serial if graph.ids.kind == "integer" else f"new node {serial}"
        names += [] if name in graph.ids else [name]
        serial += 1
    return names


def new_features(graph: Graph, features: Any, count: int) -> Features | None:
    """The rows of the new nodes in the form of the graph's own."""
    if graph.features is None:
        if features is not None:
            raise InputError("this model has no features: pass features=None for new nodes")
        return None
    if features is None:
        width = graph.features.shape[1]
        raise InputError(f"this model reads {width:,} features: pass a row of them for each new node")
    if graph.feature_encoder is not None and (isinstance(features, Mapping) or hasattr(features, "__arrow_c_stream__")):
        rows = graph.feature_encoder.transform(read_table(features))
    else:
        rows = features_from_matrix(features, count)
    if rows.shape != (count, graph.features.shape[1]):
        want = (count, graph.features.shape[1])
        raise InputError(f"'features' of new nodes need the shape {want} (got {tuple(rows.shape)})")
    return rows


def _grow(fitted: Fitted, features: Features | None, ends: Rows, names: Sequence[Id]) -> _Growth:
    graph = fitted.graph
    n, count = graph.num_nodes, len(names)
    sides = _new_sides(graph, ends, count)
    # side 0 stands before side 1, so a new node may have to move in between
    order = np.arange(n + count) if sides is None else np.argsort(sides, kind="stable")
    place = np.empty(n + count, dtype=np.int64)
    place[order] = np.arange(n + count)
    links = place[np.concatenate([graph.edges, ends])]
    if not graph.directed:
        links = np.sort(links, axis=1)
    keys, first = np.unique(links[:, 0] * (n + count) + links[:, 1], return_index=True)
    is_message = np.ones(len(links), dtype=bool)
    is_message[: graph.num_edges] = False
    is_message[fitted.message_edges] = True
    grown = Graph(
        ids=graph.ids.extended(names).select(order),
        edges=np.stack([keys // (n + count), keys % (n + count)], axis=1),
        weights=_padded(graph.weights, len(ends), np.mean)[first] if graph.weights is not None else None,
        times=_padded(graph.times, len(ends), np.max)[first] if graph.times is not None else None,
        features=_stacked(graph.features, features, order),
        sides=None if sides is None else sides[order],
        directed=graph.directed,
        feature_encoder=graph.feature_encoder,
        notes=graph.notes,
    )
    return _Growth(grown, place[:n], place[n:], np.flatnonzero(is_message[first]), links[graph.num_edges :])


def _new_sides(graph: Graph, ends: Rows, count: int) -> NDArray[np.int8] | None:
    if graph.sides is None:
        return None
    n = graph.num_nodes
    sides = np.concatenate([graph.sides, np.full(count, -1, dtype=np.int8)])
    for a, b in ends:
        new, known = (a, b) if a >= n else (b, a)
        if known >= n or sides[new] == sides[known]:
            raise InputError("in a bipartite graph each new node needs links to known nodes of one side only")
        sides[new] = 1 - sides[known]
    if (sides < 0).any():
        raise InputError("in a bipartite graph a new node without a link has no side: give each one a link")
    return sides


def _padded(values: NDArray[Any], count: int, fill: Any) -> NDArray[Any]:
    """Existing values, and for new links a typical one."""
    return np.concatenate([values, np.full(count, fill(values) if values.size else 1, dtype=values.dtype)])


def _stacked(old: Features | None, new: Features | None, order: Rows) -> Features | None:
    if old is None or new is None:
        return None
    if isinstance(old, SparseFeatures):
        more = new if isinstance(new, SparseFeatures) else _sparse(new)
        together = SparseFeatures(
            np.concatenate([old.indptr, old.indptr[-1] + more.indptr[1:]]),
            np.concatenate([old.indices, more.indices]),
            np.concatenate([old.values, more.values]),
            old.num_columns,
        )
        return together.take(order)
    dense = new.to_dense() if isinstance(new, SparseFeatures) else new
    return np.ascontiguousarray(np.concatenate([old, dense])[order])


def _sparse(dense: NDArray[np.float32]) -> SparseFeatures:
    rows, columns = np.nonzero(dense)
    counts = np.bincount(rows, minlength=len(dense))
    return SparseFeatures(np.concatenate([[0], np.cumsum(counts)]), columns, dense[rows, columns], dense.shape[1])


def _grown_model(fitted: Fitted, growth: _Growth) -> Model:
    """The same weights; a new node's learned embedding is the mean of its known neighbours'."""
    table = fitted.encoder.base.table
    if table is None:
        return fitted.model
    model = copy.deepcopy(fitted.model)
    old = table.detach()
    grown = old.new_zeros(growth.graph.num_nodes, old.shape[1])
    grown[torch.from_numpy(growth.old_rows)] = old
    if fitted.settings.encoder.inputs == "random":
        generator = torch.Generator().manual_seed(named_seed(fitted.seed, "new nodes"))
        drawn = torch.randn(len(growth.new_rows), old.shape[1], generator=generator) / old.shape[1] ** 0.5
        grown[torch.from_numpy(growth.new_rows)] = drawn.to(old)
    else:
        is_new = np.isin(growth.new_links, growth.new_rows)
        for row in growth.new_rows:
            mine = (growth.new_links == row).any(axis=1)
            near = growth.new_links[mine][~is_new[mine]]
            if near.size:
                grown[row] = grown[torch.from_numpy(near)].mean(0)
    base = our_encoder(model).base
    base.table = nn.Parameter(grown) if isinstance(table, nn.Parameter) else grown
    return model
