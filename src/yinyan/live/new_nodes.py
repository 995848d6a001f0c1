"""Unseen nodes: the graph grows, the layers run again, nothing is retrained."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.feature_matrix import as_numpy, clipped_features
from yinyan.graph.features import Features, SparseFeatures, features_from_matrix, stacked_features
from yinyan.graph.tables import read_table
from yinyan.model.encoder import Encoder
from yinyan.model.fitted import Fitted, embed_graph, our_encoder
from yinyan.model.scoring import Model
from yinyan.model.tensors import feature_tensor, mean_row, message_graph
from yinyan.randomness import Streams
from yinyan.retrieval.growing import GrowingList, GrowingRows
from yinyan.text import counted, listed

__all__ = [
    "Extension",
    "Inputs",
    "NewFeatures",
    "batches",
    "extend",
    "feature_remarks",
    "new_features",
    "new_table_rows",
    "padded",
    "with_table",
]

Id = int | str
Rows = NDArray[np.int64]

_FLOAT32 = float(np.finfo(np.float32).max)


class Extension(NamedTuple):
    """A fitted model that knows more nodes, and their rows in it."""

    fitted: Fitted
    rows: Rows


class Inputs(NamedTuple):
    """What the encoder reads beside the links: of the model's nodes, and of those that arrived since."""

    features: GrowingList[Features]  # of the model, and of each arrival
    rows: GrowingRows | None  # (n, ·) learned or random inputs

    @classmethod
    def of(cls, fitted: Fitted) -> Inputs:
        """Those of a model as it was fitted."""
        table, features = fitted.encoder.base.table, fitted.graph.features
        rows = None if table is None else GrowingRows(table.detach(), table.shape[0])
        return cls(GrowingList([] if features is None else [features]), rows)

    @property
    def table(self) -> Tensor | None:
        """(n, ·) learned or random inputs, if the encoder has any."""
        return None if self.rows is None else self.rows.rows

    def with_nodes(self, fitted: Fitted, features: Sequence[Features], near: Sequence[Rows]) -> Inputs:
        """With rows for new nodes: their features, and what the table gives them by the rows they are linked to."""
        rows = self.rows
        if rows is not None:
            for batch in batches(near, rows.count):
                rows = rows.extended(new_table_rows(rows.rows, batch, fitted.settings.encoder.inputs, fitted.seed))
        return Inputs(self.features.extended(features), rows)

    def all_features(self) -> Features | None:
        """The features of all nodes."""
        return stacked_features(self.features.listed())


def batches(near: Sequence[Rows], start: int) -> Iterator[Sequence[Rows]]:
    """New nodes, which follow row `start`, in runs of which none has a neighbour before it in its own run."""
    begin = 0
    for place, rows in enumerate(near):
        if place > begin and ((rows >= start + begin) & (rows < start + place)).any():
            yield near[begin:place]
            begin = place
    if begin < len(near):
        yield near[begin:]


def new_table_rows(table: Tensor, near: Sequence[Rows], inputs: str, seed: int) -> Tensor:
    """(len(near), ·) rows of new nodes, which follow those of an (n, ·) table.

    A learned table gives a node the mean of its neighbours there are already, or zeros; a random one a draw of its own.
    """
    n, width = table.shape
    made = table.new_zeros(len(near), width)
    if inputs == "random":
        for place in range(len(near)):
            generator = Streams.fresh(seed, f"new nodes/{n + place}", torch.device("cpu"))
            made[place] = torch.randn(width, generator=generator) * width**-0.5
        return made
    known = [rows[rows < n] for rows in near]
    counts = np.array([rows.size for rows in known])
    if counts.sum():
        owners, places, shares = (
            torch.from_numpy(x).to(table.device)
            for x in (np.repeat(np.arange(len(near)), counts), np.concatenate(known), np.maximum(counts, 1)[:, None])
        )
        made.index_add_(0, owners, table[places])
        made /= shares
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
    given = new_features(fitted.graph, features, count)
    if given is not None:
        outside = [names[place] for place in np.flatnonzero(given.outside).tolist()]
        for remark in feature_remarks(outside, names if given.imputed else ()):
            warnings.warn(remark, stacklevel=3)
    inputs = Inputs.of(fitted).with_nodes(fitted, [] if given is None else [given.values], near)
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
            found[i, side] = place[end] if is_new else graph.rows_of([end])[0]
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


