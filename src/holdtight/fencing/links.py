"""Links: the same few methods for every kind of blocking connection. The plans in plans.py call them.

A driver is recognised by the module of the connection's class, so that no driver is imported that the program does not
use.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

from holdtight.base import refusals
from holdtight.fencing.statements import Dialect, marked

__all__ = ["DatabaseLink", "PsycopgState", "State", "driver_of", "link_to", "rows_of"]

IN_TRANSACTION = 1
"""SERVER_STATUS_IN_TRANS of MySQL's protocol."""
UNKNOWN_VARIABLE, NO_SAVEPOINT = 1193, 1305
"""Numbers of MySQL and MariaDB."""
IDLE, IN_ERROR = 0, 3
"""Transaction states of libpq."""


def driver_of(connection: object) -> tuple[str, str]:
    """The driver, and the name of its connection class."""
    for cls in type(connection).__mro__:
        package = cls.__module__.partition(".")[0]
        if package in _DRIVERS:
            return package, cls.__name__
    return "", type(connection).__name__


def rows_of(rows: Any) -> list[tuple[Any, ...]]:
    """The rows as tuples, whatever the row factory of the program returns."""
    return [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in rows]  # pyright: ignore


class State:
    """What a link knows without asking the database, for both colours."""

    dialect: Dialect
    style: Literal["?", "%s", "$", ":p"] = "%s"

    def __init__(self, connection: Any) -> None:
        self.raw = self.handle = connection
        """`handle` is what the body of `under` gets."""

    def is_open(self) -> bool | None:
        """Whether a transaction is open; None if the driver does not say."""
        raise NotImplementedError

    def is_busy(self) -> bool | None:
        """Whether `under` must refuse, because a transaction is open."""
        return self.is_open()

    def is_broken(self) -> bool:
        """Whether the transaction has failed, so that COMMIT would silently roll back."""
        return False

    def autocommits(self) -> bool:
        """Whether each statement is a transaction of its own now."""
        raise NotImplementedError

    def unsaved(self) -> str:
        """Changes that were made before the claim, as text."""
        return ""

    def forget(self) -> None:
        """Drops what was read before the claim."""


class DatabaseLink(State):
    """A connection of a DB-API 2 driver."""

    def begin(self) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        self.raw.commit()

    def rollback(self, error: BaseException) -> None:
        """`error` is why."""
        self.raw.rollback()

    def cursor(self) -> Any:
        return self.raw.cursor()

    def run(self, sql: str, params: tuple[object, ...]) -> list[tuple[Any, ...]]:
        cursor = self.cursor()
        try:
            cursor.execute(marked(sql, self.style), params)
            return rows_of(cursor.fetchall()) if cursor.description else []
        finally:
            cursor.close()

    def count(self, sql: str, params: tuple[object, ...]) -> int:
        cursor = self.cursor()
        try:
            cursor.execute(marked(sql, self.style), params)
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def probe(self) -> None:
        """Raises if the transaction has failed and `is_broken` cannot tell."""

    def close(self) -> None:
        """Closes the connection that the link itself has opened, if any."""


class SqliteLink(DatabaseLink):
    dialect = "sqlite"
    style = "?"

    def is_open(self) -> bool:
        return bool(self.raw.in_transaction)

    def autocommits(self) -> bool:
        if self.raw.in_transaction:
            return False
        mode = getattr(self.raw, "autocommit", -1)  # Python 3.12; -1: isolation_level decides, as before
        return bool(mode) if mode != -1 else self.raw.isolation_level is None

    def begin(self) -> None:
        # Deferred, it would wait for the write lock in the middle of the transaction, where SQLite may refuse to wait.
        self.raw.execute("BEGIN IMMEDIATE").close()

    def commit(self) -> None:
        self.raw.execute("COMMIT").close()

    def rollback(self, error: BaseException) -> None:
        if self.raw.in_transaction:
            self.run("ROLLBACK", ())


class PsycopgState(State):
    """For psycopg, its AsyncConnection, and psycopg2."""

    dialect = "postgresql"

    def is_open(self) -> bool:
        return bool(self.raw.info.transaction_status != IDLE)

    def is_broken(self) -> bool:
        return bool(self.raw.info.transaction_status == IN_ERROR)

    def autocommits(self) -> bool:
        return bool(self.raw.autocommit) and not self.is_open()


class PsycopgLink(PsycopgState, DatabaseLink):
    block: Any = None

    def begin(self) -> None:
        # psycopg refuses commit() inside such a block, which would end the claim too early.
        self.block = self.raw.transaction()
        self.block.__enter__()

    def commit(self) -> None:
        self.block.__exit__(None, None, None)

    def rollback(self, error: BaseException) -> None:
        self.block.__exit__(type(error), error, error.__traceback__)

    def cursor(self) -> Any:
        from psycopg.rows import tuple_row

        return self.raw.cursor(row_factory=tuple_row)


