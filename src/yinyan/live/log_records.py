"""What a change log consists of: records chained by digests, and facts under a seal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from yinyan.errors import StoreError
from yinyan.live.structure import Change

__all__ = [
    "CHANGES",
    "FORMAT",
    "NET",
    "START",
    "Facts",
    "Logged",
    "Row",
    "chained",
    "checked_changes",
    "checked_net",
    "damaged",
    "digest_of",
    "text_of",
]

FORMAT = 2
START = "0" * 64  # what the first record follows

# statements that every database of a log understands
CHANGES = "SELECT version, time, change, digest FROM changes WHERE version > ? ORDER BY version"
NET = "SELECT place, time, change, digest FROM net ORDER BY place"

Row = tuple[int, float, str, str]  # a record: number, time, text of the change, digest

_CURE = "restore a copy of the log, or name another one with --log"


class Logged(NamedTuple):
    """A change, and its number from 1 on."""

    version: int
    change: Change


@dataclass(frozen=True)
class Facts:
    """What a log says about itself: rewritten with every change, under a seal of its own."""

    format: int = FORMAT
    model: str = ""  # fingerprint of the model whose changes these are
    directed: str = ""  # whether pairs have a direction: "yes", "no", or not known yet
    count: int = 0  # number of the last change
    head: str = START  # its digest
    base: int = 0  # number of the last change that is kept as a part of the net effect alone
    base_head: str = START  # its digest
    net_count: int = 0  # records of the net effect
    net_items: int = 0  # nodes and pairs in them
    net_head: str = START  # digest of the last of them

    @classmethod
    def read(cls, rows: Sequence[tuple[Any, ...]], place: object) -> Facts:
        """From the table; anything that was altered is refused."""
        found = {name: value for name, value in rows if isinstance(name, str) and isinstance(value, str)}
        seal = found.pop("seal", None)
        try:
            given: dict[str, Any] = {
                f.name: int(found[f.name]) if f.type == "int" else found[f.name] for f in fields(cls)
            }
            facts = cls(**given)
        except (KeyError, ValueError) as error:
            raise StoreError(f"the change log '{place}' is damaged: its facts are incomplete ({_CURE})") from error
        if len(rows) != len(fields(cls)) + 1 or seal != facts.seal:
            raise StoreError(f"the change log '{place}' is damaged: its facts were altered ({_CURE})")
        return facts

    @property
    def seal(self) -> str:
        """A digest of all of them."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def rows(self) -> list[tuple[str, str]]:
        """For the table."""
        return [*((name, str(value)) for name, value in asdict(self).items()), ("seal", self.seal)]


def text_of(change: Change) -> str:
    """How a change is written down."""
    return json.dumps(change, separators=(",", ":"))


def digest_of(previous: str, version: int, time: float, text: str) -> str:
    """The digest of a record: it holds those of all records before it."""
    return hashlib.sha256(f"{previous}\n{version}\n{time!r}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


def damaged(place: object, what: str) -> StoreError:
    """An error that names a record."""
    return StoreError(
        f"the change log '{place}' is damaged at {what} ({_CURE}; --accept-loss drops it and what follows)"
    )


def chained(
    place: object, what: str, rows: Iterable[tuple[Any, ...]], number: int, previous: str
) -> Iterator[tuple[Logged, str]]:
    """Records (number, time, text, digest) that follow one, each with its digest; the first wrong one is an error."""
    for found, time, text, digest in rows:
        number += 1
        if found != number:
            raise damaged(place, f"{what} {number:,}: it is missing")
        if (
            not isinstance(text, str)
            or not isinstance(time, float)
            or digest_of(previous, number, time, text) != digest
        ):
            raise damaged(place, f"{what} {number:,}: its content was altered")
        previous = digest
        yield Logged(number, json.loads(text)), digest


def checked_changes(
    rows: Iterable[tuple[Any, ...]], place: object, facts: Facts, version: int, digest: str
) -> list[Logged]:
    """All changes after one, whose digest is given."""
    found = list(chained(place, "change", rows, version, digest))
    number, head = (found[-1][0].version, found[-1][1]) if found else (version, digest)
    if number < facts.count:
        raise damaged(place, f"change {number + 1:,}: it is missing")
    if (number, head) != (facts.count, facts.head):
        raise damaged(place, f"change {number:,}: it is not the last one that was sealed")
    return [logged for logged, _ in found]


def checked_net(rows: Iterable[tuple[Any, ...]], place: object, facts: Facts) -> list[Change]:
    """The records of the net effect of the changes that are no longer kept one by one."""
    found = list(chained(place, "net record", rows, 0, START))
    number, head = (found[-1][0].version, found[-1][1]) if found else (0, START)
    if (number, head) != (facts.net_count, facts.net_head):
        raise damaged(place, f"net record {number + 1:,}: it is missing")
    return [logged.change for logged, _ in found]
