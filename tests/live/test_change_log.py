"""A log gives what was written, or an error that names the damage; never a traceback, never other content."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from yinyan.errors import StoreError
from yinyan.live import change_log, compaction, log_head
from yinyan.live.change_log import ChangeLog, CompactedError, LogFullError, verify_log
from yinyan.live.compaction import compact, net_effect
from yinyan.live.log_head import head_path


def links(*pairs: Any, kind: str = "add_links") -> dict[str, Any]:
    return {"kind": kind, "pairs": [list(pair) for pair in pairs]}


def write(log: ChangeLog, *changes: dict[str, Any]) -> None:
    with log.writing():
        for change in changes:
            log.append(change)


def filled(path: Path, count: int = 40) -> list[Any]:
    """A log of some changes; returns what it holds."""
    log = ChangeLog(path)
    log.bind("model", directed=False)
    for number in range(count):
        write(log, links((f"a{number}", f"b{number}")))
    history = log.history()
    log.close()
    return [history.base, history.net, history.changes]


def content(path: Path) -> list[Any]:
    log = ChangeLog(path)
    try:
        history = log.history()
        return [history.base, history.net, history.changes]
    finally:
        log.close()


def flipped(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


@pytest.mark.parametrize("damaged", ["log", "write-ahead", "head"])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_flipped_bit_gives_an_error_or_the_right_content(tmp_path: Path, damaged: str, compacted: bool) -> None:
    """Of 189 damaged logs 81 ended in tracebacks and 13 were silently other; 90 write-ahead files lost changes."""
    source = tmp_path / "source"
    source.mkdir()
    filled(source / "log", 60)
    if compacted:
        compact(source / "log", keep=20)
    log = ChangeLog(source / "log")  # open, so that there is a write-ahead file
    write(log, *(links((f"c{number}", "d")) for number in range(5)))
    history = log.history()
    wanted = [history.base, history.net, history.changes]
    names = {"log": "log", "write-ahead": "log-wal", "head": "log.head"}
    if damaged == "log":
        log.close()  # all changes are in the file itself
    kept = {name: (source / name).read_bytes() for name in names.values() if (source / name).exists()}
    log.close()
    chance, refused = random.Random(7), 0
    for trial in range(25):
        folder = tmp_path / str(trial)
        folder.mkdir()
        for name, data in kept.items():
            (folder / name).write_bytes(data)
        flipped(folder / names[damaged], chance)
        try:
            found = content(folder / "log")
        except StoreError as error:
            refused += "--log" in str(error) or "--accept-loss" in str(error)
        else:
            assert found == wanted
    assert refused > 2 or damaged == "head"


def test_a_lost_tail_is_noticed_counted_and_can_be_accepted(tmp_path: Path) -> None:
    """A log whose write-ahead file was lost went on without the newest changes, and said nothing."""
    path = tmp_path / "log"
    filled(path, 10)
    log = ChangeLog(path)
    write(log, links(("x", "y")))
    write(log, links(("x", "z")))
    copy = tmp_path / "copy"
    shutil.copy(path, copy)  # without its write-ahead file
    shutil.copy(head_path(path), head_path(copy))
    log.close()
    with pytest.raises(StoreError, match=r"lacks its newest 2 changes: it ends at 10, and 12 .*--accept-loss"):
        ChangeLog(copy)
    assert any("lacks its newest 2 changes" in finding for finding in verify_log(copy))
    log = ChangeLog(copy, accept_loss=True)
    assert log.last() == 10
    write(log, links(("x", "y")))
    log.close()
    assert content(copy)[2][-1].version == 11
    assert verify_log(copy) == verify_log(path) == verify_log(tmp_path / "none") == []


def test_a_crash_between_commit_and_head_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    filled(path, 3)

    def killed(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    log = ChangeLog(path)
    monkeypatch.setattr(change_log, "write_head", killed)
    with pytest.raises(KeyboardInterrupt):
        write(log, links(("x", "y")))
    monkeypatch.undo()
    log.close()
    assert log_head.read_head(path).count == 3  # type: ignore[union-attr]
    assert content(path)[2][-1].change == links(("x", "y"))
    assert log_head.read_head(path).count == 4  # type: ignore[union-attr]


def test_a_change_of_another_process_while_a_log_is_opened_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    filled(path, 3)
    other, read_head = ChangeLog(path), log_head.read_head

    def racing(log: Path) -> Any:
        monkeypatch.undo()
        write(other, links(("x", "y")))
        return read_head(log)

    monkeypatch.setattr(change_log, "read_head", racing)
    assert len(content(path)[2]) == 4
    other.close()


def test_a_torn_head_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "log"
    filled(path, 5)
    data = bytearray(head_path(path).read_bytes())
    newest = data.index(b"head\n5\n")
    data[newest + 20 : newest + 100] = b"\0" * 80
    head_path(path).write_bytes(data)
    assert log_head.read_head(path).count == 4  # type: ignore[union-attr]
    assert len(content(path)[2]) == 5
    head_path(path).write_bytes(b"\0x" * 512)
    with pytest.raises(StoreError, match=r"head .* is damaged.*--accept-loss"):
        ChangeLog(path)
    ChangeLog(path, accept_loss=True).close()
    assert len(content(path)[2]) == 5


def test_a_damaged_record_is_named_and_what_follows_can_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    filled(path, 10)
    db = sqlite3.connect(path)
    db.execute("UPDATE changes SET change = replace(change, 'a6', 'z6') WHERE version = 7")
    db.commit()
    db.close()
    log = ChangeLog(path)
    with pytest.raises(StoreError, match=r"change 7: its content was altered .*restore a copy.*--accept-loss"):
        log.history()
    log.close()
    assert "change 7" in verify_log(path)[0]
    log = ChangeLog(path, accept_loss=True)
    assert [logged.version for logged in log.history().changes] == [1, 2, 3, 4, 5, 6]
    log.close()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DELETE FROM changes WHERE version = 4", "change 4: it is missing"),
        ("DELETE FROM changes WHERE version > 8", "change 10: it is missing"),
        ("DELETE FROM facts WHERE name = 'count'", "facts are incomplete"),
        ("UPDATE facts SET value = '7' WHERE name = 'base'", "facts were altered"),
        ("UPDATE facts SET value = 'x' WHERE name = 'count'", "facts are incomplete"),
        ("UPDATE changes SET change = x'ff00' WHERE version = 2", "change 2: its content was altered"),
        ("DROP TABLE changes", "cannot be opened"),
    ],
)
def test_gaps_and_altered_facts_are_found(tmp_path: Path, damage: str, message: str) -> None:
    path = tmp_path / "log"
    filled(path, 10)
    db = sqlite3.connect(path)
    db.execute(damage)
    db.commit()
    db.close()
    with pytest.raises(StoreError, match=message):
        content(path)
    assert verify_log(path)


def test_a_log_of_format_1_is_read_and_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "log"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    db.execute("CREATE TABLE changes (version INTEGER PRIMARY KEY, time REAL NOT NULL, change TEXT NOT NULL)")
    db.executemany("INSERT INTO facts VALUES (?, ?)", [("format", "1"), ("model", "m")])
    text = '{"kind":"add_links","pairs":[["a","b"]]}'
    db.executemany("INSERT INTO changes (time, change) VALUES (?, ?)", [(1.5, text), (2.5, text)])
    db.commit()
    db.close()
    assert "format 1" in verify_log(path)[0]
    assert [logged.change for logged in content(path)[2]] == [links(("a", "b"))] * 2
    log = ChangeLog(path)
    assert log.facts().model == "m" and log.facts().format == 2
    with pytest.raises(StoreError, match="2 changes of another model"):
        log.bind("n")
    log.close()
    assert verify_log(path) == []


def failing(log: ChangeLog, error: Exception) -> None:
    with log.writing():
        log.append(links(("x", "y")))
        raise error


def test_what_is_rolled_back_is_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "log"
    wanted = filled(path, 3)
    log = ChangeLog(path)
    with pytest.raises(ZeroDivisionError):
        failing(log, ZeroDivisionError())
    with pytest.raises(LogFullError, match="nothing changed"):
        failing(log, sqlite3.OperationalError("database or disk is full"))
    write(log, links(("p", "q")))
    assert log.after(3)[0].version == 4
    log.close()
    assert content(path)[2][:3] == wanted[2] and len(content(path)[2]) == 4


HISTORY: list[dict[str, Any]] = [
    {"kind": "add_nodes", "nodes": [{"id": "x", "neighbours": ["a", "b"]}, {"id": 7, "neighbours": ["x"]}]},
    links(("a", "b"), ("c", "d")),
    links(("b", "a"), ("x", "a"), kind="remove_links"),
    links(("e", "f"), ("g", "h"), kind="reject"),
    links(("h", "g"), kind="take_back"),
    links(("a", "x")),
    {"kind": "reload", "model": "m"},
    links(("7", 7)),
]


def test_compaction_keeps_the_net_effect_and_the_newest(tmp_path: Path) -> None:
    """The log never shrank."""
    path = tmp_path / "log"
    log = ChangeLog(path)
    log.bind("m", directed=False)
    write(log, *HISTORY, *(links((f"n{i}", "a"), kind=k) for i in range(300) for k in ("add_links", "remove_links")))
    follower = ChangeLog(path)
    assert len(follower.after(0)) == 608
    made = compact(path, keep=5)
    assert made.changes == 603 and made.bytes_after < made.bytes_before
    history = log.history()
    assert history.base == 603 and [logged.version for logged in history.changes] == [604, 605, 606, 607, 608]
    nodes, removed, added, rejected = history.net
    assert nodes == HISTORY[0]
    assert removed["kind"] == "remove_links" and len(removed["pairs"]) == 298 and ["a", "b"] in removed["pairs"]
    assert added["kind"] == "add_links" and ["c", "d"] in added["pairs"] and ["a", "x"] in added["pairs"]
    assert rejected == links(("e", "f"), kind="reject")
    assert len(follower.after(606)) == 2
    with pytest.raises(CompactedError):
        follower.after(602)
    write(log, links(("p", "q")))
    assert follower.after(608)[0].version == 609 and follower.was_written()
    assert compact(path, keep=0).changes == 6  # and once more, from the net effect on
    assert log.history().changes == [] and log.last() == 609 and verify_log(path) == []
    log.close()
    follower.close()


def test_records_of_a_net_effect_have_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_ITEMS", 3)
    changes = [
        change_log.Logged(i + 1, {"kind": "add_nodes", "nodes": [{"id": f"{i}{j}"} for j in range(2)]})
        for i in range(4)
    ]
    changes += [change_log.Logged(5, links(*((i, i + 1) for i in range(7))))]
    records, items = net_effect(change_log.History([], 0, changes), 5, directed=True)
    assert [len(r.get("nodes", r.get("pairs"))) for r in records] == [2, 2, 2, 2, 3, 3, 1] and items == 15  # type: ignore[arg-type]


@pytest.mark.parametrize("at", ["DELETE FROM changes", "INSERT INTO net", "INSERT INTO facts"])
def test_a_crash_during_compaction_leaves_the_old_log(tmp_path: Path, at: str) -> None:
    path = tmp_path / "log"
    wanted = filled(path, 30)
    log = ChangeLog(path)

    class Dying:
        """A connection that is cut off at one statement."""

        def __init__(self, db: sqlite3.Connection) -> None:
            self._db = db

        def __getattr__(self, name: str) -> Any:
            return getattr(self._db, name)

        def execute(self, sql: str, *args: Any) -> Any:
            if sql.startswith(at):
                self._db.close()
                raise KeyboardInterrupt
            return self._db.execute(sql, *args)

        executemany = execute

        @property
        def in_transaction(self) -> bool:
            return False

    log._db = Dying(log._db)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        log.replace_until(20, 0, [links(("a", "b"))], 1)
    assert content(path) == wanted
    compact(path, keep=10)
    assert content(path)[0] == 20 and content(path)[2] == wanted[2][20:]
