"""Read-write locks and semaphores for blocking code. Taking, waiting and giving back are those of every Lock."""

from typing import Any

from holdtight.base.values import LockInfo
from holdtight.clients.readwrite import BaseReadWriteLock
from holdtight.config.settings import UNSET
from holdtight.sync.hold import Hold
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock

__all__ = ["ReadWriteLock", "Semaphore"]


class ReadWriteLock(BaseReadWriteLock[Lock]):
    """`read()` and `write()` each give a Lock."""

    __slots__ = ()

    def locked(self) -> bool:
        """Whether anybody holds it, for reading or for writing."""
        return self._read.locked()

    def inspect(self) -> LockInfo:
        """Who holds it and who waits, in order."""
        return self._read.inspect()


class Semaphore(Lock):
    """At most `permits` are held at a time; a crashed holder's come back after its ttl."""

    __slots__ = ()

    def acquire(self, n: int = 1, *, wait: Any = UNSET) -> Lease:
        """A Lease on `n` permits at once; errors as of a Lock."""
        return Lock.acquire(self.asking_for(n), wait=wait)

    def try_acquire(self, n: int = 1) -> Lease | None:
        """A Lease on `n` permits, or None if that many cannot be had now. Never waits."""
        return Lock.try_acquire(self.asking_for(n))

    def hold(self, n: int = 1, *, wait: Any = UNSET) -> Hold:
        """A single-use context manager on `n` permits: enter and exit may be in different threads."""
        return Lock.hold(self.asking_for(n), wait=wait)
