"""Whether a run will fit, said before it starts; and, if not, the settings that would."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from yinyan.errors import MemoryLimitError
from yinyan.free_memory import free_memory
from yinyan.memory import MemoryEstimate, Sizes, batch_of, estimate, in_words
from yinyan.settings import Settings
from yinyan.splits import Split

__all__ = ["check_memory", "refuse_if_too_large"]

Change = dict[str, dict[str, Any]]

_SMALLEST_BATCH, _SMALLEST_SIZE = 512, 8  # nothing smaller is worth proposing


def check_memory(split: Split, settings: Settings, device: torch.device, tell: Callable[[str], None]) -> None:
    """Tell what training will take and what is free; refuse what would not fit, before anything large is allocated."""
    needed, free = estimate(Sizes.of(split), settings, device), free_memory(device)
    rest = "" if free is None else f", {in_words(free)} are free"
    tell(f"memory: about {in_words(needed.total)} at the peak{rest}")
    if settings.training.refuse_oversize:
        refuse_if_too_large(needed, free, settings)


def refuse_if_too_large(needed: MemoryEstimate, free: int | None, settings: Settings) -> None:
    """Raise where the peak exceeds what is free, with settings that would fit; where that is unknown, let it pass."""
    if free is None or needed.total <= free:
        return
    name, size = needed.largest()
    problem = (
        f"training needs about {in_words(needed.total)} at its peak and {in_words(free)} are free: "
        f"{in_words(size)} of it for {name}."
    )
    found = [f"{_spelled(change)} ({in_words(total)})" for change, total in _fitting_changes(needed, free, settings)]
    if not found:
        raise MemoryLimitError(
            f"{problem} No settings would fit: it takes a machine with more memory, a graph with fewer nodes or links, "
            "or fewer feature columns"
        )
    these = "These" if len(found) > 1 else "This"
    waive = "Or let it try: training.refuse_oversize = false"
    raise MemoryLimitError(f"{problem} {these} would fit: {'; '.join(found)}. {waive}")


def _fitting_changes(needed: MemoryEstimate, free: int, settings: Settings) -> Iterator[tuple[Change, int]]:
    """Each change alone that makes the run fit; where none does, the smallest combinations that do."""
    kinds = _changes(needed.sizes, settings)
    for count in range(1, len(kinds) + 1):
        found = False
        for chosen in itertools.combinations(kinds, count):
            fitting = _first_fitting(chosen, needed, free, settings)
            if fitting is not None:
                found = True
                yield fitting
        if found:
            return


def _first_fitting(
    chosen: Sequence[Sequence[Change]], needed: MemoryEstimate, free: int, settings: Settings
) -> tuple[Change, int] | None:
    for steps in itertools.product(*chosen):
        change: Change = {}
        for step in steps:
            for group, values in step.items():
                change[group] = {**change.get(group, {}), **values}
        total = estimate(needed.sizes, settings.updated(change), torch.device(needed.device)).total
        if total <= free:
            return change, total
    return None


def _changes(sizes: Sizes, settings: Settings) -> list[list[Change]]:
    """The kinds of change, the least harmful first, each from its mildest to its strongest."""
    encoder, width = settings.encoder, settings.decoder.width
    linear = encoder.margin is None and encoder.num_steps > 0
    recompute: list[Change] = [{"encoder": {"recompute": True}}]
    storage: list[Change] = [{"encoder": {"storage": "bfloat16"}}]
    batch = batch_of(sizes, settings)
    batches: list[Change] = [{"training": {"batch_size": b}} for b in _halves(batch, _SMALLEST_BATCH)]
    narrower: list[Change] = []
    for size in _halves(encoder.hidden_size, _SMALLEST_SIZE):
        change: Change = {"encoder": {"hidden_size": size}}
        if settings.decoder.kind == "hadamard" and width > size:
            change["decoder"] = {"width": size}
        narrower.append(change)
    kinds = [recompute if linear and encoder.learn_repulsion != "no" and not encoder.recompute else []]
    kinds += [storage if linear and encoder.storage == "float32" else [], batches, narrower]
    return [kind for kind in kinds if kind]


def _halves(value: int, least: int) -> list[int]:
    return [half for power in range(1, value.bit_length()) if (half := value >> power) >= least]


def _spelled(change: Change) -> str:
    """A change as it stands in a settings file."""
    words = [f"{group}.{name} = {_toml(v)}" for group, values in change.items() for name, v in values.items()]
    return " with ".join([words[0], " and ".join(words[1:])] if len(words) > 1 else words)


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
