"""Real databases for tests: PostgreSQL and MariaDB from Debian's packages, on unix sockets, and SQLite in a file.

As root they run as the user nobody, since neither database runs as root. They end with this process.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psycopg
import pymysql  # type: ignore[import-untyped]

from tests.support.processes import at_end, popen, wait_for

__all__ = ["KINDS", "Database", "MariaDB", "Postgres", "Sqlite"]

_SETPRIV = shutil.which("setpriv")


def _found(program: str) -> str | None:
    """Also searches the folders in which Debian keeps programs that are not on the path."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    places = [os.environ.get("PATH", ""), "/usr/sbin", *map(str, reversed(versions))]
    return shutil.which(program, path=os.pathsep.join(places))


class Database:
    """A database with a way to connect to it; ended with `close`."""

    name: str
    levels: tuple[str, ...]
    """The isolation levels it has."""
    mark: str = "%s"
    """How a parameter is marked."""
    url: str
    """For SQLAlchemy."""
    socket: str
    """The path of its socket."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        self._process: subprocess.Popen[bytes] | None = None
        _living.append(self)
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def missing() -> str | None:
        """What must be installed, or None."""
        return None

    def start(self) -> None: ...

    @classmethod
    def at(cls, folder: str) -> Self:
        """One that another process has started."""
        database = cls.__new__(cls)
        database.folder = Path(folder)
        database._process = None
        database.locate()
        return database

    def locate(self) -> None:
        """Sets what follows from the folder."""

    def connect(self, level: str | None = None, *, autocommit: bool = False) -> Any:
        raise NotImplementedError

    def execute(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        """One statement on a connection of its own, committed."""
        connection = self.connect()
        try:
            rows = execute(connection, sql, *params)
            connection.commit()
            return rows
        finally:
            connection.close()

    def _as_user(self, program: str, *args: str) -> list[str]:
        """Neither database runs as root."""
        if os.geteuid() != 0:
            return [program, *args]
        assert _SETPRIV is not None
        shutil.chown(self.folder, "nobody")
        # Linux forgets at the change of the user which signal comes at the parent's end.
        return [_SETPRIV, "--reuid", "nobody", "--clear-groups", "--pdeathsig", "KILL", program, *args]

    def _prepare(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr

    def _launch(self, *command: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = popen(command, stdout=log, stderr=log, cwd=str(self.folder))
        wait_for(self._answers, what=f"{self.name} to answer")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text(errors="replace")[-3000:]
        # A driver would leave its socket open where nobody listens.
        with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(self.socket)
            with suppress(psycopg.OperationalError):  # PostgreSQL listens before it is ready
                self.connect().close()
                return True
        return False

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self in _living:
            _living.remove(self)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return self.name


def execute(connection: Any, sql: str, *params: object) -> list[tuple[Any, ...]]:
    """`?` marks a parameter, whatever the driver."""
    cursor = connection.cursor()
    try:
        cursor.execute(sql if isinstance(connection, sqlite3.Connection) else sql.replace("?", "%s"), params)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
    finally:
        cursor.close()


class Sqlite(Database):
    name = "sqlite"
    levels = ("deferred", "immediate")
    mark = "?"

    def locate(self) -> None:
        self.path = self.folder / "data.db"
        self.url = f"sqlite:///{self.path}"

    def start(self) -> None:
        self.locate()
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()

    def connect(self, level: str | None = None, *, autocommit: bool = False) -> Any:
        """Connects in the default mode of sqlite3, without autocommit; `level` is the word after each BEGIN."""
        connection: Any = sqlite3.connect(self.path, timeout=10)
        if autocommit or level:
            connection.isolation_level = None if autocommit else level
        connection.execute("PRAGMA synchronous=OFF")
        return connection


class Postgres(Database):
    name = "postgresql"
    levels = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")

    @staticmethod
    def missing() -> str | None:
        return None if _found("initdb") else "needs PostgreSQL (Debian's postgresql)"

    def locate(self) -> None:
        self.socket = str(self.folder / ".s.PGSQL.5432")
        self.url = f"postgresql+psycopg://postgres@/postgres?host={self.folder}"
        self.dsn = f"host={self.folder} user=postgres dbname=postgres"

    def start(self) -> None:
        initdb, postgres = _found("initdb"), _found("postgres")
        assert initdb is not None
        assert postgres is not None
        self.locate()
        data = self.folder / "data"
        self._prepare(
            *self._as_user(initdb, "-D", str(data), "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--no-locale")
        )
        options = ("-c", "fsync=off", "-c", "autovacuum=off", "-c", "shared_buffers=16MB")
        self._launch(*self._as_user(postgres, "-D", str(data), "-k", str(self.folder), "-h", "", *options))

    def connect(self, level: str | None = None, *, autocommit: bool = False) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self.dsn, autocommit=autocommit)
        if level is not None:
            connection.isolation_level = psycopg.IsolationLevel[level.replace(" ", "_")]
        return connection


class MariaDB(Database):
    name = "mariadb"
    levels = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")

    @staticmethod
    def missing() -> str | None:
        there = _found("mariadbd") and _found("mariadb-install-db")
        return None if there else "needs MariaDB (Debian's mariadb-server-core and mariadb-client-core)"

    def locate(self) -> None:
        self.socket = str(self.folder / "s")
        self.url = f"mysql+pymysql://root@/test?unix_socket={self.socket}"
        self._made = True

    def start(self) -> None:
        self.locate()
        install, server = _found("mariadb-install-db"), _found("mariadbd")
        assert install is not None
        assert server is not None
        data = self.folder / "data"
        login = "--auth-root-authentication-method=normal"
        # A server that starts deletes the temporary tables that it finds in its folder for them, also those of others.
        own = f"--tmpdir={self.folder}"
        self._prepare(*self._as_user(install, "--no-defaults", f"--datadir={data}", own, login, "--skip-test-db"))
        # No database yet: the first connection makes one.
        options = (own, "--skip-networking", "--innodb-use-native-aio=0", "--innodb-flush-log-at-trx-commit=0")
        self._made = False
        self._launch(*self._as_user(server, "--no-defaults", f"--datadir={data}", f"--socket={self.socket}", *options))

    def connect(self, level: str | None = None, *, autocommit: bool = False) -> Any:
        if not self._made:
            first: Any = pymysql.connect(unix_socket=self.socket, user="root")
            with first, first.cursor() as cursor:
                cursor.execute("CREATE DATABASE IF NOT EXISTS test")
            self._made = True
        connection: Any = pymysql.connect(unix_socket=self.socket, user="root", database="test", autocommit=autocommit)
        if level is not None:
            execute(connection, f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        return connection


KINDS: dict[str, Callable[[], Database]] = {"sqlite": Sqlite, "postgresql": Postgres, "mariadb": MariaDB}
_living: list[Database] = []


def _close_all() -> None:
    for database in _living.copy():
        database.close()


at_end(_close_all)
