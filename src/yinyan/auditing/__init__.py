"""Audits: does a split let the answers leak into training or into the messages?"""

from __future__ import annotations

from yinyan.auditing.findings import Audit, Finding, Log
from yinyan.auditing.link_checks import LINK_CHECKS
from yinyan.auditing.material import material_of
from yinyan.auditing.negative_checks import NEGATIVE_CHECKS
from yinyan.errors import LeakError
from yinyan.graph import Graph
from yinyan.parts import Parts
from yinyan.splits import Split
from yinyan.wording import counted

__all__ = ["Audit", "Finding", "audit"]


def audit(split: Split | Parts, *, graph: Graph | None = None, raises: bool = True) -> Audit:
    """Look for leaks in a split, ours or another's.

    `graph` says what rows mean in `Parts`: ids, directions, sides and links that no part has. Without it the
    links are taken to be undirected. A leak raises `LeakError`, unless `raises` is False or the split says in
    `leaks` that it is meant.
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
