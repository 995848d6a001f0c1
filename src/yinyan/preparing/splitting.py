"""Fifth stage: the role of every edge, by a rule on the edge alone, audited before anything is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yinyan.auditing import audit
from yinyan.errors import InputError, LeakError
from yinyan.preparing.hashing import Hashes, pair_hashes, ranked_value
from yinyan.preparing.merging import EdgeBlock, edge_blocks
from yinyan.preparing.plan import Plan
from yinyan.preparing.tasks import Summary
from yinyan.randomness import named_seed
from yinyan.splits import Parts
from yinyan.splits.dividing import refuse_few

__all__ = ["ROLES", "SplitRule", "audit_range", "check_parts", "split_rule"]

ROLES = ("train", "valid", "test")
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True)
class SplitRule:
    """Two limits on a number that each edge has: its time, or a hash of its unordered pair."""

    temporal: bool
    num_nodes: int
    seed: int
    test: int  # from here on edges are of the test, by time; up to here, by hash. -1: none are
    valid: int  # the same for validation, among the others

    def roles(self, block: EdgeBlock) -> npt.NDArray[np.int8]:
        """0 training, 1 validation, 2 test, for each edge."""
        found = np.zeros(len(block.low), dtype=np.int8)
        values = _numbers(block, self.num_nodes, self.seed, temporal=self.temporal)
        found[values <= np.uint64(self.valid)] = 1
        if self.test >= 0:
            found[values <= np.uint64(self.test)] = 2
        return found


def split_rule(plan: Plan, num_nodes: int, edges: int, pairs: int) -> SplitRule:
    """The limits at which validation and test have their shares; edges of one time, or pair, share a part."""
    temporal, seed = plan.protocol == "temporal", named_seed(plan.seed, "split")
    count = edges if temporal else pairs
    refuse_few(count)
    num_test = round(plan.test_share * count)
    num_test = max(1, num_test) if temporal else num_test
    num_valid = max(1, round(plan.valid_share * count))
    if num_test + num_valid >= count:
        raise InputError(
            "'valid_share' and 'test_share' (--valid-share, --test-share) need to leave edges for training "
            f"(got {plan.valid_share} and {plan.test_share} of {count:,} edges)"
        )

    def numbers() -> Iterator[Hashes]:
        for block in edge_blocks(plan):
            found = _numbers(block, num_nodes, seed, temporal=temporal)
            yield found if temporal else found[block.is_first()]

    test = ranked_value(numbers, num_test) if num_test else -1
    return SplitRule(temporal, num_nodes, seed, test, ranked_value(numbers, num_test + num_valid))


def audit_range(plan: Plan, rule: SplitRule, place: Path, number: int) -> Summary:
    """Roles of one range, which has every copy of its pairs, and their audit: a leak is refused."""
    facts: Summary = {"rows": 0, "roles": [0, 0, 0], "first": [None] * 3, "last": [None] * 3, "checked": []}
    for block in edge_blocks(plan, number):
        roles = rule.roles(block)
        source, target = (np.where(block.backward, a, b) for a, b in ((block.high, block.low), (block.low, block.high)))
        pairs = np.stack([source, target], axis=1)
        facts["checked"] = _audited(plan, Parts(*(pairs[roles == role] for role in range(3))))
        facts["rows"] += len(roles)
        facts["roles"] = np.bincount(roles, minlength=3).tolist()
        for role in range(3):
            times = None if block.time is None else block.time[roles == role]
            if times is not None and len(times):
                facts["first"][role], facts["last"][role] = int(times.min()), int(times.max())
    return facts


def check_parts(plan: Plan, summaries: list[Summary]) -> list[int]:
    """The number of edges of each role; an empty part, or a training edge of the future, is refused."""
    counts = [sum(facts["roles"][role] for facts in summaries) for role in range(3)]
    needed = 2 if plan.protocol == "holdout" else 3
    if not all(counts[:needed]):
        raise InputError(
            f"the split leaves a part empty ({counts[0]:,} training, {counts[1]:,} validation, {counts[2]:,} test "
            "edges): too many edges have the same time, or the shares are too small (use other shares)"
        )
    if plan.protocol == "temporal":
        bounds: list[tuple[Callable[[list[int]], int], str]] = [(min, "first"), (max, "last")]
        ends = [
            [pick([f[name][role] for f in summaries if f[name][role] is not None]) for role in range(3)]
            for pick, name in bounds
        ]
        for role in (1, 2):
            if max(ends[1][:role]) >= ends[0][role]:
                raise LeakError(f"{ROLES[role]} edges begin at {ends[0][role]}, before the last of an earlier part")
    return counts


def _audited(plan: Plan, parts: Parts) -> list[str]:
    """What was checked; a leak is refused. By time, a directed edge and its reverse may be in two parts."""
    found = audit(parts, raises=False)
    by_time = plan.directed and plan.protocol == "temporal"
    leaks = [leak for leak in found.leaks if not (by_time and leak.kind == "reversed")]
    if leaks:
        raise LeakError("the split leaks\n" + "\n".join(f"{leak.kind}: {leak.words}" for leak in leaks))
    return list(found.checked)


def _numbers(block: EdgeBlock, num_nodes: int, seed: int, *, temporal: bool) -> Hashes:
    """What decides the role of an edge: the smallest of these are of the test."""
    if temporal and block.time is not None:
        return ~(block.time.astype(np.int64).view(np.uint64) ^ _SIGN)  # the latest are the smallest
    return pair_hashes(block.low, block.high, num_nodes, seed)
