"""Audits: does a split let the answers leak into training or into the messages, or a scorer into its scores?"""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from yinyan.auditing.findings import Audit, Finding, Log
from yinyan.auditing.link_checks import LINK_CHECKS
from yinyan.auditing.material import material_of
from yinyan.auditing.negative_checks import NEGATIVE_CHECKS
from yinyan.auditing.relation_checks import check_relations, check_test_links, relation_material
from yinyan.auditing.scorer_checks import AnyScorer, check_scorer, trial_of
from yinyan.auditing.time_checks import check_steps, messages_come_before
from yinyan.datasets.knowledge import KnowledgeGraph
from yinyan.errors import InputError, LeakError
from yinyan.graph import Graph
from yinyan.graph.typed_graph import TypedGraph
from yinyan.settings import Settings
from yinyan.splits import Parts, Split
from yinyan.splits.typed_split import TypedSplit
from yinyan.text import counted

__all__ = ["Audit", "Finding", "audit", "audit_scorer", "audit_steps"]


def audit(
    split: Split | Parts | TypedGraph | TypedSplit | KnowledgeGraph | Mapping[str, Parts],
    *,
    graph: Graph | TypedGraph | None = None,
    raises: bool = True,
) -> Audit:
    """Look for leaks in a split, and for relations that give each other's answers away.

    Parameters
    ----------
    split
        A `Split`, or `Parts` that somebody else made. A graph with relations is searched for near-duplicate and inverse
        relations; a split of one, a knowledge graph with its parts, or `Parts` by relation (as `yinyan audit` reads
        them) also for test links that are messages of another relation.
    graph
        The graph of `Parts`: ids, directions, sides and edges that no part has. Without it the edges are undirected.
        Of parts by relation the graph with relations, which is needed.
    raises
        Whether a leak is an error. A leak that the split declares in `leaks` is none.

    Returns
    -------
    Audit
        What was checked, and what was found.

    Raises
    ------
    LeakError
        If there is a leak, unless `raises` is False.
    InputError
        If `split` is of another type, or does not fit the graph.

    Examples
    --------
    >>> from yinyan import audit, random_split
    >>> audit(random_split(graph, seed=0)).leaks
    ()
    """
    if isinstance(split, TypedGraph | TypedSplit | KnowledgeGraph | Mapping):
        return _audit_relations(split, graph, raises=raises)
    if isinstance(graph, TypedGraph):
        raise InputError("these parts are of one relation: pass its graph, graph=whole.of_relation(name)")
    material, log = material_of(split, graph), Log()
    for check in (*LINK_CHECKS, messages_come_before, *NEGATIVE_CHECKS):
        check(material, log)
    found = log.finish()
    meant = isinstance(split, Split) and bool(split.leaks)
    if raises and not meant:
        _refuse_leaks("split", found)
    return found


def audit_scorer(score: AnyScorer, pairs: ArrayLike, labels: ArrayLike, *, raises: bool = True) -> Audit:
    """Look for scores that depend on the other pairs of their batch.

    Some published methods sum or normalise over the batch and score links and negatives in batches of their own. The
    batch then reveals the label. The audit scores the same pairs in one mixed batch, in batches of one label, in
    shuffled batches and one at a time. A difference beyond rounding is a leak. Noise between identical calls is
    reported apart from it.

    Parameters
    ----------
    score
        A function of (p, 2) pairs that returns (p,) scores, as an array or a tensor: what an evaluation calls, such as
        `model.score`.
    pairs
        (p, 2) links and negatives, at least five of each, in whatever ids the function takes.
    labels
        (p,) labels: 1 or True for links, 0 or False for negatives.
    raises
        Whether a leak is an error.

    Returns
    -------
    Audit
        What was checked, and what was found. `sizes` of a finding has the largest difference in standard deviations of
        the scores, and for batches of one label the AUC in these and in a mixed batch.

    Raises
    ------
    LeakError
        If scores depend on the batch, unless `raises` is False.
    InputError
        If pairs and labels do not fit together, have too few of one label, or `score` returns another shape.

    Examples
    --------
    >>> import numpy as np
    >>> from yinyan import audit_scorer, random_split
    >>> split = random_split(graph, seed=0)
    >>> pairs = np.concatenate([split.test_targets, split.test_negatives])
    >>> labels = np.arange(len(pairs)) < len(split.test_targets)
    >>> audit_scorer(model.score_rows, pairs, labels).leaks
    ()
    >>> centred = lambda pairs: model.score_rows(pairs) - model.score_rows(pairs).mean()
    >>> audit_scorer(centred, pairs, labels, raises=False).leaks[0].kind
    'batch-dependent'
    """
    trial, log = trial_of(score, pairs, labels), Log()
    check_scorer(trial, log)
    found = log.finish()
    if raises:
        _refuse_leaks("scorer", found)
    return found


