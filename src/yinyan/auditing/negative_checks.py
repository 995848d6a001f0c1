"""Leaks through negatives: known answers, easy ones and wrong ones."""

from __future__ import annotations

import math

import numpy as np

from yinyan.auditing.findings import Log
from yinyan.auditing.material import NAMES, AnyPairs, Mask, Material, Tally, contains, distinct, of_one_node

__all__ = ["NEGATIVE_CHECKS"]

_ENOUGH = 10.0  # expected hits of which none comes by chance once in 22,000
_EASY, _RARE = 0.5, 0.1  # shares of negatives and of links that touch a node without messages
_DRAW = "Cure: draw training negatives with the training links as the only known links."


def sampler_is_ignorant(material: Material, log: Log) -> None:
    """Training's negatives are drawn without knowledge of the held-out links."""
    train = material.target_keys["train"]
    if material.known is not None:
        known = distinct(material.keys(material.known))
        beyond_training = known[~contains(train, known)]
        for part in ("valid", "test"):
            log.found(
                "sampler-knows",
                "leak",
                material.tally(material.targets[part], material.among(beyond_training)),
                what=f"{NAMES[part]} links that training's sampler of negatives avoids",
                why=f"A pair that is never drawn as a negative is a link: the model learns that. {_DRAW}",
            )
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
            "leak",
            (0 if hits else len(keys), len(keys), None),
            what=f"{name} links that no training negative hits, where chance would hit {expected:.0f} "
            f"(probability {math.exp(-expected):.1g})",
            why=f"They were avoided: a pair that is never a negative is a link, and the model learns that. {_DRAW}",
        )
    if not decided:
        log.looked(
            f"whether {len(drawn):,} training negatives avoid held-out links: too few for a test (chance would hit "
            f"{len(drawn) * len(held['held-out']) / possible:.1f}, {_ENOUGH:.0f} are needed)"
        )


def non_links_are_none(material: Material, log: Log) -> None:
    """Non-links are no links, each once, between two nodes that may be linked."""
    for part, pairs in material.negatives.items():
        true = material.target_keys["train"] if part == "train" else material.true_keys
        log.found(
            "mislabelled",
            "warning",
            material.tally(pairs, material.among(true)),
            what=f"{NAMES[part]} negatives that are {'training links' if part == 'train' else 'links'}",
            why="Their label is wrong: a good model is punished for them. Cure: drop them, or draw others.",
        )
        log.found(
            "self-pairs",
            "warning",
            material.tally(pairs, of_one_node),
            what=f"{NAMES[part]} negatives of a node with itself",
            why="They can be recognised without learning. Cure: drop them.",
        )
        log.found(
            "doubled-negatives",
            "warning",
            _repeats(material, pairs),
            what=f"{NAMES[part]} negatives that repeat another" + (" of the same link" if pairs.ndim == 3 else ""),
            why="Some negatives weigh more than others. Cure: keep each pair once.",
        )
        if material.one_sided is not None:
            log.found(
                "easy-side",
                "leak" if part != "train" else "warning",
                material.tally(pairs, material.one_sided),
                what=f"{NAMES[part]} negatives within one side of the bipartite graph",
                why="They can be recognised without learning. Cure: draw negatives between the two sides.",
            )
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


def non_links_are_apart(material: Material, log: Log) -> None:
    """The negatives of two parts differ."""
    for later, earlier in (("valid", "train"), ("test", "train"), ("test", "valid")):
        if later not in material.negatives or earlier not in material.negatives:
            continue
        pairs, others = material.negatives[later], material.negatives[earlier]
        if earlier == "valid" and 3 in (pairs.ndim, others.ndim):
            continue  # each link's own: those of two links may well be the same
        told = distinct(material.keys(others.reshape(-1, 2)))
        tally = material.tally(pairs, material.among(told))
        chance = tally[1] * len(told) / max(1, material.num_possible)
        beyond = tally[0] > chance + 5 * math.sqrt(chance) + 2
        log.found(
            "shared-negatives",
            "leak" if beyond and earlier == "train" else "warning",
            tally,
            what=f"{NAMES[later]} negatives that are {NAMES[earlier]} negatives too (chance explains {chance:.1f})",
            why=f"The model {'was trained on them' if earlier == 'train' else 'was chosen by them'}. "
            "Cure: draw the parts' negatives apart.",
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

        log.found(
            "own-positive",
            "warning",
            material.tally_rows(pairs, is_it),
            what=f"own negatives that are the {NAMES[part]} link itself",
            why="The link competes with itself, and ties. Cure: draw them anew.",
        )
        log.found(
            "stranger-negatives",
            "warning",
            material.tally_rows(pairs, is_far),
            what=f"own negatives that share no end with their {NAMES[part]} link",
            why="The ranking is no longer among the candidates of one node. Cure: keep one end of the link in each "
            "of its negatives, and links and negatives in one order.",
        )
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
        log.found(
            "easy-degree",
            "warning",
            false,
            what=f"test negatives at a node without any message link ({true[0] / true[1]:.1%} of the test links are)",
            why="Nodes without links give most negatives away. Cure: draw them among nodes that have links.",
        )
    log.looked("nodes without messages: whether they give test negatives away")


NEGATIVE_CHECKS = (
    sampler_is_ignorant,
    non_links_are_none,
    non_links_are_apart,
    own_negatives_are_own,
    degree_tells_nothing,
)
