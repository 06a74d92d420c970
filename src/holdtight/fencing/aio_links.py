"""Links for asyncio: psycopg's AsyncConnection, asyncpg, and SQLAlchemy's async classes."""

from typing import Any

from holdtight.fencing.links import PsycopgState, State, driver_of, rows_of
from holdtight.fencing.statements import marked

__all__ = ["async_link_to"]


class AsyncLink(State):
    async def begin(self) -> None:
        raise NotImplementedError

    async def commit(self) -> None:
        raise NotImplementedError

    async def rollback(self, error: BaseException) -> None:
        raise NotImplementedError

    async def run(self, sql: str, params: tuple[object, ...]) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    async def count(self, sql: str, params: tuple[object, ...]) -> int:
        raise NotImplementedError

    async def probe(self) -> None:
        """Raises if the transaction has failed and `is_broken` cannot tell."""

    async def close(self) -> None:
        """Closes the connection that the link itself has opened, if any."""


class AsyncPsycopgLink(PsycopgState, AsyncLink):
    block: Any = None

    async def begin(self) -> None:
        self.block = self.raw.transaction()
        await self.block.__aenter__()

    async def commit(self) -> None:
        await self.block.__aexit__(None, None, None)

    async def rollback(self, error: BaseException) -> None:
        await self.block.__aexit__(type(error), error, error.__traceback__)

    def _cursor(self) -> Any:
        from psycopg.rows import tuple_row

        return self.raw.cursor(row_factory=tuple_row)

    async def run(self, sql: str, params: tuple[object, ...]) -> list[tuple[Any, ...]]:
        async with self._cursor() as cursor:
            await cursor.execute(marked(sql, self.style), params)
            return rows_of(await cursor.fetchall()) if cursor.description else []

    async def count(self, sql: str, params: tuple[object, ...]) -> int:
        async with self._cursor() as cursor:
            await cursor.execute(marked(sql, self.style), params)
            return int(cursor.rowcount)


class AsyncpgLink(AsyncLink):
    dialect = "postgresql"
    style = "$"
    block: Any = None

    def is_open(self) -> bool:
        return bool(self.raw.is_in_transaction())

    def autocommits(self) -> bool:
        return not self.is_open()

    async def probe(self) -> None:
        """asyncpg does not say whether the transaction has failed, but then any statement raises."""
        await self.raw.execute("SELECT 1")

    async def begin(self) -> None:
        self.block = self.raw.transaction()
        await self.block.start()

    async def commit(self) -> None:
        await self.block.commit()

    async def rollback(self, error: BaseException) -> None:
        await self.block.rollback()

    async def run(self, sql: str, params: tuple[object, ...]) -> list[tuple[Any, ...]]:
        return rows_of(await self.raw.fetch(marked(sql, self.style), *params))

    async def count(self, sql: str, params: tuple[object, ...]) -> int:
        said = await self.raw.execute(marked(sql, self.style), *params)  # such as DELETE 3
        return int(said.rpartition(" ")[2])


class AsyncAlchemyLink:
    """Runs the blocking link of the connection below, as SQLAlchemy's own async classes do."""

    def __init__(self, connection: Any, *, owned: bool = False) -> None:
        from holdtight.fencing.sqlalchemy_link import alchemy_link

        self.raw = self.handle = connection
        self._owned = owned
        session = getattr(connection, "sync_session", None)
        self._link = alchemy_link(connection.sync_connection if session is None else session)
        self.dialect = self._link.dialect

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._link, verb)

        async def run(*args: object) -> Any:
            def inside(_: object) -> Any:
                return method(*args)

            return await self.raw.run_sync(inside)

        return run

    async def close(self) -> None:
        if self._owned:
            await self.raw.close()


async def async_link_to(connection: object) -> Any:
    """Raises TypeError for an object that is not a connection that a guard knows, or is one for blocking code."""
    driver, cls = driver_of(connection)
    raw: Any = connection
    if driver == "asyncpg" and hasattr(connection, "is_in_transaction"):
        return AsyncpgLink(connection)
    if driver == "psycopg" and cls == "AsyncConnection":
        return AsyncPsycopgLink(connection)
    if driver == "sqlalchemy" and cls == "AsyncEngine":
        return AsyncAlchemyLink(await raw.connect(), owned=True)
    if driver == "sqlalchemy" and cls == "async_scoped_session":
        raw = raw()
    if driver == "sqlalchemy" and "Async" in cls:
        if cls == "AsyncConnection" and raw.sync_connection is None:
            raise TypeError("conn is an AsyncConnection that has not been started: use it in async with")
        return AsyncAlchemyLink(raw)
    raise TypeError(
        f"conn is a {cls}, not a connection for asyncio that a guard knows: psycopg's AsyncConnection, asyncpg's, or "
        "SQLAlchemy's AsyncEngine, AsyncConnection, AsyncSession"
    )
