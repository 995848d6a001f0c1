"""The log of changes that all processes of a service share: what every database of it does alike."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from yinyan.errors import StoreError
from yinyan.live.database_url import DatabaseUrl
from yinyan.live.log_records import (
    CHANGES,
    FORMAT,
    NET,
    START,
    Facts,
    Logged,
    Row,
    chained,
    checked_changes,
    checked_net,
    damaged,
    digest_of,
    text_of,
)
from yinyan.live.structure import Change

__all__ = [
    "CompactedError",
    "History",
    "LogFullError",
    "LogUnreachableError",
    "OtherModelError",
    "SharedLog",
    "UncertainError",
]

_log = logging.getLogger("yinyan.service")

_ALL = 1 << 62  # more than any number of changes


class LogFullError(StoreError):
    """A change could not be written down, and was not made."""


class LogUnreachableError(LogFullError):
    """The database of a log does not answer; nothing was changed."""


class UncertainError(StoreError):
    """The database was lost during a commit: whether a change was made is not known."""


class OtherModelError(StoreError):
    """The log belongs to another model than the one that reads it."""


class CompactedError(StoreError):
    """Changes that are asked for are no longer kept one by one."""


class History(NamedTuple):
    """All that a log holds: the net effect of older changes, and the newer ones."""

    net: list[Change]
    base: int  # the number of the last change in the net effect
    changes: list[Logged]


class SharedLog(ABC):
    """Changes in order, each with a digest; an object belongs to one thread at a time.

    A database has three tables (facts, changes, net), transactions, and a lock that one writer holds.
    """

    spans_hosts = False  # whether the processes that share it may have model directories of their own

    def __init__(self, place: Path | DatabaseUrl) -> None:
        """`place` is where the log lies; its text is for messages, without credentials."""
        self.place = place
        self._model: str | None = None  # fingerprint of the one that reads, where directories may differ
        self._seen = (0, START)  # the last change that was read, and its digest
        self._pending: Facts | None = None  # what a transaction is going to write

    # -- what a database does ------------------------------------------------------------------------------

    @abstractmethod
    def writing(self) -> AbstractContextManager[None]:
        """Within, nobody else writes; what was appended is on the disk at the end, or not there at all."""

    @abstractmethod
    def was_written(self) -> bool:
        """Whether another process may have written since this was last asked; cheap."""

    @abstractmethod
    def size(self) -> int:
        """Bytes that the log takes."""

    @abstractmethod
    def shrink(self) -> None:
        """Give the room of removed records back, as far as nobody has to wait for it."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[None]:
        """Within, all that is read is of one state of the log."""

    @abstractmethod
    def _run(self, statement: str, *values: object) -> Iterable[tuple[Any, ...]]:
        """What a statement finds; values stand for its question marks."""

    @abstractmethod
    def _insert(self, table: str, row: Row) -> None:
        """Add a record to `changes` or `net`, within `writing`."""

    @abstractmethod
    def _unreadable(self, error: object) -> StoreError:
        """An error that says why the log cannot be opened."""

    # -- opening -------------------------------------------------------------------------------------------

    def _check_format(self, version: object) -> None:
        if version != str(FORMAT):
            raise StoreError(
                f"the change log '{self.place}' has format {version}, and this library reads {FORMAT} "
                "(upgrade yinyan, or name another one with --log)"
            )

    def _drop_damaged(self) -> None:
        """Keep the changes before the first that is damaged."""
        facts = self._facts()
        checked_net(self._net(), self.place, facts)
        count, head = facts.base, facts.base_head
        try:
            for logged, digest in chained(self.place, "change", self._changes(-_ALL), count, head):
                count, head = logged.version, digest
        except StoreError as error:
            _log.warning("%s: what follows change %d is dropped", error, count)
        if (count, head) != (facts.count, facts.head):
            self._run("DELETE FROM changes WHERE version > ?", count)
            self._write_facts(replace(facts, count=count, head=head))

    def bind(
        self, fingerprint: str, *, directed: bool | None = None, carry_over: bool = False, reload: bool = False
    ) -> None:
        """Say whose changes these are; a log of another model is refused unless it is to be carried over.

        `reload` tells the other processes that the model is to be read again.
        """
        with self.writing():
            facts = self._facts()
            if facts.model not in ("", fingerprint) and facts.count and not carry_over:
                raise StoreError(
                    f"the change log '{self.place}' holds {facts.count:,} changes of another model "
                    f"({facts.model[:12]}…, and this is {fingerprint[:12]}…): pass --carry-over to apply those that "
                    "fit this model, or name another one with --log"
                )
            direction = facts.directed if directed is None else "yes" if directed else "no"
            if (fingerprint, direction) != (facts.model, facts.directed):
                self._write_facts(replace(facts, model=fingerprint, directed=direction))
            if reload:
                self.append({"kind": "reload", "model": fingerprint})
        self._model = fingerprint

    def expect(self, fingerprint: str) -> None:
        """Read for this model from now on; refused if the log belongs to another one by now."""
        if self.spans_hosts:
            self._check_model(self.facts(), fingerprint)
        self._model = fingerprint

    def _check_model(self, facts: Facts, fingerprint: str | None) -> None:
        """Processes of one host load the same directory; those of another may have an older copy of it."""
        if self.spans_hosts and fingerprint is not None and facts.model != fingerprint:
            raise OtherModelError(
                f"the change log '{self.place}' continues with the model {facts.model[:12]}…, and this host has "
                f"{fingerprint[:12]}… (copy the new model to its model directory)"
            )

    # -- writing -------------------------------------------------------------------------------------------

    def append(self, change: Change) -> int:
        """Write a change down, within `writing`; returns its number."""
        facts, text, moment = self._facts(), text_of(change), time.time()
        version = facts.count + 1
        digest = digest_of(facts.head, version, moment, text)
        self._insert("changes", (version, moment, text, digest))
        self._write_facts(replace(facts, count=version, head=digest))
        return version

    def replace_until(self, version: int, base: int, net: Sequence[Change], items: int) -> bool:
        """Put a net effect in the place of all changes up to a version; False if another one was put there meanwhile.

        `base` is the version up to which there was a net effect when this one was computed.
        """
        with self.writing():
            facts = self._facts()
            if facts.base != base or version > facts.count:
                return False
            kept = self._digest_at(version, facts)
            self._run("DELETE FROM net")
            digest, moment = START, time.time()
            for place, change in enumerate(net, 1):
                text = text_of(change)
                digest = digest_of(digest, place, moment, text)
                self._insert("net", (place, moment, text, digest))
            self._run("DELETE FROM changes WHERE version <= ?", version)
            facts = replace(facts, base=version, base_head=kept)
            self._write_facts(replace(facts, net_count=len(net), net_items=items, net_head=digest))
        return True

    # -- reading -------------------------------------------------------------------------------------------

    def facts(self) -> Facts:
        """What the log says about itself."""
        with self._reading():
            return self._facts()

    def history(self) -> History:
        """Everything, each record checked against its digest."""
        with self._reading():
            facts = self._facts()
            self._check_model(facts, self._model)
            net = checked_net(self._net(), self.place, facts)
            changes = checked_changes(self._changes(facts.base), self.place, facts, facts.base, facts.base_head)
            self._seen = (facts.count, facts.head)
            return History(net, facts.base, changes)

    def after(self, version: int) -> list[Logged]:
        """The changes that came after one, in order, each checked against its digest."""
        with self._reading():
            facts = self._facts()
            self._check_model(facts, self._model)
            if version < facts.base:
                raise CompactedError(f"changes up to {facts.base:,} are no longer kept one by one (read the history)")
            known = self._seen[1] if self._seen[0] == version else self._digest_at(version, facts)
            found = checked_changes(self._changes(version), self.place, facts, version, known)
            self._seen = (facts.count, facts.head)
            return found

    def last(self) -> int:
        """The number of the last change; 0 where there is none."""
        return self.facts().count

    def _facts(self) -> Facts:
        if self._pending is not None:
            return self._pending
        return Facts.read(list(self._run("SELECT name, value FROM facts")), self.place)

    def _write_facts(self, facts: Facts) -> None:
        """Within `writing`, which puts them on the disk together with the changes."""
        self._pending = facts

    def _changes(self, version: int) -> Iterable[tuple[Any, ...]]:
        return self._run(CHANGES, version)

    def _net(self) -> Iterable[tuple[Any, ...]]:
        return self._run(NET)

    def _digest_at(self, version: int, facts: Facts) -> str:
        if version == facts.base:
            return facts.base_head
        found = list(self._run("SELECT digest FROM changes WHERE version = ?", version))
        if not found or not isinstance(found[0][0], str):
            raise damaged(self.place, f"change {version:,}: it is missing")
        return str(found[0][0])
