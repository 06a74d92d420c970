"""Links to SQLAlchemy 2: an Engine, a Connection, a Session."""

from typing import Any

from sqlalchemy import text

from holdtight.base import refusals
from holdtight.fencing.links import IN_ERROR, DatabaseLink, driver_of, rows_of
from holdtight.fencing.statements import marked

__all__ = ["ConnectionLink", "SessionLink", "alchemy_link"]

_DIALECTS = {"sqlite": "sqlite", "postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}


class ConnectionLink(DatabaseLink):
    style = ":p"

    def __init__(self, connection: Any, *, owned: bool = False) -> None:
        super().__init__(connection)
        self._owned = owned
        name = self.connection_dialect()
        if name not in _DIALECTS:
            raise refusals.no_guard_for(name)
        self.dialect = _DIALECTS[name]  # type: ignore[assignment]  # pyright: ignore

    def connection_dialect(self) -> str:
        return str(self.raw.dialect.name)

    def connection(self) -> Any:
        return self.raw

    def driver(self) -> Any:
        """The driver's connection, as SQLAlchemy uses it: for asyncio, an adapter around the driver's own."""
        return self.connection().connection.dbapi_connection

    def real(self) -> Any:
        """The driver's own connection. Adapters hide in_transaction (aiosqlite), and get_autocommit before SQLAlchemy
        2.0.43 (aiomysql, asyncmy: their `autocommit` is a method that sets it)."""
        return self.connection().connection.driver_connection

    def is_open(self) -> bool:
        return bool(self.raw.in_transaction())

    def is_broken(self) -> bool:
        info: Any = getattr(self.driver(), "info", None)
        return getattr(info, "transaction_status", None) == IN_ERROR

    def probe(self) -> None:
        if self.dialect == "postgresql" and not hasattr(self.driver(), "info"):
            self.run("SELECT 1", ())  # asyncpg: see AsyncpgLink

    def autocommits(self) -> bool:
        real = self.real()
        if self.dialect == "sqlite":
            return self._is_never_ended() or (real.isolation_level is None and not real.in_transaction)
        ask = getattr(real, "get_autocommit", None)
        return bool(ask() if ask is not None else self.driver().autocommit)

    def begin(self) -> None:
        self.raw.begin()
        if self.dialect == "sqlite" and not self.real().in_transaction and not self._is_never_ended():
            self.connection().exec_driver_sql("BEGIN IMMEDIATE")

    def _is_never_ended(self) -> bool:
        """Whether SQLAlchemy would leave a transaction of SQLite open: a later one would end it, or nothing would."""
        real = self.real()
        if getattr(real, "autocommit", None) is True:  # Python 3.12: commit() and rollback() do nothing
            return True
        skips = getattr(self.connection().dialect, "skip_autocommit_rollback", False)  # SQLAlchemy 2.0.43
        return bool(skips) and real.isolation_level is None

    def run(self, sql: str, params: tuple[object, ...]) -> list[tuple[Any, ...]]:
        found = self._execute(sql, params)
        return rows_of(found.fetchall()) if found.returns_rows else []

    def count(self, sql: str, params: tuple[object, ...]) -> int:
        return int(self._execute(sql, params).rowcount)

    def _execute(self, sql: str, params: tuple[object, ...]) -> Any:
        named = {f"p{number}": value for number, value in enumerate(params, 1)}
        return self.connection().execute(text(marked(sql, self.style)), named)

    def close(self) -> None:
        if self._owned:
            self.raw.close()


class SessionLink(ConnectionLink):
    def connection_dialect(self) -> str:
        return str(self.raw.get_bind().dialect.name)

    def connection(self) -> Any:
        return self.raw.connection()

    def unsaved(self) -> str:
        changed = [*self.raw.dirty, *self.raw.deleted]
        return ", ".join(sorted({type(each).__name__ for each in changed}))

    def forget(self) -> None:
        self.raw.expire_all()


def alchemy_link(connection: Any) -> DatabaseLink:
    cls = driver_of(connection)[1]
    if cls == "scoped_session":
        connection, cls = connection(), "Session"
    if cls == "Engine":
        return ConnectionLink(connection.connect(), owned=True)
    if cls == "Connection":
        return ConnectionLink(connection)
    if hasattr(connection, "expire_all"):
        return SessionLink(connection)
    raise TypeError(f"conn is SQLAlchemy's {cls}; a guard takes an Engine, a Connection or a Session")
