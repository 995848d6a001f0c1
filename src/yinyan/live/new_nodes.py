"""Unseen nodes: the graph grows, the layers run again, nothing is retrained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.features import Features, SparseFeatures, features_from_matrix, stacked_features
from yinyan.graph.tables import read_table
from yinyan.model.encoder import Encoder
from yinyan.model.fitted import Fitted, embed_graph, our_encoder
from yinyan.model.scoring import Model
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.randomness import Streams

__all__ = ["Extension", "Inputs", "extend", "new_features", "new_table_rows", "with_table"]

Id = int | str
Rows = NDArray[np.int64]


class Extension(NamedTuple):
    """A fitted model that knows more nodes, and their rows in it."""

    fitted: Fitted
    rows: Rows


class Inputs(NamedTuple):
    """What the encoder reads beside the links: of the model's nodes, and of those that arrived since."""

    features: tuple[Features, ...]  # of the model, and of each arrival
    table: Tensor | None  # (n, ·) learned or random inputs

    @classmethod
    def of(cls, fitted: Fitted) -> Inputs:
        """Those of a model as it was fitted."""
        table, features = fitted.encoder.base.table, fitted.graph.features
        return cls(() if features is None else (features,), None if table is None else table.detach())

    def with_nodes(self, fitted: Fitted, features: Features | None, near: Sequence[Rows]) -> Inputs:
        """With rows for new nodes: their features, and what the table gives them by the rows they are linked to."""
        table = self.table
        if table is not None:
            table = torch.cat([table, new_table_rows(table, near, fitted.settings.encoder.inputs, fitted.seed)])
        return Inputs(self.features if features is None else (*self.features, features), table)

    def all_features(self) -> Features | None:
        """The features of all nodes."""
        return stacked_features(self.features)


def new_table_rows(table: Tensor, near: Sequence[Rows], inputs: str, seed: int) -> Tensor:
    """(len(near), ·) rows of new nodes, which follow those of an (n, ·) table.

    A learned table gives a node the mean of its neighbours there are already, or zeros; a random one a draw of its own.
    """
    n, width = table.shape
    made = table.new_zeros(len(near), width)
    for place, rows in enumerate(near):
        known = rows[rows < n]
        if inputs == "random":
            generator = Streams.fresh(seed, f"new nodes/{n + place}", torch.device("cpu"))
            made[place] = torch.randn(width, generator=generator) * width**-0.5
        elif known.size:
            made[place] = table[torch.from_numpy(known)].mean(0)
    return made


def with_table(model: Model, table: Tensor | None) -> Model:
    """The same weights over a table with rows of new nodes."""
    encoder = our_encoder(model)
    if table is None or encoder.base.table is None or table.shape == encoder.base.table.shape:
        return model
    base = copy(encoder.base)
    base._parameters, base._buffers = dict(base._parameters), dict(base._buffers)
    base.table = nn.Parameter(table) if isinstance(encoder.base.table, nn.Parameter) else table
    grown: Encoder = copy(encoder)
    grown._modules = {**encoder._modules, "base": base}
    return Model(grown, model.decoder)


class _Growth(NamedTuple):
    """The grown graph, where its nodes come from and the new ones went, and which links it may pass messages over."""

    graph: Graph
    order: Rows  # of old nodes and then new ones
    new_rows: Rows
    message_edges: Rows


def extend(fitted: Fitted, features: Any, links: Sequence[tuple[Id, Id]], ids: Sequence[Id] | None = None) -> Extension:
    """`fitted` with new nodes, called `ids` or, without, by their place 0..m-1 as the first end of `links`."""
    for place, link in enumerate(links):
        if not isinstance(link, Sequence | np.ndarray) or isinstance(link, str) or len(link) != 2:
            raise InputError(f"link {place} needs two ends (got {link!r})")
    count, n = _count(features, links, ids), fitted.graph.num_nodes
    ends = _ends(fitted.graph, links, ids, count)
    names = list(ids) if ids is not None else _free_names(fitted.graph, count)
    near = [ends[(ends == row).any(axis=1)].ravel() for row in range(n, n + count)]
    inputs = Inputs.of(fitted).with_nodes(fitted, new_features(fitted.graph, features, count), near)
    growth = _grow(fitted, inputs.all_features(), ends, names)
    order = torch.from_numpy(growth.order)
    model = with_table(fitted.model, None if inputs.table is None else inputs.table[order])
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
        features=features.take(order) if isinstance(features, SparseFeatures) else _rows(features, order),
        sides=None if sides is None else sides[order],
        directed=graph.directed,
        feature_encoder=graph.feature_encoder,
        notes=graph.notes,
    )
    return _Growth(grown, order, place[n:], np.flatnonzero(is_message[first]))


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


def _rows(dense: NDArray[np.float32] | None, order: Rows) -> NDArray[np.float32] | None:
    return None if dense is None else np.ascontiguousarray(dense[order])
