"""What is message and what is target, for training, validation and test."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.deprecation import renamed_keyword
from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.moments import moment_in_words
from yinyan.randomness import named_seed
from yinyan.sampling import KnownPairs, distinct_pairs
from yinyan.splits.dividing import divide, divide_by_time, divides_by_time, refuse_few
from yinyan.splits.given import Parts
from yinyan.text import counted

__all__ = [
    "Split",
    "drawn_negatives",
    "given_split",
    "holdout_split",
    "known_pairs",
    "random_split",
    "released_split",
    "split_by_roles",
    "temporal_split",
    "with_leaks_allowed",
    "with_validation",
]

Pairs = NDArray[np.int64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """The edges of a graph divided by role.

    Targets are pairs of node rows, in the direction in which they were given. Messages are positions in `graph.edges`,
    sorted and distinct. Negatives are (m, 2) pairs that all links of a part are ranked against, or (p, k, 2) pairs, k
    for each link.

    Examples
    --------
    >>> from yinyan import random_split
    >>> split = random_split(graph, seed=0)
    >>> len(split.train_targets) + len(split.valid_targets) + len(split.test_targets) == graph.num_edges
    True
    """

    graph: Graph  # with the edges of all parts
    protocol: str  # name of the protocol
    seed: int  # of the parts and the negatives
    train_targets: Pairs  # (·, 2) links of the loss
    valid_targets: Pairs  # (·, 2) links that choose the best epoch
    test_targets: Pairs  # (·, 2) links that are scored once
    train_messages: Rows  # (·,) edges that pass messages in training
    valid_messages: Rows  # (·,) edges that pass messages when validation links are scored
    test_messages: Rows  # (·,) edges that pass messages when test links are scored
    known_in_training: Rows  # (·,) edges that the sampler of training negatives avoids
    valid_negatives: Pairs  # (m, 2) or (p, k, 2)
    test_negatives: Pairs  # (m, 2) or (p, k, 2)
    words: str = ""  # how the edges were divided
    leaks: str = ""  # why this split leaks, if it does so on purpose: the audit then accepts it

    @property
    def is_by_time(self) -> bool:
        """Whether the parts are cut at points in time."""
        return self.protocol.startswith(("temporal", "rolling"))

    def describe(self) -> str:
        """How the edges were divided, in words.

        Returns
        -------
        str
            Five lines: protocol, targets, messages, negatives, leaks.

        Examples
        --------
        >>> from yinyan import random_split
        >>> print(random_split(graph, seed=0).describe().splitlines()[-1])
        no target is among the messages that score it
        """
        targets = f"{len(self.train_targets):,} training, {len(self.valid_targets):,} validation"
        apart = "" if np.array_equal(self.train_messages, self.valid_messages) else "of its own "
        lines = [
            f"protocol '{self.protocol}', seed {self.seed}: {self.graph.num_edges:,} edges {self.words}",
            f"targets: {targets}, {len(self.test_targets):,} test links",
            f"messages: {self.train_messages.size:,} edges in training, {self.valid_messages.size:,} {apart}at "
            f"validation, {self.test_messages.size:,} at test time",
            f"negatives: {_negatives_in_words(self.valid_negatives)} for validation, "
            f"{_negatives_in_words(self.test_negatives)} for the test; training draws its own and knows "
            f"{self.known_in_training.size:,} edges",
            f"LEAKS: {self.leaks}" if self.leaks else self._hidden_in_words(),
        ]
        return "\n".join(lines)

    def graph_without_test(self) -> Graph:
        """The graph without the test edges, for whatever may not see them.

        Returns
        -------
        Graph
            A graph of the same nodes.

        Examples
        --------
        >>> from yinyan import random_split
        >>> split = random_split(graph, seed=0)
        >>> graph.num_edges - split.graph_without_test().num_edges == len(split.test_targets)
        True
        """
        kept = np.ones(self.graph.num_edges, dtype=np.bool_)
        places = self.graph.find_edges(self.test_targets)
        kept[places[places >= 0]] = False
        return self.graph.with_edges(kept)

    def _hidden_in_words(self) -> str:
        """A split that is given may score targets by themselves and not say so."""
        parts = ((self.valid_targets, self.valid_messages), (self.test_targets, self.test_messages))
        seen = sum(int(np.isin(self.graph.find_edges(pairs), messages).sum()) for pairs, messages in parts)
        leaks = f"LEAKS: targets among the messages that score them: {seen:,}"
        return leaks if seen else "no target is among the messages that score it"


@renamed_keyword("validation_messages", "valid_as_messages")
def random_split(
    graph: Graph,
    *,
    seed: int,
    valid_share: float = 0.1,
    test_share: float = 0.2,
    valid_negatives: int = 20_000,
    valid_as_messages: bool = False,
) -> Split:
    """Split edges at random by unordered pair, with one test negative per test link (protocol 'clean').

    Parameters
    ----------
    graph
        The graph whose edges are divided.
    seed
        Draws the parts and the negatives.
    valid_share, test_share
        Shares of the edges for validation and test.
    valid_negatives
        Number of negatives for validation, shared by all links.
    valid_as_messages
        Whether validation edges pass messages at test time (protocol 'clean+val').

    Returns
    -------
    Split
        The split.

    Raises
    ------
    InputError
        If the graph has fewer than 10 edges, or the shares leave none for training.

    Examples
    --------
    >>> from yinyan import random_split
    >>> random_split(graph, seed=0, valid_as_messages=True).protocol
    'clean+val'
    """
    return _from_parts(
        graph,
        divide(graph, seed, valid_share, test_share),
        protocol="clean",
        seed=seed,
        valid_negatives=valid_negatives,
        valid_as_messages=valid_as_messages,
        words="split at random by unordered pairs, so that an edge and its reverse share a part",
    )


def holdout_split(graph: Graph, *, seed: int, valid_share: float, valid_negatives: int) -> Split:
    """For a model that will be used: some edges choose the weights, and the final embeddings see them all.

    These are the latest ones where edges have times that divide them, and else random ones.
    """
    by_time = divides_by_time(graph, valid_share, None)
    if by_time:
        parts, first, _ = divide_by_time(graph, valid_share, None)
        words = f"of which the latest, from {moment_in_words(first)} on, are held out to choose the weights; no test"
    else:
        parts = divide(graph, seed, valid_share, 0.0)
        words = "of which some are held out at random to choose the weights; no test"
    split = _from_parts(
        graph,
        parts,
        protocol="temporal-holdout" if by_time else "holdout",
        seed=seed,
        valid_negatives=valid_negatives,
        words=words,
    )
    return _seeing_all(split)


def _seeing_all(split: Split) -> Split:
    """The split of a model that will be used: its final embeddings see every edge."""
    return replace(split, test_messages=np.arange(split.graph.num_edges, dtype=np.int64))


@renamed_keyword("validation_messages", "valid_as_messages")
def temporal_split(
    graph: Graph,
    *,
    seed: int,
    valid_share: float = 0.1,
    test_share: float = 0.2,
    valid_negatives: int = 20_000,
    valid_as_messages: bool = False,
) -> Split:
    """Split edges by time: the latest are the test, the latest of the others the validation (protocol 'temporal').

    Edges of one time share a part, so that the shares are met as nearly as the times allow.

    Parameters
    ----------
    graph
        A graph with `times`.
    seed
        Draws the negatives.
    valid_share, test_share
        Shares of the edges for validation and test.
    valid_negatives
        Number of negatives for validation, shared by all links.
    valid_as_messages
        Whether validation edges pass messages at test time (protocol 'temporal+val').

    Returns
    -------
    Split
        The split.

    Raises
    ------
    InputError
        If an edge lacks a time, the times leave a part empty, or there are fewer than 10 edges.

    Examples
    --------
    >>> from yinyan import Graph, temporal_split
    >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
    >>> split = temporal_split(dated, seed=0)
    >>> bool(split.train_messages.max() < dated.find_edges(split.test_targets).min())
    True
    """
    parts, first_valid, first_test = divide_by_time(graph, valid_share, test_share)
    return _from_parts(
        graph,
        parts,
        protocol="temporal",
        seed=seed,
        valid_negatives=valid_negatives,
        valid_as_messages=valid_as_messages,
        words=f"split by time: validation from {moment_in_words(first_valid)} on, test from "
        f"{moment_in_words(first_test)} on",
    )


def released_split(graph: Graph, *, seed: int, self_loops: Rows | None = None) -> Split:
    """The split of the paper's released code, with its faults. It leaks on purpose (protocol 'released').

    Directed copies of the edges are permuted. The reverse of most test links is a training edge, and most test links
    pass messages when they are scored. It exists to show where the published figures come from.

    Parameters
    ----------
    graph
        An undirected graph.
    seed
        Draws the parts and the negatives.
    self_loops
        Rows of nodes with a self loop in the raw data; they count as linked to themselves.

    Returns
    -------
    Split
        The split, with a text in `leaks`.

    Raises
    ------
    InputError
        If the graph is directed or has fewer than 10 edges.

    Examples
    --------
    >>> from yinyan import released_split
    >>> "test links" in released_split(graph, seed=0).leaks
    True
    """
    if graph.directed:
        raise InputError("the released split is one of undirected edges (the paper's graphs are undirected)")
    refuse_few(graph.num_edges)
    loops = np.empty(0, dtype=np.int64) if self_loops is None else self_loops
    both = np.concatenate([graph.edges, graph.edges[:, ::-1], np.stack([loops, loops], axis=1)])
    row = np.concatenate([np.tile(np.arange(graph.num_edges), 2), np.full(len(loops), -1)])
    order = np.random.default_rng(named_seed(seed, "split")).permutation(len(both))
    num_test, num_valid = len(both) // 5, len(both) // 10
    test, valid, train = np.split(order, [num_test, num_test + num_valid])
    false_test, false_valid = drawn_negatives(graph, seed, num_test, num_valid)
    seen, seen_in_test = (np.setdiff1d(row[part], -1) for part in (train, np.concatenate([train, valid])))
    leaked = np.isin(row[test], seen).mean(), np.isin(row[test], seen_in_test).mean()
    return Split(
        graph=graph,
        protocol="released",
        seed=seed,
        train_targets=both[train],
        valid_targets=both[valid],
        test_targets=both[test],
        train_messages=seen,
        valid_messages=seen,
        test_messages=seen_in_test,
        known_in_training=np.arange(graph.num_edges),
        valid_negatives=false_valid,
        test_negatives=false_test,
        words="split as directed copies, as the paper's released code does",
        leaks=f"{leaked[0]:.0%} of the test links are training labels in reverse, {leaked[1]:.0%} are messages when "
        "they are scored, and the training negatives avoid the test links",
    )


@renamed_keyword("validation_messages", "valid_as_messages")
def given_split(
    graph: Graph,
    parts: Parts,
    *,
    protocol: str = "given",
    seed: int = 0,
    valid_negatives: int = 20_000,
    valid_as_messages: bool = False,
) -> Split:
    """A split from parts that somebody else made; negatives that the parts lack are drawn.

    Parameters
    ----------
    graph
        The graph with the edges of all parts.
    parts
        The pairs of each part.
    protocol
        The name of the protocol in the split.
    seed
        Draws the negatives that the parts lack.
    valid_negatives
        Number of negatives for validation, if the parts have none.
    valid_as_messages
        Whether validation edges pass messages at test time ('+val' is added to the protocol).

    Returns
    -------
    Split
        The split. It is not audited: see `audit`.

    Raises
    ------
    InputError
        If a part has a pair that is no edge of the graph.

    Examples
    --------
    >>> from yinyan import Parts, given_split
    >>> train, valid, test = graph.edges[:-20], graph.edges[-20:-10], graph.edges[-10:]
    >>> given_split(graph, Parts(train, valid, test)).protocol
    'given'
    """
    return _from_parts(
        graph,
        parts,
        protocol=protocol,
        seed=seed,
        valid_negatives=valid_negatives,
        valid_as_messages=valid_as_messages,
        words="split as given",
    )


def split_by_roles(
    graph: Graph, roles: NDArray[np.int8], *, protocol: str, seed: int, valid_negatives: int = 20_000
) -> Split:
    """A split from the role of each edge: 0 training, 1 validation, 2 test; protocol 'holdout' has no test."""
    parts = Parts(*(graph.edges[roles == role] for role in range(3)))
    split = _from_parts(
        graph, parts, protocol=protocol, seed=seed, valid_negatives=valid_negatives, words="split before training"
    )
    return _seeing_all(split) if protocol == "holdout" else split


def known_pairs(graph: Graph, target_edges: Pairs) -> KnownPairs:
    """The pairs that a sampler must avoid, given (m, 2) rows of edges it may know."""
    pairs = torch.as_tensor(target_edges, dtype=torch.long)
    return KnownPairs.from_pairs(pairs, graph.num_nodes, graph.num_left, directed=graph.directed)


def with_leaks_allowed(split: Split, why: str) -> Split:
    """The same split with leaks that are known and meant, in words."""
    return replace(split, leaks=why)


def with_validation(parts: Parts, *, seed: int, share: float = 0.1) -> Parts:
    """The parts with a share of the training edges, drawn by the seed, as validation edges, if they have none."""
    if len(parts.valid):
        return parts
    count = round(share * len(parts.train))
    if not 0 < count < len(parts.train):
        raise InputError(
            f"'share' needs to leave edges for training and for validation (got {share} of {len(parts.train):,} edges)"
        )
    drawn = np.zeros(len(parts.train), dtype=np.bool_)
    drawn[np.random.default_rng(named_seed(seed, "split")).choice(len(drawn), count, replace=False)] = True
    return replace(parts, train=parts.train[~drawn], valid=parts.train[drawn])


def _from_parts(
    graph: Graph,
    parts: Parts,
    *,
    protocol: str,
    seed: int,
    valid_negatives: int,
    valid_as_messages: bool = False,
    words: str,
) -> Split:
    train, valid, _ = (np.unique(_edge_rows(graph, parts, name)) for name in ("train", "valid", "test"))
    false_valid, false_test = parts.valid_negatives, parts.test_negatives
    if false_valid is None or false_test is None:
        drawn_test, drawn_valid = drawn_negatives(graph, seed, len(parts.test), valid_negatives)
        false_valid = drawn_valid if false_valid is None else false_valid
        false_test = drawn_test if false_test is None else false_test
    return Split(
        graph=graph,
        protocol=f"{protocol}+val" if valid_as_messages else protocol,
        seed=seed,
        train_targets=parts.train,
        valid_targets=parts.valid,
        test_targets=parts.test,
        train_messages=train,
        valid_messages=train,
        test_messages=np.union1d(train, valid) if valid_as_messages else train,
        known_in_training=train,
        valid_negatives=false_valid.astype(np.int64, copy=False),
        test_negatives=false_test.astype(np.int64, copy=False),
        words=words,
    )


def _edge_rows(graph: Graph, parts: Parts, part: str) -> Rows:
    pairs: Pairs = getattr(parts, part)
    rows = graph.find_edges(pairs)
    if (rows < 0).any():
        a, b = pairs[np.flatnonzero(rows < 0)[0]]
        raise InputError(
            f"the part '{part}' has {counted(int((rows < 0).sum()), 'edge')} that the graph does not have "
            f"(first: {graph.ids[int(a)]!r} - {graph.ids[int(b)]!r}); the graph needs all parts' edges"
        )
    return rows


def drawn_negatives(graph: Graph, seed: int, num_test: int, num_valid: int) -> tuple[Pairs, Pairs]:
    """Disjoint test and validation negatives; where a graph has too few, half of them serve the test."""
    generator = torch.Generator().manual_seed(named_seed(seed, "evaluation_negatives"))
    pairs = distinct_pairs(known_pairs(graph, graph.edges), num_test + num_valid, generator).numpy()
    if len(pairs) < num_test + num_valid:
        num_test = min(num_test, len(pairs) // 2)
    return pairs[:num_test], pairs[num_test:]


def _negatives_in_words(pairs: Pairs) -> str:
    if pairs.ndim == 3:
        return f"{pairs.shape[1]:,} negatives for each of {pairs.shape[0]:,} links"
    return f"{len(pairs):,} negatives"
