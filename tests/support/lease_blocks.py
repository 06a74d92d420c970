"""`async with await lock.acquire()` in place of `async with lock`, for tests of what both promise."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from holdtight import AsyncLease, AsyncLocks

__all__ = ["LeaseBlock", "LeaseLocks"]


class LeaseBlock:
    """A lock whose block is that of a lease."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._leases: list[AsyncLease] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)

    async def __aenter__(self) -> AsyncLease:
        lease: AsyncLease = await self._lock.acquire()
        assert await lease.__aenter__() is lease
        self._leases.append(lease)
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leases.pop().__aexit__(kind, error, trace)


class LeaseLocks:
    """A client whose locks are LeaseBlocks."""

    def __init__(self, locks: AsyncLocks) -> None:
        self._locks = locks

    def lock(self, name: str, **options: Any) -> Any:
        return LeaseBlock(self._locks.lock(name, **options))

    def multi(self, *names: str, **options: Any) -> Any:
        return LeaseBlock(self._locks.multi(*names, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._locks, name)
