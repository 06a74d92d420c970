"""Read-write locks and semaphores for asyncio code. They acquire, wait and release as every AsyncLock does."""

from typing import TYPE_CHECKING

from holdtight.aio.awaiting import gives_a_lease, gives_an_answer
from holdtight.aio.hold import AsyncHold
from holdtight.aio.lease import AsyncLease
from holdtight.aio.lock import AsyncLock
from holdtight.base.values import LockInfo
from holdtight.clients.readwrite import BaseReadWriteLock
from holdtight.config.settings import UNSET

if TYPE_CHECKING:
    from typing import Never

    from holdtight.config.options import Duration
    from holdtight.config.profiles import Unset

__all__ = ["AsyncReadWriteLock", "AsyncSemaphore"]


class AsyncReadWriteLock(BaseReadWriteLock[AsyncLock]):
    """A read-write lock: `read()` and `write()` each return an AsyncLock. `locks.rwlock(name)` makes one.

    Example:
        >>> async def main():
        ...     async with AsyncLocks("memory://") as locks, locks.rwlock("book").read() as lease:
        ...         print(lease.kind.value)
        >>> asyncio.run(main())
        shared
    """

    __slots__ = ()

    @gives_an_answer
    async def locked(self) -> bool:
        """Whether it is held at this moment, for reading or for writing. Raises Unavailable."""
        return await self._read.locked()

    async def inspect(self) -> LockInfo:
        """The holders, and the waiters in order. Raises Unavailable."""
        return await self._read.inspect()


class AsyncSemaphore(AsyncLock):
    """A semaphore: at most `permits` are held at a time. `locks.semaphore(name, permits=3)` makes one. The permits of a
    crashed holder are free again after its ttl.

    Example:
        >>> async def main():
        ...     async with AsyncLocks("memory://") as locks:
        ...         async with locks.semaphore("printers", permits=2).hold(2, wait=5) as lease:
        ...             lease.check()
        >>> asyncio.run(main())
    """

    __slots__ = ()

    @gives_a_lease
    async def acquire(self, n: int = 1, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> AsyncLease:
        """Returns a lease on `n` permits at once; `wait` is how long to wait for them. Raises as `AsyncLock.acquire`;
        TypeError or ValueError for a bad `n`.
        """
        return await AsyncLock.acquire(self.asking_for(n), wait=wait, **unknown)

    @gives_a_lease
    async def try_acquire(self, n: int = 1) -> AsyncLease | None:
        """Returns a lease on `n` permits, or None if that many are not free. Never waits. Raises as `acquire`."""
        return await AsyncLock.try_acquire(self.asking_for(n))

    def hold(self, n: int = 1, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> AsyncHold:
        """A single-use context manager on `n` permits: one task may enter it, another exit. `wait` as for `acquire`;
        entering raises as `acquire`.
        """
        return AsyncLock.hold(self.asking_for(n), wait=wait, **unknown)
