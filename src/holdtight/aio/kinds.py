"""Read-write locks and semaphores for asyncio code. They acquire, wait and release as every AsyncLock does."""

from typing import Any

from holdtight.aio.awaiting import gives_a_lease
from holdtight.aio.hold import AsyncHold
from holdtight.aio.lease import AsyncLease
from holdtight.aio.lock import AsyncLock
from holdtight.base.values import LockInfo
from holdtight.clients.readwrite import BaseReadWriteLock
from holdtight.config.settings import UNSET

__all__ = ["AsyncReadWriteLock", "AsyncSemaphore"]


class AsyncReadWriteLock(BaseReadWriteLock[AsyncLock]):
    """`read()` and `write()` each return an AsyncLock."""

    __slots__ = ()

    async def locked(self) -> bool:
        """Whether it is held at this moment, for reading or for writing. Raises Unavailable."""
        return await self._read.locked()

    async def inspect(self) -> LockInfo:
        """The holders, and the waiters in order. Raises Unavailable."""
        return await self._read.inspect()


class AsyncSemaphore(AsyncLock):
    """At most `permits` are held at a time. The permits of a crashed holder are free again after its ttl."""

    __slots__ = ()

    @gives_a_lease
    async def acquire(self, n: int = 1, *, wait: Any = UNSET) -> AsyncLease:
        """Returns a lease on `n` permits at once. Raises as AsyncLock does; TypeError or ValueError for a bad `n`."""
        return await AsyncLock.acquire(self.asking_for(n), wait=wait)

    @gives_a_lease
    async def try_acquire(self, n: int = 1) -> AsyncLease | None:
        """Returns a lease on `n` permits, or None if that many are not free. Never waits. Raises as `acquire`."""
        return await AsyncLock.try_acquire(self.asking_for(n))

    def hold(self, n: int = 1, *, wait: Any = UNSET) -> AsyncHold:
        """A single-use context manager on `n` permits: one task may enter it, another exit. Raises as `acquire`."""
        return AsyncLock.hold(self.asking_for(n), wait=wait)
