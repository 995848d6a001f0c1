"""Audits: does a split let the answers leak into training or into the messages?"""

from __future__ import annotations

from yinyan.auditing.findings import Audit, Finding, Log
from yinyan.auditing.link_checks import LINK_CHECKS
from yinyan.auditing.material import material_of
from yinyan.auditing.negative_checks import NEGATIVE_CHECKS
from yinyan.errors import LeakError
from yinyan.graph import Graph
from yinyan.splits import Parts, Split
from yinyan.text import counted

__all__ = ["Audit", "Finding", "audit"]


def audit(split: Split | Parts, *, graph: Graph | None = None, raises: bool = True) -> Audit:
    """Look for leaks in a split.

    Parameters
    ----------
    split
        A `Split`, or `Parts` that somebody else made.
    graph
        The graph of `Parts`: ids, directions, sides and edges that no part has. Without it the edges are undirected.
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
    material, log = material_of(split, graph), Log()
    for check in (*LINK_CHECKS, *NEGATIVE_CHECKS):
        check(material, log)
    found = log.finish()
    meant = isinstance(split, Split) and bool(split.leaks)
    if raises and found.leaks and not meant:
        lines = "\n".join(f"{finding.kind}: {finding.words}" for finding in found.leaks)
        raise LeakError(f"the split has {counted(len(found.leaks), 'leak')}\n{lines}")
    return found
