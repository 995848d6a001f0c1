"""Where the change log of a service is kept: in a file (SQLite), or in a database that several hosts reach."""

from __future__ import annotations

from pathlib import Path

from yinyan.errors import MissingExtraError, SettingsError, StoreError
from yinyan.live.change_log import ChangeLog, log_path, verify_log
from yinyan.live.database_url import DatabaseUrl, is_url
from yinyan.live.shared_log import SharedLog

__all__ = ["LogPlace", "faults_of", "log_place", "open_log"]

LogPlace = Path | DatabaseUrl

_URLS = ("postgres:", "postgresql:")


def log_place(model: Path, given: Path | str | None = None) -> LogPlace:
    """What a user named as the log: a file or a URL; beside the model if nothing."""
    if given is None:
        return log_path(model)
    return DatabaseUrl.parsed(given) if isinstance(given, str) and is_url(given) else _file(given)


def _file(given: Path | str) -> Path:
    """A path as it was given; one that was made of a URL is refused, since its text is in messages."""
    if str(given).startswith(_URLS):
        raise SettingsError("the change log in a database needs a URL as text (got a path made of one)")
    return Path(given)


def open_log(place: LogPlace, *, accept_loss: bool = False, create: bool = True) -> SharedLog:
    """Open a log; a new one is made if there is none, unless `create` is false.

    `accept_loss` goes on with what is left of a log that lost or damaged its newest changes.
    """
    if isinstance(place, Path):
        if not create and not place.exists():
            raise StoreError(f"there is no change log '{place}' (name the file with --log)")
        return ChangeLog(place, accept_loss=accept_loss)
    try:
        from yinyan.live.postgres_log import PostgresLog
    except ImportError as error:
        if error.name is not None and not error.name.startswith("psycopg"):
            raise
        raise MissingExtraError("a change log in PostgreSQL needs psycopg: pip install 'yinyan[postgres]'") from error
    return PostgresLog(place, accept_loss=accept_loss, create=create)


def faults_of(place: LogPlace) -> tuple[list[str], int | None]:
    """What is wrong with a log, or nothing, and its bytes; it is only read, also beside a service that writes."""
    if isinstance(place, Path):
        return verify_log(place), place.stat().st_size if place.is_file() else None
    log = open_log(place, create=False)  # where there is none, or no answer, nothing can be said about it
    try:
        log.history()
        return [], log.size()
    except StoreError as error:
        return [str(error)], log.size()
    finally:
        log.close()
