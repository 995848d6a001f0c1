"""Leaks through negatives: known answers, easy ones and wrong ones."""

from __future__ import annotations

import math

import numpy as np

from yinyan.auditing.findings import Log, Tally
from yinyan.auditing.material import ACROSS, NAMES, AnyPairs, Mask, Material, contains, of_one_node
from yinyan.graph.edge_lists import distinct

__all__ = ["NEGATIVE_CHECKS"]

_ENOUGH = 10.0  # expected hits of which none comes by chance once in 22,000
_EASY, _RARE = 0.5, 0.1  # shares of negatives and of links that touch a node without messages


def sampler_is_ignorant(material: Material, log: Log) -> None:
    """Training's negatives are drawn without knowledge of the held-out links."""
    train = material.target_keys["train"]
    if material.known is not None:
        known = distinct(material.keys(material.known))
        beyond_training = known[~contains(train, known)]
        for part in ("valid", "test"):
            avoided = material.tally(material.targets[part], material.among(beyond_training))
            log.found("sampler-knows", avoided, f"{NAMES[part]} links that training's sampler of negatives avoids")
        log.looked(f"the {len(known):,} links that training's sampler of negatives avoids")
    elif "train" in material.negatives:
        _test_of_avoidance(material, log)
    else:
        log.looked("training negatives: the split brings none")


def _test_of_avoidance(material: Material, log: Log) -> None:
    """Uniform negatives of the training graph hit held-out links at times; if none does, they were avoided."""
    train = material.target_keys["train"]
    drawn = material.keys(material.negatives["train"].reshape(-1, 2))
    possible = max(1, material.num_possible - len(train))
    held = {part: np.setdiff1d(material.target_keys[part], train) for part in ("valid", "test")}
    held["held-out"] = np.union1d(held["valid"], held["test"])
    decided = False
    for part, keys in held.items():
        expected = len(drawn) * len(keys) / possible
        if expected < _ENOUGH or (part == "held-out" and decided):
            continue
        decided, name = True, NAMES.get(part, part)
        hits = int(contains(keys, drawn).sum())
        log.looked(f"{len(drawn):,} training negatives hit {hits:,} {name} links; chance would hit {expected:.1f}")
        log.found(
            "sampler-avoids",
            (0 if hits else len(keys), len(keys), None),
            f"{name} links that no training negative hits, where chance would hit {expected:.0f} "
            f"(probability {math.exp(-expected):.1g})",
        )
    if not decided:
        log.looked(
            f"whether {len(drawn):,} training negatives avoid held-out links: too few for a test (chance would hit "
            f"{len(drawn) * len(held['held-out']) / possible:.1f}, {_ENOUGH:.0f} are needed)"
        )


def negatives_are_no_links(material: Material, log: Log) -> None:
    """Negatives are no links, each once, between two nodes that may be linked."""
    for part, pairs in material.negatives.items():
        true = material.target_keys["train"] if part == "train" else material.true_keys
        wrong = material.tally(pairs, material.among(true))
        log.found(
            "mislabelled", wrong, f"{NAMES[part]} negatives that are {'training links' if part == 'train' else 'links'}"
        )
        log.found("self-pairs", material.tally(pairs, of_one_node), f"{NAMES[part]} negatives of a node with itself")
        again = "repeat another of the same link" if pairs.ndim == 3 else "repeat another"
        log.found("doubled-negatives", _repeats(material, pairs), f"{NAMES[part]} negatives that {again}")
        if material.one_sided is not None:
            within = material.tally(pairs, material.one_sided)
            what = f"{NAMES[part]} negatives within one side of the bipartite graph"
            log.found("easy-side", within, what, severity="leak" if part != "train" else "warning")
    sizes = ", ".join(f"{pairs.size // 2:,} {NAMES[part]}" for part, pairs in material.negatives.items())
    log.looked(f"negatives that are links, repeated or trivial: {sizes or 'the split brings none'}")


