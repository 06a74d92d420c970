"""AsyncSqlGuard with every kind of connection for asyncio. Its plans are those of SqlGuard."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from holdtight import AsyncLocks, LeaseLost, StaleFence, WrongTransaction
from holdtight.fencing import AsyncSqlGuard, SqlGuard
from holdtight.testing import lose
from tests.fencing.databases import Database, Postgres, Sqlite

pytestmark = pytest.mark.asyncio
GUARD = AsyncSqlGuard()
SELL = "UPDATE stock SET units = units - 1"


URLS = {
    "psycopg": "postgresql+psycopg://postgres@/postgres?host={.folder}",
    "asyncpg": "postgresql+asyncpg://postgres@/postgres?host={.folder}",
    "aiosqlite": "sqlite+aiosqlite:///{.path}",
}


@pytest.fixture
def database(kind: str, request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("sqlite" if kind.startswith("aiosqlite") else "postgres")


@asynccontextmanager
async def opened(kind: str, database: Any, **options: Any) -> AsyncIterator[Any]:
    driver, _, what = kind.partition(" ")
    if kind == "psycopg":
        async with await psycopg.AsyncConnection.connect(database.dsn) as connection:
            yield connection
            await connection.rollback()
    elif kind == "asyncpg":
        pool = await asyncpg.create_pool(host=str(database.folder), user="postgres", min_size=1, max_size=2)
        async with pool, pool.acquire() as connection:
            yield connection
    else:
        engine = create_async_engine(URLS[driver].format(database), **options)
        try:
            if what == "engine":
                yield engine
            elif what == "session":
                async with AsyncSession(engine) as session:
                    yield session
            else:
                async with engine.connect() as connection:
                    yield connection
        finally:
            await engine.dispose()


def own_store() -> str:
    """A store for each test: a lost lease stays in its store for a while."""
    return f"memory://{secrets.token_hex(4)}"


ON_SQLITE = ["aiosqlite engine", "aiosqlite connection", "aiosqlite session"]
KINDS = ["psycopg", "asyncpg", "psycopg engine", "asyncpg connection", "psycopg session", *ON_SQLITE]
every_kind = pytest.mark.parametrize("kind", KINDS)


async def run(tx: Any, sql: str) -> None:
    await tx.execute(text(sql) if "sqlalchemy" in type(tx).__module__ else sql)


def units(database: Database) -> int:
    return int(database.execute("SELECT units FROM stock")[0][0])


@every_kind
async def test_a_block_under_a_lease_is_one_transaction(kind: str, database: Database) -> None:
    async with AsyncLocks(own_store()) as locks, opened(kind, database) as connection:
        await GUARD.create(connection)
        async with locks.lock("sku:1") as lease, GUARD.under(lease, connection) as tx:
            await run(tx, SELL)
        assert units(database) == 99
        assert await GUARD.seen(connection, "sku:1") == lease.fence
        with pytest.raises(ZeroDivisionError):
            async with locks.lock("sku:1") as lease, GUARD.under(lease, connection) as tx:
                await run(tx, SELL)
                _ = 1 / 0
        assert units(database) == 99
        assert await GUARD.prune(connection, older_than="1h") == 0


@every_kind
async def test_a_lower_fence_is_refused(kind: str, database: Database) -> None:
    with closing(database.connect()) as blocking:
        SqlGuard().claim(blocking, "sku:1", 2**62)
        blocking.commit()
    async with AsyncLocks(own_store()) as locks, opened(kind, database) as connection:
        async with locks.lock("sku:1") as lease:
            with pytest.raises(StaleFence, match=str(2**62)):
                async with GUARD.under(lease, connection):
                    pytest.fail("the body ran")


@every_kind
async def test_a_lost_lease_cancels_the_body_and_rolls_back(kind: str, database: Database) -> None:
    async with AsyncLocks(own_store()) as locks, opened(kind, database) as connection:
        with pytest.raises(LeaseLost):
            async with locks.lock("sku:1") as lease, GUARD.under(lease, connection) as tx:
                await run(tx, SELL)
                lose(lease)
                await asyncio.sleep(30)
        assert units(database) == 100


@pytest.mark.parametrize("kind", ["psycopg", "asyncpg", "asyncpg connection", "psycopg session", *ON_SQLITE[1:]])
async def test_a_transaction_that_is_open_or_missing_is_refused(kind: str, database: Database) -> None:
    async with AsyncLocks(own_store()) as locks, opened(kind, database) as connection, locks.lock("sku:1") as lease:
        if kind == "asyncpg":
            with pytest.raises(WrongTransaction, match="autocommit"):
                await GUARD.claim(connection, lease)
            transaction = connection.transaction()
            await transaction.start()
        else:
            transaction = connection
            await run(connection, "SELECT 1")
        with pytest.raises(WrongTransaction, match="open already"):
            async with GUARD.under(lease, connection):
                pytest.fail("the body ran")
        await GUARD.claim(connection, lease)
        await run(connection, SELL)
        await transaction.commit()
        assert await GUARD.seen(connection, "sku:1") == lease.fence
    assert units(database) == 99


@pytest.mark.parametrize("kind", ["psycopg", "asyncpg", "asyncpg connection"])
async def test_a_statement_that_failed_inside_is_not_taken_for_success(kind: str, database: Database) -> None:
    async with AsyncLocks(own_store()) as locks, opened(kind, database) as connection, locks.lock("sku:1") as lease:
        with pytest.raises(Exception, match=r"failed, and the body went on|current transaction is aborted"):
            async with GUARD.under(lease, connection) as tx:
                await run(tx, SELL)
                with pytest.raises(Exception, match="does not exist"):
                    await run(tx, "SELECT * FROM nothing_of_that_name")
        assert units(database) == 100


@pytest.mark.parametrize("kind", ["psycopg engine", "asyncpg connection", "psycopg session", *ON_SQLITE])
async def test_under_refuses_the_isolation_level_autocommit_where_nothing_begins(kind: str, database: Database) -> None:
    refused = database.name != "sqlite"  # there the guard begins by a statement of its own
    options = {"isolation_level": "AUTOCOMMIT"}
    async with AsyncLocks(own_store()) as locks, opened(kind, database, **options) as connection:
        with pytest.raises(WrongTransaction if refused else ZeroDivisionError, match="autocommit" if refused else None):
            async with locks.lock("sku:1") as lease, GUARD.under(lease, connection) as tx:
                await run(tx, SELL)
                _ = 1 / 0
        assert await GUARD.seen(connection, "sku:1") is None
    assert units(database) == 100


async def test_a_blocking_connection_is_refused_and_the_other_way_round(postgres: Postgres, sqlite: Sqlite) -> None:
    with sqlite.connect() as blocking, pytest.raises(TypeError, match="not a connection for asyncio"):
        await GUARD.claim(blocking, "x", 1)
    blocking.close()
    for kind in KINDS:
        async with opened(kind, sqlite if kind in ON_SQLITE else postgres) as connection:
            with pytest.raises(TypeError, match=r"use AsyncSqlGuard"):
                SqlGuard().claim(connection, "x", 1)
