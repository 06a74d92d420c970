"""Read-write locks and semaphores for asyncio code. Taking, waiting and giving back are those of every AsyncLock."""

from typing import Any

from holdtight.aio.hold import AsyncHold
from holdtight.aio.lease import AsyncLease
from holdtight.aio.lock import AsyncLock
from holdtight.base.values import LockInfo
from holdtight.clients.readwrite import BaseReadWriteLock
from holdtight.config.settings import UNSET

__all__ = ["AsyncReadWriteLock", "AsyncSemaphore"]


class AsyncReadWriteLock(BaseReadWriteLock[AsyncLock]):
    """`read()` and `write()` each give an AsyncLock."""

    __slots__ = ()

    async def locked(self) -> bool:
        """Whether anybody holds it, for reading or for writing."""
        return await self._read.locked()

    async def inspect(self) -> LockInfo:
        """Who holds it and who waits, in order."""
        return await self._read.inspect()


class AsyncSemaphore(AsyncLock):
    """At most `permits` are held at a time; a crashed holder's come back after its ttl."""

    __slots__ = ()

    async def acquire(self, n: int = 1, *, wait: Any = UNSET) -> AsyncLease:
        """A lease on `n` permits at once; errors as of an AsyncLock."""
        return await AsyncLock.acquire(self.asking_for(n), wait=wait)

    async def try_acquire(self, n: int = 1) -> AsyncLease | None:
        """A lease on `n` permits, or None if that many cannot be had now. Never waits."""
        return await AsyncLock.try_acquire(self.asking_for(n))

    def hold(self, n: int = 1, *, wait: Any = UNSET) -> AsyncHold:
        """A single-use context manager on `n` permits: enter and exit may be in different tasks."""
        return AsyncLock.hold(self.asking_for(n), wait=wait)