def _repeats(material: Material, pairs: AnyPairs) -> Tally:
    """Repeats among all pairs, or, of (p, k, 2), within each row."""
    count, example = 0, None
    blocks = material.blocks(pairs) if pairs.ndim == 3 else [(0, pairs[None])]
    for _, block in blocks:
        keys = np.sort(material.keys(block), axis=1)
        same = keys[:, 1:] == keys[:, :-1]
        count += int(same.sum())
        if example is None and same.any():
            example = material.pair_of(int(keys[:, 1:][same][0]))
    return count, max(1, pairs.size // 2), example


def negatives_are_apart(material: Material, log: Log) -> None:
    """The negatives of two parts differ."""
    for later, earlier in ACROSS:
        if later not in material.negatives or earlier not in material.negatives:
            continue
        pairs, others = material.negatives[later], material.negatives[earlier]
        if earlier == "valid" and 3 in (pairs.ndim, others.ndim):
            continue  # each link's own: those of two links may well be the same
        seen = distinct(material.keys(others.reshape(-1, 2)))
        tally = material.tally(pairs, material.among(seen))
        chance = tally[1] * len(seen) / max(1, material.num_possible)
        beyond = tally[0] > chance + 5 * math.sqrt(chance) + 2
        log.found(
            "shared-negatives",
            tally,
            f"{NAMES[later]} negatives that are {NAMES[earlier]} negatives too (chance explains {chance:.1f})",
            severity="leak" if beyond and earlier == "train" else "warning",
        )
        log.looked(f"negatives of {NAMES[earlier]} among those of {NAMES[later]}")


def own_negatives_are_own(material: Material, log: Log) -> None:
    """A link's own negatives share an end with it and are not the link itself."""
    for part, pairs in material.negatives.items():
        if pairs.ndim != 3:
            continue
        links = material.targets[part]

        def is_it(start: int, block: AnyPairs, links: AnyPairs = links) -> Mask:
            mask: Mask = material.keys(block) == material.keys(links[start:][: len(block)])[:, None]
            return mask

        def is_far(start: int, block: AnyPairs, links: AnyPairs = links) -> Mask:
            ends = links[start:][: len(block), None, None, :]  # (b, 1, 1, 2) against (b, k, 2, 1)
            near: Mask = (block[..., None] == ends).any(axis=(2, 3))
            return ~near

        own, far = material.tally_rows(pairs, is_it), material.tally_rows(pairs, is_far)
        log.found("own-positive", own, f"own negatives that are the {NAMES[part]} link itself")
        log.found("stranger-negatives", far, f"own negatives that share no end with their {NAMES[part]} link")
        log.looked(f"own negatives of {len(links):,} {NAMES[part]} links: {pairs.shape[1]:,} each")


def degree_tells_nothing(material: Material, log: Log) -> None:
    """Nodes without messages do not give negatives away."""
    linked = np.zeros(material.num_nodes, dtype=np.bool_)
    linked[material.messages.get("test", material.targets["train"]).reshape(-1)] = True
    if "test" not in material.negatives or not len(material.targets["test"]) or not material.negatives["test"].size:
        return
    pairs = material.negatives["test"]

    def is_lonely(block: AnyPairs) -> Mask:
        return ~(linked[block[:, 0]] & linked[block[:, 1]])

    false, true = (material.tally(some, is_lonely) for some in (pairs, material.targets["test"]))
    if false[0] / false[1] > _EASY and true[0] / true[1] < _RARE:
        share = f"{true[0] / true[1]:.1%} of the test links are"
        log.found("easy-degree", false, f"test negatives at a node without any message link ({share})")
    log.looked("nodes without messages: whether they give test negatives away")


NEGATIVE_CHECKS = (
    sampler_is_ignorant,
    negatives_are_no_links,
    negatives_are_apart,
    own_negatives_are_own,
    degree_tells_nothing,
)