class Psycopg2Link(PsycopgState, DatabaseLink):
    def begin(self) -> None:
        if self.raw.autocommit:  # else the first statement begins
            self.run("BEGIN", ())

    def commit(self) -> None:
        if self.raw.autocommit:
            self.run("COMMIT", ())
        else:
            self.raw.commit()

    def rollback(self, error: BaseException) -> None:
        if self.raw.autocommit:
            self.run("ROLLBACK", ())
        else:
            self.raw.rollback()


class MySqlLink(DatabaseLink):
    """PyMySQL and mysqlclient."""

    dialect = "mysql"

    def is_open(self) -> bool | None:
        status = getattr(self.raw, "server_status", None)
        return self._asked() if status is None else bool(status & IN_TRANSACTION)

    def is_busy(self) -> bool | None:
        """What cannot be known counts as open: BEGIN would commit it."""
        return self.is_open() is not False

    def _asked(self) -> bool | None:
        """mysqlclient does not tell, so the server must. None if that cannot tell either: MySQL without autocommit."""
        try:
            return bool(self.run("SELECT @@in_transaction", ())[0][0])  # MariaDB
        except Exception as error:
            if _number(error) != UNKNOWN_VARIABLE:
                raise
        if not self.raw.get_autocommit():
            return None
        try:  # a savepoint outside of a transaction is gone at once
            self.run("SAVEPOINT holdtight", ())
            self.run("RELEASE SAVEPOINT holdtight", ())
        except Exception as error:
            if _number(error) != NO_SAVEPOINT:
                raise
            return False
        return True

    def autocommits(self) -> bool:
        return bool(self.raw.get_autocommit()) and not self.is_open()

    def begin(self) -> None:
        self.run("BEGIN", ())


def _number(error: Exception) -> object:
    return error.args[0] if error.args else None


class DjangoLink(DatabaseLink):
    """`connections[alias]`, which has parameters as %s on every database."""

    atomic: Any = None

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.dialect = connection.vendor
        if connection.vendor not in ("sqlite", "postgresql", "mysql"):
            raise refusals.no_guard_for(connection.vendor)

    def is_open(self) -> bool:
        return bool(self.raw.in_atomic_block) or not self.raw.get_autocommit()

    def is_busy(self) -> bool:
        """Checks only whether autocommit was switched off by hand. `begin` finds an atomic block around this one, and
        ignores that of a test case."""
        return not self.raw.get_autocommit() and not self.raw.in_atomic_block

    def is_broken(self) -> bool:
        return bool(self.raw.needs_rollback)

    def autocommits(self) -> bool:
        return bool(self.raw.get_autocommit()) and not self.raw.in_atomic_block

    def begin(self) -> None:
        atomic: Any = import_module("django.db.transaction").atomic(using=self.raw.alias, durable=True)
        try:
            atomic.__enter__()
        except RuntimeError:
            raise refusals.transaction_open(self.raw.alias) from None
        self.atomic = atomic

    def commit(self) -> None:
        atomic, self.atomic = self.atomic, None
        atomic.__exit__(None, None, None)

    def rollback(self, error: BaseException) -> None:
        atomic, self.atomic = self.atomic, None
        if atomic is not None:
            atomic.__exit__(type(error), error, error.__traceback__)


def _django(connection: Any) -> DatabaseLink:
    return DjangoLink(import_module("django.db").connections[getattr(connection, "alias", connection)])


def _sqlalchemy(connection: Any) -> DatabaseLink:
    from holdtight.fencing.sqlalchemy_link import alchemy_link

    return alchemy_link(connection)


_DRIVERS: dict[str, Any] = {
    "sqlite3": SqliteLink,
    "psycopg": PsycopgLink,
    "psycopg2": Psycopg2Link,
    "pymysql": MySqlLink,
    "MySQLdb": MySqlLink,
    "sqlalchemy": _sqlalchemy,
    "django": _django,
    "asyncpg": None,
}


def link_to(connection: object) -> DatabaseLink:
    """Raises TypeError for an object that is not a connection that a guard knows, or is one for asyncio."""
    if isinstance(connection, str):
        return _django(connection)
    driver, cls = driver_of(connection)
    if driver == "asyncpg" or "Async" in cls:
        raise TypeError(f"{driver}.{cls} is for asyncio: use AsyncSqlGuard")
    if not driver:
        raise TypeError(
            f"conn is a {cls}, not a connection that a guard knows: sqlite3, psycopg, psycopg2, PyMySQL, mysqlclient, "
            "SQLAlchemy (Engine, Connection, Session), or Django (connection or alias)"
        )
    link: DatabaseLink = _DRIVERS[driver](connection)
    return link
