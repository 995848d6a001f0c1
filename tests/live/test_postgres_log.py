"""A change log in PostgreSQL keeps what the one in a file keeps, and goes on when its database comes back."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from postgres_tools import PLAIN_PASSWORD, USER, Server
from yinyan.errors import MissingExtraError, SettingsError, StoreError
from yinyan.live import compaction
from yinyan.live.compaction import compact
from yinyan.live.log_places import LogPlace, faults_of, log_place, open_log
from yinyan.live.shared_log import (
    CompactedError,
    LogFullError,
    LogUnreachableError,
    OtherModelError,
    SharedLog,
    UncertainError,
)

Urls = Callable[..., str]


def links(*pairs: Any, kind: str = "add_links") -> dict[str, Any]:
    return {"kind": kind, "pairs": [list(pair) for pair in pairs]}


def write(log: SharedLog, *changes: dict[str, Any]) -> None:
    with log.writing():
        for change in changes:
            log.append(change)


def write_and(log: SharedLog, work: Callable[[], Any]) -> None:
    """Something that happens before a change is committed."""
    with log.writing():
        log.append(links(("x", "y")))
        work()


def at(url: str) -> LogPlace:
    return log_place(Path("model"), url)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> LogPlace:
    """Of a log that is not there yet."""
    if request.param == "sqlite":
        return tmp_path / "log"
    return at(request.getfixturevalue("log_url")())


# -- what both kinds do ------------------------------------------------------------------------------------


def test_changes_have_one_order_for_all_who_share_a_log(place: LogPlace) -> None:
    with closing(open_log(place)) as one, closing(open_log(place)) as other:
        assert one.last() == other.last() == 0 and one.history().changes == []
        write(one, links(("a", "b")), links(("c", 7)))
        assert other.was_written() and [(n, c["pairs"]) for n, c in other.after(0)] == [
            (1, [["a", "b"]]),
            (2, [["c", 7]]),
        ]
        write(
            other,
            {"kind": "add_nodes", "nodes": [{"id": "ä\u0000\ud800", "neighbours": ["a"], "features": [0.1, 1e300]}]},
        )
        assert one.after(2)[0].change["nodes"][0] == {
            "id": "ä\u0000\ud800",
            "neighbours": ["a"],
            "features": [0.1, 1e300],
        }
        assert one.last() == 3 and one.after(3) == [] and one.history() == other.history()
    assert faults_of(place)[0] == [] and (faults_of(place)[1] or 0) > 1_000


def test_what_is_rolled_back_is_nowhere(place: LogPlace) -> None:
    with closing(open_log(place)) as log:
        write(log, links(("a", "b")))
        with pytest.raises(ZeroDivisionError):
            write_and(log, lambda: 1 // 0)
        assert log.last() == 1
        write(log, links(("p", "q")))
        assert [logged.change for logged in log.history().changes] == [links(("a", "b")), links(("p", "q"))]


def test_a_log_belongs_to_a_model(place: LogPlace) -> None:
    with closing(open_log(place)) as log:
        log.bind("a" * 64, directed=True)
        log.bind("b" * 64)  # nothing was written for the first
        write(log, links(("a", "b")))
        with pytest.raises(StoreError, match=r"1 changes of another model \(bbbb.*and this is cccc.*--carry-over"):
            log.bind("c" * 64)
        log.bind("c" * 64, carry_over=True, reload=True)
        assert log.facts().model == "c" * 64 and log.facts().directed == "yes"
        assert log.after(1)[0].change == {"kind": "reload", "model": "c" * 64}


def test_compaction_keeps_the_net_effect_and_the_newest(place: LogPlace) -> None:
    with pytest.raises(StoreError, match="there is no change log"):
        compact(place)
    with closing(open_log(place)) as log, closing(open_log(place)) as follower:
        log.bind("m", directed=False)
        write(log, *(links((f"n{i % 50}", "a"), kind=k) for i in range(100) for k in ("add_links", "remove_links")))
        write(log, links(("a", "b")), links(("c", "d"), kind="reject"))
        assert len(follower.after(0)) == 202
        made = compact(place, keep=2)
        assert made.changes == 200 and made.records == 1 and made.bytes_before > 0
        history = log.history()
        assert history.base == 200 and [logged.version for logged in history.changes] == [201, 202]
        assert history.net[0]["kind"] == "remove_links" and len(history.net[0]["pairs"]) == 50
        assert len(follower.after(201)) == 1
        with pytest.raises(CompactedError):
            follower.after(100)
        write(log, links(("p", "q")))
        assert compact(place, keep=0).changes == 3 and log.history().changes == [] and follower.last() == 203
        assert compaction.is_due(place) is False
    assert faults_of(place)[0] == []


def test_writers_take_turns(place: LogPlace) -> None:
    def work(name: str) -> None:
        with closing(open_log(place)) as log:
            for number in range(15):
                with log.writing():
                    before = log.last()
                    assert log.append(links((name, number))) == before + 1

    open_log(place).close()
    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    with closing(open_log(place)) as log:
        found = [tuple(logged.change["pairs"][0]) for logged in log.history().changes]
        assert len(found) == 45 and [n for name, n in found if name == "b"] == list(range(15))


# -- a database --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE changes SET change = replace(change, 'a6', 'z6') WHERE version = 7", "change 7: its content was alt"),
        ("DELETE FROM changes WHERE version = 4", "change 4: it is missing"),
        ("DELETE FROM changes WHERE version > 8", "change 9: it is missing"),
        ("UPDATE facts SET value = '7' WHERE name = 'base'", "facts were altered"),
        ("DELETE FROM facts WHERE name = 'count'", "facts are incomplete"),
    ],
)
def test_damage_is_named_and_can_be_dropped(
    database: Server, schema: str, log_url: Urls, damage: str, message: str
) -> None:
    place = at(log_url())
    with closing(open_log(place)) as log:
        write(log, *(links((f"a{number}", "b")) for number in range(10)))
    database.execute(damage, schema=schema)
    with closing(open_log(place)) as log, pytest.raises(StoreError, match=message):
        log.history()
    assert message in faults_of(place)[0][0]
    if "change " in message:
        good = int(re.findall(r"\d+", message)[0]) - 1
        with closing(open_log(place, accept_loss=True)) as log:
            assert [logged.version for logged in log.history().changes] == list(range(1, good + 1))


def test_another_format_and_other_tables_are_refused(database: Server, schema: str, log_url: Urls) -> None:
    open_log(at(log_url())).close()
    assert {name for (name,) in database.execute(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")} == {
        "facts", "changes", "net",
    }  # fmt: skip
    database.execute("UPDATE facts SET value = '3' WHERE name = 'format'", schema=schema)
    with pytest.raises(StoreError, match="has format 3, and this library reads 2"):
        open_log(at(log_url()))
    database.execute("DROP TABLE facts, changes; CREATE TABLE theirs (a int)", schema=schema)
    with pytest.raises(StoreError, match=rf"its schema '{schema}' has other tables \(net, theirs\): add schema=NAME"):
        open_log(at(log_url()))


def test_a_message_wakes_those_who_follow(log_url: Urls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yinyan.live.postgres_log._LOOK", 60.0)
    with closing(open_log(at(log_url()))) as one, closing(open_log(at(log_url()))) as other:
        for log in (one, other):
            assert log.was_written() and not log.was_written()
        write(one, links(("a", "b")))
        deadline = time.monotonic() + 1
        while not other.was_written():
            assert time.monotonic() < deadline, "no message came"
        assert len(other.after(0)) == 1
        one.after(1)
        assert not one.was_written()  # its own message is none
        monkeypatch.setattr("yinyan.live.postgres_log._LOOK", 0.0)
        assert other.was_written()  # without a message, after a while


def test_a_database_that_would_lose_commits_is_told_not_to(
    database: Server, log_url: Urls, caplog: pytest.LogCaptureFixture
) -> None:
    options = "&options=-csynchronous_commit%3Doff"
    with closing(open_log(at(log_url(options)))) as log:
        assert log._run("SHOW synchronous_commit") == [("on",)]
    with closing(open_log(at(log_url("&options=-csynchronous_commit%3Dremote_apply")))) as log:
        assert log._run("SHOW synchronous_commit") == [("remote_apply",)]
    assert "fsync" not in caplog.text
    database.execute("ALTER SYSTEM SET fsync = off")
    database.execute("SELECT pg_reload_conf(), pg_sleep(0.2)")
    open_log(at(log_url())).close()
    assert "runs with fsync = off" in caplog.text
    database.execute("ALTER SYSTEM RESET fsync")
    database.execute("SELECT pg_reload_conf()")


def test_a_lost_connection_is_opened_again(database: Server, log_url: Urls) -> None:
    with closing(open_log(at(log_url()))) as log:
        write(log, links(("a", "b")))
        end_sessions(database)
        write(log, links(("c", "d")))  # on another connection
        for work in (lambda: end_sessions(database), lambda: (end_sessions(database), log.after(0))):
            with pytest.raises(LogUnreachableError, match="nothing changed"):
                write_and(log, work)
        assert log.last() == 2
        write(log, links(("g", "h")))
        assert [logged.change["pairs"] for logged in log.after(0)] == [[["a", "b"]], [["c", "d"]], [["g", "h"]]]


def session_settings() -> dict[str, str]:
    from yinyan.live import postgres_session  # needs psycopg

    return postgres_session._SESSION


def end_sessions(database: Server) -> None:
    database.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'yinyan'")


@pytest.mark.parametrize("arrived", [True, False])
@pytest.mark.parametrize("since", ["nothing", "change", "compaction"])
def test_a_commit_whose_answer_is_lost_is_looked_up(log_url: Urls, arrived: bool, since: str) -> None:
    """Whoever is told that nothing changed must be able to rely on it, and a commit that took place is no error."""
    import psycopg

    log: Any = open_log(at(log_url()))
    write(log, links(("a", "b")))
    session, run = log._session, log._session.run

    def cut_off(statement: str, values: Any = ()) -> Any:
        if statement != "COMMIT":
            return run(statement, values)
        session.run = run
        if arrived:
            run("COMMIT")
        session.close()
        if since != "nothing":  # another host comes first
            with closing(open_log(at(log_url()))) as other:
                write(other, *(links(("p", number)) for number in range(3)))
        if since == "compaction":
            compact(at(log_url()), keep=0, directed=False)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    session.run = cut_off
    if since == "compaction":
        with pytest.raises(UncertainError, match="was compacted since: whether the change was made is not known"):
            write(log, links(("c", "d")), links(("e", "f")))
    elif arrived:
        write(log, links(("c", "d")), links(("e", "f")))
    else:
        with pytest.raises(LogFullError, match="nothing changed"):
            write(log, links(("c", "d")), links(("e", "f")))
    assert log.last() == (3 if arrived else 1) + (0 if since == "nothing" else 3)
    log.close()


def test_a_lost_commit_without_a_change_is_looked_up_too(log_url: Urls) -> None:
    import psycopg

    log: Any = open_log(at(log_url()))
    run = log._session.run

    def cut_off(statement: str, values: Any = ()) -> Any:
        if statement != "COMMIT":
            return run(statement, values)
        log._session.run = run
        log._session.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    log._session.run = cut_off
    with pytest.raises(LogFullError, match="nothing changed"):
        log.bind("m" * 64)
    assert log.facts().model == ""
    log.bind("m" * 64)
    assert log.facts().model == "m" * 64
    log.close()


def test_a_commit_that_cannot_be_looked_up_is_said_to_be_uncertain(
    database: Server, log_url: Urls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yinyan.live.postgres_log._PATIENCE", 0.1)
    log: Any = open_log(at(log_url()))
    run = log._session.run

    def killed(statement: str, values: Any = ()) -> Any:
        if statement == "COMMIT":
            database.kill()
        return run(statement, values)

    log._session.run = killed
    with pytest.raises(UncertainError, match=r"whether the change was made is not known"):
        write(log, links(("c", "d")))
    log._session.run = run
    with pytest.raises(LogUnreachableError):
        log.last()
    database.start()
    time.sleep(0.5)  # as long as no other connection is tried
    write(log, links(("e", "f")))
    assert log.last() == 1 and log.history().changes[0].change == links(("e", "f"))
    log.close()


def test_a_log_that_went_back_is_noticed(database: Server, schema: str, log_url: Urls) -> None:
    """As after a copy was restored, or a standby took over that lacked the newest changes."""
    with closing(open_log(at(log_url()))) as follower:
        with closing(open_log(at(log_url()))) as log:
            write(log, links(("a", "b")))
            kept = database.execute("SELECT name, value FROM facts", schema=schema)
            write(log, links(("c", "d")))
            assert len(follower.after(0)) == 2
            database.execute("DELETE FROM changes WHERE version = 2", schema=schema)
            for name, value in kept:
                database.execute(f"UPDATE facts SET value = '{value}' WHERE name = '{name}'", schema=schema)
        with pytest.raises(StoreError, match="change 2: it is not the last one that was sealed"):
            follower.after(2)
        with closing(open_log(at(log_url()))) as log:
            write(log, links(("e", "f")))  # another second change
        with pytest.raises(StoreError, match="change 2"):
            follower.after(2)


def test_a_writer_that_hangs_loses_the_lock(log_url: Urls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(session_settings(), "idle_in_transaction_session_timeout", "300ms")
    with closing(open_log(at(log_url()))) as hanging, closing(open_log(at(log_url()))) as other:
        assert other._run("SHOW tcp_keepalives_idle") == [("10",)]

        def work() -> None:
            write(other, links(("a", "b")))  # as soon as the lock is free

        with pytest.raises(LogUnreachableError, match="nothing changed"):
            write_and(hanging, work)
        assert [logged.change for logged in hanging.after(0)] == [links(("a", "b"))]


def test_the_lock_is_not_waited_for_without_end(log_url: Urls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(session_settings(), "lock_timeout", "200ms")
    with closing(open_log(at(log_url()))) as one, closing(open_log(at(log_url()))) as other:

        def work() -> None:
            with pytest.raises(LogFullError, match="another service has been writing for 200ms"):
                write(other, links(("a", "b")))

        write_and(one, work)
        write(other, links(("c", "d")))
        assert other.last() == 2


def test_hosts_with_another_model_are_stopped(log_url: Urls) -> None:
    with closing(open_log(at(log_url()))) as one, closing(open_log(at(log_url()))) as other:
        for log in (one, other):
            log.bind("a" * 64)
        write(one, links(("a", "b")))
        one.bind("b" * 64, carry_over=True, reload=True)
        for ask in (other.history, lambda: other.after(0), lambda: other.expect("a" * 64)):
            with pytest.raises(OtherModelError, match=r"model bbbb.*this host has aaaa.*copy the new model"):
                ask()
        other.expect("b" * 64)
        assert len(other.after(0)) == 2


# -- addresses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ann:Pa55@host/db",
        "postgresql+psycopg://ann:Pa55@host/db",
        "postgresql://ann:Pa/55@host/db",
        "postgresql://ann:1/Pa55@host/db",
        "postgresql://ann:Pa@55@host/db",
        "postgresql://ann:Pa55@host:port x/db",
        "postgresql://ann:Pa55@host/db?schema=A;B",
    ],
)
def test_a_url_that_is_none_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(SettingsError) as told:
        at(url)
    with pytest.raises(SettingsError, match="a path made of one"):
        at(Path("postgresql://ann:Pa55@host/db"))  # type: ignore[arg-type]
    assert not any(part in str(told.value) for part in ("Pa", "55", "ann"))


def test_a_place_is_named_without_credentials() -> None:
    place = at(
        "postgresql://ann:Pa55@db1:5433,db2/graph?sslmode=verify-full&schema=cora&password=Pa55&sslrootcert=a%2Fb"
    )
    assert str(place) == "postgresql://db1:5433,db2/graph?schema=cora" and "Pa55" not in repr(place)
    assert place.connection.endswith("/graph?sslmode=verify-full&password=Pa55&sslrootcert=a%2Fb")  # type: ignore[union-attr]
    assert str(at("postgres:///graph?host=/tmp&user=ann")) == "postgresql:///graph"
    assert at("postgresql://h/d").connection == "postgresql://h/d"  # type: ignore[union-attr]
    assert at("logs/a.sqlite") == Path("logs/a.sqlite") and at(Path("b")) == Path("b")  # type: ignore[arg-type]


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("options", ["&no_such=1", "&sslmode=wrong", "&connect_timeout=soon"])
def test_options_that_libpq_does_not_know_are_refused(log_url: Urls, options: str) -> None:
    with pytest.raises((SettingsError, StoreError)) as told:
        open_log(at(log_url(options)))
    assert PLAIN_PASSWORD not in str(told.value) and USER not in str(told.value)


def test_errors_name_no_credentials(database: Server, log_url: Urls, caplog: pytest.LogCaptureFixture) -> None:
    texts = []
    wrong = database.url(password="wr0ng-one")
    for url in (wrong, database.url().replace("/postgres", "/nowhere"), database.url("?port=1")):
        with pytest.raises(LogUnreachableError) as told:
            open_log(at(url))
        texts += [str(told.value), repr(told.value)]
    assert "password authentication failed" in texts[0] and "does not exist" in texts[2]
    assert not any(word in text for text in [*texts, caplog.text] for word in (PLAIN_PASSWORD, "s3cret", "wr0ng", USER))


def test_tls_options_reach_libpq(database: Server, log_url: Urls) -> None:
    with pytest.raises(LogUnreachableError, match="does not support SSL"):
        open_log(at(log_url("&sslmode=require")))
    certificate = database.use_tls()
    with closing(open_log(at(log_url(f"&sslmode=verify-full&sslrootcert={certificate}")))) as log:
        assert log._run("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == [(True,)]
    with closing(open_log(at(log_url("&sslmode=disable")))) as log:
        assert log._run("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == [(False,)]
    with pytest.raises(LogUnreachableError, match="certificate"):
        open_log(at(log_url("&sslmode=verify-full&sslrootcert=/no/such/file")))


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("psycopg", "yinyan.live.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[postgres\]'"):
        open_log(at("postgresql://127.0.0.1:1/none"))
