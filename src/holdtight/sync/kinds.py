"""Read-write locks and semaphores for blocking code. They acquire, wait and release as every Lock does."""

from typing import TYPE_CHECKING

from holdtight.base.values import LockInfo
from holdtight.clients.readwrite import BaseReadWriteLock
from holdtight.config.settings import UNSET
from holdtight.sync.hold import Hold
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock

if TYPE_CHECKING:
    from typing import Never

    from holdtight.config.options import Duration
    from holdtight.config.profiles import Unset

__all__ = ["ReadWriteLock", "Semaphore"]


class ReadWriteLock(BaseReadWriteLock[Lock]):
    """A read-write lock: `read()` and `write()` each return a Lock. `locks.rwlock(name)` makes one.

    Example:
        >>> with locks.rwlock("book").read() as lease:
        ...     print(lease.kind.value)
        shared
    """

    __slots__ = ()

    def locked(self) -> bool:
        """Whether it is held at this moment, for reading or for writing. Raises Unavailable.

        Example:
            >>> locks.rwlock("book").locked()
            False
        """
        return self._read.locked()

    def inspect(self) -> LockInfo:
        """The holders, and the waiters in order. Raises Unavailable.

        Example:
            >>> with locks.rwlock("book").read():
            ...     len(locks.rwlock("book").inspect().holders)
            1
        """
        return self._read.inspect()


class Semaphore(Lock):
    """A semaphore: at most `permits` are held at a time. `locks.semaphore(name, permits=3)` makes one. The permits of a
    crashed holder are free again after its ttl.

    Example:
        >>> with locks.semaphore("printers", permits=2).acquire(2, wait=5) as lease:
        ...     lease.check()
    """

    __slots__ = ()

    def acquire(self, n: int = 1, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> Lease:
        """Returns a lease on `n` permits at once; `wait` is how long to wait for them. Raises as `Lock.acquire`;
        TypeError or ValueError for a bad `n`.

        Example:
            >>> locks.semaphore("seats", permits=3).acquire(2, wait=5).release()
        """
        return Lock.acquire(self.asking_for(n), wait=wait, **unknown)

    def try_acquire(self, n: int = 1) -> Lease | None:
        """Returns a Lease on `n` permits, or None if that many are not free. Never waits. Raises as `acquire`.

        Example:
            >>> lease = locks.semaphore("seats", permits=3).try_acquire(2)
            >>> lease.release()
        """
        return Lock.try_acquire(self.asking_for(n))

    def hold(self, n: int = 1, *, wait: "Duration | Unset | None" = UNSET, **unknown: "Never") -> Hold:
        """A single-use context manager on `n` permits: one thread may enter it, another exit. `wait` as for `acquire`;
        entering raises as `acquire`.

        Example:
            >>> with locks.semaphore("seats", permits=3).hold(2) as lease:
            ...     lease.check()
        """
        return Lock.hold(self.asking_for(n), wait=wait, **unknown)