def audit_steps(split: Split, settings: Settings | None = None, *, seed: int = 0, raises: bool = True) -> Audit:
    """Look for messages from the future in the steps of a training.

    The steps of one epoch are made as training makes them, without computing anything. In each, the latest message that
    is not hidden needs to be earlier than every link that the step predicts. `audit` looks at the split itself.

    Parameters
    ----------
    split
        A split of a graph with times, such as `temporal_split`.
    settings
        Settings of the training; those chosen for the graph unless given. The future comes in with
        `training.message_times` = 'all'.
    seed
        Seed of the batches.
    raises
        Whether a leak is an error.

    Returns
    -------
    Audit
        What was checked, and what was found.

    Raises
    ------
    LeakError
        If a step sees a message as late as one of its links, unless `raises` is False.
    InputError
        If `split` is no split of a graph with times.

    Examples
    --------
    >>> from yinyan import Graph, audit_steps, temporal_split
    >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
    >>> audit_steps(temporal_split(dated, seed=0)).leaks
    ()
    """
    if not isinstance(split, Split):
        raise InputError(f"an audit of steps needs a Split (got {type(split).__name__}): see yinyan.temporal_split")
    log = Log()
    check_steps(split, settings, seed, log)
    found = log.finish()
    if raises:
        _refuse_leaks("training", found)
    return found


def _audit_relations(
    data: TypedGraph | TypedSplit | KnowledgeGraph | Mapping[str, Parts],
    graph: Graph | TypedGraph | None,
    *,
    raises: bool,
) -> Audit:
    if not isinstance(graph, TypedGraph) if isinstance(data, Mapping) else graph is not None:
        raise InputError(
            "'graph' is for parts by relation, and they need it: other splits bring their own (Graph.from_tables makes "
            "a graph with relations)"
        )
    material, log = relation_material(data, graph if isinstance(graph, TypedGraph) else None), Log()
    check_relations(material, log)
    check_test_links(material, log)
    parts: dict[str, Audit] = {}
    if isinstance(data, TypedSplit):
        parts = {name: audit(part, raises=False) for name, part in data.parts.items()}
    elif isinstance(data, Mapping):
        views = {name: material.graph.of_relation(name) for name in data}
        parts = {name: audit(part, graph=views[name], raises=False) for name, part in data.items()}
    for name, found in parts.items():
        log.findings += [one._replace(words=f"relation {name!r}: {one.words}") for one in found.findings]
    if parts:
        log.looked(f"links and negatives of {counted(len(parts), 'relation')}, each as a split of its own")
    whole = log.finish()
    declared = isinstance(data, TypedSplit) and any(part.leaks for part in data.parts.values())
    if raises and not declared:
        _refuse_leaks("split", whole)
    return whole


def _refuse_leaks(what: str, found: Audit) -> None:
    if found.leaks:
        lines = "\n".join(f"{finding.kind}: {finding.words}" for finding in found.leaks)
        raise LeakError(f"the {what} has {counted(len(found.leaks), 'leak')}\n{lines}")