class NewFeatures(NamedTuple):
    """Features of new nodes, within the range that training saw."""

    values: Features
    outside: NDArray[np.bool_]  # (rows,) which had to be clipped
    imputed: bool = False  # whether all rows are the mean of each column, since none were given

    def row(self, place: int) -> NewFeatures:
        """Those of one node."""
        values, here = self.values, slice(place, place + 1)
        row = values.take([place]) if isinstance(values, SparseFeatures) else values[here]
        return NewFeatures(row, self.outside[here], self.imputed)


def feature_remarks(clipped: Sequence[Id], imputed: Sequence[Id]) -> list[str]:
    """What a caller should know of the features of new nodes: those that were clipped, and those that were made up."""
    remarks = []
    if clipped:
        remarks.append(
            f"features of {counted(len(clipped), 'new node')} lie outside the range that training saw and were clipped "
            f"to it: {listed(clipped, 3)}"
        )
    if imputed:
        remarks.append(
            f"{counted(len(imputed), 'new node')} without features got the mean of each feature column: "
            f"{listed(imputed, 3)} (pass their features for better answers)"
        )
    return remarks


def new_features(graph: Graph, features: Any, count: int) -> NewFeatures | None:
    """The rows of the new nodes in the form of the graph's own, each value clipped to the range of its column.

    A finite value may still be so large that embeddings overflow: no node of the model had one like it. Without
    features, a node of a graph that has them gets the mean of each column.
    """
    means = graph.feature_means
    if graph.features is None or means is None:
        if features is not None:
            raise InputError("this model has no features: pass features=None for new nodes")
        return None
    if features is None:
        return NewFeatures(np.tile(means, (count, 1)), np.zeros(count, bool), imputed=True)
    if graph.feature_encoder is not None and (isinstance(features, Mapping) or hasattr(features, "__arrow_c_stream__")):
        try:
            table = read_table(features)
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise InputError(f"'features' of new nodes need one value per column and node ({error})") from error
        rows = graph.feature_encoder.transform(table)
    elif isinstance(features, Mapping):
        width = graph.features.shape[1]
        raise InputError(f"this model was not fitted on named columns: give features as a list of {width} numbers")
    else:
        rows = features_from_matrix(_within_float32(features), count)
    if rows.shape != (count, graph.features.shape[1]):
        want = (count, graph.features.shape[1])
        raise InputError(f"'features' of new nodes need the shape {want} (got {tuple(rows.shape)})")
    limits = graph.feature_range
    return NewFeatures(rows, np.zeros(count, bool)) if limits is None else NewFeatures(*clipped_features(rows, *limits))


def _within_float32(features: Any) -> Any:
    """Finite numbers beyond float32 at its ends, from where they are clipped to their column's range."""
    if hasattr(features, "shape") and not isinstance(features, np.ndarray):
        return features
    values = as_numpy(features)
    if values.dtype == object and all(type(x) in (int, float) for x in values.ravel().tolist()):
        values = np.clip(values, -_FLOAT32, _FLOAT32).astype(np.float64)  # integers beyond 64 bits
    if values.dtype.kind != "f":
        return values
    return np.where(np.isfinite(values), np.clip(values, -_FLOAT32, _FLOAT32), values)


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
        weights=padded(graph.weights, len(ends), np.mean)[first] if graph.weights is not None else None,
        times=padded(graph.times, len(ends), np.max)[first] if graph.times is not None else None,
        features=features.take(order) if isinstance(features, SparseFeatures) else _rows(features, order),
        sides=None if sides is None else sides[order],
        directed=graph.directed,
        feature_encoder=graph.feature_encoder,
        notes=graph.notes,
        columns=graph.columns,
        attributes=None if graph.attributes is None else graph.attributes.take(np.where(order < n, order, -1)),
        edge_features=_described(graph.edge_features, len(ends))[first] if graph.edge_features is not None else None,
        edge_encoder=graph.edge_encoder,
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


def padded(values: NDArray[Any], count: int, fill: Any) -> NDArray[Any]:
    """Existing values, and for new links a typical one."""
    return np.concatenate([values, np.full(count, fill(values) if values.size else 1, dtype=values.dtype)])


def _described(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Features of existing edges, and for new links their mean."""
    return np.concatenate([rows, np.repeat(mean_row(rows), count, axis=0)])


def _rows(dense: NDArray[np.float32] | None, order: Rows) -> NDArray[np.float32] | None:
    return None if dense is None else np.ascontiguousarray(dense[order])
