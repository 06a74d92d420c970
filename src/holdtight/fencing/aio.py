"""The guard of a SQL database, for asyncio."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, overload

from holdtight.fencing import plans
from holdtight.fencing.aio_links import async_link_to
from holdtight.fencing.sql import BaseGuard

if TYPE_CHECKING:
    from holdtight.aio.lease import AsyncLease
    from holdtight.config.options import Duration

__all__ = ["AsyncSqlGuard"]


async def drive(link: Any, plan: plans.Plan) -> Any:
    """Runs a plan to its end. Methods of a link that send nothing are plain functions, not coroutines."""
    try:
        action = next(plan)
        while True:
            try:
                answer = getattr(link, action.verb)(*action.args)
                if hasattr(answer, "__await__"):
                    answer = await answer
            except BaseException as error:
                action = plan.throw(error)
            else:
                action = plan.send(answer)
    except StopIteration as end:
        return end.value


@asynccontextmanager
async def _linked(conn: object) -> AsyncGenerator[Any, None]:
    link = await async_link_to(conn)
    try:
        yield link
    finally:
        await link.close()


class AsyncSqlGuard(BaseGuard):
    """As `SqlGuard`, for asyncio: the same table, so that both exclude each other. A connection is psycopg's
    AsyncConnection, one of asyncpg, or SQLAlchemy's AsyncEngine, AsyncConnection or AsyncSession.

    Example:
        >>> from psycopg import AsyncConnection
        >>> from holdtight.fencing import AsyncSqlGuard
        >>> guard = AsyncSqlGuard()
        >>> async def sell():
        ...     async with AsyncLocks("memory://") as locks, await AsyncConnection.connect(dsn) as conn:
        ...         await guard.create(conn)
        ...         async with locks.lock("sku:1") as lease, guard.under(lease, conn) as tx:
        ...             rows = await tx.execute("UPDATE sku SET stock = stock - 1 WHERE id = 1 RETURNING stock")
        ...             return await rows.fetchone()
        >>> asyncio.run(sell())
        (9,)
    """

    async def create(self, conn: Any) -> None:
        """Creates the table if it is not there. Commits, unless a transaction of yours is open."""
        async with _linked(conn) as link:
            await drive(link, plans.create(link, self.table))

    @overload
    async def claim(self, conn: Any, lease: "AsyncLease", /) -> None: ...
    @overload
    async def claim(self, conn: Any, name: str, fence: int, /) -> None: ...
    async def claim(self, conn: Any, lease: "AsyncLease | str", fence: int | None = None, /) -> None:
        """As `SqlGuard.claim`."""
        claims = plans.claims_of(lease, fence)
        async with _linked(conn) as link:
            await drive(link, plans.claim(link, self.table, claims))

    @asynccontextmanager
    async def under(self, lease: "AsyncLease", conn: Any) -> AsyncGenerator[Any, None]:
        """As `SqlGuard.under`. The lease's own block cancels the body when the lease is lost, which rolls back."""
        claims = plans.claims_of(lease)
        async with _linked(conn) as link:
            await drive(link, plans.enter(link, self.table, lease, claims, self.end_paused))
            try:
                yield link.handle
                await drive(link, plans.leave(link, lease))
            except BaseException as error:
                with suppress(Exception):  # a broken connection has rolled back already; `error` says why
                    await link.rollback(error)
                raise

    async def seen(self, conn: Any, name: str) -> int | None:
        """As `SqlGuard.seen`."""
        async with _linked(conn) as link:
            found: int | None = await drive(link, plans.seen(link, self.table, name))
            return found

    async def prune(self, conn: Any, older_than: "Duration") -> int:
        """As `SqlGuard.prune`."""
        async with _linked(conn) as link:
            return int(await drive(link, plans.prune(link, self.table, older_than)))
